"""Pots: every user's budget in parts, which are set aside when the store is made.

Each user has one account per pot. A release is paid from one pot, and a user who can't pay it from
that pot is left out. A user's spent amounts over all pots add up to at most the user's budget, as
the pots do; so the stream as a whole is Algorithm 2 of Feldman & Zrnic (2021) with a filter that is
stricter than necessary, and Theorem 4.5 holds for it as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from fractions import Fraction

import numpy as np
import pyarrow as pa

from sparseq.accounting._numbers import in_range
from sparseq.accounting.budget import Budget
from sparseq.base.errors import ParameterError, StoreError
from sparseq.ledger.accounts import Accounts, Index, Ints
from sparseq.ledger.notes import NoteTable
from sparseq.ledger.packed_integers import unpack, unpack_set
from sparseq.ledger.purposes import FIRST, MOST, Purpose, name_of

DRAWS = NoteTable(
    "draws", {"number": "BIGINT", "release": "BIGINT", "users": "BLOB", "units": "BLOB"}
)
"""Draws from a population (`sparseq.store.population`), and what each gave to users: private. A row
has the number of the draw, the release that came next, the users of the draw, ascending, and the
units of each.
"""


class Pot(IntEnum):
    """The use of a part of the budget; each purpose has two pots."""

    QUERIES = 0
    WATCH = 1  # the number of users who were ever dropped
    FORECAST = 2  # forecasts of dropped users

    _ignore_ = "number"
    for number in range(2 * MOST):  # answers and forecasts, for each purpose in turn
        vars()[f"PURPOSE_{number}"] = FIRST + number


class Pots:
    """The accounts of every pot; a pot without a share has no accounts.

    Args:
        budgets: The budget of each user, in ledger units.
        shares: The share of every budget by pot; the rest is for queries.
        halt: See `Accounts`; it applies to queries.
        purposes: Series with parts of the budget.
        moves: For each purpose that was added later: the users that existed, and the units of the
            store that they gave.

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
                "the shares leave nothing for queries", "they must add up to less than 1"
            )
        self.purposes, self._budget, self._moves = tuple(purposes), budget, dict(moves or {})
        none = np.zeros(0, np.int64)
        pots = sorted({Pot.QUERIES, *self._shares})
        self._accounts = {pot: Accounts(none, halt and pot is Pot.QUERIES) for pot in pots}
        # -1: the user was in no draw; may be shorter than the number of users
        self._drawn: Ints = none
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
                "a reserve is declared when a store is created",
            )
        return self._accounts[pot]

    def __contains__(self, pot: Pot) -> bool:
        return pot in self._accounts

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self._accounts[Pot.QUERIES])

    def items(self) -> list[tuple[Pot, Accounts]]:
        """Return every pot with its accounts."""
        return list(self._accounts.items())

    def of_new_user(self, units: int) -> dict[Pot, int]:
        """Return the amounts that a new user with a whole budget would have in each pot: public.

        Example:
            >>> pots = Pots(np.array([10]), {Pot.WATCH: 0.05})
            >>> {pot.name: left for pot, left in pots.of_new_user(100).items()}
            {'QUERIES': 95, 'WATCH': 5}
        """
        nobody = np.zeros(0, np.int32), np.zeros(0, np.int64)
        moves = {p.number: nobody for p in self.purposes if p.came}
        alone = Pots(
            np.array([units]),
            {pot: float(share) for pot, share in self._shares.items()},
            purposes=self.purposes,
            budget=self._budget,
            moves=moves,
        )
        return {pot: int(accounts.budgets[0]) for pot, accounts in alone.items()}

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
        """Open the accounts of a purpose that was added later; return what new users give to it.

        Users who existed gave the amount in the ledger, and were charged for it. New users give a
        share of their budget for questions, and have it in no other account.
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
        """Open the accounts of a purpose that is added now.

        Args:
            purpose: The purpose, with its number.
            users: All existing users.
            moved: The charge of each user for it, in units of the store.
        """
        assert self._budget is not None
        self._open(purpose)
        given = np.zeros(len(self), np.int64)
        given[users] = moved
        self.purposes = (*self.purposes, purpose)
        self._moves[purpose.number] = users, moved
        self._give(purpose, given)

    def draw(self, users: Index, units: Ints, release: int) -> None:
        """Add amounts drawn from a population to users' parts.

        Args:
            users: The users of the draw, ascending.
            units: The amount of each user, in units of the store.
            release: The next release; series added before it get their shares.

        Example:
            >>> pots = Pots(np.zeros(2, np.int64), {Pot.WATCH: 0.25})
            >>> pots.draw(np.array([1], np.int32), np.array([10]), 1)
            >>> {pot.name: accounts.budgets.tolist() for pot, accounts in pots.items()}
            {'QUERIES': [0, 8], 'WATCH': [0, 2]}
        """
        for pot, part in self.split(units, release).items():
            self._accounts[pot].grant(users, part)
        self._drawn = np.append(self._drawn, np.full(len(self) - len(self._drawn), -1))
        self._drawn[users] = np.maximum(self._drawn[users], 0) + units

    def drawn(self, users: Index) -> Ints:
        """Return the total that users drew from a population; -1: the user was in no draw."""
        known = np.full(len(users), -1)
        there = users < len(self._drawn)
        known[there] = self._drawn[users[there]]
        return known

    def restore_draws(self, notes: pa.Table) -> None:
        """Apply the draws that the journal holds (`DRAWS`).

        Raises:
            StoreError: The records contradict each other.
        """
        for row in notes.to_pylist():
            users, units = unpack_set(row["users"]), unpack(row["units"])
            if len(users) != len(units) or (len(users) and users[-1] >= len(self)):
                raise StoreError(
                    "the ledger has a draw for a person who has no account", "restore a copy"
                )
            self.draw(users, units, row["release"])

    def split(self, units: Ints, release: int) -> dict[Pot, Ints]:
        """Return the parts of budgets by pot, in units of each pot; see `draw`."""
        different, which = np.unique(units, return_inverse=True)
        parts, left = dict[Pot, Ints](), different.copy()
        for pot, share in self._shares.items():
            parts[pot] = np.array([int(share * b) for b in different.tolist()], np.int64)
            left -= parts[pot]
        whole = left.copy()
        for purpose in self.purposes:
            if purpose.came >= release:
                continue
            given = purpose.given(whole if purpose.came else different)
            whole -= given
            assert self._budget is not None
            both = purpose.units(self._budget, given)
            parts |= dict(zip((Pot(purpose.answers), Pot(purpose.forecasts)), both, strict=True))
        return {pot: part[which] for pot, part in (parts | {Pot.QUERIES: whole}).items()}

    def named(self) -> dict[str, Pot]:
        """Return the pots that have any budget, by name."""
        by_name = {name_of(pot, self.purposes) or pot.name.lower(): pot for pot in self._accounts}
        empty = {p.forecasts for p in self.purposes if not p.forecast}
        return {name: pot for name, pot in by_name.items() if pot not in empty}

    def worth(self, pot: Pot) -> float:
        """Return the worth of a unit of a pot, in units of the store."""
        for purpose in self.purposes:
            if self._budget is not None and pot in (purpose.answers, purpose.forecasts):
                own = purpose.kappa / purpose.counts
                return own / (self._budget.kappa / self._budget.norm_budget)
        return 1.0

    def moved(self, user: int) -> int:
        """Return the total a user gave to purposes that were added later, in units of the store."""
        total = 0
        for users, units in self._moves.values():
            at = int(np.searchsorted(users, user))
            total += int(units[at]) if at < len(users) and users[at] == user else 0
        return total
