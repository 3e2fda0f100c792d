"""The exponential mean in the curves of Laplace noise and randomised response."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SERIES_TERMS = 14  # terms of exp(x) - 1 - x, for |x| < 0.5: the next is below 2**-53 of the sum


def log_two_point(up: Floats, down: Floats, rise: Floats, fall: Floats, linear: Floats) -> Floats:
    """log(up · e^rise + down · e^-fall), where up + down = 1 and linear = up·rise - down·fall >= 0.

    For a small rise the sum is 1 + linear + up·f(rise) + down·f(-fall) with f(x) = e^x - 1 - x:
    three non-negative numbers, so nothing cancels.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = linear + up * _exp_remainder(rise) + down * _exp_remainder(-fall)
        far = rise + np.log(up + down * np.exp(-(rise + fall)))
        return np.where(rise < 1, np.log1p(near), far)


def _exp_remainder(x: Floats) -> Floats:
    """e^x - 1 - x, to the last digits."""
    nested = np.ones_like(x)
    for k in range(_SERIES_TERMS, 2, -1):
        nested = 1 + x / k * nested
    return np.where(np.abs(x) < 0.5, x * x / 2 * nested, np.expm1(x) - x)
