"""Statistics of pairs of values, from noised moments: covariance, correlation, a regression line.

They cover the rows where both values are numbers; y is the first argument, x the second, as in SQL.
A weighted answer measures their sums separately (`sparseq.stream.moments`). Other answers use
moments about public centres (a, b), which halves their scale and does not change sums of
deviations:

    Sxy = sum (x - a)(y - b) - sum (x - a) sum (y - b) / n
    slope = Sxy / Sxx,  intercept = mean y - slope mean x,  r = Sxy / sqrt(Sxx Syy)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparseq.language.interval_arithmetic import (
    MINUS,
    OVER,
    PLUS,
    POWER,
    TIMES,
    rising_rule,
)
from sparseq.question.plan import AVERAGE, CORRELATION, COVARIANCE, SLOPE, VARIANCE
from sparseq.released.outputs import Node, apply, constant
from sparseq.released.statistics import StatisticNode


@dataclass(frozen=True)
class PairMoments:
    """Noised moments of two values, each built when it is needed.

    Attributes:
        count: The node of the number of rows.
        x, y, xx, yy, xy: Build the sum of the named values or products, about the centres.
        middle_x, middle_y: The centres, which are subtracted from the values.
        places: The places of the number, both totals, the squares of each, and the products, x
            before y; empty: the statistic has no separate measurement.
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
        """Return the node of a separate measurement, or `otherwise` without one."""
        if not self.places:
            return otherwise
        return StatisticNode((role, tuple(self.places[i] for i in of), 0.0), otherwise)

    def _sum_of(self, role: str, of: tuple[int, ...], otherwise: Node) -> Node:
        """Return the node of a separate measurement per row, times the number of rows."""
        if not self.places:
            return otherwise
        each = self._own(role, of, apply(OVER, otherwise, self.count))
        return apply(TIMES, each, self.count)


def _not_negative(inner: Node) -> Node:
    return apply(rising_rule(lambda v: np.maximum(v, 0)), inner)


def _between(low: float, high: float, inner: Node) -> Node:
    return apply(rising_rule(lambda v: np.clip(v, low, high)), inner)
