"""Contributions that are known in advance: of public or historical data, for planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.cells import Cells
from sparseq.ledger.accounts import Ints
from sparseq.query.plan import Query

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


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
        """Where each (tick, user) begins among the rows."""
        new = (np.diff(self.users) != 0) | (np.diff(self.tick) != 0)
        return np.concatenate(([0], np.flatnonzero(new) + 1))[: len(self.users)]

    @cached_property
    def first_ticks(self) -> Ints:
        """When each user first contributes; the number of ticks for who never does."""
        first = np.full(self.people, self.ticks)
        first[self.users[::-1]] = self.tick[::-1]
        return first

    @cached_property
    def truth(self) -> Floats:
        """The sums over everybody, (ticks, d)."""
        return self.sums(np.ones(len(self.users), bool))

    def sums(self, rows: Mask) -> Floats:
        """Return the sums over some rows, (ticks, d); exact, as they are integers of a lattice."""
        d = self.query.coordinates
        cell = self.tick[rows] * d + self.coordinate[rows]
        sums = np.bincount(cell, self.values[rows], minlength=self.ticks * d)
        return np.asarray(sums.reshape(-1, d), np.float64)
