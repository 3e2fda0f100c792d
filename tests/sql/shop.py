"""A small shop: the same made-up rows in a store and, for the truth, in plain DuckDB.

In its rows is what plain data has: holes, rows of nobody, signs, NaN and infinity, odd strings.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import sparseq
from benchmarks.written.check import lowered, unnoised
from checks.stores import made_store
from sparseq.question.plan import Options
from sparseq.released.result_columns import columns_of

KINDS = ("book", "o'brien", 'née "x"', "", "日本", "100%", "Book", None)
READINGS = (1.5, -2.0, 7.25, 40.0, 55.5, float("nan"), float("inf"), float("-inf"), None)
FINE = Options(sigma=1000.0)
"""Fixes a lattice of 2**-13, on which every number here lies exactly; no noise is added."""
USERS = 40
FIRST = dt.date(1997, 1, 5)
EVENTS = pa.schema(
    [
        ("who", pa.int32()),
        ("day", pa.date32()),
        ("seen", pa.timestamp("us")),
        ("kind", pa.string()),
        ("amount", pa.float64()),
        ("reading", pa.float64()),
        ("qty", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("gift", pa.bool_()),
        ("shop_id", pa.int16()),
        ("code", pa.string()),
        ("item", pa.int16()),
        ("due", pa.date32()),
    ]
)
VISITS = pa.schema([("who", pa.int32()), ("day", pa.date32()), ("pages", pa.int32())])


def user(i: int) -> int:
    """Return an identifier that is not the place in any list."""
    return i * i + 3


def events(seed: int = 0, rows: int = 900) -> pa.Table:
    rng = random.Random(seed)

    def maybe(value: Any, missing: float = 0.08) -> Any:
        return None if rng.random() < missing else value

    def row() -> tuple[Any, ...]:
        at = dt.datetime(1997, 1, 1) + dt.timedelta(seconds=rng.randrange(200 * 86_400))
        return (
            maybe(user(rng.randrange(USERS)), 0.02),
            maybe(at.date()),
            maybe(at),
            rng.choice(KINDS),
            maybe(rng.randrange(-640, 6400) / 64),
            rng.choice(READINGS),
            maybe(rng.randrange(-3, 9)),
            maybe(Decimal(rng.randrange(4000)) / 4),
            maybe(rng.random() < 0.5),
            maybe(rng.randrange(1, 6)),
            maybe(rng.choice(["1", "2", "x7", "3.5", " 4", "many"])),
            rng.randrange(100, 160),
            maybe(FIRST + dt.timedelta(days=rng.randrange(-1, 3))),
        )

    columns = zip(*(row() for _ in range(rows)), strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, EVENTS, strict=True)], EVENTS)


def visits(seed: int = 1, rows: int = 200) -> pa.Table:
    rng = random.Random(seed)
    days = [dt.date(1997, 1, 1) + dt.timedelta(days=rng.randrange(200)) for _ in range(rows)]
    who = [user(rng.randrange(0, 2 * USERS, 2)) if i % 29 else None for i in range(rows)]
    return pa.table(
        [
            pa.array(who, pa.int32()),
            pa.array(days, pa.date32()),
            pa.array([rng.randrange(1, 10) for _ in days], pa.int32()),
        ],
        VISITS,
    )


SHOPS = pa.table(
    {
        "shop_id": pa.array([1, 2, 3, 9], pa.int16()),
        "city": ["Ghent", "Lund", "Ghent", "Turin"],
        "rent": [10.5, 20.0, None, 7.25],
    }
)
FAMILIES = pa.table(
    {
        "kind": ["book", "o'brien", "Book", "never sold"],
        "family": ["paper", "o'dd", "paper", "nothing"],
        "weight": pa.array([2, 1, None, 5], pa.int32()),
    }
)
ITEMS = pa.table({"item": pa.array(range(90, 150), pa.int16()), "half": [i % 2 for i in range(60)]})
PUBLIC = {"shops": SHOPS, "families": FAMILIES, "items": ITEMS}
PRIVATE = {"events": events(), "visits": visits()}
BOUNDS = {"amount": (-10, 100), "reading": (-20, 60), "price": (0, 1000), "pages": (0, 10)}
DUE = (FIRST, FIRST + dt.timedelta(days=1), dt.date(2001, 1, 1))


def truth() -> duckdb.DuckDBPyConnection:
    """Return the same rows in plain DuckDB; those without a user are not in a store."""
    con = duckdb.connect()
    for name, table in {**PRIVATE, **PUBLIC}.items():
        con.register(f"{name}_rows", table)
        known = "WHERE who IS NOT NULL" if name in PRIVATE else ""
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows {known}")
        con.unregister(f"{name}_rows")
        for column, (low, high) in BOUNDS.items():
            if name in PRIVATE and column in table.column_names:
                for beyond, end in (("<", low), (">", high)):
                    con.execute(
                        f"UPDATE {name} SET {column} = {end} "
                        f"WHERE {column} {beyond} {end} AND {column}::DOUBLE != 'nan'"
                    )
    return con


def store(loads: int = 3, path: Any = None, **options: Any) -> sparseq.Store:
    """Return the shop's store, loaded in a number of goes: new users come with every one."""
    cuts = {name: len(table) // loads + 1 for name, table in PRIVATE.items()}
    first = {name: table.slice(0, cuts[name]) for name, table in PRIVATE.items()}
    con = made_store(
        path,
        first["events"],
        table="events",
        user="who",
        tables={"visits": first["visits"]},
        public=PUBLIC,
        keys={
            "kind": ("book", "o'brien", 'née "x"', "", "日本", "no rows"),
            "qty": tuple(range(-3, 12)),
            "pages": (1, 2, 3, 4, 5, 99),
            "due": DUE,
        },
        bounds=BOUNDS,
        seed=1,
        **options,
        in_or_out=True,
    )
    for load in range(1, loads):
        for name, table in PRIVATE.items():
            con.ingest(table.slice(load * cuts[name], cuts[name]), name)
    return con


def answer(con: sparseq.Store, sql: str, options: Options = FINE) -> pa.Table:
    """Answer a query as a table, without noise and with everybody in: what no analyst can ask."""
    return unnoised(con, lowered(con, sql), options)


def exact(con: sparseq.Store, sql: str) -> list[dict[str, Any]]:
    """Return the same as rows, without the columns of errors."""
    table = answer(con, sql)
    shown = columns_of(table)
    rows: list[dict[str, Any]] = table.select(shown).to_pylist()
    return rows
