"""The cost of a training run to everybody's account, and how much noise that makes a step.

A run has a part of the store's budget: a kappa of its own, at most the store's. A step's noise is
such that everybody can take part in `steps` steps at full norm C (Feldman & Zrnic 2021, Algorithm
3 with Bnorm = steps · C²), after what the run's other questions cost. Nobody spends more than the
part in the run, so that what the run releases is by itself kappa-zCDP, and mu-GDP, at the run's
kappa.

The part of each user's gradient that counts: min(norm, C, sqrt(left)) / norm.

Algorithm 3 of Feldman & Zrnic (2021) scales down, to what is left, the gradient of a user who can
no longer pay for all of it, where Algorithm 2 would leave the user out. Here that is a matter of
weights alone. What is paid for is the vector that was really summed, and the store's gate has the
last word: a weight that is too large, by rounding or by mistake, gets its user left out of the
step, and nobody overdrawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from sparseq.accounting import UNITS_PER_NORM, Budget
from sparseq.accounting._numbers import round_down, sqrt_up
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS, Price
from sparseq.base.errors import ParameterError
from sparseq.engine.contributions import Index, Ints
from sparseq.ledger.purposes import Pot
from sparseq.sql.plan import Noise
from sparseq.store.store import Store
from sparseq.training.protocol import Clipped, Floats, GradientEngine, WeightedSum

# -- the cost of a training run to everybody's account, and how much noise that makes a step -------


@dataclass
class Spending:
    """A run's accounts: what each user may still spend in it, on top of what the store says.

    Attributes:
        store, pot: Where it is paid from.
        kappa: The run's.
        spent: By user, in this run, in ledger units. Private.
    """

    store: Store
    kappa: float
    pot: Pot = Pot.QUERIES
    spent: Ints = field(init=False)

    def __post_init__(self) -> None:
        budget, most = self.store.guarantee, pot_kappa(self.store, self.pot)
        if not 0 < self.kappa <= most:
            raise ParameterError(
                f"the run would have kappa {self.kappa:.4g}, the store has {most:.4g} for it",
                "give a smaller epsilon, or leave it out: the run then has all of the store's",
            )
        share = Fraction(self.kappa) / Fraction(budget.kappa)
        self._cap = math.floor(share * Fraction(budget.norm_budget) * UNITS_PER_NORM)
        self._whole = self._cap >= math.floor(Fraction(budget.norm_budget) * UNITS_PER_NORM)
        self.spent = np.zeros(self.store.stream.people, np.int64)

    def sigma(self, clip: float, share: float) -> float:
        """Return the noise at which a vector of norm `clip` costs that share of the run."""
        variance = Fraction(clip) ** 2 / (2 * Fraction(self.kappa) * Fraction(share))
        return sqrt_up(variance)

    def left(self, users: Index, kept_back: float = 0.0) -> Ints:
        """Return what users may spend: of the store's account and of the run's, less a share.

        A little more is kept back, as charges are rounded up to `SIGNIFICANT_BITS`.
        """
        left = self.store.stream.pots[self.pot].left(users)
        if not self._whole:
            left = np.minimum(left, self._cap - self.spent[users])
        return np.maximum(left - self._kept(kept_back), 0)

    def left_in_run(self, users: Index, kept_back: float = 0.0) -> Ints:
        """Return what is left of the run's part alone, less a share."""
        return np.maximum(self._cap - self.spent[users] - self._kept(kept_back), 0)

    def share(self) -> Floats:
        """Return what each user has spent, as a share of what the run may spend. Private."""
        return np.asarray(self.spent / self._cap)

    def _kept(self, share: float) -> int:
        return math.ceil(share * self._cap * (1 + 2.0 ** (2 - SIGNIFICANT_BITS)))

    def paid(self, release: int) -> None:
        """Take note of what a release of this run has cost, be it new or recorded."""
        users, charges = self.store.stream.ledger.charges(release)
        if self.store.stream.people > len(self.spent):  # users have come
            more = self.store.stream.people - len(self.spent)
            self.spent = np.concatenate([self.spent, np.zeros(more, np.int64)])
        self.spent[users] += charges


def pot_kappa(store: Store, pot: Pot) -> float:
    """Return the part of the store's kappa that a pot has, rounded down."""
    share = Fraction(store.reserves.get(pot, 0.0))
    if pot is Pot.QUERIES:
        share = store.promise.for_questions
    return round_down(Fraction(store.guarantee.kappa) * share)


