"""TPC-H as it is: loaded by links, and most of its questions answered as they are written."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from benchmarks.tpch import Outcome, compare, data, peers, queries, run, store
from benchmarks.tpch.sqlstorm import DECLARED, Asked, ask, plain, sample, table


def test_errors_are_of_the_rows_that_plain_sql_has() -> None:
    found = Outcome("q00")
    ours = pa.table({"k": ["a", "b"], "n": [9, 5], "n_error": [2.0, 1.0], "n_low": [7.0, 4.0]})
    compare(ours, pa.table({"K": ["a", "c"], "N": [10, 3]}), found)
    assert (found.errors, found.widths) == ([0.1], [0.2])
    assert len(queries()) == 22


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("tpchgen-cli") is None, reason="tpchgen-cli is not installed")
def test_most_questions_are_answered_as_they_are_written() -> None:
    figures = {one["name"]: one for one in run(0.1)}
    assert figures["tpch: answered as written"]["ok"]


def test_a_persons_rows_are_summed_by_group_within_what_most_have() -> None:
    """19 people have one row of 10 in one group; one has three groups, and 1000 in one of them."""
    one = [(who, "a", 10.0) for who in range(19)]
    one += [(19, "a", 500.0), (19, "a", 500.0), (19, "b", 1.0), (19, "c", 1.0)]
    con = duckdb.connect()
    con.execute("CREATE TABLE rows (who INTEGER, k VARCHAR, v DOUBLE)")
    con.executemany("INSERT INTO rows VALUES (?, ?, ?)", one)
    rows = con.table("rows")
    assert peers.truth(rows, ["v"]) == {("a", "v"): 1190.0, ("b", "v"): 1.0, ("c", "v"): 1.0}
    assert (peers.most_rows(rows), peers.keys_of(rows)) == (1, ["a", "b", "c"])
    cells, ends, most = peers.summed(rows, {"v": (0, 1000)})
    assert (most, ends["v"][0]) == (1, 0.0)
    assert cells.aggregate("count(*), max(v) <= 10").fetchall() == [(20, True)]
    asked = {("a", "v"): 119.0, ("b", "v"): 2.0}
    assert peers.median_error([asked], peers.truth(rows, ["v"])) == pytest.approx(0.95)


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("tpchgen-cli") is None, reason="tpchgen-cli is not installed")
@pytest.mark.parametrize("name", peers.QUESTIONS)
def test_others_are_asked_the_same_question(name: str) -> None:
    """What they are to find is in plain DuckDB's answer to the question as it is written."""
    con = plain(data(0.01))
    answer = {float(v) for row in con.sql(queries()[name]).fetchall() for v in row if _number(v)}
    sql, bounds = peers.QUESTIONS[name]
    for value in peers.truth(con.sql(sql), list(bounds) or ["n"]).values():
        assert any(value == pytest.approx(v, rel=1e-9) for v in answer)


def _number(value: object) -> bool:
    return isinstance(value, int | float | Decimal)


def test_a_sample_is_the_same_for_its_seed_and_each_query_is_counted_once(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.sql").write_text(f"SELECT {number};\n")
    some = sample(tmp_path, 5, seed=1)
    assert some == sample(tmp_path, 5, seed=1)
    assert some != sample(tmp_path, 5, seed=2)
    assert all(sql == f"SELECT {number}" for number, sql in some.items())
    found = [Asked(3, "answered"), Asked(4, "unread", "too long"), Asked(6, "refused", "odd")]
    refused = Asked(5, "refused", "the values of c_name are not public")
    lines = list(table([*found, refused]))
    assert lines[0].startswith("| of 3 queries")
    assert [line for line in lines if line.endswith(("| 1 | 5 |", "| 1 | 6 |"))] == [
        "| refused: it lists single customers, orders or lines | 1 | 5 |",
        "| refused: another | 1 | 6 |",
    ]


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("tpchgen-cli") is None, reason="tpchgen-cli is not installed")
@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (
            "SELECT n_name, sum(l_quantity) AS q FROM lineitem JOIN supplier ON "
            "s_suppkey = l_suppkey "
            "JOIN orders ON o_orderkey = l_orderkey JOIN nation ON n_nationkey = s_nationkey "
            "GROUP BY n_name ORDER BY q DESC LIMIT 10",
            "answered",
        ),
        ("SELECT p_brand, count(*) AS n FROM part GROUP BY p_brand", "public"),
        ("SELECT c_name, count(*) AS n FROM customer GROUP BY c_name", "refused"),
        ("SELECT count(*) FROM lineitem a, lineitem b, lineitem c", "unread"),
    ],
)
def test_a_query_is_answered_as_duckdb_does_or_refused(sql: str, kind: str) -> None:
    folder = data(0.01)
    with store(folder, **DECLARED) as con:
        assert ask(con, plain(folder), 1, sql, 2).kind == kind
