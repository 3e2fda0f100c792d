"""Derived series: post-processing of released answers, free, each with its own correct half-widths.

Measurements at different ticks have independent Gaussian noises z. A value of a series has the
noise sum_u r_u z_(t-u) with a response r: 1 for answers with independent noise, d for
a series under a strategy (`sparseq.accounting.strategies`, which has the algebra). To each variance
of z, g²/12 is added for the rounding of the noise to the lattice, of step g <= sigma/2
(`query.plan`): an upper bound, sigma²/48, is used. Rounding is independent of the Gaussian up to
e^(-2 pi² sigma²/g²) < 1e-34, and a uniform's tails are lighter than those of a Gaussian of its
variance (Hoeffding's lemma: E e^(tU) <= e^(t² g²/24)).

There are two half-widths. `error` holds for one value of a series with probability `confidence`
(pointwise); `error_all` for all values of the series at once (simultaneous), by Šidák (1967): for
centred Gaussians of any correlation, P(all |X_i| <= c_i) is at least the product of the P(|X_i| <=
c_i). Both include the allowance of the ticks for people who are left out
(`sparseq.series.left_out`): a value lacks at most the sum of what its ticks may lack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.strategies import Strategy, deviations
from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import ParameterError

Floats = NDArray[np.float64]
_ROUNDING = 1 + 1 / 48
WEEK = 7


@dataclass(frozen=True)
class NoisySeries:
    """A noised series: values, and the standard deviation of each one's noise; NaN is a gap.

    Attributes:
        values: By tick, in order.
        measured: Standard deviation of the noise of the measurement at each tick.
        response: r, up to its last value that is not 0.
        confidence: Probability for `error` and `error_all`.
        lacking: The most that may be missing from each value.
    """

    values: Floats
    measured: Floats
    response: Floats
    confidence: float = CONFIDENCE
    lacking: Floats | float = 0.0

    @classmethod
    def of(
        cls,
        values: Floats,
        sigma: Floats | float,
        confidence: float = CONFIDENCE,
        strategy: Strategy | None = None,
        lacking: Floats | float = 0.0,
    ) -> NoisySeries:
        """Return a released series.

        Args:
            values: One for each tick; under a strategy, from its first tick on.
            sigma: Noise of the measurements: one for all or one for each tick.
            confidence: See the class.
            strategy: None: the noises of the answers are independent.
            lacking: The most that may be missing from each tick.

        Example:
            >>> series = NoisySeries.of(np.zeros(3), 2.0, strategy=Strategy.of("1,-0.5"))
            >>> running_total(series).sigma.round(1).tolist()  # of independent ones 2, 2.8, 3.5
            [2.0, 3.6, 5.1]
        """
        if not 0 < confidence < 1:
            raise ParameterError(f"confidence is {confidence!r}; it must lie between 0 and 1")
        values = np.asarray(values, np.float64)
        spread = np.broadcast_to(np.asarray(sigma, np.float64) * np.sqrt(_ROUNDING), values.shape)
        response = np.ones(1) if strategy is None else strategy.inverse(max(len(values), 1))
        return cls(values, np.array(spread), response, confidence, lacking)

    @property
    def sigma(self) -> Floats:
        """Standard deviation of each value's noise."""
        return deviations(self.response, self.measured)

    def filtered(self, values: Floats, filter: Floats) -> NoisySeries:
        """Return a filter of the series, given its values at every tick."""
        n = max(len(self.values), 1)
        lacks = np.broadcast_to(np.asarray(self.lacking, np.float64), self.values.shape)
        return replace(
            self,
            values=values,
            response=np.convolve(self.response, filter)[:n],
            lacking=np.convolve(lacks, np.abs(filter))[: len(lacks)] if len(lacks) else lacks,
        )

    def spread(self, ticks: NDArray[np.int64], weights: Floats) -> float:
        """Return the standard deviation of a weighted sum of the values at some ticks."""
        noise = np.zeros(len(self.values))
        for t, weight in zip(ticks.tolist(), weights.tolist(), strict=True):
            back = self.response[: t + 1]
            noise[t + 1 - len(back) : t + 1] += weight * back[::-1]
        return float(np.sqrt(np.sum(noise**2 * self.measured**2)))

    @property
    def error(self) -> Floats:
        """Half-width of each value, pointwise."""
        return self.sigma * quantile(self.confidence) + self.lacking

    @property
    def error_all(self) -> Floats:
        """Half-width of all values at once."""
        known = max(int(np.isfinite(self.values).sum()), 1)
        return self.sigma * quantile(self.confidence ** (1 / known)) + self.lacking


def quantile(confidence: float) -> float:
    """Return z with P(|Z| <= z) = confidence."""
    from scipy.special import ndtri

    return float(ndtri((1 + confidence) / 2))


