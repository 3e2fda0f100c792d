"""The verdict on a series: which method, by both halves of the data, and what ± has room for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.accounting import Budget
from sparseq.base.errors import DataError
from sparseq.ledger.purposes import Purpose
from sparseq.question.plan import Query
from sparseq.series.methods.corrector import PostProcessing
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_search import plan
from sparseq.series.planning.plan_strategies import targets_of
from sparseq.series.planning.simulate import BudgetSplit, Simulation, simulate
from sparseq.series.planning.simulate_strategy import StrategySetting, simulate_setting
from sparseq.series.planning.verdict import (
    FORECAST,
    LEAST_GAIN,
    PLAIN,
    STRATEGY,
    Method,
    Verdict,
    forecast_off,
    verdict,
)
from sparseq.stream.full_weight import QUESTION

TICKS, SHARE, BUDGET = 30, 0.6, Budget(0.5, 48.0)
KAPPA = 0.5 * SHARE
SELDOM = np.r_[np.full(400, 0.02), np.full(10, 0.5)]
STEADY = np.full(150, 0.9)
CHANGES = np.r_[np.full(400, 0.02), np.full(6, 0.2)]


def lowered(number: str) -> Query:
    rows = pa.table({"who": [1], "day": [0]})
    with sparseq.create(None, {"t": rows}, user="who", seed=1) as store:
        return store.lower(f"SELECT {number} AS n FROM t WHERE day = 0")


@pytest.fixture(scope="module")
def query() -> Query:
    return lowered("count(DISTINCT who)")


def stream(query: Query, rates: np.ndarray, seed: int = 1, ticks: int = TICKS) -> KnownStream:
    """People who come on their own share of the ticks."""
    rng = np.random.default_rng(seed)
    tick, users = np.nonzero(rng.random((ticks, rates.shape[-1])) < rates)
    ones = np.zeros(len(users), np.int64), np.ones(len(users))
    return KnownStream(query, ticks, rates.shape[-1], tick, users, *ones)


def growing(times: float, ticks: int = TICKS) -> np.ndarray:
    """Rates of people who come so many times as often in the second half."""
    step = np.where(np.arange(ticks) < ticks // 2, 1.0, times)[:, None]
    return np.minimum(step * CHANGES, 1.0)


def found(one: KnownStream, targets: str = "day", **more: Any) -> Verdict:
    return verdict(one, "daily", BUDGET, SHARE, targets_of(targets), **more)


@pytest.fixture(scope="module")
def seldom(query: Query) -> tuple[KnownStream, Verdict]:
    one = stream(query, SELDOM, ticks=2 * TICKS)
    return one, found(one)


@pytest.fixture(scope="module")
def changed(query: Query) -> tuple[KnownStream, Verdict]:
    one = stream(query, growing(4.0))
    return one, found(one)


@pytest.fixture(scope="module")
def steady(query: Query) -> tuple[KnownStream, Verdict]:
    one = stream(query, STEADY)
    return one, found(one)


Known = tuple[KnownStream, Verdict]


def method(of: Verdict, name: str) -> Method:
    (one,) = [m for m in of.methods if m.name == name]
    return one


def test_where_people_come_seldom_forecasts_are_recommended(seldom: Known) -> None:
    best = seldom[1].recommended
    assert best.name == FORECAST
    assert best.worst < 0.6
    assert best.purpose.forecast > 0
    assert best.purpose.counts < TICKS / 5
    assert best.purpose.strategy == ""
    assert best.errors[0] < 0.5 * seldom[1].methods[0].errors[0]


def test_where_behaviour_changes_what_was_chosen_before_is_not_recommended(changed: Known) -> None:
    """People come four times as often in the second half: forecasts would have been far off."""
    of = changed[1]
    assert of.recommended.name == PLAIN
    before, after, whole = method(of, FORECAST).ratios
    assert before is not None
    assert after is not None
    assert before < 0.6, "on the first half they seemed to be good"
    assert whole < 0.7, "and on all data, with hindsight"
    assert after > 1.3


def test_where_people_come_every_day_a_strategy_is_recommended(steady: Known) -> None:
    best = steady[1].recommended
    assert best.name == STRATEGY
    assert best.purpose.strategy
    assert best.purpose.forecast == 0
    assert best.worst < 0.8
    assert method(steady[1], FORECAST).worst > LEAST_GAIN, "nobody has left, and they cost"


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 6))
def test_it_is_the_same_on_other_samples(query: Query, seed: int) -> None:
    assert found(stream(query, SELDOM, seed, 2 * TICKS)).recommended.name == FORECAST
    assert found(stream(query, growing(4.0), seed)).recommended.name == PLAIN
    assert found(stream(query, STEADY, seed)).recommended.name == STRATEGY


@pytest.mark.deep
@pytest.mark.parametrize("ticks", [60, 120])
def test_forecasts_are_never_recommended_where_people_come_ever_more_often(
    query: Query, ticks: int
) -> None:
    for times in (2.0, 4.0, 8.0):
        of = found(stream(query, growing(times, ticks), 3, ticks))
        after = method(of, FORECAST).ratios[1]
        assert after is not None
        assert of.recommended.name != FORECAST or after <= LEAST_GAIN
        if times >= 4:
            assert of.recommended.name != FORECAST


def test_plain_is_the_noise_of_all_ticks(seldom: Known, steady: Known) -> None:
    """Whoever comes or does not: sqrt(ticks / (2 kappa)), and room for roundings of charges."""
    for one, of in (seldom, steady):
        plain = of.methods[0]
        assert plain.name == PLAIN
        assert plain.errors[0] == pytest.approx((one.ticks / (2 * KAPPA)) ** 0.5, rel=0.002)
        assert plain.errors[0] == pytest.approx(plain.purpose.budget().sigma_0, rel=0.002)
        assert plain.ratios == (1, 1, 1)
        assert plain.purpose == Purpose("daily", SHARE, one.ticks, kappa=KAPPA)
        assert plain.purpose.counts >= one.ticks * (1 + 2**-10), "nobody is out at the last tick"


def test_where_a_person_has_several_rows_plain_pays_for_pilots_and_cuts(query: Query) -> None:
    """A tick of a question costs more than one of people; who has much is cut to a scale."""
    rows = replace(stream(query, STEADY), query=lowered("count(*)"))
    (error,) = found(rows, forecasts=False).methods[0].errors
    ones = (TICKS / (2 * KAPPA)) ** 0.5
    assert ones < error == pytest.approx(ones * QUESTION**0.5, rel=0.01)
    values = np.where(rows.users == 0, 100.0, 1.0)
    (cut,) = found(replace(rows, values=values), forecasts=False).methods[0].errors
    there = float(np.mean(np.bincount(rows.tick[rows.users == 0], minlength=TICKS)))
    assert cut < 12 * error, "the scale is not that of the busiest"
    assert cut == pytest.approx((error**2 + 99**2 * there) ** 0.5, rel=0.05)


def test_ratios_are_those_of_what_was_chosen_on_the_first_half(
    seldom: Known, changed: Known
) -> None:
    """Of the error, or of the mean half-width of intervals that hold, whichever is more."""
    for one, of in (seldom, changed):
        half = one.ticks // 2
        first, second = one.between(0, half), one.between(half, one.ticks)
        noise = (half / (2 * KAPPA)) ** 0.5
        planned = plan([first], KAPPA)
        chosen = min((c for c in planned.tried if c.setting.forecast), key=lambda c: c.order)
        for data, ratio in zip((first, second), method(of, FORECAST).ratios, strict=False):
            (done,) = simulate([data], KAPPA, chosen.setting)
            post = PostProcessing(period=chosen.period)
            added, variance = done.forecast(post)
            room = 1.959964 * np.sqrt(variance) + forecast_off(done, post) * np.abs(added)
            worse = max(done.errors(post)[2] / noise, room.mean() / (1.959964 * noise))
            assert ratio == pytest.approx(worse, rel=0.003)


def test_errors_on_all_data_are_those_of_the_purpose(seldom: Known, steady: Known) -> None:
    one, of = seldom
    best = method(of, FORECAST)
    p = best.purpose
    (done,) = simulate([one], KAPPA, BudgetSplit(p.counts, p.forecast, cap=p.cap))
    assert best.errors == (done.errors(PostProcessing(period=p.season))[2],)
    assert best.ratios[2] >= best.errors[0] / of.methods[0].errors[0]
    one, of = steady
    taps = method(of, STRATEGY)
    done_too = simulate_setting(
        one, StrategySetting(taps.purpose.strategy, taps.purpose.counts, KAPPA)
    )
    assert taps.errors == pytest.approx((done_too.errors(1)[2],), rel=0.01)


def test_the_largest_ratio_decides_and_has_to_be_two_percent_below_1() -> None:
    def of(**ratios: tuple[float | None, float | None, float]) -> str:
        methods = [Method(PLAIN, Purpose("a", 0.5, 3), (1.0,))]
        methods += [replace(methods[0], name=n, ratios=r) for n, r in ratios.items()]
        return Verdict(tuple(methods), (1.0, 1.0), targets_of("day"), None).recommended.name

    assert of() == PLAIN
    assert of(forecast=(0.5, 0.981, 0.5)) == PLAIN
    assert of(forecast=(0.981, 0.5, 0.5)) == PLAIN
    assert of(forecast=(0.5, 0.5, 0.981)) == PLAIN
    assert of(forecast=(0.5, 0.98, 0.5)) == FORECAST
    assert of(forecast=(0.2, 0.6, 0.2), strategy=(0.5, 0.5, 0.5)) == STRATEGY
    assert of(forecast=(None, None, 0.9)) == FORECAST


def test_without_two_halves_nothing_but_plain_is_looked_at(query: Query) -> None:
    """One tick; and nobody in a half."""
    one = stream(query, np.full(20, 0.9), ticks=1)
    assert [m.name for m in found(one).methods] == [PLAIN]
    late = stream(query, np.full(20, 0.9), ticks=4)
    empty = replace(late, ticks=8, tick=late.tick + 4)
    assert [m.name for m in found(empty).methods] == [PLAIN]
    with pytest.raises(DataError, match="no query finds anybody"):
        found(late.between(0, 0))


def test_forecasts_are_for_single_ticks(query: Query) -> None:
    one = stream(query, STEADY[:40], ticks=12)
    of = found(one, "day,week:2")
    assert [m.name for m in of.methods] == [PLAIN, STRATEGY]
    assert of.planned is None
    (day, week), noise = of.methods[0].errors, of.methods[0].purpose.budget().sigma_0
    assert day == pytest.approx(noise, rel=0.002)
    widths = np.arange(1, 13).clip(max=7)
    assert week == pytest.approx(noise * float(widths.mean()) ** 0.5, rel=0.002)
    taps = of.methods[1]
    parts = [a / b for a, b in zip(taps.errors, (day, week), strict=True)]
    assert taps.ratios[2] >= ((parts[0] ** 2 + 2 * parts[1] ** 2) / 3) ** 0.5 - 1e-9
    assert [m.name for m in found(one, forecasts=False).methods] == [PLAIN, STRATEGY]


def test_where_0_would_do_as_well_it_is_said(query: Query, seldom: Known) -> None:
    few = np.r_[np.full(3, 0.04), np.zeros(9)]
    assert found(stream(query, few, 5)).no_better_than_nothing
    assert not seldom[1].no_better_than_nothing
    one = seldom[0]
    assert seldom[1].size == (float(one.truth.mean()), one.root_mean_square)


# -- how far forecasts are off -------------------------------------------------------------------


@dataclass
class Gaps:
    """A simulation in which all is known: forecasts, how far they are off, and noise."""

    predicted: np.ndarray
    gap: np.ndarray
    sd: float
    stream: Any = None
    active: Any = None

    def __post_init__(self) -> None:
        one = type("One", (), {"coordinates": self.gap.shape[1]})
        self.stream = type("Known", (), {"truth": self.predicted + self.gap, "query": one})
        self.active = np.zeros_like(self.gap)

    def forecast(self, post: PostProcessing) -> tuple[np.ndarray, np.ndarray]:
        return self.predicted, np.full(self.predicted.shape, self.sd**2)


def constant(predicted: float, gap: float, sd: float = 1.0, ticks: int = 40) -> Gaps:
    return Gaps(np.full((ticks, 1), predicted), np.full((ticks, 1), gap), sd)


def off_of(known: Gaps) -> float:
    return forecast_off(cast(Simulation, known), PostProcessing())


def holds(known: Gaps, off: float) -> float:
    """How often an interval of 95 % with room for so much holds: by the normal distribution."""
    room = 1.959964 * known.sd + off * np.abs(known.predicted)
    ends = (np.array([room - known.gap, room + known.gap]) / known.sd / 2**0.5).ravel().tolist()
    return float(np.mean([math.erf(end) for end in ends]))


@pytest.mark.parametrize("gap", [0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("sign", [1, -1])
def test_how_far_forecasts_are_off_is_the_least_share_that_holds(gap: float, sign: int) -> None:
    """Of forecasts of 10 that are off by 1, 2, 5 and 9: to a step of 2 %."""
    known = constant(10.0, sign * 10 * gap)
    off = off_of(known)
    assert gap - 0.04 <= off <= gap
    assert holds(known, off) >= 0.95
    assert holds(known, off - 0.02) < 0.95


def test_it_is_of_all_ticks_together() -> None:
    """Few ticks that are far off don't count alone; half of them do."""
    gaps = np.full((100, 1), 1.0)
    gaps[:50] = 7.0
    known = Gaps(np.full((100, 1), 10.0), gaps, 1.0)
    off = off_of(known)
    assert holds(known, off) >= 0.95
    assert holds(known, off - 0.03) < 0.95
    assert 0.6 <= off <= 0.8
    gaps[2:50] = 1.0  # what the other 98 have room for makes good for two
    few = off_of(Gaps(np.full((100, 1), 10.0), gaps, 1.0))
    assert few < 0.3


