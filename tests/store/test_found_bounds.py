"""Bounds that nobody declared: found once, with a stated rate of failure; cutting is said."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.cli.app import sparseq as main
from sparseq.question.bound_cells import EDGES
from sparseq.question.plan import Options
from sparseq.store.bound_questions import FAILURE, question
from sparseq.store.found_bounds import Bounds
from sparseq.store.read_bounds import MARGIN, read_off
from sparseq.store.whole_price import charge_of
from sparseq.stream.batches import Request

PEOPLE = 600
EXACT = 1024.0
"""A level at which noise hides nothing."""


def rows(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(PEOPLE), 3)
    x = rng.uniform(1, 90, len(who))
    x[:2] = 1e9, np.inf
    x[7] = np.nan
    y = rng.integers(-40, 40, len(who))
    none = [None if i % 5 == 0 else float(v) for i, v in enumerate(x)]
    return pa.table({"who": who, "x": x, "y": y, "z": none, "text": ["a"] * len(who)})


def made(path: Path | None = None, **options: object) -> sparseq.Store:
    return sparseq.create(path, {"t": rows()}, user="who", **({"seed": 2} | options))


def cut(values: object, low: float, high: float) -> np.ndarray:
    numbers = np.array([math.nan if v is None else v for v in values], float)
    return np.clip(numbers[np.isfinite(numbers)], low, high)


def test_sums_are_of_values_cut_to_what_was_found_and_nothing_else_is() -> None:
    with made(kappa=EXACT) as con:
        answer = con.sql("SELECT sum(x) AS sx, avg(z) AS mz, sum(y) AS sy FROM t")
        (row,), found = answer.rows(), Bounds(con).list()["t"]
        ends = {name: (one["low"], one["high"]) for name, one in found.items()}
        table = rows()
        x, z, y = (cut(table[n].to_pylist(), *ends[n]) for n in ("x", "z", "y"))
        assert ends["y"][0] == -ends["y"][1] < 0 == ends["x"][0]
        for value, exact in ((row["mz"], z.mean()), (row["sy"], y.sum())):
            assert value == pytest.approx(exact, rel=2e-2, abs=60)
        assert row["sx"] == pytest.approx(x.sum(), rel=0.1)  # nearly all of it is one user's
        assert row["sx_low"] <= x.sum() <= row["sx_high"]
        assert con.sql("SELECT count(*) AS n FROM t WHERE x > 1e8").rows()[0]["n"] >= 1
        assert any("count as that end" in note for note in answer.facts.notes)


def test_it_is_asked_once_charged_once_and_said_before() -> None:
    text = "SELECT sum(x) AS s FROM t"
    with made() as con:
        said = repr(con.explain(text))
        assert "once for all questions: where x lies is asked" in said
        query = con.lower(text)
        before = charge_of(con, query, Options())
        con.sql(text)
        assert con.released == 3  # where it lies, how many are beyond, the sum
        assert sum(con.release(one.id).facts.charge for one in con.releases()) == before
        assert charge_of(con, con.lower(text), Options()) == before - 3  # a pilot of all rows, too
        spent = con.stream.accounts.spent.copy()
        con.sql(text)
        con.sql("SELECT sum(x) AS s, count(*) AS n FROM t WHERE y > 0")
        assert con.released == 4
        assert (con.stream.accounts.spent >= spent).all()
        assert "where x lies" not in repr(con.explain(text))


def test_finding_costs_a_person_no_more_than_a_count_of_people() -> None:
    """One cell a person: nobody pays more than 1, and the outsider 1 more, who alone is counted."""
    with made() as con:
        Bounds(con).find("t", "x")
        spent = con.stream.accounts.spent / con.stream.accounts.spent.min()
        assert np.sort(spent)[-2] == pytest.approx(1)
        assert spent.max() == pytest.approx(2, rel=1e-3)


def test_a_scale_of_the_callers_needs_no_bounds() -> None:
    with made() as con:
        con.sql("SELECT sum(x) AS s FROM t", scale=100)
        assert con.released == 1
        assert Bounds(con).list() == {}


def test_too_few_people_or_declared_bounds_alone_are_refused() -> None:
    few = pa.table({"who": [1, 2, 3], "x": [5.0, 6.0, 7.0]})
    with sparseq.create(None, {"t": few}, user="who", seed=1) as con:
        for _ in range(2):
            with pytest.raises(QueryRefused, match="too few people"):
                con.sql("SELECT sum(x) AS s FROM t")
        assert con.released == 1, "asking again is free"
    with made() as con, pytest.raises(QueryRefused, match="useful can't be told"):
        con.sql("SELECT sum(x) AS s FROM t", at_least_useful=True)
    assert con.stream.next_release == 1
    with made(find_bounds=None) as con:
        with pytest.raises(QueryRefused, match="no public scale"):
            con.sql("SELECT sum(x) AS s FROM t")
        assert con.released == 0
        Bounds(con).find("t", "x")  # the curator's word
        con.sql("SELECT sum(x) AS s FROM t")
    for column in ("text", "who"):
        with made() as con, pytest.raises(QueryRefused, match="no column of numbers"):
            Bounds(con).find("t", column)


def test_what_was_found_is_durable_and_a_curator_may_ask_at_once(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path, file = tmp_path / "s.sparseq", tmp_path / "t.parquet"
    pq.write_table(rows(), file)
    asked = ["create", str(path), str(file), "--user", "who", "--find-bounds", "x"]
    assert CliRunner().invoke(main, asked).exit_code == 0
    with sparseq.connect(path) as con:
        found = Bounds(con).list()
        assert list(found["t"]) == ["x"]
        assert con.released == 2
        con.sql("SELECT sum(x) AS s FROM t")
        assert con.released == 3
        assert Bounds(con).find("t", "x").high == found["t"]["x"]["high"]


@pytest.mark.deep
def test_bounds_of_people_in_or_out_and_of_several_askers() -> None:
    from sparseq.stream.batches import Request

    said = [sparseq.Questions(in_or_out=True, counts=40)]
    with made(purposes=said) as con:
        texts = ["SELECT sum(x) AS s FROM t", "SELECT avg(y) AS m FROM t"]
        asked = [Request(con.lower(text)) for text in texts]
        assert all(one.answer is not None for one in con.ask_many(asked))
        assert Bounds(con).list()["t"].keys() == {"x", "y"}


@pytest.mark.deep
def test_noise_alone_lifts_a_bound_at_the_stated_rate() -> None:
    """300 stores, asked with confidence 1/2: at least some far cells stand out, at most half.

    The same rule at FAILURE is then a matter of the confidence alone; none of 300 may fail there,
    of which the chance is above 0.7.
    """
    false = {0.5: 0, 1 - FAILURE: 0}
    for seed in range(300):
        values = pa.table({"who": range(400), "x": [float(i % 40) for i in range(400)]})
        with sparseq.create(None, {"t": values}, user="who", seed=seed) as con:
            table = con.catalog.table("t")
            for confidence in false:
                query = con.lower(question(table, table.column("x")))
                answer = con.ask(query, Options(confidence=confidence), fresh=True)
                ends = read_off(answer.arrow(), 0)
                false[confidence] += ends is not None and (ends[1] > 50 or ends[0] < 0)
    assert 30 < false[0.5] <= 150 + 4 * math.sqrt(75)
    assert false[1 - FAILURE] <= 3
    assert EDGES.index(50.0) + MARGIN == EDGES.index(200.0)


def test_a_search_that_found_too_few_people_is_refused_before_a_price_is_named() -> None:
    """Everything is refused alike, and for nothing, from the second time on."""
    rows = pa.table({"who": range(2000), "x": [1.0] * 5 + [None] * 1995})
    con = sparseq.create(None, {"t": rows}, user="who", seed=1)
    sql = "SELECT sum(x) AS s FROM t"
    assert con.explain(sql).facts["charge"] > 0, "nobody can know it yet"
    with pytest.raises(QueryRefused, match="too few people have a value of x") as first:
        con.sql(sql)
    spent, released = con.stream.accounts.spent.copy(), con.released
    for ask in (con.explain, con.sql):
        with pytest.raises(QueryRefused, match="too few people have a value of x") as again:
            ask(sql)
        assert (again.value.message, again.value.hint) == (first.value.message, first.value.hint)
    assert (con.stream.accounts.spent == spent).all()
    assert con.released == released


def test_a_batch_and_a_question_alone_are_refused_in_the_same_words() -> None:
    """A batch, so a server too, said that the sum has no public scale."""
    rows = pa.table({"who": range(2000), "x": [1.0] * 5 + [None] * 1995})
    sql = "SELECT sum(x) AS s FROM t"
    alone, batch = (sparseq.create(None, {"t": rows}, user="who", seed=1) for _ in range(2))
    with pytest.raises(QueryRefused, match="too few people") as refused:
        alone.sql(sql)
    first, second = batch.ask_many([Request(batch.lower(sql))] * 2)
    for outcome in (first, second):
        assert (outcome.refused.message, outcome.refused.hint) == (
            refused.value.message,
            refused.value.hint,
        )
    assert (first.charged, second.charged) == (True, False)
    assert batch.released == alone.released == 1
