"""A simulation of a store on known streams: drops, forecasts and errors, without the store.

For planning on public or historical data. The maths is the store's own: the same charges
(`sparseq.stream.release_charges`), pots, rates, lattice and correction; a test compares drops and
answers with a real store's. Who is active is in `sparseq.series.planning.known_stream`.

A simulation of a strategy on a known stream: for planning, and for benchmarks.

Who is taken in, and what is charged, is the store's own (`sparseq.series.methods.band`); a test
compares measurements with a real store's. Noise is known exactly; what is left out is counted in
full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Budget, Price, budget_units, round_up
from sparseq.accounting.strategies import BITS as STRATEGY_BITS
from sparseq.accounting.strategies import Strategy, decode
from sparseq.base.defaults import BETA
from sparseq.engine.contributions import Cells
from sparseq.ledger.accounts import Ints
from sparseq.mechanisms.entropy import for_release
from sparseq.mechanisms.gaussian import rounded_gaussian
from sparseq.mechanisms.toeplitz_counter import BITS, coefficients, decoder
from sparseq.series.methods.band import Band
from sparseq.series.methods.corrector import (
    Columns,
    Correction,
    Corrector,
    Form,
    PostProcessing,
    seasons,
)
from sparseq.series.planning.known_stream import Charges, KnownPairs, KnownStream
from sparseq.sql.plan import Options, Plan, calibrate

# -- a simulation of a store on known streams: drops, forecasts and errors, without the store ------

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Simulation:
    """A stream under one budget.

    Attributes:
        plan: The noise of the answers.
        active: Sums over the active, (ticks, d).
        out: The (tick, user) that were left out of the answer, by their numbers.
        left: Forecasts left at each tick, (ticks, d), in lattice steps; None without a reserve.
        columns: The counter's numbers; None without a reserve.
        departed: How many users have left the series.
    """

    stream: KnownStream
    plan: Plan
    active: Floats
    out: Ints
    left: Ints | None
    columns: Columns | None
    departed: int

    @property
    def dropped(self) -> Mask:
        """By (tick, user): whether it was left out."""
        mask = np.zeros(len(self.stream.starts), bool)
        mask[self.out] = True
        return mask

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
        forecast, variance = self.forecast(post)
        bias = float(np.mean((self.active + forecast - self.stream.truth) ** 2))
        noise = float(np.mean(variance))
        return noise**0.5, bias**0.5, (noise + bias) ** 0.5

    def forecast(self, post: PostProcessing) -> tuple[Floats, Floats]:
        """Return what forecasts add without noise, and the variance of a tick, (ticks, d) each.

        Raises:
            ValueError: There is a cut-off; `corrected` has it.
        """
        from scipy.signal import lfilter  # it takes half a second, of servers that plan nothing

        if post.non_negative:
            raise ValueError("a cut-off has no errors in closed form")
        variance = np.full(self.active.shape, self.sigma**2)
        if self.left is None or self.columns is None:
            return np.zeros_like(self.active), variance
        a, b = [post.smoothing], [1.0, post.smoothing - 1.0]
        running = np.cumsum(self.left, axis=0) * self.columns.step
        factor = seasons(self.active, post.period)
        smoothed = self.columns.sigma**2 * _gather(self.stream.ticks, post.smoothing)
        added = np.asarray(factor * lfilter(a, b, running, axis=0), np.float64)
        return added, variance + factor**2 * smoothed[:, None]

    def corrected(self, seed: int, post: PostProcessing, beta: float = BETA) -> Floats:
        """Return the series that a store of this seed would give, (ticks, d), bit by bit.

        If its releases are those of this series alone: two a tick with a reserve, else one.
        """
        return np.array([one.values for one in self.corrections(seed, post, beta)])

    def corrections(self, seed: int, post: PostProcessing, beta: float = BETA) -> list[Correction]:
        """Return the same with its errors, a tick after the other."""
        noise, d = self.plan.noise[0], self.stream.query.coordinates
        corrector = Corrector(d, post)
        if self.columns is not None:
            corrector.begin(self.columns.sigma, self.columns.row_step)
        found: list[Correction] = []
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
            found.append(corrector.correct(answer, noise.sigma, noise.granularity, beta))
        return found

    def _rows(self) -> Ints | None:
        """The counter's exact rows."""
        if self.left is None:
            return None
        a = coefficients(self.stream.ticks)
        return np.array([a[t::-1] @ self.left[: t + 1] for t in range(self.stream.ticks)])


