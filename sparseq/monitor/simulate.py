"""What a store would do to a stream that is known: drops, forecasts and errors, without the store.

For planning on public or historical data. The maths is the store's own: the same charges
(`sparseq.pricing`), pots, rates, lattice and correction; a test compares drops and answers with a
real store's. What is a loop over ticks there is a sort and a running sum by user here, since before
its first drop a user has paid for all that it contributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from sparseq.accounting import Budget, budget_units, round_up
from sparseq.engine.cells import Cells
from sparseq.engine.reduce import NORM_LIMIT
from sparseq.ledger.accounts import Ints
from sparseq.mechanisms.entropy import for_release
from sparseq.mechanisms.gaussian import rounded_gaussian
from sparseq.mechanisms.toeplitz_counter import BITS, coefficients, decoder
from sparseq.monitor.columns import Columns
from sparseq.monitor.correct import Corrector, Post
from sparseq.monitor.rates import Form
from sparseq.pricing import charges_of
from sparseq.query.plan import Options, Plan, Query, calibrate

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Stream:
    """A known stream of contributions: one row a (user, tick, coordinate), in that order.

    Attributes:
        query: Any tick's; what is public of it is the same at every tick.
        ticks: How many there are.
        users, tick, coordinate: int64; users are 0, 1, ….
        values: In the query's unit, multiples of `granularity`.
        granularity: The lattice that they are on.
    """

    query: Query
    ticks: int
    users: Ints
    tick: Ints
    coordinate: Ints
    values: Floats
    granularity: float

    @classmethod
    def of(cls, query: Query, ticks: Sequence[Cells], granularity: float) -> Stream:
        """Return the stream that the cells of every tick are."""
        tick = np.repeat(np.arange(len(ticks)), [len(c.users) for c in ticks])
        users = np.concatenate([c.users for c in ticks]).astype(np.int64)
        coordinate = np.concatenate([c.coordinates for c in ticks]).astype(np.int64)
        values = np.concatenate([c.values for c in ticks]).astype(np.float64) * granularity
        order = np.lexsort((coordinate, tick, users))
        _, users = np.unique(users[order], return_inverse=True)
        columns = (users.astype(np.int64), tick[order], coordinate[order], values[order])
        return cls(query, len(ticks), *columns, granularity)

    @cached_property
    def people(self) -> int:
        """How many users contribute anything."""
        return int(self.users[-1]) + 1 if len(self.users) else 0

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each (user, tick) begins among the rows."""
        new = (np.diff(self.users) != 0) | (np.diff(self.tick) != 0)
        return np.concatenate(([0], np.flatnonzero(new) + 1))

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


@dataclass(frozen=True)
class Simulated:
    """A stream under one budget.

    Attributes:
        plan: The noise of the answers.
        active: Sums over the active, (ticks, d).
        dropped: By (user, tick): whether the user was left out of the answer.
        left: Forecasts left at each tick, (ticks, d), in lattice steps; None without a reserve.
        columns: The counter's numbers; None without a reserve.
        departed: How many users have left the series.
    """

    stream: Stream
    plan: Plan
    active: Floats
    dropped: Mask
    left: Ints | None
    columns: Columns | None
    departed: int

    @property
    def sigma(self) -> float:
        """Of the answers."""
        return self.plan.noise[0].sigma

    def errors(self, post: Post) -> tuple[float, float, float]:
        """Return root mean squares over ticks and coordinates: noise, bias, total; no randomness.

        Exact for smoothing alone, which is linear. Bias is what is missing without noise.

        Raises:
            ValueError: There is a season or a cut-off; `corrected` has these.
        """
        if post.period or post.non_negative:
            raise ValueError("only linear post-processing has errors in closed form")
        variance, missing = np.full(self.stream.ticks, self.sigma**2), self.active
        if self.left is not None and self.columns is not None:
            a, b = [post.smoothing], [1.0, post.smoothing - 1.0]
            running = np.cumsum(self.left, axis=0) * self.columns.step
            missing = missing + lfilter(a, b, running, axis=0)
            weights = lfilter(a, b, np.ldexp(decoder(self.stream.ticks), BITS))
            variance = variance + self.columns.sigma**2 * np.cumsum(weights**2)
        bias = float(np.mean((missing - self.stream.truth) ** 2))
        noise = float(np.mean(variance))
        return noise**0.5, bias**0.5, (noise + bias) ** 0.5

    def corrected(self, seed: int, post: Post, beta: float = 0.05) -> Floats:
        """Return the series that a store of this seed would give, (ticks, d), bit by bit.

        If its releases are those of this series alone: two a tick with a reserve, else one.
        """
        noise, d = self.plan.noise[0], self.stream.query.coordinates
        corrector = Corrector(d, post)
        if self.columns is not None:
            corrector.begin(self.columns.sigma, self.columns.row_step)
        found = np.empty((self.stream.ticks, d))
        exact = np.rint(self.active / noise.granularity).astype(np.int64)
        rows, release = self._rows(), 0
        for t in range(self.stream.ticks):
            release += 1
            drawn = rounded_gaussian(noise.lattice_sigma, d, for_release(seed, release))
            answer = (exact[t] + drawn) * noise.granularity
            if rows is not None and self.columns is not None:
                release += 1
                sigma = self.columns.sigma / self.columns.row_step
                drawn = rounded_gaussian(sigma, d, for_release(seed, release))
                corrector.row((rows[t] + drawn) * self.columns.row_step)
            found[t] = corrector.correct(answer, noise.sigma, noise.granularity, beta).values
        return found

    def _rows(self) -> Ints | None:
        """The counter's exact rows."""
        if self.left is None:
            return None
        a = coefficients(self.stream.ticks)
        return np.array([a[t::-1] @ self.left[: t + 1] for t in range(self.stream.ticks)])


