"""One part of a release: users' weights, their charges, and the noise on the weighted sums.

Every part is a sum over users of vectors that depend on one user's rows, the same user's account
and past releases, plus Gaussian noise. Each user pays for the vector that was summed, and the
filter is applied before every part (docs/theorems/pilots.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.base.defaults import PRICE
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import Index, Ints
from sparseq.engine.weighted_reduction import Weights
from sparseq.ledger.accounts import Accounts
from sparseq.ledger.lifetimes import Lifetimes
from sparseq.mechanisms import Entropy, rounded_gaussian
from sparseq.question.plan import Plan
from sparseq.stream.contributors import Contributors, contributors
from sparseq.stream.full_payer import FullPayer
from sparseq.stream.joint_unit import Joint
from sparseq.stream.part_price import PartPrice
from sparseq.stream.pilot_noise import pilot_noise
from sparseq.stream.release_charges import Bill
from sparseq.stream.stream_progress import Course

Floats = NDArray[np.float64]


class ReleasedParts:
    """The noise, the weights and the charges of the parts of one release.

    Args:
        budget: The store's budget.
        accounts: The accounts of all users.
        course: The progress of the stream.
        contributions: Returns all users' contributions to a plan.
        entropy: Returns the entropy of a part of this release, by the part's name.
        rows: The declared maximum of rows per user in a table, if any.
        payer: A user without earlier charges; the parts add their charges to it.
        lifetimes: The accounts for all windows together; None: there is no such cap.

    Attributes:
        course: The progress of the stream, including the parts so far.
        bill: Every user's debt for the parts: private.
        payer: The most that one account is charged for the parts: public.
        paying: The price of the current part.
        highest: The highest price of a part so far.
        worst: The price of the pilots whose answer has not followed yet.
        turn: The number of the current part.
    """

    def __init__(
        self,
        budget: Budget,
        accounts: Accounts,
        course: Course,
        contributions: Callable[[Plan], Contributions],
        entropy: Callable[[str], Entropy],
        rows: int | None,
        payer: FullPayer,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self.budget, self.rows, self.course = budget, rows, course
        self.bill, self.payer = Bill(accounts, lifetimes), payer
        self.paying = PartPrice.of(PRICE)
        self.highest = 0.0
        self.contributions_to, self.entropy_of = contributions, entropy
        self.worst = 0.0
        self.turn = 0

    def weigh(
        self,
        asked: Joint,
        made: Contributions,
        people: Contributors,
        scale: float,
        price: float,
        beta: float,
        name: str = "sums",
    ) -> tuple[Plan, Floats, Index]:
        """Release weighted sums; return the plan, the sums in joint units, and the faint users."""
        plan = asked.after(scale, price, self.budget, beta)
        found = people.weigh(scale, asked.prices(plan), asked.query.apart)
        self.bill.put(people.dues)
        sums = made.weighted(
            Weights(found.users, found.mantissa, found.exponent, asked.shifts(plan))
        )
        entropy = self.noise_of(name)
        noised = [
            total + rounded_gaussian(noise.lattice_sigma, len(total), entropy)
            for total, noise in zip(sums, plan.noise, strict=True)
        ]
        return plan, asked.answer(plan, noised), found.faint

    def contributors(
        self, users: Index, norms: list[Ints], asked: Joint, price: float
    ) -> Contributors:
        """Return the contributors, with allowances from the accounts' current state."""
        dues = self.bill.of(users)
        own, life = self.course.cautious(price), self.course.for_life(price)
        return contributors(dues, norms, asked.exponents, own, life)

    def histogram(
        self, people: Contributors, edges: Floats, price: float, start: int, part: str
    ) -> Floats:
        """Release the number of users per cell of a ladder, from a start cell on; 0 below."""
        noise = pilot_noise(price, self.budget)
        counts = people.tally(edges, start, noise.price)
        self.bill.put(people.dues)
        drawn = rounded_gaussian(noise.lattice_sigma, len(edges), self.noise_of(part))
        self.worst += price
        released = (counts + drawn) * noise.granularity
        return np.where(np.arange(len(edges)) >= start, released, 0.0)

    def noise_of(self, part: str) -> Entropy:
        """Return the entropy of a part of the current turn."""
        return self.entropy_of(f"{self.turn}/{part}")
