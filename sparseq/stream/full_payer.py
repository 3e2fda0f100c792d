"""The most that a weighted question charges one account, namely the account of a user without
earlier charges whose contribution to every part has the full allowed norm.

**Claim.** No user's charge is larger. A user's charge for a part is at most price · a², with a the
user's allowance (`sparseq.accounting.charge.sigma_for_price`; for a pilot, a user's two cells have
squared norm a² at most). The allowance is sqrt(min(1, left / cautious)), and cautious is more than
the price. So the charge price · min(1, left / cautious) grows with `left`, and so does the
remainder after it: by induction over the parts, each part charges most to the user with the most
left before the first part. Charges of a release are added exactly and rounded up once, as here.

All inputs are public: declared budgets, the course of the stream, and prices.
"""

from __future__ import annotations

import math
from copy import copy
from fractions import Fraction

import numpy as np

from sparseq.accounting import UNITS_PER_NORM, Budget
from sparseq.ledger.accounts import Ints
from sparseq.stream.charge_amounts import rounded_up
from sparseq.stream.pilot_noise import pilot_noise
from sparseq.stream.stream_progress import Course
from sparseq.stream.user_weights import LEAST_SHARE, PILOT_BITS, allowances


class FullPayer:
    """The debts of a user without earlier charges, part by part.

    Args:
        budget: The store's budget.
        left: Ledger units that a new user has.
        lifetime: Ledger units that a new user has for all windows; None: there is no such cap.

    Attributes:
        left: See the arguments.
        answers, pilots, once: Ledger units charged by the release so far for answers, for their
            pilots, and for pilots that serve many questions.

    Example:
        >>> payer = FullPayer(Budget(0.5, 48.0), 48 * UNITS_PER_NORM)
        >>> a = payer.allowance(Course(tau=12.0, least=48.0), 1.0)
        >>> payer.charge_pilot(a, 1 / 16); payer.charge_answer(a, 2.0, 1)
        >>> payer.units / UNITS_PER_NORM
        2.0625
    """

    def __init__(self, budget: Budget, left: int, lifetime: int | None = None) -> None:
        self._budget, self.left, self._lifetime = budget, left, lifetime
        self.answers = self.pilots = self.once = 0

    @property
    def units(self) -> int:
        """The debt for the release, as the ledger rounds it."""
        return int(rounded_up(_one(self.answers + self.pilots + self.once))[0])

    def allowance(self, course: Course, price: float) -> float:
        """Return the current allowance for a question with a price."""
        owed = self.units
        a = float(allowances(_one(self.left - owed), course.cautious(price))[0])
        if self._lifetime is None:
            return a
        whole = allowances(_one(self._lifetime - owed), course.for_life(price), LEAST_SHARE)
        return min(a, float(whole[0]))

    def charge_pilot(self, allowance: float, price: float, once: bool = False) -> None:
        """Add the charge of a pilot with a price."""
        cell = math.floor(math.ldexp(allowance, PILOT_BITS))
        charge = pilot_noise(price, self._budget).price.charge_one(cell * cell)
        if once:
            self.once += charge
        else:
            self.pilots += charge

    def charge_answer(
        self, allowance: float, price: float, measures: int, once: bool = False
    ) -> None:
        """Add the charge of weighted sums: see `sigma_for_price`."""
        whole = Fraction(price) * UNITS_PER_NORM * Fraction(allowance) ** 2
        charge = math.ceil(whole) + (measures - 1 if 0 < allowance < 1 else 0)
        if once:
            self.once += charge
        else:
            self.answers += charge

    def charge_in_or_out(self, charge: int | None) -> None:
        """Add the charge of a question in which users are in or out.

        Args:
            charge: The most ledger units; None: they have no bound.
        """
        self.answers += self.left if charge is None else min(charge, self.left)

    def again(self) -> FullPayer:
        """Return a copy, for another walk through the same release."""
        return copy(self)


def _one(units: int) -> Ints:
    return np.array([units], np.int64)
