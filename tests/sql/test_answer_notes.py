"""An answer says which rows are in none of its groups: by public facts alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import sparseq
from sparseq.cli.show import answer_text
from sparseq.store.release_facts import answer_facts

ROWS = pa.table(
    {
        "who": range(60),
        "cat": ["a", "b", None] * 20,
        "day": [dt.date(2024, 1, 1 + i % 9) for i in range(60)],
    }
)
FULL = ROWS.filter(pa.compute.is_valid(ROWS["cat"]))
NULL = "NULL is not listed", "groups with NULL are not listed"
IN_NONE = "rows whose cat is in no group are not counted, and cost nothing"


@pytest.fixture(scope="module", params=["with NULL", "without"])
def con(request: pytest.FixtureRequest) -> Iterator[sparseq.Store]:
    rows = ROWS if request.param == "with NULL" else FULL
    keys = {"cat": ["a", "b"]}
    with sparseq.create(None, {"t": rows}, user="who", seed=1, keys=keys) as made:
        yield made


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("SELECT cat, count(*) AS n FROM t GROUP BY cat", (IN_NONE,)),
        ("SELECT cat, count(*) AS n FROM t WHERE cat <> 'c' GROUP BY cat", (IN_NONE,)),
        ("SELECT cat, count(*) AS n FROM t WHERE cat IN ('a') GROUP BY cat", ()),
        ("SELECT count(*) AS n FROM t", ()),
        (
            "SELECT day, count(*) AS n FROM t WHERE day BETWEEN '2024-01-01' AND '2024-01-03' "
            "GROUP BY day",
            (),
        ),
        (
            "SELECT date_trunc('week', day) AS w, cat, count(*) AS n FROM t "
            "WHERE day >= '2024-01-01' AND day < '2024-02-01' GROUP BY w, cat",
            (IN_NONE,),
        ),
    ],
)
def test_rows_in_no_group_are_said(con: sparseq.Store, query: str, notes: tuple[str, ...]) -> None:
    for answer in (con.sql(query, fresh=True), con.sql(query)):
        of_keys = tuple(n for n in answer.facts.notes if not any(said in n for said in NULL))
        assert of_keys == notes
        assert ("note  " in answer_text(answer)) == bool(notes)
        assert answer_facts(answer).get("notes", ()) == answer.facts.notes
        assert set(notes) <= set(repr(answer).splitlines())
    assert con.release(answer.facts.release).facts.notes == answer.facts.notes


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ('SELECT count(*) AS "Orders" FROM t', ["Orders"]),
        ("SELECT count(*) AS ORDERS FROM t", ["ORDERS"]),
        ('SELECT CAT, count(*) AS "N of" FROM t GROUP BY 1 ORDER BY "n OF"', ["Cat", "N of"]),
        ("SELECT * FROM (SELECT cat AS A, count(*) AS b FROM t GROUP BY 1) q(C, d)", ["C", "d"]),
        (
            "WITH Q AS (SELECT cat, count(*) AS N FROM t GROUP BY 1) SELECT q.*, n "
            "/ 2 AS Half FROM q",
            ["Cat", "N", "Half"],
        ),
        (
            "SELECT cat AS Kind, count(*) AS N FROM t GROUP BY 1 "
            "UNION ALL SELECT Cat, count(*) FROM t WHERE who < 9 GROUP BY 1",
            ["Kind", "N"],
        ),
    ],
)
def test_names_are_as_they_were_written(query: str, names: list[str]) -> None:
    """As DuckDB has them; and names that differ by case only are one."""
    t = ROWS.rename_columns(["who", "Cat", "day"])
    duck = duckdb.connect()
    duck.register("t", t)
    assert duck.sql(query).columns == names
    with sparseq.create(None, {"t": t}, user="who", keys={"Cat": ["a"]}) as con:
        answer = con.sql(query)
        assert answer.values == names
        small = con.sql(query.lower())
        assert small.facts.repeated
        assert [name.lower() for name in names] == [name.lower() for name in small.values]
        both = con.sql("SELECT count(*) AS n, count(DISTINCT who) AS N FROM t")
        assert both.values == ["n", "N_1"]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("main.t.day >= DATE '2024-01-02'", "day >= DATE '2024-01-02'"),
        ('"main"."t"."cat" = \'a\'', "cat = 'a'"),
        ("cat = ANY(ARRAY['a', 'b'])", "cat IN ('a', 'b')"),
        ("cat <> ALL(ARRAY['a', 'b'])", "cat NOT IN ('a', 'b')"),
        ("day < TO_DATE('03.01.2024', 'DD.MM.YYYY')", "day < DATE '2024-01-03'"),
        (
            "day < TO_TIMESTAMP('2024-01-03 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
            "day < TIMESTAMP '2024-01-03 00:00:00'",
        ),
    ],
)
def test_what_clients_write_in_their_own_way_is_the_same_question(
    con: sparseq.Store, written: str, plain: str
) -> None:
    first = con.sql(f"SELECT count(*) AS n FROM t WHERE {plain}")
    again = con.sql(f"SELECT count(*) AS n FROM main.t WHERE {written}")
    assert again.facts.repeated
    assert again.facts.release == first.facts.release


def test_dates_with_a_pattern_are_read_anew_each_time(con: sparseq.Store) -> None:
    """Day and month look alike in the first two, so that a shape of dates would seem to fit."""
    text = "SELECT count(*) AS n FROM t WHERE day < TO_DATE('{}', 'YYYY-DD-MM')"
    for day in ("2024-02-02", "2024-03-03", "2024-01-05"):
        found = con.lower(text.format(day)).relation.where
    assert "2024-05-01" in found
    with pytest.raises(sparseq.QueryRefused, match="is not as 'YYYY-DD-MM' says"):
        con.lower(text.format("2024-01-13"))
