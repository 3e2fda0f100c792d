"""Sets of the values of an expression: whole numbers ("places") in order, or texts, and NULL.

Of integers and truths a place is the value, of dates days and of timestamps microseconds since
1970, of decimals the value in units of the last digit; of numbers it counts all floats in order,
NaN being the greatest, so that next numbers are next to each other. Equal sets are equal objects.

Functions of one expression that never fall: truncations, casts, shifts, parts of a date.

The values with which such a function lies in a set are known from its first place for each end of
the set: see `sparseq.language.conditions`, which reads conditions with them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparseq.language.expression_tree import Term, day_of
from sparseq.language.functions import DAYS_DIGITS, INTERVALS
from sparseq.language.types import DATE, FIRST_DAY, TIMESTAMP, Family, Type

# -- the calendar in whole numbers without end -----------------------------------------------------

DAY = 86_400_000_000
"""Microseconds."""
_ERA = 146_097  # days in 400 years, after which the calendar is the same


def month_of(day: int) -> int:
    """Return the months from year 0 up to a day's month, of days since 1970, however far.

    Example:
        >>> month_of(0) == 1970 * 12, month_of(-719_162) == 12
        (True, True)
    """
    era, within = divmod(day - FIRST_DAY, _ERA)
    date = dt.date.fromordinal(within + 1)
    return (date.year + 400 * era) * 12 + date.month - 1


def first_of(month: int) -> int:
    """Return the first day of a month, both counted as above.

    Example:
        >>> [first_of(month_of(day)) for day in (0, 30, 31)]
        [0, 0, 31]
    """
    year, months = divmod(month, 12)
    era, within = divmod(year - 1, 400)
    return FIRST_DAY - 1 + era * _ERA + dt.date(within + 1, months + 1, 1).toordinal()


@dataclass(frozen=True)
class Buckets:
    """Stretches of time of one length, one after the other: so many months, or microseconds.

    Attributes:
        months, length: One of them is 0.
        origin: Where one of them begins: a month or a microsecond.
    """

    months: int = 0
    length: int = 0
    origin: int = 0

    def index(self, at: int) -> int:
        """Return the number of the stretch that an instant lies in."""
        if self.months:
            return (month_of(at // DAY) - self.origin) // self.months
        return (at - self.origin) // self.length

    def start(self, index: int) -> int:
        """Return the first instant of a stretch."""
        if self.months:
            return first_of(self.origin + index * self.months) * DAY
        return self.origin + index * self.length


UNITS = {
    "year": Buckets(months=12),
    "quarter": Buckets(months=3),
    "month": Buckets(months=1),
    "week": Buckets(length=7 * DAY, origin=-3 * DAY),
    "day": Buckets(length=DAY),
    "hour": Buckets(length=DAY // 24),
    "15 minutes": Buckets(length=DAY // 96),
    "minute": Buckets(length=DAY // 1440),
    "second": Buckets(length=1_000_000),
}
ZONES_SINCE = 1096
"""1973-01-01 in days since 1970: from then on clocks of all zones differ by whole minutes, and are
changed at whole minutes."""
FINER = {
    "week": ("microsecond", "second", "minute", "15 minutes", "hour", "day", "week"),
    "year": (
        "microsecond",
        "second",
        "minute",
        "15 minutes",
        "hour",
        "day",
        "month",
        "quarter",
        "year",
    ),
}


def is_within(unit: str, other: str) -> bool:
    """Tell whether every stretch of a unit lies in one of another.

    Example:
        >>> is_within("day", "week"), is_within("week", "month"), is_within("month", "day")
        (True, False, False)
    """
    order = FINER["week" if other == "week" else "year"]
    return unit in order and order.index(unit) <= order.index(other)


def units_of(number: str, unit: str) -> Buckets | None:
    """Return DuckDB's buckets of so many units: from 2000-01-01, or a Monday two days later."""
    one = UNITS.get(unit)
    if one is None:
        return None
    if one.months:
        return Buckets(months=int(number) * one.months, origin=2000 * 12)
    return Buckets(length=int(number) * one.length, origin=10_959 * DAY)