@lru_cache(maxsize=8)
def _gather(ticks: int, smoothing: float) -> Floats:
    """Return the variance of S at every tick, to that of a row: (ticks,)."""
    from scipy.signal import lfilter

    weights = lfilter([smoothing], [1.0, smoothing - 1.0], np.ldexp(decoder(ticks), BITS))
    return np.asarray(np.cumsum(weights**2))


@dataclass(frozen=True)
class BudgetSplit:
    """One way to split a budget.

    Args:
        norm_budget: B_norm.
        forecast: Share set aside for forecasts; 0: none are made.
        horizon: T of the counter; None: the stream's length.
    """

    norm_budget: float
    forecast: float = 0.0
    form: str = "mean"
    cap: float = 1.0
    horizon: int | None = None

    @property
    def paying(self) -> float:
        """The part of everybody's budget for answers."""
        return self.norm_budget * (1 - self.forecast)


@dataclass(frozen=True)
class Gate:
    """The people active in a stream, and what those who depart would leave if they could pay.

    Attributes:
        out: The (tick, user) that are not, by their numbers.
        active: Sums over the active, (ticks, d).
        users: How many depart.
        owner, coordinate, rates: Of every cell left: whose of these it is, where, how much.
        ticks: When each departs.
    """

    out: Ints
    active: Floats
    users: int
    owner: Ints
    coordinate: Ints
    rates: Floats
    ticks: Ints

    @cached_property
    def alike(self) -> tuple[Gate, Ints]:
        """The same where users who leave the same thing at the same tick are one, and how many.

        Only for one coordinate; otherwise nobody is taken together.
        """
        if self.coordinate.any():
            return self, np.ones(self.users, np.int64)
        order = np.lexsort((self.rates, self.ticks[self.owner]))
        ticks, rates = self.ticks[self.owner][order], self.rates[order]
        first = np.flatnonzero((np.diff(ticks, prepend=-1) != 0) | (np.diff(rates, prepend=0) != 0))
        times, owner = np.diff(first, append=len(order)), np.arange(len(first))
        one = replace(
            self,
            users=len(first),
            owner=owner,
            coordinate=np.zeros_like(owner),
            rates=rates[first],
            ticks=ticks[first],
        )
        return one, times


def simulate(
    streams: Sequence[KnownStream], kappa: float, setting: BudgetSplit
) -> list[Simulation]:
    """Run streams that are asked in turn at every tick, every user with the same budget.

    With a reserve, each stream makes forecasts, from an equal share of it.
    """
    return Simulator(streams, kappa).run(setting)


