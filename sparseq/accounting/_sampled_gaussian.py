"""The Rényi divergence of the Gaussian mechanism on a random sample of the users.

Source: Mironov, Talwar & Zhang (2019), "Rényi Differential Privacy of the Sampled Gaussian
Mechanism": with Poisson sampling at rate q and add/remove neighbours, the larger direction of the
divergence is log(A)/(alpha - 1) with

    A = E[(1 + x)^alpha],    x = q (e^w - 1),    w = (2 sigma u - 1) / (2 sigma²),    u ~ N(0, 1).

How it is evaluated. Since E[x] = 0, A - 1 = E[G] with G = (1 + x)^alpha - 1 - alpha x, which
Bernoulli's inequality makes non-negative: an average of non-negative numbers keeps its digits even
where A is within 1e-12 of 1, where binomial series of alternating signs lose them. The mean is a
trapezoidal sum. Its integrand F is analytic except at 1 + x = 0, at height pi·sigma above the real
line, and |F(u + iy)| <= e^(y²/2) F(u) for the part (1 + x)^alpha, so that a step h errs by about 2
exp(y²/2 - 2 pi y / h), for any y up to pi·sigma. With y = pi·min(sigma, 4) the step below makes
that e^-45.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


MAX_NODES = 1 << 22
"""Above this many nodes (only for alpha far above sigma) the plain Gaussian's bound is used."""

_REACH = 11.0  # nodes extend this many deviations beyond the outermost peak: e^(-11²/2) < 1e-26
_DIGITS = 45.0  # and the step gives errors of e^-45
_BLOCK = 1 << 17  # cells (orders times nodes) per block
_LARGE_POWER = 40.0
_SERIES_UP_TO, _SAMPLED_TERMS = 0.2, 18  # 0.1^18 for small alpha, 0.2^18/18! for large ones


def sampled_gaussian(rate: float, sigma: float, orders: Array) -> Array:
    """Return log(A)/(alpha - 1) at each order > 1, for 0 < rate < 1 and sigma > 0."""
    height = math.pi * min(sigma, 4.0)
    step = min(0.5, 2 * math.pi * height / (_DIGITS + height * height / 2))
    with np.errstate(over="ignore"):
        result: Array = (orders / (2 * sigma) / sigma).ravel()
        # G grows as x² at least, so its right-hand peak lies at max(alpha, 2)/sigma at most.
        sizes = np.ceil((np.maximum(orders.ravel(), 2) / sigma + 2 * _REACH) / step)
    chosen = np.argsort(sizes, kind="stable")[: np.count_nonzero(sizes <= MAX_NODES)]
    while chosen.size:
        # A block's orders share the nodes of its largest order: extra nodes do no harm.
        cells = sizes[chosen] * np.arange(1, chosen.size + 1)
        block = chosen[: max(1, np.count_nonzero(cells <= _BLOCK))]
        chosen = chosen[block.size :]
        alphas = orders.ravel()[block]
        nodes = -_REACH + step * np.arange(1 + sizes[block[-1]])
        log_mean = _log_mean_excess(rate, sigma, alphas, nodes) + math.log(step)
        divergence = np.logaddexp(0.0, log_mean) / (alphas - 1)
        result[block] = np.minimum(divergence, result[block])
    return result.reshape(orders.shape)


def _log_mean_excess(rate: float, sigma: float, alphas: Array, nodes: Array) -> Array:
    """log of the sum over the nodes of the normal density times G, for each alpha."""
    from scipy.special import logsumexp

    x, log_ratio = _likelihood_ratio(rate, (nodes - 0.5 / sigma) / sigma)
    log_density = -nodes * nodes / 2 - math.log(2 * math.pi) / 2
    terms = _log_excess(alphas[:, None], x, log_ratio) + log_density
    return np.asarray(logsumexp(terms, axis=1))


def _likelihood_ratio(rate: float, w: Array) -> tuple[Array, Array]:
    """x = q (e^w - 1) and log(1 + x), each to its last digits; x may overflow to infinity."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x = rate * np.expm1(w)
        log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + w)
        return x, np.where(np.abs(x) < 0.5, np.log1p(x), log_ratio)


def _log_excess(alphas: Array, x: Array, log_ratio: Array) -> Array:
    """log G = log((1 + x)^alpha - 1 - alpha x), by series where that difference would cancel.

    For large powers G = (1 + x)^alpha (1 - alpha (1 + x)^(1 - alpha)) up to a relative e^-40, a
    form that no x can overflow.
    """
    power, tilt = alphas * log_ratio, (alphas - 1) * log_ratio
    small = np.abs(x) < _SERIES_UP_TO / np.maximum(alphas, 2.0)
    large = power > _LARGE_POWER
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # (1 + x) ((1 + x)^(alpha-1) - 1) - (alpha-1) x, which keeps its digits next to order 1 too
        grown = np.exp(np.minimum(log_ratio, _LARGE_POWER))
        direct = grown * np.expm1(np.minimum(tilt, _LARGE_POWER)) - (alphas - 1) * x
        series = np.log(_binomial_tail(alphas, np.where(small, x, 0.0)))
        ratio = -np.expm1(np.log(alphas) - tilt)
        middle = np.log(np.where(large, ratio, np.where(small, 1.0, direct)))
    return np.where(small, series, np.where(large, power + middle, middle))


def _binomial_tail(alphas: Array, x: Array) -> Array:
    """The sum over k >= 2 of binom(alpha, k) x^k, as nested products with the exact alpha - 1."""
    nested = np.ones_like(x)
    for k in range(_SAMPLED_TERMS, 2, -1):
        nested = 1 + (alphas - k + 1) / k * x * nested
    return np.asarray(alphas * (alphas - 1) / 2 * x * x * nested)
