"""Arithmetic of dates and times: differences, intervals, time zones, and seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable, Types
from sparseq.language.types import Family, Type

Z, N, X, D, S = Family.INTEGER, Family.DOUBLE, Family.TEXT, Family.DATE, Family.TIMESTAMP
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


_add(
    "- day",
    "extract(day FROM {0} - {1})",
    (S, S),
    T.integer(-(2 * 10**8), 2 * 10**8),
    "date_sub('day', {1}, {0})",
    "full days from the second to the first",
)
_add(
    "- epoch",
    "epoch({0} - {1})",
    (S, S),
    T.DOUBLE,
    "((CAST(epoch_us({0}) AS HUGEINT) - epoch_us({1})) / 1e6)",
    "seconds from the second to the first",
)


def _by_zone(t: Types) -> str:
    moment = "make_timestamptz(epoch_us({0}))"
    return (
        f"timezone({{1}}, {moment})"
        if t[0].zoned
        else "make_timestamp(epoch_us(timezone({1}, {0})))"
    )


_add(
    "timezone",
    "({0} AT TIME ZONE {1})",
    (S, X),
    lambda t: replace(T.shift_type(t[0], 1, 1), zoned=not t[0].zoned),
    _by_zone,
    "for a moment (TIMESTAMPTZ): the local time there. For another time: the moment of this "
    "local time; the later one if it occurs twice; if it is skipped, by the offset before",
    fixed=(1,),
    samples=(("'Europe/Berlin'",), ("'Pacific/Apia'",), ("'America/St_Johns'",)),
)
_PER_SECOND = {"to_timestamp": (1, "seconds"), "epoch_ms": (10**3, "milliseconds")}
for _name, (_per, _words) in (_PER_SECOND | {"make_timestamp": (10**6, "microseconds")}).items():
    _first, _last = (d * 86400 * _per for d in (T.FIRST_DAY, T.LAST_DAY + 1))
    for _kind in (Z, N) if _name == "to_timestamp" else (Z,):
        _inside = f"CASE WHEN {{0}} >= {_first} AND {{0}} < {_last} THEN {{0}} END"
        _add(
            _name,
            f"{_name}({{0}})",
            (_kind,),
            T.INSTANT if _name == "to_timestamp" else T.TIMESTAMP,
            f"make_timestamp(CAST({_inside} AS BIGINT) * {10**6 // _per})"
            if _kind is Z
            else f"make_timestamp(CAST(round(({_inside}) * 1e6) AS BIGINT))",
            f"this number of {_words} after 1970, in UTC; NULL outside the years 1 to 9999",
        )
_add("-", "({0} - {1})", (D, D), T.integer(-(2 * 10**8), 2 * 10**8), "({0} - {1})", "in days")
DAYS_DIGITS = 7
_MOST_DAYS = 10**DAYS_DIGITS
_FEW = f"CAST(TRY_CAST({{1}} AS DECIMAL({DAYS_DIGITS}, 0)) AS INTEGER)"
for _op in "+-":
    _add(
        _op,
        f"({{0}} {_op} {{1}})",
        (D, Z),
        lambda t: T.shift_type(t[0], _MOST_DAYS, _MOST_DAYS),
        f"({{0}} {_op} {_FEW})",
        "later or earlier by this number of days; NULL from 10^7 days on",
    )
INTERVALS = {
    # unit: (digits of the number, SQL of the interval, the most days)
    "year": (4, "to_years(CAST({n} AS INTEGER))", 366 * 10**4),
    "quarter": (5, "to_months(CAST(3 * {n} AS INTEGER))", 93 * 10**5),
    "month": (5, "to_months(CAST({n} AS INTEGER))", 31 * 10**5),
    "week": (6, "to_days(CAST(7 * {n} AS INTEGER))", 7 * 10**6),
    "day": (7, "to_days(CAST({n} AS INTEGER))", 10**7),
    "hour": (8, "to_hours(CAST({n} AS BIGINT))", 10**8 // 24),
    "minute": (9, "to_minutes(CAST({n} AS BIGINT))", 10**9 // 1440),
    "second": (11, "to_seconds(CAST({n} AS BIGINT))", 10**11 // 86400),
}


def _shifted_by(days: int) -> Callable[[Types], Type]:
    return lambda t: T.shift_type(T.Type(S, t[0].low, t[0].high), days, days)


for _unit, (_digits, _sql, _days) in INTERVALS.items():
    _number = f"TRY_CAST({{1}} AS DECIMAL({_digits}, 0))"
    for _op in "+-":
        for _kind in (D, S):
            _add(
                f"{_op} {_unit}",
                f"({{0}} {_op} INTERVAL ({{1}}) {_unit})",
                (_kind, Z),
                _shifted_by(_days),
                f"(CAST({{0}} AS TIMESTAMP) {_op} {_sql.replace('{n}', _number)})",
                f"later or earlier by this number of {_unit}s; NULL from 10^{_digits} on",
            )
