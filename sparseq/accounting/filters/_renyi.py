"""Rules over several Rényi orders: all budgets are kept, or at least one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting import rdp
from sparseq.accounting._numbers import probability
from sparseq.accounting._safe_floats import boundary
from sparseq.accounting.filters._fixed_point import FixedPoint
from sparseq.accounting.filters._renyi_budget import best_order, renyi_budget
from sparseq.accounting.filters._rule import Floats, Rule, Units, positive
from sparseq.base.errors import ParameterError


@dataclass(frozen=True, slots=True)
class RdpOrdersRule(Rule):
    """All steps together are (alpha_j, rho_j)-RDP for *every* j; a step is its values there.

    See docs/theorems/rdp-filter-orders.md.

    Args:
        orders: K orders alpha > 1.
        rhos: A budget for each, in [2**-500, 2**60].

    A step is K numbers, or (n, K) for n users, or a `Curve`; infinite at an order without a bound,
    which no budget admits.

    Source: Feldman & Zrnic (2021), Remark 4.4: if the filters of Theorem 4.3 at all orders admit,
    each one's guarantee holds.

    Example:
        >>> from functools import partial
        >>> from sparseq.accounting.filters import Filter
        >>> filter = Filter(RdpOrdersRule(orders=(2.0, 8.0), rhos=(1.0, 2.0)))
        >>> filter.admit(partial(rdp.gaussian, 2.0)), filter.would_admit([0.25, 1.5])
        (True, False)
    """

    orders: tuple[float, ...]
    rhos: tuple[float, ...]

    def __post_init__(self) -> None:
        _set_curve(self)

    @classmethod
    def for_target(
        cls, epsilon: float, delta: float, orders: ArrayLike | None = None
    ) -> RdpOrdersRule:
        """Return budgets alpha · rho, those of rho-zCDP, that imply (epsilon, delta)-DP.

        Args:
            epsilon, delta: The target.
            orders: By default 25 orders near the order at which the largest number of Gaussian
                queries fits.

        Raises:
            ParameterError: No budget at those orders reaches epsilon.
        """
        alphas = _nearby_orders(epsilon, delta) if orders is None else rdp.checked_orders(orders)
        per_order = renyi_budget(epsilon, delta, alphas) / alphas
        return cls(tuple(alphas.tolist()), tuple((alphas * per_order.max()).tolist()))

    @property
    def limits(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(rho) for rho in self.rhos)

    def read(self, rhos: ArrayLike | rdp.Curve) -> tuple[Floats, ...]:
        return _columns(rhos, self.orders)

    def charges(self, *rhos: Floats) -> tuple[Floats, ...]:
        return rhos

    def nothing(self) -> tuple[Any, ...]:
        return (np.zeros(len(self.orders)),)

    def epsilon(self, delta: float) -> float:
        return rdp.epsilon(self.rhos, self.orders, delta)


@dataclass(frozen=True, slots=True)
class RenyiCurveRule(Rule):
    """At every time, *some* order's budget holds; a step is its RDP values at the orders.

    Args:
        orders: K orders alpha > 1.
        rhos: A budget for each, in [2**-500, 2**60].
        adaptive: True if a step's *shape* - its best order - may depend on earlier answers. It
            affects only the target and the result of `epsilon`.

    A step is K numbers, or (n, K) for n users, or a `Curve`.

    Source: Lécuyer (2021), section 3.3, equation 4, and section 3.4 for a target, with a
    correction. Corollary 1 there states that one order's budget bounds the divergence; its proof
    applies Theorem 1 to an order chosen at the end. That needs the order to be the same on all
    paths: for curves fixed in advance, or all of one shape (all Gaussians, say). Otherwise a
    public coin that picks between two steps, each within another order's budget, refutes it; and
    with the budgets and orders of sections 3.4 and 4.5 two admitted steps reach 1.5 delta
    (docs/theorems/renyi-curve-filter.md). The following holds.

    Statement (`adaptive`): everything together is (epsilon, delta)-DP with

        delta = sum over the orders of c_j e^((alpha_j-1)(rho_j - epsilon)),
        c_j = (1 - 1/alpha_j)^(alpha_j-1) / alpha_j.

    Proof: M_j = exp((alpha_j-1)(L - spent_j)) is a supermartingale (Theorem 4.3 of Feldman &
    Zrnic), for the privacy loss L. At the end some j has spent_j <= rho_j, and there (1 -
    e^(epsilon-L))_+ <= c_j e^((alpha_j-1)(L-epsilon)) <= c_j e^((alpha_j-1)(rho_j-epsilon)) M_j.
    Sum over j and take means. Hence Lécuyer's budgets epsilon - log(1/delta)/(alpha_j-1) give
    delta times the sum of c_j, and are valid unchanged where that sum is at most 1.

    Statement (not `adaptive`, shapes as above): the same with the largest term instead of the
    sum. Some j, the same on all paths, has spent_j <= rho_j; it is not known beforehand.

    Example:
        >>> from functools import partial
        >>> from sparseq.accounting.filters import capacity
        >>> rule = RenyiCurveRule.for_target(epsilon=1.0, delta=1e-6)
        >>> capacity(rule, partial(rdp.gaussian, 30.0)), capacity(rule, partial(rdp.pure, 0.1))
        (42, 9)
    """

    overdraws = True

    orders: tuple[float, ...]
    rhos: tuple[float, ...]
    adaptive: bool = True

    def __post_init__(self) -> None:
        _set_curve(self)
        object.__setattr__(self, "adaptive", bool(self.adaptive))

    @classmethod
    def for_target(
        cls,
        epsilon: float,
        delta: float,
        orders: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        adaptive: bool = True,
    ) -> RenyiCurveRule:
        """Return budgets that together imply (epsilon, delta)-DP.

        Args:
            epsilon, delta: The target.
            orders: By default 25 orders near the order at which the largest number of Gaussian
                queries fits.
            weights: If `adaptive`, each order's part of delta, adding up to at most 1. By
                default 0.8 for the order best for Gaussians, and the rest in equal parts.
            adaptive: See the class; if not, each order has all of delta.

        Orders at which no budget reaches the target are left out.

        Raises:
            ParameterError: All are left out, or the weights don't fit.
        """
        alphas = _nearby_orders(epsilon, delta) if orders is None else rdp.checked_orders(orders)
        parts = np.ones_like(alphas)
        if adaptive:
            default = _default_weights(epsilon, delta, alphas)
            parts = _checked_weights(default if weights is None else weights, alphas.size)
        budgets = renyi_budget(epsilon, delta, alphas, parts)
        kept = budgets > 0
        return cls(tuple(alphas[kept].tolist()), tuple(budgets[kept].tolist()), adaptive)

    @property
    def limits(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(rho) for rho in self.rhos)

    def read(self, rhos: ArrayLike | rdp.Curve) -> tuple[Floats, ...]:
        return _columns(rhos, self.orders)

    def charges(self, *rhos: Floats) -> tuple[Floats, ...]:
        return rhos

    def fits(
        self, totals: Sequence[Units], limits: Sequence[Any], columns: Sequence[FixedPoint]
    ) -> NDArray[np.bool_]:
        """Return a mask of the totals with some column within its limit."""
        fit = np.zeros(totals[0].shape, np.bool_)
        for total, limit in zip(totals, limits, strict=True):
            fit |= total <= limit
        return fit

    def nothing(self) -> tuple[Any, ...]:
        return (np.zeros(len(self.orders)),)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that the class's statement implies, rounded up."""
        target = math.log(probability("delta", delta))
        alphas, rhos = np.array(self.orders), np.array(self.rhos)
        log_c = (alphas - 1) * np.log1p(-1 / alphas) - np.log(alphas)

        def safe(epsilon: float) -> bool:
            logs = log_c + (alphas - 1) * (rhos - epsilon)
            size = (alphas - 1) * (rhos + epsilon) - log_c
            logs += 2.0**-49 * (1 + size)
            top = float(logs.max())
            if self.adaptive and top <= target:
                top += math.log(math.fsum(np.exp(logs - top).tolist()))
            return top + 2.0**-50 <= target

        if safe(0.0):
            return 0.0
        highest = 1.0
        while not safe(highest):
            highest *= 2
        return boundary(safe, 0.0, highest)[1]


