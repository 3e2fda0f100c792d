"""Bounds of counts, totals and differences of times that nobody declared: found once, then kept."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Options
from sparseq.store.whole_price import charge_of

PEOPLE = 500
EXACT = 1024.0
"""A level at which noise hides next to nothing."""
PER_PERSON = "(SELECT who, count(*) AS n, sum(x) AS total, avg(y) AS m FROM t GROUP BY who)"
LENGTHS = "(SELECT who, date_diff('minute', a, b) AS minutes FROM t)"
AVERAGES = {
    "a person's count": f"SELECT avg(n) AS v FROM {PER_PERSON}",
    "a person's total": f"SELECT avg(total) AS v FROM {PER_PERSON}",
    "a person's average": f"SELECT avg(m) AS v FROM {PER_PERSON}",
    "totals added up": f"SELECT sum(total) AS v FROM {PER_PERSON}",
    "a quotient": f"SELECT avg(total / (n + 1)) AS v FROM {PER_PERSON}",
    "a share of each": "SELECT avg(c * 1.0 / n) AS v FROM (SELECT who, count(*) AS n, "
    "countif(kind = 'b') AS c FROM t GROUP BY who)",
    "those above": f"SELECT sum(CASE WHEN total > 50 THEN total ELSE 0 END) AS v FROM {PER_PERSON}",
    "with those who have none": "SELECT avg(coalesce(s, 0)) AS v "
    "FROM (SELECT DISTINCT who FROM t) p LEFT JOIN "
    "(SELECT who, sum(x) AS s FROM t WHERE kind = 'b' GROUP BY who) q ON q.who = p.who",
    "minutes": f"SELECT avg(minutes) AS v FROM {LENGTHS}",
    "hours": "SELECT avg(date_diff('hour', a, b)) AS v FROM t",
    "seconds": "SELECT avg(epoch(b - a)) AS v FROM t",
    "years": "SELECT avg(date_diff('year', born, DATE '2024-06-01')) AS v FROM t",
    "age": "SELECT avg(extract(year FROM age(DATE '2024-06-01', born))) AS v FROM t",
    "text": "SELECT avg(length(word)) AS v FROM t",
    "gaps": "SELECT avg(gap) AS v FROM (SELECT date_diff('hour', lag(a) OVER (PARTITION BY who "
    "ORDER BY a, x), a) AS gap FROM t)",
    "below 0": "SELECT sum(z * 2 - 1) AS v "
    "FROM (SELECT who, min(x) - max(x) AS z FROM t GROUP BY who)",
    "a deviation": f"SELECT stddev(n) AS v FROM {PER_PERSON}",
    "all zero": "SELECT avg(date_diff('year', a, b)) AS v FROM t WHERE a < DATE '2024-06-01'",
    "in groups": f"SELECT avg(CASE WHEN n > 3 THEN total END) AS v FROM {PER_PERSON}",
}
QUANTILES = {
    "of a person's count": f"SELECT median(n) AS v FROM {PER_PERSON}",
    "of a person's total": f"SELECT quantile_cont(total, 0.9) AS v FROM {PER_PERSON}",
    "of minutes": f"SELECT median(minutes) AS v FROM {LENGTHS}",
    "of a column": "SELECT quantile_cont(x, 0.25) AS v FROM t",
}


def rows(people: int = PEOPLE) -> pa.Table:
    rng = np.random.default_rng(7)
    who = np.repeat(np.arange(people), rng.integers(1, 9, people))
    start = dt.datetime(2024, 1, 1)
    a = [start + dt.timedelta(minutes=int(m)) for m in rng.integers(0, 90_000, len(who))]
    return pa.table(
        {
            "who": who,
            "x": rng.uniform(0, 30, len(who)).round(2),
            "y": rng.integers(-20, 20, len(who)),
            "kind": [("a", "b", "c")[i] for i in rng.integers(0, 3, len(who))],
            "a": a,
            "b": [
                t + dt.timedelta(minutes=int(m))
                for t, m in zip(a, rng.integers(1, 4_000, len(who)), strict=True)
            ],
            "born": [dt.date(1950 + int(i) % 50, 3, 1) for i in who],
            "word": ["w" * int(n) for n in rng.integers(1, 60, len(who))],
        }
    )


def made(people: int = PEOPLE, path: Path | None = None, **options: Any) -> sparseq.Store:
    settings = {"kappa": EXACT, "seed": 5, "keys": {"kind": ["a", "b", "c"]}} | options
    return sparseq.create(path, {"t": rows(people)}, user="who", **settings)


@pytest.fixture
def con() -> sparseq.Store:
    """A store whose budgets are whole: each question has its own."""
    return made()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    found, t = duckdb.connect(), rows()
    found.register("incoming", t)
    found.execute("CREATE TABLE t AS SELECT * FROM incoming")
    return found


@pytest.mark.parametrize("name", AVERAGES)
def test_sums_and_averages_are_duckdbs(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, name: str
) -> None:
    """Bounds are above everybody's values here: nothing is cut, and intervals hold the truth."""
    answer = con.sql(AVERAGES[name])
    (row,), ((truth,),) = answer.rows(), plain.execute(AVERAGES[name]).fetchall()
    assert row["v_low"] <= (truth or 0) <= row["v_high"], (row, truth)
    assert row["v"] == pytest.approx(truth or 0, rel=0.1, abs=1)


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_are_duckdbs(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, name: str
) -> None:
    (row,), ((truth,),) = con.sql(QUANTILES[name]).rows(), plain.execute(QUANTILES[name]).fetchall()
    assert row["v_low"] <= truth <= row["v_high"], (row, truth)
    assert row["v"] == pytest.approx(truth, rel=0.25, abs=1)


