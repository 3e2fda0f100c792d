"""Cohorts by a person's first day, in a range of the cohort: groups and counts are DuckDB's."""

from __future__ import annotations

import datetime as dt
import random

import duckdb
import pyarrow as pa
import pytest

import sparseq
from benchmarks.written.check import exact
from sparseq.base.errors import QueryRefused, without_query

LENGTHS = {"year": 500, "quarter": 200, "month": 150, "week": 60, "day": 20, "hour": 2}
"""Days of a range, by the unit of its cohorts."""
COHORTS = (
    "date_trunc('{unit}', min(seen))",
    "min(date_trunc('{unit}', seen))",
    "CAST(date_trunc('{unit}', min(seen)) AS DATE)",
    "date_trunc('{unit}', min(CAST(seen AS DATE)))",
    "max(date_trunc('{unit}', seen)) FILTER (WHERE x > 2)",
)
RANGES = (
    "cohort BETWEEN '{a}' AND '{b}'",
    "cohort >= '{a}' AND cohort < '{b}'",
    "cohort > '{a}' AND cohort <= CAST('{b}' AS DATE)",
    "cohort >= DATE '{a}' AND cohort <= DATE '{b}' AND cohort <> DATE '{c}'",
)


def rows() -> pa.Table:
    rng = random.Random(6)
    who = [p for p in range(90) for _ in range(rng.randrange(1, 6))]
    start = dt.datetime(2023, 1, 1)
    seen = [start + dt.timedelta(seconds=rng.randrange(500 * 86_400)) for _ in who]
    return pa.table({"who": who, "seen": seen, "x": [rng.randrange(9) for _ in who]})


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    """A store in which no bounds of times are declared: the query's range alone makes groups."""
    said = [sparseq.Questions(in_or_out=True, counts=1e6)]
    return sparseq.create(None, {"t": rows()}, user="who", purposes=said, kappa=1024.0)


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.register("incoming", rows())
    found.execute("CREATE TABLE t AS SELECT * FROM incoming")
    return found


def _questions() -> list[str]:
    rng, found = random.Random(8), []
    for unit in LENGTHS:
        for cohort in COHORTS:
            first = dt.date(2023, 1, 1) + dt.timedelta(days=rng.randrange(200))
            last = first + dt.timedelta(days=LENGTHS[unit])
            between = rng.choice(RANGES).format(a=first, b=last, c=dt.date(2023, 6, 1))
            found.append(
                f"WITH f AS (SELECT who, {cohort.format(unit=unit)} AS cohort FROM t GROUP BY who) "
                f"SELECT cohort, count(*) AS n FROM f WHERE {between} GROUP BY cohort"
            )
    return found


@pytest.mark.parametrize("sql", _questions())
def test_groups_are_the_cohorts_of_the_range(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    truth = {str(k)[:19]: n for k, n in plain.execute(sql).fetchall()}
    found = {str(row["cohort"])[:19]: row["n"] for row in exact(con, sql).to_pylist()}
    assert {k: n for k, n in found.items() if n} == truth
    assert len(found) <= 310, "a unit's beginnings alone are groups"


def test_a_range_on_the_cohort_and_on_what_came_after() -> None:
    """A retention grid: a cohort and the months since."""
    sql = (
        "WITH f AS (SELECT who, date_trunc('month', min(seen)) AS cohort FROM t GROUP BY who) "
        "SELECT cohort, date_diff('month', cohort, t.seen) AS age, count(DISTINCT t.who) AS n "
        "FROM t JOIN f ON f.who = t.who WHERE cohort BETWEEN '2023-02-01' AND '2023-05-31' "
        "AND date_diff('month', cohort, t.seen) BETWEEN 0 AND 5 GROUP BY 1, 2"
    )
    with sparseq.create(None, {"t": rows()}, user="who", kappa=1024.0) as con:
        query = con.lower(sql)
        assert [len(domain.values) for domain in query.domains] == [4, 6]


@pytest.mark.parametrize("cohort", COHORTS)
def test_the_hint_obeyed_is_answered(con: sparseq.Store, cohort: str) -> None:
    sql = (
        f"WITH f AS (SELECT who, {cohort.format(unit='month')} AS cohort FROM t GROUP BY who) "
        "SELECT cohort, count(*) AS n FROM f GROUP BY cohort"
    )
    with pytest.raises(QueryRefused) as refused:
        con.lower(sql)
    hint, offered, same = without_query(refused.value.hint)
    assert hint.startswith("give a range: WHERE cohort BETWEEN")
    assert offered
    assert not same
    assert len(con.lower(offered).domains[0].values) == 12
