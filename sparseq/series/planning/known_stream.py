"""Contributions that are known in advance: of public or historical data, for planning.

Algorithm 2 over known streams, for everybody at once, in a few passes over memory.

Users don't meet in the filter. So the contributions of all streams are put in the order of users,
each one's as they are asked, once; and a budget is tried by adding up charges along that order, and
only of those who can't pay for everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import round_up
from sparseq.engine.contributions import CELL_LIMIT, NORM_LIMIT, Cells
from sparseq.ledger.accounts import Ints
from sparseq.sql.plan import Plan, Query
from sparseq.stream.release_charges import charges_of

# -- contributions that are known in advance: of public or historical data, for planning -----------

Floats = NDArray[np.float64]


def ranges(starts: Ints, stops: Ints) -> Ints:
    """Return the numbers from each start up to its stop, one range after the other.

    Example:
        >>> ranges(np.array([3, 10]), np.array([5, 11])).tolist()
        [3, 4, 10]
    """
    lengths = stops - starts
    ends = np.cumsum(lengths)
    found: Ints = np.repeat(starts - (ends - lengths), lengths) + np.arange(lengths.sum())
    return found


@dataclass(frozen=True)
class KnownStream:
    """A known stream of contributions: one row a (tick, user, coordinate), in that order.

    Attributes:
        query: Any tick's; what is public of it is the same at every tick.
        ticks: How many there are.
        people: How many users, 0, 1, … people - 1.
        tick, users, coordinate: int64.
        values: In the query's unit, multiples of its lattice step.
    """

    query: Query
    ticks: int
    people: int
    tick: Ints
    users: Ints
    coordinate: Ints
    values: Floats

    @classmethod
    def of(
        cls, query: Query, people: int, ticks: Sequence[Cells], granularity: float
    ) -> KnownStream:
        """Return the stream that the cells of every tick are."""
        tick = np.repeat(np.arange(len(ticks)), [len(c.users) for c in ticks])
        users = np.concatenate([c.users for c in ticks]).astype(np.int64)
        coordinate = np.concatenate([c.coordinates for c in ticks]).astype(np.int64)
        values = np.concatenate([c.values for c in ticks]).astype(np.float64) * granularity
        return cls(query, len(ticks), people, tick, users, coordinate, values)

    def between(self, first: int, stop: int) -> KnownStream:
        """Return the ticks from `first` up to and without `stop`, as a stream of its own."""
        at = slice(*np.searchsorted(self.tick, [first, stop]).tolist())
        columns = (self.tick[at] - first, self.users[at], self.coordinate[at], self.values[at])
        return KnownStream(self.query, stop - first, self.people, *columns)

    def over(self, ticks: int) -> KnownStream:
        """Return so many ticks: the last ones, or all of them over again until there are enough."""
        if ticks <= self.ticks:
            return self.between(self.ticks - ticks, self.ticks)
        times = -(-ticks // self.ticks)
        shift = np.repeat(np.arange(times) * self.ticks, len(self.tick))
        users, coordinate = np.tile(self.users, times), np.tile(self.coordinate, times)
        tick, values = np.tile(self.tick, times) + shift, np.tile(self.values, times)
        columns = (tick, users, coordinate, values)
        return KnownStream(self.query, times * self.ticks, self.people, *columns).between(0, ticks)

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """The first row of each (tick, user)."""
        new = (np.diff(self.users) != 0) | (np.diff(self.tick) != 0)
        return np.concatenate(([0], np.flatnonzero(new) + 1))[: len(self.users)]

    @cached_property
    def pairs(self) -> Ints:
        """The (tick, user) of each row."""
        lengths = np.diff(self.starts, append=len(self.users))
        return np.repeat(np.arange(len(self.starts)), lengths)

    @cached_property
    def _steps(self) -> dict[float, tuple[Ints, Floats]]:
        return {}

    def steps(self, step: float) -> tuple[Ints, Floats]:
        """Return the values on a lattice, and their sums, (ticks, d)."""
        if step not in self._steps:
            most = CELL_LIMIT + 1
            steps = np.clip(np.rint(self.values / step), -most, most).astype(np.int64)
            self._steps[step] = steps, self.sums(slice(None), steps)
        return self._steps[step]

    @cached_property
    def _norms(self) -> dict[float, tuple[Ints, Ints]]:
        return {}

    def norms(self, step: float) -> tuple[Ints, Ints]:
        """Return the squared norms that a (tick, user) has, ascending, and which of them each has.

        Args:
            step: The lattice that they are counted on; they saturate as in the engine.
        """
        if step not in self._norms:
            squares = np.rint(self.values / step) ** 2
            if len(self.starts) < len(squares):
                squares = np.add.reduceat(squares, self.starts)
            norms = np.where(squares < 2.0**62, squares, 0).astype(np.int64)
            norms[squares >= 2.0**62] = NORM_LIMIT
            self._norms[step] = np.unique(norms, return_inverse=True)
        return self._norms[step]

    @property
    def root_mean_square(self) -> float:
        """Of the sums over everybody, over ticks and coordinates: the error of publishing 0."""
        return float(np.sqrt(np.mean(self.truth**2)))

    def rows_of(self, pairs: Ints) -> Ints:
        """Return the rows of some (tick, user), in their order."""
        if len(self.starts) == len(self.users):
            return pairs
        stops = np.append(self.starts, len(self.users))
        return ranges(self.starts[pairs], stops[pairs + 1])

    @cached_property
    def first_ticks(self) -> Ints:
        """The first tick of each user; the number of ticks for who never contributes."""
        first = np.full(self.people, self.ticks)
        first[self.users[::-1]] = self.tick[::-1]
        return first

    @cached_property
    def truth(self) -> Floats:
        """The sums over everybody, (ticks, d)."""
        return self.sums(slice(None), self.values)

    @cached_property
    def _cells(self) -> Ints:
        return self.tick * self.query.coordinates + self.coordinate

    def sums(self, rows: Ints | slice, values: NDArray[Any]) -> Floats:
        """Return the sums of values over some rows, (ticks, d); exact, as they are on a lattice."""
        d = self.query.coordinates
        sums = np.bincount(self._cells[rows], values[rows], minlength=self.ticks * d)
        return np.asarray(sums.reshape(-1, d), np.float64)


# -- algorithm 2 over known streams, for everybody at once, in a few passes over memory ------------

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Charges:
    """The charge of every pair: few different ones, `table`, and which of them, `codes`."""

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
        """The first pair of each user who has any."""
        return np.flatnonzero(np.diff(self.user, prepend=-1))

    @cached_property
    def lengths(self) -> Ints:
        """The number of pairs of each of these users."""
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