# -- sets of the values of an expression -----------------------------------------------------------

# -- sets of the values of an expression -----------------------------------------------------------

_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_NAN = 2**63
Span = tuple[float, float]
"""First and last of consecutive places, both included; ends can be infinite."""


@dataclass(frozen=True)
class Spans:
    """Values of an ordered expression: places, disjoint, ascending, none next to another.

    Example:
        >>> Spans(((1, 5),)).both(Spans(((4, 9),)))
        Spans(spans=((4, 5),))
        >>> Spans.of([(1, 2), (3, 4)]).others()
        Spans(spans=((-inf, 0), (5, inf)))
    """

    spans: tuple[Span, ...]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Spans:
        """Return the places in any of the spans."""
        merged: list[Span] = []
        for low, high in sorted(s for s in spans if _is_span(*s)):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], high)
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def both(self, other: Spans) -> Spans:
        """Return the places in both."""
        a, b, i, j = self.spans, other.spans, 0, 0
        found: list[Span] = []
        while i < len(a) and j < len(b):
            low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
            if low <= high:
                found.append((low, high))
            if a[i][1] < b[j][1]:
                i += 1
            else:
                j += 1
        return Spans(tuple(found))

    def either(self, other: Spans) -> Spans:
        """Return the places in one or the other."""
        return Spans.of([*self.spans, *other.spans])

    def others(self) -> Spans:
        """Return all other places."""
        ends = [-math.inf, *(end for a, b in self.spans for end in (a - 1, b + 1)), math.inf]
        return Spans.of(zip(ends[::2], ends[1::2], strict=True))

    @property
    def ends(self) -> Span:
        """The first place and the last, infinite where there is none; (inf, -inf) of no place."""
        return (self.spans[0][0], self.spans[-1][1]) if self.spans else (math.inf, -math.inf)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __contains__(self, place: int) -> bool:
        at = bisect_right(self.spans, (place, math.inf)) - 1
        return at >= 0 and self.spans[at][0] <= place <= self.spans[at][1]


def _is_span(low: float, high: float) -> bool:
    return low <= high and low < math.inf and high > -math.inf


@dataclass(frozen=True)
class Texts:
    """Values of a text: those that are listed, or all but those."""

    listed: frozenset[Any]
    but: bool = False

    def both(self, other: Texts) -> Texts:
        """Return the texts in both."""
        if self.but and other.but:
            return Texts(self.listed | other.listed, True)
        if self.but:
            return other.both(self)
        return Texts(self.listed - other.listed if other.but else self.listed & other.listed)

    def either(self, other: Texts) -> Texts:
        """Return the texts in one or the other."""
        return self.others().both(other.others()).others()

    def others(self) -> Texts:
        """Return all other texts."""
        return Texts(self.listed, not self.but)

    def __bool__(self) -> bool:
        return self.but or bool(self.listed)


@dataclass(frozen=True)
class Values:
    """Values that an expression may have; `null`: NULL is one of them."""

    known: Spans | Texts
    null: bool = False

    def both(self, other: Values) -> Values:
        """Return the values in both; they are of one expression."""
        return Values(self.known.both(other.known), self.null and other.null)  # type: ignore[arg-type]

    def either(self, other: Values) -> Values:
        """Return the values in one or the other."""
        return Values(self.known.either(other.known), self.null or other.null)  # type: ignore[arg-type]

    def others(self) -> Values:
        """Return all other values."""
        return Values(self.known.others(), not self.null)

    def __bool__(self) -> bool:
        return bool(self.known) or self.null


