"""A simulation of a strategy on a known stream: for planning, and for benchmarks.

Participation and charges are the store's own (`sparseq.series.methods.band`); a test compares
measurements with a real store's. The noise is known exactly; contributions left out are counted in
full.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Budget, Price, budget_units, round_up
from sparseq.accounting.strategies import BITS as STRATEGY_BITS
from sparseq.accounting.strategies import Strategy, decode
from sparseq.engine.cells import Cells
from sparseq.ledger.accounts import Ints
from sparseq.mechanisms.entropy import for_release
from sparseq.mechanisms.gaussian import rounded_gaussian
from sparseq.question.plan import Options, calibrate
from sparseq.series.methods.band import Band
from sparseq.series.planning.known_stream import KnownStream

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StrategySetting:
    """A strategy and a budget for one stream.

    Attributes:
        strategy: Text of the strategy.
        norm_budget: B_norm, which the series has alone.
        kappa: zCDP level.
    """

    strategy: str
    norm_budget: float
    kappa: float


@dataclass(frozen=True)
class MeasuredStream:
    """The measurement of a stream under a setting.

    Attributes:
        stream: The true contributions.
        setting: See `StrategySetting`.
        sigma: Standard deviation of a measurement's noise.
        step: Lattice step of the admitted contributions.
        measured: Sums without noise, (ticks, d), in 2^-16 lattice steps.
        left_out: Share of all contributions that are in no measurement.
        charged: Charge of each user, in squared norm.
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
        """The strategy with its taps."""
        return Strategy.of(self.setting.strategy)

    @cached_property
    def missing(self) -> Floats:
        """The sums that are not admitted, (ticks, d)."""
        taken = decode(self.measured * (self.step / 2**STRATEGY_BITS), self.strategy)
        return np.asarray(self.stream.truth - taken)

    def errors(self, width: int) -> tuple[float, float, float]:
        """Return root mean squares of sums over `width` ticks: noise, bias, total; no randomness.

        They are over ticks and coordinates; at the first ticks the sums have fewer ticks.
        """
        ticks = self.stream.ticks
        noise = self.sigma**2 * float(self.strategy.variance(width, ticks).mean())
        bias = float(np.mean(window_sums(self.missing, width) ** 2))
        return noise**0.5, bias**0.5, (noise + bias) ** 0.5

    def series(self, seed: int) -> Floats:
        """Return the series of a store with this seed, (ticks, d), if it has no other releases."""
        step = self.step / 2**STRATEGY_BITS
        d = self.measured.shape[1]
        drawn = [
            rounded_gaussian(self.sigma / step, d, for_release(seed, t + 1))
            for t in range(self.stream.ticks)
        ]
        return decode((self.measured + np.array(drawn)) * step, self.strategy)


def window_sums(values: Floats, width: int) -> Floats:
    """Return sums over the last `width` ticks, or over all ticks so far, (ticks, d)."""
    total = np.cumsum(values, axis=0)
    total[width:] -= total[:-width].copy()
    return total


def simulate_setting(stream: KnownStream, setting: StrategySetting) -> MeasuredStream:
    """Simulate a stream under a setting; for counts, whose lattice step is 1."""
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
