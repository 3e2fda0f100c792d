"""One reading of a condition: the values of an expression, instants above all, that it lets pass.

A condition is read into two sets of each expression that it is about: the values with which it may
be true, and those with which it may be false; with all others it is NULL. The sets are exact, or
too large: "not known" is every value. So whatever is free, apart or skipped because a set is small
is so for every row. Windows of accounts, the days and moments that a WHERE allows, answers from
answers and rows that are read ahead all ask here.

**Why it is exact.** A truncation, a year, a cast, a shift f is a function of one expression from
places to places (`sparseq.query.spans`) that never falls (or never rises). The values with which
f(x) lies in a span [a, b] are then those from the first x with f(x) >= a up to the one before the
first with f(x) >= b + 1, where places are whole numbers and f is computed in Python's, which have
no end. A set's inverse is that of its spans; NULL's is NULL, and what f has no value for. NOT swaps
the two sets; AND is true in what all have in common and false in what any has; OR the other way
round: Kleene's three-valued truth. By induction over the condition, the sets are exact if it is
about one expression and all functions above it are known, and contain the exact sets otherwise.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sparseq.query.functions import DAYS_DIGITS, INTERVALS
from sparseq.query.spans import Spans, Texts, Values, common, in_order, nothing, place_of, union
from sparseq.query.terms import Term, constant
from sparseq.query.types import BOOLEAN, DATE, FIRST_DAY, TIMESTAMP, Family, Type

DAY = 86_400_000_000
"""Microseconds."""
MOST_SPANS = 4096
"""Of a set whose inverse is looked for."""
_ERA = 146_097  # days in 400 years, after which the calendar is the same


# -- the calendar ----------------------------------------------------------------------------------


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
    "minute": Buckets(length=DAY // 1440),
    "second": Buckets(length=1_000_000),
}
_FINER = {
    "week": ("microsecond", "second", "minute", "hour", "day", "week"),
    "year": ("microsecond", "second", "minute", "hour", "day", "month", "quarter", "year"),
}


def nested(unit: str, other: str) -> bool:
    """Tell whether every stretch of a unit lies in one of another.

    Example:
        >>> nested("day", "week"), nested("week", "month"), nested("month", "day")
        (True, False, False)
    """
    order = _FINER["week" if other == "week" else "year"]
    return unit in order and order.index(unit) <= order.index(other)


def _buckets(number: str, unit: str) -> Buckets | None:
    """Return DuckDB's buckets of so many units: from 2000-01-01, or a Monday two days later."""
    one = UNITS.get(unit)
    if one is None:
        return None
    if one.months:
        return Buckets(months=int(number) * one.months, origin=2000 * 12)
    return Buckets(length=int(number) * one.length, origin=10_959 * DAY)


# -- functions that never fall ---------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
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