def test_far_off_is_as_far_as_is_looked_and_two_digits() -> None:
    assert off_of(constant(1.0, 1000.0)) == 8.0
    off = off_of(constant(10.0, 23.0))
    assert off == float(f"{off:.2g}")
    assert holds(constant(10.0, 23.0), off) >= 0.95
    assert 2.1 <= off <= 2.6


def test_forecasts_that_are_right_are_not_off() -> None:
    """Also where nobody has left, so that there are none."""
    assert off_of(constant(10.0, 0.0)) <= 0.02
    assert off_of(constant(0.0, 0.0)) <= 0.02


def test_intervals_of_what_is_recommended_hold(seldom: Known) -> None:
    """20 runs with the noise of a store, on both samples of the same people."""
    one, of = seldom
    p = of.recommended.purpose
    assert p.forecast
    for sample in (one, stream(one.query, SELDOM, 7, 2 * TICKS)):
        setting = BudgetSplit(p.counts, p.forecast, cap=p.cap)
        (done,) = simulate([sample], KAPPA, setting)
        held = []
        for seed in range(20):
            made = done.corrections(seed, PostProcessing(period=p.season, off=p.off))
            held += [abs(c.values - t) <= c.error for c, t in zip(made, sample.truth, strict=True)]
        assert np.mean(held) >= 0.94
