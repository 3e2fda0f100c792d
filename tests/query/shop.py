"""A small shop: the same made-up rows in a store and, for the truth, in plain DuckDB."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import sparseq
from sparseq.query.outputs import Noised
from sparseq.query.plan import Options, calibrate
from sparseq.query.render import ERROR_SUFFIX, key_columns, render

KINDS = ("book", "o'brien", 'née "x"', "", "日本", None)
SIGMA = 1000.0
"""Fixes a lattice of 2**-13, on which every number here lies exactly; no noise is added."""
USERS = 40
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
    ]
)
VISITS = pa.schema([("who", pa.int32()), ("day", pa.date32()), ("pages", pa.int32())])


def events(seed: int = 0, rows: int = 400) -> pa.Table:
    rng = random.Random(seed)

    def maybe(value: Any, missing: float = 0.08) -> Any:
        return None if rng.random() < missing else value

    def row() -> tuple[Any, ...]:
        at = dt.datetime(1997, 1, 1) + dt.timedelta(seconds=rng.randrange(200 * 86_400))
        return (
            rng.randrange(USERS),
            maybe(at.date()),
            maybe(at),
            rng.choice(KINDS),
            maybe(rng.randrange(-640, 6400) / 64),
            rng.choice([1.5, -2.0, float("nan"), float("inf"), float("-inf"), None]),
            maybe(rng.randrange(-3, 9)),
            maybe(Decimal(rng.randrange(4000)) / 4),
            maybe(rng.random() < 0.5),
            maybe(rng.randrange(1, 6)),
            maybe(rng.choice(["1", "2", "x7", "3.5", " 4", "many"])),
        )

    columns = zip(*(row() for _ in range(rows)), strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, EVENTS, strict=True)], EVENTS)


def visits(seed: int = 1, rows: int = 150) -> pa.Table:
    rng = random.Random(seed)
    days = [dt.date(1997, 1, 1) + dt.timedelta(days=rng.randrange(200)) for _ in range(rows)]
    return pa.table(
        [
            pa.array([rng.randrange(0, 2 * USERS, 2) for _ in days], pa.int32()),
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
PRIVATE = {"events": events(), "visits": visits()}


def truth() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    for name, table in {**PRIVATE, "shops": SHOPS}.items():
        con.register(f"{name}_rows", table)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
    return con


def store(**options: Any) -> sparseq.Store:
    """Return the shop's store, its events loaded in three goes."""
    rows = PRIVATE["events"]
    con = sparseq.create(
        None,
        rows.slice(0, 150),
        table="events",
        user="who",
        tables={"visits": PRIVATE["visits"]},
        public={"shops": SHOPS},
        keys={
            "kind": ("book", "o'brien", 'née "x"', "", "日本", "no rows"),
            "qty": tuple(range(-3, 12)),
            "pages": (1, 2, 3, 4, 5, 99),
        },
        bounds={"amount": (-10, 100), "price": (0, 1000), "pages": (0, 10)},
        seed=1,
        **options,
    )
    con.ingest(rows.slice(150, 200), "events")
    con.ingest(rows.slice(350), "events")
    return con


def exact(con: sparseq.Store, sql: str) -> list[dict[str, Any]]:
    """Answer a query without noise, with everybody in."""
    query = con.lower(sql)
    plan = calibrate(query, con.budget, Options(sigma=SIGMA))
    measures = [
        (m.totals * n.granularity).reshape(-1, asked.bins)
        for m, n, asked in zip(
            con._engine.contributions(plan, len(con._accounts)).measures,
            plan.noise,
            query.measures,
            strict=True,
        )
    ]
    noised = Noised(measures, [0.0] * len(measures), key_columns(plan), query.groups)
    table = render(plan, noised)
    shown = [c for c in table.column_names if not c.endswith(ERROR_SUFFIX)]
    rows: list[dict[str, Any]] = table.select(shown).to_pylist()
    return rows