def _set_curve(rule: RdpOrdersRule | RenyiCurveRule) -> None:
    orders = np.atleast_1d(rdp.checked_orders(rule.orders))
    rhos = tuple(positive("rho", rho) for rho in rule.rhos)
    if orders.ndim != 1 or orders.size == 0 or len(rhos) != orders.size:
        raise ParameterError(f"{orders.size} orders and {len(rhos)} budgets; give one for each")
    object.__setattr__(rule, "orders", tuple(orders.tolist()))
    object.__setattr__(rule, "rhos", rhos)


def _columns(rhos: ArrayLike | rdp.Curve, orders: tuple[float, ...]) -> tuple[Floats, ...]:
    if callable(rhos):
        values = rdp.evaluate(rhos, orders)
    else:
        shape = np.shape(rhos)
        values = rdp.checked_rdp(rhos, (*shape[:-1], len(orders)))
    return tuple(values[..., j] for j in range(len(orders)))


def _nearby_orders(epsilon: float, delta: float) -> NDArray[np.float64]:
    """Return 25 orders: 1/4 to 1024 times the excess over 1 of the best order for Gaussians."""
    return 1 + (best_order(epsilon, delta) - 1) * 2.0 ** (np.arange(-4, 21) / 2)


def _default_weights(
    epsilon: float, delta: float, alphas: NDArray[np.float64]
) -> NDArray[np.float64]:
    if alphas.size == 1:
        return np.ones(1)
    weights = np.full(alphas.size, 0.2 / (alphas.size - 1))
    weights[np.argmin(np.abs(np.log(alphas / best_order(epsilon, delta))))] = 0.8
    return weights


def _checked_weights(weights: ArrayLike, orders: int) -> NDArray[np.float64]:
    parts = np.asarray(weights, np.float64)
    if parts.shape != (orders,) or not (parts > 0).all():
        raise ParameterError(f"weights are {weights!r}; one above 0 is needed for each order")
    if math.fsum(parts.tolist()) > 1 + 2.0**-50:
        raise ParameterError(f"weights add up to {math.fsum(parts.tolist())!r}; 1 is the most")
    return parts * (1 - 2.0**-50)
