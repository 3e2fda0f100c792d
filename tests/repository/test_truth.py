"""The benchmark of coverage measures what it says: see `benchmarks.truth`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.truth import SESSIONS, Outcome, Plan, outcome, repeats, upper_limit
from benchmarks.truth.asking import by_group
from benchmarks.truth.fixed import best_fixed
from benchmarks.truth.judge import judged, summary
from benchmarks.truth.made import ROWS, made
from benchmarks.truth.questions import MIXED, SOME, Asker
from benchmarks.truth.sets import EventSet, cdnow


@pytest.fixture(scope="module")
def few() -> EventSet:
    """Every 20th customer of CDNOW."""
    everybody = cdnow()
    rows = everybody.rows.filter(pl.col("person") % 20 == 0)
    rows = rows.with_columns(person=pl.col("person") // 20)
    return EventSet("few", rows, everybody.top)


@pytest.mark.parametrize("kind", sorted(MIXED | SOME))
def test_a_matrix_adds_up_to_what_plain_duckdb_says(few: EventSet, kind: str) -> None:
    shape = (MIXED | SOME)[kind]
    asker, draw = Asker(few), np.random.default_rng(3)
    for _ in range(5):
        q = asker.question(kind, shape, draw)
        sums = np.bincount(q.matrix.cells, q.matrix.values, q.matrix.coordinates) * q.unit
        if q.average:
            sums = sums[1:] / sums[:1] * q.unit
        assert len(q.truth) == len(q.groups)
        np.testing.assert_allclose(sums, q.truth, rtol=1e-9)


def test_a_seed_draws_constants_of_its_own(few: EventSet) -> None:
    asker = Asker(few)
    one, same, other = (asker.session(MIXED, 28, seed) for seed in (1, 1, 2))
    assert [q.sql for q in one] == [q.sql for q in same]
    assert len({q.sql for q in one} & {q.sql for q in other}) < 14


def test_one_value_outside_its_interval_is_an_answer_that_fails() -> None:
    truth, value = np.array([10.0, 20.0]), np.array([11.0, 20.0])
    inside = judged("k", truth, (value, np.array([9.0, 19]), np.array([12.0, 21])))
    outside = judged("k", truth, (value, np.array([9.0, 20.5]), np.array([12.0, 21])))
    marked = judged("k", truth, (value, np.array([0.0, 0]), np.array([25.0, 30])))
    assert (inside.inside, outside.inside) == (True, False)
    assert inside.error == pytest.approx(1 / np.sqrt(500))
    assert (inside.marked, marked.marked) == (0.0, 0.5)
    assert summary([inside, outside]).inside == 0.5


def test_of_what_is_null_anything_is_possible() -> None:
    rows = [
        {"g": 1, "x": None, "x_low": None, "x_high": None},
        {"g": 0, "x": 5, "x_low": 4.0, "x_high": 6.0},
    ]
    value, low, high = by_group(rows, ("0", "1"))
    assert (value.tolist(), low.tolist(), high.tolist()) == ([5, 0], [4, -np.inf], [6, np.inf])


def test_hindsight_cuts_nothing_where_noise_is_small_and_everybody_the_same() -> None:
    same = made("same")
    questions = Asker(same).session({"rows": MIXED["rows"]}, 4, 0)
    found = best_fixed(questions, same.people, 48.0, 0)
    assert max(a.error for a in found) < 0.02
    shared = best_fixed(questions, same.people, 0.0, 0, worst=100_000)
    assert summary(shared).error > 3 * summary(found).error


def test_a_store_is_asked_and_its_answers_judged(few: EventSet) -> None:
    plan = Plan(MIXED, 14)
    found: Outcome = outcome(few, plan, [0])
    assert len(found.answers) == len(found.fixed) == 14
    assert found.refused == found.spent_up == 0
    assert {a.kind for a in found.answers} == set(MIXED)
    assert {a.interval for a in found.answers} <= {"exact", "bounded", "assumed"}
    assert sum(a.inside for a in found.answers) >= 11
    assert SESSIONS["mixed60"].length == 60


@pytest.mark.parametrize("name", sorted(ROWS))
def test_adversarial_sets_have_rows_for_everybody(name: str) -> None:
    events = made(name)
    assert events.rows["person"].to_numpy().max() == events.people - 1
    least, most = -events.top if events.signed else 0.0, events.top
    assert events.rows["value"].is_between(least, most).all()


def test_the_upper_limit_is_that_of_clopper_and_pearson() -> None:
    assert upper_limit(100, 100) == 1.0
    assert 0.95 < upper_limit(1880, 2000) < 0.953
    assert upper_limit(1860, 2000) < 0.95


def test_repeated_questions_are_judged_by_thirds() -> None:
    found = repeats.repeated("few", "four in turn", None, length=6)
    assert (len(found.inside), found.refused) == (6, 0)
    assert [len(part.inside) for part in found.thirds()] == [2, 2, 2]
    wrong = repeats.Repeated([False] * 83 + [True] * 167, [1.0] * 250)
    assert [part.inside.count(False) for part in wrong.thirds()] == [83, 0, 0]
    refused = repeats.Repeated([True] * 3, [1.0] * 3, 1)
    assert [part.refused for part in refused.thirds()] == [1, 1, 1]


def test_runs_are_kept_and_written_as_a_table(tmp_path: Path) -> None:
    """A run that is kept is not done again; the page's table has those that are."""
    kept, page = tmp_path / "kept.jsonl", tmp_path / "page.md"
    first = list(repeats.figures(["few"], ["people"], kept, length=6))
    assert len(first) == 6
    size = kept.stat().st_size
    assert list(repeats.figures(["few"], ["people"], kept, length=10**9)) == first
    assert kept.stat().st_size == size
    page.write_text(f"before\n{repeats.BEGIN}\nold\n{repeats.END}\nafter\n")
    repeats.write_table(page, repeats.read_kept(kept))
    before, *lines, after = page.read_text().splitlines()
    assert (before, after) == ("before", "after")
    assert [line.split("|")[1:5] for line in lines[3:-1]] == [
        [" people ", " few ", f" {store} ", f" {missed} of 6 "]
        for store, missed in zip((60, 240), (_missed(first[:3]), _missed(first[3:])), strict=True)
    ]


def _missed(run: list[dict[str, Any]]) -> int:
    return round(sum(2 * (1 - one["figure"]) for one in run))


@pytest.mark.deep
@pytest.mark.parametrize("population", sorted(repeats.POPULATIONS))
def test_each_kind_of_question_alone_holds_to_the_end(population: str) -> None:
    """Of each third: as many as exact intervals, but for one chance in a thousand."""
    kinds = "people", "rows", "sum", "growing window", "four in turn"
    missed = [f for f in repeats.figures([population], kinds, None) if not f["ok"]]
    assert len(missed) <= 1, missed  # of 30
