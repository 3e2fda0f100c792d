"""The two numbers a store is created with, and what they promise.

Source: Feldman & Zrnic (2021), Corollary 4.7 and section 4.2. Neighbours differ by all rows of
one user (add/remove). Everything ever released, however long and adaptive the stream, is
kappa-zCDP; a user takes part while the squared norms of its contributions stay within norm_budget.

The distance of an answer from the sum over the active users.

An answer a has d coordinates, a_j = s_j + g floor(Z_j/g + 1/2) with s_j the exact sum over the
*active* users on the lattice of step g and Z_j ~ N(0, sigma_j²), independent. With probability at
least 1 - beta, |a_j - s_j| <= bound_j for all j at once. The noise alone stays within
sigma_j · z; rounding it to the lattice adds at most g/2.

The bounds say nothing about dropped users, nor about what rounding a user's values to the lattice
changed: they are never the total error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sparseq.accounting import gdp, zcdp
from sparseq.accounting._numbers import count, in_range, probability, round_down, sqrt_up
from sparseq.base.errors import ParameterError

# -- the two numbers a store is created with, and what they promise --------------------------------

KAPPA_RANGE = (2.0**-30, 2.0**10)
NORM_BUDGET_RANGE = (2.0**-20, 2.0**20)


@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy level for everything ever released, and how far a user's contributions reach in it.

    Args:
        kappa: zCDP level of the whole stream, in [2**-30, 2**10].
        norm_budget: B_norm of Corollary 4.7, in [2**-20, 2**20]: squared norm, in units of the
            queries' scale, that a user can contribute before being left out.
        gaussian: Whether every mechanism is an unsubsampled Gaussian. If one may not be, only the
            zCDP claim is made.
        keys_delta: What privately found keys may fail with, in [0, 1/4]: where it is not 0, all
            that is claimed holds but for an event of that probability.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> budget = Budget(kappa=0.5, norm_budget=100)
        >>> budget.sigma_0, budget.mu, budget.worst_case_queries()
        (10.0, 1.0, 100)
        >>> Budget(kappa=0, norm_budget=100)
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: kappa is 0; it must be in [9.31323e-10, 1024]
          hint: give a finite number in that range as kappa
    """

    kappa: float
    norm_budget: float
    gaussian: bool = True
    keys_delta: float = 0.0

    def __post_init__(self) -> None:
        kappa = in_range("kappa", self.kappa, *KAPPA_RANGE)
        norm_budget = in_range("norm_budget", self.norm_budget, *NORM_BUDGET_RANGE)
        object.__setattr__(self, "kappa", kappa)
        object.__setattr__(self, "norm_budget", norm_budget)
        object.__setattr__(self, "keys_delta", in_range("keys_delta", self.keys_delta, 0.0, 0.25))

    @classmethod
    def from_epsilon_delta(
        cls,
        epsilon: float,
        delta: float,
        norm_budget: float,
        gaussian: bool = True,
        keys_delta: float = 0.0,
    ) -> Budget:
        """Return the largest budget that is (epsilon, delta)-DP, by way of mu-GDP (or of zCDP).

        Args:
            epsilon: >= 0 (nats); with the usual deltas it must be positive to be in range.
            delta: In [2**-500, 1).
            norm_budget, gaussian: See the class.
            keys_delta: See the class; at most a tenth of `delta`, of which it is a part.

        Returns:
            A budget with kappa = mu²/2 rounded down, where mu = gdp.mu(epsilon, delta), so that
            its `epsilon(delta)` never exceeds the epsilon asked for; with kappa = zcdp.rho(epsilon,
            delta) if not `gaussian`.

        Raises:
            ParameterError: A number is out of its range, or asks for a kappa that is.

        Example:
            >>> Budget.from_epsilon_delta(1.0, 1e-6, norm_budget=100).epsilon(1e-6) <= 1.0
            True
        """
        delta = probability("delta", delta)
        if in_range("keys_delta", keys_delta, 0.0, 0.25) > delta / 10:
            raise ParameterError(
                f"keys_delta is {keys_delta!r}; it must be in [0, {delta / 10:g}], a tenth",
                "take a smaller keys_delta, or a larger delta",
            )
        total, delta = delta, _without(delta, keys_delta)
        if gaussian:
            kappa = round_down(Fraction(gdp.mu(epsilon, delta)) ** 2 / 2)
        else:
            kappa = zcdp.rho(epsilon, delta)
        low, high = KAPPA_RANGE
        if not low <= kappa <= high:
            raise ParameterError(
                f"epsilon {epsilon!r} at delta {total!r} needs kappa = {kappa:.4g}; "
                f"kappa must be in [{low:g}, {high:g}]",
                f"give a {'larger' if kappa < low else 'smaller'} epsilon or delta",
            )
        return cls(kappa, norm_budget, gaussian, keys_delta)

    @property
    def unit_variance(self) -> Fraction:
        """norm_budget / (2 kappa), exactly: the variance of a scale-1 query (Corollary 4.7)."""
        return Fraction(self.norm_budget) / (2 * Fraction(self.kappa))

    @property
    def sigma_0(self) -> float:
        """Noise of a scale-1 query, sqrt(norm_budget / (2 kappa)) (Corollary 4.7), rounded up.

        It is the smallest float64 that is not below the real number; both facts are checked in
        exact rationals, see `_floats.sqrt_up`.
        """
        return _sigma_0(self)

    @property
    def promise(self) -> str:
        """The claim in the field's words; GDP, where it is, holds in the same way.

        Example:
            >>> Budget(0.5, 100).promise, Budget(0.5, 100, keys_delta=1e-6).promise
            ('0.5-zCDP', '1e-6-approximate 0.5-zCDP')
        """
        delta = f"{self.keys_delta:g}".replace("e-0", "e-")
        return f"{delta}-approximate " * bool(self.keys_delta) + f"{self.kappa:.5g}-zCDP"

    @property
    def mu(self) -> float | None:
        """GDP parameter of the whole stream, sqrt(2 kappa), rounded up to the next float64.

        None where a mechanism may be no Gaussian: nothing is claimed then.
        """
        return sqrt_up(2 * Fraction(self.kappa)) if self.gaussian else None

    def epsilon(self, delta: float) -> float:
        """Return epsilon at `delta` for everything ever released, rounded up.

        Infinite where keys_delta takes all of `delta`. By way of mu-GDP,
        which is valid while every mechanism is an unsubsampled Gaussian (Smith &
        Thakurta 2022; Koskela et al. 2023); otherwise it is `epsilon_zcdp`.

        Raises:
            ParameterError: `delta` is not in [2**-500, 1).

        Example:
            >>> round(Budget(0.5, 100).epsilon(1e-6), 6)
            4.886554
            >>> round(Budget(0.5, 100, gaussian=False).epsilon(1e-6), 6)
            5.221534
        """
        if self.mu is None:
            return self.epsilon_zcdp(delta)
        return math.inf if self._all_taken(delta) else gdp.epsilon(self._rest(delta), self.mu)

    def epsilon_zcdp(self, delta: float) -> float:
        """Return epsilon at `delta` from kappa-zCDP alone (Corollary 4.7), rounded up.

        Raises:
            ParameterError: `delta` is not in [2**-500, 1).

        Example:
            >>> round(Budget(0.5, 100).epsilon_zcdp(1e-6), 6)
            5.221534
        """
        return math.inf if self._all_taken(delta) else zcdp.epsilon(self._rest(delta), self.kappa)

    def _all_taken(self, delta: float) -> bool:
        return bool(self.keys_delta) and delta <= self.keys_delta

    def _rest(self, delta: float) -> float:
        return _without(delta, self.keys_delta)

    def worst_case_queries(self, scale: float = 1.0, sigma: float | None = None) -> int:
        """Return k0, how many queries worst-case composition answers at the same noise.

        Without individual accounting every query of scale C costs C²/(2 sigma²), whoever takes
        part (Feldman & Zrnic 2021, section 4.2): k0 = floor(2 kappa sigma² / C²).

        Args:
            scale: C, the largest norm of one user's contribution, > 0.
            sigma: The noise; by default C · sqrt(norm_budget / (2 kappa)), where k0 is
                floor(norm_budget) whatever the scale.

        Raises:
            ParameterError: A number is out of its range.

        Example:
            >>> Budget(0.5, 100).worst_case_queries(scale=2.0, sigma=10.0)
            25
        """
        scale = in_range("scale", scale, 0.0, math.inf, open_low=True)
        if sigma is None:
            return math.floor(self.norm_budget)
        sigma = in_range("sigma", sigma, 0.0, math.inf, open_low=True)
        return math.floor(2 * Fraction(self.kappa) * (Fraction(sigma) / Fraction(scale)) ** 2)

    def worst_case_sigma(self, queries: int, scale: float = 1.0) -> float:
        """Return the noise that worst-case composition needs for `queries` queries at this kappa.

        C · sqrt(queries / (2 kappa)) (Feldman & Zrnic 2021, section 4.2 solved for sigma),
        rounded up to the next float64.

        Args:
            queries: How many, in 1 to 2**63.
            scale: C, the largest norm of one user's contribution, in [2**-500, 2**500].

        Raises:
            ParameterError: A number is out of its range.

        Example:
            >>> Budget(0.5, 100).worst_case_sigma(365, scale=2.0)
            38.209946349085605
        """
        queries = count("queries", queries)
        scale = in_range("scale", scale, 2.0**-500, 2.0**500)
        return sqrt_up(Fraction(scale) ** 2 * queries / (2 * Fraction(self.kappa)))


def _without(delta: float, keys_delta: float) -> float:
    """Return delta - keys_delta, rounded down."""
    return round_down(Fraction(delta) - Fraction(keys_delta)) if keys_delta else delta


@lru_cache(maxsize=64)
def _sigma_0(budget: Budget) -> float:
    return sqrt_up(budget.unit_variance)
