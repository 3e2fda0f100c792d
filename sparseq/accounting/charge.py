"""The price of a contribution, in exact integers of ledger units.

A user with vector q(X_i) in a query of noise sigma is charged ||q(X_i)||² (sigma_0/sigma)² of its
norm_budget, that is rho_i = ||q(X_i)||²/(2 sigma²) of kappa (Feldman & Zrnic 2021, Example 2.6).
The vector is on a lattice of step g, so that ||q(X_i)||² = g² S with an integer S, and the ledger
counts in units of 2**-24 squared norm:

    charge(S) = ceil(S · R),    R = g² · norm_budget/(2 kappa) / sigma² · 2**24.

norm_budget, kappa, sigma and g are float64 and are used as exact rationals. R is replaced by P /
2**s >= R with P <= 2**62, too large by a relative 2**-60 at most; the rest is integer arithmetic,
and no float decides a charge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, in_range
from sparseq.accounting._safe_floats import sqrt_up
from sparseq.accounting.budget import NORM_BUDGET_RANGE, Budget
from sparseq.base.errors import ParameterError

UNITS_PER_NORM = 2**24
"""Ledger units per unit of squared norm: rounding up costs at most 6e-8 of a full contribution, and
the charges of one release mostly fit in four bytes a user.
"""

MAX_CHARGE = 2**62
"""The charge at which charges saturate, above every budget (at most 2**44 units). Add charges with
`add_charges`: two of this size would wrap.
"""

SIGNIFICANT_BITS = 11
"""Significant bits of the charge of a query: see `round_up`."""

MAX_SQUARED_NORM = 2**63 - 1
"""Squared lattice norms are int64; code that sums squares must saturate here, not wrap."""

_Words = NDArray[np.uint64]
_BLOCK = 1 << 14  # entries per step of the wide product: its temporaries stay in cache


@dataclass(frozen=True, slots=True)
class Price:
    """Ledger units per unit of squared lattice norm, for one sigma on one lattice.

    Attributes:
        exact: R of the module, as a rational.
        multiplier, shift: P and s of the module: charges are ceil(S · multiplier / 2**shift),
            with R <= multiplier / 2**shift <= R · (1 + 2**-60). Below R = 2**60, multiplier is at
            most 2**62 and shift at least 2; a larger R has shift 0 and saturates from S = 4 on.

    Example:
        >>> price = Price.of(sigma=10.0, granularity=1.0, budget=Budget(0.5, 100))
        >>> price.charge(np.array([0, 1, 25])) // UNITS_PER_NORM
        array([ 0,  1, 25])
        >>> Price.of(sigma=20.0, granularity=0.5, budget=Budget(0.5, 100)).exact
        Fraction(1048576, 1)
    """

    exact: Fraction
    multiplier: int
    shift: int

    @classmethod
    def of(cls, sigma: float, granularity: float, budget: Budget) -> Price:
        """Return the price of noise `sigma` on a lattice of step `granularity`.

        Args:
            sigma: Standard deviation of the noise, > 0, in the query's own unit.
            granularity: g, the lattice step, a power of two.
            budget: The budget of the store.

        Raises:
            ParameterError: sigma is not positive and finite, or granularity no power of two.
        """
        sigma = in_range("sigma", sigma, 0.0, math.inf, open_low=True)
        granularity = in_range("granularity", granularity, 0.0, math.inf, open_low=True)
        if math.frexp(granularity)[0] != 0.5:
            raise ParameterError(
                f"granularity is {granularity!r}; it must be a power of two",
                "for example 1.0 for counts, or 2**-10",
            )
        step = Fraction(granularity) / Fraction(sigma)
        exact = step * step * budget.unit_variance * UNITS_PER_NORM
        return cls(exact, *_dyadic_above(exact))

    def charge_one(self, squared_norm: int) -> int:
        """Return the charge for one S >= 0 of any size: `charge` in Python integers."""
        if not isinstance(squared_norm, Integral) or squared_norm < 0:
            raise ParameterError(
                f"squared norm is {squared_norm!r}; it must be a whole number in [0, inf)"
            )
        return min(-((-squared_norm * self.multiplier) >> self.shift), MAX_CHARGE)

    def charge(self, squared_norms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return min(ceil(S · multiplier / 2**shift), MAX_CHARGE) for each S.

        Args:
            squared_norms: S, int64, any shape: squared norms in units of granularity². They are
                >= 0. A negative one can only be a sum that wrapped around; it is charged
                MAX_CHARGE, since refusing would make an error depend on a user's rows.

        Returns:
            Charges in ledger units, int64, in the same shape: never below S · exact, 0 only for
            S = 0. Add several with `add_charges`.

        Raises:
            ParameterError: The array is not int64.

        Example:
            >>> price = Price.of(1e9, 1.0, Budget(0.5, 1))
            >>> price.charge(np.array([0, 1, 2**62])).tolist()
            [0, 1, 77371253]
        """
        if squared_norms.dtype != np.int64:
            raise ParameterError(f"squared norms are {squared_norms.dtype}; they must be int64")
        if squared_norms.size == 0:
            return squared_norms.copy()
        peak = int(squared_norms.view(np.uint64).max())  # a negative S reads as 2**63 or more
        if peak > MAX_SQUARED_NORM:
            charges = self.charge(np.maximum(squared_norms, 0))
            return np.where(squared_norms < 0, MAX_CHARGE, charges)
        if self.shift == 0:
            few = np.array([self.charge_one(one) for one in range(5)])
            return few[np.minimum(squared_norms, 4)]
        if peak * self.multiplier < 2**63:
            return _charge_narrow(squared_norms, self.multiplier, self.shift)
        if peak < min(_BLOCK, squared_norms.size):  # counts: a few small numbers, repeated
            return self._charge_wide(np.arange(peak + 1), peak)[squared_norms]
        return self._charge_wide(squared_norms, peak)

    def _charge_wide(self, squared_norms: NDArray[np.int64], peak: int) -> NDArray[np.int64]:
        saturates = self.charge_one(peak) == MAX_CHARGE
        flat = np.ascontiguousarray(squared_norms).reshape(-1).view(np.uint64)
        charges = np.empty(flat.shape, np.uint64)
        for start in range(0, flat.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            charges[block] = _ceil_shifted_product(
                flat[block], self.multiplier, min(self.shift, 127), saturates
            )
        return charges.view(np.int64).reshape(squared_norms.shape)


def sigma_for_scale(scale: float, budget: Budget) -> float:
    """Return the noise of a query of scale C: C · sqrt(norm_budget / (2 kappa)), rounded up.

    It is rounded so that a contribution of norm C costs exactly 2**24 units, and hence
    `budget.worst_case_queries()` queries of full norm always fit in norm_budget (Corollary 4.7
    against k0 of section 4.2): rounding never costs a user the last query.

    Args:
        scale: C, in [2**-500, 2**500].
        budget: The budget of the store.

    Returns:
        sigma, the smallest float64 that is not below the real number, or the next one. With nominal
        = S g²/C² · 2**24 for any lattice step g, `Price.of(sigma, g, budget)` charges S at most
        ceil(nominal), and exactly nominal where that is an integer up to 2**50. (A value C that is
        no multiple of g may be rounded up to more than C, and then costs more.)

    Raises:
        ParameterError: scale is out of its range.

    Proof. The loop ends with P/2**s <= 2**24/C² =: N at g = 1; another power of two shifts s and
    nothing else, so charges are at most ceil(S g² N). For the other half, sigma exceeds the real
    number by less than two ulps, a relative 2**-51, so R g² S > nominal (1 - 2**-50) >= nominal
    - 1 and its ceiling is at least nominal. The loop runs at most once: the next float lowers R
    by a relative 2**-53 or more, and P/2**s exceeds R by a relative 2**-60 or less.

    Example:
        >>> budget = Budget(kappa=0.3, norm_budget=30)
        >>> price = Price.of(sigma_for_scale(5.0, budget), 1.0, budget)
        >>> price.charge_one(5**2) == UNITS_PER_NORM
        True
    """
    scale = in_range("scale", scale, 2.0**-500, 2.0**500)
    sigma = sqrt_up(Fraction(scale) ** 2 * budget.unit_variance)
    nominal = UNITS_PER_NORM / Fraction(scale) ** 2
    price = Price.of(sigma, 1.0, budget)
    while Fraction(price.multiplier, 2**price.shift) > nominal:
        sigma = math.nextafter(sigma, math.inf)
        price = Price.of(sigma, 1.0, budget)
    return sigma


def sigma_for_price(scale: float, price: float, measures: int, budget: Budget) -> float:
    """Return the noise C · sigma_0 / sqrt(price) of one of several measures with a common weight.

    It is rounded up so that the charges of all measures together, each rounded up to a unit, are at
    most ceil(price · 2**24 · a²) units for a user whose weighted norm is at most C · a, a <= 1;
    a user with a < 1 may have up to measures - 1 units more.

    Args:
        scale: C in the measure's unit, in [2**-500, 2**500].
        price: The price of a contribution of norm C over all measures.
        measures: The number of measures that share the weight.
        budget: The budget of the store.

    Proof. Let N = (price · 2**24 - (measures - 1)) (1 - s), s = (measures + 5) 2**-52, be the
    charge of a joint norm of C at `sigma`, before rounding. A weight is computed in float64 from
    the sum of the measures' squared norms: the weighted norm exceeds C a by a relative
    (measures + 4) 2**-53 at most, and `weighted_norms` rounds up by 2**-58 of C² a measure. Both
    together add less than s to the square, so the charges before rounding add up to less than
    (price · 2**24 - (measures - 1)) a², and each is rounded up by less than one unit.

    Example:
        >>> budget = Budget(kappa=0.5, norm_budget=48)
        >>> sigma = sigma_for_price(3.0, 2.0, 1, budget)
        >>> Price.of(sigma, 1.0, budget).charge_one(9) == 2 * UNITS_PER_NORM
        True
    """
    scale = in_range("scale", scale, 2.0**-500, 2.0**500)
    price = in_range("price", price, 2.0**-500, 2.0**500)
    measures = count("measures", measures, high=2**20)
    units = Fraction(price) * UNITS_PER_NORM
    units = max(units - (measures - 1), units / 2) * (1 - Fraction(measures + 5, 2**52))
    nominal = units / Fraction(scale) ** 2
    sigma = sqrt_up(budget.unit_variance * UNITS_PER_NORM / nominal)
    found = Price.of(sigma, 1.0, budget)
    while Fraction(found.multiplier, 2**found.shift) > nominal:
        sigma = math.nextafter(sigma, math.inf)
        found = Price.of(sigma, 1.0, budget)
    return sigma


def budget_units(norm_budget: float) -> int:
    """Return floor(norm_budget · 2**24) exactly: a user's budget in ledger units.

    Args:
        norm_budget: A user's budget of squared norm, in [0, 2**20]; 0 leaves the user out.

    Raises:
        ParameterError: norm_budget is out of its range.

    Example:
        >>> budget_units(1.5)
        25165824
    """
    norm_budget = in_range("norm_budget", norm_budget, 0.0, NORM_BUDGET_RANGE[1])
    return math.floor(Fraction(norm_budget) * UNITS_PER_NORM)


def round_up(charges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return charges rounded up to `SIGNIFICANT_BITS`, so that the ledger keeps each in two bytes.

    It raises a charge by at most a relative 2**-10. The rounding is monotone, so that less noise
    still never costs less, and it is exact for n full contributions, n <= 2**11.

    Args:
        charges: Charges in ledger units, >= 0, any shape; charges beyond 2**52, and so beyond every
            budget, stay unchanged.

    Example:
        >>> round_up(np.array([0, 7, 2047, 2049, 3 * 2**24 + 1])).tolist()
        [0, 7, 2047, 2050, 50364416]
    """
    _check_units(charges)
    least = int(charges.min()) if charges.size else 0
    if least < 0:
        raise ParameterError(f"charge is {least}; it must be in [0, {MAX_CHARGE}]")
    if least.bit_count() == 1 and least == charges.max():
        return charges  # everybody pays the same power of two, as for a count
    bounded = np.minimum(charges, 2**52)  # exact as float64, so that frexp gives the bit length
    spare = np.maximum(
        np.frexp(bounded.astype(np.float64))[1].astype(np.int64) - SIGNIFICANT_BITS, 0
    )
    rounded = -(-bounded >> spare) << spare
    return np.where(charges > 2**52, charges, rounded)


def add_charges(charges: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return charges + more, saturating at MAX_CHARGE: for queries with several sigmas.

    Both are charges, in [0, MAX_CHARGE], so that their sum is at most 2**63 - and may wrap there.

    Example:
        >>> add_charges(np.array([1, MAX_CHARGE]), np.array([2, MAX_CHARGE])).tolist() == [3, 2**62]
        True
    """
    _check_units(charges)
    _check_units(more)
    total = np.asarray(MAX_CHARGE - more)
    np.minimum(charges, total, out=total)
    total += more
    return total


def _check_units(charges: NDArray[np.int64]) -> None:
    if charges.dtype != np.int64:
        raise ParameterError(f"charges are {charges.dtype}; they must be int64")


def _dyadic_above(exact: Fraction) -> tuple[int, int]:
    """Return (P, s) with R <= P/2**s <= R (1 + 2**-60), reduced; see `Price` for the ranges.

    P = ceil(R 2**s) with R 2**s in [2**61, 2**62), then halved while that is exact: prices that are
    small dyadic numbers then multiply within 64 bits. P/2**s is monotone in R: within one s because
    the ceiling is, and across powers of two since ceil never exceeds the next one. So less noise
    never costs less, not even by rounding.
    """
    if exact >= 2**60:
        return math.ceil(exact), 0
    shift = 62 - (exact.numerator.bit_length() - exact.denominator.bit_length())
    while exact * 2**shift >= 2**62:
        shift -= 1
    multiplier = math.ceil(exact * 2**shift)
    spare = min((multiplier & -multiplier).bit_length() - 1, shift - 2)
    return multiplier >> spare, shift - spare


def _charge_narrow(
    squared_norms: NDArray[np.int64], multiplier: int, shift: int
) -> NDArray[np.int64]:
    """ceil(S P / 2**s) where every S P is below 2**63: -floor(-S P / 2**s), floor being >>."""
    charges = squared_norms * -multiplier
    charges >>= min(shift, 63)
    return np.negative(charges, out=charges)


def _ceil_shifted_product(factor: _Words, multiplier: int, shift: int, saturates: bool) -> _Words:
    """min(ceil(factor · multiplier / 2**shift), 2**62) in 64-bit words, by 32-bit limbs.

    For factor < 2**63, multiplier <= 2**62 and 2 <= shift <= 127. Unless `saturates`, no result
    reaches 2**62, and the check for it is skipped.

    The ceiling is the floor after adding 2**shift - 1, which goes in limb by limb. Nothing
    overflows: with a limb below 2**32 each, the bottom is at most (2**32 - 1)² + 2**32 - 1, the
    middle below 2**63 + 2**62 + 2 · 2**32, the top below 2**61 + 2**63 + 2**32.
    """
    limb, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    bias = (1 << shift) - 1
    upper, lower = np.uint64(multiplier >> 32), np.uint64(multiplier & 0xFFFFFFFF)
    factor_upper, factor_lower = factor >> limb, factor & mask
    bottom = factor_lower * lower
    bottom += np.uint64(bias & 0xFFFFFFFF)
    middle = factor_upper * lower
    middle += np.uint64(bias >> 32 & 0xFFFFFFFF)
    middle += np.multiply(factor_lower, upper, out=factor_lower)
    middle += bottom >> limb
    top: _Words = np.multiply(factor_upper, upper, out=factor_upper)
    top += np.uint64(bias >> 64)
    top += middle >> limb
    if shift >= 64:
        top >>= np.uint64(shift - 64)
        return top
    middle <<= limb
    middle |= np.bitwise_and(bottom, mask, out=bottom)
    middle >>= np.uint64(shift)
    middle |= top << np.uint64(64 - shift)
    if saturates:
        middle[top >= np.uint64(1 << (shift - 2))] = MAX_CHARGE
    return middle
