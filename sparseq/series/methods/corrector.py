"""From released numbers to a series about everybody: post-processing, and so free.

    corrected_t = active_t + g_t S_t,    S_t = (1 - a) S_(t-1) + a R_t

R is the running sum of forecasts, decoded from the counter's rows; S is its smoothed value; g is a
seasonal factor (1 unless a period is given). There are two errors, which are kept apart:

**Noise error**, a bound: how far corrected_t is from (sum over the active) + g_t (S without noise).
Without factor and cut-off the difference is one Gaussian, of variance sigma² + sigma_row² ||w||²,
where w are the weights of the rows in S, and at most half a lattice step for each rounding, with
the weights of the noise. With a factor or a cut-off the bounds of both parts are added, each at
half of beta: a released factor is a number, and a cut-off at 0 moves no non-negative sum further
away.

**Forecast error**, an estimate and no bound: how far g_t S_t may be from what the departed users
would contribute. It is S_t times the relative spread of the corrected series over the last ticks,
less the noise in it. It assumes that departed users vary like the rest; nothing released says more.

**Error**, about everybody: the noise error plus the larger of two forecast errors and half of the
forecast. It assumes that departed people contribute within half of the forecast they left, or
vary like the rest (measured: `python -m benchmarks series`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import simultaneous_bound
from sparseq.accounting._numbers import count, in_range
from sparseq.mechanisms.toeplitz_counter import BITS, decoder

Floats = NDArray[np.float64]

WINDOW = 28
_FEW = 8
_SEASONS = 4
_MOST_FACTOR = 3.0
_DEVIATIONS = 2.0  # standard deviations of the forecast's error


@dataclass(frozen=True)
class PostProcessing:
    """Settings of the post-processing of the running sum.

    Args:
        smoothing: a, in (0, 1]; 1 smooths nothing. It averages noise away, and lags by 1/a ticks.
        non_negative: Cut S off at 0, for series that can't be negative.
        period: Ticks in a season: 7 for weekdays. g is then the mean of the answers at the same
            place in the last four seasons over the mean of all their ticks. 0: g is 1.
        off: Relative error of forecasts, as the planner measured it (`forecast_off`).

    Raises:
        ParameterError: A number is out of its range.
    """

    smoothing: float = 0.15
    non_negative: bool = False
    period: int = 0
    off: float = 0.5

    def __post_init__(self) -> None:
        in_range("smoothing", self.smoothing, 0.0, 1.0, open_low=True)
        count("period", self.period, 0, 1000)


@dataclass(frozen=True)
class Correction:
    """A corrected answer, (d,): values, the bound on their noise, and the estimated other error.

    `forecast_error` is NaN if too few ticks have been released to estimate it.
    """

    values: Floats
    forecast: Floats
    noise_error: float
    forecast_error: Floats
    off: float = 0.5

    @property
    def error(self) -> Floats:
        """Largest distance of the values from the sums over all users: see the module, (d,)."""
        spread = _DEVIATIONS * np.nan_to_num(self.forecast_error)
        return self.noise_error + np.maximum(spread, self.off * np.abs(self.forecast))


class Corrector:
    """Corrects a series from its releases, tick by tick.

    Args:
        coordinates: d.
        post: Settings of the post-processing.

    Example:
        >>> corrector = Corrector(1, PostProcessing(smoothing=1.0))
        >>> corrector.begin(row_sigma=0.0, row_step=0.0)
        >>> corrector.row(np.array([2.0]))
        >>> corrector.correct(np.array([10.0]), sigma=1.0, step=1.0, beta=0.05).values.tolist()
        [12.0]
    """

    def __init__(self, coordinates: int, post: PostProcessing) -> None:
        self._post = post
        self._rows: list[Floats] = []
        self._noise = (0.0, 0.0)  # sigma and lattice step of a row
        self._weights = np.zeros(0)  # weights of this counter's rows in S
        self._older = (0.0, 0.0)  # variance and roundings in S from earlier counters
        self._smooth = np.zeros(coordinates)
        self._answers: list[Floats] = []
        self._series: list[tuple[Floats, float]] = []  # corrected values, and their variance

    def begin(self, row_sigma: float, row_step: float) -> None:
        """Begin a counter: its rows have this noise, and contain all forecasts again."""
        self._older = (self.variance, self._roundings)
        self._noise = (row_sigma, row_step)
        self._rows, self._weights = [], np.zeros(0)

    def row(self, row: Floats) -> None:
        """Add the counter's next row, (d,), in the query's unit."""
        self._rows.append(row)
        back = np.ldexp(decoder(len(self._rows))[::-1], BITS)
        running = back @ np.array(self._rows)
        a = self._post.smoothing
        self._smooth = (1 - a) * self._smooth + a * running
        self._weights = (1 - a) * np.append(self._weights, 0.0) + a * back
        self._older = (self._older[0] * (1 - a) ** 2, self._older[1] * (1 - a))

    @property
    def variance(self) -> float:
        """Variance of the noise in S."""
        return self._older[0] + self._noise[0] ** 2 * float(self._weights @ self._weights)

    @property
    def _roundings(self) -> float:
        return self._older[1] + self._noise[1] * float(np.abs(self._weights).sum())

    def correct(self, active: Floats, sigma: float, step: float, beta: float) -> Correction:
        """Correct a tick's answer, (d,), whose noise is `sigma` on a lattice of `step`."""
        self._answers.append(active)
        d = len(active)
        period = self._post.period
        factor = season(np.array(self._answers[-max(_SEASONS * period, 1) :]), period)
        forecast = factor * (np.maximum(self._smooth, 0) if self._clipped else self._smooth)
        values = active + forecast
        deviation = math.sqrt(self.variance)
        if self._post.period or self._clipped:
            own = simultaneous_bound(sigma, d, beta / 2, lattice_step=step)
            far = _bound(deviation, d, beta / 2, self._roundings)
            noise_error = own + float(factor.max()) * far
        else:
            both = math.hypot(sigma, deviation)
            noise_error = _bound(both, d, beta, step + self._roundings)
        self._series.append((values, sigma**2 + float(factor.max()) ** 2 * deviation**2))
        spread = np.abs(forecast) * self._spread()
        return Correction(values, forecast, noise_error, spread, self._post.off)

    @property
    def _clipped(self) -> bool:
        return self._post.non_negative

    def _spread(self) -> Floats:
        """Relative standard deviation of the corrected series, less its noise's."""
        if len(self._series) < _FEW:
            return np.full(len(self._smooth), np.nan)
        values, noise = zip(*self._series[-WINDOW:], strict=True)
        mean, variance = np.mean(values, axis=0), np.var(values, axis=0, ddof=1)
        beyond = np.sqrt(np.maximum(variance - np.mean(noise), 0.0))
        return np.where(mean > 0, beyond / np.where(mean > 0, mean, 1.0), np.nan)