def union(sets: Sequence[Values]) -> Values:
    """Return the values in any of some sets of one expression, one at least."""
    null, spans = any(s.null for s in sets), [s.known for s in sets if isinstance(s.known, Spans)]
    if len(spans) == len(sets):
        return Values(Spans.of(span for some in spans for span in some.spans), null)
    texts = [s.known for s in sets if isinstance(s.known, Texts)]
    listed: frozenset[Any] = frozenset().union(*(t.listed for t in texts if not t.but))
    but = [t.listed for t in texts if t.but]
    return Values(Texts(but[0].intersection(*but) - listed, True) if but else Texts(listed), null)


def common(sets: Sequence[Values]) -> Values:
    """Return the values in all of some sets of one expression, one at least."""
    return union([s.others() for s in sets]).others()


def nothing(type: Type) -> Values | None:
    """Return no value of a type; None: of its values nothing is known."""
    match type.family:
        case Family.TEXT:
            return Values(Texts(frozenset()))
        case (
            Family.BOOLEAN
            | Family.INTEGER
            | Family.DATE
            | Family.TIMESTAMP
            | Family.DOUBLE
            | Family.DECIMAL
        ):
            return Values(Spans(()))
    return None


def place_of(type: Type, value: Any) -> Values | None:
    """Return one value of a type, NULL too; None: of such a value nothing is known."""
    none = nothing(type)
    if none is None or value is None:
        return None if none is None else Values(none.known, True)
    if type.family is Family.TEXT:
        return Values(Texts(frozenset([value]))) if isinstance(value, str) else None
    at = _place(type, value)
    return None if at is None else Values(Spans(((at, at),)))


def _place(type: Type, value: Any) -> int | None:
    match type.family:
        case Family.BOOLEAN if isinstance(value, bool):
            return int(value)
        case Family.INTEGER if isinstance(value, int):
            return int(value)
        case Family.DATE if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return day_of(value)
        case Family.TIMESTAMP if isinstance(value, dt.datetime) and value.tzinfo is None:
            return (value - _EPOCH) // _MICROSECOND
        case Family.DOUBLE if isinstance(value, (int, float)) and not isinstance(value, bool):
            return in_order(float(value))
        case Family.DECIMAL if isinstance(value, decimal.Decimal):
            digits = int(value.as_tuple().exponent) + type.scale
            sign, number, _ = value.as_tuple()
            if digits >= 0:
                return (-1 if sign else 1) * int("".join(map(str, number))) * int(10**digits)
    return None


def in_order(number: float) -> int:
    """Return the place of a number among all floats: next to each other are next numbers.

    >>> in_order(0.0) == in_order(-0.0), in_order(1.5) - in_order(1.0) == 1 << 51
    (True, True)
    """
    if math.isnan(number):
        return _NAN
    (bits,) = struct.unpack("<q", struct.pack("<d", number + 0.0))
    return int(bits if bits >= 0 else -(bits + 2**63))


# -- functions of one expression that never fall: truncations, casts, shifts, parts of a date ------

MOST_SPANS = 4096
"""Of a set whose inverse is looked for."""


@dataclass(frozen=True)
class Monotone:
    """A function of one expression, from places to places, that never falls.

    Attributes:
        of: The expression.
        at: The place that a place goes to.
        first: The first place that goes to a place or beyond.
        low, high: Between them it has a value; NULL outside.
        falls: It is its negative that never falls: `at` and `first` are those of the negative.
        whole: A set's inverse is known only if the set is made of such stretches of places.
        dense: From one place to another it takes every value between theirs.
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
        """Return with which values of the expression the function has these; None: not known."""
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
        """Return the function's values of some places, NULL left out; None: not known."""
        inside = spans.both(Spans.of([(self.low, self.high)]))
        if not self.dense or (inside and not all(map(math.isfinite, inside.ends))):
            return None
        ends = ((self.at(int(a)), self.at(int(b))) for a, b in inside.spans)
        return Spans.of((-b, -a) if self.falls else (a, b) for a, b in ends)


