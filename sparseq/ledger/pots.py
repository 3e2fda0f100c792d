"""Every user's budget in parts, set aside when the store is made: one account a user and part.

A release is paid from one pot, and whoever can't pay it from that pot is left out of it. A user's
spends over all pots add up to at most the user's budget, as the pots do; so the stream as a whole
is Algorithm 2 of Feldman & Zrnic (2021) with a filter that is stricter than it need be, and
Theorem 4.5 holds for it as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from fractions import Fraction

import numpy as np

from sparseq.accounting._checks import in_range
from sparseq.accounting.budget import Budget
from sparseq.base.errors import ParameterError
from sparseq.ledger.accounts import Accounts, Index, Ints
from sparseq.ledger.purposes import FIRST, MOST, Purpose, name_of


class Pot(IntEnum):
    """What a part of the budget is for; each purpose has two of its own."""

    QUERIES = 0
    WATCH = 1  # how many users have ever been dropped
    FORECAST = 2  # what dropped users would still have contributed

    _ignore_ = "number"
    for number in range(2 * MOST):  # answers and forecasts, of one purpose after the other
        vars()[f"PURPOSE_{number}"] = FIRST + number


class Pots:
    """The accounts of every pot; a pot without a share has none.

    Args:
        budgets: One a user, in ledger units.
        shares: Of every budget, by pot; what is left is for queries.
        halt: See `Accounts`; it is about queries.
        purposes: Series that have parts of their own.
        moves: What people gave to those that came later: who was there, and units of the store.

    Raises:
        ParameterError: A share is not in [0, 1), or nothing is left for queries.

    Example:
        >>> pots = Pots(np.array([100, 10]), {Pot.WATCH: 0.05, Pot.FORECAST: 0.25})
        >>> {pot.name: accounts.budgets.tolist() for pot, accounts in pots.items()}
        {'QUERIES': [70, 8], 'WATCH': [5, 0], 'FORECAST': [25, 2]}
    """

    def __init__(
        self,
        budgets: Ints,
        shares: Mapping[Pot, float],
        halt: bool = False,
        purposes: Sequence[Purpose] = (),
        budget: Budget | None = None,
        moves: Mapping[int, tuple[Index, Ints]] | None = None,
    ) -> None:
        for pot, share in shares.items():
            in_range(f"the share for {pot.name.lower()}", share, 0.0, 1.0)
        self._shares = {pot: Fraction(share) for pot, share in shares.items() if share > 0}
        if sum(self._shares.values()) >= 1:
            raise ParameterError(
                "the shares leave nothing for queries", "they add up to less than 1"
            )
        self.purposes, self._budget, self._moves = tuple(purposes), budget, dict(moves or {})
        none = np.zeros(0, np.int64)
        pots = sorted({Pot.QUERIES, *self._shares})
        self._accounts = {pot: Accounts(none, halt and pot is Pot.QUERIES) for pot in pots}
        for purpose in purposes:
            self._open(purpose)
        self.add_users(budgets)

    def _open(self, purpose: Purpose) -> None:
        for pot in (Pot(purpose.answers), Pot(purpose.forecasts)):
            self._accounts[pot] = Accounts(np.zeros(0, np.int64))

    def __getitem__(self, pot: Pot) -> Accounts:
        if pot not in self._accounts:
            raise ParameterError(
                f"the store has no reserve for {pot.name.lower()}",
                "a reserve is set when a store is made",
            )
        return self._accounts[pot]

    def __contains__(self, pot: Pot) -> bool:
        return pot in self._accounts

    def __len__(self) -> int:
        """How many users there are."""
        return len(self._accounts[Pot.QUERIES])

    def items(self) -> list[tuple[Pot, Accounts]]:
        """Return every pot with its accounts."""
        return list(self._accounts.items())

    def add_users(self, budgets: Ints) -> None:
        """Open accounts for new users, with nothing spent."""
        first = len(self)
        different, which = np.unique(budgets, return_inverse=True)
        left = different.copy()
        for pot, share in self._shares.items():
            parts = np.array([int(share * b) for b in different.tolist()], np.int64)
            self._accounts[pot].add_users(parts[which])
            left -= parts
        whole = left.copy()
        for purpose in self.purposes:
            if not purpose.came:
                given = purpose.given(different)
                self._give(purpose, given[which])
                whole -= given
        rest = whole[which]
        for purpose in self.purposes:
            if purpose.came:
                rest -= self._later(purpose, rest, first)
        self._accounts[Pot.QUERIES].add_users(rest)

    def _later(self, purpose: Purpose, rest: Ints, first: int) -> Ints:
        """Open the accounts of a purpose that came later; return what new users give to it.

        Who was there gave what the ledger says, and was charged for it; who is new gives the share
        of what the budget has for questions, and has it in no other account.
        """
        users, moved = self._moves[purpose.number]
        at = users - first
        here = (at >= 0) & (at < len(rest))
        given, new = purpose.given(rest), np.ones(len(rest), np.bool_)
        new[at[here]] = False
        taken = np.where(new, given, 0)
        given[at[here]] = moved[here]
        self._give(purpose, given)
        return taken

    def _give(self, purpose: Purpose, given: Ints) -> None:
        assert self._budget is not None
        answers, forecasts = purpose.units(self._budget, given)
        self._accounts[Pot(purpose.answers)].add_users(answers)
        self._accounts[Pot(purpose.forecasts)].add_users(forecasts)

    def move(self, purpose: Purpose, users: Index, moved: Ints) -> None:
        """Open the accounts of a purpose that comes now.

        Args:
            purpose: With its number.
            users: Everybody who is there.
            moved: What each has been charged for it, in units of the store.
        """
        assert self._budget is not None
        self._open(purpose)
        given = np.zeros(len(self), np.int64)
        given[users] = moved
        self.purposes = (*self.purposes, purpose)
        self._moves[purpose.number] = users, moved
        self._give(purpose, given)

    def named(self) -> dict[str, Pot]:
        """Return the pots by what they are for, those that have anything."""
        known = {name_of(pot, self.purposes) or pot.name.lower(): pot for pot in self._accounts}
        empty = {p.forecasts for p in self.purposes if not p.forecast}
        return {name: pot for name, pot in known.items() if pot not in empty}

    def worth(self, pot: Pot) -> float:
        """Return what a unit of a pot is worth, in units of the store."""
        for purpose in self.purposes:
            if self._budget is not None and pot in (purpose.answers, purpose.forecasts):
                own = purpose.kappa / purpose.counts
                return own / (self._budget.kappa / self._budget.norm_budget)
        return 1.0

    def moved(self, user: int) -> int:
        """Return what somebody has given to purposes that came later, in units of the store."""
        total = 0
        for users, units in self._moves.values():
            at = int(np.searchsorted(users, user))
            total += int(units[at]) if at < len(users) and users[at] == user else 0
        return total
