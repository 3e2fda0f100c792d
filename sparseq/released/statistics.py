"""Averages, rates, variances and quantiles of noised measures, as nodes of an answer.

A weighted answer that was asked for a statistic has an estimate of its own. Elsewhere it is made of
the measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.released.outputs import (
    ConstantNode,
    Estimate,
    Floats,
    Measurements,
    MeasureNode,
    Node,
    StatisticKey,
    arithmetic,
    measure,
)
from sparseq.sql.plan import AVERAGE, QUANTILE, VARIANCE

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
            found = arithmetic("/", measure(self.total), measure(self.number))(noised)
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
        below, above = (_cumulated(ends) for ends in (least, most))
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = below / (below + (above[:, -1:] - above))
            upper = above / (above + (below[:, -1:] - below))
        value = np.array([_crossing(grid, np.maximum(c, 0), q) for c in counts])
        low = np.array([_first_edge(grid, ~(u < q - _ROUNDING)) for u in upper])
        high = np.array([_last_edge(grid, ~(lo > q + _ROUNDING)) for lo in lower])
        return Estimate(value, np.minimum(low, value), np.maximum(high, value))


def _cumulated(counts: Floats) -> Floats:
    return np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)


def _crossing(grid: Floats, counts: Floats, q: float) -> float:
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


def combined(operator: str, left: Node, right: Node, weighs: bool) -> Node:
    """Return + - * / of two nodes. A measure times a number is a measure, and two have a ratio.

    Args:
        operator: Which.
        left, right: Of what.
        weighs: The answer is weighted.
    """
    first, second = _number(left), _number(right)
    if operator == "*" and first and isinstance(right, MeasureNode):
        return replace(right, scale=right.scale * first)
    if second and isinstance(left, MeasureNode) and operator in "*/":
        return replace(left, scale=left.scale * (second if operator == "*" else 1 / second))
    ratio = operator == "/" and weighs
    if ratio and isinstance(left, MeasureNode) and isinstance(right, MeasureNode):
        return RatioNode(left.i, right.i, left.scale / right.scale)
    return arithmetic(operator, left, right)


def _number(node: Node) -> float | None:
    """Return a number that a node is, if it is one that others can be scaled by."""
    value = node.value if isinstance(node, ConstantNode) else None
    some = isinstance(value, float) and _SMALL < abs(value) < 1 / _SMALL
    return value if some else None