def season(answers: Floats, period: int) -> Floats:
    """Return g of the last tick, (d,), from the answers up to it; only the last seasons count."""
    if not period or len(answers) < 2 * period:
        return np.ones(answers.shape[1])
    seasons = min(_SEASONS, len(answers) // period)
    last = answers[-seasons * period :]
    level, now = last.mean(axis=0), last[period - 1 :: period].mean(axis=0)
    factor: Floats = np.clip(now / np.maximum(level, 1e-300), 0.0, _MOST_FACTOR)
    return factor


def seasons(answers: Floats, period: int) -> Floats:
    """Return g at every tick, (ticks, d): `season` of the answers up to each."""
    found = np.ones(answers.shape)
    for many in range(2, _SEASONS + 1) if period else ():
        at = np.arange(many * period - 1, len(answers))
        total = np.cumsum(answers, axis=0)
        before = np.concatenate([np.zeros((1, answers.shape[1])), total])[at - many * period + 1]
        level = (total[at] - before) / (many * period)
        now = np.mean([answers[at - k * period] for k in range(many)], axis=0)
        found[at] = np.clip(now / np.maximum(level, 1e-300), 0.0, _MOST_FACTOR)
    return found


def _bound(sigma: float, d: int, beta: float, step: float) -> float:
    return simultaneous_bound(sigma, d, beta, lattice_step=step) if sigma > 0 else step / 2
