"""Subqueries in expressions mean what they mean in SQL: answered as DuckDB does, or refused.

An aggregate over no rows is where they go wrong most easily, so there are stores in which nothing
matches, all is NULL, or a table is empty. All tables have columns of the same names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sampled import one_in
from sql.differential import Kind, Pair

from sparseq.language import types as T
from sparseq.language.aggregate_functions import (
    AGGREGATE_FUNCTIONS,
    AggregateFunction,
    Takes,
    Use,
)
from sparseq.language.expression_tree import column, constant
from sparseq.sql.aggregate_calls import value_over_no_rows

AGGREGATES = (  # {i} is the inner alias, {o} the outer one
    "count(*)",
    "count({i}.x)",
    "count(DISTINCT {i}.x)",
    "countif({i}.x > 1)",
    "sum({i}.x)",
    "sum({i}.x) FILTER (WHERE {i}.n > 1)",
    "count(*) FILTER (WHERE {i}.n > 1)",
    "avg({i}.x)",
    "min({i}.n)",
    "max({i}.x)",
    "median({i}.x)",
    "sum(x)",
)
AROUND = (
    "{a}",
    "coalesce({a}, 0)",
    "coalesce({a}, -1) + 1",
    "{a} + 1",
    "greatest({a}, 0)",
    "least({a}, 5, 1)",
    "nullif({a}, 0)",
    "CASE WHEN {a} > 0 THEN 1 ELSE 0 END",
    "CASE WHEN {a} IS NULL THEN 1 ELSE 2 END",
    "{a} - {b}",
    "coalesce({a}, {b})",
    "{a} + {o}.n",
    "coalesce({a}, {o}.x)",
    "coalesce({a}, 0) + (SELECT count(*) FROM w WHERE w.who = {o}.who)",
    "7",
)
CONDITIONS = (
    "",
    "",
    " AND {i}.x > 1",
    " AND {i}.k = {o}.k",
    " AND {o}.n > 1",
    " AND 1 = {o}.n",
    " AND {i}.n IS NULL",
    " AND false",
    " AND {i}.x >= (SELECT coalesce(avg(w.x), 0) FROM w WHERE w.who = {i}.who)",
    " AND {i}.x > {o}.x",
    " AND ({i}.k = 'a' OR {i}.n = 1)",
)
HAVING = ("", "", "", " HAVING count(*) > 1", " HAVING sum({i}.x) > 2", " HAVING count(*) = 0")
TAILS = ("", "", "", " ORDER BY 1", " LIMIT 1", " LIMIT 0", " OFFSET 1")
PLACES = (
    "SELECT count(*) AS c FROM t AS {o} WHERE {v} = {d}",
    "SELECT count(*) AS c FROM t AS {o} WHERE {d} < {v}",
    "SELECT count(*) AS c FROM t AS {o} WHERE {v} >= {o}.n",
    "SELECT count(*) AS c FROM t AS {o} WHERE NOT ({v} = {d})",
    "SELECT count(*) AS c FROM t AS {o} WHERE {v} IS NULL",
    "SELECT count(*) AS c FROM t AS {o} WHERE {v} IS NULL OR {o}.n = 1",
    "SELECT count(*) AS c FROM t AS {o} WHERE {o}.n IN {v}",
    "SELECT count(*) AS c FROM t AS {o} WHERE {o}.n NOT IN {v}",
    "SELECT count(*) AS c FROM t AS {o} WHERE ({o}.n IN {v}) IS NULL",
    "SELECT count(*) AS c FROM t AS {o} WHERE EXISTS {v}",
    "SELECT count(*) AS c FROM t AS {o} WHERE NOT EXISTS {v} OR {o}.x = 0",
    "SELECT count(*) FILTER (WHERE {v} = {d}) AS c FROM t AS {o}",
    "SELECT sum(CASE WHEN {v} > {d} THEN 1 ELSE 0 END) AS c FROM t AS {o}",
    "SELECT sum(least(greatest({v}, -9), 9)) AS c FROM t AS {o}",
    "SELECT m, count(*) AS c FROM (SELECT {o}.who, {v} AS m FROM t AS {o}) "
    "WHERE m IN (-1, 0, 1, 2) GROUP BY m",
    "SELECT {v} AS m, count(*) AS c FROM t AS {o} WHERE {v} IN (0, 1, 2) GROUP BY m",
    "SELECT {o}.k, count(*) AS c FROM t AS {o} WHERE {v} = {d} GROUP BY {o}.k",
    "SELECT count(*) AS c FROM (SELECT {o}.who, count(*) AS m FROM t AS {o} GROUP BY {o}.who "
    "HAVING count(*) > {v})",
    "SELECT count(*) AS c FROM t AS {o}, LATERAL (SELECT {s}) AS l WHERE l.m = {d}",
    "SELECT count(*) AS c FROM t AS {o} LEFT JOIN w ON w.who = {o}.who WHERE {v} = coalesce(w.x, 0)"
    "",
)
ROWS = (
    "EXISTS (SELECT 1 FROM v AS {i} WHERE {i}.who = {o}.who{c})",
    "EXISTS (SELECT DISTINCT {i}.x FROM v AS {i} WHERE {i}.who = {o}.who{c} ORDER BY 1 LIMIT 2)",
    "EXISTS (SELECT {i}.who FROM v AS {i} WHERE {i}.who = {o}.who{c} GROUP BY {i}.who"
    " HAVING count(*) > 1)",
    "{o}.x IN (SELECT {i}.x FROM v AS {i} WHERE {i}.who = {o}.who{c})",
    "{o}.x NOT IN (SELECT {i}.x FROM v AS {i} WHERE {i}.who = {o}.who{c})",
    "({o}.x IN (SELECT {i}.n FROM v AS {i} WHERE {i}.who = {o}.who{c})) IS NULL",
    "{o}.who IN (SELECT {i}.who FROM v AS {i} WHERE {i}.n = 1 GROUP BY 1 HAVING count(*) > 1)",
    "{o}.who NOT IN (SELECT {i}.who FROM v AS {i} UNION SELECT w.who FROM w)",
    "{o}.k IN (SELECT p.k FROM p WHERE p.x > 1 UNION SELECT 'a')",
    "(SELECT {i}.who FROM v AS {i} WHERE {i}.who = {o}.who{c} GROUP BY {i}.who) IS NULL",
    "(SELECT sum({i}.x) FROM v AS {i} WHERE {i}.who = {o}.who{c} GROUP BY {i}.who) > 2",
    "(SELECT 1 FROM w AS {i} WHERE {i}.who = {o}.who{c} GROUP BY 1) = 1",
    "{o}.n = (SELECT max(p.x) FROM p WHERE p.k = 'a')",
    "EXISTS (SELECT sum(p.x) FROM p WHERE p.x > 99)",
)
AROUND_ROWS = (
    "SELECT count(*) AS c FROM t AS {o} WHERE {r}",
    "SELECT count(*) AS c FROM t AS {o} WHERE NOT {r}",
    "SELECT count(*) AS c FROM t AS {o} WHERE {r} OR {o}.n = 2",
    "SELECT count(*) FILTER (WHERE {r}) AS c FROM t AS {o}",
    "SELECT count(*) AS c FROM w LEFT JOIN t AS {o} ON {o}.who = w.who WHERE {r}",
    "SELECT count(*) AS c FROM w LEFT JOIN t AS {o} ON {o}.who = w.who WHERE NOT {r}",
    "SELECT sum(CASE WHEN {r} THEN 1 ELSE 2 END) AS c FROM t AS {o}",
)
SHAPES = ("plain", "nothing matches", "all NULL", "empty", "one row")


def question(rng: random.Random) -> str:
    """Return a random question with a subquery in an expression."""
    i, o = rng.choice([("v", "t"), ("i", "o"), ("t", "o"), ("v", "w2"), ("w", "t")])
    some = [rng.choice(CONDITIONS).format(i=i, o=o)]
    if rng.random() < 0.3:
        rows = rng.choice(ROWS).format(i=i, o=o, c=some[0])
        return rng.choice(AROUND_ROWS).format(o=o, r=rows)
    a, b = (rng.choice(AGGREGATES).format(i=i) for _ in "ab")
    shown = rng.choice(AROUND).format(a=a, b=b, o=o)
    having, tail = rng.choice(HAVING).format(i=i), rng.choice(TAILS)
    distinct = rng.choice(["", "", "", "DISTINCT "])
    rows = f"FROM v AS {i} WHERE {i}.who = {o}.who{some[0]}{having}{tail}"
    value, lateral = f"(SELECT {distinct}{shown} {rows})", f"{distinct}{shown} AS m {rows}"
    return rng.choice(PLACES).format(o=o, v=value, s=lateral, d=rng.choice([0, 1, 2]))


def rows(seed: int, users: range, many: int, null: float) -> pa.Table:
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < null else value

    made = [
        (rng.choice(users), *map(maybe, (rng.randrange(4), rng.randrange(4), rng.choice("abc"))))
        for _ in range(many)
    ]
    kinds = ("who", pa.int32()), ("x", pa.int32()), ("n", pa.int32()), ("k", pa.string())
    columns = [list(c) for c in zip(*made, strict=True)] or [[]] * 4
    return pa.table(columns, schema=pa.schema(list(kinds)))


@cache
def pair(shape: str) -> Pair:
    """Return a store and its rows in plain DuckDB."""
    null = 1.0 if shape == "all NULL" else 0.2
    other = range(100, 120) if shape == "nothing matches" else range(20)
    many = {"empty": 0, "one row": 1}.get(shape, 60)
    tables = {
        "t": rows(1, range(30), 80, null),
        "v": rows(2, other, many, null),
        "w": rows(3, range(0, 30, 2), 30, null),
    }
    public = {"p": pa.table({"k": ["a", "b", "d"], "x": pa.array([1, 2, 3], pa.int32())})}
    bounds = {f"{table}.{column}": (0, 3) for table in tables for column in "xn"}
    return Pair(tables, public=public, bounds=bounds, keys={"t.k": ["a", "b", "c"]})


def questions(shape: str, seed: int, many: int) -> Iterator[str]:
    rng = random.Random(100 * seed + SHAPES.index(shape))
    for _ in range(many):
        yield question(rng)


CASES = [(shape, seed) for seed in range(24) for shape in SHAPES]  # 600 questions


@pytest.mark.parametrize(("shape", "seed"), one_in(120, CASES))
def test_a_subquery_is_answered_as_duckdb_answers_it(shape: str, seed: int) -> None:
    kinds = set()
    for i, sql in enumerate(questions(shape, seed, 20)):
        if i >= 5 and Kind.EQUAL in kinds:
            break
        outcome = pair(shape).ask(sql)
        assert outcome.agrees, f"{sql}\n{outcome}"
        kinds.add(outcome.kind)
    assert Kind.EQUAL in kinds


MEANT = (
    "{T} (SELECT coalesce(sum(v.x), 0) FROM v WHERE v.who = t.who) = 0",
    "{T} (SELECT count(*) = 0 FROM v WHERE v.who = t.who)",
    "{T} EXISTS (SELECT sum(v.x) FROM v WHERE v.who = t.who)",
    "{T} (SELECT CASE WHEN count(*) > 0 THEN 'some' ELSE 'none' END "
    "FROM v WHERE v.who = t.who) = 'none'",
    "{T} (SELECT count(*) + t.n FROM v WHERE v.who = t.who) > 1",
    "{T} t.n NOT IN (SELECT count(*) FROM v WHERE v.who = t.who HAVING sum(v.x) > 1)",
    "SELECT count(*) AS c FROM w LEFT JOIN t ON t.who = w.who WHERE t.who NOT IN "
    "(SELECT v.who FROM v)",
    "{T} t.k IN (SELECT p.k FROM p UNION SELECT 'x')",
    "SELECT avg(m) AS c FROM (SELECT t.who, (SELECT coalesce(sum(v.x), 3) FROM v "
    "WHERE v.who = t.who) AS m FROM t) WHERE m BETWEEN 0 AND 9",
)


@pytest.mark.parametrize("shape", one_in(4, SHAPES))
def test_what_is_made_of_no_rows_is_computed_outside(shape: str) -> None:
    for sql in MEANT:
        outcome = pair(shape).ask(sql.replace("{T}", "SELECT count(*) AS c FROM t WHERE"))
        assert outcome.kind is Kind.EQUAL, f"{sql}\n{outcome}"


REFUSED = {
    "(SELECT v.x + count(*) FROM v WHERE v.who = t.who) > 1": "neither",
    "(SELECT count(*) + (SELECT count(*) FROM w WHERE w.who = v.who) "
    "FROM v WHERE v.who = t.who) > 1": "no join",
    "(SELECT count(*) FROM v WHERE v.who = t.who LIMIT 0) = 0": "no join",
    "(SELECT max(v.x) FROM v WHERE v.k = t.k) = 0": "looks at other",
}


@pytest.mark.parametrize(("sql", "said"), REFUSED.items())
def test_what_has_no_join_is_refused(sql: str, said: str) -> None:
    outcome = pair("plain").ask(f"SELECT count(*) FROM t WHERE {sql}")
    assert outcome.kind is Kind.REFUSED
    assert said in outcome.said


@pytest.mark.parametrize(
    "function", [f for f in AGGREGATE_FUNCTIONS if f.use is not Use.WINDOW], ids=lambda f: f.form
)
def test_the_value_over_no_rows_is_that_of_the_table(function: AggregateFunction) -> None:
    """As DuckDB has it of the SQL that runs."""
    arguments = [
        constant(0.5, T.DOUBLE)
        if takes is Takes.CONSTANT
        else column(
            "b" if takes is Takes.TRUTH else "x", T.BOOLEAN if takes is Takes.TRUTH else T.BIGINT
        )
        for takes in function.takes
    ]
    sql = function.apply(arguments, order=["x"] if function.ordered else []).sql
    empty = "(SELECT 1::BIGINT AS x, true AS b WHERE false)"
    found = duckdb.execute(f"SELECT {sql} FROM {empty}").fetchall()
    assert found == [(function.over_no_rows,)]


def test_a_filter_has_the_value_of_its_aggregate() -> None:
    found = {e: value_over_no_rows(sqlglot.parse_one(e, dialect="duckdb")) for e in AGGREGATES}
    assert {e for e, value in found.items() if value == 0} == {e for e in found if "count(" in e}
    assert set(found.values()) == {0, None}
