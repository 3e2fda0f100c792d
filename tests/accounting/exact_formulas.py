"""The conversions written naively in 60 digits, and the settings all property tests here share."""

from __future__ import annotations

import mpmath
from hypothesis import settings
from hypothesis import strategies as st
from mpmath import mpf

DIGITS = 60
deterministic = settings(derandomize=True, deadline=None, max_examples=100, database=None)

kappas = st.floats(2.0**-30, 2.0**10)
norm_budgets = st.floats(2.0**-20, 2.0**20)
deltas = st.floats(-34.5, -0.7).map(lambda log: float(mpmath.exp(log)))  # 1e-15 to 0.5


def off(ours: float, wanted: float) -> float:
    """The relative difference."""
    return abs(ours - wanted) / abs(wanted) if wanted else abs(ours)


def laplace_rdp(scale: float, order: float) -> mpf:
    """Mironov (2017): the formula for Laplace noise."""
    with mpmath.workdps(DIGITS):
        a, b = mpf(order), mpf(scale)
        up = a / (2 * a - 1) * mpmath.exp((a - 1) / b)
        return mpmath.log(up + (a - 1) / (2 * a - 1) * mpmath.exp(-a / b)) / (a - 1)


def response_rdp(p: float, order: float) -> mpf:
    """Mironov (2017): the formula for randomised response."""
    with mpmath.workdps(DIGITS):
        truth, lie, a = mpf(p), 1 - mpf(p), mpf(order)
        return mpmath.log(truth**a * lie ** (1 - a) + lie**a * truth ** (1 - a)) / (a - 1)


def rdp_epsilon(rhos: list[float], orders: list[float], delta: float) -> mpf:
    """Canonne, Kamath & Steinke (2020), Prop. 12, and 0 where the total variation is small."""
    with mpmath.workdps(DIGITS):
        best = mpf("inf")
        for rho, order in zip(rhos, orders, strict=True):
            a, d = mpf(order), mpf(delta)
            if d * d >= -mpmath.expm1(-mpf(rho)):
                return mpf(0)
            best = min(best, rho + mpmath.log1p(-1 / a) - mpmath.log(d * a) / (a - 1))
        return max(best, mpf(0))


def gdp_delta(epsilon: float, mu: float) -> mpf:
    with mpmath.workdps(DIGITS):
        eps, m = mpf(epsilon), mpf(mu)
        return phi(m / 2 - eps / m) - mpmath.exp(eps) * phi(-m / 2 - eps / m)


def phi(z: mpf) -> mpf:
    return mpmath.erfc(-z / mpmath.sqrt(2)) / 2


def zcdp_delta(epsilon: float, rho: float) -> mpf:
    """Canonne, Kamath & Steinke (2020), Prop. 12, with the zero of the derivative bisected."""
    with mpmath.workdps(DIGITS):
        eps, r = mpf(epsilon), mpf(rho)
        low, high = mpf(-4000), mpf(1000)  # of log(alpha - 1)
        for _ in range(80):
            middle = (low + high) / 2
            alpha = 1 + mpmath.exp(middle)
            slope = (2 * alpha - 1) * r - eps + mpmath.log1p(-1 / alpha) if alpha > 1 else mpf(-1)
            low, high = (middle, high) if slope < 0 else (low, middle)
        return zcdp_delta_at(1 + mpmath.exp(high), eps, r)


def zcdp_delta_at(alpha: mpf, eps: mpf, rho: mpf) -> mpf:
    return (
        mpmath.exp((alpha - 1) * (alpha * rho - eps))
        / (alpha - 1)
        * mpmath.exp(alpha * mpmath.log1p(-1 / alpha))
    )


def simultaneous_quantile(coordinates: int, beta: float) -> mpf:
    with mpmath.workdps(DIGITS):
        inside = mpmath.exp(mpmath.log1p(-mpf(beta)) / coordinates)
        return mpmath.sqrt(2) * mpmath.erfinv(inside)
