"""What everybody owes for the parts of one release, and who can pay for a part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import add_charges
from sparseq.engine.reduce import Index, Ints
from sparseq.ledger.accounts import Accounts
from sparseq.ledger.lifetimes import LifeBill, LifeDues, LifetimeDues, Lifetimes
from sparseq.stream.pricing import rounded_up


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

    Args:
        accounts: What it is paid from.
        lifetimes: And what of all windows of a person together; None: there is no such cap.

    Attributes:
        users: Who owes something, or was asked to.
    """

    def __init__(self, accounts: Accounts, lifetimes: Lifetimes | None = None) -> None:
        self._accounts = accounts
        self._life = None if lifetimes is None else LifeBill(lifetimes)
        self.users: Index = np.zeros(0, np.int32)
        self._owed: Ints = np.zeros(0, np.int64)

    @property
    def charges(self) -> Ints:
        """What each of `users` is charged, in ledger units."""
        return rounded_up(self._owed)

    @property
    def lifetimes(self) -> LifetimeDues | None:
        """What everybody is charged over all windows."""
        return None if self._life is None else self._life.dues

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
