"""Part time in streams that are known: what `sparseq.monitor.forecast` does, without a store.

The same integers, tick by tick, all users of a tick at once; see `sparseq.monitor.simulate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, round_up
from sparseq.engine.reduce import CELL_LIMIT, NORM_LIMIT
from sparseq.ledger.accounts import Ints
from sparseq.monitor.columns import Columns
from sparseq.monitor.known_stream import KnownStream
from sparseq.monitor.part_time import (
    Announcement,
    CounterState,
    History,
    PartTime,
    price_of,
    weighed,
)
from sparseq.monitor.rates import Form
from sparseq.query.plan import Plan
from sparseq.stream.pricing import charges_of

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Run:
    """A stream in part time; see `Simulation` and `Gate` for the names."""

    pairs: Mask
    active: Floats
    left: Ints
    departed: int


def run(
    streams: Sequence[KnownStream],
    plans: Sequence[Plan],
    columns: Sequence[Columns],
    form: Form,
    budget: Budget,
    paying: int,
) -> list[Run]:
    """Run streams that are asked in turn at every tick, every user with `paying` units for all."""
    left = np.full(streams[0].people, paying, np.int64)
    ones = [
        _StreamState(stream, plan, column, form, budget, 1 / len(streams))
        for stream, plan, column in zip(streams, plans, columns, strict=True)
    ]
    for tick in range(streams[0].ticks):
        for one in ones:
            one.step(tick, left, paying)
    return [Run(one.pairs, one.active, one.left, len(one.weights.departed())) for one in ones]


class _StreamState:
    """One stream, as far as it has come."""

    def __init__(
        self,
        stream: KnownStream,
        plan: Plan,
        columns: Columns,
        form: Form,
        budget: Budget,
        share: float,
    ) -> None:
        self._stream, self._plan, self._form = stream, plan, form
        self._units, self._places = columns.units, stream.query.coordinates
        noise = plan.noise[0]
        self._granularity, self._price = noise.granularity, price_of(budget, noise.sigma)
        steps = np.rint(stream.values / noise.granularity)
        self._steps = np.clip(steps, -CELL_LIMIT - 1, CELL_LIMIT + 1).astype(np.int64)
        self._ends = np.searchsorted(stream.tick, np.arange(stream.ticks + 1)).tolist()
        self._pair = np.zeros(len(stream.users), np.int64)  # which (tick, user) each row is of
        self._pair[stream.starts[1:]] = 1
        self._pair = np.cumsum(self._pair)
        self._by_user = np.lexsort((stream.tick, stream.coordinate, stream.users))
        self._of_user = np.searchsorted(stream.users[self._by_user], np.arange(stream.people + 1))
        self.weights = PartTime(columns.horizon, share)
        self._standing = CounterState(columns, self._places)
        self.pairs = np.zeros(len(stream.starts), bool)
        self.active = np.zeros((stream.ticks, self._places))
        self.left = np.zeros((stream.ticks, self._places), np.int64)

    def step(self, tick: int, left: Ints, paying: int) -> None:
        """Go on by a tick; `left` is what everybody has left for answers, and is paid from."""
        stream = self._stream
        at = np.arange(self._ends[tick], self._ends[tick + 1])
        weights = self.weights.weights(stream.users[at], tick)
        steps = weighed(self._steps[at], weights)
        at, steps = at[steps != 0], steps[steps != 0]
        pairs, owner = np.unique(self._pair[at], return_inverse=True)
        users = stream.users[stream.starts[pairs]]
        due = round_up(charges_of(self._plan.noise[0].price, _norms(steps, owner, len(users))))
        fits = due <= left[users]
        here, before = users[fits], left[users[fits]]
        turn = self.weights.turn(
            tick, users[~fits], here, paying - before, before, lambda who: self._past(who, tick),
            self._form, self._places, self._price,
        )  # fmt: skip
        left[here] -= due[fits]
        self.pairs[pairs[fits]] = True
        mine = fits[owner]
        sums = np.zeros(self._places, np.int64)
        np.add.at(sums, stream.coordinate[at[mine]], steps[mine])
        self.active[tick] = sums * self._granularity
        self._leave(tick, turn)

    def _leave(self, tick: int, turn: Announcement) -> None:
        units = np.full(len(turn.owners), self._units)
        cells = (turn.owners, turn.coordinates)
        steps = self._standing.missing(tick, *cells, turn.rates, units)
        self._standing.take(tick, *cells, steps, units)
        self.weights.announce(turn.users, tick, turn.weights)
        np.add.at(self.left[tick], turn.coordinates, steps)

    def _past(self, users: Ints, tick: int) -> History:
        """Return what users contributed before a tick, by user, coordinate and tick."""
        first, stop = self._of_user[users], self._of_user[users + 1]
        lengths = stop - first
        ends = np.cumsum(lengths)
        rows = np.repeat(first - (ends - lengths), lengths) + np.arange(lengths.sum())
        at = self._by_user[rows]
        stream, at = self._stream, at[self._stream.tick[at] < tick]
        values = self._steps[at] * self._granularity
        return stream.users[at], stream.tick[at], stream.coordinate[at], values


def _norms(steps: Ints, owner: Ints, users: int) -> Ints:
    """Return squared norms by user, as the engine does."""
    if np.abs(steps).max(initial=0) < 2**20:
        norms = np.zeros(users, np.int64)
        np.add.at(norms, owner, steps**2)
        return norms
    squares = np.bincount(owner, steps.astype(np.float64) ** 2, minlength=users)
    exact = np.zeros(users, object)
    np.add.at(exact, owner, steps.astype(object) ** 2)
    return np.where(squares < 2.0**62, exact, NORM_LIMIT).astype(np.int64)
