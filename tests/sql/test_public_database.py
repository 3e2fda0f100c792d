"""The databases without people in which queries are checked: one process has one DuckDB for all."""

from __future__ import annotations

import gc
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sparseq
from sparseq.answers.interval_words import WHY
from sparseq.base._duckdb.connection import scratch
from sparseq.base.errors import QueryRefused
from sparseq.sql import public_database as public
from sparseq.stream.batches import Request

JOINED = "SELECT sum(rent) AS s FROM t JOIN p ON t.kind = p.kind"
RENT = "SELECT rent FROM public.p"


def store(column: str = "kind", rent: int = 1) -> sparseq.Store:
    rows = pa.table({"who": [1, 2, 2], column: ["a", "b", "a"]})
    prices = pa.table({"kind": ["a", "b"], "rent": [rent, 2]})
    return sparseq.create(None, {"t": rows}, user="who", public={"p": prices}, seed=1)


def test_each_store_has_a_database_of_its_own() -> None:
    """Tables of the same name, with other columns and rows; one outlives the other."""
    with store(rent=50) as other:
        assert other.lowering.public.values(RENT) == [(50,), (2,)]
        with store() as con:
            assert con.lowering.public.values(RENT) == [(1,), (2,)]
        with store(column="sort") as con, pytest.raises(QueryRefused, match="'kind'"):
            con.lower(JOINED)
        assert other.lowering.public.values(RENT) == [(50,), (2,)]


def test_it_goes_when_its_store_goes() -> None:
    def databases() -> set[Any]:
        with scratch("public") as con:
            return set(con.sql("SELECT database_name FROM duckdb_databases()").fetchall())

    gc.collect()  # stores of other tests may go at any time
    before = databases()
    con = store()
    con.lower(JOINED)
    (its,) = databases() - before
    con.close()
    assert its not in databases()
    store().lower(JOINED)  # never closed
    gc.collect()
    assert databases() <= before


def test_nobody_is_told_that_duckdb_gave_them_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error that it calls fatal DuckDB answers no store, whichever it was of."""
    capped = "SELECT count(*) AS n FROM t a JOIN t b ON a.who = b.who AND a.kind = b.kind"
    con = store()
    expected = con.lower(capped), con.lower(JOINED)

    class GivenUp:
        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self.close, self.interrupt = connection.close, connection.interrupt
            self.alive, self.connection = True, connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def execute(self, sql: str) -> Any:
            if self.alive:
                return self.connection.execute(sql)
            raise duckdb.FatalException("database has been invalidated")

    made: list[Any] = []

    def opened(purpose: str) -> Any:
        made.append(GivenUp(scratch(purpose)))
        return made[-1]

    monkeypatch.setattr(public, "scratch", opened)
    with store() as con:
        assert con.lower(capped) == expected[0]
        made[0].alive = False
        assert con.lower(JOINED) == expected[1]
        assert con.lower(capped.replace("AS n", "AS m")), "what caps have is there again"
        assert len(made) == 2


def test_a_question_about_public_tables_alone_is_exact_and_free() -> None:
    """It is no release, whatever its name; a table about people makes it another question."""
    with store(rent=50) as con:
        sql = 'SELECT kind AS "Kind", max(rent) AS most FROM p GROUP BY 1 ORDER BY 2 LIMIT 1'
        for options in ({}, {"fresh": True}, {"request_id": "once"}):
            answer = con.sql(sql, **options)
            assert answer.arrow().to_pylist() == [{"Kind": "b", "most": 2}]
            assert (answer.facts.release, answer.interval.line) == (0, WHY["public"])
        least = "SELECT min(rent) FROM p WHERE kind <> a.kind"
        inner = f"SELECT count(*) AS n FROM p a WHERE rent > ({least})"
        assert con.sql(inner).value() == 1
        assert con.explain(sql).facts["known"]["free"]
        assert con.explain(con.lower(sql)).noise == ()
        assert [o.answer.value() for o in con.ask_many([Request(con.lower(inner))] * 2)] == [1, 1]
        assert (con.released, con.sql("SELECT count(*) AS n FROM t").facts.release) == (0, 1)
        far = ", ".join(f"p AS p{n}" for n in range(30))  # 2 ** 30 rows
        with pytest.raises(QueryRefused, match="rows in a join of public tables"):
            con.sql(f"SELECT count(*) AS n FROM {far}")
        half = ", ".join(f"p AS p{n}" for n in range(15))
        two = f"(SELECT 1 AS x FROM {half}) AS a, (SELECT 1 AS x FROM {half} UNION ALL SELECT 2) b"
        with pytest.raises(QueryRefused, match="rows in a join of public tables"):
            con.sql(f"SELECT count(*) AS n FROM {two}")
        near = " AND ".join(f"p{n}.kind = p{n + 1}.kind" for n in range(29))
        assert con.sql(f"SELECT count(*) AS n FROM {far} WHERE {near}").value() == 2
        for wrong in ("SELECT nothing FROM p", "SELECT CAST('x' AS INT) AS x FROM p"):
            with pytest.raises(QueryRefused):
                con.sql(wrong)


def test_a_name_in_with_is_meant_where_it_is_known() -> None:
    """A table about people is asked, though a subquery calls something else the same."""
    known = "SELECT count(*) AS n, (WITH t AS (SELECT * FROM p) SELECT count(*) FROM t) AS k FROM"
    with store() as con:
        assert con.sql(f"{known} p").arrow().to_pylist() == [{"n": 2, "k": 2}]
        assert not con.lower(f"{known} t").asks_nobody
        assert not con.lower("WITH t AS (SELECT who FROM t, p) SELECT count(*) FROM t").asks_nobody
        assert con.lower("WITH t AS (SELECT * FROM p) SELECT count(*) FROM t").asks_nobody
