"""A simulation of a store on known streams: drops, forecasts and errors, without the store.

It is used for planning on public or historical data. The maths is the store's own: the same charges
(`sparseq.stream.release_charges`), pots, rates, lattice and correction; a test compares drops and
answers with a real store's. `sparseq.series.planning.known_charges` finds the active users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, budget_units
from sparseq.base.defaults import BETA
from sparseq.ledger.accounts import Ints
from sparseq.mechanisms.entropy import for_release
from sparseq.mechanisms.gaussian import rounded_gaussian
from sparseq.mechanisms.toeplitz_counter import BITS, coefficients, decoder
from sparseq.question.plan import Options, Plan, calibrate
from sparseq.series.methods.corrector import Correction, Corrector, PostProcessing, seasons
from sparseq.series.methods.counter_columns import Columns
from sparseq.series.methods.departure_mean import Form
from sparseq.series.planning.known_charges import Charges, KnownPairs
from sparseq.series.planning.known_stream import KnownStream

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Simulation:
    """The result of one stream under one budget.

    Attributes:
        plan: The noise of the answers.
        active: Sums over the active users, (ticks, d).
        out: Indices of the (tick, user) that were left out of the answer.
        left: Forecasts left at each tick, (ticks, d), in lattice steps; None without a reserve.
        columns: The counter's lattice and noise; None without a reserve.
        departed: Number of users that left the series.
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
        """For each (tick, user), True if it was left out."""
        mask = np.zeros(len(self.stream.starts), bool)
        mask[self.out] = True
        return mask

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of the answers."""
        return self.plan.noise[0].sigma

    def errors(self, post: PostProcessing) -> tuple[float, float, float]:
        """Return root mean squares over ticks and coordinates: noise, bias, total; no randomness.

        They are exact for smoothing alone, which is linear; with a season, the answers' noise in
        its factor is neglected, which is small if the answers are large. Bias is the missing part
        without noise.

        Raises:
            ValueError: There is a cut-off; use `corrected`.
        """
        forecast, variance = self.forecast(post)
        bias = float(np.mean((self.active + forecast - self.stream.truth) ** 2))
        noise = float(np.mean(variance))
        return noise**0.5, bias**0.5, (noise + bias) ** 0.5

    def forecast(self, post: PostProcessing) -> tuple[Floats, Floats]:
        """Return what forecasts add without noise, and the variance at each tick, (ticks, d) each.

        Raises:
            ValueError: There is a cut-off; use `corrected`.
        """
        from scipy.signal import lfilter  # it takes half a second, also in servers without plans

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
        """Return the series that a store with this seed would give, (ticks, d), bit by bit.

        The store must have no other releases than this series: two a tick with a reserve, else one.
        """
        return np.array([one.values for one in self.corrections(seed, post, beta)])

    def corrections(self, seed: int, post: PostProcessing, beta: float = BETA) -> list[Correction]:
        """Return the same series with its errors, one correction per tick."""
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
    """Return the variance of S at every tick over that of a row: (ticks,)."""
    from scipy.signal import lfilter

    weights = lfilter([smoothing], [1.0, smoothing - 1.0], np.ldexp(decoder(ticks), BITS))
    return np.asarray(np.cumsum(weights**2))


@dataclass(frozen=True)
class BudgetSplit:
    """One way to split a budget.

    Args:
        norm_budget: B_norm.
        forecast: Share that is set aside for forecasts; 0: no forecasts.
        horizon: T of the counter; None: the stream's length.
    """

    norm_budget: float
    forecast: float = 0.0
    form: str = "mean"
    cap: float = 1.0
    horizon: int | None = None

    @property
    def paying(self) -> float:
        """The part of every user's budget for answers."""
        return self.norm_budget * (1 - self.forecast)


@dataclass(frozen=True)
class Gate:
    """The active people of a stream, and the forecasts that departing users would leave.

    Attributes:
        out: Indices of the (tick, user) that are not active.
        active: Sums over the active users, (ticks, d).
        users: Number of users who depart.
        owner, coordinate, rates: One entry per forecast cell: index of its user, coordinate, value.
        ticks: Tick of each departure.
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
        """Merge users who leave the same forecast at the same tick; also return their counts.

        It merges only if there is one coordinate.
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
    """Simulate streams with one question each at every tick, every user with the same budget.

    With a reserve, each stream makes forecasts, from an equal share of it.
    """
    return Simulator(streams, kappa).run(setting)


class Simulator:
    """Simulates the same streams under one setting after another.

    Args:
        streams: Streams over the same people and the same number of ticks.
        kappa: zCDP level.
    """

    def __init__(self, streams: Sequence[KnownStream], kappa: float) -> None:
        self._streams, self._kappa = streams, kappa
        self._pairs = KnownPairs(streams)
        self._last: tuple[object, list[Gate]] = (None, [])

    def run(self, setting: BudgetSplit, gates: Sequence[Gate] | None = None) -> list[Simulation]:
        """Simulate a setting; `gates` may be those of a setting that differs in its cap only."""
        reserve, _ = self._units(setting)
        share = int(reserve * Fraction(1 / len(self._streams)))
        gates = gates if gates is not None else self.gates(setting)
        outcomes = zip(self._streams, gates, strict=True)
        return [
            _outcome(stream, gate, self._budget(setting), setting, share)
            for stream, gate in outcomes
        ]

    def gates(self, setting: BudgetSplit) -> list[Gate]:
        """Return the active users of every stream, and the forecasts."""
        budget = self._budget(setting)
        plans = [calibrate(s.query, budget, Options()) for s in self._streams]
        reserve, units = self._units(setting)
        charges = self._pairs.charges(plans)
        if alike := len(charges.table) == 1:  # only the number of payable charges matters
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
        """Return every user's budget for forecasts, and for answers."""
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
    """Return the gate of a stream, given the pairs that are left out.

    Args:
        stream: Stream of all the pairs.
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