@dataclass(frozen=True)
class Setting:
    """One way to split a budget.

    Args:
        norm_budget: B_norm.
        forecast: Share set aside for forecasts; 0: none are made.
        others: Shares set aside for anything else.
        horizon: T of the counter; None: the stream's length.
    """

    norm_budget: float
    forecast: float = 0.0
    others: float = 0.0
    form: str = "mean"
    clip: float = 1.0
    horizon: int | None = None


def simulate(stream: Stream, kappa: float, setting: Setting) -> Simulated:
    """Run a stream under one setting, every user with the same budget."""
    budget = Budget(kappa, setting.norm_budget)
    plan = calibrate(stream.query, budget, Options())
    charges = _charges(stream, plan)
    units = budget_units(setting.norm_budget)
    reserve = int(Fraction(setting.forecast) * units)
    paying = units - reserve - int(Fraction(setting.others) * units)
    pairs = _paid_once(stream, charges, paying) if reserve else _paid(stream, charges, paying)
    rows = np.repeat(pairs, np.diff(np.append(stream.starts, len(stream.users))))
    active = stream.sums(rows)
    departing = _departures(stream, pairs) if reserve else np.zeros(0, np.int64)
    if not reserve:
        return Simulated(stream, plan, active, ~pairs, None, None, 0)
    horizon = setting.horizon or stream.ticks
    scale = setting.clip * plan.noise[0].scale
    columns = Columns(budget, horizon, scale, reserve)
    left = _left(stream, rows, departing, columns, Form.of(setting.form))
    return Simulated(stream, plan, active, ~pairs, left, columns, len(departing))


def _charges(stream: Stream, plan: Plan) -> Ints:
    """Return the charge of every (user, tick)."""
    steps = np.rint(stream.values / plan.noise[0].granularity)
    squares = np.add.reduceat(steps**2, stream.starts)
    norms = np.where(squares < 2.0**62, squares, 0).astype(np.int64)
    norms[squares >= 2.0**62] = NORM_LIMIT
    return round_up(charges_of(plan.noise[0].price, norms))


def _paid_once(stream: Stream, charges: Ints, units: int) -> Mask:
    """Tell who is active when the first drop is the last: while all so far can be paid for."""
    owner = stream.users[stream.starts]
    running = np.cumsum(np.minimum(charges, units + 1))  # wraps evenly, if it does
    first = np.searchsorted(owner, np.arange(stream.people))
    before = running[first] - np.minimum(charges[first], units + 1)
    paid: Mask = running - before[owner] <= units
    return paid & ~_after_a_drop(owner, paid, first)


def _after_a_drop(owner: Ints, paid: Mask, first: NDArray[np.intp]) -> Mask:
    dropped = (~paid).astype(np.int64)
    earlier = np.cumsum(dropped) - dropped
    return np.asarray(earlier > earlier[first][owner])


def _paid(stream: Stream, charges: Ints, units: int) -> Mask:
    """Tell who is active by Algorithm 2, in which later, smaller contributions may fit again."""
    if not len(charges) or charges.min() == charges.max():
        return _paid_once(stream, charges, units)
    owner, tick = stream.users[stream.starts], stream.tick[stream.starts]
    order = np.argsort(tick, kind="stable")
    ends = np.searchsorted(tick[order], np.arange(stream.ticks + 1))
    spent, active = np.zeros(stream.people, np.int64), np.zeros(len(charges), bool)
    for t in range(stream.ticks):
        at = order[ends[t] : ends[t + 1]]
        fits = charges[at] <= units - spent[owner[at]]
        spent[owner[at]] += charges[at] * fits
        active[at] = fits
    return active


def _departures(stream: Stream, active: Mask) -> Ints:
    """Return the (user, tick) at which each user that departs is first dropped."""
    dropped = np.flatnonzero(~active)
    _, first = np.unique(stream.users[stream.starts][dropped], return_index=True)
    return np.asarray(dropped[first], np.int64)


def _left(stream: Stream, rows: Mask, departing: Ints, columns: Columns, form: Form) -> Ints:
    """Return the forecasts left at each tick, (ticks, d), in lattice steps."""
    d = stream.query.coordinates
    starts = stream.starts[departing]
    users, ticks = stream.users[starts], stream.tick[starts]
    of_user = np.full(stream.people, -1)
    of_user[users] = np.arange(len(users))
    own = rows & (of_user[stream.users] >= 0)  # all that is active comes before the drop
    keys = of_user[stream.users[own]] * d + stream.coordinate[own]
    cells, cell = np.unique(keys, return_inverse=True)
    owner = cells // d
    first = stream.tick[np.searchsorted(stream.users, users)]
    rates = form.rates(cell, stream.tick[own], stream.values[own], ticks[owner], first[owner])
    units = np.full(len(users), columns.units)
    steps = columns.fitted(owner, rates, units, ticks)
    left = np.zeros(stream.ticks * d, np.int64)
    np.add.at(left, ticks[owner] * d + cells % d, steps)
    return left.reshape(-1, d)
