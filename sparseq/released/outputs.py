"""From noised measures to the answer: arithmetic with error bars, HAVING, ORDER BY, LIMIT.

This module post-processes noised values and public keys: it costs nothing and reads no data. Every
number has an interval. The intervals of the measures all hold together with probability 1 - beta
(accuracy.simultaneous_bound); interval arithmetic then keeps every derived interval valid on the
same event. If no interval can be computed (for a choice that depends on noised values), its ends
are NaN.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.language.interval_arithmetic import (
    ArrayRule,
    Floats,
    lies_in,
)
from sparseq.released.presence import Presence


@dataclass(frozen=True)
class Estimate:
    """Values with intervals, one per group. The ends are NaN where they are unknown."""

    value: Floats
    low: Floats
    high: Floats

    @property
    def error(self) -> Floats:
        """Half-width: the interval lies within value ± error."""
        return np.maximum(self.high - self.value, self.value - self.low)


StatisticKey = tuple[str, tuple[int, ...], float]
"""The kind of a statistic, its measures, and a quantile's level."""


@dataclass(frozen=True)
class Intervals:
    """The intervals of a weighted answer in the query's units, a (groups, bins) array per measure.

    Attributes:
        lows, highs: Ends of the intervals, which hold all together.
        noised: The released sums, without correction for the cut.
        sigmas: Standard deviations of their noise, one per measure.
        missing: The most that the weights cut from the sums.
        z: Normal quantiles, one per measure: all noise stays within z sigma together.
        statistics: Value, low and high by group of each statistic that was measured separately.
        proved: All intervals are proved.
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
        """Yield the statistics of some measures, with the measures' places among these."""
        at = {place: i for i, place in enumerate(places)}
        for (role, of, level), ends in self.statistics.items():
            if all(i in at for i in of):
                yield (role, tuple(at[i] for i in of), level), ends


@dataclass(frozen=True)
class Measurements:
    """The only input of post-processing: noised measures with their bounds, and keys by group.

    Attributes:
        measures: One (groups, bins) array per measure, in the query's unit.
        bounds: ± of each measure's noise.
        keys: Each key's value by group.
        weighted: The intervals of a weighted answer; they cover the values over all users.
        absent: Groups that are not present (`sparseq.released.presence`): values over their rows
            are NULL. None: presence is unknown.
        known: Cached results of shared nodes.
    """

    measures: Sequence[Floats]
    bounds: Sequence[float]
    keys: Sequence[NDArray[Any]]
    groups: int
    weighted: Intervals | None = None
    absent: NDArray[np.bool_] | None = None
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def ends(self, i: int) -> tuple[Floats, Floats]:
        """Return the ends of a measure's intervals, two (groups, bins) arrays."""
        if self.weighted is not None:
            return self.weighted.lows[i], self.weighted.highs[i]
        return self.measures[i] - self.bounds[i], self.measures[i] + self.bounds[i]


Node = Callable[[Measurements], "Estimate | NDArray[Any]"]
"""An expression over the noised answer; keys and truths are plain arrays, numbers are estimates."""


@dataclass(frozen=True)
class LeastPeople:
    """The least noised number of users behind a shown value.

    Noised counts alone decide which values are shown: this is post-processing and costs nothing.

    Attributes:
        least: The least number of users.
        counts: For each measure, the place of the count of users with rows in it.
        bins: The number of bins of each measure.
    """

    least: int
    counts: tuple[int, ...]
    bins: tuple[int, ...]

    @property
    def mark(self) -> str:
        """The text shown in place of a value."""
        return f"< {self.least:,} people"

    def hides(self, node: Node, noised: Measurements) -> NDArray[np.bool_]:
        """Return a mask of the groups in which a node uses a measure of too few users."""
        hidden = np.zeros(noised.groups, np.bool_)
        keys = [k[:1] for k in noised.keys]
        for place in {self.counts[i] for i in measures_of(node, self.bins, keys)}:
            hidden |= self.hidden(noised, place)[:, 0]
        return hidden

    def hidden(self, noised: Measurements, count: int) -> NDArray[np.bool_]:
        """Return a mask of the groups and bins in which a count, rounded, is too small."""
        return ~np.asarray(np.rint(noised.measures[count]) >= self.least, np.bool_)


