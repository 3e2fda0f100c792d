"""From noised measures to the answer: arithmetic with error bars, HAVING, ORDER BY, LIMIT.

Everything here is post-processing of noised values and public keys: free, and without any look at
the data. Every number carries an interval. Those of the measures hold all at once with probability
1 - beta (accuracy.simultaneous_bound); arithmetic on intervals then keeps every derived one true
on the same event. Where no interval can be given (a choice that depends on noised values), it is
unknown, and said to be.

Averages, rates, variances and quantiles of noised measures, as nodes of an answer.

A weighted answer that was asked for a statistic has an estimate of its own. Elsewhere it is made of
the measures.

Statistics of pairs of values, from noised moments: covariance, correlation, a regression line.

All are of the rows where both values are numbers; y is the first argument, x the second, as in SQL.
A weighted answer measures what they are made of for itself (`sparseq.stream.moments`). Elsewhere
moments are about public middles (a, b), which halves their scale; sums of deviations don't change
with them:

    Sxy = sum (x - a)(y - b) - sum (x - a) sum (y - b) / n
    slope = Sxy / Sxx,  intercept = mean y - slope mean x,  r = Sxy / sqrt(Sxx Syy)
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.language.interval_arithmetic import (
    MINUS,
    OVER,
    PLUS,
    POWER,
    TIMES,
    ArrayRule,
    Floats,
    lies_in,
    rising_rule,
)
from sparseq.sql.plan import AVERAGE, CORRELATION, COVARIANCE, QUANTILE, SLOPE, VARIANCE

# -- from noised measures to the answer: arithmetic with error bars, HAVING, ORDER BY, LIMIT -------


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
"""The kind of a statistic, its measures, and a quantile's level."""


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
    """All that post-processing may see: noised measures with their bounds, and keys by group.

    Attributes:
        measures: One (groups, bins) array a measure, in the query's unit.
        bounds: ± of each measure's noise.
        keys: Each key's value by group.
        weighted: Of a weighted answer, its intervals about everybody.
        known: What shared nodes are, computed once.
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


@dataclass(frozen=True)
class LeastPeople:
    """The fewest people that a shown value may be about, as counted with noise.

    Whether a value is shown follows from noised counts alone: it is post-processing, and free.

    Attributes:
        least: So many.
        counts: Of each measure, the place of the count of those who have a row that it takes in.
        bins: Of each measure, how many it has.
    """

    least: int
    counts: tuple[int, ...]
    bins: tuple[int, ...]

    @property
    def mark(self) -> str:
        """The words in place of a value."""
        return f"< {self.least:,} people"

    def hides(self, node: Node, noised: Measurements) -> NDArray[np.bool_]:
        """Tell in which groups a node comes of a measure of too few people."""
        hidden = np.zeros(noised.groups, np.bool_)
        keys = [k[:1] for k in noised.keys]
        for place in {self.counts[i] for i in measures_of(node, self.bins, keys)}:
            hidden |= self.hidden(noised, place)[:, 0]
        return hidden

    def hidden(self, noised: Measurements, count: int) -> NDArray[np.bool_]:
        """Tell in which groups and bins a count, rounded to whole people, is too small."""
        return ~np.asarray(np.rint(noised.measures[count]) >= self.least, np.bool_)


class _Ones(Sequence[Floats]):
    """Measures of one group that are all 1, and the places of those that were read."""

    def __init__(self, bins: Sequence[int]) -> None:
        self._bins = bins
        self.read: set[int] = set()

    def __len__(self) -> int:
        return len(self._bins)

    def __getitem__(self, i: Any) -> Any:
        self.read.add(i)
        return np.ones((1, self._bins[i]))


def measures_of(node: Node, bins: Sequence[int], keys: Sequence[NDArray[Any]] = ()) -> set[int]:
    """Return the places of the measures that a node comes of, found by computing one group.

    Args:
        node: Computed from ones.
        bins: Of each measure, how many it has.
        keys: Of the one group.

    Example:
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
    """A column of the answer. `integral`: shown as integers."""

    name: str
    node: Node
    integral: bool = False