class Simulator:
    """Runs the same streams under one setting after the other.

    Args:
        streams: Over the same people and equally many ticks.
        kappa: zCDP level.
    """

    def __init__(self, streams: Sequence[KnownStream], kappa: float) -> None:
        self._streams, self._kappa = streams, kappa
        self._pairs = KnownPairs(streams)
        self._last: tuple[object, list[Gate]] = (None, [])

    def run(self, setting: BudgetSplit, gates: Sequence[Gate] | None = None) -> list[Simulation]:
        """Run a setting; `gates`, where known, are those of one that differs in its cap at most."""
        reserve, _ = self._units(setting)
        share = int(reserve * Fraction(1 / len(self._streams)))
        gates = gates if gates is not None else self.gates(setting)
        outcomes = zip(self._streams, gates, strict=True)
        return [
            _outcome(stream, gate, self._budget(setting), setting, share)
            for stream, gate in outcomes
        ]

    def gates(self, setting: BudgetSplit) -> list[Gate]:
        """Return who is active in every stream, and the forecasts."""
        budget = self._budget(setting)
        plans = [calibrate(s.query, budget, Options()) for s in self._streams]
        reserve, units = self._units(setting)
        charges = self._pairs.charges(plans)
        if alike := len(charges.table) == 1:  # all that counts is how often it can be paid
            units //= max(int(charges.table[0]), 1)
            charges = replace(charges, table=np.ones(1, np.int64))
        leaving = reserve > 0 or (alike and len(self._streams) == 1)
        known = (units, charges.table.tobytes(), leaving, setting.form)
        if known != self._last[0]:
            self._last = (known, self._gated(charges, units, leaving, Form.of(setting.form)))
        return self._last[1]

    def _gated(self, charges: Charges, units: int, leaving: bool, form: Form) -> list[Gate]:
        pairs = self._pairs
        out = pairs.left_out(charges, units, leaving)
        departing = pairs.departing(out) if leaving else out[:0]
        return [
            _gate(
                s,
                pairs.in_stream(i, out),
                pairs.in_stream(i, departing),
                pairs.in_stream(i, pairs.before(i, departing)),
                form,
            )
            for i, s in enumerate(self._streams)
        ]

    def _budget(self, setting: BudgetSplit) -> Budget:
        return Budget(self._kappa, setting.norm_budget)

    @staticmethod
    def _units(setting: BudgetSplit) -> tuple[int, int]:
        """Return what everybody has for forecasts, and for answers."""
        units = budget_units(setting.norm_budget)
        reserve = int(Fraction(setting.forecast) * units)
        return reserve, units - reserve


def _outcome(
    stream: KnownStream, gate: Gate, budget: Budget, setting: BudgetSplit, reserve: int
) -> Simulation:
    plan = calibrate(stream.query, budget, Options())
    if not reserve:
        return Simulation(stream, plan, gate.active, gate.out, None, None, 0)
    scale = setting.cap * plan.noise[0].scale
    columns = Columns(budget, setting.horizon or stream.ticks, scale, reserve)
    one, times = gate.alike
    units, d = np.full(one.users, columns.units), stream.query.coordinates
    steps = columns.fitted(one.owner, one.rates, units, one.ticks) * times[one.owner]
    left = np.zeros(stream.ticks * d, np.int64)
    np.add.at(left, one.ticks[one.owner] * d + one.coordinate, steps)
    by_tick: Ints = left.reshape(-1, d)
    return Simulation(stream, plan, gate.active, gate.out, by_tick, columns, gate.users)


def _gate(stream: KnownStream, out: Ints, departing: Ints, before: Ints, form: Form) -> Gate:
    """Return what comes of who is left out.

    Args:
        stream: Whose pairs all are.
        out: Pairs that are left out.
        departing: The first of these of each user, by user, if it leaves the stream.
        before: All pairs before these, by user and tick.
    """
    active = stream.truth - stream.sums(stream.rows_of(out), stream.values)
    starts = stream.starts[departing]
    users, ticks = stream.users[starts], stream.tick[starts]
    own, d = stream.rows_of(before), stream.query.coordinates
    keys = np.searchsorted(users, stream.users[own]) * d + stream.coordinate[own]
    cells, cell = np.unique(keys, return_inverse=True)
    owner, coordinate = np.divmod(cells, d)
    first = stream.first_ticks[users][owner]
    rates = form.rates(cell, stream.tick[own], stream.values[own], ticks[owner], first)
    return Gate(out, active, len(users), owner, coordinate, rates, ticks)


# -- a simulation of a strategy on a known stream: for planning, and for benchmarks ----------------


