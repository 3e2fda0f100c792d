"""Answers without their noise are what plain DuckDB answers, groups without rows included.

Each pair in pairs.sql is a query, and the query that says the same over plain tables. Plain SQL
has no row for a group that nobody is in; here it must be there, and hold nothing. NULL is in no
public domain, so plain groups whose key is NULL are left out.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from compare import check_same
from pairs import PAIRS
from sampled import one_in
from shop import FINE, answer, exact, store, truth

import sparseq
from sparseq.question.plan import Options

OPTIONS = re.compile(r"WITH\s+DIFFERENTIAL_PRIVACY\s+(OPTIONS\s*\([^)]*\))?", re.IGNORECASE)


NOTHING = {"nothing", "division by nothing", "compared with nothing"}
"""Pairs that are about no rows."""


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store()


@pytest.fixture(scope="module")
def at_once() -> sparseq.Store:
    return store(loads=1)


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    return truth()


def _check(con: sparseq.Store, plain: duckdb.DuckDBPyConnection, name: str, fine: bool) -> None:
    asked, same = PAIRS[name]
    ours = answer(con, asked, FINE if fine else Options())
    theirs = plain.sql(OPTIONS.sub("", same)).to_arrow_table()
    select = sqlglot.parse_one(OPTIONS.sub("", asked), dialect="duckdb")
    check_same(ours, theirs, in_order="order" in select.args, exact=fine)
    if name not in NOTHING:
        assert any(any(row.values()) for row in theirs.to_pylist()), "this pair tells nothing"


@pytest.mark.parametrize("name", one_in(2, PAIRS))
def test_answer_is_duckdbs(con: sparseq.Store, plain: duckdb.DuckDBPyConnection, name: str) -> None:
    _check(con, plain, name, fine=True)


@pytest.mark.parametrize("name", one_in(6, PAIRS))
def test_answer_at_the_stores_own_noise_is_duckdbs(
    at_once: sparseq.Store, plain: duckdb.DuckDBPyConnection, name: str
) -> None:
    """On the lattice that the store's noise asks for; so every sum must have a public scale."""
    _check(at_once, plain, name, fine=False)


def test_there_are_enough_pairs() -> None:
    assert len(PAIRS) >= 260


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT kind, count(*) n FROM events GROUP BY kind", "no rows"),
        ("SELECT qty, count(*) n FROM events GROUP BY qty", 11),
        ("SELECT code, count(*) n FROM events WHERE code IN ('1', 'zz') GROUP BY code", "zz"),
        ("SELECT city, count(*) n FROM events JOIN shops USING (shop_id) GROUP BY city", "Turin"),
        ("SELECT month(day) k, count(*) n FROM events GROUP BY k", 12),
        ("SELECT due, sum(amount) s FROM events GROUP BY due", dt.date(2001, 1, 1)),
    ],
)
def test_a_key_with_no_rows_appears(con: sparseq.Store, sql: str, keys: Any) -> None:
    assert {tuple(r.values()) for r in exact(con, sql)} >= {(keys, 0)}


def test_a_key_beyond_the_bounds_of_its_column_is_not_listed(con: sparseq.Store) -> None:
    """Values are cut to the bounds, 0 to 10, so that no row has the declared key 99."""
    rows = exact(con, "SELECT pages, count(*) n FROM visits GROUP BY pages")
    assert [row["pages"] for row in rows] == [1, 2, 3, 4, 5]


def test_rows_outside_of_the_domain_are_neither_counted_nor_charged() -> None:
    con = store()
    sql = "SELECT kind, count(*) n FROM events WHERE kind IN ('no such kind') GROUP BY kind"
    assert exact(con, sql) == [{"kind": "no such kind", "n": 0}]
    con.sql(sql)
    assert not con.stream.accounts.spent.any()
    pages = exact(con, "SELECT pages, count(*) n FROM visits GROUP BY pages")
    listed = (1, 2, 3, 4, 5, 99)
    assert sum(r["n"] for r in pages) == sum(
        r["n"] for r in exact(con, f"SELECT count(*) n FROM visits WHERE pages IN {listed}")
    )


def test_empty_groups_have_no_average(con: sparseq.Store) -> None:
    (row,) = exact(
        con, "SELECT avg(amount) a, stddev(amount) s, count(*) n FROM events WHERE who = -1"
    )
    assert row == {"a": None, "s": None, "n": 0}


def test_a_deviation_is_the_same_in_whatever_order_rows_lie() -> None:
    """To the last bit: everybody has the same values, each in an order of their own."""
    rng, values = random.Random(3), [1e9, 0.1, -1e9, 0.3, 7e-5, 1e5 / 3] * 3
    rows = [(who, x) for who in range(60) for x in rng.sample(values, len(values))]
    table_ = pa.table(dict(zip(("who", "x"), zip(*rows, strict=True), strict=True)))
    ordered = f"(SELECT unnest({sorted(values)}) AS x)"
    (spread,) = duckdb.sql(f"SELECT stddev(x) FROM {ordered}").fetchall()[0]
    people = "(SELECT who, stddev(x) AS s, median(x) AS m FROM people GROUP BY who)"
    alike = f"s = CAST('{spread!r}' AS DOUBLE) AND m BETWEEN 0.19 AND 0.21"
    with sparseq.create(None, {"people": table_}, user="who", seed=1) as con:
        assert exact(con, f"SELECT count(*) AS n FROM {people} WHERE {alike}") == [{"n": 60}]
    plain = duckdb.sql(
        "SELECT count(DISTINCT s) FROM (SELECT stddev(x) s FROM table_ GROUP BY who)"
    )
    assert plain.fetchall() != [(1,)], "the order tells nothing"


def test_several_quantiles_are_a_column_each(con: sparseq.Store) -> None:
    sql = "SELECT quantile_cont(amount, [0.25, 0.995], [0, 10, 50, 100]) AS q FROM events"
    one = "SELECT quantile_cont(amount, 0.25, [0, 10, 50, 100]) AS q_25 FROM events"
    (row,), (first,) = exact(con, sql), exact(con, one)
    assert list(row) == ["q_25", "q_99_5"]
    assert row["q_25"] == first["q_25"] < 50 < row["q_99_5"]


def test_today_is_one_day_in_a_query(con: sparseq.Store) -> None:
    query = con.lower("SELECT count(*) FROM events WHERE day <= current_date")
    assert f"'{dt.date.today()}'" in query.relation.where


def test_users_may_be_strings() -> None:
    people = pa.table({"who": ["it's", "ünï", None, "it's", ""], "x": [1, 2, 3, 4, 5]})
    with sparseq.create(None, {"people": people}, user="who", seed=1) as con:
        assert exact(
            con,
            "SELECT count(*) AS n, count(DISTINCT who) AS u, "
            "count(*) FILTER (WHERE who = 'it''s') AS q, "
            "count(*) FILTER (WHERE who LIKE 'ü%') AS l FROM people",
        ) == [{"n": 3, "u": 2, "q": 2, "l": 1}]  # an empty text is nobody's identifier
