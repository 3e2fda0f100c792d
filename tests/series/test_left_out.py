"""Room for people who are left out: as wide as what may be missing, and no wider than is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.base.errors import ParameterError
from sparseq.ledger.purposes import Purpose
from sparseq.series.derive import NoisySeries, change, rolling_mean, rolling_sum, running_total
from sparseq.series.left_out import allowance, rate_of, rounded_up
from sparseq.series.monitor_series import MonitorSeries
from sparseq.series.planning.simulate_strategy import window_sums
from sparseq.series.series_rows import Row
from sparseq.series.ticks import Ticks, moment
from sparseq.sql.parameters import QueryText

TICKS = 120


def missing_at(truth: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Return what is missing where at most the rate is: sometimes all that may be."""
    share = np.minimum(rate * np.arange(1, len(truth) + 1) / 365, 0.5)
    return truth * share * rng.choice([0.0, 0.5, 1.0, 1.0], len(truth))


def off_and_lacking(truth: np.ndarray, missing: np.ndarray, rate: float) -> list[np.ndarray]:
    """Return, for each derived series without noise, how much of its room was needed."""
    taken = truth - missing
    lacking = np.array([allowance(v, t, rate) for t, v in enumerate(taken.tolist())])
    used = []
    for f in (running_total, rolling_sum, rolling_mean, change):
        told = f(NoisySeries.of(taken, 1e-9, lacking=lacking))
        off = np.abs(f(NoisySeries.of(truth, 1e-9)).values - told.values)
        used.append(off - told.error - 1e-6)
    return used


def test_what_is_missing_of_any_sum_has_room() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        truth = rng.gamma(2, 50, TICKS) * rng.integers(0, 2, TICKS)
        rate = rng.uniform(0.001, 3)
        used = off_and_lacking(truth, missing_at(truth, rate, rng), rate)
        assert all(np.nanmax(u) <= 0 for u in used)


def test_twice_as_much_has_none() -> None:
    """All room is needed where the most is missing: nothing is wider than it has to be."""
    truth = np.full(TICKS, 100.0)
    share = 0.5 * np.arange(1, TICKS + 1) / 365
    assert max(np.nanmax(u) for u in off_and_lacking(truth, truth * share, 0.5)) <= 0
    assert min(np.nanmax(u) for u in off_and_lacking(truth, truth * share * 2, 0.5)[:3]) > 0
    assert np.nanmax(off_and_lacking(truth, truth * share, 0.5)[0]) == pytest.approx(0, abs=1e-4)


def test_the_planned_rate_has_room_for_what_is_missing_in_the_data() -> None:
    rng = np.random.default_rng(2)
    for width in (1, 28, 60, TICKS):
        truth = rng.gamma(2, 50, (TICKS, 2))
        missing = truth * (rng.random((TICKS, 2)) < 0.3) * rng.uniform(0, 0.3)
        rate = rate_of(missing, truth, width)
        grown = truth * rate * np.arange(1, TICKS + 1)[:, None] / 365
        sums = [window_sums(values, max(width, 28)) for values in (missing, grown)]
        assert (sums[0] <= sums[1] * (1 + 1e-12)).all()
        assert not (sums[0] <= sums[1] * 0.99).all()
    assert rate_of(np.zeros((5, 1)), np.ones((5, 1)), 1) == 0
    assert 0.0123 <= rounded_up(0.0123) <= 0.013


def series_of(sql: str, strategy: str, left_out: float) -> list[Row]:
    """Forty people come each day; each can pay for two or three."""
    days = np.repeat(np.datetime64("2024-01-01") + np.arange(6), 40)
    table = pa.table({"who": np.tile(np.arange(40), 6), "day": days, "x": np.ones(240)})
    part = Purpose("s", 0.5, 6, 3.0, strategy=strategy, left_out=left_out)
    with sparseq.create(None, {"t": table}, user="who", purposes=[part], seed=1) as con:
        ticks = Ticks(moment("2024-01-01"), "1d")
        (series,) = MonitorSeries().sources(con, [("s", QueryText.of(sql))], ticks)
        return [row for t in range(6) for row in series.rows(ticks[t])]


def test_a_tick_has_room_beside_its_noise() -> None:
    sql = "SELECT count(DISTINCT who) AS n FROM t WHERE day = :day"
    plain, wide = (series_of(sql, "1,-0.5", share) for share in (0.0, 0.3))
    for t, (one, other) in enumerate(zip(plain, wide, strict=True)):
        assert (one.value, one.sigma, one.left_out) == (other.value, other.sigma, None)
        assert other.left_out == allowance(other.value or 0.0, t, 0.3)
        assert other.error == (one.error or 0.0) + other.left_out


@pytest.mark.parametrize(
    ("sql", "strategy", "said"),
    [
        ("SELECT count(*) AS n FROM t WHERE day = :day", "", "left-out of s needs a strategy"),
        (
            "SELECT sum(greatest(least(x, 5), -5)) AS n FROM t WHERE day = :day",
            "news",
            "may be negative",
        ),
    ],
)
def test_room_that_would_be_no_bound_is_refused(sql: str, strategy: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        series_of(sql, strategy, 0.1)
