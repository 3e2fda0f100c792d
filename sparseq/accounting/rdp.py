"""Rényi differential privacy: curves of mechanisms, their sum, and conversions to (epsilon, delta).

See docs/theorems/rdp.md.

A mechanism is (alpha, rho)-RDP if D_alpha(A(S) || A(S')) <= rho for all neighbours, in both
directions (Feldman & Zrnic 2021, Definition 2.2; Mironov 2017). A **curve** gives rho at every
order alpha > 1. Neighbours differ by all rows of one user (add/remove), and one user changes the
vector that noise is added to by at most 1 in norm: divide sigma or scale by the true sensitivity.

    curve                        of
    gaussian(sigma, orders)              N(0, sigma²) on a vector of L2 sensitivity 1
    laplace(scale, orders)               Laplace noise on a number of sensitivity 1
    randomized_response(p, orders)       a bit, told truly with probability p
    pure(epsilon, orders)                any epsilon-DP mechanism: the worst of them
    subsampled_gaussian(rate, ...)       a Gaussian on a Poisson sample of the users

`orders` comes last, so that `partial(gaussian, 2.0)` is a `Curve`; any function from an array of
orders to their RDP values is a curve too.

Composition adds curves, even if each is chosen after the answers of the earlier ones, as long as
the sum stays below a curve fixed in advance (Theorem 3.1). A filter enforces this.

Curves are within a relative 1e-12 of the truth, on either side: they are not rounded up, while the
conversions below are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting._numbers import all_in_range, count, in_range, is_real, probability
from sparseq.accounting._sampled_gaussian import Array, sampled_gaussian
from sparseq.accounting._two_point_noise import log_two_point
from sparseq.base.errors import ParameterError

__all__ = [
    "checked_orders",
    "checked_rdp",
    "compose",
    "delta",
    "epsilon",
    "epsilon_mironov",
    "epsilons",
    "evaluate",
    "gaussian",
    "laplace",
    "pure",
    "randomized_response",
    "repeat",
    "subsampled_gaussian",
]


Curve: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""RDP values (nats, >= 0, +inf where there is no bound) at an array of orders > 1."""

DEFAULT_ORDERS: NDArray[np.float64] = np.array(
    [1 + k / 10 for k in range(1, 100)] + [*range(11, 64), 80, 96, 128, 192, 256, 512, 1024]
)
"""Orders from 1.1 to 1024; they include every default order of dp-accounting."""
DEFAULT_ORDERS.flags.writeable = False

_ROUNDING = 2.0**-50  # covers the few roundings of a conversion, relative to its largest term


def gaussian(sigma: float, orders: ArrayLike) -> Array:
    """Return alpha / (2 sigma²): the Gaussian mechanism.

    Args:
        sigma: Standard deviation over L2 sensitivity, > 0.
        orders: alpha > 1, one number or an array.

    Raises:
        ParameterError: A number is out of its range.

    Source: Mironov (2017); Feldman & Zrnic (2021), Example 2.6.

    Example:
        >>> gaussian(2.0, [2, 16])
        array([0.25, 2.  ])
    """
    alphas = checked_orders(orders)
    sigma = in_range("sigma", sigma, 0.0, math.inf, open_low=True)
    with np.errstate(over="ignore"):
        return np.asarray(alphas / (2 * sigma) / sigma)


def laplace(scale: float, orders: ArrayLike) -> Array:
    """Return the curve of Laplace noise, density exp(-|z|/scale) / (2 scale), on sensitivity 1.

        log( alpha/(2 alpha - 1) e^((alpha-1)/scale) + (alpha-1)/(2 alpha - 1) e^(-alpha/scale) )

    over alpha - 1. It rises from the KL divergence to the pure epsilon, 1/scale.

    Args:
        scale: The noise's scale over the L1 sensitivity, > 0.
        orders: alpha > 1, one number or an array.

    Raises:
        ParameterError: A number is out of its range.

    Source: Mironov (2017), Proposition 6.

    Example:
        >>> laplace(1.0, [2, 1e6]).round(6)
        array([0.619124, 0.999999])
    """
    alphas = checked_orders(orders)
    rate = 1 / in_range("scale", scale, 2.0**-500, 2.0**500)
    up = alphas / (2 * alphas - 1)
    down = (alphas - 1) / (2 * alphas - 1)
    log_mean = log_two_point(up, down, (alphas - 1) * rate, alphas * rate, np.zeros_like(alphas))
    return np.asarray(log_mean / (alphas - 1))


