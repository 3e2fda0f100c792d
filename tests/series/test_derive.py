"""Derived series: their ± hold as often as they say, one by one and all at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from sparseq.base.errors import ParameterError
from sparseq.mechanisms import SeededEntropy, rounded_gaussian
from sparseq.series.derive import (
    DERIVED,
    NoisySeries,
    change,
    out_of_band,
    rolling_mean,
    rolling_sum,
    running_total,
)

RUNS, TICKS, SIGMA = 2000, 40, 2.0  # the coarsest lattice that the engine allows: sigma / 2


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    drawn = rounded_gaussian(SIGMA, RUNS * TICKS, SeededEntropy(11))
    return np.asarray(drawn, np.float64).reshape(RUNS, TICKS)


@pytest.mark.parametrize("f", [running_total, rolling_sum, rolling_mean, change])
def test_errors_hold_as_often_as_they_say(f, noise) -> None:  # type: ignore[no-untyped-def]
    """95 % of values within `error`; 95 % of series wholly within `error_all`, or more (Šidák).

    Two-sided 1e-6 for the first (it is exact up to rounding), one-sided for the second. A sigma
    10 % off would give 92.2 or 97.0 %, which these tests tell apart from 95 %.
    """
    truth = np.linspace(10, 50, TICKS)
    exact = f(NoisySeries.of(truth, SIGMA)).values
    inside, whole = 0, 0
    for row in noise:
        found = f(NoisySeries.of(truth + row, SIGMA))
        off = np.abs(found.values - exact)
        inside += off[-1] <= found.error[-1]
        known = np.isfinite(off)
        whole += bool((off[known] <= found.error_all[known]).all())
    assert binomtest(inside, RUNS, 0.95).pvalue > 1e-6
    assert binomtest(whole, RUNS, 0.95, "less").pvalue > 1e-6
    assert 0.925 < inside / RUNS < 0.97


def test_values_are_what_they_are_called() -> None:
    values = np.arange(20.0) ** 2
    series = NoisySeries.of(values, 1.0)
    assert running_total(series).values[-1] == values.sum()
    assert rolling_sum(series).values[10] == values[4:11].sum()
    assert rolling_mean(series, 3).values[5] == pytest.approx(values[3:6].mean())
    assert change(series).values[12] == values[12] - values[5]
    assert np.isnan(rolling_sum(series).values[:6]).all()
    assert rolling_sum(series).sigma[10] == pytest.approx(7**0.5 * series.sigma[0])
    assert change(series).sigma[10] == pytest.approx(2**0.5 * series.sigma[0])


def test_a_day_out_of_the_band_is_flagged(noise: np.ndarray) -> None:
    week = np.array([100.0, 110, 120, 130, 150, 300, 280])
    days = np.tile(week, 10)
    steady = NoisySeries.of(days + noise.ravel()[: len(days)], SIGMA)
    assert not out_of_band(steady)[1].any()  # weekends are no news
    days[60] += 40
    deviation, flags = out_of_band(NoisySeries.of(days + noise.ravel()[: len(days)], SIGMA))
    assert np.flatnonzero(flags).tolist() == [60]
    assert deviation.values[60] == pytest.approx(40, abs=5 * SIGMA)


def test_short_series_and_gaps() -> None:
    for f in DERIVED.values():
        assert len(f(NoisySeries.of(np.array([1.0, np.nan, 3.0]), 1.0)).values) == 3
        assert len(f(NoisySeries.of(np.zeros(0), 1.0)).values) == 0
    with pytest.raises(ParameterError):
        rolling_sum(NoisySeries.of(np.ones(3), 1.0), 0)
    with pytest.raises(ParameterError):
        change(NoisySeries.of(np.ones(3), 1.0), 0)
    with pytest.raises(ParameterError):
        NoisySeries.of(np.ones(3), 1.0, confidence=1.0)
