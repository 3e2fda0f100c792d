"""Rules for one additive privacy parameter: zCDP, Gaussian DP, one Rényi order, pure DP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from numpy.typing import ArrayLike

from sparseq.accounting import gdp, rdp, zcdp
from sparseq.accounting._numbers import in_range, probability, spendable
from sparseq.accounting.filters._fixed_point import square_up
from sparseq.accounting.filters._renyi_budget import best_order, renyi_budget
from sparseq.accounting.filters._rule import Floats, Rule, positive, rootable


@dataclass(frozen=True, slots=True)
class ZcdpRule(Rule):
    """All steps together are rho-zCDP; a step is its own rho.

    See docs/theorems/rdp-filter-orders.md.

    Args:
        rho: The budget, in [2**-500, 2**60].

    Source: Feldman & Zrnic (2021), Remark 4.4: the filter of Theorem 4.3 at order alpha, for
    steps that are rho_t-zCDP, admits while the sum of rho_t is at most rho, for any alpha; so it
    holds at all orders.

    Example:
        >>> from sparseq.accounting.filters import capacity
        >>> rule = ZcdpRule.for_target(epsilon=1.0, delta=1e-6)
        >>> capacity(rule, 1 / (2 * 30.0**2)), rule.epsilon(1e-6) <= 1.0
        (43, True)
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive("rho", self.rho))

    @classmethod
    def for_target(cls, epsilon: float, delta: float) -> ZcdpRule:
        """Return the largest budget for which rho-zCDP implies (epsilon, delta)-DP."""
        return cls(zcdp.rho(epsilon, delta))

    @property
    def limits(self) -> tuple[Fraction, ...]:
        return (Fraction(self.rho),)

    def read(self, rho: ArrayLike) -> tuple[Floats, ...]:
        return (spendable("rho", rho),)

    def charges(self, rho: Floats) -> tuple[Floats, ...]:
        return (rho,)

    def epsilon(self, delta: float) -> float:
        return zcdp.epsilon(delta, self.rho)


