"""Charges of a release, and who can pay for them: the filter of Algorithm 2.

Source: Feldman & Zrnic (2021), Algorithm 2: user i's charge is the price of i's own contribution,
and i takes part iff it fits into what i has left. People are let in wholly or not at all
(`Bill.admit`), or part by part with what their weights leave (`Dues.admit`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import add_charges
from sparseq.compiled import selected
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Accounts, Index, Ints
from sparseq.ledger.lifetimes import LifeBill, LifeDues, LifetimeDues, Lifetimes
from sparseq.sql.plan import Plan
from sparseq.stream.prices import price, rounded_up


@dataclass(frozen=True)
class Dues:
    """What some people owe for the parts of one release so far: private.

    Charges are added up exactly, and rounded up once for all parts.

    Attributes:
        users: Who, ascending.
        left: What each had left before this release, in ledger units.
        owed: What each owes; grows.
        life: Where people have accounts over all of their windows, what they owe there.
    """

    users: Index
    left: Ints
    owed: Ints
    life: LifeDues | None = None

    def admit(self, due: Ints, apart: bool = False) -> NDArray[np.bool_]:
        """Bill a part to all who can pay it; tell who can (Algorithm 2).

        Args:
            due: What it costs each.
            apart: No value of the part adds up two windows of a person.
        """
        with_it = add_charges(self.owed, due)
        active = rounded_up(with_it) <= self.left
        if self.life is not None:
            active = self.life.admit(due, active, apart)
        np.copyto(self.owed, with_it, where=active)
        return active


class Bill:
    """What everybody owes for the parts of one release: private.

    Example:
        >>> bill = Bill(Accounts(np.array([10, 10])))
        >>> bill.admit(np.array([0, 1], np.int32), np.array([4, 11])).tolist()
        [True, False]
        >>> [some.tolist() for some in bill.paid()]
        [[0], [4]]

    Args:
        accounts: What it is paid from.
        lifetimes: And what of all windows of a person together; None: there is no such cap.

    Attributes:
        users: Who owes something, or was asked to.
    """

    def __init__(self, accounts: Accounts, lifetimes: Lifetimes | None = None) -> None:
        self._accounts, self._lifetimes = accounts, lifetimes
        self._life = None if lifetimes is None else LifeBill(lifetimes)
        self._wholly: LifetimeDues | None = None
        self._final = False  # what is owed is what is charged
        self.users: Index = np.zeros(0, np.int32)
        self._owed: Ints = np.zeros(0, np.int64)

    def admit(self, users: Index, charges: Ints, apart: bool = False) -> NDArray[np.bool_]:
        """Bill the one part of a release to all who can pay it; tell who can.

        Args:
            users: Who contributes, ascending.
            charges: What it costs each: whole and rounded up.
            apart: No value adds up two windows of a person.
        """
        left = self._accounts.left(users)
        active = charges <= left
        if self._lifetimes is not None:
            able = np.flatnonzero(active)
            found = self._lifetimes.admits(users[able], charges[able], apart)
            active[able], self._wholly = found
        self.users, self._owed, self._final = users, charges, True  # read only: others keep them
        if not active.all():
            self._owed = np.where(active, charges, left if self._accounts.halt else 0)
        return active

    def paid(self) -> tuple[Index, Ints]:
        """Return who pays, and how much, in ledger units.

        Where few pay nothing they stay in the list, with 0, since a range of users without gaps is
        the quickest to write.
        """
        charges = self._owed if self._final else rounded_up(self._owed)
        owing = np.count_nonzero(charges)
        if 8 * owing < 7 * len(charges):
            return selected(self.users, charges > 0), selected(charges, charges > 0)
        return self.users, charges

    @property
    def lifetimes(self) -> LifetimeDues | None:
        """What everybody is charged over all windows."""
        if self._wholly is None and self._life is not None:
            return self._life.dues
        return self._wholly

    def of(self, users: Index) -> Dues:
        """Return what some people owe; what they are billed then comes back by `put`."""
        life = None if self._life is None else self._life.of(users)
        return Dues(users, self._accounts.left(users), self._owed_by(users), life)

    def put(self, dues: Dues) -> None:
        """Take in what people owe now."""
        if len(self.users) == 0 or self._are(dues.users):
            self.users, self._owed = dues.users, dues.owed
            return
        everybody = np.union1d(self.users, dues.users).astype(np.int32)
        total = np.zeros(len(everybody), np.int64)
        total[np.searchsorted(everybody, self.users)] = self._owed
        total[np.searchsorted(everybody, dues.users)] = dues.owed
        self.users, self._owed = everybody, total

    def _are(self, users: Index) -> bool:
        return users is self.users or np.array_equal(users, self.users)

    def _owed_by(self, users: Index) -> Ints:
        if self._are(users):
            return self._owed
        found = np.zeros(len(users), np.int64)
        if len(self.users) and len(users):
            at = np.minimum(np.searchsorted(self.users, users), len(self.users) - 1)
            known = self.users[at] == users
            found[known] = self._owed[at[known]]
        return found


@dataclass(frozen=True)
class Admission:
    """Whom a release counts wholly: private.

    Attributes:
        users, active: Who contributes, ascending, and who of them can pay.
        left_out: Who can't, ascending.
        sums: Over the active, one array a measure.
    """

    users: Index
    active: NDArray[np.bool_]
    left_out: Index
    sums: list[Ints]


def admit(plan: Plan, contributions: Contributions, bill: Bill) -> Admission:
    """Price a question, bill whoever can pay for it, and add up over these: in or out."""
    users, charges = price(plan, contributions)
    active = bill.admit(users, charges, plan.query.apart)
    left_out = selected(users, ~active)
    return Admission(users, active, left_out, contributions.without(left_out))
