"""Which rows a condition holds for, as regions that can be compared: the algebra on predicates.

A region says of some expressions over a row which values they may have, and lists the conditions of
which nothing is known but their text; a row lies in it if all of that holds. Sound or silent: two
regions are told apart, or said to be equal, only where that follows from the values alone, whatever
the rows are. Values are totally ordered as the engine orders them (NaN is the greatest number), and
NULL is a value of its own.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from sparseq.query.terms import Term, constant, day_of
from sparseq.query.types import Family

_ALIASED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")+\"\.(\"(?:[^\"]|\"\")+\")")
_MICROSECONDS = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_NAN = 2**63
Span = tuple[float, float]
"""First and last of consecutive places, both included; ends can be infinite."""


def _is_span(low: float, high: float) -> bool:
    return low <= high and low < math.inf and high > -math.inf


@dataclass(frozen=True)
class Spans:
    """Values of an ordered expression: places, disjoint, ascending, none next to another.

    Example:
        >>> Spans(((1, 5),)).both(Spans(((4, 9),)))
        Spans(spans=((4, 5),))
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
        return Spans.of((max(a, c), min(b, d)) for a, b in self.spans for c, d in other.spans)

    def either(self, other: Spans) -> Spans:
        """Return the places in one or the other."""
        return Spans.of([*self.spans, *other.spans])

    def others(self) -> Spans:
        """Return all other places."""
        ends = [-math.inf, *(end for a, b in self.spans for end in (a - 1, b + 1)), math.inf]
        return Spans.of(zip(ends[::2], ends[1::2], strict=True))

    def __bool__(self) -> bool:
        return bool(self.spans)


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


@dataclass(frozen=True)
class Region:
    """Rows in which expressions have some values, and conditions hold.

    Attributes:
        values: By expression, in letters that are the same for the same expression. One that is
            not there may have any value.
        conditions: Texts of conditions of which nothing else is known.
    """

    values: Mapping[str, Values] = field(default_factory=dict)
    conditions: frozenset[str] = frozenset()

    def both(self, other: Region) -> Region:
        """Return the rows in both."""
        values = dict(self.values)
        for name, some in other.values.items():
            values[name] = values[name].both(some) if name in values else some
        return Region(values, self.conditions | other.conditions)

    @property
    def empty(self) -> bool:
        """No row can lie in it."""
        return not all(self.values.values())

    @property
    def key(self) -> str:
        """A text that equal regions share."""
        listed = {name: _spelled(values) for name, values in self.values.items()}
        return repr((sorted(listed.items()), sorted(self.conditions)))


def region_of(conditions: Iterable[Term]) -> Region:
    """Return the rows for which all of the conditions are true."""
    return reduce(Region.both, map(_region, conditions), Region())


def point(term: Term, value: Any) -> Values | None:
    """Return an expression's being one value; None: nothing is known of its order or equality."""
    if value is None:
        empty = _none_of(term)
        return None if empty is None else Values(empty.known, True)
    place = _place(term, value)
    return None if place is None else Values(place)


def last_place(values: Values | None) -> float:
    """Return the last place that an expression can have; infinite: any, or it has no order."""
    if values is None or not isinstance(values.known, Spans):
        return math.inf
    return values.known.spans[-1][1] if values.known else -math.inf


def letters(term: Term) -> str:
    """Return a text that stands for an expression, whatever its table is called in the query.

    Example:
        >>> from sparseq.query.types import BIGINT
        >>> letters(Term(BIGINT, '"e"."n"', column="n")) == letters(Term(BIGINT, '"x"."n"'))
        True
    """
    return bare(term.sql)


def bare(sql: str) -> str:
    """Return SQL over one table without the table's name before its columns."""
    return _ALIASED.sub(lambda found: f"~.{found[1]}" if found[1] else found[0], sql)


def _region(condition: Term) -> Region:
    if condition.function == "and":
        return region_of(condition.arguments)
    found = _truth(condition)
    if found is None:
        return Region(conditions=frozenset([letters(condition)]))
    name, true, _ = found
    return Region({name: true})


_Truth = tuple[str, Values, Values]
"""An expression, the values with which a condition is true, and those with which it is false."""


