"""Parts of dates and times, differences in units, and conversion to and from text."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.types import Family

X, D, S, M = Family.TEXT, Family.DATE, Family.TIMESTAMP, Family.TIME
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


_PARTS = {
    "year": (-200_000, 200_000),
    "month": (1, 12),
    "day": (1, 31),
    "quarter": (1, 4),
    "week": (1, 53),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "isoyear": (-200_000, 200_000),
    "decade": (-20_000, 20_000),
    "century": (-2_000, 2_000),
    "millennium": (-200, 200),
    "yearweek": (-20_000_053, 20_000_053),
}
_CLOCK = {"hour": (0, 23), "minute": (0, 59), "second": (0, 59)}
for _part, _range in _PARTS.items():
    for _kind in (D, S):
        _add(
            _part,
            f"extract({_part} FROM {{0}})",
            (_kind,),
            T.integer(*_range),
            f"date_part('{_part}', {{0}})",
            "the part",
        )
for _part, _range in _CLOCK.items():
    for _kind in (S, M):
        _add(
            _part,
            f"extract({_part} FROM {{0}})",
            (_kind,),
            T.integer(*_range),
            f"date_part('{_part}', {{0}})",
            "the part; 0 for a date",
        )
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_SECONDS = {"second": 86400, "minute": 1440, "hour": 24}
for _unit in UNITS:
    for _kind in (D, S):
        _add(
            f"date_trunc {_unit}",
            f"date_trunc('{_unit}', {{0}})",
            (_kind,),
            lambda t: T.shift_type(T.Type(S, t[0].low, t[0].high), 366, 0),
            f"CAST(date_trunc('{_unit}', {{0}}) AS TIMESTAMP)",
            f"the first moment of the {_unit}",
        )
        _most = 2 * 10**8 * _SECONDS.get(_unit, 1)
        _add(
            f"date_diff {_unit}",
            f"date_diff('{_unit}', {{0}}, {{1}})",
            (_kind, _kind),
            T.integer(-_most, _most),
            f"date_diff('{_unit}', {{0}}, {{1}})",
            f"the number of {_unit}s that begin from the first to the second",
        )
for _unit in UNITS:
    for _kind in (D, S):
        _most = 2 * 10**8 * _SECONDS.get(_unit, 1)
        _add(
            f"date_sub {_unit}",
            f"date_sub('{_unit}', {{0}}, {{1}})",
            (_kind, _kind),
            T.integer(-_most, _most),
            f"date_sub('{_unit}', {{0}}, {{1}})",
            f"the number of full {_unit}s from the first to the second",
        )
for _kind in (D, S):
    _add("epoch", "epoch({0})", (_kind,), T.DOUBLE, "epoch({0})", "seconds since 1970")
    for _name, _most in {"epoch_ms": 2 * 10**16, "epoch_us": T.INT64[1]}.items():
        _add(
            _name,
            f"{_name}({{0}})",
            (_kind,),
            T.integer(-_most, _most),
            f"{_name}({{0}})",
            f"{'milli' if 'ms' in _name else 'micro'}seconds since 1970",
        )
    for _part, _most in {"year": 400_000, "month": 11, "day": 31}.items():
        _add(
            f"age {_part}",
            f"extract({_part} FROM age({{0}}, {{1}}))",
            (_kind, _kind),
            T.integer(-_most, _most),
            f"date_part('{_part}', age(CAST({{0}} AS TIMESTAMP), CAST({{1}} AS TIMESTAMP)))",
            "one part of the years, months and days from the second to the first",
        )
    _add(
        "strftime",
        "strftime({0}, {1})",
        (_kind, X),
        T.TEXT,
        "strftime({0}, {1})",
        "as text, in a format such as '%Y-%m'",
        fixed=(1,),
        samples=(("'%Y-%m-%d %H:%M:%S'",), ("'%j %A'",)),
    )
_add(
    "strptime",
    "strptime({0}, {1})",
    (X, X),
    T.Type(S, -(10**9), 10**9),
    "try_strptime({0}, {1})",
    "NULL if the text does not have this format",
    fixed=(1,),
    samples=(("'%Y-%m-%d'",), ("'%d/%m/%y %H:%M:%S.%f'",)),
)