@dataclass(frozen=True)
class PossibleKeys:
    """The values that some keys can have at once, where not all combinations can be: public.

    Attributes:
        places: Of the keys.
        values: Theirs, a tuple for each combination.
        open: Of each key, a value that goes with any others, or None. NULL goes with NULL alone:
            the row has no value that they are all made of.
    """

    places: tuple[int, ...]
    values: frozenset[tuple[Any, ...]]
    open: tuple[Any, ...]

    def holds(self, keys: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Tell of which groups that is so.

        Example:
            >>> year, month = np.array([1, 1, 2]), np.array(["a", "c", "c"], object)
            >>> known = PossibleKeys((0, 1), frozenset([(1, "a"), (2, "c")]), (None, None))
            >>> known.holds([year, month]).tolist()
            [True, False, True]
        """
        rows = list(zip(*(keys[i].tolist() for i in self.places), strict=True))
        nothing = (None,) * len(self.places)
        return np.array(
            [
                row in self.values
                or row == nothing
                or any(x == o for x, o in zip(row, self.open, strict=True) if o is not None)
                for row in rows
            ],
            np.bool_,
        )


@dataclass(frozen=True)
class Outputs:
    """SELECT list, HAVING, ORDER BY and LIMIT.

    `histogram` is the measure whose bins become rows; of groups that no row can be in there is none
    (`possible`). `least`: which values are not shown; no row is left or ordered by one of these.
    """

    columns: tuple[OutputColumn, ...]
    having: Node | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    histogram: int | None = None
    possible: tuple[PossibleKeys, ...] = ()
    least: LeastPeople | None = None

    def called(self, names: Mapping[str, str]) -> Outputs:
        """Return them with columns called as they were written; `names`: by their small letters."""
        return replace(
            self, columns=tuple(replace(c, name=names.get(c.name, c.name)) for c in self.columns)
        )

    def rows(self, noised: Measurements) -> NDArray[np.int64]:
        """Return the groups that HAVING keeps, in the order asked for, as far as LIMIT goes."""
        chosen = np.arange(noised.groups)
        for known in self.possible:
            chosen = chosen[known.holds([key[chosen] for key in noised.keys])]
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
        """Tell in which groups the value of a node is not shown."""
        if self.least is None:
            return np.zeros(noised.groups, np.bool_)
        return self.least.hides(node, noised)

    def hidden(self, noised: Measurements, i: int) -> NDArray[np.bool_]:
        """Tell in which groups and bins measure i is not shown."""
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


@dataclass(frozen=True)
class LookupNode:
    """The node of a public value that some keys say: a product's name, by its number."""

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


def share(node: Node) -> Node:
    """Return a node that stands in several places and is computed once, however deep they nest."""

    def once(noised: Measurements) -> Estimate | NDArray[Any]:
        if once not in noised.known:
            noised.known[once] = node(noised)
        known: Estimate | NDArray[Any] = noised.known[once]
        return known

    return once


@dataclass(frozen=True)
class ConstantNode:
    """The node of a literal: a float, None, or what is no number.

    A number that was `noised` has no interval here: its own is that of another answer.
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
    """Return the node of a literal, or of a number that was released with noise."""
    if isinstance(value, decimal.Decimal | int) and not isinstance(value, bool):
        value = float(value)
    return ConstantNode(value, noised)


def _estimates(args: Sequence[Estimate | NDArray[Any]]) -> list[Estimate]:
    return [
        a if isinstance(a, Estimate) else Estimate(*(np.asarray(a, np.float64),) * 3) for a in args
    ]


def apply(rule: ArrayRule, *parts: Node) -> Node:
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


# -- averages, rates, variances and quantiles of noised measures, as nodes of an answer ------------

# -- averages, rates, variances and quantiles of noised measures, as nodes of an answer ------------

_SMALL = 1e-100  # numbers that measures are scaled by are larger, and their inverses
_ROUNDING = 1e-12  # of shares of a total: a tie is never decided by how a float was rounded


@dataclass(frozen=True)
class RatioNode:
    """The node of one measure over another, times a public factor.

    Of a weighted answer: an average's own estimate, where it has one. Else that of the two
    intervals, whose errors are taken to be independent and small beside the denominator (the delta
    method): what was cut of one is mostly cut of the other too, so they are wider than they need
    be. In or out, and where intervals are proved: arithmetic on intervals.
    """

    total: int
    number: int
    scale: float = 1.0

    def __call__(self, noised: Measurements) -> Estimate:
        known = noised.weighted
        if known is None or known.proved:
            found = apply(OVER, measure(self.total), measure(self.number))(noised)
            assert isinstance(found, Estimate)
        elif (key := (AVERAGE, (self.number, self.total), 0.0)) in known.statistics:
            found = Estimate(*known.statistics[key])
        else:
            found = self._delta(measure(self.total)(noised), measure(self.number)(noised))
        ends = found.low * self.scale, found.high * self.scale
        return Estimate(found.value * self.scale, np.minimum(*ends), np.maximum(*ends))

    def _delta(self, n: Estimate, d: Estimate) -> Estimate:
        with np.errstate(all="ignore"):
            value = np.where(d.value > 0, n.value / d.value, np.nan)
            up = np.hypot(n.high - n.value, np.abs(value) * (d.value - d.low)) / d.value
            down = np.hypot(n.value - n.low, np.abs(value) * (d.high - d.value)) / d.value
            unsure = ~(d.low > 0)
        low = np.where(unsure, -np.inf, value - down)
        low = np.where((n.low >= 0) & (d.high > 0), np.maximum(low, 0.0), low)
        return Estimate(value, low, np.where(unsure, np.inf, value + up))


@dataclass(frozen=True)
class StatisticNode:
    """The node of a statistic: its own estimate, where it has one, else what it is made of.

    Attributes:
        key: What it is, of which measures, and its level.
        otherwise: The node of what it is made of.
    """

    key: StatisticKey
    otherwise: Node

    def __call__(self, noised: Measurements) -> Estimate | NDArray[Any]:
        if noised.weighted is None or self.key not in noised.weighted.statistics:
            return self.otherwise(noised)
        return Estimate(*noised.weighted.statistics[self.key])


@dataclass(frozen=True)
class VarianceNode:
    """The node of a variance: its own estimate, where it has one, else one of its moments.

    Attributes:
        places: Of its number, its total and its squares.
        population: Of all rows; else that of which they are a sample.
        moments: The node of the moments.
    """

    places: tuple[int, ...]
    population: bool
    moments: Node

    def __call__(self, noised: Measurements) -> Estimate | NDArray[Any]:
        key = VARIANCE, self.places, 0.0
        if noised.weighted is None or key not in noised.weighted.statistics:
            return self.moments(noised)
        found = Estimate(*noised.weighted.statistics[key])
        rows = np.maximum(noised.measures[self.places[0]][:, 0], 2.0)
        factor = 1.0 if self.population else rows / (rows - 1)
        return Estimate(found.value * factor, found.low * factor, found.high * factor)


@dataclass(frozen=True)
class QuantileNode:
    """The q-quantile read off a noised histogram, linear within a bin.

    Of a weighted answer that was asked for it: its own estimate. Else the interval is that of the
    counts: all lie within theirs at once, so that the share below an edge is at least that with all
    bins below at their lower ends and all above at their upper ones, and the true quantile lies
    where it could cross q. Where nothing is known that is the whole range.
    """

    i: int
    q: float
    edges: tuple[float, ...]

    def __call__(self, noised: Measurements) -> Estimate:
        key = QUANTILE, (self.i,), self.q
        if noised.weighted is not None and key in noised.weighted.statistics:
            return Estimate(*noised.weighted.statistics[key])
        q, counts, grid = self.q, noised.measures[self.i], np.asarray(self.edges, np.float64)
        least, most = (np.maximum(ends, 0.0) for ends in noised.ends(self.i))
        below, above = (_cumulate(ends) for ends in (least, most))
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = below / (below + (above[:, -1:] - above))
            upper = above / (above + (below[:, -1:] - below))
        value = np.array([_find_crossing(grid, np.maximum(c, 0), q) for c in counts])
        low = np.array([_first_edge(grid, ~(u < q - _ROUNDING)) for u in upper])
        high = np.array([_last_edge(grid, ~(lo > q + _ROUNDING)) for lo in lower])
        return Estimate(value, np.minimum(low, value), np.maximum(high, value))


@dataclass(frozen=True)
class ExtremeNode:
    """The least or the greatest value, read off noised counts by bin.

    There is a row in the outermost bin whose count is above 0 for sure, so the greatest value lies
    between its lower edge and the end of all bins, which no value is beyond.

    Attributes:
        i, edges: The counts, and their bins' edges.
        greatest: The greatest value; else the least.
        whole: A bin is one whole number, its lower edge.
    """

    i: int
    edges: tuple[float, ...]
    greatest: bool
    whole: bool

    def __call__(self, noised: Measurements) -> Estimate:
        grid, (least, _) = np.asarray(self.edges, np.float64), noised.ends(self.i)
        sure, bins = least > 0, least.shape[1]
        first = np.where(sure.any(axis=1), np.argmax(sure, axis=1), bins - 1)
        last = np.where(sure.any(axis=1), bins - 1 - np.argmax(sure[:, ::-1], axis=1), 0)
        ends = (grid[0], grid[-2] if self.whole else grid[-1])
        if self.greatest:
            value = grid[last] if self.whole else grid[last + 1]
            return Estimate(value, grid[last], np.full(len(value), ends[1]))
        value = grid[first]
        return Estimate(value, np.full(len(value), ends[0]), grid[first + (not self.whole)])


def _cumulate(counts: Floats) -> Floats:
    return np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)


def _find_crossing(grid: Floats, counts: Floats, q: float) -> float:
    total = counts.sum()
    if total <= 0:
        return float((grid[0] + grid[-1]) / 2)
    cumulative = np.concatenate([[0.0], np.cumsum(counts)]) / total
    return float(np.interp(q, cumulative, grid))


def _first_edge(grid: Floats, reached: NDArray[np.bool_]) -> float:
    j = int(np.argmax(reached)) if reached.any() else len(grid) - 1
    return float(grid[max(j - 1, 0)])


def _last_edge(grid: Floats, not_passed: NDArray[np.bool_]) -> float:
    j = int(np.flatnonzero(not_passed)[-1]) if not_passed.any() else 0
    return float(grid[min(j + 1, len(grid) - 1)])


def combine(rule: ArrayRule, left: Node, right: Node, weighs: bool) -> Node:
    """Return a function of two nodes. A measure times a number is a measure, and two have a ratio.

    Args:
        rule: Which function.
        left, right: Of what.
        weighs: The answer is weighted.
    """
    first, second = _number(left), _number(right)
    if rule is TIMES and first and isinstance(right, MeasureNode):
        return replace(right, scale=right.scale * first)
    if second and isinstance(left, MeasureNode) and rule in (TIMES, OVER):
        return replace(left, scale=left.scale * (second if rule is TIMES else 1 / second))
    ratio = rule is OVER and weighs
    if ratio and isinstance(left, MeasureNode) and isinstance(right, MeasureNode):
        return RatioNode(left.i, right.i, left.scale / right.scale)
    return apply(rule, left, right)


def _number(node: Node) -> float | None:
    """Return a number that a node is, if it is one that others can be scaled by."""
    value = node.value if isinstance(node, ConstantNode) else None
    some = isinstance(value, float) and _SMALL < abs(value) < 1 / _SMALL
    return value if some else None


# -- statistics of pairs of values -----------------------------------------------------------------


@dataclass(frozen=True)
class PairMoments:
    """Noised moments of two values, each asked for when it is needed.

    Attributes:
        count: Rows.
        x, y, xx, yy, xy: Make the sum of what they are called after, about the middles.
        middle_x, middle_y: What the values are taken from.
        places: Of the number, both totals, squares of each, and products, x before y; empty: it is
            not measured for itself.
    """

    count: Node
    x: Callable[[], Node]
    y: Callable[[], Node]
    xx: Callable[[], Node]
    yy: Callable[[], Node]
    xy: Callable[[], Node]
    middle_x: float
    middle_y: float
    places: tuple[int, ...] = ()

    def statistic(self, name: str) -> Node:
        """Return the node of a statistic, by its name in SQL."""
        nodes: dict[str, Callable[[], Node]] = {
            "regr_count": lambda: self.count,
            "regr_sxx": lambda: self._sxx,
            "regr_syy": lambda: self._syy,
            "regr_sxy": lambda: self._sxy,
            "regr_avgx": lambda: self._mean_x,
            "regr_avgy": lambda: self._mean_y,
            "covar_pop": lambda: apply(OVER, self._sxy, self.count),
            "covar_samp": lambda: apply(OVER, self._sxy, apply(MINUS, self.count, constant(1))),
            "regr_slope": lambda: self._slope,
            "regr_intercept": lambda: apply(
                MINUS, self._mean_y, apply(TIMES, self._slope, self._mean_x)
            ),
            "corr": lambda: self._correlation,
            "regr_r2": lambda: apply(POWER, self._correlation, constant(2)),
        }
        return nodes[name]()

    @cached_property
    def _x(self) -> Node:
        return self.x()

    @cached_property
    def _y(self) -> Node:
        return self.y()

    @cached_property
    def _mean_x(self) -> Node:
        mean = apply(PLUS, constant(self.middle_x), apply(OVER, self._x, self.count))
        return self._own(AVERAGE, (0, 1), mean)

    @cached_property
    def _mean_y(self) -> Node:
        mean = apply(PLUS, constant(self.middle_y), apply(OVER, self._y, self.count))
        return self._own(AVERAGE, (0, 2), mean)

    @cached_property
    def _sxx(self) -> Node:
        squares = _not_negative(self._around(self.xx(), self._x, self._x))
        return self._sum_of(VARIANCE, (0, 1, 3), squares)

    @cached_property
    def _syy(self) -> Node:
        squares = _not_negative(self._around(self.yy(), self._y, self._y))
        return self._sum_of(VARIANCE, (0, 2, 4), squares)

    @cached_property
    def _sxy(self) -> Node:
        return self._sum_of(COVARIANCE, (*range(6),), self._around(self.xy(), self._x, self._y))

    def _around(self, product: Node, a: Node, b: Node) -> Node:
        return apply(MINUS, product, apply(OVER, apply(TIMES, a, b), self.count))

    @cached_property
    def _slope(self) -> Node:
        return self._own(SLOPE, (*range(6),), apply(OVER, self._sxy, self._sxx))

    @cached_property
    def _correlation(self) -> Node:
        spread = apply(rising_rule(np.sqrt), apply(TIMES, self._sxx, self._syy))
        of_moments = _between(-1, 1, apply(OVER, self._sxy, spread))
        return self._own(CORRELATION, (*range(6),), of_moments)

    def _own(self, role: str, of: tuple[int, ...], otherwise: Node) -> Node:
        """Return the node of what is measured for itself, where it is."""
        if not self.places:
            return otherwise
        return StatisticNode((role, tuple(self.places[i] for i in of), 0.0), otherwise)

    def _sum_of(self, role: str, of: tuple[int, ...], otherwise: Node) -> Node:
        """Return the node of what is measured for itself by row, of all rows."""
        if not self.places:
            return otherwise
        each = self._own(role, of, apply(OVER, otherwise, self.count))
        return apply(TIMES, each, self.count)


def _not_negative(inner: Node) -> Node:
    return apply(rising_rule(lambda v: np.maximum(v, 0)), inner)


def _between(low: float, high: float, inner: Node) -> Node:
    return apply(rising_rule(lambda v: np.clip(v, low, high)), inner)
