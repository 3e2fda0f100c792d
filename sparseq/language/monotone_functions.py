"""Monotone functions of one expression: truncations, casts, shifts, parts of a date.

The inverse image of a set follows from the first place that reaches each end of the set;
`sparseq.language.conditions` uses it to read conditions.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sparseq.language.calendar import DAY, UNITS, Buckets, first_of, month_of, units_of
from sparseq.language.expression_tree import Term
from sparseq.language.functions.date_arithmetic import DAYS_DIGITS, INTERVALS
from sparseq.language.types import DATE, TIMESTAMP, Family, Type
from sparseq.language.value_sets import Spans, Values, in_order, place_of

MOST_SPANS = 4096
"""The most spans of a set whose inverse is computed."""


@dataclass(frozen=True)
class Monotone:
    """A function of one expression, from places to places, that never decreases.

    Attributes:
        of: The expression.
        at: Returns the image of a place.
        first: Returns the first place whose image is at least the given place.
        low, high: The range in which it has a value; outside it is NULL.
        falls: The function is decreasing; `at` and `first` are those of its negative.
        whole: Only a set that consists of these whole buckets has a known inverse.
        dense: It takes every value between any two of its values.
    """

    of: Term
    at: Callable[[int], int]
    first: Callable[[int], int]
    low: float = -math.inf
    high: float = math.inf
    falls: bool = False
    whole: int = 1
    dense: bool = False

    def inverse(self, values: Values) -> Values | None:
        """Return the values of the expression that the function maps to these; None if unknown."""
        spans = values.known.spans if isinstance(values.known, Spans) else ()
        if len(spans) > MOST_SPANS or not all(map(self._is_whole, spans)):
            return None
        found = []
        for low, high in spans:
            a, b = (-high, -low) if self.falls else (low, high)
            first = -math.inf if a == -math.inf else self.first(int(a))
            last = math.inf if b == math.inf else self.first(int(b) + 1) - 1
            found.append((max(first, self.low), min(last, self.high)))
        if values.null:
            found += [(-math.inf, self.low - 1), (self.high + 1, math.inf)]
        return Values(Spans.of(found), values.null)

    def _is_whole(self, span: tuple[float, float]) -> bool:
        ends = span[0], span[1] + 1
        return all(end % self.whole == 0 for end in ends if math.isfinite(end))

    def image(self, spans: Spans) -> Spans | None:
        """Return the function's values on some places, without NULL; None if unknown."""
        inside = spans.both(Spans.of([(self.low, self.high)]))
        if not self.dense or (inside and not all(map(math.isfinite, inside.ends))):
            return None
        ends = ((self.at(int(a)), self.at(int(b))) for a, b in inside.spans)
        return Spans.of((-b, -a) if self.falls else (a, b) for a, b in ends)


def step_of(term: Term) -> Monotone | None:
    """Return a term as a monotone function of one expression; None if it is not known to be one.

    Example:
        >>> from sparseq.language.casts import cast
        >>> from sparseq.language.expression_tree import column
        >>> from sparseq.language.types import DATE, TIMESTAMP
        >>> day = step_of(cast(column("t", TIMESTAMP), DATE))
        >>> day.at(DAY - 1), day.first(1) == DAY
        (0, True)
    """
    free = [a for a in term.arguments if not a.constant]
    if len(free) != 1:
        return None
    (of,) = free
    name, _, rest = term.function.partition(" ")
    if of.type.is_time:
        return _of_time(name, rest, of, term)
    if name == "cast" and of.type.family in (Family.BOOLEAN, Family.INTEGER):
        return _of_number(of, term)
    return None


