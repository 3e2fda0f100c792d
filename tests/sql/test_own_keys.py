"""Keys that were declared to be one person's: joins, IN and groups by them, as in DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.base.errors import QueryRefused

QUESTIONS = [
    "SELECT count(*) AS v FROM visits v JOIN tests t ON t.visit = v.visit",
    "SELECT count(*) AS v FROM visits v JOIN tests t USING (visit) WHERE kind = 'b'",
    "SELECT count(DISTINCT v.who) AS v FROM visits v, tests t WHERE v.visit = t.visit AND t.x > 5",
    "SELECT count(*) AS v FROM visits v LEFT JOIN tests t ON t.visit = v.visit "
    "WHERE t.visit IS NULL",
    "SELECT count(*) AS v FROM visits WHERE visit IN (SELECT visit FROM tests WHERE x > 5)",
    "SELECT count(*) AS v FROM visits v WHERE EXISTS "
    "(SELECT 1 FROM tests t WHERE t.visit = v.visit AND t.x > v.length)",
    "SELECT count(*) AS v FROM visits v WHERE NOT EXISTS "
    "(SELECT 1 FROM tests t WHERE t.visit = v.visit)",
    "SELECT avg(n) AS v FROM (SELECT visit, count(*) AS n FROM tests GROUP BY visit)",
    "SELECT count(*) AS v FROM (SELECT visit FROM tests GROUP BY visit HAVING count(*) > 1)",
    "SELECT sum(m) AS v FROM (SELECT visit, max(x) AS m FROM tests WHERE x > 1 GROUP BY visit)",
    "SELECT avg(s) AS v FROM visits v JOIN "
    "(SELECT visit, who, sum(x) AS s FROM tests GROUP BY visit, who) t "
    "ON t.visit = v.visit AND t.who = v.who",
    "WITH per AS (SELECT v.visit, count(t.x) AS n FROM visits v LEFT JOIN tests t "
    "ON t.visit = v.visit GROUP BY v.visit) SELECT count(*) AS v FROM per WHERE n = 0",
]


def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(11)
    who = np.repeat(np.arange(200), rng.integers(0, 5, 200))
    visits = np.arange(len(who)) * 3 + 7
    chosen = rng.choice(len(who), 700)
    return {
        "visits": pa.table(
            {
                "who": who,
                "visit": visits,
                "kind": [("a", "b")[i] for i in rng.integers(0, 2, len(who))],
                "length": rng.integers(0, 9, len(who)),
            }
        ),
        "tests": pa.table(
            {"who": who[chosen], "visit": visits[chosen], "x": rng.integers(0, 10, 700)}
        ),
    }


def made(**options: Any) -> sparseq.Store:
    keys = {"visits.visit": "@own", "tests.visit": "@own", "visits.kind": ["a", "b"]}
    settings: dict[str, Any] = {"keys": keys, "kappa": 1024.0, "seed": 2} | options
    return sparseq.create(None, tables(), user="who", **settings)


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return made()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    for name, table in tables().items():
        found.register("incoming", table)
        found.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        found.unregister("incoming")
    return found


@pytest.mark.parametrize("sql", QUESTIONS)
def test_answers_are_duckdbs(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    (row,), ((truth,),) = con.sql(sql).rows(), plain.execute(sql).fetchall()
    assert row["v_low"] <= truth <= row["v_high"], (row, truth)
    assert row["v"] == pytest.approx(truth, rel=0.05, abs=2)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_row_that_breaks_the_promise_meets_nobody_elses(sql: str) -> None:
    """A key of two people: what each contributes is computed from the own rows alone."""
    both = tables()
    theirs = pa.table({"who": [9_999], "visit": both["visits"]["visit"].slice(0, 1), "x": [7]})
    both["tests"] = pa.concat_tables([both["tests"], theirs.cast(both["tests"].schema)])
    keys = {"visits.visit": "@own", "tests.visit": "@own", "visits.kind": ["a", "b"]}
    with sparseq.create(None, both, user="who", keys=keys, kappa=1024.0, seed=2) as with_one:
        mine = made().sql(sql).rows()[0]["v"]
        assert with_one.sql(sql).rows()[0]["v"] == pytest.approx(mine, rel=0.05, abs=2)


def test_both_columns_have_to_be_declared() -> None:
    with made(keys={"visits.visit": "@own"}) as con:
        for sql in QUESTIONS[:5]:
            with pytest.raises(QueryRefused, match=r"across users|other people's rows"):
                con.sql(sql)


def test_listed_values_of_a_key_are_still_groups() -> None:
    """WHERE visit IN (7, 10) makes public groups, and the outer SELECT is about their counts."""
    sql = (
        "SELECT sum(n) AS v FROM "
        "(SELECT visit, count(*) AS n FROM tests WHERE visit IN (7, 10) GROUP BY visit)"
    )
    with made() as con:
        assert [len(domain.values) for domain in con.lower(sql).domains] == [2]
