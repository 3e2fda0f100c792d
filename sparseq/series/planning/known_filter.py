"""Algorithm 2 over known streams, for everybody at once, in a few passes over memory.

Users don't meet in the filter. So the contributions of all streams are put in the order of users,
each one's as they are asked, once; and a budget is tried by adding up charges along that order, and
only of those who can't pay for everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import round_up
from sparseq.ledger.accounts import Ints
from sparseq.series.planning.known_stream import KnownStream, ranges
from sparseq.sql.plan import Plan
from sparseq.stream.prices import charges_of

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Charges:
    """What every pair is charged: few different ones, `table`, and which of them, `codes`."""

    table: Ints
    codes: Ints


class KnownPairs:
    """The (tick, user) of streams that are asked in turn at every tick, in the order of users.

    Args:
        streams: Over the same people and equally many ticks.

    Attributes:
        user, tick, stream: Of each pair.
        pair: Its number among its stream's own.
    """

    def __init__(self, streams: Sequence[KnownStream]) -> None:
        self.streams = streams
        user = np.concatenate([s.users[s.starts] for s in streams])
        tick = np.concatenate([s.tick[s.starts] for s in streams])
        pairs = [len(s.starts) for s in streams]
        stream = np.repeat(np.arange(len(streams)), pairs)
        one = len(streams) == 1
        self._order = np.argsort(user, kind="stable") if one else np.lexsort((stream, tick, user))
        self.user, self.tick = user[self._order], tick[self._order]
        self.stream = stream[self._order]
        self.pair: Ints = np.concatenate([np.arange(n) for n in pairs])[self._order]
        self._codes: dict[tuple[float, ...], Ints] = {}

    @cached_property
    def begin(self) -> Ints:
        """Where the pairs of each user begin who has any."""
        return np.flatnonzero(np.diff(self.user, prepend=-1))

    @cached_property
    def lengths(self) -> Ints:
        """How many pairs each of these users has."""
        return np.diff(self.begin, append=len(self.user))

    def charges(self, plans: Sequence[Plan]) -> Charges:
        """Return what is charged for every pair, in ledger units."""
        tables, offset, codes = [], 0, []
        steps = tuple(plan.noise[0].granularity for plan in plans)
        for stream, plan, step in zip(self.streams, plans, steps, strict=True):
            norms, which = stream.norms(step)
            tables.append(round_up(charges_of(plan.noise[0].price, norms)))
            codes.append((which, offset))
            offset += len(norms)
        if steps not in self._codes:
            joined = np.concatenate([which + start for which, start in codes])
            self._codes[steps] = joined[self._order]
        return Charges(np.concatenate(tables), self._codes[steps])

    def of_users(self, some: Mask) -> Ints:
        """Return the pairs of some of the users who have any."""
        return np.flatnonzero(np.repeat(some, self.lengths))

    def totals(self, charges: Charges, units: int) -> Ints:
        """Return what each of these users would pay for everything; one charge is `units` + 1
        at most, which nobody can pay."""
        if not len(self.user):
            return np.zeros(0, np.int64)
        due: Ints = np.minimum(charges.table, units + 1)[charges.codes]
        found: Ints = np.add.reduceat(due, self.begin)
        return found

    def left_out(self, charges: Charges, units: int, leaving: bool) -> Ints:
        """Return the pairs that are left out, where everybody has `units` to pay with.

        Args:
            charges: See `charges`.
            units: Of the budget.
            leaving: Whether whoever is left out of a stream once has left it.
        """
        over = self.totals(charges, units) > units
        rows = self.of_users(over)
        due = np.minimum(charges.table, units + 1)[charges.codes[rows]]
        out = np.zeros(len(rows), bool)
        lengths, at = self.lengths[over], np.arange(len(rows))
        while len(at):  # a round: the next that each user can't pay, and what follows from it
            starts = np.cumsum(lengths) - lengths
            paid = np.where(out[at], 0, due[at])
            spent = spent_by(paid, starts, lengths)
            late = spent > units
            first = late & ~np.concatenate(([False], late[:-1]))
            first[starts] = late[starts]
            after = np.flatnonzero(late)
            failing = np.flatnonzero(first)[np.cumsum(first)[after] - 1]
            if leaving:
                gone = self.stream[rows[at[after]]] == self.stream[rows[at[failing]]]
            else:
                gone = due[at[after]] > units - (spent - paid)[failing]
            out[at[after[gone]]] = True
            again = np.logical_or.reduceat(late & ~out[at], starts)
            at, lengths = at[np.repeat(again, lengths)], lengths[again]
        return rows[out]

    def departing(self, out: Ints) -> Ints:
        """Return the first of the pairs left out of each user in each stream, by user."""
        keys = self.user[out] * len(self.streams) + self.stream[out]
        if len(self.streams) == 1:
            return out[np.flatnonzero(np.diff(keys, prepend=-1))]
        return out[np.unique(keys, return_index=True)[1]]

    def before(self, stream: int, departing: Ints) -> Ints:
        """Return the pairs of a stream's users before each departs from it."""
        mine = departing[self.stream[departing] == stream]
        user = np.searchsorted(self.user[self.begin], self.user[mine])
        return ranges(self.begin[user], mine)

    def in_stream(self, stream: int, some: Ints) -> Ints:
        """Return, of some pairs, the numbers of those of a stream among its own."""
        mine: Ints = some[self.stream[some] == stream]
        return self.pair[mine]


def spent_by(due: Ints, starts: Ints, lengths: Ints) -> Ints:
    """Return what each user has paid with each pair; a user's pairs begin at `starts`.

    Sums over all users may wrap around; their differences do not.
    """
    total = np.cumsum(due)
    spent: Ints = total - np.repeat((total - due)[starts], lengths)
    return spent
