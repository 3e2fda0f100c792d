"""SmoothSeries values of a released series: a local level with an irregular part and a season.

The model (Harvey, *Forecasting, Structural Time Series Models and the Kalman Filter*, 1989) of the
true value x_t and of the released value y_t is

    x_t = level_t + season_t + irregular_t    level steps ~ N(0, q), irregular_t ~ N(0, v)
    y_t = x_t + noise_t                       noise_t ~ N(0, sigma_t²), which is known

Given q and v, the level has the posterior of the Kalman smoother, with mean m and variance V. Given
the level, the irregular part of a measured tick has the mean k (y - m), with k = v / (v + sigma²),
and the variance v sigma² / (v + sigma²). So x_t has the mean m + k (y - m) and the variance
(1 - k)² V + v sigma² / (v + sigma²). Both are averaged over a grid of (q, v), weighted by
likelihood; the variance of the means is added.

The irregular part keeps the interval true: without it, an estimate follows the level, and its
interval leaves out that days differ. The interval holds on average over ticks; a day that differs
from all others by its nature, such as a holiday, is drawn towards them. All of it is
post-processing of released numbers, and free.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sparseq.base.defaults import CONFIDENCE
from sparseq.series.derive import quantile

Floats = NDArray[np.float64]
LEAST = 24
"""The least number of measured ticks that are smoothed."""
_STEPS = np.array([0, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 100, 1e3, 1e4], np.float64)
"""The grid of q, in units of the noise's variance."""
_IRREGULAR = np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2], np.float64)
"""The grid of v, in the same units. A v below a tenth of the noise can't be told from 0, and makes
intervals too narrow: with smaller ones on the grid, single series had 0.65 to 0.8 inside."""
_SEASONS = {dt.timedelta(hours=1): 24, dt.timedelta(days=1): 7, dt.timedelta(days=7): 52}
_CAUTION = 1.1
"""Factor of the half-widths, as no model is exact (`tests/series/test_smoothed_series.py`)."""
_CORRELATED = 3.0
"""A residual's correlation with an earlier one, in standard deviations, beyond which nothing is
smoothed."""
_SPIKE = 5.0
"""Standard deviations of one residual beyond which nothing is smoothed."""
_LEAST_GAIN = 0.95
"""Nothing is smoothed if the mean half-width is not below this share of the measured one."""


@dataclass(frozen=True)
class SmoothSeries:
    """A smoothed series.

    Attributes:
        values: The estimate at each tick.
        error: Its half-width, for each tick by itself.
        refusal: The reason that the series is not smoothed; "" if it is.
    """

    values: Floats
    error: Floats
    refusal: str = ""

    @classmethod
    def refused(cls, values: Floats, why: str) -> SmoothSeries:
        """Return no estimates, with the reason."""
        return cls(np.full(len(values), np.nan), np.full(len(values), np.nan), why)


def smooth(
    values: Floats,
    sigma: Floats,
    season: int = 0,
    confidence: float = CONFIDENCE,
    lacking: Floats | float = 0.0,
) -> SmoothSeries:
    """Smooth a series of values with independent noise.

    Args:
        values: By tick; NaN for a tick that was not measured.
        sigma: The standard deviation of each value's noise.
        season: The number of ticks after which a pattern may repeat; 0: there is none.
        confidence: Probability that a value lies within its half-width.
        lacking: The most that may be missing from each value.

    Example:
        >>> days = 100 + np.random.default_rng(1).normal(0, 30, 60)
        >>> made = smooth(days, np.full(60, 30.0))
        >>> float(np.abs(made.values - 100).max()) < 20, float(made.error.max()) < 40
        (True, True)
        >>> smooth(days[:10], np.full(10, 30.0)).refusal
        'fewer than 24 ticks were measured'
    """
    known = np.isfinite(values)
    if known.sum() < LEAST:
        return SmoothSeries.refused(values, f"fewer than {LEAST} ticks were measured")
    pattern, uncertain = season_of(values, season)
    rest = values - pattern
    means, variances, levels, weights = _posterior(rest, np.asarray(sigma, np.float64))
    estimate = means @ weights
    variance = variances @ weights + (means - estimate[:, None]) ** 2 @ weights + uncertain
    residuals = (rest - levels @ weights)[known]
    refusal = _refusal(residuals / residuals.std(), season)
    if not refusal and np.sqrt(variance[known]).mean() > _LEAST_GAIN * sigma[known].mean():
        refusal = "its values differ by more than noise, so smoothing would gain nothing"
    if refusal:
        return SmoothSeries.refused(values, refusal)
    half = _CAUTION * quantile(confidence) * np.sqrt(variance)
    return SmoothSeries(estimate + pattern, half + np.max(lacking))


