"""Subqueries about people, and the rewrites of SELECT, mean what they mean in SQL.

Windows, QUALIFY, DISTINCT ON, windows over groups and inside of expressions, count(DISTINCT x) of
owned values, LATERAL and PIVOT: answered as DuckDB answers them, or refused.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from sampled import one_in
from sql.differential import Kind, Pair

WINDOWS = (
    "row_number() OVER (PARTITION BY {a}.who ORDER BY {a}.id)",
    "row_number() OVER (PARTITION BY {a}.who, {a}.k ORDER BY {a}.x DESC, {a}.id)",
    "rank() OVER (PARTITION BY {a}.who ORDER BY {a}.x)",
    "dense_rank() OVER (PARTITION BY {a}.who, {a}.n ORDER BY {a}.x NULLS FIRST)",
    "lag({a}.x) OVER (PARTITION BY {a}.who ORDER BY {a}.id)",
    "lead({a}.n, 2) OVER (PARTITION BY {a}.who ORDER BY {a}.id DESC)",
    "sum({a}.x) OVER (PARTITION BY {a}.who ORDER BY {a}.id ROWS 1 PRECEDING)",
    "count(*) OVER (PARTITION BY {a}.who, {a}.x)",
    "max({a}.x) OVER (PARTITION BY {a}.who)",
    "first_value({a}.x) OVER (PARTITION BY {a}.who ORDER BY {a}.id)",
    "sum({a}.x) FILTER (WHERE {a}.n > 0) OVER (PARTITION BY {a}.who)",
)
VALUES = (
    "{w}",
    "{w} + 1",
    "coalesce({w}, 0)",
    "{w} - {w2}",
    "CASE WHEN {w} > 1 THEN {a}.n ELSE 0 END",
    "{a}.n - {w}",
)
INNER = (
    "SELECT {a}.who, {v} AS m FROM t AS {a}{c}",
    "SELECT {a}.who, {v} AS m FROM t AS {a}{c} QUALIFY {w} = 1",
    "SELECT {a}.who, {a}.x AS m FROM t AS {a}{c} QUALIFY {w} <= 2 AND {a}.n IS NOT NULL",
    "SELECT who, m FROM (SELECT {a}.who, {v} AS m, {w2} AS r FROM t AS {a}{c}) WHERE r = 1",
    "SELECT DISTINCT {a}.who, {a}.n AS m FROM t AS {a}{c}",
    "SELECT DISTINCT {a}.who, {v} AS m FROM t AS {a}{c}",
    "SELECT DISTINCT ON ({a}.who) {a}.who, {a}.x AS m FROM t AS {a}{c} ORDER BY {a}.who, {a}.id",
    "SELECT DISTINCT ON ({a}.who, {a}.k) {a}.who, {a}.x AS m FROM t AS {a}{c} "
    "ORDER BY {a}.x DESC NULLS LAST, {a}.id",
    "SELECT {a}.who, {g} AS m FROM t AS {a}{c} GROUP BY {a}.who",
    "SELECT {a}.who, {g} AS m FROM t AS {a}{c} GROUP BY {a}.who, {a}.k HAVING {g} > 0",
    "SELECT {a}.who, {a}.k, {g} AS m FROM t AS {a}{c} GROUP BY ALL",
    "SELECT {a}.who, rank() OVER (PARTITION BY {a}.who ORDER BY {g}, {a}.n) AS m FROM t AS {a}{c} "
    "GROUP BY {a}.who, {a}.n",
    "SELECT {a}.who, sum({g}) OVER (PARTITION BY {a}.who) AS m FROM t AS {a}{c} "
    "GROUP BY {a}.who, {a}.x + 1",
    "SELECT {a}.who, {a}.n + 1 AS m FROM t AS {a}{c} GROUP BY {a}.who, {a}.n + 1, {a}.n",
    "SELECT {a}.who, {a}.x AS m FROM t AS {a} LEFT JOIN v AS {b} ON {a}.who = {b}.who AND "
    "{a}.x = {b}.x WHERE {b}.who IS NULL",
    "SELECT {a}.who, {b}.n AS m FROM t AS {a}, LATERAL (SELECT {b}.n FROM v AS {b} "
    "WHERE {b}.who = {a}.who ORDER BY {b}.id LIMIT 1) AS {b}",
    "SELECT {a}.who, l.m FROM t AS {a} LEFT JOIN LATERAL (SELECT {b}.n AS m FROM v AS {b} WHERE "
    "{b}.who = {a}.who AND {b}.k = {a}.k ORDER BY {b}.x NULLS LAST, {b}.id LIMIT 2) AS l ON true",
    "SELECT {a}.who, l.m FROM t AS {a}, LATERAL (SELECT row_number() OVER (ORDER BY {b}.id) AS m "
    "FROM v AS {b} WHERE {b}.who = {a}.who AND {b}.n = {a}.n) AS l",
    "SELECT {a}.who, l.m FROM t AS {a}, LATERAL (SELECT count(*) OVER (PARTITION BY {b}.who) AS m "
    "FROM v AS {b} WHERE {b}.who = {a}.who AND {b}.x = {a}.x) AS l",
    "SELECT {a}.who, l.m FROM t AS {a}, LATERAL (SELECT {a}.n + {b}.n AS m FROM v AS {b} "
    "WHERE {b}.who = {a}.who) AS l",
    "SELECT who, m FROM (SELECT who, x AS m FROM t UNION ALL SELECT who, n FROM v)",
    "SELECT who, m FROM (SELECT who, x AS m FROM t INTERSECT SELECT who, n FROM v)",
)
OUTER = (
    "SELECT count(*) AS c FROM ({i}) AS q WHERE q.m = {d}",
    "SELECT count(*) AS c FROM ({i}) AS q WHERE q.m IS NULL",
    "SELECT count(*) AS c, count(m) AS d FROM ({i}) AS t",
    "SELECT m, count(*) AS c FROM ({i}) AS x WHERE m IN (0, 1, 2, 3) GROUP BY m",
    "SELECT sum(least(greatest(m, -5), 5)) AS c FROM ({i}) AS q",
    "WITH t2 AS ({i}) SELECT count(*) AS c FROM t2 JOIN v ON v.who = t2.who WHERE t2.m > v.x",
    "SELECT count(*) AS c FROM (SELECT who, max(m) AS m FROM ({i}) GROUP BY who) WHERE m > {d}",
)
WHOLE = (
    "PIVOT t ON k IN ('a', 'b') USING count(*) GROUP BY n",
    "PIVOT (SELECT * FROM t WHERE n IN (0, 1)) ON k IN ('a', 'z') USING sum(x) GROUP BY n",
    "SELECT a, c FROM (PIVOT t ON n IN (0, 1) USING count(x) GROUP BY k) AS q(k, a, c)",
    "SELECT k, count(*) AS c, rank() OVER (ORDER BY count(*), k) AS r FROM t WHERE k IN ('a', 'b') "
    "GROUP BY k",
    "SELECT k, count(*) AS c FROM t WHERE k IN ('a', 'b') GROUP BY k "
    "QUALIFY row_number() OVER (ORDER BY count(*) DESC, k) = 1",
    "SELECT DISTINCT ON (n) n, k, count(*) AS c FROM t WHERE k IN ('a', 'b') AND n IN (0, 1) "
    "GROUP BY n, k ORDER BY n, k",
    "SELECT DISTINCT ON (n) n AS m, count(*) AS c FROM t WHERE k IN ('a', 'b') AND n IN (0, 1) "
    "GROUP BY n, k ORDER BY n DESC, count(*), k LIMIT 1",
    "SELECT count(DISTINCT {a}.id) AS c FROM t AS {a} JOIN v AS {b} ON {a}.who = {b}.who",
    "SELECT {a}.k, count(DISTINCT {a}.id) FILTER (WHERE {b}.n > 0) AS c FROM t AS {a} "
    "JOIN v AS {b} ON {a}.who = {b}.who WHERE {a}.k IN ('a', 'b') GROUP BY {a}.k",
    "SELECT count(DISTINCT CASE WHEN {b}.x > 1 THEN {a}.id END) AS c FROM t AS {a} "
    "LEFT JOIN v AS {b} ON {a}.who = {b}.who",
    "SELECT mode(k) AS m FROM t WHERE k IN ('a', 'b')",
)
CONDITIONS = ("", "", " WHERE {a}.x > 0", " WHERE {a}.k IS NULL", " WHERE false")
GROUPED = (
    "count(*)",
    "sum({a}.x)",
    "count(DISTINCT {a}.n)",
    "max({a}.x) - min({a}.x)",
    "coalesce(sum({a}.x) FILTER (WHERE {a}.n = 1), 0)",
    "arg_max({a}.n, {a}.id)",
    "first({a}.x ORDER BY {a}.id)",
)
SHAPES = ("plain", "all NULL", "empty", "one row")


def question(rng: random.Random, full: bool) -> str:
    """Return a random question over a subquery about people.

    Args:
        rng: A generator.
        full: No group of its public keys is without rows, so windows see the rows of SQL.
    """
    a, b = rng.choice([("t", "v"), ("a", "b"), ("v", "t"), ("x", "n")])
    if full and rng.random() < 0.3:
        return rng.choice(WHOLE).format(a=a, b=b)
    w, w2 = (rng.choice(WINDOWS).format(a=a) for _ in "ab")
    v = rng.choice(VALUES).format(a=a, w=w, w2=w2)
    g, c = rng.choice(GROUPED).format(a=a), rng.choice(CONDITIONS).format(a=a)
    inner = rng.choice(INNER).format(a=a, b=b, v=v, w=w, w2=w2, g=g, c=c)
    return rng.choice(OUTER).format(i=inner, d=rng.choice([0, 1, 2]))


def rows(seed: int, many: int, null: float) -> pa.Table:
    rng = random.Random(seed)

    def some(values: Sequence[Any]) -> list[Any]:
        return [None if rng.random() < null else rng.choice(values) for _ in range(many)]

    return pa.table(
        {
            "who": pa.array([rng.randrange(15) for _ in range(many)], pa.int32()),
            "id": pa.array(rng.sample(range(1000), many), pa.int32()),
            "x": pa.array(some(range(4)), pa.int32()),
            "n": pa.array(some(range(3)), pa.int32()),
            "k": pa.array(some("abc"), pa.string()),
        }
    )


@cache
def pair(shape: str) -> Pair:
    """Return a store and its rows in plain DuckDB."""
    many, null = {"empty": 0, "one row": 1}.get(shape, 70), 1.0 if shape == "all NULL" else 0.15
    tables = {"t": rows(1, many, null), "v": rows(2, many and 30, null)}
    bounds = {f"{table}.{column}": (0, 3) for table in tables for column in "xn"}
    return Pair(tables, bounds=bounds)


def questions(shape: str, seed: int, many: int) -> Iterator[str]:
    rng = random.Random(100 * seed + SHAPES.index(shape))
    for _ in range(many):
        yield question(rng, shape == "plain")


CASES = [(shape, seed) for seed in range(24) for shape in SHAPES]  # 480 questions


@pytest.mark.parametrize(("shape", "seed"), one_in(96, CASES))
def test_a_subquery_is_answered_as_duckdb_answers_it(shape: str, seed: int) -> None:
    kinds = set()
    for sql in questions(shape, seed, 5):
        outcome = pair(shape).ask(sql)
        assert outcome.agrees, f"{sql}\n{outcome}"
        kinds.add(outcome.kind)
    assert Kind.EQUAL in kinds
