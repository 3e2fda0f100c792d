"""Sets of values of an expression: ordered integers ("places") or texts, and NULL.

For integers and truth values a place is the value, for dates days and for timestamps microseconds
since 1970, for decimals the value in units of the last digit; for numbers it is the rank among all
floats, with NaN the greatest, so that adjacent numbers have adjacent places. Equal sets are equal
objects.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sparseq.language.expression_tree import day_of
from sparseq.language.types import Family, Type

_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_NAN = 2**63
Span = tuple[float, float]
"""First and last of consecutive places, both included; ends may be infinite."""


@dataclass(frozen=True)
class Spans:
    """Values of an ordered expression: disjoint spans of places, ascending, never adjacent.

    Example:
        >>> Spans(((1, 5),)).both(Spans(((4, 9),)))
        Spans(spans=((4, 5),))
        >>> Spans.of([(1, 2), (3, 4)]).others()
        Spans(spans=((-inf, 0), (5, inf)))
    """

    spans: tuple[Span, ...]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Spans:
        """Return the set of places in any of the spans."""
        merged: list[Span] = []
        for low, high in sorted(s for s in spans if _is_span(*s)):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], high)
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def both(self, other: Spans) -> Spans:
        """Return the intersection."""
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
        """Return the union."""
        return Spans.of([*self.spans, *other.spans])

    def others(self) -> Spans:
        """Return the complement."""
        ends = [-math.inf, *(end for a, b in self.spans for end in (a - 1, b + 1)), math.inf]
        return Spans.of(zip(ends[::2], ends[1::2], strict=True))

    @property
    def ends(self) -> Span:
        """The first place and the last, infinite if unbounded; (inf, -inf) for the empty set."""
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
    """Values of a text: the listed ones, or all others."""

    listed: frozenset[Any]
    but: bool = False

    def both(self, other: Texts) -> Texts:
        """Return the intersection."""
        if self.but and other.but:
            return Texts(self.listed | other.listed, True)
        if self.but:
            return other.both(self)
        return Texts(self.listed - other.listed if other.but else self.listed & other.listed)

    def either(self, other: Texts) -> Texts:
        """Return the union."""
        return self.others().both(other.others()).others()

    def others(self) -> Texts:
        """Return the complement."""
        return Texts(self.listed, not self.but)

    def __bool__(self) -> bool:
        return self.but or bool(self.listed)


@dataclass(frozen=True)
class Values:
    """Values that an expression may have; `null` tells whether they include NULL."""

    known: Spans | Texts
    null: bool = False

    def both(self, other: Values) -> Values:
        """Return the intersection of two sets for one expression."""
        return Values(self.known.both(other.known), self.null and other.null)  # type: ignore[arg-type]

    def either(self, other: Values) -> Values:
        """Return the union."""
        return Values(self.known.either(other.known), self.null or other.null)  # type: ignore[arg-type]

    def others(self) -> Values:
        """Return the complement."""
        return Values(self.known.others(), not self.null)

    def __bool__(self) -> bool:
        return bool(self.known) or self.null


def union(sets: Sequence[Values]) -> Values:
    """Return the union of at least one set, all for one expression."""
    null, spans = any(s.null for s in sets), [s.known for s in sets if isinstance(s.known, Spans)]
    if len(spans) == len(sets):
        return Values(Spans.of(span for some in spans for span in some.spans), null)
    texts = [s.known for s in sets if isinstance(s.known, Texts)]
    listed: frozenset[Any] = frozenset().union(*(t.listed for t in texts if not t.but))
    but = [t.listed for t in texts if t.but]
    return Values(Texts(but[0].intersection(*but) - listed, True) if but else Texts(listed), null)


def common(sets: Sequence[Values]) -> Values:
    """Return the intersection of at least one set, all for one expression."""
    return union([s.others() for s in sets]).others()


def nothing(type: Type) -> Values | None:
    """Return the empty set for a type; None if sets of its values are not supported."""
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
    """Return the set of one value of a type, possibly NULL; None if the value is not supported."""
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
    """Return the rank of a number among all floats: adjacent numbers have adjacent ranks.

    >>> in_order(0.0) == in_order(-0.0), in_order(1.5) - in_order(1.0) == 1 << 51
    (True, True)
    """
    if math.isnan(number):
        return _NAN
    (bits,) = struct.unpack("<q", struct.pack("<d", number + 0.0))
    return int(bits if bits >= 0 else -(bits + 2**63))
