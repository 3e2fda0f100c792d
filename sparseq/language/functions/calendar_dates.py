"""Days of the calendar: the last of a month, names, and dates made of their parts."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.types import Family

Z, N, D, S = Family.INTEGER, Family.DOUBLE, Family.DATE, Family.TIMESTAMP
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_MONTHS = "January February March April May June July August September October November December"
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


for _kind in (D, S):
    _add(
        "last_day",
        "last_day({0})",
        (_kind,),
        lambda t: T.shift_type(T.Type(D, t[0].low, t[0].high), 0, 31),
        "last_day({0})",
        "of its month",
    )
    for _name, _values in {"dayname": _DAYS, "monthname": _MONTHS}.items():
        _add(
            _name,
            f"{_name}({{0}})",
            (_kind,),
            T.TEXT,
            f"{_name}({{0}})",
            "in English",
            values=tuple(_values.split()),
        )
    _add("isfinite", "isfinite({0})", (_kind,), T.BOOLEAN, "isfinite({0})", "true")
_YEAR = "TRY_CAST({0} AS DECIMAL(4, 0))"
_add(
    "make_date",
    "make_date({0}, {1}, {2})",
    (Z, Z, Z),
    T.Type(D, -366 * 10**4 + T.FIRST_DAY, T.LAST_DAY),
    f"TRY_CAST({_YEAR} || '-' || {{1}} || '-' || {{2}} AS DATE)",
    "NULL if there is no such day",
)

_CLOCK_US = " + ".join(
    f"CAST(CASE WHEN {{{i}}} >= 0 AND {{{i}}} < {most} THEN {{{i}}} END AS BIGINT) * {us}"
    for i, most, us in ((3, 24, 3_600_000_000), (4, 60, 60_000_000))
)
_add(
    "make_timestamp",
    "make_timestamp({0}, {1}, {2}, {3}, {4}, {5})",
    (Z, Z, Z, Z, Z, N),
    T.shift_type(T.Type(S, -366 * 10**4 + T.FIRST_DAY, T.LAST_DAY), 0, 1),
    f"(CAST(TRY_CAST({_YEAR} || '-' || {{1}} || '-' || {{2}} AS DATE) AS TIMESTAMP) + "
    f"to_microseconds({_CLOCK_US} + "
    "CAST(round(CASE WHEN {5} >= 0 AND {5} < 60 THEN {5} END * 1e6) AS BIGINT)))",
    "NULL if there is no such moment",
)
