"""RDP values as integers, rounded up: the terms of odometers and of accounts of many users.

A sum of integers does not depend on the order of its terms, is saved and loaded exactly, and errs
to the safe side once per charge. The unit is 2**-40 nats (1e-12), and sums saturate at 2**22 nats:
above this no bound is claimed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.charge import MAX_CHARGE

NO_BOUND = MAX_CHARGE
"""The value at which sums saturate (2**62 units), for infinity. Add with `charge.add_charges`."""

_SHIFT = 40


def units_up(nats: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return ceil(nats · 2**40), at most NO_BOUND, for RDP values in [0, inf].

    It is exact: scaling by a power of two is, and a float of 2**53 or more is an integer.

    Example:
        >>> units_up(np.array([0.0, 1e-300, 1.0, np.inf])).tolist() == [0, 1, 2**40, NO_BOUND]
        True
    """
    with np.errstate(over="ignore"):
        scaled = np.ceil(np.ldexp(nats, _SHIFT))
    return np.asarray(np.minimum(scaled, float(NO_BOUND)).astype(np.int64))


def nats_up(units: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return units / 2**40 rounded up to a float64, and inf for NO_BOUND.

    Example:
        >>> nats_up(np.array([0, 2**39, NO_BOUND])).tolist()
        [0.0, 0.5, inf]
    """
    nearest = units.astype(np.float64)
    above = np.where(nearest.astype(np.int64) < units, np.nextafter(nearest, np.inf), nearest)
    return np.asarray(np.where(units >= NO_BOUND, np.inf, np.ldexp(above, -_SHIFT)))


def times(
    units: NDArray[np.int64], factor: int | np.int64 | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return units · factor for factors >= 1, saturating at NO_BOUND.

    Example:
        >>> times(np.array([0, 3, 2**60]), 5).tolist() == [0, 15, NO_BOUND]
        True
    """
    fits = units <= NO_BOUND // factor
    return np.asarray(np.where(fits, np.where(fits, units, 0) * factor, NO_BOUND))