@dataclass(frozen=True, slots=True)
class GdpRule(Rule):
    """All steps together are mu-GDP; a step is the mu_t of one *Gaussian* mechanism.

    See docs/theorems/gdp-filter.md.

    Args:
        mu: The budget, in [2**-240, 2**29].

    Assumes that every step is an unsubsampled Gaussian mechanism: mu_t = ‖q(X_i)‖ / sigma. The
    sum of mu_t² is kept at most mu². For general mu_t-GDP steps no such filter is known, and
    per-path f-DP filters are not valid.

    Source: Smith & Thakurta (2022), fully adaptive composition of Gaussian DP; Koskela, Tobaben &
    Honkela (2023), the individual filter. Idea: while the variance mu² isn't spent, the privacy
    losses are those of a Brownian motion stopped before time mu²; filling up the rest with one
    more Gaussian makes it exactly mu-GDP, and dropping the filling is post-processing.

    Example:
        >>> from sparseq.accounting.filters import capacity
        >>> capacity(GdpRule.for_target(epsilon=1.0, delta=1e-6), 1 / 30.0)
        50
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", rootable("mu", self.mu))

    @classmethod
    def for_target(cls, epsilon: float, delta: float) -> GdpRule:
        """Return the largest budget for which mu-GDP implies (epsilon, delta)-DP."""
        return cls(gdp.mu(epsilon, delta))

    @property
    def limits(self) -> tuple[Fraction, ...]:
        return (Fraction(self.mu) ** 2,)

    def read(self, mu: ArrayLike) -> tuple[Floats, ...]:
        return (spendable("mu", mu),)

    def charges(self, mu: Floats) -> tuple[Floats, ...]:
        return (square_up(mu),)

    def epsilon(self, delta: float) -> float:
        return gdp.epsilon(delta, self.mu)


@dataclass(frozen=True, slots=True)
class RdpRule(Rule):
    """All steps together are (order, rho)-RDP; a step is its RDP value at that order.

    See docs/theorems/rdp-filter.md.

    Args:
        order: alpha > 1.
        rho: The budget, in [2**-500, 2**60].

    Source: Feldman & Zrnic (2021), Theorem 4.3: adding up is a valid Rényi filter (and Lécuyer
    2021, Theorem 1). Proof: with L_t the privacy loss after t steps, exp((alpha-1)(L_t - rho_1 -
    ... - rho_t)) is a supermartingale, and the sum never exceeds rho.

    Example:
        >>> from sparseq.accounting.filters import Filter
        >>> filter = Filter(RdpRule(order=8.0, rho=1.0))
        >>> [filter.admit(0.4) for _ in range(3)]
        [True, True, False]
    """

    order: float
    rho: float

    def __post_init__(self) -> None:
        order = in_range("order", self.order, 1.0, math.inf, open_low=True)
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "rho", positive("rho", self.rho))

    @classmethod
    def for_target(cls, epsilon: float, delta: float, order: float | None = None) -> RdpRule:
        """Return the largest budget that implies (epsilon, delta)-DP, by the tight conversion.

        Args:
            epsilon, delta: The target.
            order: By default, the order at which the largest number of Gaussian queries fits.

        Raises:
            ParameterError: No budget at that order reaches epsilon.
        """
        order = best_order(epsilon, delta) if order is None else order
        return cls(order, float(renyi_budget(epsilon, delta, [order])[0]))

    @property
    def limits(self) -> tuple[Fraction, ...]:
        return (Fraction(self.rho),)

    def read(self, rho: ArrayLike) -> tuple[Floats, ...]:
        return (spendable("rho", rho),)

    def charges(self, rho: Floats) -> tuple[Floats, ...]:
        return (rho,)

    def epsilon(self, delta: float) -> float:
        return rdp.epsilon([self.rho], [self.order], delta)


@dataclass(frozen=True, slots=True)
class PureDpRule(Rule):
    """All steps together are (epsilon, delta)-DP; a step is the epsilon_t of a pure-DP mechanism.

    See docs/theorems/dp-filter.md.

    The sum of epsilon_t²/2 is kept at most B*.

    Args:
        epsilon_budget: The target's epsilon (nats), in [2**-240, 2**29].
        delta_budget: The target's delta, in [2**-500, 1).
        simple: True to use the example of the theorem, B* = (sqrt(L + epsilon) - sqrt(L))² with
            L = log(1/delta), instead of the best B*.

    Source: Feldman & Zrnic (2021), Theorem 4.8, with B* *any* B for which B-zCDP implies
    (epsilon, delta)-DP. The best that a single Rényi order proves is `zcdp.rho(epsilon, delta)`,
    the inverse of Canonne, Kamath & Steinke (2020), Proposition 12. The simple one inverts B +
    2 sqrt(B L), Bun & Steinke (2016). Proof: epsilon_t-DP implies
    (epsilon_t²/2)-zCDP (Bun & Steinke 2016); then Remark 4.4.

    Example:
        >>> from sparseq.accounting.filters import capacity
        >>> [capacity(PureDpRule(1.0, 1e-6, simple), 0.01) for simple in (True, False)]
        [349, 487]
    """

    epsilon_budget: float
    delta_budget: float
    simple: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_budget", rootable("epsilon", self.epsilon_budget))
        object.__setattr__(self, "delta_budget", probability("delta", self.delta_budget))
        object.__setattr__(self, "simple", bool(self.simple))

    @property
    def rho(self) -> float:
        """B*, rounded down."""
        return (_simple_rho if self.simple else _best_rho)(self.epsilon_budget, self.delta_budget)

    @property
    def limits(self) -> tuple[Fraction, ...]:
        return (2 * Fraction(self.rho),)

    def read(self, epsilon: ArrayLike) -> tuple[Floats, ...]:
        return (spendable("epsilon", epsilon),)

    def charges(self, epsilon: Floats) -> tuple[Floats, ...]:
        return (square_up(epsilon),)

    def epsilon(self, delta: float) -> float:
        return zcdp.epsilon(delta, self.rho)


@dataclass(frozen=True, slots=True)
class ApproxZcdpRule(Rule):
    """All steps together are delta-approximate rho-zCDP; a step is (rho_t, delta_t).

    See docs/theorems/approximate-zcdp-filter.md.

    It is for steps that fail with a probability delta_t and are rho_t-zCDP otherwise. The sums of
    rho_t and of delta_t are kept separately; a step must fit both.

    Args:
        rho: Budget of the sum of rho_t, in [2**-500, 2**60].
        delta_budget: Budget of the sum of delta_t, in [2**-500, 1).

    Source: Whitehouse, Ramdas, Rogers & Wu (2023), the filter for approximate zCDP; Feldman &
    Zrnic (2021), section 4.3, refer to Rogers et al. (2016), Lemma 3.3, for pure DP. Proof: each
    step's two output laws are mixtures with weight 1 - delta_t on laws that keep rho_t. On the
    event that no step takes the other part, of probability at least 1 - the sum of delta_t, the
    run is one of the zCDP filter (Remark 4.4).

    Example:
        >>> from sparseq.accounting.filters import Filter
        >>> filter = Filter(ApproxZcdpRule(rho=0.5, delta_budget=1e-6))
        >>> filter.admit(0.1, 9e-7), filter.admit(0.1, 2e-7), filter.admit(0.1, 0.0)
        (True, False, True)
    """

    rho: float
    delta_budget: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive("rho", self.rho))
        object.__setattr__(self, "delta_budget", probability("delta", self.delta_budget))

    @classmethod
    def for_target(cls, epsilon: float, delta: float, steps_part: float = 0.5) -> ApproxZcdpRule:
        """Return budgets that imply (epsilon, delta)-DP, with steps_part · delta for the steps.

        Args:
            epsilon, delta: The target.
            steps_part: The part of delta that the steps may spend, in (0, 1).
        """
        delta = probability("delta", delta)
        for_steps = probability("steps_part", steps_part) * delta
        return cls(zcdp.rho(epsilon, (delta - for_steps) * (1 - 2.0**-50)), for_steps)

    @property
    def limits(self) -> tuple[Fraction, ...]:
        return Fraction(self.rho), Fraction(self.delta_budget)

    def read(self, rho: ArrayLike, delta: ArrayLike) -> tuple[Floats, ...]:
        return spendable("rho", rho), spendable("delta", delta)

    def charges(self, rho: Floats, delta: Floats) -> tuple[Floats, ...]:
        return rho, delta

    def nothing(self) -> tuple[float, ...]:
        return 0.0, 0.0

    def epsilon(self, delta: float) -> float:
        """Return epsilon at delta > delta_budget: that of rho-zCDP at delta - delta_budget.

        Raises:
            ParameterError: delta does not exceed delta_budget by at least 2**-500.
        """
        delta = probability("delta", delta, self.delta_budget)
        return zcdp.epsilon((delta - self.delta_budget) * (1 - 2.0**-50), self.rho)


_best_rho = lru_cache(maxsize=64)(zcdp.rho)


def _simple_rho(epsilon: float, delta: float) -> float:
    """(sqrt(L + epsilon) - sqrt(L))², without the cancellation, rounded down."""
    log = -math.log(delta)
    root_sum = math.sqrt(log + epsilon) + math.sqrt(log)
    return (epsilon / root_sum) ** 2 * (1 - 2.0**-48)
