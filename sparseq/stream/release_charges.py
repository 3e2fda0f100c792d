"""Charges of a release, and the filter of Algorithm 2 that admits the users who can pay them.

Source: Feldman & Zrnic (2021), Algorithm 2: user i's charge is the price of i's own contribution,
and i takes part iff the charge fits into i's remaining budget. Users are admitted to the whole
release or not at all (`Bill.admit`), or part by part with weighted contributions (`Dues.admit`).
Both have machine-checked proofs for all analysts: docs/theorems/machine-checked.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import add_charges
from sparseq.compiled import merged, select
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Accounts, Index, Ints
from sparseq.ledger.lifetimes import LifeBill, LifeDues, LifetimeDues, Lifetimes
from sparseq.question.plan import Plan
from sparseq.stream.charge_amounts import price, rounded_up


@dataclass(frozen=True)
class Dues:
    """The debts of some users for the parts of one release so far: private.

    Charges are added exactly, and rounded up once for all parts.

    Attributes:
        users: The users, ascending.
        left: The budget that each had left before this release, in ledger units.
        owed: The debt of each; it grows with each part.
        life: Their debts in the accounts for all windows together; None: there are none.
    """

    users: Index
    left: Ints
    owed: Ints
    life: LifeDues | None = None

    def admit(self, due: Ints, apart: bool = False) -> NDArray[np.bool_]:
        """Bill a part to all users who can pay it; return a mask of these users (Algorithm 2).

        Args:
            due: The cost of the part to each user.
            apart: No released number of the part adds up two windows of one user.
        """
        with_it = add_charges(self.owed, due)
        active = rounded_up(with_it) <= self.left
        if self.life is not None:
            active = self.life.admit(due, active, apart)
        np.copyto(self.owed, with_it, where=active)
        return active


class Bill:
    """All users' debts for the parts of one release: private.

    Example:
        >>> bill = Bill(Accounts(np.array([10, 10])))
        >>> bill.admit(np.array([0, 1], np.int32), np.array([4, 11])).tolist()
        [True, False]
        >>> [some.tolist() for some in bill.paid()]
        [[0], [4]]

    Args:
        accounts: The accounts that pay.
        lifetimes: The accounts for all windows together, which also pay; None: there are none.

    Attributes:
        users: The users who were billed, with or without a debt.
    """

    def __init__(self, accounts: Accounts, lifetimes: Lifetimes | None = None) -> None:
        self._accounts, self._lifetimes = accounts, lifetimes
        self._life = None if lifetimes is None else LifeBill(lifetimes)
        self._wholly: LifetimeDues | None = None
        self._final = False  # debts are rounded up already
        self.users: Index = np.zeros(0, np.int32)
        self._owed: Ints = np.zeros(0, np.int64)

    def admit(self, users: Index, charges: Ints, apart: bool = False) -> NDArray[np.bool_]:
        """Bill the only part of a release to all users who can pay it; return a mask of these.

        Args:
            users: The contributing users, ascending.
            charges: The whole cost to each, rounded up.
            apart: No released number adds up two windows of one user.
        """
        left = self._accounts.left(users)
        active = charges <= left
        if self._lifetimes is not None:
            able = np.flatnonzero(active)
            able_for_life = self._lifetimes.admits(users[able], charges[able], apart)
            active[able], self._wholly = able_for_life
        self.users, self._owed, self._final = users, charges, True  # shared: not to be modified
        if not active.all():
            self._owed = np.where(active, charges, left if self._accounts.halt else 0)
        return active

    def paid(self) -> tuple[Index, Ints]:
        """Return the users who pay, and their charges, in ledger units.

        If few users pay nothing, they stay in the list with a charge of 0, because a range of users
        without gaps is the quickest to write.
        """
        charges = self._owed if self._final else rounded_up(self._owed)
        owing = np.count_nonzero(charges)
        if 8 * owing < 7 * len(charges):
            return select(self.users, charges > 0), select(charges, charges > 0)
        return self.users, charges

    @property
    def lifetimes(self) -> LifetimeDues | None:
        """All users' charges to the accounts for all windows together."""
        if self._wholly is None and self._life is not None:
            return self._life.dues
        return self._wholly

    def of(self, users: Index) -> Dues:
        """Return the debts of some users; `put` takes them back after further bills."""
        life = None if self._life is None else self._life.of(users)
        return Dues(users, self._accounts.left(users), self._owed_by(users), life)

    def put(self, dues: Dues) -> None:
        """Store the users' current debts."""
        if len(self.users) == 0 or self._are(dues.users):
            self.users, self._owed = dues.users, dues.owed
            return
        everybody, before, now = merged(self.users, dues.users)
        total = np.zeros(len(everybody), np.int64)
        total[before] = self._owed
        total[now] = dues.owed
        self.users, self._owed = everybody, total

    def _are(self, users: Index) -> bool:
        return users is self.users or np.array_equal(users, self.users)

    def _owed_by(self, users: Index) -> Ints:
        if self._are(users):
            return self._owed
        owed = np.zeros(len(users), np.int64)
        if len(self.users) and len(users):
            at = np.minimum(np.searchsorted(self.users, users), len(self.users) - 1)
            there = self.users[at] == users
            owed[there] = self._owed[at[there]]
        return owed


@dataclass(frozen=True)
class Admission:
    """The users that an in-or-out release counts: private.

    Attributes:
        users, active: The contributing users, ascending, and a mask of those who can pay.
        left_out: The users who cannot pay, ascending.
        sums: The sums over active users, one array per measure.
    """

    users: Index
    active: NDArray[np.bool_]
    left_out: Index
    sums: list[Ints]


def admit(plan: Plan, contributions: Contributions, bill: Bill) -> Admission:
    """Price an in-or-out question, bill the users who can pay, and sum their contributions."""
    users, charges = price(plan, contributions)
    active = bill.admit(users, charges, plan.query.apart)
    left_out = select(users, ~active)
    return Admission(users, active, left_out, contributions.without(left_out))