def season_length(ticks: Sequence[dt.date]) -> int:
    """Return the ticks of a season: a day's hours, a week's days, a year's weeks or months; or 0.

    >>> season_length([dt.date(2024, 1, 1), dt.date(2024, 1, 8), dt.date(2024, 1, 15)])
    52
    """
    steps = [second - first for first, second in pairwise(ticks)]
    if not steps:
        return 0
    shortest, longest = min(steps), max(steps)
    if dt.timedelta(days=28) <= shortest and longest <= dt.timedelta(days=31):
        return 12
    return _SEASONS.get(shortest, 0) if shortest == longest else 0


def season_of(values: Floats, season: int) -> tuple[Floats, float]:
    """Return the pattern of a season, and the variance of its estimate.

    The means by place, less those of a moving mean, are drawn towards 0 as James and Stein do.
    There is no pattern (zeros) if there are fewer than three seasons, or the means vary no more
    than by chance: their sum of squares, over their variance, is at most s + 4 sqrt(2 s).

    Example:
        >>> week = np.tile([0.0, 0, 0, 0, 0, 70, 70], 8)
        >>> season_of(week, 7)[0][:7].round().tolist()
        [-20.0, -20.0, -20.0, -20.0, -20.0, 50.0, 50.0]
    """
    n, none = len(values), np.zeros(len(values))
    known = np.isfinite(values)
    if season < 2 or n < 3 * season:
        return none, 0.0
    around = np.convolve(np.where(known, values, 0.0), np.ones(season), "same")
    beside = around / np.maximum(np.convolve(known, np.ones(season), "same"), 1)
    place = np.arange(n) % season
    inner = known & (np.arange(n) >= season // 2) & (np.arange(n) < n - season // 2)
    counts = np.bincount(place[inner], minlength=season)
    if counts.min() < 2:
        return none, 0.0
    apart = np.where(inner, values - beside, 0.0)
    means = np.bincount(place, apart, season) / counts
    means -= means.mean()
    within = (apart - means[place])[inner]
    each = float(within.var()) * season / inner.sum()
    if each == 0:
        return means[place], 0.0
    strength = float((means**2).sum()) / each
    if strength < season + 4 * np.sqrt(2 * season):
        return none, 0.0
    return (means * (1 - (season - 1) / strength))[place], each


def kalman(values: Floats, noise: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log likelihoods, smoothed levels and their variances for several models at once.

    Args:
        values: By tick; NaN is a gap.
        noise: The variance of a value about the level: shape (ticks, models).
        q: The variance of the level's steps: shape (models,).

    Returns:
        Shapes (models,), (ticks, models), (ticks, models); the level before the first measured tick
        is unknown (a diffuse prior).
    """
    n, first = len(values), int(np.flatnonzero(np.isfinite(values))[0])
    filtered, variance = np.empty((n, len(q))), np.empty((n, len(q)))
    likelihood = np.zeros(len(q))
    a, p = np.full(len(q), values[first]), noise[first].copy()
    filtered[first], variance[first] = a, p
    for t in range(first + 1, n):
        p = p + q
        if np.isfinite(values[t]):
            surprise, spread = values[t] - a, p + noise[t]
            gain = p / spread
            likelihood -= 0.5 * (np.log(spread) + surprise**2 / spread)
            a, p = a + gain * surprise, p * (1 - gain)
        filtered[t], variance[t] = a, p
    for t in range(n - 2, first - 1, -1):
        total = variance[t] + q
        back = np.divide(variance[t], total, out=np.ones(len(q)), where=total > 0)
        filtered[t] = filtered[t] + back * (filtered[t + 1] - filtered[t])
        variance[t] = variance[t] + back**2 * (variance[t + 1] - total)
    for t in range(first - 1, -1, -1):
        filtered[t], variance[t] = filtered[t + 1], variance[t + 1] + q
    return likelihood, filtered, np.maximum(variance, 0.0)


def _posterior(values: Floats, sigma: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return means, variances and levels by tick and model, and the models' weights."""
    scale = float(np.mean(sigma**2))
    v, q = (grid.ravel() * scale for grid in np.meshgrid(_IRREGULAR, _STEPS))
    noise = sigma[:, None] ** 2
    likelihood, level, spread = kalman(values, noise + v, q)
    weights = np.exp(likelihood - likelihood.max())
    gap = ~np.isfinite(values)[:, None]
    k = np.where(gap, 0.0, v / (v + noise))
    means = level + k * np.where(gap, 0.0, values[:, None] - level)
    own = np.where(gap, v, v * noise / (v + noise))
    return means, (1 - k) ** 2 * spread + own, level, weights / weights.sum()


def _refusal(residuals: Floats, season: int) -> str:
    """Return the reason that the model does not fit, by its residuals; "" if it does."""
    if np.abs(residuals).max() > _SPIKE:
        return "one value lies far from all others"
    n = len(residuals)
    for lag in {1, 2, season} - {0}:
        if n > 3 * lag + 8:
            correlation = float(np.mean(residuals[:-lag] * residuals[lag:]))
            if correlation * np.sqrt(n) > _CORRELATED:
                return "its values depend on each other in a way that no level and season explain"
    return ""