def run_kappa(
    store: Store, pot: Pot, epsilon: float | None, delta: float | None, gaussian: bool = True
) -> float:
    """Return the kappa of a run that is (epsilon, delta)-DP; the pot's if none is asked for.

    Where not all of its noise is Gaussian, the conversion is that of zCDP.

    Raises:
        ParameterError: One is given without the other, or they make no sense.
    """
    if (epsilon is None) != (delta is None):
        raise ParameterError("give epsilon and delta, or neither")
    if epsilon is None or delta is None:
        return pot_kappa(store, pot)
    return Budget.from_epsilon_delta(epsilon, delta, 1.0, gaussian).kappa


# -- the part of each user's gradient that counts: min(norm, C, sqrt(left)) / norm -----------------

_MARGIN = 1 - 2.0**-40
"""Below what is left, so that roundings of weights don't get a user left out."""


@dataclass(frozen=True)
class Accountant:
    """Says how much may count of whom.

    Attributes:
        clip: C: no gradient counts for more.
        noise: Of the step: the price of a norm.
        left: What users can still spend, in ledger units. Private.
    """

    clip: float
    noise: Noise
    left: Callable[[Index], Ints]

    def limits(self, users: Index) -> Floats | float:
        """Return min(C, sqrt(left)) as norms; sqrt(left) is what `left` pays for.

        Example:
            >>> from sparseq.accounting import Budget, Price
            >>> price = Price.of(10.0, 2.0**-16, Budget(0.5, 100))
            >>> noise = Noise(10.0, 2.0**-32, 1.0, 2.0**-16, price)
            >>> left = lambda users: np.array([2**24, 2**24, 2**22, 0])
            >>> limits = Accountant(1.0, noise, left).limits(np.arange(4, dtype=np.int32))
            >>> limits.round(9).tolist()
            [1.0, 1.0, 0.5, 0.0]
        """
        left = self.left(users)
        full = (self.clip / self.noise.norm_step) ** 2
        most = self.noise.price.charge_one(math.ceil(full)) if math.isfinite(full) else MAX_CHARGE
        most += (most >> (SIGNIFICANT_BITS - 1)) + 1  # the charge is rounded up to as many bits
        if not left.min(initial=most) < most:
            return self.clip * _MARGIN
        limits = np.full(len(left), self.clip * _MARGIN)
        short = np.flatnonzero(left < most)
        units = norm_for(left[short], self.noise.price) * (self.noise.norm_step * _MARGIN)
        limits[short] = np.minimum(limits[short], units)
        return limits


def weights(limits: Floats | float, norms: Floats) -> Floats:
    """Return each user's weight, in [0, 1]: 0 for whom nothing is left.

    Example:
        >>> weights(np.array([1.0, 1.0, 0.5, 0.0]), np.array([0.5, 2.0, 2.0, 2.0])).tolist()
        [1.0, 0.5, 0.25, 0.0]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = limits / norms
    np.minimum(shares, 1.0, out=shares)
    if not norms.min(initial=1.0) > 0:
        shares[~(norms > 0)] = 0.0
    return np.asarray(shares)


def clipped(
    engine: GradientEngine, params: Floats, batch: Any, limits: Floats | float, step: float
) -> WeightedSum:
    """Return a batch's sum of gradients, none of them longer than its user's limit."""
    at_once: Clipped | None = getattr(engine, "clipped", None)
    if at_once is not None and (pulled := at_once(params, batch, limits, step)) is not None:
        return pulled
    norms, pull = engine.query(params, batch)
    return pull(weights(limits, norms), step)


def norm_for(charges: Ints, price: Price) -> Floats:
    """Return about the largest norm, in norm steps, that a charge pays for.

    A charge is rounded up to `SIGNIFICANT_BITS`, so what pays is the amount rounded down to them.
    The square is rounded up to a whole number, so that it is rounded down here.
    """
    spare = np.maximum(np.frexp(charges.astype(np.float64))[1] - SIGNIFICANT_BITS, 0)
    payable = (charges >> spare) << spare
    squares = np.floor(payable.astype(np.float64) * (2.0**price.shift / price.multiplier) * _MARGIN)
    return np.asarray(np.sqrt(squares))


def checked_clip(clip: float) -> float:
    """Return C as a float.

    Raises:
        ParameterError: It is not in [2**-100, 2**100].
    """
    if not 2.0**-100 <= clip <= 2.0**100:
        raise ParameterError(
            f"clip is {clip!r}; it must be positive", "a gradient that is longer is scaled down"
        )
    return float(clip)