def randomized_response(p: float, orders: ArrayLike) -> Array:
    """Return the curve of reporting a bit with probability p, and its opposite otherwise.

        log( p^alpha (1-p)^(1-alpha) + (1-p)^alpha p^(1-alpha) ) / (alpha - 1)

    Args:
        p: In (0, 1); 1 - p gives the same curve, 1/2 gives zero.
        orders: alpha > 1, one number or an array.

    Neighbours: the person's bit is 0 or 1. If a removed person answers like a fixed bit, add/remove
    is a special case.

    Raises:
        ParameterError: A number is out of its range.

    Source: Mironov (2017).

    Example:
        >>> randomized_response(0.75, [2]).round(6)
        array([0.847298])
    """
    alphas = checked_orders(orders)
    p = in_range("p", p, 0.0, 1.0, open_low=True)
    if p == 1:
        raise ParameterError(
            "p is 1; it must be in (0, 1)",
            "at 1 the answer is the bit itself, so there is no privacy",
        )
    p = max(p, 1 - p)
    gap = 2 * p - 1
    return _responses(p, 1 - p, gap, math.log1p(gap / (1 - p)), alphas)


def pure(epsilon: float, orders: ArrayLike) -> Array:
    """Return the largest curve that an epsilon-DP mechanism can have.

    It is the curve of randomised response at p = e^epsilon / (1 + e^epsilon): for any two data sets
    every epsilon-DP mechanism is a post-processing of that response (Kairouz, Oh & Viswanath 2015).
    It is below alpha epsilon²/2 (Bun & Steinke 2016) and below epsilon.

    Args:
        epsilon: >= 0 (nats).
        orders: alpha > 1, one number or an array.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> pure(0.1, [2, 1e6]).round(6)
        array([0.009959, 0.099999])
    """
    from scipy.special import expit

    alphas = checked_orders(orders)
    epsilon = in_range("epsilon", epsilon, 0.0, math.inf)
    weights = float(expit(epsilon)), float(expit(-epsilon))
    return _responses(*weights, math.tanh(epsilon / 2), epsilon, alphas)


def subsampled_gaussian(rate: float, sigma: float, orders: ArrayLike) -> Array:
    """Return the curve of a Gaussian on a Poisson sample with inclusion probability `rate`.

    Args:
        rate: Sampling probability q, in [0, 1].
        sigma: Standard deviation over the L2 sensitivity of the sampled sum, > 0.
        orders: alpha > 1, one number or an array.

    Neighbours: add/remove. The sample stays secret.

    Returns:
        The larger direction of the divergence, to a relative 1e-12. Never above `gaussian(sigma,
        orders)`, which replaces it where alpha/sigma is so large that the quadrature would take
        over four million nodes.

    Raises:
        ParameterError: A number is out of its range.

    Source: Mironov, Talwar & Zhang (2019); see `_sampled` for the formula and its evaluation.

    Example:
        >>> subsampled_gaussian(0.01, 1.0, [2, 32]).round(9)
        array([1.71813000e-04, 1.12462759e+01])
    """
    alphas = checked_orders(orders)
    rate = in_range("rate", rate, 0.0, 1.0)
    sigma = in_range("sigma", sigma, 0.0, math.inf, open_low=True)
    if rate == 0:
        return np.zeros_like(alphas)
    if rate == 1:
        return gaussian(sigma, alphas)
    return sampled_gaussian(rate, sigma, alphas)


