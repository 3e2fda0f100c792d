"""The number of queries that each rule admits at one (epsilon, delta), and the papers' numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparseq.accounting import rdp
from sparseq.accounting._numbers import in_range, probability
from sparseq.accounting.filters._additive import (
    ApproxZcdpRule,
    GdpRule,
    PureDpRule,
    RdpRule,
    ZcdpRule,
)
from sparseq.accounting.filters._filter import capacity
from sparseq.accounting.filters._renyi import RdpOrdersRule, RenyiCurveRule
from sparseq.accounting.filters._rogers import RogersRule

_EPSILONS = 1e-9, 700.0  # range for one query: outside, squares or powers overflow
LECUYER_ORDERS = np.array([*np.arange(1.25, 10.01, 0.25), 16.0, 32.0])
"""The orders of Lécuyer (2021), section 4.5, "for all results"."""


@dataclass(frozen=True, slots=True)
class FilterComparison:
    """Numbers of copies of each query that one rule admits, and the paper's formula.

    Attributes:
        rule: Name of the rule, and its variant.
        gaussian, pure: Number of queries that it admits; None if it does not apply.
        paper_gaussian, paper_pure: The same by the source's own formula; None without one.
    """

    rule: str
    gaussian: int | None
    pure: int | None
    paper_gaussian: int | None = None
    paper_pure: int | None = None


def compare(
    epsilon: float, delta: float, sigma: float, query_epsilon: float
) -> list[FilterComparison]:
    """Return, rule by rule, the numbers of Gaussian and of pure-DP queries that fit the target.

    Args:
        epsilon, delta: The target of every rule.
        sigma: Noise of a Gaussian query of sensitivity 1, > 0.
        query_epsilon: epsilon_t of a pure-DP query, > 0.

    The papers' formulas, for k equal queries: Rogers et al.'s and Theorem 4.8's halting rules as
    Feldman & Zrnic quote them; the filters of Theorem 4.3 and of Lécuyer's section 3.4 with the
    conversion epsilon - log(1/delta)/(alpha-1) (Fact 2.4), at the best order, or the best of
    `LECUYER_ORDERS`; pure DP enters Rényi accounts as alpha epsilon_t²/2 there.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> for row in compare(1.0, 1e-6, sigma=100.0, query_epsilon=0.01)[:3]:
        ...     print(row.rule, row.pure, row.paper_pure)
        Rogers et al. 154 154
        Theorem 4.8, simple B* 349 349
        Theorem 4.8, best B* 487 349
    """
    target = (in_range("epsilon", epsilon, 0.0, math.inf, open_low=True), delta)
    probability("delta", delta)
    queries = _Queries(sigma, query_epsilon)
    rho, squares = queries.rho, query_epsilon**2 / 2
    log = -math.log(delta)
    simple = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    best = 1 + log / epsilon + math.sqrt(log / epsilon * (1 + log / epsilon))
    renyi = _mironov(epsilon, delta, np.array([best]))
    curve = _mironov(epsilon, delta, LECUYER_ORDERS)
    tight, adaptive = (
        RenyiCurveRule.for_target(*target, adaptive=adaptive) for adaptive in (False, True)
    )
    one, every = RdpRule.for_target(*target), RdpOrdersRule.for_target(*target)
    gdp = GdpRule.for_target(*target)

    def row(rule: str, ours: tuple[Any, Any], per_rho: float | None = None) -> FilterComparison:
        if per_rho is None:
            return FilterComparison(rule, *ours)
        return FilterComparison(
            rule, *ours, math.floor(per_rho / rho), math.floor(per_rho / squares)
        )

    return [
        FilterComparison(
            "Rogers et al.",
            None,
            capacity(RogersRule(*target), query_epsilon),
            None,
            _rogers_formula(*target, query_epsilon),
        ),
        *(
            FilterComparison(
                f"Theorem 4.8, {name} B*",
                None,
                capacity(PureDpRule(*target, simple=name == "simple"), query_epsilon),
                None,
                math.floor(simple / squares),
            )
            for name in ("simple", "best")
        ),
        row("zCDP", queries.zcdp(ZcdpRule.for_target(*target)), simple),
        row("RDP, one order", queries.at_orders(one, (one.order,)), renyi),
        row("RDP, all orders", queries.at_orders(every, every.orders)),
        row("Lécuyer, adaptive shapes", queries.at_orders(adaptive, adaptive.orders), curve),
        row("Lécuyer, one shape", queries.at_orders(tight, tight.orders), curve),
        row("approximate zCDP, delta/2", queries.zcdp(ApproxZcdpRule.for_target(*target), 0.0)),
        row("mu-GDP", (capacity(gdp, 1 / queries.sigma), None)),
    ]


@dataclass(frozen=True, slots=True)
class _Queries:
    """One Gaussian and one pure-DP query, as steps of the rules."""

    sigma: float
    epsilon: float

    def __post_init__(self) -> None:
        in_range("sigma", self.sigma, 0.0, math.inf, open_low=True)
        in_range("query_epsilon", self.epsilon, *_EPSILONS)

    @property
    def rho(self) -> float:
        return 1 / (2 * self.sigma) / self.sigma

    def zcdp(self, rule: ZcdpRule | ApproxZcdpRule, *rest: float) -> tuple[int, int]:
        return capacity(rule, self.rho, *rest), capacity(rule, self.epsilon**2 / 2, *rest)

    def at_orders(
        self, rule: RdpRule | RdpOrdersRule | RenyiCurveRule, orders: tuple[float, ...]
    ) -> tuple[int, int]:
        curves = (partial(rdp.gaussian, self.sigma), partial(rdp.pure, self.epsilon))
        first, second = (capacity(rule, curve(np.array(orders))) for curve in curves)
        return first, second


def _mironov(epsilon: float, delta: float, orders: Any) -> float:
    """Return the largest rho (zCDP) that Fact 2.4 allows at one of the orders."""
    per_order = (epsilon + math.log(delta) / (orders - 1)) / orders
    return max(0.0, float(per_order.max()))


def _rogers_formula(epsilon: float, delta: float, step: float) -> int:
    """Return the largest k that does not halt Rogers et al.'s filter, as quoted for equal steps."""
    log = -math.log(delta)
    c = epsilon**2 / (28.04 * log)

    def halts(k: int) -> bool:
        spread = 2 * (k * step**2 + c) * (1 + 0.5 * math.log(1 + k * step**2 / c)) * log
        return k * step * math.expm1(step) / 2 + math.sqrt(spread) > epsilon

    low, high = 0, 1
    while not halts(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if halts(middle) else (middle, high)
    return low
