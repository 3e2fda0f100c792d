"""Derived series: post-processing of released answers, free, each with its own correct ±.

The answers of different ticks have independent Gaussian noises, so a weighted sum of answers has
Gaussian noise of variance sum w² sigma². To each variance g²/12 is added for the rounding of the
noise to the lattice, of step g <= sigma/2 (`query.plan`): an upper bound, sigma²/48, is used.
Rounding is independent of the Gaussian up to e^(-2 pi² sigma²/g²) < 1e-34, and a uniform's tails
are lighter than those of a Gaussian of its variance (Hoeffding's lemma: E e^(tU) <= e^(t² g²/24)).

Two kinds of ± are given. `error` holds for one value of a series with probability `confidence`
(pointwise); `error_all` for all values of the series at once (simultaneous), by Šidák (1967): for
centred Gaussians of any correlation, P(all |X_i| <= c_i) is at least the product of the P(|X_i| <=
c_i). Neither covers people who are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparseq.errors import ParameterError

Floats = NDArray[np.float64]
_ROUNDING = 1 + 1 / 48
WEEK = 7


@dataclass(frozen=True)
class NoisySeries:
    """A noised series: values, and the standard deviation of each one's noise; NaN is a gap.

    Attributes:
        values, sigma: By tick, in order.
        confidence: Of `error` and `error_all`.
    """

    values: Floats
    sigma: Floats
    confidence: float = 0.95

    @classmethod
    def of(cls, values: Floats, sigma: Floats | float, confidence: float = 0.95) -> NoisySeries:
        """Return released answers as a series; their noises are independent.

        Args:
            values: The answers, tick by tick.
            sigma: As released, one for all or one a tick.
            confidence: See the class.
        """
        if not 0 < confidence < 1:
            raise ParameterError(f"confidence is {confidence!r}; it must lie between 0 and 1")
        values = np.asarray(values, np.float64)
        spread = np.broadcast_to(np.asarray(sigma, np.float64) * np.sqrt(_ROUNDING), values.shape)
        return cls(values, np.array(spread), confidence)

    @property
    def error(self) -> Floats:
        """± of each value, pointwise."""
        return self.sigma * _quantile(self.confidence)

    @property
    def error_all(self) -> Floats:
        """± of all values at once."""
        known = max(int(np.isfinite(self.values).sum()), 1)
        return self.sigma * _quantile(self.confidence ** (1 / known))


def _quantile(confidence: float) -> float:
    """Return z with P(|Z| <= z) = confidence."""
    from scipy.special import ndtri

    return float(ndtri((1 + confidence) / 2))


def running_total(series: NoisySeries) -> NoisySeries:
    """Return the sum of all values so far.

    >>> total = running_total(NoisySeries.of(np.array([1.0, 2.0, 3.0]), 2.0))
    >>> total.values.tolist(), (total.sigma / total.sigma[0]).round(3).tolist()
    ([1.0, 3.0, 6.0], [1.0, 1.414, 1.732])
    """
    return replace(
        series, values=np.cumsum(series.values), sigma=np.sqrt(np.cumsum(series.sigma**2))
    )


def rolling_sum(series: NoisySeries, ticks: int = WEEK) -> NoisySeries:
    """Return the sum of the last `ticks` values; NaN where there are not so many yet.

    >>> rolling_sum(NoisySeries.of(np.arange(5.0), 1.0), 2).values.tolist()
    [nan, 1.0, 3.0, 5.0, 7.0]
    """
    if ticks < 1:
        raise ParameterError(f"a window of {ticks} ticks", "1 or more")
    variance = _windows(series.sigma**2, ticks)
    return replace(series, values=_windows(series.values, ticks), sigma=np.sqrt(variance))


def rolling_mean(series: NoisySeries, ticks: int = WEEK) -> NoisySeries:
    """Return the mean of the last `ticks` values; NaN where there are not so many yet."""
    total = rolling_sum(series, ticks)
    return replace(total, values=total.values / ticks, sigma=total.sigma / ticks)


def change(series: NoisySeries, ticks: int = WEEK) -> NoisySeries:
    """Return by how much each value differs from the one `ticks` before: week on week.

    >>> change(NoisySeries.of(np.array([1.0, 2.0, 4.0]), 3.0), 1).values.tolist()
    [nan, 1.0, 2.0]
    """
    if ticks < 1:
        raise ParameterError(f"a change over {ticks} ticks", "1 or more")
    before = _shifted(series.values, ticks)
    variance = series.sigma**2 + _shifted(series.sigma, ticks) ** 2
    return replace(series, values=series.values - before, sigma=np.sqrt(variance))


def out_of_band(
    series: NoisySeries, period: int = WEEK, periods: int = 4
) -> tuple[NoisySeries, NDArray[np.bool_]]:
    """Return how far each value is from what was to be expected, and a flag where that is too far.

    Expected is the mean of the same weekday (tick of the period) in the last `periods` periods, the
    flagged ones left out. A value is flagged if it is further from it than the noise explains, by
    `error_all`, and further than is usual: two such quantiles of the deviations of those periods.

    Args:
        series: The answers.
        period, periods: See above.
    """
    n = len(series.values)
    far, sigma = np.full(n, np.nan), np.full(n, np.nan)
    flags = np.zeros(n, np.bool_)
    quantile = _quantile(series.confidence)
    all_at_once = _quantile(series.confidence ** (1 / max(n, 1)))
    for t in range(period * 2, n):
        past = np.arange(t - period, max(t - period * periods, 0) - 1, -period)
        past = past[np.isfinite(series.values[past]) & ~flags[past]]
        if len(past) < 2:
            continue
        far[t] = series.values[t] - series.values[past].mean()
        sigma[t] = np.sqrt(series.sigma[t] ** 2 + (series.sigma[past] ** 2).sum() / len(past) ** 2)
        usual = _spread(far[max(t - period * periods, 0) : t], period * periods // 2)
        flags[t] = abs(far[t]) > max(all_at_once * sigma[t], 2 * quantile * usual)
    return replace(series, values=far, sigma=sigma), flags


def _spread(values: Floats, least: int) -> float:
    """Return a robust standard deviation; 0 of fewer than `least` values."""
    known = values[np.isfinite(values)]
    return float(1.4826 * np.median(np.abs(known))) if len(known) >= least else 0.0


def _windows(values: Floats, ticks: int) -> Floats:
    result = np.full(len(values), np.nan)
    if len(values) >= ticks:
        result[ticks - 1 :] = np.lib.stride_tricks.sliding_window_view(values, ticks).sum(axis=1)
    return result


def _shifted(values: Floats, ticks: int) -> Floats:
    result = np.full(len(values), np.nan)
    result[ticks:] = values[: max(len(values) - ticks, 0)]
    return result


DERIVED: dict[str, Callable[[NoisySeries], NoisySeries]] = {
    "running_total": running_total,
    "week_sum": rolling_sum,
    "week_mean": rolling_mean,
    "week_change": change,
    "deviation": lambda series: out_of_band(series)[0],
}
"""By name: what `sparseq derive` gives beside the answers."""
