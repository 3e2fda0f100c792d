"""The ends of an expression's values: an interval that holds each value but NULL.

The ends of a column are given. Those of a function follow from the ends of its arguments, by the
function's entry: its rule in the table (`sparseq.language.functions`), or a rule here, if it is no
function of numbers alone. Dates and timestamps are in days since 1970. Ends set the scale of the
noise. Privacy does not depend on them: wrong ends cost accuracy, and the charge is computed from
the users' actual contributions.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.language.aggregate_functions import overloads
from sparseq.language.expression_tree import Term, day_of, may_be_null
from sparseq.language.interval_arithmetic import lies_in
from sparseq.language.interval_rules import rule_of
from sparseq.language.types import Family

Interval = tuple[float, float]
ANY = (-math.inf, math.inf)
_LONGEST = {"year": 366, "quarter": 92, "month": 31, "week": 7}
_SHORTEST = {"year": 365, "quarter": 90, "month": 28, "week": 7, "day": 1}
_EPOCH = dt.date(1970, 1, 1)
_FEW = 1_000
_SAME = ("plain", "exact", "in range")
"""Functions whose value is their argument, or NULL."""
_BETWEEN = ("avg", "quantile", "quantile_cont")
"""Aggregates that lie between the least and the greatest value."""


@dataclass(frozen=True)
class RowFacts:
    """Facts about expressions that hold on every row of a query.

    Attributes:
        ends: Returns known ends of a column, or of any other expression; None if there are none.
        has_value: Tells whether an expression is known not to be NULL.
    """

    ends: Callable[[Term], Interval | None]
    has_value: Callable[[Term], bool] = lambda _: False


def ends_of(term: Term, facts: RowFacts) -> Interval:
    """Return an interval that holds every value of a term; an unknown end is infinite.

    Example:
        >>> from sparseq.language.expression_tree import call, column, constant
        >>> from sparseq.language.types import DOUBLE
        >>> x, two = column("x", DOUBLE), constant(2.0, DOUBLE)
        >>> facts = RowFacts(lambda term: (0.0, 5.0) if term.sql == "x" else None)
        >>> ends_of(call("-", "({0} - {1})", DOUBLE, two, x), facts)
        (-3.0, 2.0)
    """
    low, high = _by_entry(term, facts)
    known = None if term.is_written else facts.ends(term)
    if known is not None and max(low, known[0]) <= min(high, known[1]):
        return max(low, known[0]), min(high, known[1])
    return low, high


def of_rows(term: Term, most: int, facts: RowFacts) -> Interval | None:
    """Return the ends of a count or a sum over at most `most` rows; None for other terms."""
    match term.function.removesuffix(" distinct"):
        case "count" | "countif":
            return (0.0, float(most))
        case "sum":
            low, high = ends_of(term.arguments[0], facts)
            return (min(low, 0.0) * most, max(high, 0.0) * most)
    return None


def finite(ends: Interval) -> Interval | None:
    """Return ends if both are finite; else None."""
    return ends if all(map(math.isfinite, ends)) else None


def _by_entry(term: Term, facts: RowFacts) -> Interval:
    """Return the ends of a term by its function, from those of its arguments."""
    if term.stands_for is not None:
        return ends_of(term.stands_for, facts)
    if term.is_written:
        return _of_constant(term)
    if term.type.family is Family.BOOLEAN:
        null = term.function == "is null" and may_be_null(term.arguments[0], facts.has_value)
        return (0.0, 0.0) if term.function == "is null" and not null else (0.0, 1.0)
    low, high = _of_call(term, [ends_of(part, facts) for part in term.arguments], facts)
    first, last = ends_of_type(term)
    return max(low, first), min(high, last)


def ends_of_type(term: Term) -> Interval:
    """Return the ends that follow from the type of a function with whole values.

    A wide range is not used: noise for years from -200,000 to 200,000 would hide every sum.
    """
    type = term.type
    if not term.function or type.family is not Family.INTEGER:
        return ANY
    if type.high - type.low <= _FEW:
        return float(type.low), float(type.high)
    return (0.0, math.inf) if type.low >= 0 else ANY


def _of_constant(term: Term) -> Interval:
    value = term.value
    if isinstance(value, dt.datetime):
        value = day_of(value.date())
    elif isinstance(value, dt.date):
        value = day_of(value)
    elif not term.type.is_number and term.type.family is not Family.BOOLEAN:
        return ANY
    number = math.nan if value is None else float(value)
    return (number, number) if math.isfinite(number) else ANY


def _of_call(term: Term, of: Sequence[Interval], facts: RowFacts) -> Interval:
    name, _, rest = term.function.partition(" ")
    if term.function in _SAME:
        return of[0]
    match name:
        case "case":
            return _of_case(term, of)
        case "nullif":
            return of[1]
        case "coalesce":
            return _hull(term.arguments, of)
        case "least" | "greatest":
            return _extreme(term, of, facts)
        case "cast":
            return _of_cast(term, of[0])
        case "year":
            return _years(of[0])
        case "date_trunc":
            return of[0][0] - _LONGEST.get(rest, 1), of[0][1]
        case "date_diff":
            low, high = _boundaries((of[1][0] - of[0][1], of[1][1] - of[0][0]), rest)
            return (max(low, 0.0), max(high, 0.0)) if _in_order(*term.arguments) else (low, high)
        case "-" if _counts_signs(term):
            return 0.0, math.inf
    if overloads(name):
        return _of_aggregate(term, name, of)
    return _by_rule(term, of)


def _by_rule(term: Term, of: Sequence[Interval]) -> Interval:
    """Return the ends of a function of numbers, by its rule in the table."""
    rule = rule_of(term.function, len(of)) if term.function else None
    if rule is None:
        return ANY
    low, high = (float(end) for end in lies_in(rule, *of))
    if math.isnan(low) or math.isnan(high):
        return ANY
    return _outward((low, high)) if term.function == "//" else (low, high)


def _of_aggregate(term: Term, name: str, of: Sequence[Interval]) -> Interval:
    """Return the ends of an aggregate or a window function over any number of rows."""
    entry = overloads(name)[0]
    if entry.chooses or name in _BETWEEN:
        return of[0]
    if name == "sum":
        return (0.0 if of[0][0] >= 0 else -math.inf, 0.0 if of[0][1] <= 0 else math.inf)
    if name == "ntile":
        return (1.0, of[0][1])
    return (0.0, math.inf) if entry.counts else ANY


def _of_case(term: Term, of: Sequence[Interval]) -> Interval:
    """Return the ends of the results that a CASE can choose."""
    last = len(of) - len(of) % 2
    chosen = [i + 1 for i in range(0, last, 2) if of[i] != (0.0, 0.0)]
    chosen += range(last, len(of))
    return _hull([term.arguments[i] for i in chosen], [of[i] for i in chosen])


def _hull(terms: Sequence[Term], of: Sequence[Interval]) -> Interval:
    """Return the ends of a value that is one of several; a constant NULL is no value."""
    some = [
        ends
        for part, ends in zip(terms, of, strict=True)
        if not (part.is_written and part.value is None)
    ]
    return (min(low for low, _ in some), max(high for _, high in some)) if some else (0.0, 0.0)


def _extreme(term: Term, of: Sequence[Interval], facts: RowFacts) -> Interval:
    """Return the ends of LEAST or GREATEST; a part that may be NULL does not limit them."""
    low, high = _hull(term.arguments, of)
    parts = zip(term.arguments, of, strict=True)
    sure = [ends for part, ends in parts if not may_be_null(part, facts.has_value)]
    if term.function == "least":
        return low, min([high, *(end for _, end in sure)])
    return max([low, *(end for end, _ in sure)]), high


def _of_cast(term: Term, ends: Interval) -> Interval:
    (of,) = term.arguments
    if term.type.stored == "FLOAT":  # rounding is monotone
        with np.errstate(over="ignore"):
            return float(np.float32(ends[0])), float(np.float32(ends[1]))
    match term.type.family:
        case Family.TEXT | Family.TIME | Family.UUID:
            return ANY
        case Family.DOUBLE:
            return ends
        case Family.DECIMAL if of.type.family is Family.DECIMAL:
            return ends if of.type.scale <= term.type.scale else _outward(ends)
    return _outward(ends)


def _outward(ends: Interval) -> Interval:
    """Return ends widened to whole numbers, so that rounded values stay inside."""
    low, high = ends
    return (
        math.floor(low) if math.isfinite(low) else low,
        math.ceil(high) if math.isfinite(high) else high,
    )


def _years(days: Interval) -> Interval:
    low, high = days
    if not -700_000 < low <= high < 2_900_000:
        return ANY
    first, last = (_EPOCH + dt.timedelta(days=math.floor(day)) for day in days)
    return first.year, last.year


def _boundaries(days: Interval, unit: str) -> Interval:
    """Return the ends of the number of units that begin between two times `days` apart."""
    low, high = days
    if unit not in _SHORTEST or finite(days) is None:
        return ANY  # in hours the noise scale would be far too large
    if unit == "day":
        return days
    length = _SHORTEST[unit]
    return (min(low / length - 1, 0) // 1, -(-max(high / length + 1, 0) // 1))


def _in_order(first: Term, second: Term) -> bool:
    """Tell whether one term is at most the other by definition: min(t) and max(t)."""
    a, b = (term.stands_for or term for term in (first, second))
    return a.function == "min" and b.function == "max" and a.arguments == b.arguments


def _counts_signs(term: Term) -> bool:
    """Tell whether a term is length(x) - length(replace(x, 'a', '')): never negative."""
    whole, cut = (
        side.arguments[0] if side.function == "length" else None for side in term.arguments
    )
    if whole is None or cut is None or cut.function != "replace" or cut.arguments[0] != whole:
        return False
    old, new = cut.arguments[1:]
    known = all(part.is_written and isinstance(part.value, str) for part in (old, new))
    return known and len(new.value) <= len(old.value)
