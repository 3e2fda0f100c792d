"""Gaussian differential privacy: mu-GDP, the trade-off of distinguishing N(0, 1) and N(mu, 1).

See docs/theorems/conversions.md.

All releases of a store are mu-GDP with mu = sqrt(2 kappa) as long as each mechanism is an
unsubsampled Gaussian (fully adaptive composition: Smith & Thakurta 2022; individual filter: Koskela
et al. 2023). Neighbours differ by all rows of one user (add/remove).

Source of the conversion: Balle & Wang (2018); Dong, Roth & Su (2022):
a mechanism is mu-GDP iff for every epsilon >= 0 it is (epsilon, delta(epsilon))-DP with

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

How it is evaluated. With x = (epsilon/mu - mu/2)/sqrt 2 and h = mu/sqrt 2, and y = x + h, we have
y² - x² = epsilon, so that the formula is

    delta = (erfc(x) - e^epsilon erfc(y)) / 2 = exp(-x²) (erfcx(x) - erfcx(y)) / 2,

where e^epsilon can no longer overflow. The difference loses digits only where h is small; there
it is the integral of g = -erfcx' over [x, y], whose integrand is positive: no cancellation.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import MAX_EPSILON, all_in_range, in_range, probability
from sparseq.accounting._safe_floats import boundary

SLACK = 2.0**-39
"""Relative error granted to `delta` where an inverse must be safe (measured: below 2**-41)."""

MAX_MU = 2.0**500
"""Largest mu whose epsilon is a float64."""

_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_SMALL_STEP = 0.5  # up to here 12 nodes integrate g to the last digits
_UNDERFLOW = 40.0  # exp(-40²) is 0.0 in float64
_FRACTION_FROM, _FRACTION_DEPTH = 4.0, 40  # start and depth of the continued fraction


@overload
def delta(epsilon: float, mu: float) -> float: ...
@overload
def delta(epsilon: NDArray[np.float64], mu: float) -> NDArray[np.float64]: ...
def delta(epsilon: float | NDArray[np.float64], mu: float) -> float | NDArray[np.float64]:
    """Return the smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    Args:
        epsilon: One number or an array, >= 0 (nats).
        mu: The GDP parameter, > 0.

    Returns:
        delta, of the shape of `epsilon`; relative error below 2**-41 down to 1e-300 (it comes
        from exp(-x²), and is a few ulps for delta above 1e-15), not rounded to either side.

    Raises:
        ParameterError: An epsilon or mu is out of its range.

    Example:
        >>> f"{delta(1.0, 1.0):.12f}"
        '0.126936737507'
        >>> delta(np.array([0.0, 1.0, 50.0]), 1.0).shape
        (3,)
    """
    eps = all_in_range("epsilon", epsilon, 0.0)
    mu = in_range("mu", mu, 0.0, math.inf, open_low=True)
    result = _delta(np.atleast_1d(eps), mu).reshape(eps.shape)
    return result if eps.ndim else float(result)


def epsilon(delta: float, mu: float) -> float:
    """Return the smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP, rounded up.

    Args:
        delta: In [2**-500, 1).
        mu: The GDP parameter, in (0, 2**500].

    Returns:
        epsilon such that even 1 + SLACK times the computed delta(epsilon) is at most `delta`,
        and which at most a relative SLACK in delta separates from the smallest.

    Raises:
        ParameterError: `delta` or `mu` is out of its range.

    Proof of the bracket: at epsilon = mu²/2 + mu t, delta(epsilon) <= Phi(-t) <= exp(-t²/2) / 2.

    Example:
        >>> round(epsilon(1e-6, 1.0), 9)
        4.886554117
    """
    delta = probability("delta", delta)
    mu = in_range("mu", mu, 0.0, MAX_MU, open_low=True)

    def safe(eps: float) -> bool:
        return _scalar_delta(eps, mu) * (1 + SLACK) <= delta

    if safe(0.0):
        return 0.0
    highest = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
    return boundary(safe, 0.0, highest * (1 + SLACK), _near(delta, mu, highest))[1]


def _near(delta: float, mu: float, highest: float) -> float:
    """Return about the epsilon at which delta(epsilon) is `delta`: log delta by secants."""

    def excess(eps: float) -> float:
        return math.log(max(_scalar_delta(eps, mu), 1e-300) / delta)

    last, now = highest, highest * 0.9
    before = excess(last)
    for _ in range(12):
        here = excess(now)
        if here == before or abs(now - last) <= 1e-13 * now:
            break
        last, now, before = now, now - here * (now - last) / (here - before), here
        now = min(max(now, 0.0), highest)
    return now


def mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-DP, rounded down.

    Args:
        epsilon: In [0, 2**996] (nats).
        delta: In [2**-500, 1).

    Returns:
        mu such that even 1 + 4 SLACK times the computed delta is at most `delta`. The factor 4,
        against 1 in `epsilon`, ensures that `gdp.epsilon(delta, gdp.mu(epsilon, delta))` never
        exceeds the given epsilon: the true delta there has room for both roundings.

    Raises:
        ParameterError: `epsilon` or `delta` is out of its range.

    Proof of the bracket: delta(epsilon, mu) <= delta(0, mu) <= mu / sqrt(2 pi), which at
    mu = delta is below `delta`; and delta(epsilon, mu) tends to 1 as mu grows.

    Example:
        >>> round(mu(1.0, 1e-6), 9)
        0.236704381
    """
    epsilon = in_range("epsilon", epsilon, 0.0, MAX_EPSILON)
    delta = probability("delta", delta)

    def safe(mu: float) -> bool:
        return _scalar_delta(epsilon, mu) * (1 + 4 * SLACK) <= delta

    high = max(1.0, math.sqrt(2 * epsilon))
    while safe(high):
        high *= 2
    return boundary(safe, delta, high)[0]