class _Ones(Sequence[Floats]):
    """Measures of one group that are all 1; it records the places that were used."""

    def __init__(self, bins: Sequence[int]) -> None:
        self._bins = bins
        self.read: set[int] = set()

    def __len__(self) -> int:
        return len(self._bins)

    def __getitem__(self, i: Any) -> Any:
        self.read.add(i)
        return np.ones((1, self._bins[i]))


def measures_of(node: Node, bins: Sequence[int], keys: Sequence[NDArray[Any]] = ()) -> set[int]:
    """Return the places of the measures that a node uses, found by computing one group.

    Args:
        node: The node, which is computed from measures that are all 1.
        bins: The number of bins of each measure.
        keys: The keys of the single group.

    Example:
        >>> from sparseq.language.interval_arithmetic import PLUS
        >>> measures_of(apply(PLUS, measure(0), measure(2)), [1, 1, 1])
        {0, 2}
    """
    ones = _Ones(bins)
    node(Measurements(ones, [0.0] * len(bins), keys, 1))
    return ones.read


Ordering = tuple[Node, bool, bool]
"""The order of rows: (node, descending, NULL first)."""


@dataclass(frozen=True)
class OutputColumn:
    """A column of the answer. `integral`: its values are shown as integers."""

    name: str
    node: Node
    integral: bool = False


@dataclass(frozen=True)
class PossibleKeys:
    """The possible combinations of values of some keys, if not all are possible: public.

    Attributes:
        places: The places of the keys.
        values: The possible combinations, a tuple each.
    """

    places: tuple[int, ...]
    values: frozenset[tuple[Any, ...]]

    def holds(self, keys: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Return a mask of the groups with a possible combination.

        Example:
            >>> year, month = np.array([1, 1, 2]), np.array(["a", "c", "c"], object)
            >>> known = PossibleKeys((0, 1), frozenset([(1, "a"), (2, "c")]))
            >>> known.holds([year, month]).tolist()
            [True, False, True]
        """
        rows = zip(*(keys[i].tolist() for i in self.places), strict=True)
        return np.fromiter((row in self.values for row in rows), np.bool_, len(keys[0]))


@dataclass(frozen=True)
class Outputs:
    """SELECT list, HAVING, ORDER BY and LIMIT.

    `histogram` is the measure whose bins become rows. Impossible groups are not listed
    (`possible`). `least` decides which values are hidden; a hidden value neither keeps nor orders a
    row. `presence` tells from noised counts which groups have rows; None: no count tells.
    """

    columns: tuple[OutputColumn, ...]
    having: Node | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    histogram: int | None = None
    possible: tuple[PossibleKeys, ...] = ()
    least: LeastPeople | None = None
    presence: Presence | None = None

    def called(self, names: Mapping[str, str]) -> Outputs:
        """Return a copy with columns spelled as in the query; `names`: by lower-case form."""
        return replace(
            self, columns=tuple(replace(c, name=names.get(c.name, c.name)) for c in self.columns)
        )

    def of_every_group(self) -> Outputs:
        """Return a copy that lists all public groups in every answer, as a series does."""
        return replace(self, presence=None)

    def present(self, noised: Measurements) -> Measurements:
        """Return the measurements, with the groups that are not present."""
        if self.presence is None:
            return noised
        return replace(noised, absent=self.presence.absent(noised), known={})

    def listed(self, noised: Measurements) -> NDArray[np.int64]:
        """Return the listed groups: possible ones, and groups of a NULL only if present."""
        chosen = np.arange(noised.groups)
        for known in self.possible:
            chosen = chosen[known.holds([key[chosen] for key in noised.keys])]
        if self.presence is not None and self.presence.nulls:
            chosen = chosen[~self.presence.unlisted(noised)[chosen]]
        return chosen

    def rows(self, noised: Measurements) -> NDArray[np.int64]:
        """Return the groups that HAVING keeps, in the requested order, up to LIMIT."""
        chosen = self.listed(noised)
        if self.having is not None:
            kept = np.broadcast_to(truth(self.having(noised)), noised.groups)
            chosen = chosen[(kept & ~self.hides(self.having, noised))[chosen]]
        for node, descending, nulls_first in reversed(self.order):
            keys = _plain(node(noised), noised.groups)
            if (hidden := self.hides(node, noised)).any():
                keys = keys.astype(object)
                keys[hidden] = None
            chosen = _stable_sort(chosen, keys, descending, nulls_first)
        stop = None if self.limit is None else self.offset + self.limit
        return chosen[self.offset : stop]

    def hides(self, node: Node, noised: Measurements) -> NDArray[np.bool_]:
        """Return a mask of the groups in which the value of a node is not shown."""
        if self.least is None:
            return np.zeros(noised.groups, np.bool_)
        return self.least.hides(node, noised)

    def hidden(self, noised: Measurements, i: int) -> NDArray[np.bool_]:
        """Return a mask of the groups and bins in which measure i is not shown."""
        assert self.least is not None
        return self.least.hidden(noised, self.least.counts[i])


def _stable_sort(
    chosen: NDArray[np.int64], keys: NDArray[Any], descending: bool, nulls_first: bool
) -> NDArray[np.int64]:
    values = keys[chosen]
    missing = _is_missing(values)
    rank = np.full(len(values), -1 if nulls_first else len(values))
    _, place = np.unique(values[~missing], return_inverse=True)
    rank[~missing] = place.max(initial=0) - place if descending else place
    return chosen[np.argsort(rank, kind="stable")]


def _is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of missing values: NaN, or None."""
    if values.dtype == object:
        return np.array([v is None for v in values], np.bool_)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)


