"""Sums over groups grow by the cut of sums, not by that of norms."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparseq
from sparseq.accounting.pilots import CELLS, Reading, ladder
from sparseq.accounting.pilots.choice import Choice, Question, choose, growth
from sparseq.accounting.pilots.group_sums import _powers, group_growth
from sparseq.store.curator import exact_sql

GROUPS = 40


@cache
def chosen(power: float, people: bool = False) -> tuple[Choice, np.ndarray, float]:
    """Return a scale, the answer without noise, and its true growth, for sums norm**power."""
    of = ladder(np.inf, 1.0)
    users = np.where(np.arange(CELLS) < 9, 5000 * 0.5 ** np.arange(CELLS), 0.0).round()
    seen = Reading(of, users, np.full(CELLS, 1.0), 8)
    question = Question(
        GROUPS, GROUPS, np.zeros(GROUPS, bool), 7.0, 0.05, people=people, rows=not people, scale=8.0
    )
    choice = choose(question, seen)
    sums = users * of.edges**power
    weights = np.minimum(1.0, choice.missing.scale / of.edges)
    kept = float(sums @ weights)
    return choice, np.full(GROUPS, kept / GROUPS), float(sums @ (1 - weights)) / kept


@pytest.mark.parametrize("power", [1.0, 1.3, 1.6, 2.0])
def test_the_growth_lies_between_that_of_norms_and_the_power_law(power: float) -> None:
    """By norms alone the growth is 0.08 whatever the power; the true one is up to 0.42."""
    choice, answer, true = chosen(power)
    norms = growth(choice.missing.share)
    grown, spread = group_growth(choice, answer, norms)
    apart = max(true - float(np.median(norms)), 0.0)
    assert float(np.median(norms)) <= float(np.median(grown)) + 1e-9
    assert float(np.median(grown)) == pytest.approx(np.median(norms) + 0.35 * apart, rel=0.2)
    assert spread >= 0


def test_the_growth_of_counts_of_users_is_exact() -> None:
    choice, answer, true = chosen(2.0, people=True)
    grown, spread = group_growth(choice, answer, growth(choice.missing.share))
    assert float(np.median(grown)) == pytest.approx(true, rel=0.1)
    assert spread == 0


@given(st.floats(-1e6, 1e9))
def test_every_total_has_a_growth(total: float) -> None:
    """A total that no power gives, as by noise, takes the nearest one: 1 or 2."""
    choice, _, _ = chosen(1.5)
    norms = growth(choice.missing.share)
    grown, spread = group_growth(choice, np.full(GROUPS, total / GROUPS), norms)
    assert np.isfinite(grown).all()
    assert np.isfinite(spread)
    assert (grown >= norms - 1e-12).all()


def test_sums_of_cells_are_as_large_as_the_truth() -> None:
    """Of 6 stores of people who differ in rows, by 60 days: 0.973 of the truth by norms alone.

    Two standard deviations of the mean are 0.015.
    """
    levels, inside = [], 0
    for seed in range(6):
        random = np.random.default_rng(seed)
        rows = np.maximum(1, np.exp(random.normal(1, 1, 4000)).astype(int))
        user = np.repeat(np.arange(4000), rows)
        day = random.integers(0, 60, len(user))
        table = pa.table({"u": user, "day": day})
        days = list(range(60))
        with sparseq.create(None, {"t": table}, user="u", seed=seed, keys={"day": days}) as con:
            sql = "SELECT day, count(*) AS n FROM t GROUP BY day ORDER BY day"
            found = con.sql(sql).arrow()
            true = np.array(exact_sql(con, sql)["n"].to_pylist())
        n, low, high = (found[name].to_numpy() for name in ("n", "n_low", "n_high"))
        levels.append(n.sum() / true.sum())
        inside += bool(((low <= true) & (true <= high)).all())
    assert np.mean(levels) == pytest.approx(1.0, abs=0.025)
    assert inside == 6


def powers_one_by_one(kept: np.ndarray, edges: np.ndarray, total: float) -> np.ndarray:
    low, high = np.ones(len(kept)), np.full(len(kept), 2.0)
    for _ in range(30):
        middle = (low + high) / 2
        below = (kept * edges ** middle[:, None]).sum(axis=1) < total
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


@pytest.mark.parametrize("cells", [0, 1, 5, 8, 9, 16, 31, CELLS])
def test_shared_powers_and_empty_cells_change_no_bit(cells: int) -> None:
    draw, edges = np.random.default_rng(cells), np.ldexp(1.0, np.arange(CELLS))
    for spread in (0.0, 0.5, 4.0):
        kept = draw.lognormal(3, spread, size=(600, CELLS)) * (draw.random((600, CELLS)) < 0.7)
        kept[:, cells:] = 0
        for power in (0.9, 1.2, 1.9, 2.1):
            total = float((kept * edges**power).sum(axis=1).mean())
            found = _powers(kept, edges, total)
            assert found.tobytes() == powers_one_by_one(kept, edges, total).tobytes()