def compose(*curves: Curve) -> Curve:
    """Return the curve of running mechanisms one after the other: the sum of their curves.

    Holds for curves fixed in advance, for any use of earlier answers by each mechanism (Mironov
    2017; Feldman & Zrnic 2021, section 2); for adaptively chosen curves, see the module.

    Raises:
        ParameterError: When called: one of the curves is not a curve at those orders.

    Example:
        >>> from functools import partial
        >>> both = compose(partial(gaussian, 2.0), partial(pure, 0.0))
        >>> both(np.array([2.0, 16.0]))
        array([0.25, 2.  ])
    """

    def total(orders: Array) -> Array:
        alphas = checked_orders(orders)
        return sum((evaluate(curve, alphas) for curve in curves), start=np.zeros_like(alphas))

    return total


def repeat(curve: Curve, times: int) -> Curve:
    """Return the curve of running one mechanism `times` times.

    Raises:
        ParameterError: `times` is no whole number >= 0.

    Example:
        >>> from functools import partial
        >>> repeat(partial(gaussian, 2.0), 3)(np.array([2.0]))
        array([0.75])
    """
    times = count("times", times, low=0)

    def total(orders: Array) -> Array:
        return np.asarray(times * evaluate(curve, orders)) if times else np.zeros_like(orders)

    return total


def evaluate(curve: Curve, orders: ArrayLike) -> Array:
    """Return a curve's values at `orders`, after a check that they can be RDP values.

    Raises:
        ParameterError: The curve returned another shape, a NaN or a negative number.

    Example:
        >>> evaluate(lambda orders: -orders, [2.0])
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: rdp is -2.0; it must be in [0, inf]
          hint: an RDP value is a divergence; inf means that there is no bound at that order
    """
    alphas = checked_orders(orders)
    return checked_rdp(curve(alphas), alphas.shape)


def epsilon(rdp: ArrayLike, orders: ArrayLike, delta: float) -> float:
    """Return the smallest epsilon >= 0 at `delta` that some order gives, rounded up.

        min over alpha of  rho + log(1 - 1/alpha) - log(delta · alpha) / (alpha - 1),

    and 0 where delta² >= 1 - e^-rho at some order.

    Args:
        rdp: rho at each of the K orders; inf where there is no bound.
        orders: The K orders alpha > 1.
        delta: In [2**-500, 1).

    Returns:
        epsilon; inf if rho is inf everywhere.

    Raises:
        ParameterError: A number is out of its range, or rdp and orders don't fit.

    Source: Canonne, Kamath & Steinke (2020), Proposition 12; Balle et al. (2020). The
    0 is the bound of Bretagnolle & Huber (1979) on the total variation, sqrt(1 - e^-KL), with
    KL <= rho. Both hold for either direction of the divergence.

    Example:
        >>> orders = np.linspace(2.0, 20.0, 181)
        >>> round(epsilon(gaussian(1.0, orders), orders, 1e-6), 6)
        5.22154
    """
    return float(epsilons(_one(rdp), orders, delta))


def epsilons(rdp: ArrayLike, orders: ArrayLike, delta: float) -> Array:
    """Return `epsilon` for many curves at once: rdp of shape (..., K), the result of shape (...).

    Example:
        >>> epsilons([[0.1, 0.2], [0.2, 0.4]], [2.0, 4.0], 1e-2).round(3)
        array([0.985, 1.185])
    """
    rhos, alphas = _curve(rdp, orders)
    delta = probability("delta", delta)
    shift = np.log1p(-1 / alphas)
    tail = -(math.log(delta) + np.log(alphas)) / (alphas - 1)
    candidates = rhos + shift + tail + _ROUNDING * (rhos + np.abs(shift) + np.abs(tail))
    candidates[delta**2 * (1 - _ROUNDING) >= -np.expm1(-rhos)] = 0.0
    return np.asarray(np.maximum(candidates.min(axis=-1), 0.0))


def epsilon_mironov(rdp: ArrayLike, orders: ArrayLike, delta: float) -> float:
    """Return min over alpha of rho + log(1/delta) / (alpha - 1), rounded up: never below `epsilon`.

    Arguments, result and errors are those of `epsilon`.

    Source: Mironov (2017), Proposition 3; Feldman & Zrnic (2021), Fact 2.4.

    Example:
        >>> round(epsilon_mironov([1.0], [2.0], 1e-6), 6)
        14.815511
    """
    rhos, alphas = _curve(_one(rdp), orders)
    delta = probability("delta", delta)
    candidates = (rhos - math.log(delta) / (alphas - 1)) * (1 + _ROUNDING)
    return float(candidates.min())