def _plain(result: Estimate | NDArray[Any], groups: int) -> NDArray[Any]:
    array = result.value if isinstance(result, Estimate) else np.asarray(result)
    return np.broadcast_to(array, groups)


def truth(result: Estimate | NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the groups in which a condition holds; NULL counts as false."""
    return np.asarray(_three_valued(result) == 1, np.bool_)


def _three_valued(result: Estimate | NDArray[Any]) -> Floats:
    """Return a condition as 1, 0 and, for NULL, NaN."""
    array = result.value if isinstance(result, Estimate) else np.asarray(result)
    numbers = array.astype(np.float64)  # None becomes NaN
    return np.where(np.isnan(numbers), np.nan, numbers != 0)


def _truths(values: Floats) -> NDArray[Any]:
    """Return truth values for the answer; None for NULL."""
    unknown = np.isnan(values)
    if not unknown.any():
        return np.asarray(values == 1, np.bool_)
    shown = np.asarray(values == 1).astype(object)
    shown[unknown] = None
    return shown


@dataclass(frozen=True)
class MeasureNode:
    """The node of measure i, times a public factor, over a public divisor.

    The divisor is separate, so that s / 7 has the same last digit as in SQL over the answer.
    """

    i: int
    scale: float = 1.0
    bin: int = 0
    over: float = 1.0

    def __call__(self, noised: Measurements) -> Estimate:
        one, two = (end[:, self.bin] * self.scale / self.over for end in noised.ends(self.i))
        value = noised.measures[self.i][:, self.bin] * self.scale / self.over
        return Estimate(value, np.minimum(one, two), np.maximum(one, two))


@dataclass(frozen=True)
class KeyNode:
    """The node of key i."""

    i: int

    def __call__(self, noised: Measurements) -> NDArray[Any]:
        return noised.keys[self.i]


@dataclass(frozen=True)
class LookupNode:
    """The node of a public value that some keys determine: a product's name, by its number."""

    places: tuple[int, ...]
    values: Mapping[tuple[Any, ...], Any] = field(hash=False)

    def __call__(self, noised: Measurements) -> NDArray[Any]:
        rows = zip(*(noised.keys[i].tolist() for i in self.places), strict=True)
        found = np.empty(noised.groups, object)
        found[:] = [self.values.get(row) for row in rows]
        return found


def measure(i: int, scale: float = 1.0, bin: int = 0) -> MeasureNode:
    """Return the node of measure i, times a public factor."""
    return MeasureNode(i, scale, bin)


def key(i: int) -> KeyNode:
    """Return the node of key i."""
    return KeyNode(i)


@dataclass(frozen=True)
class OverRowsNode:
    """The node of a value over the rows of a group, such as an average or a quantile.

    In a group that is not present it is NULL, and its interval stays: the interval contains the
    value if the group has rows after all.
    """

    node: Node

    def __call__(self, noised: Measurements) -> Estimate | NDArray[Any]:
        found = self.node(noised)
        if noised.absent is None or not isinstance(found, Estimate):
            return found
        return replace(found, value=np.where(noised.absent, np.nan, found.value))


def share(node: Node) -> Node:
    """Return a node that is used in several places, at any depth, and computed once."""

    def once(noised: Measurements) -> Estimate | NDArray[Any]:
        if once not in noised.known:
            noised.known[once] = node(noised)
        known: Estimate | NDArray[Any] = noised.known[once]
        return known

    return once


@dataclass(frozen=True)
class ConstantNode:
    """The node of a literal: a float, None, or another type.

    A number that was `noised` has no interval here, because its interval belongs to another answer.
    """

    value: Any
    noised: bool = False

    def __call__(self, noised: Measurements) -> Estimate | NDArray[Any]:
        value = self.value
        if value is None or isinstance(value, float):
            array = np.full(noised.groups, np.nan if value is None else value)
            ends = np.full(noised.groups, np.nan) if self.noised else array
            return Estimate(array, ends, ends)
        column = np.empty(noised.groups, bool if isinstance(value, bool) else object)
        column[:] = value
        return column


def constant(value: Any, noised: bool = False) -> ConstantNode:
    """Return the node of a literal, or of a released number with noise."""
    if isinstance(value, decimal.Decimal | int) and not isinstance(value, bool):
        value = float(value)
    return ConstantNode(value, noised)


def _estimates(args: Sequence[Estimate | NDArray[Any]]) -> list[Estimate]:
    return [
        a if isinstance(a, Estimate) else Estimate(*(np.asarray(a, np.float64),) * 3) for a in args
    ]


def apply(rule: ArrayRule, *parts: Node) -> Node:
    """Return the node of a function of numbers, with intervals."""

    def node(noised: Measurements) -> Estimate:
        of = _estimates([part(noised) for part in parts])
        with np.errstate(all="ignore"):
            value = rule.value(*(e.value for e in of))
        return Estimate(value, *lies_in(rule, *((e.low, e.high) for e in of)))

    return node


def compare(f: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
    """Return a comparison of two columns, as truth values; a comparison with NULL is NULL.

    Raises (by the node, independent of the data):
        TypeError, ValueError: The columns have types that cannot be compared.
    """

    def node(noised: Measurements) -> NDArray[Any]:
        a, b = _plain(left(noised), noised.groups), _plain(right(noised), noised.groups)
        unknown = _is_missing(a) | _is_missing(b)
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
    """Return AND in three-valued logic: one false part makes it false."""

    def node(noised: Measurements) -> NDArray[Any]:
        values = np.stack([_three_valued(_plain(p(noised), noised.groups)) for p in parts])
        return _truths(np.where((values == 0).any(axis=0), 0.0, values.min(axis=0)))

    return node


def any_of(*parts: Node) -> Node:
    """Return OR in three-valued logic: one true part makes it true."""
    return negation(all_of(*map(negation, parts)))


def negation(part: Node) -> Node:
    """Return NOT, which is NULL where the part is NULL."""
    return lambda noised: _truths(1 - _three_valued(part(noised)))
