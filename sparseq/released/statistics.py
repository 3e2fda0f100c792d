"""Averages, rates, variances and quantiles of noised measures, as nodes of an answer.

A weighted answer to a question with such a statistic has a separate estimate for it; other answers
compute it from the measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.language.interval_arithmetic import (
    OVER,
    TIMES,
    ArrayRule,
    Floats,
)
from sparseq.question.plan import AVERAGE, QUANTILE, VARIANCE
from sparseq.released.outputs import (
    ConstantNode,
    Estimate,
    Measurements,
    MeasureNode,
    Node,
    OverRowsNode,
    StatisticKey,
    apply,
    measure,
)

_SMALL = 1e-100  # factors of measures, and their inverses, are larger
_ROUNDING = 1e-12  # of shares of a total: rounding of a float never decides a tie


@dataclass(frozen=True)
class RatioNode:
    """The node of one measure over another, times a public factor.

    In a weighted answer it is the average's separate estimate, if there is one. Otherwise it comes
    from the two intervals by the delta method, which treats their errors as independent and small
    compared with the denominator. A cut mostly affects both measures, so the result is wider than
    necessary. In-or-out answers and proved intervals use interval arithmetic.
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
    """The node of a statistic: its separate estimate, or else a function of the measures.

    Attributes:
        key: The kind of the statistic, its measures, and its level.
        otherwise: The node of the function of the measures.
    """

    key: StatisticKey
    otherwise: Node

    def __call__(self, noised: Measurements) -> Estimate | NDArray[Any]:
        if noised.weighted is None or self.key not in noised.weighted.statistics:
            return self.otherwise(noised)
        return Estimate(*noised.weighted.statistics[self.key])


@dataclass(frozen=True)
class VarianceNode:
    """The node of a variance: its separate estimate, or else a function of the moments.

    Attributes:
        places: The places of its number, its total and its squares.
        population: Population variance; otherwise sample variance.
        moments: The node of the variance from moments.
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
    """The q-quantile from a noised histogram, linear within a bin.

    In a weighted answer to a question with the quantile it is the separate estimate. Otherwise the
    interval follows from the counts, whose intervals hold all together: the share of rows below an
    edge is least if all bins below are at their lower ends and all bins above at their upper ends,
    and greatest the other way round. The true quantile lies where this range of shares contains q.
    Without information the interval is the whole range.
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
    """The least or the greatest value, from noised counts by bin.

    The outermost bin whose count has a lower end above 0 contains a row. So the greatest value lies
    between the lower edge of that bin and the end of all bins, which no value exceeds.

    Attributes:
        i, edges: The place of the counts, and their bins' edges.
        greatest: The greatest value; otherwise the least.
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


@dataclass(frozen=True)
class DistinctNode:
    """The number of values that occur, from noised counts of users by value.

    A value occurs for sure if the low end of its count is above 0, and may occur if the high end is
    1 or more. The interval lies between the numbers of both. Like a group, a value is counted if it
    is present.

    Attributes:
        i: The place of the counts, one for each public value.
    """

    i: int

    def __call__(self, noised: Measurements) -> Estimate:
        low, high = noised.ends(self.i)
        present = (low > 0).sum(axis=1).astype(np.float64)
        return Estimate(present, present, (high >= 1).sum(axis=1).astype(np.float64))


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
    """Return the node of a function of two nodes.

    A measure times a number becomes a measure node, and a quotient of two measures of a weighted
    answer a ratio node.

    Args:
        rule: The function.
        left, right: Its arguments.
        weighs: The answer is weighted.
    """
    first, second = _number(left), _number(right)
    if rule is TIMES and first and isinstance(right, MeasureNode) and right.over == 1.0:
        return replace(right, scale=right.scale * first)
    if second and isinstance(left, MeasureNode) and left.over == 1.0:
        if rule is TIMES:
            return replace(left, scale=left.scale * second)
        if rule is OVER:
            return replace(left, over=second)
    ratio = rule is OVER and weighs
    if ratio and isinstance(left, MeasureNode) and isinstance(right, MeasureNode):
        factor = left.scale / left.over / (right.scale / right.over)
        return OverRowsNode(RatioNode(left.i, right.i, factor))
    return apply(rule, left, right)


def _number(node: Node) -> float | None:
    """Return the number of a constant node if it can scale a measure; otherwise None."""
    value = node.value if isinstance(node, ConstantNode) else None
    some = isinstance(value, float) and _SMALL < abs(value) < 1 / _SMALL
    return value if some else None
