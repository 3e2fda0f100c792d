"""Algorithm 2 over known streams, for all users at once, in a few passes over memory.

Users do not interact in the filter. So the contributions of all streams are sorted once by user,
and by the order of the questions within a user. A budget is tried by adding up charges along that
order, and only for users who cannot pay for everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import round_up
from sparseq.ledger.accounts import Ints
from sparseq.question.plan import Plan
from sparseq.series.planning.known_stream import KnownStream, ranges
from sparseq.stream.charge_amounts import charges_of

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Charges:
    """The charge of every pair: the few distinct charges, `table`, and indices into it, `codes`."""

    table: Ints
    codes: Ints


class KnownPairs:
    """The (tick, user) of streams with one question each at every tick, in the order of users.

    Args:
        streams: Streams over the same people and the same number of ticks.

    Attributes:
        user, tick, stream: One entry per pair.
        pair: Index of the pair within its stream.
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
        """The first pair of each user with pairs."""
        return np.flatnonzero(np.diff(self.user, prepend=-1))

    @cached_property
    def lengths(self) -> Ints:
        """The number of pairs of each of these users."""
        return np.diff(self.begin, append=len(self.user))

    def charges(self, plans: Sequence[Plan]) -> Charges:
        """Return the charge of every pair, in ledger units."""
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

    def user_pairs(self, some: Mask) -> Ints:
        """Return the pairs of some of the users with pairs."""
        return np.flatnonzero(np.repeat(some, self.lengths))

    def totals(self, charges: Charges, units: int) -> Ints:
        """Return the sum of all charges of each of these users.

        One charge is at most `units` + 1, which nobody can pay.
        """
        if not len(self.user):
            return np.zeros(0, np.int64)
        due: Ints = np.minimum(charges.table, units + 1)[charges.codes]
        found: Ints = np.add.reduceat(due, self.begin)
        return found

    def left_out(self, charges: Charges, units: int, leaving: bool) -> Ints:
        """Return the pairs that are left out, if every user has a budget of `units`.

        Args:
            charges: See `charges`.
            units: The budget.
            leaving: True if users leave a stream when they are left out once.
        """
        over = self.totals(charges, units) > units
        rows = self.user_pairs(over)
        due = np.minimum(charges.table, units + 1)[charges.codes[rows]]
        out = np.zeros(len(rows), bool)
        lengths, at = self.lengths[over], np.arange(len(rows))
        while len(at):  # a round: the next pair that each user can't pay, and its consequences
            starts = np.cumsum(lengths) - lengths
            paid = np.where(out[at], 0, due[at])
            spent = running_spend(paid, starts, lengths)
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
        """Return the indices within a stream of those of some pairs that belong to it."""
        mine: Ints = some[self.stream[some] == stream]
        return self.pair[mine]


def running_spend(due: Ints, starts: Ints, lengths: Ints) -> Ints:
    """Return the running sum of each user's charges; a user's pairs begin at `starts`.

    Sums over all users may wrap around; their differences do not.
    """
    total = np.cumsum(due)
    spent: Ints = total - np.repeat((total - due)[starts], lengths)
    return spent
