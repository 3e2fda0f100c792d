"""count(DISTINCT x) of public values: as many as in DuckDB, within an interval that holds it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.released.outputs import Measurements
from sparseq.released.statistics import DistinctNode

SHOPS = pa.table({"shop": [f"s{i}" for i in range(40)], "city": [f"c{i % 7}" for i in range(40)]})
QUESTIONS = [
    "SELECT count(DISTINCT kind) AS v FROM t",
    "SELECT count(DISTINCT kind) AS v FROM t WHERE n > 3",
    "SELECT count(DISTINCT kind) AS v FROM t WHERE n > 1000",
    "SELECT count(DISTINCT day) AS v FROM t WHERE kind = 'b'",
    "SELECT count(DISTINCT n) AS v FROM t WHERE n < 9",
    "SELECT count(DISTINCT shop) AS v FROM t JOIN shops USING (shop)",
    "SELECT count(DISTINCT city) AS v FROM t JOIN shops USING (shop) WHERE kind <> 'a'",
    "SELECT count(DISTINCT date_trunc('week', day)) AS v FROM t",
    "SELECT count(DISTINCT CASE WHEN n > 4 THEN kind END) AS v FROM t",
    "SELECT count(DISTINCT kind) FILTER (WHERE n = 2) AS v FROM t",
    "SELECT count(DISTINCT CASE WHEN n < 5 THEN 'few' ELSE 'many' END) AS v FROM t",
    "SELECT count(DISTINCT n % 3) AS v FROM t WHERE n % 3 IN (0, 1, 2)",
    "SELECT count(DISTINCT flag) AS v FROM t",
    "SELECT count(DISTINCT kind) * 2 + 1 AS v FROM t",
]
GROUPED = [
    "SELECT flag AS k, count(DISTINCT kind) AS v FROM t GROUP BY flag",
    "SELECT kind AS k, count(DISTINCT day) AS v FROM t WHERE n < 3 GROUP BY kind",
    "SELECT date_trunc('month', day) AS k, count(DISTINCT kind) AS v FROM t GROUP BY 1",
]


def rows() -> pa.Table:
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(120), rng.integers(1, 6, 120))
    days = rng.integers(0, 60, len(who))
    kinds = [("a", "b", "c", None)[i] for i in rng.integers(0, 4, len(who))]
    return pa.table(
        {
            "who": who,
            "kind": kinds,
            "n": rng.integers(0, 12, len(who)),
            "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(d) // 2 * 2) for d in days],
            "shop": [f"s{i}" for i in rng.integers(0, 25, len(who))],
            "flag": rng.integers(0, 2, len(who)).astype(bool),
            "word": [f"w{i}" for i in range(len(who))],
        }
    )


def made(**options: Any) -> sparseq.Store:
    settings: dict[str, Any] = {
        "kappa": 1024.0,
        "seed": 4,
        "keys": {"kind": ["a", "b", "c", "d"]},
        "bounds": {"n": (0, 20), "day": ("2024-01-01", "2024-03-31")},
        "public": {"shops": SHOPS},
    }
    return sparseq.create(None, {"t": rows()}, user="who", **(settings | options))


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return made()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    for name, table in {"t": rows(), "shops": SHOPS}.items():
        found.register("incoming", table)
        found.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        found.unregister("incoming")
    return found


@pytest.mark.parametrize("sql", QUESTIONS)
def test_as_many_as_in_duckdb(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    """At a level at which a count of two people stands out of the noise."""
    (row,), ((truth,),) = con.sql(sql).rows(), plain.execute(sql).fetchall()
    assert row["v_low"] <= truth <= row["v_high"], (row, truth)
    assert abs(row["v"] - truth) <= max(2, 0.1 * truth), (row, truth)


@pytest.mark.parametrize("sql", GROUPED)
def test_in_groups(plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    truth = {str(k)[:10]: v for k, v in plain.execute(sql).fetchall()}
    with made() as con:
        for row in con.sql(sql).rows():
            assert row["v_low"] <= truth.get(str(row["k"])[:10], 0) <= row["v_high"], row


def test_under_noise_the_interval_holds_the_truth_and_the_value_is_never_above_it(
    plain: duckdb.DuckDBPyConnection,
) -> None:
    """A value that is counted is there, with the confidence of the answer; 40 stores."""
    sql = "SELECT count(DISTINCT shop) AS v FROM t JOIN shops USING (shop)"
    ((truth,),) = plain.execute(sql).fetchall()
    above = outside = 0
    for seed in range(40):
        with made(kappa=2.0, seed=seed) as con:
            (row,) = con.sql(sql).rows()
            above += row["v"] > truth
            outside += not row["v_low"] <= truth <= row["v_high"]
            assert row["v_high"] <= 40
    assert above <= 5
    assert outside <= 5


def test_rows_with_other_values_are_said_not_to_be_counted() -> None:
    with made(keys={"kind": ["a", "b"]}) as con:
        answer = con.sql("SELECT count(DISTINCT kind) AS v FROM t")
        assert answer.rows()[0]["v"] == 2
        note = "COUNT(DISTINCT kind) is of the 2 public values alone"
        assert note in answer.facts.notes
        assert note not in con.sql("SELECT count(DISTINCT flag) AS v FROM t").facts.notes


@pytest.mark.parametrize("column", ["word", "who + n"])
def test_values_that_are_not_public_are_refused_with_what_helps(column: str) -> None:
    with made() as con, pytest.raises(QueryRefused) as refused:
        con.sql(f"SELECT count(DISTINCT {column}) AS v FROM t")
    assert "are not public" in refused.value.message
    assert "count(DISTINCT who) counts people" in refused.value.hint


def test_a_value_may_be_there_if_its_count_may_be_1() -> None:
    counts = np.array([[5.0, 0.2, 3.0, 1.5]])
    found = DistinctNode(0)(Measurements([counts], [1.0], [], 1))
    assert (found.value, found.low, found.high) == (3, 3, 4)
