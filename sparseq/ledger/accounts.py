"""Accounts: spent and budget of all users, Algorithm 2's filter in integers.

Source: Feldman & Zrnic (2021), Algorithm 2 with the filter of Theorem 4.3, for zCDP (all orders at
once: every charge is a multiple of alpha, so one budget of squared norm stands for every order).

User i is active at t iff spent_i + charge_i <= norm_budget_i. Whether i is active depends on i's
own rows and on the query, so the rest of Theorem 4.5 applies: the released stream is kappa-zCDP.
Charges are rounded up, budgets down, and spent never exceeds a budget, by induction: only `charge`
adds to spent, and only amounts that the filter has admitted (`stream/release_charges.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import compiled, halves, looked_up, worthwhile

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Person:
    """One account: the user's index, and whether the identifier was erased."""

    user: int
    erased: bool


class Accounts:
    """Spent and budget of every user, in ledger units (int64).

    Args:
        budgets: The budget of each user, in ledger units.
        halt: The variant of Corollary 4.7: a user who would once have exceeded the budget stays out
            for good. The rest of the account is then charged, so that the account itself records
            it.

    Attributes:
        same_budget: The budget, if all users have the same; else None.

    Example:
        >>> accounts = Accounts(np.array([10, 10]))
        >>> accounts.charge(np.array([0], np.int32), np.array([4])); accounts.spent.tolist()
        [4, 0]
    """

    def __init__(self, budgets: Ints, halt: bool = False) -> None:
        self.budgets = np.zeros(0, np.int64)
        self.spent = np.zeros(0, np.int64)
        self.halt = halt
        self._held: Ints | None = None  # the sum of all holds, by user
        self._held_for: dict[str, tuple[Index, Ints]] = {}
        self.same_budget: int | None = None
        self.add_users(budgets)

    def __len__(self) -> int:
        return len(self.budgets)

    def left(self, users: Index) -> Ints:
        """Return the remaining budget of each of `users`."""
        at = _as_slice(users)
        budgets = self.budgets[at] if self.same_budget is None else self.same_budget
        if not isinstance(at, slice) and self._by_loop(users):
            spent = looked_up(self.spent, users.view(np.uint32))
            left: Ints = np.subtract(budgets, spent, out=spent)
        else:
            left = budgets - self.spent[at]
        return left if self._held is None else left - self._held[at]

    def hold(self, name: str, users: Index, units: Ints) -> None:
        """Reserve budget for future charges; this replaces what `name` held before.

        No other charge can spend held budget. The holder releases it before charging it.

        Example:
            >>> accounts = Accounts(np.array([10, 10]))
            >>> accounts.hold("series", np.array([1], np.int32), np.array([4]))
            >>> accounts.left(np.array([0, 1], np.int32)).tolist()
            [10, 6]
        """
        if self._held is None:
            self._held = np.zeros(len(self.budgets), np.int64)
        before = self._held_for.get(name)
        if before is not None:
            self._held[before[0]] -= before[1]
        self._held[users] += units
        self._held_for[name] = users, units

    def charge(self, users: Index, charges: Ints) -> None:
        """Add charges that the filter has admitted; users are distinct and ascending."""
        at = _as_slice(users)
        if isinstance(at, slice):
            spent = self.spent[at]  # a view
            halves(len(users), lambda p: np.add(spent[p], charges[p], out=spent[p]))
        elif self._by_loop(users):
            compiled().add_at(users, charges, self.spent)
        else:
            np.add.at(self.spent, users, charges)  # twice as fast as +=, and it checks bounds

    def _by_loop(self, users: Index) -> bool:
        """Tell whether the compiled loops are the fastest way to access these users.

        The loops check no bounds, so this method does.
        """
        if not worthwhile(len(users), loads=False):
            return False
        return int(users[0]) >= 0 and int(users[-1]) < len(self.spent)

    def add_users(self, budgets: Ints) -> None:
        """Open accounts for new users, with nothing spent."""
        self.budgets = np.concatenate([self.budgets, budgets])
        self.spent = np.concatenate([self.spent, np.zeros(len(budgets), np.int64)])
        if self._held is not None:
            self._held = np.concatenate([self._held, np.zeros(len(budgets), np.int64)])
        self._look()

    def grant(self, users: Index, units: Ints) -> None:
        """Increase the budgets of users; they are distinct."""
        self.budgets[users] += units
        self._look()

    def _look(self) -> None:
        same = len(self.budgets) > 0 and bool(np.all(self.budgets == self.budgets[0]))
        self.same_budget = int(self.budgets[0]) if same else None


def _as_slice(users: Index) -> Index | slice:
    """Return ascending users without gaps as a slice, which is a much faster index."""
    if len(users) and int(users[-1]) - int(users[0]) + 1 == len(users):
        return slice(int(users[0]), int(users[-1]) + 1)
    return users
