"""The simulation that plans are made with, against stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checks.stores import made_store
from sparseq.ledger.pots import Pot
from sparseq.question.plan import Query
from sparseq.series.methods.corrector import PostProcessing
from sparseq.series.methods.forecast import Forecast
from sparseq.series.planning.known_stream import KnownStream
from sparseq.series.planning.simulate import BudgetSplit, Simulation
from sparseq.series.planning.simulate import simulate as simulate_all
from sparseq.store.store import Store

DAYS = 25
COUNT = "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}"
BY_KIND = "SELECT kind, sum(amount) AS total FROM t WHERE day = {} GROUP BY kind"


def make(norm_budget: float, reserves: dict[str, float], seed: int = 5) -> Store:
    rng = np.random.default_rng(1)
    day, who = np.nonzero(rng.random((DAYS, 80)) < rng.uniform(0.05, 1.0, 80))
    table = pa.table(
        {
            "who": who,
            "day": day,
            "kind": np.array(["a", "b", "c"])[rng.integers(0, 3, len(who))],
            "amount": rng.integers(-8, 17, len(who)) / 4,
        }
    )
    settings: dict[str, Any] = {"keys": {"kind": ["a", "b", "c"]}, "bounds": {"amount": (-2, 4)}}
    return made_store(
        None,
        table,
        user="who",
        table="t",
        norm_budget=norm_budget,
        reserves=reserves,
        seed=seed,
        **settings,
        in_or_out=True,
    )


def queries(store: Store, sql: str) -> list[Query]:
    return [store.lower(sql.format(day)) for day in range(DAYS)]


def stream(store: Store, sql: str) -> KnownStream:
    asked = queries(store, sql)
    plan = store.explain(asked[0])
    cells = [
        store.stream.engine.cells(store.explain(q), store.stream.people.inside()) for q in asked
    ]
    return KnownStream.of(asked[0], store.stream.people.inside(), cells, plan.noise[0].granularity)


def simulate(stream: KnownStream, kappa: float, setting: BudgetSplit) -> Simulation:
    (simulated,) = simulate_all([stream], kappa, setting)
    return simulated


@pytest.mark.parametrize(
    ("form", "post"),
    [
        ("mean", PostProcessing()),
        ("own", PostProcessing(0.3, True, 7)),
        ("recent:5", PostProcessing(1.0)),
    ],
)
@pytest.mark.parametrize("sql", [COUNT, BY_KIND])
def test_with_forecasts_it_gives_the_stores_answers_bit_by_bit(
    sql: str, form: str, post: PostProcessing
) -> None:
    setting = BudgetSplit(8.0, 0.25, form=form, cap=0.5)
    with make(8.0, {"forecast": 0.25}) as store:
        simulated = simulate(stream(store, sql), 0.5, setting)
        forecast = Forecast(store, "s", ticks=DAYS, form=form, cap=0.5, post=post)
        found = [forecast.ask(t, q).corrected for t, q in enumerate(queries(store, sql))]
        assert simulated.departed == len(np.unique(forecast._left.users)) > 5
    np.testing.assert_array_equal(simulated.corrected(5, post), found)


@pytest.mark.parametrize("sql", [COUNT, BY_KIND])
def test_without_it_drops_whom_the_store_drops(sql: str) -> None:
    """Sums differ from day to day, so that who was dropped may be active again."""
    with make(3.0, {}) as store:
        simulated = simulate(stream(store, sql), 0.5, BudgetSplit(3.0))
        found, dropped = [], []
        for query in queries(store, sql):
            told: list[Any] = []
            answer = store.step(
                query, store.stream.contributions, gated=lambda g, t=told: t.append(g) or []
            )
            dropped.append(int((~told[0].active).sum()))
            found.append(answer.arrow()[answer.arrow().column_names[-2]].to_numpy())
        at = simulated.stream.tick[simulated.stream.starts]
        assert np.bincount(at[simulated.dropped], minlength=DAYS).tolist() == dropped
        assert sum(dropped) > 20
        assert int(store.stream.pots[Pot.QUERIES].spent.max()) > 0
    np.testing.assert_array_equal(simulated.corrected(5, PostProcessing()), found)


def test_two_series_that_share_budgets_are_dropped_as_in_a_store() -> None:
    """Asked in turn at every tick; each makes forecasts from half of the reserve."""
    with make(8.0, {"forecast": 0.25}) as store:
        known = [stream(store, COUNT), stream(store, BY_KIND)]
        simulated = simulate_all(known, 0.5, BudgetSplit(8.0, 0.25))
        series = [Forecast(store, name, ticks=DAYS, share=0.5) for name in "ab"]
        asked = [queries(store, COUNT), queries(store, BY_KIND)]
        for t in range(DAYS):
            for forecast, texts in zip(series, asked, strict=True):
                forecast.ask(t, texts[t])
        for forecast, s in zip(series, simulated, strict=True):
            left = forecast._left
            found = np.zeros_like(s.left)
            np.add.at(found, (left.ticks, left.coordinates), left.steps)
            np.testing.assert_array_equal(found, s.left)
            assert forecast._columns.sigma == s.columns.sigma


def mean_square(simulated: Simulation, runs: int) -> float:
    truth = simulated.stream.truth
    return float(
        np.mean([(simulated.corrected(s, PostProcessing()) - truth) ** 2 for s in range(runs)])
    )


def test_the_error_in_closed_form_is_that_of_many_runs() -> None:
    """400 runs of 25 ticks; a tenth more or less noise would be seen."""
    with make(8.0, {}) as store:
        simulated = simulate(stream(store, COUNT), 0.5, BudgetSplit(8.0, 0.25))
    noise, bias, total = simulated.errors(PostProcessing())
    assert total**2 == pytest.approx(noise**2 + bias**2)
    assert mean_square(simulated, 400) == pytest.approx(total**2, rel=0.05)


def test_worst_case_drops_nobody() -> None:
    with make(8.0, {}) as store:
        simulated = simulate(stream(store, COUNT), 0.5, BudgetSplit(float(DAYS)))
    assert not simulated.dropped.any()
    assert simulated.errors(PostProcessing())[1] == 0


def test_the_noise_bound_holds_at_its_rate() -> None:
    """Corrected against the same without noise: 250 runs, each tick on its own at 95 %."""
    with make(8.0, {}) as store:
        simulated = simulate(stream(store, COUNT), 0.5, BudgetSplit(8.0, 0.25))
    expected = simulated.errors(PostProcessing())
    exact = without_noise(simulated)
    runs = np.array([simulated.corrected(s, PostProcessing()) for s in range(250)])
    error = np.abs(runs - exact)[:, -1, 0]
    with make(8.0, {"forecast": 0.25}) as store:
        forecast = Forecast(store, "s", ticks=DAYS)
        bound = [forecast.ask(t, q) for t, q in enumerate(queries(store, COUNT))][-1].noise_error
    assert 2 <= (error > bound).sum() <= 26  # 12.5 expected, standard deviation 3.4
    assert expected[1] > 0


def without_noise(simulated: Simulation) -> np.ndarray:
    assert simulated.left is not None
    assert simulated.columns is not None
    smooth, found = np.zeros(1), []
    for standing in np.cumsum(simulated.left, axis=0) * simulated.columns.step:
        smooth = 0.85 * smooth + 0.15 * standing
        found.append(smooth)
    return simulated.active + np.array(found)
