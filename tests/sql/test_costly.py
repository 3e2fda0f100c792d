"""Costly queries: each is lowered or refused with bounded work, and its text grows as it does.

Work is counted in calls of functions, which are the same on a machine that others keep busy.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.base._duckdb.connection import TooLarge, connect, fetch_at_most
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.wire_errors import WireError
from sparseq.question.limits import LIMITS, all_limits
from sparseq.sql.join_sizes import most_of

ROOT = Path(__file__).parents[2]
CALLS = 30_000_000
"""Calls and returns of functions: twice what the costliest takes, which is a few seconds."""
MEGABYTES = 200
N = "(SELECT count(*) AS n FROM t)"
G = "(SELECT s, count(*) AS n FROM t GROUP BY s)"


def nested(form: str, times: int, inside: str = "n") -> str:
    """Return a form put into itself, at each @."""
    for _ in range(times):
        inside = form.replace("@", inside)
    return inside


def named(first: str, step: str, times: int) -> str:
    """Return WITH subqueries, each of which is made of the one before."""
    parts = [f"c0 AS ({first})"]
    parts += [f"c{i} AS ({step.replace('@', f'c{i - 1}')})" for i in range(1, times + 1)]
    return "WITH " + ", ".join(parts)


def numbers(form: str, most: int, between: str = ", ") -> str:
    return between.join(form.replace("@", str(i)) for i in range(most))


COUNT, WHERE = "SELECT count(*) AS m FROM t", "SELECT count(*) AS m FROM t WHERE "
COSTLY = {
    # -- what follows the noise
    "five factors": f"SELECT n{'*1.0' * 5} AS x FROM {N}",
    "fifty factors": f"SELECT n{'*1.0' * 50} AS x FROM {N}",
    "fifty quotients": f"SELECT n{'/2.0' * 50} AS x FROM {N}",
    "two hundred terms": f"SELECT n{'+1.0' * 200} AS x FROM {N}",
    "squares of squares": f"SELECT {nested('(@*@)', 6)} AS x FROM {N}",
    "twelve noised factors": f"SELECT {'*'.join(['n'] * 12)} AS x FROM {N}",
    "abs in abs": f"SELECT {nested('abs(@-1)', 12)} AS x FROM {N}",
    "greatest in greatest": f"SELECT {nested('greatest(@,1)', 15)} AS x FROM {N}",
    "CASE in CASE": f"SELECT {nested('CASE WHEN 1=1 THEN @ ELSE 0 END', 20)} AS x FROM {N}",
    "coalesce in coalesce": f"SELECT {nested('coalesce(@,0)', 20)} AS x FROM {N}",
    "round in round": f"SELECT {nested('round(@,2)', 20)} AS x FROM {N}",
    "a lag times itself": f"SELECT s, lag(n) OVER (ORDER BY s)*n*n*n AS x FROM {G}",
    "a sum of products": f"SELECT sum(n*n*n*n*n*n) AS x FROM {G}",
    "products of sums": f"SELECT s, {'*'.join(['sum(n)'] * 6)} AS x FROM {G} GROUP BY s",
    "twenty layers": named(COUNT, "SELECT m*1.5 AS m FROM @", 15) + " SELECT m FROM c15",
    "answers that double": named(COUNT, "SELECT a.m+b.m AS m FROM @ a, @ b", 20)
    + " SELECT m FROM c20",
    "unions that double": named(COUNT, "SELECT m FROM @ UNION ALL SELECT m FROM @", 20)
    + " SELECT m FROM c20",
    "answers times answers": f"SELECT count(*) FROM {', '.join(f'{G} g{i}' for i in range(12))}",
    "an answer times tables": f"SELECT n FROM {N} a, p b, p c, p d, p e",
    "a thousand columns": f"SELECT {numbers('n*@.5 AS c@', 1200)} FROM {G}",
    "a list for an answer": f"SELECT n FROM {N} WHERE n IN ({numbers('@', 15_000)})",
    "coalesce of a count": f"SELECT {nested('coalesce(@,0)', 20, 'count(*)')} AS x FROM t",
    "nullif of a count": f"SELECT {nested('nullif(@,1)', 20, 'count(*)')} AS x FROM t",
    "between of a count": f"SELECT {nested('((@) BETWEEN 0 AND 1)', 20, '(count(*)>1)')} FROM t",
    "lists of lists": f"SELECT {nested('((@) IN (0,1,2,3))', 12, 'count(*)')} AS x FROM t",
    "coalesce in HAVING": f"{COUNT} HAVING {nested('coalesce(@,0)', 20, 'count(*)')} > 1",
    # -- text and lowering
    "a long text": f"{WHERE}s = '{'x' * 100_000}'",
    "ten thousand ANDs": WHERE + numbers("v<>@", 9_000, " AND "),
    "four hundred ANDs": WHERE + numbers("v<>@", 400, " AND "),
    "a long list": f"{WHERE}v IN ({numbers('@', 15_000)})",
    "a long list of others": f"{WHERE}v IN ({numbers('@.5', 13_000)})",
    "a long list of texts": f"{WHERE}s NOT IN ({numbers(chr(39) + '@' + chr(39), 12_000)})",
    "parentheses": f"{WHERE}{'(' * 20_000}v=1{')' * 20_000}",
    "minuses": f"SELECT sum({'- ' * 5_000}v) AS m FROM t",
    "NOTs": f"{WHERE}{'NOT ' * 5_000}v=1",
    "many branches": f"SELECT sum(CASE {numbers('WHEN v=@ THEN @', 4_000, ' ')} END) AS m FROM t",
    "CASE x in CASE x": f"{WHERE}{nested('(CASE @ WHEN 1 THEN 2 WHEN 2 THEN 3 END)', 20, 'v')}=0",
    "nullif in nullif": f"{WHERE}{nested('nullif(@,1)', 25, 'v')}=0",
    "quotients": f"{WHERE}{nested('(@//3)', 20, 'v')}=0",
    "between in between": f"{WHERE}{nested('((@) BETWEEN 0 AND 1)', 20, '(v=1)')}",
    "lists in lists": f"{WHERE}{nested('((@) IN (0, v, 1))', 12, '(v=1)')}",
    "IS in IS": f"{WHERE}{nested('((@) IS DISTINCT FROM true)', 20, '(v=1)')}",
    "places in places": f"{WHERE}{nested('length(left(s, @))', 8, 'v')}=0",
    "names that double": f"SELECT {numbers('a@+a@ AS b@', 1)}, 1 AS a0, "
    + ", ".join(f"a{i}+a{i} AS a{i + 1}" for i in range(30))
    + ", count(*) AS m FROM t GROUP BY ALL",
    "sums that double": "SELECT count(*) AS a0, "
    + ", ".join(f"a{i}+a{i} AS a{i + 1}" for i in range(20))
    + " FROM t",
    "subqueries in subqueries": f"SELECT count(*) AS m FROM {'(SELECT * FROM ' * 30}t{')' * 30}",
    "people that double": named(
        "SELECT who, v FROM t", "SELECT a.who, a.v FROM @ a JOIN @ b ON a.who=b.who", 20
    )
    + " SELECT count(*) FROM c20",
    "tables that double": named("SELECT k FROM p", "SELECT a.k FROM @ a, @ b WHERE a.k=b.k", 20)
    + " SELECT count(*) FROM t JOIN c20 ON t.v=c20.k",
    "many unions": f"SELECT count(*) FROM ({' UNION ALL '.join(['SELECT who FROM t'] * 60)})",
    "a thousand sums": f"SELECT {numbers('sum(least(v,@)) AS c@', 1_100)} FROM t",
    "joins of people": "SELECT count(*) AS m FROM t a0 "
    + " ".join(f"JOIN t a{i} ON a0.who=a{i}.who" for i in range(1, 31)),
    "grouping sets": f"{COUNT} GROUP BY CUBE({numbers('v+@', 10)})",
    # -- constants and public tables
    "a pattern": f"{WHERE}s LIKE '{'%a' * 20_000}%'",
    "a pattern with gaps": f"{WHERE}s LIKE '{'%a_' * 200}%'",
    "repetitions": f"{WHERE}regexp_matches(s,'((a{{1,1000}}){{1,1000}}){{1,1000}}')",
    "a repeated text": f"{WHERE}s = repeat('x',1000000)",
    "a padded text": f"{WHERE}s = lpad('x',1000000,'y')",
    "a series": f"{COUNT}, generate_series(1,100000000) g",
    "tables times tables": f"{WHERE}v IN (SELECT a.k FROM {numbers('p p@', 7)}, p a)",
    "tables times people": f"{COUNT} JOIN (SELECT a.k FROM p a, p b, p c, p d, p e) q ON q.k=t.v",
    "sixty subqueries": f"{WHERE}v > {'+'.join(['(SELECT max(k) FROM p)'] * 60)}",
}


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    rows = pa.table(
        {
            "who": list(range(100)),
            "v": [1] * 100,
            "s": [f"a{i % 5}" for i in range(100)],
        }
    )
    public = {"p": pa.table({"k": list(range(50))})}
    keys = {"s": tuple(f"a{i}" for i in range(5))}
    con = sparseq.create(
        None,
        {"t": rows},
        user="who",
        public=public,
        keys=keys,
        seed=1,
        purposes=[sparseq.Questions(counts=10**6)],
    )
    con.lower("SELECT count(*) AS warm FROM t")
    con.lower(f"SELECT n*n*n*n AS warm FROM {N}")
    return con


def test_there_are_enough() -> None:
    assert len(COSTLY) >= 40


@pytest.mark.parametrize("name", one_in(3, COSTLY))
def test_it_is_lowered_or_refused_at_once(con: sparseq.Store, name: str) -> None:
    left = CALLS

    def called(*_: object) -> None:
        nonlocal left
        left -= 1

    sys.setprofile(called)
    try:
        with contextlib.suppress(QueryRefused):
            con.explain(COSTLY[name])
    finally:
        sys.setprofile(None)
    assert left > 0


@pytest.mark.parametrize("name", ["fifty factors", "squares of squares"])
def test_it_takes_little_memory(con: sparseq.Store, name: str) -> None:
    tracemalloc.start()
    try:
        con.lower(COSTLY[name] + " ")  # another text: it isn't remembered
    except QueryRefused:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MEGABYTES * 2**20


# -- the text grows as the query does --------------------------------------------------------------

GROWING: dict[str, Callable[[int], str]] = {
    "terms": lambda k: f"SELECT n{'+1.0' * k} AS x FROM {N}",
    "factors": lambda k: f"SELECT n{'*1.5' * k} AS x FROM {N}",
    "noised factors": lambda k: f"SELECT {'*'.join(['n'] * (k + 1))} AS x FROM {N}",
    "quotients": lambda k: f"SELECT 1{'/n' * (k + 1)} AS x FROM {N}",
    "greatest": lambda k: f"SELECT {nested('greatest(@,1)', k)} AS x FROM {N}",
    "abs": lambda k: f"SELECT {nested('abs(@-1)', k)} AS x FROM {N}",
    "round": lambda k: f"SELECT {nested('round(@*n,1)', k)} AS x FROM {N}",
    "sums": lambda k: f"SELECT sum({'*'.join(['n'] * (k + 1))}) AS x FROM {G}",
    "windows": lambda k: (
        f"SELECT s, {'*'.join(['lag(n) OVER (ORDER BY s)'] * (k + 1))} AS x FROM {G}"
    ),
}


def lowered(con: sparseq.Store, sql: str) -> int:
    """Return how long the SQL is that follows the noise."""
    outputs: Any = con.lower(sql).outputs
    return len(outputs.sql)


@pytest.mark.parametrize("name", one_in(3, GROWING))
def test_the_text_grows_as_the_query_does(con: sparseq.Store, name: str) -> None:
    """Of an operation at most 4,000 characters, whether it is the sixth or the twentieth."""
    short, long = (lowered(con, GROWING[name](k)) for k in (6, 20))
    assert long <= short + 14 * 4_000
    assert short <= 6 * 4_000


# -- limits ----------------------------------------------------------------------------------------

OVER = {
    "text": "SELECT count(*) FROM t WHERE s = 'xxxxxxxxxxxxxxxxxxxxxxxxx'",
    "nodes": f"{WHERE}v IN (1, 2, 3, 4, 5, 6, 7, 8)",
    "depth": f"{WHERE}v = 1 + (2 + (3 + 4))",
    "selects": f"SELECT count(*) FROM {'(SELECT * FROM ' * 9}t{')' * 9}",
    "joins": "SELECT count(*) FROM t" + "".join(f" JOIN p p{i} ON t.v = p{i}.k" for i in range(9)),
    "people": "SELECT count(*) FROM t a JOIN t b ON a.who = b.who JOIN t c ON a.who = c.who",
    "columns": f"SELECT {numbers('count(*) + @ AS c@', 9)} FROM t",
    "sql": "SELECT count(*) FROM (SELECT who, v + 1 AS w FROM t)",
    "public": "SELECT count(*) FROM t WHERE v < (SELECT max(a.k + b.k) FROM p a, p b)",
    "after": "SELECT s, count(*) + 1 FROM t GROUP BY s",
    "cells": "SELECT s, count(*) FROM t GROUP BY s",
}


@pytest.mark.parametrize("name", OVER)
def test_each_limit_is_set_and_says_which_it_is(name: str) -> None:
    rows = pa.table({"who": [1], "v": [1], "s": ["a"]})
    most = {name: {"text": 40, "nodes": 18, "people": 2}.get(name, 8)}
    con = sparseq.create(
        None,
        {"t": rows},
        user="who",
        public={"p": pa.table({"k": list(range(9))})},
        keys={"s": tuple("abcdefghi")},
        most=most,
    )
    with pytest.raises(QueryRefused, match=rf"the limit is {most[name]}\b") as refused:
        con.lower(OVER[name])
    assert f"limit {name}: docs/limits.md" in refused.value.hint
    assert LIMITS[name].instead in refused.value.hint


@pytest.mark.parametrize(
    "names",
    [
        ("joins of people", "answers times answers", "tables times tables", "people that double"),
        pytest.param(("many branches",), marks=pytest.mark.deep),
    ],
    ids=["quick", "long"],
)
def test_a_limit_does_not_depend_on_rows(names: tuple[str, ...]) -> None:
    """Each costly query has the same message on other rows."""

    def said(rows: int) -> list[str]:
        who = list(range(rows))
        people = pa.table({"who": who, "v": [7] * rows, "s": ["a1"] * rows})
        con = sparseq.create(
            None,
            {"t": people},
            user="who",
            public={"p": pa.table({"k": [1, 2]})},
            keys={"s": ("a1", "a2")},
        )
        found = []
        for name in names:
            try:
                found.append(str(con.lower(COSTLY[name]).notes))
            except QueryRefused as refused:
                found.append(str(refused))
        return found

    assert said(1) == said(300)


def test_limits_are_kept_with_the_store(tmp_path: Path) -> None:
    rows = pa.table({"who": [1], "v": [1]})
    path = tmp_path / "a.sparseq"
    sparseq.create(path, {"t": rows}, user="who", most={"text": 30}).close()
    with (
        sparseq.connect(path) as con,
        pytest.raises(QueryRefused, match="38 characters; the limit is 30"),
    ):
        con.lower("SELECT count(*) AS number_of_rows FROM")


def test_a_limit_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ParameterError) as refused:
        sparseq.create(None, {"t": pa.table({"who": [1]})}, user="who", most={"txt": 5})
    assert "text" in refused.value.hint


def test_the_page_has_every_limit() -> None:
    page = (ROOT / "docs" / "limits.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+|none) \| ", page, re.MULTILINE))
    assert rows == {
        name: "none" if limit.default is None else f"{limit.default:,}"
        for name, limit in LIMITS.items()
    }


def test_a_row_becomes_as_many_rows_however_many_tables_are_joined() -> None:
    """n ** (k - 1) <= sqrt(most), so that all people's rows together make N sqrt(most) at most."""
    for most in (10, 1_000, 20_000_000, 10**12):
        for k in range(2, 12):
            product = most_of(most, k)
            n = math.floor(product ** (1 / k) * (1 + 1e-9)) if k > 2 else 1
            assert (n ** (k - 1)) ** 2 <= most


