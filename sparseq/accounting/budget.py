"""The budget of a store: its two numbers and their guarantee.

Source: Feldman & Zrnic (2021), Corollary 4.7 and section 4.2. Neighbours differ by all rows of
one user (add/remove). All releases together, for a stream of any length and adaptivity, are
kappa-zCDP; a user takes part while the squared norms of the user's contributions stay within
norm_budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sparseq.accounting import gdp, zcdp
from sparseq.accounting._numbers import count, in_range, probability
from sparseq.accounting._safe_floats import round_down, sqrt_up
from sparseq.base.errors import ParameterError

KAPPA_RANGE = (2.0**-30, 2.0**10)
NORM_BUDGET_RANGE = (2.0**-20, 2.0**20)


@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy level for all releases together, and a user's budget of squared norm within it.

    Args:
        kappa: zCDP level of the whole stream, in [2**-30, 2**10].
        norm_budget: B_norm of Corollary 4.7, in [2**-20, 2**20]: squared norm, in units of the
            queries' scale, that a user can contribute before being left out.
        gaussian: True if every mechanism is an unsubsampled Gaussian. Otherwise only zCDP is
            claimed.
        keys_delta: The failure probability of privately found keys, in [0, 1/4]: if it is not 0,
            all claims hold except on an event of that probability.

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
        """Return the largest budget that is (epsilon, delta)-DP, through mu-GDP (or zCDP).

        Args:
            epsilon: >= 0 (nats); with the usual deltas it must be positive to be in range.
            delta: In [2**-500, 1).
            norm_budget, gaussian: See the class.
            keys_delta: See the class; a part of `delta`, at most a tenth.

        Returns:
            A budget with kappa = mu²/2 rounded down, where mu = gdp.mu(epsilon, delta), so that its
            `epsilon(delta)` never exceeds the given epsilon; with kappa = zcdp.rho(epsilon, delta)
            if not `gaussian`.

        Raises:
            ParameterError: A number is out of its range, or gives a kappa out of its range.

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
        exact rationals, see `_safe_floats.sqrt_up`.
        """
        return _sigma_0(self)

    @property
    def promise(self) -> str:
        """The claim in standard terms; GDP, where claimed, holds in the same way.

        Example:
            >>> Budget(0.5, 100).promise, Budget(0.5, 100, keys_delta=1e-6).promise
            ('0.5-zCDP', '1e-6-approximate 0.5-zCDP')
        """
        delta = f"{self.keys_delta:g}".replace("e-0", "e-")
        return f"{delta}-approximate " * bool(self.keys_delta) + f"{self.kappa:.5g}-zCDP"

    @property
    def mu(self) -> float | None:
        """GDP parameter of the whole stream, sqrt(2 kappa), rounded up to the next float64.

        None where a mechanism may not be Gaussian: GDP is not claimed then.
        """
        return sqrt_up(2 * Fraction(self.kappa)) if self.gaussian else None

    def epsilon(self, delta: float) -> float:
        """Return epsilon at `delta` for all releases together, rounded up.

        It is infinite where keys_delta uses up `delta`. It comes from mu-GDP, which is valid while
        every mechanism is an unsubsampled Gaussian (Smith & Thakurta 2022; Koskela et al. 2023);
        otherwise it is `epsilon_zcdp`.

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
        """Return k0, the number of queries that worst-case composition answers at the same noise.

        Without individual accounting every query of scale C costs C²/(2 sigma²) for any users
        (Feldman & Zrnic 2021, section 4.2): k0 = floor(2 kappa sigma² / C²).

        Args:
            scale: C, the largest norm of one user's contribution, > 0.
            sigma: The noise; by default C · sqrt(norm_budget / (2 kappa)), where k0 is
                floor(norm_budget) for any scale.

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
            queries: The number of queries, in 1 to 2**63.
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
