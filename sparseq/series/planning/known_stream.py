"""Contributions known in advance, of public or historical data, for planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.cells import Cells
from sparseq.engine.reduction import CELL_LIMIT, NORM_LIMIT
from sparseq.ledger.accounts import Ints
from sparseq.question.plan import Query

Floats = NDArray[np.float64]


def ranges(starts: Ints, stops: Ints) -> Ints:
    """Return the numbers from each start up to its stop, one range after another.

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
    """A known stream of contributions: one row per (tick, user, coordinate), in that order.

    Attributes:
        query: The query of any tick; its public facts are the same at every tick.
        ticks: Number of ticks.
        people: Number of users; they are 0, 1, … people - 1.
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
        """Return the stream with the cells of every tick."""
        tick = np.repeat(np.arange(len(ticks)), [len(c.users) for c in ticks])
        users = np.concatenate([c.users for c in ticks]).astype(np.int64)
        coordinate = np.concatenate([c.coordinates for c in ticks]).astype(np.int64)
        values = np.concatenate([c.values for c in ticks]).astype(np.float64) * granularity
        return cls(query, len(ticks), people, tick, users, coordinate, values)

    def between(self, first: int, stop: int) -> KnownStream:
        """Return the ticks from `first` up to and without `stop`, as a stream."""
        at = slice(*np.searchsorted(self.tick, [first, stop]).tolist())
        columns = (self.tick[at] - first, self.users[at], self.coordinate[at], self.values[at])
        return KnownStream(self.query, stop - first, self.people, *columns)

    def over(self, ticks: int) -> KnownStream:
        """Return `ticks` ticks: the last ones, or all of them repeated until there are enough."""
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
        """Return the distinct squared norms of (tick, user), ascending, and the index for each.

        Args:
            step: Lattice step for the norms; they saturate as in the engine.
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
        """Root mean square of the sums over everybody: the error of publishing 0."""
        return float(np.sqrt(np.mean(self.truth**2)))

    def rows_of(self, pairs: Ints) -> Ints:
        """Return the rows of some (tick, user), in the same order."""
        if len(self.starts) == len(self.users):
            return pairs
        stops = np.append(self.starts, len(self.users))
        return ranges(self.starts[pairs], stops[pairs + 1])

    @cached_property
    def first_ticks(self) -> Ints:
        """The first tick of each user; the number of ticks for users without contributions."""
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
        """Return the sums of values over some rows, (ticks, d); exact for values on a lattice."""
        d = self.query.coordinates
        sums = np.bincount(self._cells[rows], values[rows], minlength=self.ticks * d)
        return np.asarray(sums.reshape(-1, d), np.float64)
