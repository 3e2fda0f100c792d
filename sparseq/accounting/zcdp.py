"""Zero-concentrated differential privacy: rho-zCDP, that is (alpha, alpha rho)-RDP for all alpha.

See docs/theorems/conversions.md.

This is the guarantee of Corollary 4.7 (Feldman & Zrnic 2021; Remark 4.4 for the filter), and it
stays true when a store also uses mechanisms that are not Gaussian. Neighbours differ by all rows of
one user (add/remove).

Source of the conversion: Canonne, Kamath & Steinke (2020), Proposition 12:
rho-zCDP implies (epsilon, delta)-DP with

    delta = inf_{alpha > 1} exp((alpha-1)(alpha rho - epsilon)) / (alpha-1) · (1-1/alpha)^alpha.

With t = alpha - 1 the logarithm of that is

    L(t) = t (t rho - (epsilon - rho)) - t log(1 + 1/t) - log(1 + t),
    L'(t) = (2 t + 1) rho - epsilon - log(1 + 1/t),

and L' increases from -infinity to infinity, so L has one minimum. Every t > 0 gives a true bound:
an inexact minimiser costs tightness, never privacy.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import MAX_EPSILON, all_in_range, in_range, probability
from sparseq.accounting._safe_floats import boundary

SLACK = 2.0**-39
"""Relative error granted to `delta` where an inverse must be safe (measured: below 2**-41)."""

MAX_RHO = 2.0**1000
"""Largest rho whose epsilon is a float64."""

_UNDERFLOW = -800.0  # exp of this is 0.0 in float64


@overload
def delta(epsilon: float, rho: float) -> float: ...
@overload
def delta(epsilon: NDArray[np.float64], rho: float) -> NDArray[np.float64]: ...
def delta(epsilon: float | NDArray[np.float64], rho: float) -> float | NDArray[np.float64]:
    """Return the delta of Canonne, Kamath & Steinke (2020), Prop. 12, for rho-zCDP at epsilon.

    Args:
        epsilon: One number or an array, >= 0 (nats).
        rho: The zCDP parameter, > 0.

    Returns:
        delta, of the shape of `epsilon`, at most 1; relative error below 2**-41 down to 1e-300.

    Raises:
        ParameterError: An epsilon or rho is out of its range.

    Example:
        >>> f"{delta(1.0, 0.1):.10f}"
        '0.0089332458'
    """
    eps = all_in_range("epsilon", epsilon, 0.0)
    rho = in_range("rho", rho, 0.0, math.inf, open_low=True)
    values = [math.exp(_log_delta(one, rho)) for one in eps.ravel().tolist()]
    return np.array(values).reshape(eps.shape) if eps.ndim else values[0]


def epsilon(delta: float, rho: float) -> float:
    """Return the smallest epsilon >= 0 for which Prop. 12 gives (epsilon, delta)-DP, rounded up.

    Args:
        delta: In [2**-500, 1).
        rho: The zCDP parameter, in (0, 2**1000].

    Raises:
        ParameterError: `delta` or `rho` is out of its range.

    Proof of the bracket: Bun & Steinke's epsilon (see `epsilon_simple`) has a larger delta.

    Example:
        >>> round(epsilon(1e-6, 0.5), 9)
        5.221534445
    """
    delta = probability("delta", delta)
    rho = in_range("rho", rho, 0.0, MAX_RHO, open_low=True)
    target = math.log(delta)

    def safe(eps: float) -> bool:
        return _log_delta(eps, rho) + SLACK <= target

    if safe(0.0):
        return 0.0
    return boundary(safe, 0.0, epsilon_simple(delta, rho) * (1 + SLACK))[1]


def rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta)-DP, rounded down.

    Args:
        epsilon: In [0, 2**996] (nats).
        delta: In [2**-500, 1).

    Returns:
        rho; `zcdp.epsilon(delta, zcdp.rho(epsilon, delta))` never exceeds `epsilon`, since this
        grants four times the SLACK that `epsilon` does.

    Raises:
        ParameterError: `epsilon` or `delta` is out of its range.

    Example:
        >>> round(rho(1.0, 1e-6), 9)
        0.02435597
    """
    epsilon = in_range("epsilon", epsilon, 0.0, MAX_EPSILON)
    target = math.log(probability("delta", delta))

    def safe(rho: float) -> bool:
        return _log_delta(epsilon, rho) + 4 * SLACK <= target

    low = high = 1.0
    while not safe(low):
        low /= 2
    while safe(high):
        high *= 2
    return boundary(safe, low, high)[0]


def epsilon_simple(delta: float, rho: float) -> float:
    """Return rho + 2 sqrt(rho ln(1/delta)), rounded up: the classical, looser conversion.

    Source: Bun & Steinke (2016). It is Prop. 12 at alpha = 1 + sqrt(ln(1/delta)
    / rho) without the factor (1-1/alpha)^alpha/(alpha-1) < 1.

    Raises:
        ParameterError: `delta` or `rho` is out of its range.

    Example:
        >>> round(epsilon_simple(1e-6, 0.5), 9)
        5.75652177
    """
    delta = probability("delta", delta)
    rho = in_range("rho", rho, 0.0, MAX_RHO, open_low=True)
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + 2**-50)


def _log_delta(eps: float, rho: float) -> float:
    """min over t > 0 of L(t), see the module."""
    excess = eps - rho
    # L((eps - rho) / 2 rho) <= -(eps - rho)² / 4 rho: where that underflows, so does delta.
    if excess > 0 and excess / 2 * (excess / (2 * rho)) > -_UNDERFLOW:
        return _UNDERFLOW
    t = _minimiser(eps, rho)
    at_minimum = t * (t * rho - excess) - t * math.log1p(1 / t) - math.log1p(t)
    return min(0.0, at_minimum)  # L tends to 0 with t, for any rho


def _minimiser(eps: float, rho: float) -> float:
    """Return t near the zero of L'; a relative 2**-30 suffices, since L is flat there.

    Bracket: for eps > rho, L'((eps - rho) / 2 rho) = -log(1 + 1/t) < 0; otherwise
    t = exp(eps - 3 rho) <= 1 has L'(t) <= 3 rho - eps + log t = 0. At the upper end,
    u + 1/sqrt(2 rho) with u = max(eps - rho, 0) / 2 rho, L' >= sqrt(2 rho) - 1/t >= 0.
    """
    excess = max(eps - rho, 0.0) / (2 * rho)
    high = excess + 1 / math.sqrt(2 * rho)
    # t log t vanishes well before t = 1e-300: delta is 1 there to all digits.
    low = max(excess, math.exp(max(min(0.0, eps - 3 * rho), -690.0)))
    low, high = math.log(min(low, high)), math.log(high)
    while high - low > 2.0**-32:
        middle = (low + high) / 2
        t = math.exp(middle)
        if (2 * t + 1) * rho - eps < math.log1p(1 / t):
            low = middle
        else:
            high = middle
    return math.exp(high)
