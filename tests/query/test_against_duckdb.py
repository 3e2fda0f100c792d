"""Answers without their noise are what plain DuckDB answers, groups without rows included.

Each pair in pairs.sql is a query, and the query that says the same over plain tables.
Groups that only our answer has, as their keys are public, must hold nothing.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from shop import exact, store, truth

import sparseq

BIG = ", ".join(f"'{k}'" for k in ["book", "日本", *(f"w{i}" for i in range(50))])


def _read_pairs() -> dict[str, tuple[str, str]]:
    text = (Path(__file__).parent / "pairs.sql").read_text()
    pairs = {}
    for block in text.replace("{BIG}", BIG).split("\n\n-- ")[1:]:
        name, _, body = block.partition("\n")
        if not name.startswith("# "):
            ours, _, theirs = body.partition("-- is\n")
            pairs[name] = (ours.strip().rstrip(";"), (theirs or ours).strip().rstrip(";"))
    return pairs


PAIRS = _read_pairs()


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    return store()


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    return truth()


@pytest.mark.parametrize("name", PAIRS)
def test_answer_is_duckdbs(con: sparseq.Store, plain: duckdb.DuckDBPyConnection, name: str) -> None:
    asked, same = PAIRS[name]
    ours = [tuple(row.values()) for row in exact(con, asked)]
    theirs = [_plain(row) for row in plain.execute(same).fetchall()]
    domain = "GROUP BY" in asked.upper().rsplit(")", 1)[-1]
    expected = [row for row in theirs if None not in row] if domain else theirs
    unmatched = list(ours)
    for row in expected:
        found = next((o for o in unmatched if _same(o, row)), None)
        assert found is not None, (row, ours)
        unmatched.remove(found)
    assert all(_nothing(row) for row in unmatched), unmatched
    if "ORDER BY" in asked.upper().rsplit(")", 1)[-1]:
        assert all(_same(o, t) for o, t in zip(ours, expected, strict=True))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float(v) if isinstance(v, Decimal) else v for v in row)


def _same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return len(ours) == len(theirs) and all(map(_equal, ours, theirs))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(b, float) and isinstance(a, int | float | Decimal):
        return math.isclose(float(a), b, rel_tol=1e-9, abs_tol=1e-6)
    if isinstance(a, dt.datetime) != isinstance(b, dt.datetime):
        return str(a)[:10] == str(b)[:10]
    return bool(a == b)


def _nothing(row: tuple[Any, ...]) -> bool:
    """A group with no rows: its last number is zero, or there is none."""
    return row[-1] in (0, None)


def test_there_are_enough_pairs() -> None:
    assert len(PAIRS) >= 120


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("SELECT kind, count(*) n FROM events GROUP BY kind", "no rows"),
        ("SELECT qty, count(*) n FROM events GROUP BY qty", 11),
        ("SELECT code, count(*) n FROM events WHERE code IN ('1', 'zz') GROUP BY code", "zz"),
        ("SELECT city, count(*) n FROM events JOIN shops USING (shop_id) GROUP BY city", "Turin"),
        ("SELECT month(day) k, count(*) n FROM events GROUP BY k", 12),
        ("SELECT pages, count(*) n FROM visits GROUP BY pages", 99),
    ],
)
def test_a_key_with_no_rows_appears(con: sparseq.Store, sql: str, keys: Any) -> None:
    assert {tuple(r.values()) for r in exact(con, sql)} >= {(keys, 0)}


def test_rows_outside_of_the_domain_are_neither_counted_nor_charged() -> None:
    con = store()
    sql = "SELECT kind, count(*) n FROM events WHERE kind IN ('no such kind') GROUP BY kind"
    assert exact(con, sql) == [{"kind": "no such kind", "n": 0}]
    con.sql(sql)
    assert not con._accounts.spent.any()
    pages = exact(con, "SELECT pages, count(*) n FROM visits GROUP BY pages")
    listed = (1, 2, 3, 4, 5, 99)
    assert sum(r["n"] for r in pages) == sum(
        r["n"] for r in exact(con, f"SELECT count(*) n FROM visits WHERE pages IN {listed}")
    )


EDGES = [0, 1, 10, 25, 50, 90, 100]


def test_histogram(con: sparseq.Store, plain: duckdb.DuckDBPyConnection) -> None:
    rows = exact(con, f"SELECT histogram(amount, {EDGES}) n FROM events")
    assert [(r["bin_low"], r["bin_high"]) for r in rows] == list(pairwise(EDGES))
    for i, row in enumerate(rows):
        close = "<=" if i == len(rows) - 1 else "<"
        where = f"amount >= {row['bin_low']} AND amount {close} {row['bin_high']}"
        ((expected,),) = plain.execute(f"SELECT count(*) FROM events WHERE {where}").fetchall()
        assert row["n"] == expected


def test_histogram_by_group(con: sparseq.Store, plain: duckdb.DuckDBPyConnection) -> None:
    counts = "histogram(qty, [0, 3, 6]) FILTER (WHERE amount > 0) n"
    sql = f"SELECT gift, {counts} FROM events GROUP BY gift"
    for row in exact(con, sql):
        close = "<=" if row["bin_high"] == 6 else "<"
        where = f"qty >= {row['bin_low']} AND qty {close} {row['bin_high']} AND amount > 0"
        ((expected,),) = plain.execute(
            f"SELECT count(*) FROM events WHERE gift = {row['gift']} AND {where}"
        ).fetchall()
        assert row["n"] == expected


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_quantiles_are_in_the_right_bin(
    con: sparseq.Store, plain: duckdb.DuckDBPyConnection, share: float
) -> None:
    edges = list(range(-10, 102, 2))
    (ours,) = exact(con, f"SELECT quantile(amount, {share}, {edges}) q FROM events")
    ((theirs,),) = plain.execute(f"SELECT quantile_cont(amount, {share}) FROM events").fetchall()
    assert abs(ours["q"] - theirs) <= 2


def test_median_over_declared_bounds(con: sparseq.Store, plain: duckdb.DuckDBPyConnection) -> None:
    (ours,) = exact(con, "SELECT median(amount) m, quantile(amount, 0.5) q FROM events WHERE gift")
    ((theirs,),) = plain.execute("SELECT median(amount) FROM events WHERE gift").fetchall()
    assert ours["m"] == ours["q"]
    assert abs(ours["m"] - theirs) <= 2 * 110 / 64


def test_empty_groups_have_no_average(con: sparseq.Store) -> None:
    (row,) = exact(
        con, "SELECT avg(amount) a, stddev(amount) s, count(*) n FROM events WHERE who = -1"
    )
    assert row == {"a": None, "s": None, "n": 0}


def test_today_is_one_day_in_a_query(con: sparseq.Store) -> None:
    query = con.lower("SELECT count(*) FROM events WHERE day <= current_date")
    assert f"'{dt.date.today()}'" in query.relation.where
