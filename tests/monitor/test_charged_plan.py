"""Planning on private data: one release, charged, and what is read off it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.engine.cells import cells_of
from sparseq.mechanisms.tree_counter import nodes_touched
from sparseq.monitor.charged_plan import charged_plan, charged_ranks
from sparseq.monitor.simulate import Stream
from sparseq.store import Store

TICKS = 40


@pytest.fixture
def known() -> tuple[Store, Stream]:
    rng = np.random.default_rng(1)
    rates = np.concatenate([np.full(3000, 0.03), np.full(200, 0.4)])
    day, who = np.nonzero(rng.random((TICKS, 3200)) < rates)
    table = pa.table({"who": who, "day": day})
    store = sparseq.create(None, table, user="who", table="t", seed=1, norm_budget=20)
    sql = "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}"
    asked = [store.lower(sql.format(d)) for d in range(TICKS)]
    cells = [cells_of(store._engine, store.explain(q), len(store._pots)) for q in asked]
    return store, Stream.of(asked[0], len(store._pots), cells, 1.0)


def test_the_ranks_are_near_and_everybody_pays_for_its_nodes(known: tuple[Store, Stream]) -> None:
    store, stream = known
    ranks = charged_ranks(store, stream, sigma=10.0, request_id="plan")
    totals = np.bincount(stream.users, minlength=stream.people)
    exact = [int((totals <= edge).sum()) for edge in ranks.query.edges]
    error = np.abs(np.array(ranks.cumulative[:-1]) - exact).max()
    assert 0 < error <= ranks.query.rank_error(1e-6)
    nodes = nodes_touched(ranks.query.place(totals.astype(float)) + 1, ranks.query.bins)
    paid = store._accounts.spent / 2**24
    np.testing.assert_allclose(paid, nodes * 20 / 10.0**2, rtol=2e-3)
    assert charged_ranks(store, stream, sigma=10.0, request_id="plan") == ranks
    assert len(store.history()) == 1


def test_the_plan_is_near_that_of_the_data_themselves(known: tuple[Store, Stream]) -> None:
    store, stream = known
    planned = charged_plan(charged_ranks(store, stream, sigma=10.0), 0.5, TICKS)
    assert planned.rows[0].worst_case
    assert planned.worst_case.total[0] == pytest.approx(TICKS**0.5)
    totals = np.bincount(stream.users)
    for c in planned.rows[1:]:
        exact = np.maximum(totals - c.setting.norm_budget, 0).sum() / totals.sum()
        assert c.dropped == pytest.approx(exact, abs=0.07)
    best = planned.recommended
    assert not best.worst_case
    assert 20 <= best.setting.norm_budget < TICKS  # few have more than 22 days
