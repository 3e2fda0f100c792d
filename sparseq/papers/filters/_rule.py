"""The interface of all rules of filters, and checks that they share.

Fixed-point budgets: the integer arithmetic that every filter decides by.

A budget becomes `limit` units of 2**-exponent, between 2**60 and 2**61 of them, rounded down; a
charge becomes units rounded up. Multiplying a float64 by a power of two and taking its ceiling
are exact, so a charge in units is never below the charge, and is 0 only for 0. Totals are sums
of integers: the same in any order, on any machine.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import in_range
from sparseq.base.errors import ParameterError

# -- fixed-point budgets: the integer arithmetic that every filter decides by ----------------------

SATURATED = 2**61
"""Charges end here, above every limit: a total below it plus one more charge fits in 63 bits."""

SMALLEST_BUDGET, LARGEST_BUDGET = 2.0**-500, 2.0**60

_LOW_BITS = 2**27 - 1  # of a float64's fraction: where they are 0, 26 significant bits are left
_SMALLEST_ROOT = 2.0**-500  # the squares of smaller numbers would lose digits, or be 0


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A budget in units of its own size.

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
        """Return charges >= 0 in units, rounded up; from SATURATED on, infinity included, that."""
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


# -- the interface of all rules of filters, and checks that they share -----------------------------

Floats = NDArray[np.float64]
Units = NDArray[np.int64]


class Rule(ABC):
    """A theorem as a filter applies it: what is summed, and up to where.

    A rule has one column, or several, of numbers >= 0 that add up from step to step. A rule is
    an immutable description; `Filter` and `IndividualFilter` hold what was spent under it.
    """

    overdraws: ClassVar[bool] = False
    """Whether a step can be admitted although one of its columns passes its limit."""

    known: ClassVar[dict[str, type[Rule]]] = {}

    def __init_subclass__(cls) -> None:
        Rule.known[cls.__name__] = cls

    @property
    @abstractmethod
    def limits(self) -> tuple[Fraction, ...]:
        """The budget of each column, exactly."""

    @abstractmethod
    def read(self, *step: Any) -> tuple[Floats, ...]:
        """Return what `charges` takes from one step's description, checked; mutates nothing."""

    @abstractmethod
    def charges(self, *read: Any) -> tuple[Floats, ...]:
        """Return what each column is charged, rounded up; element by element."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return epsilon at `delta` of everything that a filter under this rule admits."""

    def fits(
        self, totals: Sequence[Units], limits: Sequence[Any], columns: Sequence[FixedPoint]
    ) -> NDArray[np.bool_]:
        """Return where the totals are allowed: by default, where no column passes its limit."""
        fit = totals[0] <= limits[0]
        for total, limit in zip(totals[1:], limits[1:], strict=True):
            fit &= total <= limit
        return np.asarray(fit)

    def nothing(self) -> tuple[Any, ...]:
        """Return a step that costs nothing."""
        return (0.0,)

    def state(self) -> dict[str, Any]:
        """Return the rule as plain values: floats, tuples of them, and the rule's name."""
        return {"rule": type(self).__name__, **asdict(self)}  # type: ignore[call-overload]

    @staticmethod
    def from_state(state: dict[str, Any]) -> Rule:
        """Return the rule that `state` came from.

        Raises:
            ParameterError: It names no rule, or values that the rule refuses.
        """
        fields = dict(state)
        name = fields.pop("rule", None)
        if name not in Rule.known:
            raise ParameterError(f"rule is {name!r}; it must be one of {', '.join(Rule.known)}")
        try:
            return Rule.known[name](**fields)
        except TypeError:
            raise ParameterError(f"the saved {name} has fields {sorted(fields)}") from None


def positive(name: str, value: float) -> float:
    """Return a budget in [2**-500, 2**60], or refuse it by name."""
    return in_range(name, value, SMALLEST_BUDGET, LARGEST_BUDGET)


def rootable(name: str, value: float) -> float:
    """Return a budget whose square is one, in [2**-240, 2**29], or refuse it by name."""
    return in_range(name, value, 2.0**-240, 2.0**29)
