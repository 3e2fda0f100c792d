"""From noised measures to the answer: arithmetic with error bars, HAVING, ORDER BY, LIMIT.

Everything here is post-processing of noised values and public keys: free, and without any look at
the data. Every number carries an interval. Those of the measures hold all at once with probability
1 - beta (accuracy.simultaneous_bound); arithmetic on intervals then keeps every derived one true
on the same event. Where no interval can be given (a choice that depends on noised values), it is
unknown, and said to be.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.language.interval_arithmetic import Floats, Rule, lies_in


@dataclass(frozen=True)
class Estimate:
    """Values with intervals, one a group. Bounds are NaN where nothing is known."""

    value: Floats
    low: Floats
    high: Floats

    @property
    def error(self) -> Floats:
        """Half-width: the interval lies within value ± error."""
        return np.maximum(self.high - self.value, self.value - self.low)


StatisticKey = tuple[str, tuple[int, ...], float]
"""What it is, of which measures, and a quantile's level."""


@dataclass(frozen=True)
class Intervals:
    """Of a weighted answer, in the query's unit, one (groups, bins) array a measure.

    Attributes:
        lows, highs: Ends of the intervals, all at once.
        noised: What was measured, nothing added back.
        sigmas: Of its noise, one a measure.
        missing: The most that the measured values lack.
        z: Quantiles that all noise stays within at once, one a measure.
        statistics: Value, low and high by group of what was measured for itself, by what it is and
            the places of its measures.
        proved: All of them are.
    """

    lows: Sequence[Floats]
    highs: Sequence[Floats]
    noised: Sequence[Floats]
    sigmas: Sequence[float]
    missing: Sequence[Floats]
    z: Sequence[float]
    statistics: Mapping[StatisticKey, tuple[Floats, ...]] = field(default_factory=dict)
    proved: bool = False

    def told(self, places: Sequence[int]) -> Iterator[tuple[StatisticKey, tuple[Floats, ...]]]:
        """Yield the statistics of some measures, by the measures' places among these."""
        at = {place: i for i, place in enumerate(places)}
        for (role, of, level), ends in self.statistics.items():
            if all(i in at for i in of):
                yield (role, tuple(at[i] for i in of), level), ends


@dataclass(frozen=True)
class Measurements:
    """What post-processing may see: noised measures with their bounds, and keys by group.

    Attributes:
        measures: One (groups, bins) array a measure, in the query's unit.
        bounds: ± of each measure's noise.
        keys: Each key's value by group.
        weighted: Of a weighted answer, its intervals about everybody.
        known: What `shared` nodes are, computed once.
    """

    measures: Sequence[Floats]
    bounds: Sequence[float]
    keys: Sequence[NDArray[Any]]
    groups: int
    weighted: Intervals | None = None
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def ends(self, i: int) -> tuple[Floats, Floats]:
        """Return the ends of a measure's intervals, (groups, bins) each."""
        if self.weighted is not None:
            return self.weighted.lows[i], self.weighted.highs[i]
        return self.measures[i] - self.bounds[i], self.measures[i] + self.bounds[i]


Node = Callable[[Measurements], "Estimate | NDArray[Any]"]
"""An expression over the noised answer; keys and truths are plain arrays, numbers are estimates."""


Ordering = tuple[Node, bool, bool]
"""What rows are ordered by: (node, descending, NULL first)."""


@dataclass(frozen=True)
class OutputColumn:
    """A column of the answer. `integral`: shown as integers."""

    name: str
    node: Node
    integral: bool = False


@dataclass(frozen=True)
class Outputs:
    """SELECT list, HAVING, ORDER BY and LIMIT.

    `histogram` is the measure whose bins become rows.
    """

    columns: tuple[OutputColumn, ...]
    having: Node | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    histogram: int | None = None

    def rows(self, noised: Measurements) -> NDArray[np.int64]:
        """Return the groups that HAVING keeps, in the order asked for, as far as LIMIT goes."""
        chosen = np.arange(noised.groups)
        if self.having is not None:
            chosen = chosen[np.broadcast_to(truth(self.having(noised)), noised.groups)]
        for node, descending, nulls_first in reversed(self.order):
            keys = _plain(node(noised), noised.groups)
            chosen = _stable_sort(chosen, keys, descending, nulls_first)
        stop = None if self.limit is None else self.offset + self.limit
        return chosen[self.offset : stop]


def _stable_sort(
    chosen: NDArray[np.int64], keys: NDArray[Any], descending: bool, nulls_first: bool
) -> NDArray[np.int64]:
    values = keys[chosen]
    missing = _missing(values)
    rank = np.full(len(values), -1 if nulls_first else len(values))
    _, place = np.unique(values[~missing], return_inverse=True)
    rank[~missing] = place.max(initial=0) - place if descending else place
    return chosen[np.argsort(rank, kind="stable")]


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where there is no value: NaN, or None."""
    if values.dtype == object:
        return np.array([v is None for v in values], np.bool_)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)


def _plain(result: Estimate | NDArray[Any], groups: int) -> NDArray[Any]:
    array = result.value if isinstance(result, Estimate) else np.asarray(result)
    return np.broadcast_to(array, groups)


def truth(result: Estimate | NDArray[Any]) -> NDArray[np.bool_]:
    """Return which groups a condition holds for; where it is not known, it doesn't."""
    return np.asarray(_three_valued(result) == 1, np.bool_)