def step_of(term: Term) -> Step | None:
    """Return a term as a function of one expression that never falls; None: not known to be one.

    Example:
        >>> from sparseq.query.terms import cast, column
        >>> from sparseq.query.types import DATE, TIMESTAMP
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


def _of_time(name: str, rest: str, of: Term, term: Term) -> Step | None:
    """Return a function of dates or timestamps."""
    others, unit = [a for a in term.arguments if a is not of], UNITS.get(rest)
    match name:
        case "cast" if term.type.family is Family.TIMESTAMP:
            return Step(of, lambda at: at * DAY, partial(_place_from, of))
        case "cast" if term.type.family is Family.DATE:
            return _counted(of, UNITS["day"])
        case "in" if rest == "range":
            low, high = places_of(TIMESTAMP if of.type.family is Family.TIMESTAMP else DATE)
            return Step(of, int, int, low, high, dense=True)
        case "date_trunc" if unit is not None:
            return _started(of, unit)
        case "time_bucket":
            buckets = _buckets(*rest.split(" "))
            return None if buckets is None else _started(of, buckets)
        case "year":
            return _counted(of, UNITS["year"])
        case "isoyear":
            return _iso_years(of)
        case "last_day":
            return _last_days(of)
        case "isfinite":
            return _searched(of, lambda _: 1)
        case "epoch" if of.type.family is Family.DATE:
            return _searched(of, lambda day: in_order(float(day * 86_400)))
        case "epoch":
            return _searched(of, lambda at: in_order(at / 1e6))
        case "date_diff" if unit is not None and rest != "week":  # DuckDB's weeks are no weeks
            return _differing(of, others[0], unit, falls=of is term.arguments[0])
        case "+" | "-" if rest in INTERVALS:
            return _shifted(of, others[0], name, rest)
        case "+" | "-" if others[0].type.family is Family.DATE:
            return _differing(of, others[0], UNITS["day"], falls=of is term.arguments[1])
        case "+" | "-":
            by = _amount(others[0], name, DAYS_DIGITS)
            return (
                _never(of)
                if by is None
                else Step(of, lambda at: at + by, lambda place: place - by, dense=True)
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


def _never(of: Term) -> Step:
    """Return a function that is always NULL."""
    return Step(of, int, int, 1, 0)


def _searched(of: Term, at: Callable[[int], int], stretch: int = 1) -> Step:
    """Return a function whose inverse is looked for, by halves, among stretches of places."""
    ends = [end // stretch for end in places_of(of.type)]

    def first(place: int) -> int:
        low, high = ends[0], ends[1] + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if at(middle) < place else (low, middle)
        return low * stretch

    return Step(of, lambda place: at(place // stretch), first, whole=stretch)


def _started(of: Term, buckets: Buckets) -> Step:
    """Return the first instant of the stretch that a time lies in."""

    def first(place: int) -> int:
        index = buckets.index(place)
        return _place_from(of, buckets.start(index + (buckets.start(index) < place)))

    return Step(of, lambda at: buckets.start(buckets.index(_instant(of, at))), first)


def _counted(of: Term, buckets: Buckets, origin: int = 0, falls: bool = False) -> Step:
    """Return the number of the stretch that a time lies in, counted from one; or its negative."""
    return Step(
        of,
        lambda at: buckets.index(_instant(of, at)) - origin,
        lambda place: _place_from(of, buckets.start(place + origin)),
        falls=falls,
        dense=True,
    )


def _differing(of: Term, other: Term, unit: Buckets, falls: bool) -> Step | None:
    """Return how many stretches begin from one time to another."""
    if other.value is None:
        return _never(of)
    at = _place(other)
    return None if at is None else _counted(of, unit, unit.index(_instant(other, at)), falls)


def _iso_years(of: Term) -> Step:
    week = UNITS["week"]

    def thursday(day: int) -> int:
        return week.start(week.index(day * DAY)) // DAY + 3

    return Step(
        of,
        lambda at: month_of(thursday(_instant(of, at) // DAY)) // 12,
        lambda year: _place_from(of, (thursday(first_of(year * 12) + 3) - 3) * DAY),
        dense=True,
    )


def _last_days(of: Term) -> Step:
    return Step(
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


def _shifted(of: Term, number: Term, sign: str, unit: str) -> Step | None:
    """Return a time that is so many units later or earlier."""
    by, one = _amount(number, sign, INTERVALS[unit][0]), UNITS[unit]
    if by is None:
        return _never(of)
    if one.length:
        moved = by * one.length
        return Step(
            of, lambda at: _instant(of, at) + moved, lambda place: _place_from(of, place - moved)
        )

    def at(day: int) -> int:
        """The same day of another month, or its last: of days, it never falls."""
        month = month_of(day)
        there = month + by * one.months
        within = min(day - first_of(month), first_of(there + 1) - first_of(there) - 1)
        return (first_of(there) + within) * DAY

    # Of a timestamp the clock stays, so it does fall, but not over the end of a day.
    return _searched(of, at, DAY if of.type.family is Family.TIMESTAMP else 1)


def _of_number(of: Term, term: Term) -> Step | None:
    """Return a cast of whole numbers or truths to a number."""
    match term.type.family:
        case Family.INTEGER:
            return Step(of, int, int, term.type.low, term.type.high, dense=True)
        case Family.DECIMAL:
            one, most = 10**term.type.scale, 10**term.type.digits - 1
            return Step(of, lambda n: n * one, lambda place: -(-place // one), -most, most)
        case Family.DOUBLE if term.type.stored != "FLOAT":
            return _searched(of, lambda n: in_order(float(n)))
    return None


def _place(term: Term) -> int | None:
    """Return the place of a constant; None: it is NULL, or not known."""
    found = place_of(term.type, term.value)
    if found is None or found.null or not isinstance(found.known, Spans):
        return None
    return int(found.known.ends[0])


def steps_of(term: Term) -> list[Step]:
    """Return the functions that a term is of its innermost expression, the last one first."""
    found = []
    while (step := step_of(term)) is not None:
        found.append(step)
        term = step.of
    return found


def inverse(steps: Sequence[Step], values: Values) -> Values | None:
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


# -- conditions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """The values of an expression with which a condition may be true, and may be false."""

    of: Term
    true: Values
    false: Values


@dataclass(frozen=True)
class Reading:
    """Sets of values that a condition says expressions to have.

    Attributes:
        said: By their SQL. Of all others nothing is said: they may have any value.
        exact: It is about one, and the condition is true, or false, with just these values.
    """

    said: Mapping[str, Said]
    exact: bool = False


_NOT_KNOWN = Reading({})
FLIPPED = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "IS DISTINCT FROM": "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM": "IS NOT DISTINCT FROM",
}


def read(condition: Term) -> Reading:
    """Return what a condition says.

    Example:
        >>> from sparseq.query.terms import call, column, constant
        >>> from sparseq.query.types import BIGINT, BOOLEAN
        >>> n = column("n", BIGINT)
        >>> few = call("<", "({0} < {1})", BOOLEAN, n, constant(5, BIGINT))
        >>> read(few).said["n"].true.known
        Spans(spans=((-inf, 4),))
    """
    arguments = condition.arguments
    match condition.function:
        case "not":
            return _each(read(arguments[0]), lambda s: (s.false, s.true))
        case "is true" | "is false":
            return _is(read(arguments[0]), condition.function == "is true")
        case "and" | "or":
            parts = _flat(condition)
            constants = [p.value for p in parts if p.constant]
            return _together(
                condition.function, [read(p) for p in parts if not p.constant], constants
            )
        case "between":
            value, low, *other, high = arguments
            ends = _compared(">=", value, low), _compared("<=", (other or [value])[0], high)
            return _together("and", ends)
        case "in":
            return _listed(arguments[0], arguments[1:])
        case "is null":
            null = place_of(arguments[0].type, None)
            return _NOT_KNOWN if null is None else _about(arguments[0], null, null.others())
        case operator if operator in FLIPPED and len(arguments) == 2:
            left, right = arguments
            if left.constant:
                return _compared(FLIPPED[operator], right, left)
            return _compared(operator, left, right)
    is_truth = condition.type.family is Family.BOOLEAN and not condition.constant
    if is_truth and (not condition.function or step_of(condition) is not None):
        return _compared("=", condition, constant(True, BOOLEAN))
    return _NOT_KNOWN


_LOGIC = {"not", "is true", "is false", "and", "or", "between", "in", "is null", *FLIPPED}


def passing(conditions: Iterable[Term], of: Term) -> Values | None:
    """Return the values that an expression may have where all conditions are true.

    None: its type has no order. The expression has no functions above it that are known.
    """
    none = nothing(of.type)
    if none is None:
        return None
    said = (read(condition).said.get(of.sql) for condition in conditions)
    return common([none.others(), *(s.true for s in said if s is not None)])


def allowed(term: Term, conditions: Sequence[Term]) -> Values | None:
    """Return the values that any expression may have where all conditions are true; None: any."""
    return image(term, lambda of: passing(conditions, of))


def _each(reading: Reading, swap: Callable[[Said], tuple[Values, Values]]) -> Reading:
    said = {sql: Said(s.of, *swap(s)) for sql, s in reading.said.items()}
    return Reading(said, reading.exact)


def _is(reading: Reading, truth: bool) -> Reading:
    """Return what IS TRUE, or IS FALSE, of a condition says: of NULL too it is false."""

    def of(s: Said) -> tuple[Values, Values]:
        true = s.true if truth else s.false
        return true, true.others() if reading.exact else true.either(true.others())

    return _each(reading, of)


def _flat(condition: Term) -> list[Term]:
    """Return the parts of AND in AND, or of OR in OR."""
    pending, found = [condition], list[Term]()
    while pending:
        term = pending.pop()
        if term.function == condition.function:
            pending += reversed(term.arguments)
        else:
            found.append(term)
    return found


def _together(name: str, parts: Sequence[Reading], constants: Sequence[Any] = ()) -> Reading:
    """Return what AND or OR of conditions and of constant truths says."""
    found: dict[str, list[Said]] = {}
    for part in parts:
        for sql, said in part.said.items():
            found.setdefault(sql, []).append(said)
    of_true, of_false = (common, union) if name == "and" else (union, common)
    together = {}
    for sql, known in found.items():
        of, every = known[0].of, known[0].true.either(known[0].true.others())
        more = [(every, every)] if len(known) < len(parts) else []
        none = every.others()
        more += [(every if c is True else none, every if c is False else none) for c in constants]
        together[sql] = Said(
            of,
            of_true([*(s.true for s in known), *(true for true, _ in more)]),
            of_false([*(s.false for s in known), *(false for _, false in more)]),
        )
    return Reading(together, len(found) == 1 and all(part.exact for part in parts))


def _compared(operator: str, subject: Term, value: Term) -> Reading:
    """Return what a comparison with a constant says; of NULL it is never true nor false."""
    none = nothing(subject.type)
    written = value.is_written and value.type.stored != "FLOAT" and not subject.constant
    place = place_of(subject.type, value.value) if written else None
    if none is None or place is None:
        return _NOT_KNOWN
    if operator.startswith("IS "):
        same = operator == "IS NOT DISTINCT FROM"
        return _about(subject, *((place, place.others()) if same else (place.others(), place)))
    if place.null:
        return _about(subject, none, none)
    if isinstance(place.known, Spans):
        ((at, _),) = place.known.spans
        known: Spans | Texts = Spans.of(
            {
                "=": [(at, at)],
                "<>": [(-math.inf, at - 1), (at + 1, math.inf)],
                "<": [(-math.inf, at - 1)],
                "<=": [(-math.inf, at)],
                ">": [(at + 1, math.inf)],
                ">=": [(at, math.inf)],
            }[operator]
        )
    elif operator in ("=", "<>"):
        known = place.known if operator == "=" else place.known.others()
    else:
        return _NOT_KNOWN
    return _about(subject, Values(known), Values(known.others()))


def _listed(subject: Term, listed: Sequence[Term]) -> Reading:
    """Return what IN says of a list: with NULL in it, it is never false."""
    known = all(t.is_written and t.type.stored != "FLOAT" for t in listed) and not subject.constant
    places = [place_of(subject.type, t.value) for t in listed] if known else [None]
    found = [place for place in places if place is not None]
    if len(found) < len(places):
        return _together("or", [_compared("=", subject, value) for value in listed])
    values = union(found)
    return _about(
        subject,
        Values(values.known),
        values.both(values.others()) if values.null else replace(values.others(), null=False),
    )


def _about(subject: Term, true: Values, false: Values) -> Reading:
    """Return what a condition says of the innermost expression that decides it."""
    while (step := step_of(subject)) is not None:
        inner = step.inverse(true), step.inverse(false)
        if inner[0] is None or inner[1] is None:
            break
        subject, true, false = step.of, inner[0], inner[1]
    if subject.type.family is Family.BOOLEAN and subject.function in _LOGIC:
        reading = read(subject)
        if reading.exact:
            return _each(reading, lambda s: (_through(s, true), _through(s, false)))
    return Reading({subject.sql: Said(subject, true, false)}, True)


def _through(said: Said, truths: Values) -> Values:
    """Return the values with which a condition has one of some truths."""
    assert isinstance(truths.known, Spans)
    chosen = [said.true] if 1 in truths.known else []
    chosen += [said.false] if 0 in truths.known else []
    chosen += [said.true.either(said.false).others()] if truths.null else []
    return union([said.true.both(said.true.others()), *chosen])


# -- stretches of time -----------------------------------------------------------------------------


def cells(term: Term, of: Term) -> str:
    """Return a unit of time of which each value of a term is about one alone; "": there is none.

    So rows of one value are of one month, say. Each term below keeps its argument's stretch, and
    tells which it is; what shifts a time does not, nor does a clock alone.

    Args:
        term: Any expression.
        of: A column of dates or timestamps.
    """
    if term.sql == of.sql:
        return "microsecond"
    free = [a for a in term.arguments if not a.constant]
    if len(free) != 1 or not free[0].type.is_time:
        return ""
    inner, (name, _, rest) = cells(free[0], of), term.function.partition(" ")
    match name:
        case "cast" if term.type.is_time:
            own = "day" if term.type.family is Family.DATE else "microsecond"
        case "date_trunc" if rest in UNITS:
            own = rest
        case "date_diff" if rest in UNITS and rest != "week":
            own = rest
        case "year":
            own = "year"
        case "last_day":
            own = "month"
        case "time_bucket":
            number, unit = rest.split(" ")
            length = UNITS[unit].length * int(number) if unit in UNITS else 0
            own = unit if number == "1" else "day" if length and DAY % length == 0 else ""
        case _:
            return ""
    if not inner or not own:
        return ""
    return own if nested(inner, own) else inner if nested(own, inner) else ""


_PARTS = {
    **dict.fromkeys(
        (
            "year",
            "isoyear",
            "quarter",
            "month",
            "week",
            "day",
            "dow",
            "isodow",
            "doy",
            "last_day",
            "dayname",
            "monthname",
        ),
        "day",
    ),
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
_CODES = {
    **dict.fromkeys("aAwdbBmyYjUWVGuxD%-", "day"),
    **dict.fromkeys("HIp", "hour"),
    "M": "minute",
    "S": "second",
}


def fineness(term: Term, of: Term) -> str:
    """Return the unit of a time that decides the value of a term; "": it may be finer.

    Args:
        term: An expression.
        of: A column of timestamps in it.
    """
    if not _is_in(of, term):
        return "day"
    name, _, rest = term.function.partition(" ")
    own = _PARTS.get(name, "")
    match name:
        case "cast" if rest == "DATE":
            own = "day"
        case "date_trunc" | "date_diff" if rest in UNITS:
            own = rest
        case "time_bucket":
            own = rest.split(" ")[1]
        case "strftime":
            own = _format(str(term.arguments[1].value))
    own = "day" if own in UNITS and not nested(own, "hour") else own
    units = [
        own if _is_same(of, a) and own in _FINER["year"] else fineness(a, of)
        for a in term.arguments
    ]
    return "" if "" in units else min(units, key=_FINER["year"].index, default="")


def _is_in(of: Term, term: Term) -> bool:
    return term.sql == of.sql or any(_is_in(of, a) for a in term.arguments)


def _is_same(of: Term, term: Term) -> bool:
    """Tell whether a term is a column, maybe as a timestamp."""
    if term.function in ("cast to TIMESTAMP", "in range"):
        return _is_same(of, term.arguments[0])
    return term.sql == of.sql


def _format(form: str) -> str:
    """Return the unit of the finest code in a format such as '%Y-%m'."""
    codes = [b[0] if b[0] != "-" else b[1:2] for b in form.split("%")[1:] if b]
    units = [_CODES.get(code, "") for code in codes]
    return "" if "" in units else min(units, key=_FINER["year"].index, default="day")
