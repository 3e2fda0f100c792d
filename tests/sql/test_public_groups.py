"""Public groups: exactly SQL's for usual forms, and none that a row is in is ever missing."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Query
from sparseq.released.outputs import Outputs
from sparseq.released.render import key_columns

ROWS, PEOPLE = 40_000, 3_000
OPEN = [None, "p", "q"]
PUBLIC = {
    "staff": pa.table(
        {
            "staff_id": [1, 2, 3, 4],
            "name": ["Ann", "Zoe", "Max", "Kim"],
            "team": ["a", "a", "b", "b"],
            "price": [1.0, 2000.0, 3000.0, 7.0],
        }
    ),
    "dim": pa.table({"k": list(range(40)), "label": [f"l{i}" for i in range(40)]}),
}
BOUNDS = {
    "day": ("2025-01-01", "2025-03-31"),
    "ts": ("2025-01-01", "2025-03-31"),
    "age": (0, 99),
    "amount": (0, 500),
    "e.k": (0, 39),
}


def rows() -> pa.Table:
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 90 * 86400, ROWS).tolist()
    ts = [dt.datetime(2025, 1, 1) + dt.timedelta(seconds=s) for s in seconds]
    return pa.table(
        {
            "who": rng.integers(0, PEOPLE, ROWS),
            "ts": ts,
            "day": [t.date() for t in ts],
            "kind": rng.choice(["view", "cart", "buy"], ROWS),
            "age": rng.integers(0, 100, ROWS),
            "amount": rng.random(ROWS) * 500,
            "ok": rng.random(ROWS) < 0.5,
            "k": rng.integers(0, 40, ROWS),
            "staff_id": rng.integers(1, 5, ROWS),
            "free": rng.integers(1, 5, ROWS),
            "open": [OPEN[i] for i in rng.choice(3, ROWS, p=[0.1, 0.45, 0.45])],
            "odd": rng.choice(["Yes", "yes", "no", "NO"], ROWS),
        }
    )


@pytest.fixture(scope="module")
def con() -> Iterator[sparseq.Store]:
    table = rows()
    types = {f"e.{c}": "NOT NULL" for c in table.column_names if c not in ("who", "open")}
    with sparseq.create(
        None,
        {"e": table},
        user="who",
        public=PUBLIC,
        bounds=BOUNDS,
        keys={"kind": ["view", "cart", "buy"], "open": ["p", "q"], "odd": ["yes", "no"]},
        types=types,
    ) as made:
        yield made


@pytest.fixture(scope="module")
def truth() -> duckdb.DuckDBPyConnection:
    plain = duckdb.connect()
    for name, table in {"e": rows(), **PUBLIC}.items():
        plain.register(name, table)
    return plain


def groups(query: Query) -> set[tuple[str, ...]]:
    """Return the groups that an answer may list."""
    assert isinstance(query.outputs, Outputs)
    columns, kept = key_columns(query.domains), np.arange(query.groups)
    for known in query.outputs.possible:
        kept = kept[known.holds([c[kept] for c in columns])]
    return texts(zip(*(c[kept].tolist() for c in columns), strict=True))


def texts(rows: Any) -> set[tuple[str, ...]]:
    return {tuple(str(v).removesuffix(" 00:00:00") for v in row) for row in rows}


def asked(keys: list[str], origin: str, where: str) -> str:
    by = ", ".join(str(i + 1) for i in range(len(keys)))
    return f"SELECT {', '.join(keys)}, count(*) AS n FROM {origin} WHERE {where} GROUP BY {by}"


J = "e JOIN staff USING (staff_id)"
EXACT = [
    ("e", "day < '2025-01-21'", ["day"]),
    ("e", "day BETWEEN '2025-01-10' AND '2025-01-20'", ["day"]),
    ("e", "day < '2025-01-21' AND kind = 'buy'", ["day"]),
    ("e", "month(day) = 1", ["day"]),
    ("e", "day < '2025-01-21'", ["date_trunc('week', day)"]),
    ("e", "ts < '2025-01-21'", ["ts::date"]),
    ("e", "ts >= '2025-03-11'", ["month(ts)"]),
    ("e", "NOT age < 65", ["age"]),
    ("e", "age >= 65", ["age // 10"]),
    ("e", "age >= 65", ["CASE WHEN age < 65 THEN 'young' ELSE 'old' END"]),
    ("e", "kind <> 'view'", ["kind"]),
    ("e", "kind LIKE 'b%'", ["kind"]),
    ("e", "lower(kind) = 'buy'", ["kind"]),
    ("e", "kind = 'buy' OR amount > 499", ["kind"]),
    ("e", "ok", ["ok"]),
    ("e", "open IS NOT NULL", ["open"]),
    ("e", "open <> 'p'", ["open"]),
    ("e", "kind = 'buy' AND age > 97", ["kind", "age"]),
    ("e", "kind = 'buy' AND age > 97 OR kind = 'cart' AND age < 2", ["kind", "age"]),
    ("e", "k < 5", ["k", "k - 1"]),
    ("e", "true", ["k", "k % 2 = 0"]),
    ("e", "true", ["kind", "upper(kind)"]),
    ("e", "day >= '2025-03-11'", ["day"]),
    ("e", "ts < '2025-01-21'", ["date_trunc('hour', ts)"]),
    ("e", "age >= 65", ["age"]),
    ("e", "amount < 200", ["floor(amount / 25)"]),
    ("e", "amount BETWEEN 0 AND 199.99", ["floor(amount / 25)"]),
    ("e", "kind NOT IN ('view')", ["kind"]),
    ("e", "kind > 'c'", ["kind"]),
    ("e", "true", ["open"]),
    ("e", "true", ["day", "dayname(day)"]),
    (J, "true", ["staff.team", "staff.name"]),
    (J, "staff.team = 'b'", ["staff_id"]),
    (J, "staff.team LIKE 'b%'", ["staff.name"]),
    (J, "lower(staff.team) = 'b'", ["e.staff_id"]),
    (J, "true", ["e.staff_id", "staff.name"]),
    (J, "staff.price > 100", ["staff.name", "kind"]),
    ("e JOIN dim USING (k)", "true", ["e.k", "dim.label"]),
    ("e JOIN dim ON e.k = dim.k AND dim.label IN ('l1', 'l2')", "true", ["e.k", "dim.label"]),
    ("e LEFT JOIN dim ON e.k = dim.k", "e.k < 3", ["e.k", "dim.label"]),
    ("e JOIN staff ON e.free = staff.staff_id", "staff.team = 'a'", ["e.free"]),
]


@pytest.mark.parametrize(("origin", "where", "keys"), EXACT)
def test_groups_are_those_of_sql(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, origin: str, where: str, keys: list[str]
) -> None:
    """Rows of every kind are there, so plain DuckDB has each group that a row can be in."""
    sql = asked(keys, origin, where)
    assert groups(con.lower(sql)) == texts(row[:-1] for row in truth.execute(sql).fetchall())


def test_a_key_beside_its_own_name_makes_no_cross_product(con: sparseq.Store) -> None:
    sql = "SELECT e.k, dim.label, count(*) AS n FROM e JOIN dim USING (k) GROUP BY 1, 2"
    assert len(con.sql(sql)) == 40


def test_a_date_in_the_where_of_a_public_table_is_not_taken_for_another() -> None:
    """Questions that differ in their dates alone are lowered once, but for their groups."""
    public = pa.table({"p": [1, 2, 3], "since": [dt.date(2024, m, 1) for m in (1, 2, 3)]})
    table = pa.table({"who": range(300), "p": [1, 2, 3] * 100})
    with sparseq.create(None, {"t": table}, user="who", public={"shop": public}) as con:
        found = [
            groups(
                con.lower(
                    "SELECT t.p, count(*) AS n FROM t JOIN shop ON t.p = shop.p "
                    f"WHERE shop.since < '2024-0{month}-15' GROUP BY t.p"
                )
            )
            for month in (1, 2, 3)
        ]
        assert [len(some) for some in found] == [1, 2, 3]


ATOMS = [
    "day < '2025-01-21'",
    "day >= '2025-03-11'",
    "month(day) = 2",
    "kind = 'buy'",
    "kind <> 'view'",
    "kind LIKE '%e%'",
    "age >= 65",
    "age < 18",
    "age % 10 = 3",
    "amount < 200",
    "amount * 2 > 700",
    "ok",
    "open IS NULL",
    "open = 'p'",
    "open <> 'p'",
    "e.k < 5",
    "e.k = age",
    "staff.team = 'b'",
    "staff.price > 100",
    "lower(staff.name) < 'l'",
    "dim.label IN ('l1', 'l20')",
    "hour(ts) = 7",
    "ts < '2025-02-03 04:05'",
    "e.k + 1 = dim.k",
    "coalesce(open, 'z') = 'z'",
    "free > 2",
    "e.staff_id = e.k",
    "ts::date = day",
    "CASE WHEN ok THEN age > 50 ELSE kind = 'cart' END",
    "open IN ('q', NULL)",
    "dim.label IS NULL",
    "odd = 'Yes'",
    "upper(odd) = 'YES'",
    "odd <> 'yes'",
    "odd IN ('Yes', 'no')",
    "(ok IS NULL) = (open IS NULL)",
    "date_trunc('month', ts) = '2025-02-01'",
]
KEYS = [
    "day",
    "date_trunc('week', day)",
    "month(day)",
    "kind",
    "upper(kind)",
    "age",
    "age // 10",
    "floor(amount / 25)",
    "ok",
    "open",
    "coalesce(open, 'none')",
    "e.k",
    "staff.team",
    "staff.name",
    "e.staff_id",
    "dim.label",
    "ts::date",
    "hour(ts)",
    "e.k % 7",
    "age > 30 AND ok",
    "odd",
    "upper(odd)",
    "CASE WHEN age < 18 THEN 'young' WHEN kind = 'buy' THEN 'buyer' ELSE 'other' END",
]
ORIGINS = [
    "e",
    "e JOIN staff ON e.staff_id = staff.staff_id",
    "e LEFT JOIN dim ON e.k = dim.k",
    "e JOIN dim ON e.k = dim.k JOIN staff ON staff.staff_id = e.staff_id",
    "e LEFT JOIN dim ON e.k = dim.k AND dim.k < 7",
    "e LEFT JOIN dim ON e.k = dim.k AND amount < 200",
    "e JOIN staff ON e.free = staff.staff_id",
    "e JOIN staff ON e.staff_id < staff.staff_id",
]


def condition(rng: random.Random, deep: int, usable: list[str]) -> str:
    if deep == 0 or rng.random() < 0.3:
        return rng.choice(usable)
    word = rng.choice(["AND", "AND", "OR", "NOT"])
    if word == "NOT":
        return f"NOT ({condition(rng, deep - 1, usable)})"
    return f"({condition(rng, deep - 1, usable)} {word} {condition(rng, deep - 1, usable)})"


def declared(keys: list[str], row: tuple[str, ...]) -> bool:
    """Rows with other keys than the declared ones are in no group, and a note says so."""
    pairs = zip(keys, row, strict=True)
    return not any(key == "odd" and value not in ("yes", "no") for key, value in pairs)


@pytest.mark.parametrize(
    ("seed", "many"),
    [(1, 40), *(pytest.param(seed, 700, marks=pytest.mark.deep) for seed in (2, 3, 5))],
)
def test_no_group_that_a_row_is_in_is_missing(
    con: sparseq.Store, truth: duckdb.DuckDBPyConnection, seed: int, many: int
) -> None:
    rng, answered, exact = random.Random(seed), 0, 0
    while answered < many:
        origin = rng.choice(ORIGINS)
        there = [t for t in ("staff", "dim") if f"JOIN {t}" in origin]
        usable, named = (
            [s for s in some if all(t in there or f"{t}." not in s for t in ("staff", "dim"))]
            for some in (ATOMS, KEYS)
        )
        keys = rng.sample(named, rng.choice([1, 1, 2]))
        sql = asked(keys, origin, condition(rng, 2, usable))
        plain = texts(row[:-1] for row in truth.execute(sql).fetchall())
        try:
            query = con.lower(sql)
        except QueryRefused:
            continue
        answered += 1
        mine = groups(query)
        assert {row for row in plain if declared(keys, row)} <= mine, sql
        exact += plain == mine
    assert exact > many // 2