def running_total(series: NoisySeries) -> NoisySeries:
    """Return the sum of all values so far.

    >>> total = running_total(NoisySeries.of(np.array([1.0, 2.0, 3.0]), 2.0))
    >>> total.values.tolist(), (total.sigma / total.sigma[0]).round(3).tolist()
    ([1.0, 3.0, 6.0], [1.0, 1.414, 1.732])
    """
    return series.filtered(np.cumsum(series.values), np.ones(max(len(series.values), 1)))


def rolling_sum(series: NoisySeries, ticks: int = WEEK) -> NoisySeries:
    """Return the sum of the last `ticks` values; NaN at the first ticks - 1 ticks.

    >>> rolling_sum(NoisySeries.of(np.arange(5.0), 1.0), 2).values.tolist()
    [nan, 1.0, 3.0, 5.0, 7.0]
    """
    if ticks < 1:
        raise ParameterError(f"a window of {ticks} ticks", "1 or more")
    return series.filtered(_windows(series.values, ticks), np.ones(ticks))


def rolling_mean(series: NoisySeries, ticks: int = WEEK) -> NoisySeries:
    """Return the mean of the last `ticks` values; NaN at the first ticks - 1 ticks."""
    total = rolling_sum(series, ticks)
    return replace(
        total,
        values=total.values / ticks,
        response=total.response / ticks,
        lacking=total.lacking / ticks,
    )


def change(series: NoisySeries, ticks: int = WEEK) -> NoisySeries:
    """Return the difference of each value from the value `ticks` before: week on week.

    >>> change(NoisySeries.of(np.array([1.0, 2.0, 4.0]), 3.0), 1).values.tolist()
    [nan, 1.0, 2.0]
    """
    if ticks < 1:
        raise ParameterError(f"a change over {ticks} ticks", "1 or more")
    filter = np.zeros(ticks + 1)
    filter[0], filter[ticks] = 1.0, -1.0
    before = np.full(len(series.values), np.nan)
    before[ticks:] = series.values[: max(len(series.values) - ticks, 0)]
    return series.filtered(series.values - before, filter)


def out_of_band(
    series: NoisySeries, period: int = WEEK, periods: int = 4
) -> tuple[NoisySeries, NDArray[np.bool_]]:
    """Return each value's distance from its expected value, and a flag for distances too large.

    The expected value is the mean of the same weekday (tick of the period) in the last `periods`
    periods, without flagged ones. A value is flagged if its distance is larger than the noise
    explains, by `error_all`, and larger than usual: more than two such quantiles of the deviations
    in those periods.

    Args:
        series: The answers.
        period, periods: Ticks in a period, and number of periods.
    """
    n = len(series.values)
    far, sigma, lacking = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n)
    lacks = np.broadcast_to(np.asarray(series.lacking, np.float64), n)
    flags = np.zeros(n, np.bool_)
    alone = quantile(series.confidence)
    all_at_once = quantile(series.confidence ** (1 / max(n, 1)))
    for t in range(period * 2, n):
        past = np.arange(t - period, max(t - period * periods, 0) - 1, -period)
        past = past[np.isfinite(series.values[past]) & ~flags[past]]
        if len(past) < 2:
            continue
        far[t] = series.values[t] - series.values[past].mean()
        weights = np.append(1.0, np.full(len(past), -1 / len(past)))
        sigma[t] = series.spread(np.append(t, past), weights)
        lacking[t] = lacks[t] + lacks[past].mean()
        usual = _spread(far[max(t - period * periods, 0) : t], period * periods // 2)
        flags[t] = abs(far[t]) > max(all_at_once * sigma[t] + lacking[t], 2 * alone * usual)
    deviation = replace(series, values=far, measured=sigma, response=np.ones(1), lacking=lacking)
    return deviation, flags


def _spread(values: Floats, least: int) -> float:
    """Return a robust standard deviation; 0 for fewer than `least` values."""
    known = values[np.isfinite(values)]
    return float(1.4826 * np.median(np.abs(known))) if len(known) >= least else 0.0


def _windows(values: Floats, ticks: int) -> Floats:
    result = np.full(len(values), np.nan)
    if len(values) >= ticks:
        result[ticks - 1 :] = np.lib.stride_tricks.sliding_window_view(values, ticks).sum(axis=1)
    return result


DERIVED: dict[str, Callable[[NoisySeries], NoisySeries]] = {
    "running_total": running_total,
    "week_sum": rolling_sum,
    "week_mean": rolling_mean,
    "week_change": change,
    "deviation": lambda series: out_of_band(series)[0],
}
"""By name: the series that `sparseq derive` adds to the answers."""
