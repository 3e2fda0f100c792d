"""Accounts: spent and budget of all users, Algorithm 2's filter in integers.

Source: Feldman & Zrnic (2021), Algorithm 2 with the filter of Theorem 4.3, for zCDP (all orders at
once: every charge is a multiple of alpha, so one budget of squared norm stands for every order).

User i is active at t iff spent_i + charge_i <= norm_budget_i. Whether i is active depends on i's
own rows and on what was asked, so the rest of Theorem 4.5 applies: the released stream is
kappa-zCDP. Charges are rounded up, budgets down, and spent never exceeds a budget, by induction:
only `charge` adds to spent, and only what the filter let through (`stream/release_charges.py`).

Departures: people who were ever left out of a query, and the first release of each: private.

User i is first left out of release t where Algorithm 2's filter says no to i for the first time in
the pot of queries. The filter looks at i's own charges and budget, and the charges at i's own rows
and at what was asked, which was chosen from past releases. So whether, and when, i is first left
out is a function of i's own data and of past releases, of nothing of anybody else's: it may be
asked about like any column of i's rows.

The journal writes each first time in the transaction of its release.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import compiled, halves, selected, worthwhile

# -- accounts: spent and budget of all users, Algorithm 2's filter in integers ---------------------

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Person:
    """Somebody who has an account: the index, and whether the identifier was erased."""

    user: int
    erased: bool


class Accounts:
    """Spent and budget of every user, in ledger units (int64).

    Args:
        budgets: One a user, in ledger units.
        halt: Corollary 4.7's variant: a user who would once have overdrawn stays out. What was
            left in the account is then charged, so that the account itself remembers.

    Attributes:
        same_budget: Everybody's budget, if it is the same.

    Example:
        >>> accounts = Accounts(np.array([10, 10]))
        >>> accounts.charge(np.array([0], np.int32), np.array([4])); accounts.spent.tolist()
        [4, 0]
    """

    def __init__(self, budgets: Ints, halt: bool = False) -> None:
        self.budgets = np.zeros(0, np.int64)
        self.spent = np.zeros(0, np.int64)
        self.halt = halt
        self._held: Ints | None = None  # by everybody, for all that holds something
        self._held_for: dict[str, tuple[Index, Ints]] = {}
        self.same_budget: int | None = None
        self.add_users(budgets)

    def __len__(self) -> int:
        return len(self.budgets)

    def left(self, users: Index) -> Ints:
        """Return what each of `users` can still spend."""
        at = _as_slice(users)
        budgets = self.budgets[at] if self.same_budget is None else self.same_budget
        left: Ints = budgets - self.spent[at]
        return left if self._held is None else left - self._held[at]

    def hold(self, name: str, users: Index, units: Ints) -> None:
        """Hold back what some people are going to be charged, in place of what `name` held.

        Nobody else can spend it. Whoever charges it lets go of it first.

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
        """Add charges that the filter has let through; users are distinct and ascend."""
        at = _as_slice(users)
        if isinstance(at, slice):
            spent = self.spent[at]  # a view
            halves(len(users), lambda p: np.add(spent[p], charges[p], out=spent[p]))
        elif self._by_loop(users):
            compiled().add_at(users, charges, self.spent)
        else:
            np.add.at(self.spent, users, charges)  # half the time of +=, and it checks bounds

    def _by_loop(self, users: Index) -> bool:
        """Tell whether the compiled loops are the quickest way to these users' entries.

        They check no bounds, so it is done here.
        """
        if not worthwhile(len(users)):
            return False
        return int(users[0]) >= 0 and int(users[-1]) < len(self.spent)

    def add_users(self, budgets: Ints) -> None:
        """Open accounts for new users, with nothing spent."""
        self.budgets = np.concatenate([self.budgets, budgets])
        self.spent = np.concatenate([self.spent, np.zeros(len(budgets), np.int64)])
        if self._held is not None:
            self._held = np.concatenate([self._held, np.zeros(len(budgets), np.int64)])
        same = len(self.budgets) > 0 and bool(np.all(self.budgets == self.budgets[0]))
        self.same_budget = int(self.budgets[0]) if same else None


def _as_slice(users: Index) -> Index | slice:
    """Return ascending users as a slice where they have no gaps: much the faster index."""
    if len(users) and int(users[-1]) - int(users[0]) + 1 == len(users):
        return slice(int(users[0]), int(users[-1]) + 1)
    return users


# -- departures ------------------------------------------------------------------------------------


class Departures:
    """The release that each user was first left out of; 0: none so far.

    Example:
        >>> departures = Departures()
        >>> departures.add_users(3)
        >>> left_out = np.array([0, 2], np.int32)
        >>> departures.add(7, departures.new(left_out[:1]))
        >>> departures.new(left_out).tolist(), departures.first.tolist()
        ([2], [7, 0, 0])
        >>> departures.between(1, 7).tolist()
        [0]
    """

    def __init__(self) -> None:
        self.first: Ints = np.zeros(0, np.int64)
        self._here = np.zeros(0, np.bool_)  # first == 0, in an eighth of the memory
        self._releases: list[int] = []  # those that somebody was first left out of, ascending
        self._users: list[Index] = []

    def add_users(self, users: int) -> None:
        """Make room for new users, who have not been left out of anything."""
        self.first = np.concatenate([self.first, np.zeros(users, np.int64)])
        self._here = np.concatenate([self._here, np.ones(users, np.bool_)])

    def new(self, left_out: Index) -> Index:
        """Return those of `left_out` who have not been left out before."""
        return selected(left_out, self._here[left_out])

    def add(self, release: int, users: Index) -> None:
        """Remember a release, later than all before, as the first that `users` were left out of."""
        if len(users):
            self.first[users] = release
            self._here[users] = False
            self._releases.append(release)
            self._users.append(users)

    def between(self, first: int, last: int) -> Index:
        """Return who was first left out of one of the releases `first` to `last`, ascending."""
        start, stop = bisect_left(self._releases, first), bisect_right(self._releases, last)
        if start == stop:
            return np.zeros(0, np.int32)
        return np.sort(np.concatenate(self._users[start:stop]))