def step_of(term: Term) -> Monotone | None:
    """Return a term as a function of one expression that never falls; None: not known to be one.

    Example:
        >>> from sparseq.language.expression_tree import cast, column
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
    """Return the first place of an expression that is at an instant or later."""
    return -(-at // DAY) if of.type.family is Family.DATE else at


def _never(of: Term) -> Monotone:
    """Return a function that is always NULL."""
    return Monotone(of, int, int, 1, 0)


def _search(of: Term, at: Callable[[int], int], stretch: int = 1) -> Monotone:
    """Return a function whose inverse is looked for, by halves, among stretches of places."""
    ends = [end // stretch for end in places_of(of.type)]

    def first(place: int) -> int:
        low, high = ends[0], ends[1] + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if at(middle) < place else (low, middle)
        return low * stretch

    return Monotone(of, lambda place: at(place // stretch), first, whole=stretch)


def _start(of: Term, buckets: Buckets) -> Monotone:
    """Return the first instant of the stretch that a time lies in."""

    def first(place: int) -> int:
        index = buckets.index(place)
        return _place_from(of, buckets.start(index + (buckets.start(index) < place)))

    return Monotone(of, lambda at: buckets.start(buckets.index(_instant(of, at))), first)


def _count(of: Term, buckets: Buckets, origin: int = 0, falls: bool = False) -> Monotone:
    """Return the number of the stretch that a time lies in, counted from one; or its negative."""
    return Monotone(
        of,
        lambda at: buckets.index(_instant(of, at)) - origin,
        lambda place: _place_from(of, buckets.start(place + origin)),
        falls=falls,
        dense=True,
    )


def _differing(of: Term, other: Term, unit: Buckets, falls: bool) -> Monotone | None:
    """Return how many stretches begin from one time to another."""
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
    """Return by how many units a time is moved; None: it is NULL then."""
    by = number.value
    if not isinstance(by, int) or abs(by) >= 10**digits:
        return None
    return by if sign == "+" else -by


def _shift(of: Term, number: Term, sign: str, unit: str) -> Monotone | None:
    """Return a time that is so many units later or earlier."""
    by, one = _amount(number, sign, INTERVALS[unit][0]), UNITS[unit]
    if by is None:
        return _never(of)
    if one.length:
        moved = by * one.length
        return Monotone(
            of, lambda at: _instant(of, at) + moved, lambda place: _place_from(of, place - moved)
        )

    def at(day: int) -> int:
        """The same day of another month, or its last: of days, it never falls."""
        month = month_of(day)
        there = month + by * one.months
        within = min(day - first_of(month), first_of(there + 1) - first_of(there) - 1)
        return (first_of(there) + within) * DAY

    # Of a timestamp the clock stays, so it does fall, but not over the end of a day.
    return _search(of, at, DAY if of.type.family is Family.TIMESTAMP else 1)


def _of_number(of: Term, term: Term) -> Monotone | None:
    """Return a cast of whole numbers or truths to a number."""
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
    """Return the place of a constant; None: it is NULL, or not known."""
    found = place_of(term.type, term.value)
    if found is None or found.null or not isinstance(found.known, Spans):
        return None
    return int(found.known.ends[0])


def steps_of(term: Term) -> list[Monotone]:
    """Return the functions that a term is of its innermost expression, the last one first."""
    found = []
    while (step := step_of(term)) is not None:
        found.append(step)
        term = step.of
    return found


def inverse(steps: Sequence[Monotone], values: Values) -> Values | None:
    """Return with which values of the innermost expression a term has these; None: not known."""
    found: Values | None = values
    for step in steps:
        found = None if found is None else step.inverse(found)
    return found


def image(term: Term, values: Callable[[Term], Values | None]) -> Values | None:
    """Return the values of a term by those of an expression it is a function of; None: not known.

    Args:
        term: Any expression.
        values: Returns the values of an expression that has no functions above it that are known.
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
