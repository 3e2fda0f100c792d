"""A simulation of a strategy on a known stream: for planning, and for benchmarks.

Who is taken in, and what is charged, is the store's own (`sparseq.series.methods.band`); a test
compares measurements with a real store's. Noise is known exactly; what is left out is counted in
full.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Budget, Price, budget_units, round_up
from sparseq.accounting.strategies import BITS as STRATEGY_BITS
from sparseq.accounting.strategies import Strategy, decoded
from sparseq.engine.contributions import Cells
from sparseq.ledger.accounts import Ints
from sparseq.mechanisms.entropy import for_release
from sparseq.mechanisms.gaussian import rounded_gaussian
from sparseq.series.methods.band import Band
from sparseq.series.planning.known_stream import KnownStream
from sparseq.sql.plan import Options, calibrate

Floats = NDArray[np.float64]


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
        """What is not taken in, (ticks, d)."""
        taken = decoded(self.measured * (self.step / 2**STRATEGY_BITS), self.strategy)
        return np.asarray(self.stream.truth - taken)

    def errors(self, width: int) -> tuple[float, float, float]:
        """Return root mean squares of sums over `width` ticks: noise, bias, total; no randomness.

        Over ticks and coordinates; at the first ticks, of the sums over as many as there are.
        """
        ticks = self.stream.ticks
        noise = self.sigma**2 * float(self.strategy.variance(width, ticks).mean())
        bias = float(np.mean(summed(self.missing, width) ** 2))
        return noise**0.5, bias**0.5, (noise + bias) ** 0.5

    def series(self, seed: int) -> Floats:
        """Return what a store of this seed gives, (ticks, d), if it has no other releases."""
        step = self.step / 2**STRATEGY_BITS
        d = self.measured.shape[1]
        drawn = [
            rounded_gaussian(self.sigma / step, d, for_release(seed, t + 1))
            for t in range(self.stream.ticks)
        ]
        return decoded((self.measured + np.array(drawn)) * step, self.strategy)


def summed(values: Floats, width: int) -> Floats:
    """Return sums over the last `width` ticks, or as many as there are, (ticks, d)."""
    total = np.cumsum(values, axis=0)
    total[width:] -= total[:-width].copy()
    return total


def measured(stream: KnownStream, setting: StrategySetting) -> MeasuredStream:
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
            stream.users[rows].astype(np.int32), stream.coordinate[rows].astype(np.int32),
            steps[rows],
        )  # fmt: skip
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
