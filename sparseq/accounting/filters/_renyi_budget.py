"""The Rényi budget at an order for an (epsilon, delta) target: inverted conversions.

For privacy loss L and a fixed order alpha, (1 - e^(epsilon - L))_+ <= c e^((alpha-1)(L - epsilon))
with c = (1 - 1/alpha)^(alpha-1) / alpha (Canonne, Kamath & Steinke 2020, proof of Prop. 12; Balle
et al. 2020). So E[e^((alpha-1) L)] <= e^((alpha-1) rho) gives delta = c e^((alpha-1)(rho -
epsilon)), and the rho for a given delta is

    epsilon + log(delta / c) / (alpha - 1)
        = epsilon - log(1 - 1/alpha) + log(alpha · delta) / (alpha - 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting import rdp
from sparseq.accounting._numbers import in_range, probability
from sparseq.base.errors import ParameterError

_CANDIDATES = 1 + np.geomspace(1e-3, 1e9, 12 * 400 + 1)


def budgets_at(
    epsilon: float, delta: float, orders: ArrayLike, weights: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Return rho (see above) at each order, for `weights` · delta, rounded down; it may be < 0.

    It is rounded by more than `rdp.epsilon`, so that the inverse never exceeds epsilon.
    """
    epsilon = in_range("epsilon", epsilon, 0.0, math.inf)
    alphas = rdp.checked_orders(orders)
    shift = np.log1p(-1 / alphas)
    tail = (np.log(alphas) + math.log(probability("delta", delta)) + np.log(weights)) / (alphas - 1)
    return np.asarray(
        epsilon - shift + tail - 2.0**-47 * (epsilon - shift + np.abs(tail) + 1 / (alphas - 1))
    )


def renyi_budget(
    epsilon: float, delta: float, orders: ArrayLike, weights: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Return `budgets_at`, or refuse a target that no budget reaches at any of the orders.

    Example:
        >>> renyi_budget(1.0, 1e-6, [2.0])
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: epsilon is 1.0; at these orders and this delta it \
        must be in (12.4292, inf)
          hint: no budget reaches it: give a larger epsilon or delta, or higher orders
    """
    budgets = budgets_at(epsilon, delta, orders, weights)
    if not (budgets > 0).any():
        least = float((epsilon - budgets).min())
        raise ParameterError(
            f"epsilon is {epsilon!r}; at these orders and this delta it must be in "
            f"({least:g}, inf)",
            "no budget reaches it: give a larger epsilon or delta, or higher orders",
        )
    return budgets


def best_order(epsilon: float, delta: float) -> float:
    """Return approximately the order with the largest rho/alpha, for most Gaussian queries."""
    epsilon = in_range("epsilon", epsilon, 0.0, math.inf, open_low=True)
    ratios = budgets_at(epsilon, delta, _CANDIDATES) / _CANDIDATES
    return float(_CANDIDATES[int(np.argmax(ratios))])
