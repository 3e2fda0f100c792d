"""What a store would do to streams that are known: drops, forecasts and errors, without the store.

For planning on public or historical data. The maths is the store's own: the same charges
(`sparseq.stream.pricing`), pots, rates, lattice and correction; a test compares drops and answers
with a real store's. One pass over the contributions, tick by tick, all users of a tick at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from sparseq.accounting import Budget, budget_units, round_up
from sparseq.engine.reduce import NORM_LIMIT
from sparseq.ledger.accounts import Ints
from sparseq.mechanisms.entropy import for_release
from sparseq.mechanisms.gaussian import rounded_gaussian
from sparseq.mechanisms.toeplitz_counter import BITS, coefficients, decoder
from sparseq.monitor.columns import Columns
from sparseq.monitor.correct import Corrector, PostProcessing, season
from sparseq.monitor.known_stream import KnownStream
from sparseq.monitor.part_time import fine
from sparseq.monitor.rates import Form
from sparseq.monitor.simulate_part_time import run
from sparseq.query.plan import Options, Plan, calibrate
from sparseq.stream.pricing import charges_of

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Simulation:
    """A stream under one budget.

    Attributes:
        plan: The noise of the answers.
        active: Sums over the active, (ticks, d).
        dropped: By (tick, user): whether the user was left out of the answer.
            In part time is not left out.
        left: Forecasts left at each tick, (ticks, d), in lattice steps; None without a reserve.
        columns: The counter's numbers; None without a reserve.
        departed: How many users have left the series.
    """

    stream: KnownStream
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

    def errors(self, post: PostProcessing) -> tuple[float, float, float]:
        """Return root mean squares over ticks and coordinates: noise, bias, total; no randomness.

        Exact for smoothing alone, which is linear; of a season the answers' noise in its factor is
        left out, which is small where they are large. Bias is what is missing without noise.

        Raises:
            ValueError: There is a cut-off; `corrected` has it.
        """
        if post.non_negative:
            raise ValueError("a cut-off has no errors in closed form")
        variance, missing = np.full(self.active.shape, self.sigma**2), self.active
        if self.left is not None and self.columns is not None:
            a, b = [post.smoothing], [1.0, post.smoothing - 1.0]
            running = np.cumsum(self.left, axis=0) * self.columns.step
            factor = np.array(
                [season(self.active[: t + 1], post.period) for t in range(self.stream.ticks)]
            )
            missing = missing + factor * lfilter(a, b, running, axis=0)
            weights = lfilter(a, b, np.ldexp(decoder(self.stream.ticks), BITS))
            smoothed = self.columns.sigma**2 * np.cumsum(weights**2)
            variance = variance + factor**2 * smoothed[:, None]
        bias = float(np.mean((missing - self.stream.truth) ** 2))
        noise = float(np.mean(variance))
        return noise**0.5, bias**0.5, (noise + bias) ** 0.5

    def corrected(self, seed: int, post: PostProcessing, beta: float = 0.05) -> Floats:
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
class BudgetSplit:
    """One way to split a budget.

    Args:
        norm_budget: B_norm.
        forecast: Share set aside for forecasts; 0: none are made.
        others: Shares set aside for anything else.
        horizon: T of the counter; None: the stream's length.
        part_time: See `sparseq.monitor.part_time`; with a reserve only.
    """

    norm_budget: float
    forecast: float = 0.0
    others: float = 0.0
    form: str = "mean"
    clip: float = 1.0
    horizon: int | None = None
    part_time: bool = False


def simulate(
    streams: Sequence[KnownStream],
    kappa: float,
    setting: BudgetSplit,
    gates: Sequence[Gate] | None = None,
) -> list[Simulation]:
    """Run streams that are asked in turn at every tick, every user with the same budget.

    With a reserve, each stream makes forecasts, from an equal share of it. `gates`, where known,
    are those of a setting that differs in its clip at most.
    """
    budget = Budget(kappa, setting.norm_budget)
    reserve = int(Fraction(setting.forecast) * budget_units(setting.norm_budget))
    share = int(reserve * Fraction(1 / len(streams)))
    if setting.part_time and share:
        return _part_time(streams, budget, setting, reserve, share)
    gates = gates if gates is not None else gates_of(streams, kappa, setting)
    outcomes = zip(streams, gates, strict=True)
    return [_outcome(stream, gate, budget, setting, share) for stream, gate in outcomes]


@dataclass(frozen=True)
class Gate:
    """Who is active in a stream, and what who departs would leave if it could pay for all of it.

    Attributes:
        pairs: By (tick, user): active or not.
        active: Sums over the active, (ticks, d).
        users: How many depart.
        owner, coordinate, rates: Of every cell left: whose of these it is, where, how much.
        ticks: When each departs.
    """

    pairs: Mask
    active: Floats
    users: int
    owner: Ints
    coordinate: Ints
    rates: Floats
    ticks: Ints


def gates_of(streams: Sequence[KnownStream], kappa: float, setting: BudgetSplit) -> list[Gate]:
    """Return who is active in every stream, and the forecasts."""
    budget = Budget(kappa, setting.norm_budget)
    charges = [_charges(s, calibrate(s.query, budget, Options())) for s in streams]
    units = budget_units(setting.norm_budget)
    reserve = int(Fraction(setting.forecast) * units)
    paying = units - reserve - int(Fraction(setting.others) * units)
    found = _gate(streams, charges, paying, leaving=reserve > 0)
    form = Form.of(setting.form)
    return [_gated(s, pairs, form, reserve > 0) for s, pairs in zip(streams, found, strict=True)]


def _part_time(
    streams: Sequence[KnownStream], budget: Budget, setting: BudgetSplit, reserve: int, share: int
) -> list[Simulation]:
    units = budget_units(setting.norm_budget)
    paying = units - reserve - int(Fraction(setting.others) * units)
    rough = [calibrate(s.query, budget, Options()) for s in streams]
    plans = [calibrate(fine(plan), budget, Options()) for plan in rough]
    columns = [
        Columns(budget, setting.horizon or s.ticks, setting.clip * p.noise[0].scale, share)
        for s, p in zip(streams, plans, strict=True)
    ]
    runs = run(streams, plans, columns, Form.of(setting.form), budget, paying)
    return [
        Simulation(s, p, r.active, ~r.pairs, r.left, c, r.departed)
        for s, p, r, c in zip(streams, plans, runs, columns, strict=True)
    ]


def _outcome(
    stream: KnownStream, gate: Gate, budget: Budget, setting: BudgetSplit, reserve: int
) -> Simulation:
    plan = calibrate(stream.query, budget, Options())
    if not reserve:
        return Simulation(stream, plan, gate.active, ~gate.pairs, None, None, 0)
    scale = setting.clip * plan.noise[0].scale
    columns = Columns(budget, setting.horizon or stream.ticks, scale, reserve)
    units, d = np.full(gate.users, columns.units), stream.query.coordinates
    steps = columns.fitted(gate.owner, gate.rates, units, gate.ticks)
    left = np.zeros(stream.ticks * d, np.int64)
    np.add.at(left, gate.ticks[gate.owner] * d + gate.coordinate, steps)
    by_tick: Ints = left.reshape(-1, d)
    return Simulation(stream, plan, gate.active, ~gate.pairs, by_tick, columns, gate.users)


def _charges(stream: KnownStream, plan: Plan) -> Ints:
    """Return the charge of every (tick, user)."""
    if not len(stream.users):
        return np.zeros(0, np.int64)
    steps = np.rint(stream.values / plan.noise[0].granularity)
    squares = np.add.reduceat(steps**2, stream.starts)
    norms = np.where(squares < 2.0**62, squares, 0).astype(np.int64)
    norms[squares >= 2.0**62] = NORM_LIMIT
    return round_up(charges_of(plan.noise[0].price, norms))


def _gate(
    streams: Sequence[KnownStream], charges: Sequence[Ints], units: int, leaving: bool
) -> list[Mask]:
    """Tell who is active by Algorithm 2; `leaving`: whoever is dropped once leaves the stream."""
    owners = [s.users[s.starts] for s in streams]
    ends = [np.searchsorted(s.tick[s.starts], np.arange(s.ticks + 1)).tolist() for s in streams]
    left = np.full(streams[0].people, units, np.int64)
    gone = [np.zeros(streams[0].people, bool) for _ in streams]
    active = [np.zeros(len(c), bool) for c in charges]
    for tick in range(streams[0].ticks):
        for i, end in enumerate(ends):
            at = slice(end[tick], end[tick + 1])
            users, due = owners[i][at], charges[i][at]
            fits = due <= left[users]
            if leaving:
                fits &= ~gone[i][users]
                gone[i][users[~fits]] = True
            left[users] -= due * fits
            active[i][at] = fits
    return active


def _departures(stream: KnownStream, active: Mask) -> Ints:
    """Return the (tick, user) at which each user that departs is first dropped, by user."""
    dropped = np.flatnonzero(~active)
    _, first = np.unique(stream.users[stream.starts][dropped], return_index=True)
    return np.asarray(dropped[first], np.int64)


def _gated(stream: KnownStream, pairs: Mask, form: Form, leaving: bool) -> Gate:
    """Return what comes of who is active."""
    rows = np.repeat(pairs, np.diff(np.append(stream.starts, len(stream.users))))
    active = stream.sums(rows)
    departing = _departures(stream, pairs if leaving else np.ones_like(pairs))
    starts = stream.starts[departing]
    users, ticks = stream.users[starts], stream.tick[starts]
    of_user = np.full(stream.people, -1)
    of_user[users] = np.arange(len(users))
    own = np.flatnonzero(rows & (of_user[stream.users] >= 0))  # all of it comes before the drop
    d = stream.query.coordinates
    keys = of_user[stream.users[own]] * d + stream.coordinate[own]
    cells, cell = np.unique(keys, return_inverse=True)
    owner, coordinate = np.divmod(cells, d)
    first = stream.first_ticks[users][owner]
    rates = form.rates(cell, stream.tick[own], stream.values[own], ticks[owner], first)
    return Gate(pairs, active, len(users), owner, coordinate, rates, ticks)