def delta(rdp: ArrayLike, orders: ArrayLike, epsilon: float) -> float:
    """Return the smallest delta at `epsilon` that some order gives, rounded up; at most 1.

    Args:
        rdp, orders: See `epsilon`.
        epsilon: >= 0 (nats).

    Source: as `epsilon`, solved for delta: exp((alpha-1)(rho - epsilon + log(1-1/alpha))) / alpha.

    Example:
        >>> orders = np.linspace(2.0, 20.0, 181)
        >>> f"{delta(gaussian(1.0, orders), orders, 5.22154):.4e}"
        '1.0000e-06'
    """
    rhos, alphas = _curve(_one(rdp), orders)
    epsilon = in_range("epsilon", epsilon, 0.0, math.inf)
    with np.errstate(over="ignore", divide="ignore"):
        shift = np.log1p(-1 / alphas)
        logs = (alphas - 1) * (rhos - epsilon + shift) - np.log(alphas)
        size = (alphas - 1) * (rhos + epsilon - shift) + np.log(alphas)
        logs = np.where(np.isinf(rhos), np.inf, logs + _ROUNDING * np.where(rhos < np.inf, size, 0))
        variation = np.log(-np.expm1(-rhos)) / 2 + _ROUNDING
        return math.exp(min(0.0, float(np.minimum(logs, variation).min())))


def checked_orders(orders: ArrayLike) -> Array:
    """Return orders as float64, or refuse the first that is not a finite number above 1.

    Example:
        >>> checked_orders([2, 1])
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: order is 1.0; it must be in (1, inf)
          hint: give a finite number in that range as order
    """
    alphas = _numbers("order", orders)
    return all_in_range("order", alphas if alphas.ndim else float(alphas), 1.0, open_low=True)


def _one(rdp: ArrayLike) -> Array:
    rhos = _numbers("rdp", rdp)
    if rhos.ndim != 1:
        raise ParameterError(
            f"rdp has shape {rhos.shape}; one row is needed", "use epsilons() for many curves"
        )
    return rhos


def _curve(rdp: ArrayLike, orders: ArrayLike) -> tuple[Array, Array]:
    alphas = np.atleast_1d(checked_orders(orders))
    rhos = np.atleast_1d(_numbers("rdp", rdp))
    if alphas.ndim != 1 or alphas.size == 0:
        raise ParameterError(
            f"orders have shape {alphas.shape}; they must be one row of at least one order"
        )
    return checked_rdp(rhos, (*rhos.shape[:-1], alphas.size)), alphas


def checked_rdp(rdp: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return RDP values as float64, or refuse a NaN, a negative number or a wrong shape."""
    rhos = _numbers("rdp", rdp)
    if rhos.shape != shape:
        raise ParameterError(
            f"rdp has shape {rhos.shape}; {shape} is needed", "one RDP value for each order"
        )
    wrong = rhos[~(rhos >= 0)]
    if wrong.size:
        raise ParameterError(
            f"rdp is {wrong.flat[0].item()!r}; it must be in [0, inf]",
            "an RDP value is a divergence; inf means that there is no bound at that order",
        )
    return rhos


def _numbers(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values)
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    for one in np.asarray(values, dtype=object).ravel().tolist():
        if not is_real(one):
            raise ParameterError(f"{name} is {one!r}; it must be a number")
    return array.astype(np.float64)


def _responses(truth: float, lie: float, gap: float, epsilon: float, alphas: Array) -> Array:
    """The curve of a binary response with log(truth/lie) = epsilon and truth - lie = gap."""
    tilt = (alphas - 1) * epsilon
    log_mean = log_two_point(
        np.full_like(alphas, truth), np.full_like(alphas, lie), tilt, tilt, gap * tilt
    )
    return np.asarray(log_mean / (alphas - 1))