def _of_time(name: str, rest: str, of: Term, term: Term) -> Monotone | None:
    """Return a function of dates or timestamps."""
    others, unit = [a for a in term.arguments if a is not of], UNITS.get(rest)
    match name:
        case "cast" if term.type.family is Family.TIMESTAMP:
            return Monotone(of, lambda at: at * DAY, partial(_place_from, of))
        case "cast" if term.type.family is Family.DATE:
            return _count(of, UNITS["day"])
        case "in" if rest == "range":
            low, high = places_of(TIMESTAMP if of.type.family is Family.TIMESTAMP else DATE)
            return Monotone(of, int, int, low, high, dense=True)
        case "date_trunc" if unit is not None:
            return _start(of, unit)
        case "time_bucket":
            buckets = units_of(*rest.split(" "))
            return None if buckets is None else _start(of, buckets)
        case "year":
            return _count(of, UNITS["year"])
        case "isoyear":
            return _iso_years(of)
        case "last_day":
            return _last_days(of)
        case "isfinite":
            return _search(of, lambda _: 1)
        case "epoch" if of.type.family is Family.DATE:
            return _search(of, lambda day: in_order(float(day * 86_400)))
        case "epoch":
            return _search(of, lambda at: in_order(at / 1e6))
        case "date_diff" if unit is not None and rest != "week":  # DuckDB's weeks are no weeks
            return _differing(of, others[0], unit, falls=of is term.arguments[0])
        case "+" | "-" if rest in INTERVALS and not others[0].type.is_time:
            return _shift(of, others[0], name, rest)
        case "-" if not rest and others[0].type.family is Family.DATE:
            return _differing(of, others[0], UNITS["day"], falls=of is term.arguments[1])
        case "+" | "-" if not rest:
            by = _amount(others[0], name, DAYS_DIGITS)
            return (
                _never(of)
                if by is None
                else Monotone(of, lambda at: at + by, lambda place: place - by, dense=True)
            )
    return None


