"""Fixed-point budgets: the integer arithmetic by which every filter decides.

A budget becomes `limit` units of 2**-exponent, between 2**60 and 2**61 of them, rounded down; a
charge becomes units rounded up. Multiplying a float64 by a power of two and taking its ceiling
are exact, so a charge in units is never below the charge, and is 0 only for 0. Totals are sums
of integers: the same in any order, on any machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

SATURATED = 2**61
"""The largest charge, above every limit: a total below it plus one more charge fits in 63 bits."""

SMALLEST_BUDGET, LARGEST_BUDGET = 2.0**-500, 2.0**60

_LOW_BITS = 2**27 - 1  # bits of a float64's fraction: if they are 0, 26 significant bits are left
_SMALLEST_ROOT = 2.0**-500  # the squares of smaller numbers would lose digits, or be 0


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A budget in units scaled to its size.

    Attributes:
        limit: The budget in units, 2**60 <= limit < 2**61.
        exponent: A unit is 2**-exponent; it is >= 0, since budgets are at most 2**60.

    Example:
        >>> half = FixedPoint.of(Fraction(1, 2))
        >>> half.limit == 2**60, half.units(np.array([0.25, 5e-324, 0.0, 1e300])).tolist()
        (True, [576460752303423488, 1, 0, 2305843009213693952])
    """

    limit: int
    exponent: int

    @classmethod
    def of(cls, budget: Fraction) -> FixedPoint:
        """Return the units of a budget in [2**-500, 2**60]."""
        exponent = 60 - (budget.numerator.bit_length() - budget.denominator.bit_length())
        while math.floor(budget * Fraction(2) ** exponent) < 2**60:
            exponent += 1
        return cls(math.floor(budget * Fraction(2) ** exponent), exponent)

    def units(self, charges: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return charges >= 0 in units, rounded up; SATURATED for all larger ones and infinity."""
        with np.errstate(over="ignore"):
            scaled = charges * math.ldexp(1.0, self.exponent)
        np.ceil(scaled, out=scaled)
        np.minimum(scaled, SATURATED, out=scaled)
        return scaled.astype(np.int64)

    def in_budget_units(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return numbers of units in the budget's own unit, as floats rounded up."""
        nearest = units.astype(np.float64)
        short = nearest.astype(np.int64) < units
        return np.where(short, np.nextafter(nearest, np.inf), nearest) * 2.0**-self.exponent


def square_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return squares rounded up, of numbers >= 0: 0 only for 0, however small the number is.

    The square of a number of up to 26 significant bits, such as 1, 1.5 or 0.25, is exact; that of
    another is too large by a relative 2**-50 at most. (Below 2**-500 it is 2**-1000.)

    Example:
        >>> square_up(np.array([0.0, 1e-200, 3.0, 0.1])) > [-1, 0, 9, 0.01]
        array([ True,  True, False,  True])
    """
    with np.errstate(over="ignore"):
        squares = values * values
        long = (values.view(np.int64) & _LOW_BITS) != 0
        np.multiply(squares, 1 + 2.0**-51, out=squares, where=long)
    if values.size and values.min() < _SMALLEST_ROOT:
        np.copyto(squares, _SMALLEST_ROOT**2, where=(values < _SMALLEST_ROOT) & (values > 0))
    return squares