@dataclass(frozen=True)
class StrategySetting:
    """A strategy and a budget, of one stream.

    Attributes:
        strategy: Its text.
        norm_budget: B_norm, all of which is the series'.
        kappa: zCDP level.
    """

    strategy: str
    norm_budget: float
    kappa: float


@dataclass(frozen=True)
class MeasuredStream:
    """A stream under a setting.

    Attributes:
        stream: What is true.
        setting: See `StrategySetting`.
        sigma: Of a measurement.
        step: Lattice step of what is taken in.
        measured: Sums without noise, (ticks, d), in 2^-16 lattice steps.
        left_out: Share of all contributions that are in no measurement.
        charged: What everybody has paid, in squared norm.
    """

    stream: KnownStream
    setting: StrategySetting
    sigma: float
    step: float
    measured: Ints
    left_out: float
    charged: Floats

    @cached_property
    def strategy(self) -> Strategy:
        """Its taps."""
        return Strategy.of(self.setting.strategy)

    @cached_property
    def missing(self) -> Floats:
        """The sums that are not taken in, (ticks, d)."""
        taken = decode(self.measured * (self.step / 2**STRATEGY_BITS), self.strategy)
        return np.asarray(self.stream.truth - taken)

    def errors(self, width: int) -> tuple[float, float, float]:
        """Return root mean squares of sums over `width` ticks: noise, bias, total; no randomness.

        Over ticks and coordinates; at the first ticks, of the sums over as many as there are.
        """
        ticks = self.stream.ticks
        noise = self.sigma**2 * float(self.strategy.variance(width, ticks).mean())
        bias = float(np.mean(window_sums(self.missing, width) ** 2))
        return noise**0.5, bias**0.5, (noise + bias) ** 0.5

    def series(self, seed: int) -> Floats:
        """Return what a store of this seed gives, (ticks, d), if it has no other releases."""
        step = self.step / 2**STRATEGY_BITS
        d = self.measured.shape[1]
        drawn = [
            rounded_gaussian(self.sigma / step, d, for_release(seed, t + 1))
            for t in range(self.stream.ticks)
        ]
        return decode((self.measured + np.array(drawn)) * step, self.strategy)


def window_sums(values: Floats, width: int) -> Floats:
    """Return sums over the last `width` ticks, or as many as there are, (ticks, d)."""
    total = np.cumsum(values, axis=0)
    total[width:] -= total[:-width].copy()
    return total


def simulate_setting(stream: KnownStream, setting: StrategySetting) -> MeasuredStream:
    """Run a stream under a setting; for counts, whose lattice step is 1."""
    budget, strategy = Budget(setting.kappa, setting.norm_budget), Strategy.of(setting.strategy)
    sigma, step = calibrate(stream.query, budget, Options()).noise[0].sigma, 1.0
    price = Price.of(sigma, step / 2**STRATEGY_BITS, budget)
    d, units = stream.query.coordinates, budget_units(setting.norm_budget)
    band, spent = Band(strategy, price, d), np.zeros(stream.people, np.int64)
    sums = np.zeros((stream.ticks, d), np.int64)
    at = np.searchsorted(stream.tick, np.arange(stream.ticks + 1))
    steps, _ = stream.steps(step)
    left_out = 0
    for t in range(stream.ticks):
        rows = slice(at[t], at[t + 1])
        cells = Cells(
            stream.users[rows].astype(np.int32),
            stream.coordinate[rows].astype(np.int32),
            steps[rows],
        )
        done = band.tick(cells, lambda users: units - spent[users])
        left_out += len(cells.users) - len(done.cells.users)
        found = done.measured
        np.add.at(sums[t], found.coordinates, found.values)
        owners, first = np.unique(found.users, return_index=True)
        if len(owners):
            squares = np.add.reduceat(found.values**2, first)
            spent[owners] += round_up(price.charge(squares))
    share = left_out / max(len(stream.users), 1)
    return MeasuredStream(stream, setting, sigma, step, sums, share, spent / UNITS_PER_NORM)
