"""Averages, rates, variances and quantiles of noised measures, as nodes of an answer.

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

from collections.abc import Callable
from dataclasses import dataclass, replace
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
    Floats,
    Rule,
    rising,
)
from sparseq.released.outputs import (
    ConstantNode,
    Estimate,
    Measurements,
    MeasureNode,
    Node,
    StatisticKey,
    applied,
    constant,
    measure,
)
from sparseq.sql.plan import AVERAGE, CORRELATION, COVARIANCE, QUANTILE, SLOPE, VARIANCE

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
            found = applied(OVER, measure(self.total), measure(self.number))(noised)
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
        value = np.array([_find_crossing(grid, np.maximum(c, 0), q) for c in counts])
        low = np.array([_first_edge(grid, ~(u < q - _ROUNDING)) for u in upper])
        high = np.array([_last_edge(grid, ~(lo > q + _ROUNDING)) for lo in lower])
        return Estimate(value, np.minimum(low, value), np.maximum(high, value))


def _cumulated(counts: Floats) -> Floats:
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


def combined(rule: Rule, left: Node, right: Node, weighs: bool) -> Node:
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
    return applied(rule, left, right)


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
            "covar_pop": lambda: applied(OVER, self._sxy, self.count),
            "covar_samp": lambda: applied(OVER, self._sxy, applied(MINUS, self.count, constant(1))),
            "regr_slope": lambda: self._slope,
            "regr_intercept": lambda: applied(
                MINUS, self._mean_y, applied(TIMES, self._slope, self._mean_x)
            ),
            "corr": lambda: self._correlation,
            "regr_r2": lambda: applied(POWER, self._correlation, constant(2)),
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
        mean = applied(PLUS, constant(self.middle_x), applied(OVER, self._x, self.count))
        return self._own(AVERAGE, (0, 1), mean)

    @cached_property
    def _mean_y(self) -> Node:
        mean = applied(PLUS, constant(self.middle_y), applied(OVER, self._y, self.count))
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
        return applied(MINUS, product, applied(OVER, applied(TIMES, a, b), self.count))

    @cached_property
    def _slope(self) -> Node:
        return self._own(SLOPE, (*range(6),), applied(OVER, self._sxy, self._sxx))

    @cached_property
    def _correlation(self) -> Node:
        spread = applied(rising(np.sqrt), applied(TIMES, self._sxx, self._syy))
        of_moments = _between(-1, 1, applied(OVER, self._sxy, spread))
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
        each = self._own(role, of, applied(OVER, otherwise, self.count))
        return applied(TIMES, each, self.count)


def _not_negative(inner: Node) -> Node:
    return applied(rising(lambda v: np.maximum(v, 0)), inner)


def _between(low: float, high: float, inner: Node) -> Node:
    return applied(rising(lambda v: np.clip(v, low, high)), inner)
