"""The table of all functions and operators of a query, by type of argument.

An entry gives a function's form in a query, its argument and result types, its value for every
value of its arguments, and its SQL. The page in docs and the exhaustive test use this table.

**Total.** No entry's SQL can raise an error, whatever values its arguments have within their types:
integers that could exceed 64 bits are computed in 128 and cast back by TRY_CAST, which gives NULL;
integers that are wider from the start stay in 128 bits, or are refused; a zero divisor becomes
NULL; decimals have room for the result, or become doubles; the amount added to a date is clamped to
DuckDB's range of dates; doubles follow IEEE 754. `tests/language/test_total.py` tries every entry
on extreme values, in every position, with DuckDB's statistics on and off.
"""

from __future__ import annotations

from sparseq.language.functions import (
    calendar_dates,
    date_arithmetic,
    date_parts,
    decimals,
    doubles,
    integers,
    json_texts,
    lists,
    text_edits,
    text_patterns,
    texts,
    truths,
)
from sparseq.language.functions.function import Function

__all__ = ["FUNCTIONS", "Function", "overloads", "values_of"]
FUNCTIONS: list[Function] = [
    *integers.FUNCTIONS,
    *decimals.FUNCTIONS,
    *doubles.FUNCTIONS,
    *texts.FUNCTIONS,
    *text_edits.FUNCTIONS,
    *text_patterns.FUNCTIONS,
    *json_texts.FUNCTIONS,
    *lists.FUNCTIONS,
    *date_parts.FUNCTIONS,
    *date_arithmetic.FUNCTIONS,
    *calendar_dates.FUNCTIONS,
    *truths.FUNCTIONS,
]
_BY_NAME: dict[str, list[Function]] = {}
for _f in FUNCTIONS:
    _BY_NAME.setdefault(_f.name, []).append(_f)


def overloads(name: str) -> list[Function]:
    """Return the overloads of a function, in the order in which they are tried.

    Example:
        >>> [f.takes for f in overloads("sqrt")]
        [(<Family.DOUBLE: 'number'>,)]
    """
    return _BY_NAME.get(name, [])


def values_of(name: str) -> tuple[str, ...] | None:
    """Return all values of a function but NULL, if its entry lists them.

    Example:
        >>> values_of("dayname")[:2], values_of("lower")
        (('Monday', 'Tuesday'), None)
    """
    return next((f.values for f in overloads(name)), None)