def _truth(condition: Term) -> _Truth | None:
    """Return what is known of a condition on one expression; None: nothing."""
    arguments = condition.arguments
    match condition.function:
        case "not":
            found = _truth(arguments[0])
            return None if found is None else (found[0], found[2], found[1])
        case "or":
            return _any_of([_truth(a) for a in arguments])
        case "and":
            return _all_of([_truth(a) for a in arguments])
        case "is null":
            empty = _none_of(arguments[0])
            if empty is None:
                return None
            null = Values(empty.known, True)
            return letters(arguments[0]), null, null.others()
        case "in":
            subject, *listed = arguments
            return _any_of([_comparison("=", subject, value) for value in listed])
        case "between" if len(arguments) == 3:
            subject, low, high = arguments
            return _all_of([_comparison(">=", subject, low), _comparison("<=", subject, high)])
        case operator if operator in _FLIPPED and len(arguments) == 2:
            left, right = arguments
            if left.is_written:
                return _comparison(_FLIPPED[operator], right, left)
            return _comparison(operator, left, right)
    if condition.type.family is Family.BOOLEAN and not condition.function and condition.column:
        return _comparison("=", condition, constant(True, condition.type))
    return None


def _any_of(parts: Sequence[_Truth | None]) -> _Truth | None:
    return _combined(parts, Values.either, Values.both)


def _all_of(parts: Sequence[_Truth | None]) -> _Truth | None:
    return _combined(parts, Values.both, Values.either)


_Operation = Callable[[Values, Values], Values]


def _combined(
    parts: Sequence[_Truth | None], of_true: _Operation, of_false: _Operation
) -> _Truth | None:
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts) or len({name for name, _, _ in known}) > 1:
        return None
    true, false = (
        reduce(of_true, [t for _, t, _ in known]),
        reduce(of_false, [f for *_, f in known]),
    )
    return known[0][0], true, false


def _comparison(operator: str, subject: Term, value: Term) -> _Truth | None:
    """Return what a comparison with a constant says; of NULL it is never true nor false."""
    if subject.constant or not value.is_written or value.type.stored == "FLOAT":
        return None
    place = None if value.value is None else _place(subject, value.value)
    if place is None:
        return None
    if isinstance(place, Texts):
        if operator not in ("=", "<>"):
            return None
        true: Spans | Texts = place if operator == "=" else place.others()
    else:
        ((at, _),) = place.spans
        true = Spans.of(
            {
                "=": [(at, at)], "<>": [(-math.inf, at - 1), (at + 1, math.inf)],
                "<": [(-math.inf, at - 1)], "<=": [(-math.inf, at)],
                ">": [(at + 1, math.inf)], ">=": [(at, math.inf)],
            }[operator]
        )  # fmt: skip
    return letters(subject), Values(true), Values(true.others())


_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _place(term: Term, value: Any) -> Spans | Texts | None:
    """Return the one value of an expression's type; None: of that type nothing is known."""
    family = term.type.family
    if family is Family.TEXT and isinstance(value, str):
        return Texts(frozenset([value]))
    at: int | None = None
    match family:
        case Family.BOOLEAN if isinstance(value, bool):
            at = int(value)
        case Family.INTEGER if isinstance(value, int):
            at = int(value)
        case Family.DATE if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            at = day_of(value)
        case Family.TIMESTAMP if isinstance(value, dt.datetime) and value.tzinfo is None:
            at = (value - _EPOCH) // _MICROSECONDS
        case Family.DOUBLE if isinstance(value, (int, float)) and not isinstance(value, bool):
            at = _in_order(float(value))
    return None if at is None else Spans(((at, at),))


def _in_order(number: float) -> int:
    """Return the place of a number among all floats: next to each other are next numbers.

    >>> _in_order(0.0) == _in_order(-0.0), _in_order(1.5) - _in_order(1.0) == 1 << 51
    (True, True)
    """
    if math.isnan(number):
        return _NAN
    (bits,) = struct.unpack("<q", struct.pack("<d", number + 0.0))
    return int(bits if bits >= 0 else -(bits + 2**63))


def _none_of(term: Term) -> Values | None:
    match term.type.family:
        case Family.TEXT:
            return Values(Texts(frozenset()))
        case Family.BOOLEAN | Family.INTEGER | Family.DATE | Family.TIMESTAMP | Family.DOUBLE:
            return Values(Spans(()))
    return None


def _spelled(values: Values) -> str:
    known = values.known
    if isinstance(known, Texts):
        return repr((sorted(known.listed), known.but, values.null))
    return repr((known.spans, values.null))
