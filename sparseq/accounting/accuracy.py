"""The distance of an answer from the sum over the active users.

An answer a has d coordinates, a_j = s_j + g floor(Z_j/g + 1/2) with s_j the exact sum over the
*active* users on the lattice of step g and Z_j ~ N(0, sigma_j²), independent. With probability at
least 1 - beta, |a_j - s_j| <= bound_j for all j at once. The noise alone stays within
sigma_j · z; rounding it to the lattice adds at most g/2.

The bounds do not cover dropped users or the rounding of a user's values to the lattice: they are
never the total error.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import all_in_range, count, in_range, probability
from sparseq.base.errors import ParameterError

_Sigmas = NDArray[np.float64]


@overload
def corollary_bound(
    sigma: float, coordinates: int, beta: float, lattice_step: float = 0.0
) -> float: ...
@overload
def corollary_bound(
    sigma: _Sigmas, coordinates: int, beta: float, lattice_step: float = 0.0
) -> _Sigmas: ...
def corollary_bound(
    sigma: float | _Sigmas, coordinates: int, beta: float, lattice_step: float = 0.0
) -> float | _Sigmas:
    """Return sigma · sqrt(2 ln(d/beta)) + lattice_step/2, the bound of Corollary 4.7.

    Args:
        sigma: Standard deviation of the noise, > 0; an array has one per coordinate or query.
        coordinates: d, the number of coordinates that the bound covers simultaneously (over all its
            queries), in 1 to 2**63.
        beta: Probability that some coordinate is outside the bound, in [2**-500, 1).
        lattice_step: g, in the unit of sigma; 0 for noise that is not rounded.

    Returns:
        The bound, in the unit and the shape of sigma.

    Raises:
        ParameterError: A number is out of its range.

    Source: Feldman & Zrnic (2021), Corollary 4.7 with delta = beta. Proof: P(|Z| > z sigma) <=
    exp(-z²/2) = beta/d at this z, and a union over d coordinates.

    Example:
        >>> round(corollary_bound(10.0, coordinates=5, beta=0.05), 4)
        30.3485
    """
    quantile = math.sqrt(2 * (math.log(count("coordinates", coordinates)) - _log_beta(beta)))
    return _bound(sigma, quantile, lattice_step)


@overload
def simultaneous_bound(
    sigma: float, coordinates: int, beta: float, lattice_step: float = 0.0
) -> float: ...
@overload
def simultaneous_bound(
    sigma: _Sigmas, coordinates: int, beta: float, lattice_step: float = 0.0
) -> _Sigmas: ...
def simultaneous_bound(
    sigma: float | _Sigmas, coordinates: int, beta: float, lattice_step: float = 0.0
) -> float | _Sigmas:
    """Return sigma · Phi^-1((1 + (1-beta)^(1/d)) / 2) + lattice_step/2, the exact quantile.

    Arguments, result and errors are those of `corollary_bound`, which is never smaller. Without
    rounding to a lattice, max_j |Z_j|/sigma_j exceeds the quantile with probability beta exactly.

    Proof: the d coordinates are independent, so all stay within z sigma_j with probability
    (2 Phi(z) - 1)^d = 1 - beta.

    Example:
        >>> round(simultaneous_bound(10.0, coordinates=5, beta=0.05), 4)
        25.6876
        >>> simultaneous_bound(np.array([10.0, 20.0]), 2, 0.05, lattice_step=1.0).round(4)
        array([22.8648, 45.2295])
    """
    return _bound(sigma, _simultaneous_quantile(coordinates, beta), lattice_step)


def comparison_bound(scale: float, comparisons: int, beta: float) -> float:
    """Return the error bound of a sparse vector's comparisons, with Laplace noise of `scale`.

    With probability at least 1 - beta, in a run of `comparisons` comparisons, every value reported
    above the threshold exceeds the threshold minus the bound, and every other value is below the
    threshold plus the bound.

    Args:
        scale: b of the discrete Laplace noise of the threshold and of each comparison, > 0.
        comparisons: K, in 1 to 2**63.
        beta: In [2**-500, 1).

    Source: Dwork & Roth (2014). Proof: P(|L| > m) <= 2 exp(-m/b); beta/2 for the
    threshold and beta/2 for the K comparisons.

    Example:
        >>> round(comparison_bound(10.0, comparisons=365, beta=0.05), 2)
        146.64
    """
    scale = in_range("scale", scale, 0.0, math.inf, open_low=True)
    both = 2 * (math.log(4) - _log_beta(beta)) + math.log(count("comparisons", comparisons))
    return scale * both


def sigma_for_accuracy(
    accuracy: float, coordinates: int, beta: float, lattice_step: float = 0.0
) -> float:
    """Return the largest noise whose `simultaneous_bound` is within `accuracy`.

    Args:
        accuracy: The requested bound, > lattice_step/2.
        coordinates, beta, lattice_step: See `corollary_bound`.

    Returns:
        sigma, rounded down: its computed bound is at most `accuracy`, by a few ulps.

    Raises:
        ParameterError: A number is out of its range, or half a lattice step is not less than the
            requested accuracy.

    Example:
        >>> round(sigma_for_accuracy(25.6876, coordinates=5, beta=0.05), 4)
        10.0
    """
    accuracy = in_range("accuracy", accuracy, 0.0, math.inf, open_low=True)
    quantile = _simultaneous_quantile(coordinates, beta)
    sigma = (accuracy - _half_step(lattice_step)) / quantile
    if sigma <= 0:
        raise ParameterError(
            f"accuracy is {accuracy!r}; it must be above {_half_step(lattice_step):g}, "
            f"half the lattice step of {lattice_step!r}",
            "ask for a coarser accuracy or take a finer lattice",
        )
    while _bound(sigma, quantile, lattice_step) > accuracy:
        sigma = math.nextafter(sigma, 0.0)
    return sigma


def _simultaneous_quantile(coordinates: int, beta: float) -> float:
    """z with (2 Phi(z) - 1)^d = 1 - beta.

    A small tail p = (1 - (1-beta)^(1/d)) / 2 would lose its digits in 1 - p, so z = -Phi^-1(p), by
    Wichura's AS 241, to a relative 2e-14; for p near 1/2, where z is small, p itself would lose
    digits, so z = sqrt(2) erfinv(1 - 2p), by SciPy, which takes 0.2 s to import.
    """
    log_inside, tail = _inside_and_tail(coordinates, beta)
    if tail < 0.25:
        return -NormalDist().inv_cdf(tail)
    from scipy.special import erfinv

    return float(math.sqrt(2) * erfinv(math.exp(log_inside)))


def _inside_and_tail(coordinates: int, beta: float) -> tuple[float, float]:
    """Return log((1-beta)^(1/d)), and the probability beyond each end."""
    inside = math.log1p(-probability("beta", beta)) / count("coordinates", coordinates)
    return inside, -math.expm1(inside) / 2


def _bound(sigma: float | _Sigmas, quantile: float, lattice_step: float) -> float | _Sigmas:
    half = _half_step(lattice_step)
    bound = all_in_range("sigma", sigma, 0.0, open_low=True) * quantile + half
    return np.asarray(bound) if np.ndim(sigma) else float(bound)


def _half_step(lattice_step: float) -> float:
    return in_range("lattice_step", lattice_step, 0.0, math.inf) / 2


def _log_beta(beta: float) -> float:
    return math.log(probability("beta", beta))
