"""Strategies that are simulated and planned: the store's own measurements, and sound advice."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.accounting import Budget
from sparseq.accounting.strategies import Strategy
from sparseq.base.errors import DataError, ParameterError
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.plan_strategies import PlanTarget, targets_of
from sparseq.series.planning.simulate_strategy import StrategySetting, simulate_setting, window_sums
from sparseq.series.planning.verdict import STRATEGY, Method, verdict
from sparseq.store.store import Store

FIRST = dt.date(2024, 1, 1)
SQL = "SELECT {}count(*) AS n FROM t WHERE day = DATE '{}'{}"


def events(chance: np.ndarray, ticks: int, seed: int) -> pa.Table:
    """People who come at random, each with a chance of its own; some twice a day."""
    rng = np.random.default_rng(seed)
    day, who = np.nonzero(rng.random((ticks, len(chance))) < chance)
    twice = rng.random(len(day)) < 0.1
    day, who = np.append(day, day[twice]), np.append(who, who[twice])
    days = pa.array([FIRST + dt.timedelta(int(d)) for d in day], pa.date32())
    return pa.table({"who": who, "day": days, "kind": [f"k{w % 3}" for w in who]})


def store_of(table: pa.Table, norm_budget: float) -> Store:
    return sparseq.create(
        None,
        {"t": table},
        user="who",
        seed=4,
        keys={"kind": ["k0", "k1", "k2"]},
        purposes=[sparseq.Questions(in_or_out=True, counts=norm_budget)],
    )


def stream_of(table: pa.Table, ticks: int, grouped: bool = False) -> KnownStream:
    with store_of(table, 20.0) as store:
        asked = [store.lower(sql_of(t, grouped)) for t in range(ticks)]
        people = store.stream.people.inside()
        cells = [store.stream.engine.cells(store.explain(q), people) for q in asked]
        return KnownStream.of(asked[0], people, cells, 1.0)


def sql_of(tick: int, grouped: bool) -> str:
    by = ("kind, ", " GROUP BY kind") if grouped else ("", "")
    return SQL.format(by[0], FIRST + dt.timedelta(tick), by[1])


def strategy_of(stream: KnownStream, target: str) -> Method:
    """The best strategy at kappa 0.5, recommended or not."""
    found = verdict(stream, "s", Budget(1.0, 48.0), 0.5, targets_of(target))
    return next(m for m in found.methods if m.name == STRATEGY)


def test_the_plan_has_room_for_what_its_own_settings_leave_out() -> None:
    """Sums of the target over the same data: taken in and room together are not below the truth."""
    busy = np.append(np.full(60, 0.15), np.full(2, 0.9))
    stream = stream_of(events(busy, 120, seed=3), 120)
    best = strategy_of(stream, "28d").purpose
    found = simulate_setting(stream, StrategySetting(best.strategy, best.counts, 0.5))
    grown = stream.truth * (best.left_out * np.arange(1, 121)[:, None] / 365)
    assert (window_sums(found.missing, 28) <= window_sums(grown, 28) + 1e-9).all()
    assert best.left_out > 0 or not found.missing.any()
    assert best.left_out <= 0.99


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("strategy", "budget"), [("news:0.4,5", 6.5), ("window:3", 11.0)])
def test_what_is_simulated_is_what_a_store_gives(
    grouped: bool, strategy: str, budget: float
) -> None:
    """Bit by bit, with people left out."""
    table = events(np.linspace(0.02, 0.9, 60), 14, seed=1)
    found = simulate_setting(stream_of(table, 14, grouped), StrategySetting(strategy, budget, 0.5))
    with store_of(table, budget) as store:
        series = CorrelatedSeries(store, "s", strategy)
        values = [series.ask(t, store.lower(sql_of(t, grouped))).values for t in range(14)]
        spent = store.stream.accounts.spent / 2**24
    assert np.array_equal(values, found.series(4))
    assert np.array_equal(spent, found.charged)
    assert 0.02 < found.left_out < 0.6


def test_errors_are_those_of_many_runs() -> None:
    """Of ticks, windows and totals, noise and what is left out together."""
    stream = stream_of(events(np.linspace(0.02, 0.9, 60), 14, seed=1), 14)
    found = simulate_setting(stream, StrategySetting("news:0.4,5", 6.5, 0.5))
    for width in (1, 4, 14):
        runs = [window_sums(found.series(seed) - stream.truth, width) for seed in range(400)]
        assert math.sqrt(np.mean(np.square(runs))) == pytest.approx(found.errors(width)[2], rel=0.1)


def test_where_people_come_every_day_news_is_recommended_and_holds() -> None:
    table = events(np.full(300, 0.85), 80, seed=2)
    stream = stream_of(table, 80)
    found = verdict(stream, "s", Budget(1.0, 48.0), 0.5, targets_of("day")).recommended
    assert found.name == STRATEGY
    assert found.worst < 0.75
    best = found.purpose
    assert Strategy.of(best.strategy).taps[1] < 0
    rerun = simulate_setting(stream, StrategySetting(best.strategy, best.counts, 0.5))
    assert rerun.errors(1)[2] == pytest.approx(found.errors[0], rel=0.01)


@pytest.mark.deep
def test_for_totals_taps_are_positive() -> None:
    table = events(np.full(300, 0.1), 60, seed=3)
    found = strategy_of(stream_of(table, 60), "total")
    assert Strategy.of(found.purpose.strategy).taps[1] > 0
    assert found.ratios[2] < 0.95


def test_targets_are_read_or_refused() -> None:
    assert targets_of("week,total:3") == (PlanTarget("week", 7), PlanTarget("total", 0, 3.0))
    for bad in ("", "day,", "0d", "28d:0", "28d:x", "year"):
        with pytest.raises(ParameterError, match="nothing to plan for"):
            targets_of(bad)


def test_nobody_is_nothing_to_plan_on() -> None:
    table = events(np.full(3, 1.0), 2, seed=1)
    stream = stream_of(table, 2).between(0, 0)
    with pytest.raises(DataError, match="anybody"):
        verdict(stream, "s", Budget(1.0, 48.0), 0.5, targets_of("day"))