def best_guess(mu: float) -> float:
    """Return the probability that the best guess whether one person is in the data is right.

    Args:
        mu: The GDP parameter, > 0.

    Returns:
        Phi(mu / 2), for an attacker who knows all rows of the person and of everybody else, and
        whose prior is one half. One half is no better than a coin.

    Raises:
        ParameterError: `mu` is out of its range.

    Proof: the best test of two equally likely worlds is right with probability (1 + d) / 2, where d
    is their total variation, which is delta(0, mu) = 2 Phi(mu / 2) - 1.

    Example:
        >>> round(best_guess(1.0), 3)
        0.691
    """
    mu = in_range("mu", mu, 0.0, math.inf, open_low=True)
    return NormalDist().cdf(mu / 2)


def belief(before: float, mu: float, luck: float = 0.5) -> float:
    """Return the attacker's belief after all answers that a person is in the data, if so.

    Args:
        before: The prior probability, in [2**-500, 1).
        mu: The GDP parameter, in (0, 2**500].
        luck: The share of all outcomes that reveal less, in [2**-500, 1): 0.5 is the median, and
            one outcome in 20 exceeds 0.95.

    Returns:
        The posterior probability, in [0, 1]. The odds are the prior odds times e^L, where the
        privacy loss L is Gaussian of mean mu²/2 and deviation mu.

    Raises:
        ParameterError: An argument is out of its range.

    Example:
        >>> round(belief(0.01, 1.0), 4), round(belief(0.01, 1.0, 0.95), 4)
        (0.0164, 0.0794)
    """
    before = probability("before", before)
    mu = in_range("mu", mu, 0.0, MAX_MU, open_low=True)
    luck = probability("luck", luck)
    loss = mu * (mu / 2 + NormalDist().inv_cdf(luck))
    return 1 / (1 + math.exp(min(math.log((1 - before) / before) - loss, 700.0)))


def _scalar_delta(eps: float, mu: float) -> float:
    return float(_delta(np.array([eps]), mu)[0])


def _delta(eps: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """delta for a one-dimensional array of epsilons; see the module for the two forms."""
    x = np.minimum(_lower_limit(eps, mu), _UNDERFLOW)
    step = mu / math.sqrt(2)
    if step <= _SMALL_STEP:
        nodes = x[:, None] + step * (1 + _NODES) / 2
        difference = _minus_erfcx_slope(nodes) @ _WEIGHTS * (step / 2)
        return np.asarray(np.exp(-x * x) * difference / 2)
    tail = np.exp(-x * x)
    y = x + step
    # erfcx(x) overflows for very negative x, where erfc(x) is near 2 and nothing cancels.
    left = np.where(x < 0, _erfc(x), tail * _erfcx(np.maximum(x, 0)))
    return np.asarray((left - tail * _erfcx(y)) / 2)


def _lower_limit(eps: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """x = (epsilon - mu²/2) / (mu sqrt 2), corrected for the rounding error of mu².

    For large mu the two terms nearly cancel, and x² is an exponent: mu² needs all its digits.
    """
    if not 1e-100 < mu < 1e100:  # the products below would leave the range of floats
        with np.errstate(over="ignore"):
            return np.asarray((eps / mu - mu / 2) / math.sqrt(2))
    square, error = _square(np.float64(mu))
    with np.errstate(over="ignore"):
        return np.asarray(((eps - square / 2) - error / 2) / (mu * math.sqrt(2)))


def _square(x: Any) -> tuple[Any, Any]:
    """x² as a float and its rounding error: Veltkamp's splitting by 2**27 + 1, Dekker's product."""
    square = x * x
    big = x * 134217729.0
    head = big - (big - x)
    tail = x - head
    return square, ((head * head - square) + 2 * head * tail) + tail * tail


def _minus_erfcx_slope(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(t) = -erfcx'(t) = 2/sqrt(pi) - 2 t erfcx(t), for t > -1, to 14 digits.

    For large t both terms tend to 2/sqrt(pi). Up to 4 that costs a factor 34; from there on the
    continued fraction sqrt(pi) erfcx(t) = 1/(t + r), r = (1/2)/(t + (2/2)/(t + (3/2)/(t + ...)))
    gives g = 2/sqrt(pi) · r/(t + r), where every operation adds or divides positive numbers.
    """
    direct = 2 / math.sqrt(math.pi) - 2 * t * _erfcx(np.minimum(t, _FRACTION_FROM))
    if not (t >= _FRACTION_FROM).any():
        return np.asarray(direct)
    large = np.maximum(t, _FRACTION_FROM)
    r = _fraction(large)
    fraction = 2 / math.sqrt(math.pi) * r / (large + r)
    return np.asarray(np.where(t >= _FRACTION_FROM, fraction, direct))


def _fraction(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """r of the continued fraction in `_minus_erfcx_slope`, for t >= 4."""
    r = np.zeros_like(t)
    for k in range(_FRACTION_DEPTH, 0, -1):
        r = (k / 2) / (t + r)
    return r


def _erfcx(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^(t²) erfc(t), t > -1: by its definition, with all digits of t²; from 4 by the fraction.

    SciPy has it, but its import takes longer than the whole command `sparseq budget`.
    """
    small = np.minimum(t, _FRACTION_FROM)
    square, error = _square(small)
    direct = np.exp(square) * (1 + error) * _erfc(small)
    if not (t > _FRACTION_FROM).any():
        return np.asarray(direct)
    large = np.maximum(t, _FRACTION_FROM)
    fraction = 1 / (math.sqrt(math.pi) * (large + _fraction(large)))
    return np.asarray(np.where(t > _FRACTION_FROM, fraction, direct))