def test_counts_of_each_person_are_group_keys(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection
) -> None:
    sql = f"SELECT n, count(*) AS people FROM {PER_PERSON} GROUP BY n ORDER BY n"
    answer, truth = con.sql(sql), dict(plain.execute(sql).fetchall())
    found = {row["n"]: row for row in answer.rows()}
    assert found.keys() >= truth.keys()
    for n, row in found.items():
        assert row["people_low"] <= truth.get(n, 0) <= row["people_high"]
    assert any("whose n is in no group" in note for note in answer.facts.notes)


def test_a_search_is_charged_once_and_serves_other_conditions() -> None:
    with made() as con:
        text = "SELECT avg(date_diff('hour', a, b)) AS v FROM t"
        query = con.lower(text)
        assert "where DATE_DIFF('HOUR', a, b) lies is asked" in repr(con.explain(text))
        most = charge_of(con, query, Options())
        con.sql(text)
        assert con.released == 3  # where it lies, how many are beyond, the average
        assert sum(con.release(one.id).facts.charge for one in con.releases()) <= most + 1e-9
        con.sql(
            "SELECT kind, median(date_diff('hour', a, b)) AS v FROM t WHERE x > 9 GROUP BY kind"
        )
        assert con.released == 4
        assert "lies is asked" not in repr(con.explain(text))


@pytest.mark.parametrize(
    ("asked", "again", "searches"),
    [
        (
            "SELECT avg(date_diff('hour', o.a, o.b)) AS v FROM t AS o",
            "SELECT sum(date_diff('hour', t.a, t.b)) AS s FROM t",
            1,
        ),
        (
            f"SELECT avg(one.n) AS v FROM {PER_PERSON} AS one",
            "SELECT avg(many) AS v FROM (SELECT who AS w, count(*) AS many, sum(x) AS total, "
            "avg(y) AS m FROM t GROUP BY who) AS per_person",
            1,
        ),
        (
            f"SELECT avg(n) AS v FROM {PER_PERSON}",
            f"SELECT avg(n) AS v FROM {PER_PERSON.replace('avg(y)', 'max(y)')}",
            2,
        ),
    ],
)
def test_other_names_of_the_same_are_not_searched_again(
    asked: str, again: str, searches: int
) -> None:
    with made() as con:
        con.sql(asked)
        assert ("lies is asked" in repr(con.explain(again))) == (searches > 1)
        con.sql(again)
        assert len(con.found_bounds.by_value) == searches


