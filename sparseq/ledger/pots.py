"""Every user's budget in parts, set aside when the store is made: one account a user and part.

A release is paid from one pot, and whoever can't pay it from that pot is left out of it. A user's
spends over all pots add up to at most the user's budget, as the pots do; so the stream as a whole
is Algorithm 2 of Feldman & Zrnic (2021) with a filter that is stricter than it need be, and
Theorem 4.5 holds for it as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from fractions import Fraction

import numpy as np

from sparseq.accounting._checks import in_range
from sparseq.errors import ParameterError
from sparseq.ledger.accounts import Accounts, Ints


class Pot(IntEnum):
    """What a part of the budget is for."""

    QUERIES = 0
    WATCH = 1  # how many users have ever been dropped
    FORECAST = 2  # what dropped users would still have contributed


class Pots:
    """The accounts of every pot; a pot without a share has none.

    Args:
        budgets: One a user, in ledger units.
        shares: Of every budget, by pot; what is left is for queries.
        halt: See `Accounts`; it is about queries.

    Raises:
        ParameterError: A share is not in [0, 1), or nothing is left for queries.

    Example:
        >>> pots = Pots(np.array([100, 10]), {Pot.WATCH: 0.05, Pot.FORECAST: 0.25})
        >>> {pot.name: accounts.budgets.tolist() for pot, accounts in pots.items()}
        {'QUERIES': [70, 8], 'WATCH': [5, 0], 'FORECAST': [25, 2]}
    """

    def __init__(self, budgets: Ints, shares: Mapping[Pot, float], halt: bool = False) -> None:
        for pot, share in shares.items():
            in_range(f"the share for {pot.name.lower()}", share, 0.0, 1.0)
        self._shares = {pot: Fraction(share) for pot, share in shares.items() if share > 0}
        if sum(self._shares.values()) >= 1:
            raise ParameterError(
                "the shares leave nothing for queries", "they add up to less than 1"
            )
        none = np.zeros(0, np.int64)
        pots = sorted({Pot.QUERIES, *self._shares})
        self._accounts = {pot: Accounts(none, halt and pot is Pot.QUERIES) for pot in pots}
        self.add_users(budgets)

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
        different, which = np.unique(budgets, return_inverse=True)
        left = different.copy()
        for pot, share in self._shares.items():
            parts = np.array([int(share * b) for b in different.tolist()], np.int64)
            self._accounts[pot].add_users(parts[which])
            left -= parts
        self._accounts[Pot.QUERIES].add_users(left[which])