# -- results and look-ups --------------------------------------------------------------------------


def test_a_result_is_computed_up_to_its_limit() -> None:
    most = all_limits()
    with pytest.raises(TooLarge, match="5,000,000 cells"):
        fetch_at_most(connect(), "SELECT range AS a, 1 AS b FROM range(10_000_000_000)", most)
    with pytest.raises(TooLarge, match="1,000 bytes"):
        fetch_at_most(connect(), "SELECT range FROM range(500)", most | {"bytes": 1000})
    table = fetch_at_most(connect(), "SELECT range AS a FROM range(5000) ORDER BY a", most)
    assert table["a"].to_pylist() == list(range(5000))
    assert fetch_at_most(connect(), "SELECT 1 AS a WHERE false", most).column_names == ["a"]


LOOK_UPS = [
    "SELECT repeat('x',1000000) FROM generate_series(1,600)",
    "SELECT repeat(relname, 1000) FROM pg_class",
    "SELECT repeat(repeat('x', 1000), 1000)",
    "SELECT repeat('x', 1000 * g) FROM generate_series(1, 600) AS g(g)",
    "SELECT lpad('x', 1000000)",
    "SELECT rpad('x', g) FROM generate_series(1, 600) AS g(g)",
    "SELECT replace('xxxxxxxxxxxxxxxx', 'x', repeat('y', 1000))",
    f"SELECT replace('x', 'x', '{'y' * 5_000}')",
    "SELECT unnest(generate_series(1, 1000000000))",
    "SELECT generate_series(1, 1000000000)",
    "SELECT array_length(ARRAY(SELECT g FROM generate_series(1, 1000000000) AS g(g)), 1)",
    "SELECT g FROM generate_series(1, 1000000000) AS g(g)",
    "SELECT a.oid, a.relname, b.* FROM pg_class a, pg_class b, pg_class c, pg_class d",
]