def _three_valued(result: Estimate | NDArray[Any]) -> Floats:
    """Return a condition as 1, 0 and, where it is not known, NaN."""
    array = result.value if isinstance(result, Estimate) else np.asarray(result)
    numbers = array.astype(np.float64)  # None becomes NaN
    return np.where(np.isnan(numbers), np.nan, numbers != 0)


def _truths(values: Floats) -> NDArray[Any]:
    """Return truths as they are shown; None where they are not known."""
    unknown = np.isnan(values)
    if not unknown.any():
        return np.asarray(values == 1, np.bool_)
    shown = np.asarray(values == 1).astype(object)
    shown[unknown] = None
    return shown


@dataclass(frozen=True)
class MeasureNode:
    """The node of measure i, times a public factor."""

    i: int
    scale: float = 1.0
    bin: int = 0

    def __call__(self, noised: Measurements) -> Estimate:
        low, high = noised.ends(self.i)
        ends = low[:, self.bin] * self.scale, high[:, self.bin] * self.scale
        value = noised.measures[self.i][:, self.bin] * self.scale
        return Estimate(value, np.minimum(*ends), np.maximum(*ends))


@dataclass(frozen=True)
class KeyNode:
    """The node of key i."""

    i: int

    def __call__(self, noised: Measurements) -> NDArray[Any]:
        return noised.keys[self.i]


def measure(i: int, scale: float = 1.0, bin: int = 0) -> MeasureNode:
    """Return the node of measure i, times a public factor."""
    return MeasureNode(i, scale, bin)


def key(i: int) -> KeyNode:
    """Return the node of key i."""
    return KeyNode(i)


def shared(node: Node) -> Node:
    """Return a node that stands in several places and is computed once, however deep they nest."""

    def once(noised: Measurements) -> Estimate | NDArray[Any]:
        if once not in noised.known:
            noised.known[once] = node(noised)
        known: Estimate | NDArray[Any] = noised.known[once]
        return known

    return once


@dataclass(frozen=True)
class ConstantNode:
    """The node of a literal: a float, None, or what is no number."""

    value: Any

    def __call__(self, noised: Measurements) -> Estimate | NDArray[Any]:
        value = self.value
        if value is None or isinstance(value, float):
            array = np.full(noised.groups, np.nan if value is None else value)
            return Estimate(array, array, array)
        column = np.empty(noised.groups, bool if isinstance(value, bool) else object)
        column[:] = value
        return column


def constant(value: Any) -> ConstantNode:
    """Return the node of a literal."""
    if isinstance(value, decimal.Decimal | int) and not isinstance(value, bool):
        value = float(value)
    return ConstantNode(value)


def _estimates(args: Sequence[Estimate | NDArray[Any]]) -> list[Estimate]:
    return [
        a if isinstance(a, Estimate) else Estimate(*(np.asarray(a, np.float64),) * 3) for a in args
    ]


def applied(rule: Rule, *parts: Node) -> Node:
    """Return a function of numbers, with intervals."""

    def node(noised: Measurements) -> Estimate:
        of = _estimates([part(noised) for part in parts])
        with np.errstate(all="ignore"):
            value = rule.value(*(e.value for e in of))
        return Estimate(value, *lies_in(rule, *((e.low, e.high) for e in of)))

    return node


def compare(f: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
    """Return a comparison of two columns, as truths; with NULL nothing compares.

    Raises (the node, on any data alike):
        TypeError, ValueError: The columns are of kinds that don't compare.
    """

    def node(noised: Measurements) -> NDArray[Any]:
        a, b = _plain(left(noised), noised.groups), _plain(right(noised), noised.groups)
        unknown = _missing(a) | _missing(b)
        if _holds(a, dt.date) or _holds(b, dt.date):
            a, b = a.astype("datetime64[us]"), b.astype("datetime64[us]")
        elif _holds(a, str) != _holds(b, str):
            raise TypeError("text and numbers don't compare")
        with np.errstate(invalid="ignore"):
            found = np.zeros(len(a))
            found[~unknown] = f(a[~unknown], b[~unknown])
        found[unknown] = np.nan
        return _truths(found)

    return node


def _holds(column: NDArray[Any], kind: type) -> bool:
    return column.dtype == object and len(column) > 0 and isinstance(column[0], kind)


def all_of(*parts: Node) -> Node:
    """Return AND in three-valued logic: one that is false decides."""

    def node(noised: Measurements) -> NDArray[Any]:
        values = np.stack([_three_valued(_plain(p(noised), noised.groups)) for p in parts])
        return _truths(np.where((values == 0).any(axis=0), 0.0, values.min(axis=0)))

    return node


def any_of(*parts: Node) -> Node:
    """Return OR in three-valued logic: one that is true decides."""
    return negation(all_of(*map(negation, parts)))


def negation(part: Node) -> Node:
    """Return NOT, which is not known where the part is not."""
    return lambda noised: _truths(1 - _three_valued(part(noised)))
