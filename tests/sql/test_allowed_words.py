"""Nothing of a query is left unread: whatever a node can hold is read, or the query is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from sampled import one_in
from sqlglot import exp

import sparseq
import sparseq.language
import sparseq.sql
from sparseq.base.errors import QueryRefused
from sparseq.question.limits import all_limits
from sparseq.sql import allowed_words as allowed
from sparseq.sql.allowed_words import ALLOWED, check_allowed, check_written

ARGUMENTS = [
    (kind, name)
    for kind in sorted(ALLOWED, key=lambda k: k.__name__)
    for name in kind.arg_types
    if name != "this"
]
SOURCES = "\n".join(
    p.read_text()
    for package in (sparseq.sql, sparseq.language)
    for p in Path(package.__path__[0]).glob("*.py")
    if p.name != "allowed.py"
)


def read_of(kind: type) -> set[str]:
    return set(allowed._PARTS.get(kind, allowed._OPERANDS).split())


def noted_of(kind: type) -> set[str]:
    return set(allowed._DIALECT.get(kind, "").split())


@pytest.mark.parametrize("kind", sorted(ALLOWED, key=lambda k: k.__name__))
def test_what_nobody_reads_is_refused(kind: type[exp.Expr]) -> None:
    for name in kind.arg_types:
        if name in {"this", *read_of(kind), *noted_of(kind)}:
            continue
        node = kind(this=exp.column("x"))
        node.set(name, exp.column("y"))
        with pytest.raises(QueryRefused):
            check_allowed(exp.Tuple(expressions=[node]), "", all_limits())


def test_most_arguments_are_refused() -> None:
    """The list of what is read is short: sqlglot can write far more."""
    left = [(k, n) for k, n in ARGUMENTS if n not in read_of(k) | noted_of(k)]
    assert len(left) > 200
    assert (exp.Between, "symmetric") in left
    assert (exp.Table, "sample") in left


@pytest.mark.parametrize("kind", sorted(allowed._PARTS, key=lambda k: k.__name__))
def test_what_is_said_to_be_read_is_looked_at(kind: type[exp.Expr]) -> None:
    for name in read_of(kind):
        assert name in kind.arg_types or name in ("except", "from", "with", "safe"), name
        # CAST and TRY_CAST are the same here; sqlglot writes stars out; sides are read as `…_side`
        if name != "safe" and kind is not exp.Star and not name.endswith("_side"):
            assert re.search(rf"\b{name}\b", SOURCES), name


ROWS = pa.table({"who": [1, 2, 3], "v": [1, 5, None], "w": [5, 1, 2], "s": ["a", "b", None]})
PAIRS = [
    ("v BETWEEN 5 AND 1", "v BETWEEN SYMMETRIC 5 AND 1"),
    ("s LIKE 'a%'", "s NOT LIKE 'a%'"),
    ("s LIKE 'a!%'", "s LIKE 'a!%' ESCAPE '!'"),
    ("s ILIKE 'a%'", "s NOT ILIKE 'a%'"),
    ("v IS NULL", "v IS NOT NULL"),
    ("trim(s) = 'a'", "trim(LEADING FROM s) = 'a'"),
    ("s = 'a'", "s COLLATE NOCASE = 'a'"),
    ("ceil(v) = 1", "ceil(v, 1) = 1"),
    ("regexp_extract(s, 'a') = 'a'", "regexp_extract(s, 'a', 1) = 'a'"),
    ("regexp_matches(s, 'a')", "regexp_matches(s, 'a', 'i')"),
    ("regexp_replace(s, 'a', 'b') = 'b'", "regexp_replace(s, 'a', 'b', 'g') = 'b'"),
    ("string_split(s, 'a') IS NULL", "string_split(s, 'a', 1) IS NULL"),
    ("v IN (SELECT max(v) FROM t GROUP BY who)", "v IN (SELECT max(v, 2) FROM t GROUP BY who)"),
    ("who IN (SELECT who FROM t)", "who IN (SELECT who FROM t TABLESAMPLE 10%)"),
    ("who IN (SELECT who FROM t)", "who IN (SELECT who FROM t FOR UPDATE)"),
    ("who IN (SELECT who FROM t)", "who IN (SELECT who FROM ONLY t)"),
    (
        "v IN (SELECT v FROM t QUALIFY row_number() OVER (PARTITION BY who ORDER BY w) = 1)",
        "v IN (SELECT v FROM t QUALIFY row_number() OVER "
        "(PARTITION BY who ORDER BY w NULLS FIRST) = 1)",
    ),
    (
        "v IN (SELECT v FROM t QUALIFY sum(v) OVER w2 = 1 WINDOW w2 AS (PARTITION BY who))",
        "v IN (SELECT v FROM t QUALIFY sum(v) OVER (w2 ORDER BY w) = 1 "
        "WINDOW w2 AS (PARTITION BY who))",
    ),
    (
        "v IN (SELECT lag(v) OVER (PARTITION BY who ORDER BY w) FROM t)",
        "v IN (SELECT lag(v IGNORE NULLS) OVER (PARTITION BY who ORDER BY w) FROM t)",
    ),
    ("v IN (SELECT DISTINCT v FROM t)", "v IN (SELECT DISTINCT ON (who) v FROM t)"),
]


@pytest.mark.parametrize(("without", "with_it"), one_in(2, PAIRS), ids=lambda c: c[:50])
def test_a_word_more_is_another_query_or_refused(without: str, with_it: str) -> None:
    with sparseq.create(None, {"t": ROWS}, user="who", seed=1) as con:
        lowered = []
        for condition in (without, with_it):
            try:
                found = con.lower(f"SELECT count(*) AS n FROM t WHERE {condition}").relation
                lowered.append((found.sql, found.where, found.conditions))
            except QueryRefused:
                lowered.append(None)
        assert lowered[1] is None or lowered[0] != lowered[1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM t LIMIT 10 PERCENT",
        "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY n FETCH FIRST 1 ROWS WITH TIES",
        "SELECT approx_count_distinct(who, 3) AS n FROM t",
        "SELECT /*+ BROADCAST(t) */ count(*) AS n FROM t USING SAMPLE 3",
        "SELECT count(*) AS n FROM t, LATERAL (SELECT v FROM t AS u WHERE u.who = t.who "
        "ORDER BY v LIMIT 50 PERCENT) AS l",
        "SELECT count(* EXCLUDE (v)) AS n FROM t",
        "SELECT count(*) AS n INTO other FROM t",
        "SELECT count(*) AS n FROM t AS OF TIMESTAMP '2024-01-01'",
    ],
)
def test_clauses_that_nobody_reads_are_refused(query: str) -> None:
    with (
        sparseq.create(None, {"t": ROWS}, user="who", seed=1) as con,
        pytest.raises(QueryRefused),
    ):
        con.lower(query)


def test_what_is_rewritten_is_checked_before() -> None:
    for kind in allowed._BEFORE:
        node = kind(this=exp.column("x"))
        for name in set(kind.arg_types) - {"this"} - read_of(kind) - noted_of(kind):
            node = kind(this=exp.column("x"))
            node.set(name, exp.column("y"))
            with pytest.raises(QueryRefused):
                check_written(exp.Tuple(expressions=[node]))