def number_at(type: Type, place: float) -> float:
    """Return the number at a place of a numeric type; an infinite place is an infinite number.

    Example:
        >>> from sparseq.language.types import DOUBLE
        >>> [(span,)] = [place_of(DOUBLE, -2.5).known.spans]
        >>> number_at(DOUBLE, span[0]), number_at(DOUBLE, math.inf)
        (-2.5, inf)
    """
    if not math.isfinite(place):
        return place
    if type.family is Family.DECIMAL:
        return float(place / 10**type.scale)
    if type.family is not Family.DOUBLE:
        return float(place)
    bits = int(place) if place >= 0 else -int(place) - 2**63
    if not -(2**63) <= bits < 2**63:
        return math.copysign(math.inf, place)
    (number,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(number)


def exact_ends_at(type: Type, places: tuple[float, float]) -> tuple[float, float]:
    """Return the numbers at two places of a numeric type."""
    return number_at(type, places[0]), number_at(type, places[1])


def ends_at(type: Type, places: tuple[float, float]) -> tuple[float, float]:
    """Return the numbers at two places of a numeric type; an end may be a place further out.

    Of two neighbouring numbers it is the one that is shorter to write: for x < 100 it is 100.

    Example:
        >>> from sparseq.language.types import DOUBLE
        >>> [(span,)] = [place_of(DOUBLE, 100.0).known.spans]
        >>> ends_at(DOUBLE, (span[0] + 1, math.inf)), ends_at(DOUBLE, (-math.inf, span[0]))
        ((100.0, inf), (-inf, 100.0))
    """
    step = int(type.family is Family.DOUBLE)
    return (
        min((number_at(type, places[0] - out * step) for out in (0, 1)), key=_written_length),
        min((number_at(type, places[1] + out * step) for out in (0, 1)), key=_written_length),
    )


def _written_length(number: float) -> int:
    return len(repr(number))


def places_of(type: Type) -> tuple[int, int]:
    """Return the first and the last place of a type of dates, timestamps, integers or truths."""
    match type.family:
        case Family.TIMESTAMP:
            return type.low * DAY, (type.high + 1) * DAY - 1
        case Family.BOOLEAN:
            return 0, 1
    return type.low, type.high


def _instant(of: Term, at: int) -> int:
    return at * DAY if of.type.family is Family.DATE else at


def _place_from(of: Term, at: int) -> int:
    """Return the first place of an expression at or after an instant."""
    return -(-at // DAY) if of.type.family is Family.DATE else at


def _never(of: Term) -> Monotone:
    """Return a function that is always NULL."""
    return Monotone(of, int, int, 1, 0)


def _search(of: Term, at: Callable[[int], int], stretch: int = 1) -> Monotone:
    """Return a function whose inverse is found by binary search among buckets of places."""
    ends = [end // stretch for end in places_of(of.type)]

    def first(place: int) -> int:
        low, high = ends[0], ends[1] + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if at(middle) < place else (low, middle)
        return low * stretch

    return Monotone(of, lambda place: at(place // stretch), first, whole=stretch)


def _start(of: Term, buckets: Buckets) -> Monotone:
    """Return the first instant of the bucket that contains a time."""

    def first(place: int) -> int:
        index = buckets.index(place)
        return _place_from(of, buckets.start(index + (buckets.start(index) < place)))

    return Monotone(of, lambda at: buckets.start(buckets.index(_instant(of, at))), first)


def _count(of: Term, buckets: Buckets, origin: int = 0, falls: bool = False) -> Monotone:
    """Return the number of the bucket that contains a time, from an origin; or its negative."""
    return Monotone(
        of,
        lambda at: buckets.index(_instant(of, at)) - origin,
        lambda place: _place_from(of, buckets.start(place + origin)),
        falls=falls,
        dense=True,
    )


def _differing(of: Term, other: Term, unit: Buckets, falls: bool) -> Monotone | None:
    """Return the number of bucket starts between two times."""
    if other.value is None:
        return _never(of)
    at = _value_place(other)
    return None if at is None else _count(of, unit, unit.index(_instant(other, at)), falls)


def _iso_years(of: Term) -> Monotone:
    week = UNITS["week"]

    def thursday(day: int) -> int:
        return week.start(week.index(day * DAY)) // DAY + 3

    return Monotone(
        of,
        lambda at: month_of(thursday(_instant(of, at) // DAY)) // 12,
        lambda year: _place_from(of, (thursday(first_of(year * 12) + 3) - 3) * DAY),
        dense=True,
    )


def _last_days(of: Term) -> Monotone:
    return Monotone(
        of,
        lambda at: first_of(month_of(_instant(of, at) // DAY) + 1) - 1,
        lambda day: _place_from(of, first_of(month_of(day)) * DAY),
    )


def _amount(number: Term, sign: str, digits: int) -> int | None:
    """Return the number of units by which a time is shifted; None if the result is NULL."""
    by = number.value
    if not isinstance(by, int) or abs(by) >= 10**digits:
        return None
    return by if sign == "+" else -by


def _shift(of: Term, number: Term, sign: str, unit: str) -> Monotone | None:
    """Return a time shifted by a number of units."""
    by, one = _amount(number, sign, INTERVALS[unit][0]), UNITS[unit]
    if by is None:
        return _never(of)
    if one.length:
        moved = by * one.length
        return Monotone(
            of, lambda at: _instant(of, at) + moved, lambda place: _place_from(of, place - moved)
        )

    def at(day: int) -> int:
        """Return the same day of another month, or its last day; for days this is monotone."""
        month = month_of(day)
        there = month + by * one.months
        within = min(day - first_of(month), first_of(there + 1) - first_of(there) - 1)
        return (first_of(there) + within) * DAY

    # A timestamp keeps its time of day, so it may decrease, but never across the end of a day.
    return _search(of, at, DAY if of.type.family is Family.TIMESTAMP else 1)


def _of_number(of: Term, term: Term) -> Monotone | None:
    """Return a cast of integers or truth values to a number."""
    match term.type.family:
        case Family.INTEGER:
            return Monotone(of, int, int, term.type.low, term.type.high, dense=True)
        case Family.DECIMAL:
            one, most = 10**term.type.scale, 10**term.type.digits - 1
            return Monotone(of, lambda n: n * one, lambda place: -(-place // one), -most, most)
        case Family.DOUBLE if term.type.stored != "FLOAT":
            return _search(of, lambda n: in_order(float(n)))
    return None


def _value_place(term: Term) -> int | None:
    """Return the place of a constant; None if it is NULL, or unknown."""
    found = place_of(term.type, term.value)
    if found is None or found.null or not isinstance(found.known, Spans):
        return None
    return int(found.known.ends[0])


def steps_of(term: Term) -> list[Monotone]:
    """Return the functions from a term's innermost expression to the term, outermost first."""
    found = []
    while (step := step_of(term)) is not None:
        found.append(step)
        term = step.of
    return found


def inverse(steps: Sequence[Monotone], values: Values) -> Values | None:
    """Return the values of the innermost expression for which a term has these; None if unknown."""
    found: Values | None = values
    for step in steps:
        found = None if found is None else step.inverse(found)
    return found


def image(term: Term, values: Callable[[Term], Values | None]) -> Values | None:
    """Return the values of a term from those of the expression inside it; None if unknown.

    Args:
        term: Any expression.
        values: Returns the values of an expression that is no known function of another.
    """
    steps = steps_of(term)
    known = values(steps[-1].of if steps else term)
    for step in reversed(steps):
        if known is None or not isinstance(known.known, Spans):
            return None
        spans = step.image(known.known)
        outside = Spans.of([(-math.inf, step.low - 1), (step.high + 1, math.inf)])
        null = known.null or bool(known.known.both(outside))
        known = None if spans is None else Values(spans, null)
    return known