@pytest.fixture(scope="module")
def look(con: sparseq.Store) -> Any:
    catalogue = Catalogue(con.catalog, "shop", {})
    yield catalogue.look("ada", Settings("ada"))
    catalogue.close()


@pytest.mark.parametrize("sql", LOOK_UPS)
def test_a_look_up_makes_little_of_little(look: Any, sql: str) -> None:
    with pytest.raises(WireError):
        look.table(sql)


def test_texts_that_double_are_cut(look: Any) -> None:
    sql = named("SELECT repeat('x', 1000) AS a", "SELECT a || a AS a FROM @", 30)
    (row,) = look.table(f"{sql} SELECT length(a) AS n FROM c30").to_pylist()
    assert row["n"] == 10_000


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT 'a' || 'b' || 'c' AS x", "abc"),
        ("SELECT 'a' || NULL AS x", None),
        ("SELECT concat('a', NULL, 'b') AS x", "ab"),
        ("SELECT ARRAY[1, 2] || ARRAY[3] AS x", [1, 2, 3]),
        ("SELECT repeat('-', 3) AS x", "---"),
        ("SELECT repeat('-', 2 + 3) AS x", "-----"),
        ("SELECT lpad('7', 3, '0') AS x", "007"),
        ("SELECT replace('abc', 'b', 'xx') AS x", "axxc"),
        ("SELECT sum(g) AS x FROM generate_series(1, 4) AS g(g)", 10),
        ("SELECT sum(g) AS x FROM generate_series(4, 1, -1) AS g(g)", 10),
    ],
)
def test_what_is_small_is_as_it_was(look: Any, sql: str, value: Any) -> None:
    assert look.table(sql)["x"].to_pylist() == [value]
