"""Lowering ends, whatever is asked, and before anything is looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.base.errors import QueryRefused
from sparseq.sql.public_subqueries import MAX_SUBQUERIES

LONG = 60.0
"""Seconds that nothing here comes near: a test that hangs fails after them."""


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    rows = pa.table({"who": [1, 2], "v": [1.0, 2.0]})
    shelves = pa.table({"k": [1, 2]})
    return sparseq.create(
        None, {"t": rows}, user="who", seed=1, public={"p": shelves}, purposes=IN_OR_OUT
    )


def ended(work: Callable[[], Any]) -> Any:
    """Return what `work` returns, or the refusal it raises; fail where it goes on for ever."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append(work())
        except QueryRefused as refused:
            done.append(refused)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    assert done, "it hangs"
    return done[0]


@pytest.mark.parametrize(
    "item",
    ["(SELECT count(*) FROM p)", "((SELECT max(k) FROM p))", "(SELECT count(*) FROM p) AS n"],
)
def test_a_subquery_as_a_whole_item_is_answered(con: sparseq.Store, item: str) -> None:
    """This hung the connection, and with it everybody's."""
    alone = ended(lambda: con.sql(f"SELECT {item} FROM t"))
    assert isinstance(alone, QueryRefused)  # it has no aggregate of people
    row = ended(lambda: con.sql(f"SELECT {item}, count(*) AS people FROM t")).arrow().to_pylist()[0]
    assert next(iter(row.values())) == 2
    assert "people" in row


def test_a_subquery_s_name_stays(con: sparseq.Store) -> None:
    sql = "SELECT (SELECT max(k) FROM p) AS a, a + 1 AS b, count(*) AS n FROM t"
    row = con.sql(sql).arrow().to_pylist()[0]
    assert (row["a"], row["b"]) == (2, 3)


def test_subqueries_in_every_clause_end(con: sparseq.Store) -> None:
    one = "(SELECT max(k) FROM p)"
    sql = (
        f"SELECT v IN (1, 2) AS x, count(*) AS n FROM t WHERE {one} = 2 GROUP BY 1 HAVING {one} > 1"
    )
    ended(lambda: con.sql(sql))
    ended(lambda: con.sql(f"SELECT count(*) AS n FROM t ORDER BY {one}"))
    ended(lambda: con.sql(f"SELECT count(*) AS n FROM t JOIN p ON {one} = 2 AND p.k = 1"))
    ended(lambda: con.sql(f"SELECT count(*) AS n FROM t WHERE EXISTS {one} AND v NOT IN {one}"))
    ended(lambda: con.sql(f"SELECT count(*) AS n FROM (SELECT who, {one} FROM t)"))


def test_subqueries_are_counted_once_names_are_written_out(con: sparseq.Store) -> None:
    many = " + ".join(["(SELECT max(k) FROM p)"] * 60)
    times = MAX_SUBQUERIES // 60 + 1
    sql = f"SELECT {many} AS a, {' + '.join(['a'] * times)} AS b, count(*) AS n FROM t"
    refused = ended(lambda: con.sql(sql))
    assert isinstance(refused, QueryRefused)
    assert "subqueries" in refused.message
