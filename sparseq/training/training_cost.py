"""The cost of a training run to each user's account, and the noise of a step that follows from it.

A run has a part of the store's budget: a kappa, which is at most the store's. A step's noise is
chosen so that every user can take part in `steps` steps at full norm C (Feldman & Zrnic 2021,
Algorithm 3 with Bnorm = steps · C²), after the cost of the run's other questions. Nobody spends
more than the part in the run, so that the run's releases alone are kappa-zCDP, and mu-GDP, at the
run's kappa.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sparseq.accounting import UNITS_PER_NORM, Budget
from sparseq.accounting._safe_floats import round_down, sqrt_up
from sparseq.accounting.charge import SIGNIFICANT_BITS
from sparseq.base.errors import ParameterError
from sparseq.engine.reduction import Index, Ints
from sparseq.ledger.pots import Pot
from sparseq.store.store import Store
from sparseq.training.protocol import Floats


@dataclass
class Spending:
    """A run's accounts: what each user may still spend in it, within the store's account.

    Attributes:
        store, pot: Store and pot that pay.
        kappa: kappa of the run.
        spent: Spending of each user in this run, in ledger units. Private.
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
        self.spent = np.zeros(self.store.stream.people.inside(), np.int64)

    def sigma(self, clip: float, share: float) -> float:
        """Return the noise at which a vector of norm `clip` costs that share of the run."""
        variance = Fraction(clip) ** 2 / (2 * Fraction(self.kappa) * Fraction(share))
        return sqrt_up(variance)

    def left(self, users: Index, kept_back: float = 0.0) -> Ints:
        """Return what users may spend: the rest of both accounts, less a share of the run's.

        A little more is kept back, as charges are rounded up to `SIGNIFICANT_BITS`.
        """
        left = self.store.stream.pots[self.pot].left(users)
        if not self._whole:
            left = np.minimum(left, self._cap - self.spent[users])
        return np.maximum(left - self._kept(kept_back), 0)

    def left_in_run(self, users: Index, kept_back: float = 0.0) -> Ints:
        """Return the rest of the run's part alone, less a share."""
        return np.maximum(self._cap - self.spent[users] - self._kept(kept_back), 0)

    def share(self) -> Floats:
        """Return each user's spending as a share of the run's budget. Private."""
        return np.asarray(self.spent / self._cap)

    def _kept(self, share: float) -> int:
        return math.ceil(share * self._cap * (1 + 2.0 ** (2 - SIGNIFICANT_BITS)))

    def paid(self, release: int) -> None:
        """Add the charges of a release of this run, new or recorded."""
        users, charges = self.store.stream.ledger.charges(release)
        if self.store.stream.people.inside() > len(self.spent):  # new users
            more = self.store.stream.people.inside() - len(self.spent)
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
    """Return the kappa of a run that is (epsilon, delta)-DP; the pot's without them.

    If not all of its noise is Gaussian, the conversion is that of zCDP.

    Raises:
        ParameterError: One is given without the other, or they are out of range.
    """
    if (epsilon is None) != (delta is None):
        raise ParameterError("give epsilon and delta, or neither")
    if epsilon is None or delta is None:
        return pot_kappa(store, pot)
    return Budget.from_epsilon_delta(epsilon, delta, 1.0, gaussian).kappa