def test_a_condition_decides_by_values_that_are_not_cut() -> None:
    """One value of 1,000 lies beyond the bounds that are found: it is of neither branch."""
    t = rows()
    odd = t.slice(0, 1).set_column(1, "x", pa.array([1_000.0]))
    sql = "SELECT sum(CASE WHEN x > 900 THEN x - x ELSE x END) AS s FROM t"
    with sparseq.create(None, {"t": pa.concat_tables([t, odd])}, user="who", seed=5) as con:
        (row,) = con.sql(sql).rows()
        lowered = con.lower(sql)
        (text,) = [m.value.sql for m in lowered.measures if m.value is not None]
        assert text.count('CASE WHEN ("t"."x" > ') == 1
        assert row["s_low"] <= sum(t["x"].to_pylist()) <= row["s_high"]


def test_values_beyond_what_was_found_count_as_its_end_and_that_is_said() -> None:
    """One person of 500 has 4,000 rows: beyond the bound, if noise is as usual."""
    t = rows()
    many = pa.concat_tables([t, *[t.slice(0, 1)] * 4_000])
    with sparseq.create(None, {"t": many}, user="who", seed=5) as con:
        answer = con.sql(f"SELECT sum(n) AS s FROM {PER_PERSON}")
        (found,) = con.found_bounds.by_value.values()
        counts = np.unique(np.asarray(many["who"]), return_counts=True)[1]
        (row,) = answer.rows()
        assert found.low == 0 < found.high < counts.max()
        assert row["s_low"] <= np.minimum(counts, found.high).sum() <= row["s_high"]
        assert any("values of n below 0 or above" in note for note in answer.facts.notes)


def test_what_was_found_is_kept(tmp_path: Path) -> None:
    path, text = tmp_path / "s.sparseq", f"SELECT avg(n) AS v FROM {PER_PERSON}"
    with made(path=path) as con:
        con.sql(text)
        known = con.found_bounds.by_value
    with sparseq.connect(path) as again:
        assert again.found_bounds.by_value == known != {}
        again.sql(f"SELECT stddev(n) AS v FROM {PER_PERSON}")
        assert again.released == 4


def test_what_is_not_searched_for() -> None:
    """Identifiers, values made of a released number, and nothing where the curator says never."""
    with made() as con:
        for sql in (
            "SELECT avg(who) FROM t",
            f"SELECT max(n) FROM {PER_PERSON}",
            "SELECT sum(who * 2) FROM t",
            f"SELECT avg(n - (SELECT avg(x) FROM t)) FROM {PER_PERSON}",
            "SELECT y, count(*) FROM t GROUP BY y",
            "SELECT m, count(*) FROM (SELECT who, min(y) AS m FROM t GROUP BY who) GROUP BY m",
        ):
            with pytest.raises(QueryRefused):
                con.sql(sql)
        assert con.released == 0
        con.sql(f"SELECT sum(n) AS s FROM {PER_PERSON}", scale=20)
        assert con.released == 1, "a scale of the caller's needs no bounds"
        con.sql(f"SELECT n, count(*) AS s FROM {PER_PERSON} GROUP BY n", scale=2)
        assert con.released == 4, "groups do"
    with made(find_bounds=None) as con:
        for what in ("avg(n)", "median(n)"):
            with pytest.raises(QueryRefused, match="public"):
                con.sql(f"SELECT {what} FROM {PER_PERSON}")
        assert con.released == 0


def test_too_few_people_are_told_so_once() -> None:
    with made(people=3, kappa=0.5) as con:
        for _ in range(2):
            with pytest.raises(QueryRefused, match="too few people have a value of n"):
                con.sql(f"SELECT avg(n) AS v FROM {PER_PERSON}")
        assert con.released == 1, "asking again is free"


def test_cells_of_few_people_are_not_shown_in_a_search_either() -> None:
    """A cell of 5 people is hidden: the bounds are those of the others."""
    far = rows().append_column(
        "far", pa.array([1e6 if w < 5 else 3.0 for w in rows()["who"].to_pylist()])
    )
    highs = {}
    for least in (0, 20):
        with sparseq.create(
            None, {"t": far}, user="who", seed=5, kappa=EXACT, least_people=least
        ) as con:
            con.sql("SELECT avg(m) AS v FROM (SELECT who, max(far) AS m FROM t GROUP BY who)")
            (found,) = con.found_bounds.by_value.values()
            highs[least] = found.high
    assert highs[20] == 20 < 1e6 < highs[0]
