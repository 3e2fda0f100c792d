"""Part time in streams that are known: what `sparseq.monitor.forecast` does, without a store.

The same integers; see `sparseq.monitor.simulate`. Whoever never runs short takes part in full to
the end, which is seen from its charges alone. Only the others are followed tick by tick, all that
contribute at a tick at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, round_up
from sparseq.engine.reduce import NORM_LIMIT
from sparseq.ledger.accounts import Ints
from sparseq.monitor.columns import Columns
from sparseq.monitor.fading import (
    BEGIN,
    Announcement,
    Cells,
    CounterState,
    Fading,
    pressed,
    price_of,
    weighed,
)
from sparseq.monitor.gating import KnownPairs, spent_by
from sparseq.monitor.known_stream import KnownStream, ranges
from sparseq.monitor.rates import Form
from sparseq.query.plan import Plan
from sparseq.stream.pricing import charges_of

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Run:
    """A stream in part time; see `Simulation` and `Gate` for the names."""

    out: Ints
    active: Floats
    left: Ints
    departed: int


def run(
    known: KnownPairs,
    plans: Sequence[Plan],
    columns: Sequence[Columns],
    form: Form,
    budget: Budget,
    paying: int,
) -> list[Run]:
    """Run streams that are asked in turn at every tick, every user with `paying` units for all."""
    followed = _short(known, plans, [c.horizon for c in columns], paying)
    streams = known.streams
    ones = [
        _StreamState(stream, followed, plan, column, form, budget, 1 / len(streams))
        for stream, plan, column in zip(streams, plans, columns, strict=True)
    ]
    left = np.full(len(followed), paying, np.int64)
    for tick in range(streams[0].ticks):
        for one in ones:
            one.step(tick, left, paying)
    return [
        Run(np.flatnonzero(~one.pairs), one.active, one.left, len(one.weights.departed()))
        for one in ones
    ]


def _short(known: KnownPairs, plans: Sequence[Plan], horizons: Sequence[int], paying: int) -> Ints:
    """Return who would announce a weight or be dropped, ever, taking part in full so far."""
    charges = known.charges(plans)
    some = known.totals(charges, paying) * BEGIN >= paying  # the others don't even begin
    rows, lengths = known.of_users(some), known.lengths[some]
    due = np.minimum(charges.table, paying + 1)[charges.codes[rows]]
    spent = spent_by(due, np.cumsum(lengths) - lengths, lengths) - due
    left = paying - spent
    short = due > left
    for i, horizon in enumerate(horizons):
        mine = known.stream[rows] == i
        short |= mine & pressed(known.tick[rows], horizon, spent, left)
    return np.unique(known.user[rows[short]])


class _StreamState:
    """One stream, as far as it has come; its users are those that are followed, 0, 1, …"""

    def __init__(
        self,
        stream: KnownStream,
        followed: Ints,
        plan: Plan,
        columns: Columns,
        form: Form,
        budget: Budget,
        share: float,
    ) -> None:
        self._plan, self._form, self._units = plan, form, columns.units
        noise, places = plan.noise[0], stream.query.coordinates
        self._step, self._unit_price = noise.granularity, price_of(budget, noise.sigma)
        steps, sums = stream.steps(noise.granularity)
        of_user = np.full(stream.people, -1)
        of_user[followed] = np.arange(len(followed))
        rows = np.flatnonzero(of_user[stream.users] >= 0)
        self._users, self._coordinates = of_user[stream.users[rows]], stream.coordinate[rows]
        self._steps, self._pair = steps[rows], stream.pairs[rows]
        self._ends = np.searchsorted(stream.tick[rows], np.arange(stream.ticks + 1)).tolist()
        keys = self._users * places + self._coordinates
        cells, self._cell = np.unique(keys, return_inverse=True)
        self._past = _Totals(cells, places, len(followed), form)
        self._standing = CounterState(columns, places, cells)
        self.weights = Fading(columns.horizon, share)
        everybody, norm = stream.norms(noise.granularity)
        self.pairs = everybody[norm] > 0
        self.pairs[self._pair] = False
        self.active = (sums - stream.sums(rows, steps)) * noise.granularity
        self.left = np.zeros((stream.ticks, places), np.int64)

    def step(self, tick: int, left: Ints, paying: int) -> None:
        """Go on by a tick; `left` is what everybody has left for answers, and is paid from."""
        at = slice(self._ends[tick], self._ends[tick + 1])
        if at.start == at.stop:
            return
        weights = self.weights.weights(self._users[at], tick)
        steps = weighed(self._steps[at], weights)
        here = np.flatnonzero(steps) + at.start
        steps = steps[steps != 0]
        new = np.diff(self._pair[here], prepend=-1) != 0
        first, owner = np.flatnonzero(new), np.cumsum(new) - 1
        users = self._users[here[first]]
        due = round_up(charges_of(self._plan.noise[0].price, _norms(steps, first)))
        before = left[users]
        fits = due <= before
        some = users[fits]
        turn = self.weights.turn(
            tick, users[~fits], some, paying - before[fits], before[fits],
            lambda who: _TotalsAt(self._past, who, tick, self._unit_price, self._step),
        )  # fmt: skip
        left[some] -= due[fits]
        self.pairs[self._pair[here[first[fits]]]] = True
        mine = fits[owner]
        counted = np.bincount(self._coordinates[here[mine]], steps[mine], self.left.shape[1])
        self.active[tick] += counted * self._step
        self._past.add(tick, self._cell[at], self._users[at], self._steps[at])
        self._leave(tick, turn)

    def _leave(self, tick: int, turn: Announcement) -> None:
        if not len(turn.users):
            return
        units = np.full(len(turn.owners), self._units)
        cells = (turn.owners, turn.coordinates)
        steps = self._standing.missing(tick, *cells, turn.rates, units)
        self._standing.take(tick, *cells, steps, units)
        self.weights.announce(turn.users, tick, turn.weights)
        np.add.at(self.left[tick], turn.coordinates, steps)


class _Totals:
    """What has been contributed so far, in full: by cell, for the means, and squared, by user."""

    def __init__(self, cells: Ints, places: int, users: int, form: Form) -> None:
        self.cells, self.places, self.form = cells, places, form
        self.of_user = np.searchsorted(cells, np.arange(users + 1) * places)
        self.squares = np.zeros(users)
        self._sums, self._last = np.zeros(len(cells)), np.full(len(cells), -1)
        self._first = np.full(users, -1)

    def add(self, tick: int, cells: Ints, users: Ints, steps: Ints) -> None:
        """Take a tick's contributions, one a cell."""
        self._sums[cells] = self._decayed(cells, tick) + steps
        self._last[cells] = tick
        np.add.at(self.squares, users, steps.astype(np.float64) ** 2)
        self._first[users] = np.where(self._first[users] < 0, tick, self._first[users])

    def means(self, users: Ints, tick: int, step: float) -> Cells:
        """Return the means of some users before a tick."""
        cells = ranges(self.of_user[users], self.of_user[users + 1])
        cells = cells[self._last[cells] >= 0]
        owner, coordinate = np.divmod(self.cells[cells], self.places)
        now, sums = np.full(len(cells), tick), self._decayed(cells, tick) * step
        rates = self.form.rates(np.arange(len(cells)), now, sums, now, self._first[owner])
        return owner, coordinate, rates

    def _decayed(self, cells: Ints, tick: int) -> Floats:
        ages = tick - self._last[cells]
        return np.asarray(self._sums[cells] * self.form.decay**ages)


@dataclass(frozen=True)
class _TotalsAt:
    """A `Past` from totals."""

    totals: _Totals
    users: Ints
    tick: int
    price: float
    step: float

    @property
    def charges(self) -> Floats:
        return np.asarray(self.totals.squares[self.users] * self.step**2 * self.price)

    def means(self, some: Mask) -> Cells:
        return self.totals.means(self.users[some], self.tick, self.step)


def _norms(steps: Ints, first: Ints) -> Ints:
    """Return squared norms by user, as the engine does; a user's steps begin at `first`."""
    if not len(steps) or np.abs(steps).max() < 2**20:
        return np.add.reduceat(steps**2, first) if len(steps) else steps
    squares = np.add.reduceat(steps.astype(np.float64) ** 2, first)
    exact = np.add.reduceat(steps.astype(object) ** 2, first)
    return np.where(squares < 2.0**62, exact, NORM_LIMIT).astype(np.int64)
