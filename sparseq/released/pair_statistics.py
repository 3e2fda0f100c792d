"""Statistics of pairs of values, from noised moments: covariance, correlation, a regression line.

All are of the rows where both values are numbers; y is the first argument, x the second, as in SQL.
A weighted answer measures what they are made of for itself (`sparseq.stream.moments`). Elsewhere
moments are about public middles (a, b), which halves their scale; sums of deviations don't change
with them:

    Sxy = sum (x - a)(y - b) - sum (x - a) sum (y - b) / n
    slope = Sxy / Sxx,  intercept = mean y - slope mean x,  r = Sxy / sqrt(Sxx Syy)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sqlglot import exp

from sparseq.released.outputs import (
    Estimate,
    Measurements,
    Node,
    arithmetic,
    constant,
    monotone,
)
from sparseq.released.statistics import StatisticNode
from sparseq.sql.plan import AVERAGE, CORRELATION, COVARIANCE, SLOPE, VARIANCE

PAIRED: tuple[type[exp.AggFunc], ...] = (
    exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2,
    exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSyy, exp.RegrSxy,
)  # fmt: skip


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

    def statistic(self, kind: type[exp.Expr]) -> Node:
        """Return the node of one of `PAIRED`."""
        statistics: dict[type[exp.Expr], Callable[[], Node]] = {
            exp.RegrCount: lambda: self.count,
            exp.RegrSxx: lambda: self._sxx,
            exp.RegrSyy: lambda: self._syy,
            exp.RegrSxy: lambda: self._sxy,
            exp.RegrAvgx: lambda: self._mean_x,
            exp.RegrAvgy: lambda: self._mean_y,
            exp.CovarPop: lambda: arithmetic("/", self._sxy, self.count),
            exp.CovarSamp: lambda: arithmetic(
                "/", self._sxy, arithmetic("-", self.count, constant(1))
            ),
            exp.RegrSlope: lambda: self._slope,
            exp.RegrIntercept: lambda: arithmetic(
                "-", self._mean_y, arithmetic("*", self._slope, self._mean_x)
            ),
            exp.Corr: lambda: self._correlation,
            exp.RegrR2: lambda: _square(self._correlation),
        }
        return statistics[kind]()

    @cached_property
    def _x(self) -> Node:
        return self.x()

    @cached_property
    def _y(self) -> Node:
        return self.y()

    @cached_property
    def _mean_x(self) -> Node:
        mean = arithmetic("+", constant(self.middle_x), arithmetic("/", self._x, self.count))
        return self._own(AVERAGE, (0, 1), mean)

    @cached_property
    def _mean_y(self) -> Node:
        mean = arithmetic("+", constant(self.middle_y), arithmetic("/", self._y, self.count))
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
        return arithmetic("-", product, arithmetic("/", arithmetic("*", a, b), self.count))

    @cached_property
    def _slope(self) -> Node:
        return self._own(SLOPE, (*range(6),), arithmetic("/", self._sxy, self._sxx))

    @cached_property
    def _correlation(self) -> Node:
        spread = monotone(np.sqrt, arithmetic("*", self._sxx, self._syy))
        of_moments = _between(-1, 1, arithmetic("/", self._sxy, spread))
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
        each = self._own(role, of, arithmetic("/", otherwise, self.count))
        return arithmetic("*", each, self.count)


def _not_negative(inner: Node) -> Node:
    return monotone(lambda v: np.maximum(v, 0), inner)


def _between(low: float, high: float, inner: Node) -> Node:
    return monotone(lambda v: np.clip(v, low, high), inner)


def _square(inner: Node) -> Node:
    """Return x²; its interval begins at 0 if x's holds 0."""

    def node(noised: Measurements) -> Estimate:
        a = inner(noised)
        assert isinstance(a, Estimate)
        ends = np.stack([a.low * a.low, a.high * a.high])
        holds_zero = (a.low <= 0) & (a.high >= 0)
        low = np.where(holds_zero, 0.0, ends.min(axis=0))
        return Estimate(a.value * a.value, low, ends.max(axis=0))

    return node
