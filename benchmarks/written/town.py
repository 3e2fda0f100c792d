"""A town's rows: shoppers, visitors of a site, patients, students, people with tickets."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

import sparseq
from benchmarks.declared import of_each
from sparseq.question.catalog import Bound
from sparseq.store.found_keys import Keys

PEOPLE = 160
_START, _DAYS = dt.datetime(2023, 1, 1), 730
KEYS: dict[str, tuple[Any, ...]] = {
    "country": ("BE", "SE", "IT", "DE", "FR"),
    "segment": ("consumer", "business", "school"),
    "plan": ("free", "basic", "pro"),
    "gender": ("f", "m", "x"),
    "status": ("paid", "open", "refunded", "cancelled"),
    "channel": ("web", "store", "phone", "partner"),
    "event": ("view", "search", "add_to_cart", "checkout", "purchase"),
    "device": ("mobile", "desktop", "tablet"),
    "diagnosis": ("A01", "B20", "E11", "I10", "J45"),
    "term": ("2023S1", "2023S2", "2024S1", "2024S2"),
    "priority": ("low", "normal", "high"),
    "team": ("billing", "delivery", "accounts"),
    "rating": (1, 2, 3, 4, 5),
    "product_id": tuple(range(1, 13)),
}
FOUND = {"page": "events", "query": "events", "coupon": "orders", "referrer": "customers"}
HOLES = (
    ("orders", "ordered_at"),
    ("orders", "channel"),
    ("customers", "signup_date"),
    ("visits", "visit_date"),
    ("grades", "submitted_at"),
    ("events", "ts"),
)
"""Columns in which some values are missing that one might think are always there: one a person."""
MOST_ROWS = 400
BOUNDS: dict[str, tuple[Bound, Bound]] = {
    "amount": (0, 500),
    "quantity": (0, 20),
    "duration_ms": (0, 600_000),
    "birth_year": (1930, 2010),
    "systolic": (60, 240),
    "cost": (0, 5000),
    "los_days": (0, 60),
    "score": (0, 100),
    "rating": (1, 5),
    "attempt": (1, 5),
    **dict.fromkeys(
        ["signup_date", "ordered_at", "delivered_at", "ts", "visit_date", "submitted_at"],
        ("2023-01-01", "2024-12-31"),
    ),
    **dict.fromkeys(["opened_at", "closed_at"], ("2023-01-01", "2025-01-31")),
}
PUBLIC = {
    "products": pa.table(
        {
            "product_id": pa.array(range(1, 13), pa.int32()),
            "name": [f"product {i}" for i in range(1, 13)],
            "category": ["books", "shoes", "games", "garden"] * 3,
            "brand": ["Alfa", "Beta", "Gamma"] * 4,
            "list_price": [float(10 * i) for i in range(1, 13)],
        }
    ),
    "clinics": pa.table(
        {
            "clinic_id": pa.array([1, 2, 3, 4], pa.int32()),
            "city": ["Ghent", "Lund", "Turin", "Bruges"],
            "region": ["north", "north", "south", "north"],
        }
    ),
    "courses": pa.table(
        {
            "course_id": pa.array(range(1, 7), pa.int32()),
            "title": ["Algebra", "Botany", "Chess", "Drawing", "Ethics", "French"],
            "department": ["science", "science", "arts", "arts", "arts", "arts"],
            "credits": pa.array([6, 6, 3, 3, 4, 4], pa.int32()),
        }
    ),
    "calendar": pa.table(
        {
            "day": [(_START + dt.timedelta(days=i)).date() for i in range(_DAYS)],
            "is_holiday": [i % 30 == 0 for i in range(_DAYS)],
            "fiscal_month": [f"{(_START + dt.timedelta(days=i)):%Y/%m}" for i in range(_DAYS)],
        }
    ),
}


MACROS = (
    "width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 "
    "ELSE 1 + CAST(floor((x - low) * n / (high - low)) AS INTEGER) END",
    "to_char(x, form) AS strftime(x, replace(replace(form, 'YYYY', '%Y'), 'MM', '%m'))",
    "initcap(word) AS upper(left(word, 1)) || lower(substr(word, 2))",
)
"""Functions that other databases have, in plain DuckDB."""


def private(seed: int = 18) -> dict[str, pa.Table]:
    """Return the tables about people, by name."""
    rng = random.Random(seed)

    def maybe(value: Any, missing: float = 0.1) -> Any:
        return None if rng.random() < missing else value

    def moment(first: dt.datetime = _START, days: int = _DAYS) -> dt.datetime:
        left = min(days * 86_400, int((_START - first).total_seconds()) + _DAYS * 86_400)
        return first + dt.timedelta(seconds=rng.randrange(max(left, 1)))

    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("customers", "orders", "events", "visits", "grades", "tickets")
    }
    for person in range(1, PEOPLE + 1):
        who = {"person_id": 1000 + 7 * person}
        tables["customers"].append(
            who
            | {
                "country": rng.choice(KEYS["country"]),
                "segment": rng.choice(KEYS["segment"]),
                "plan": rng.choice(KEYS["plan"]),
                "gender": maybe(rng.choice(KEYS["gender"])),
                "signup_date": moment().date(),
                "birth_year": rng.randrange(1940, 2008),
                "newsletter": rng.random() < 0.4,
                "city": rng.choice(["Ghent", "Lund", "Asti"]),
                "referrer": maybe(rng.choice(["search", "friend", "ad"]), 0.3),
            }
        )
        tables["orders"] += [who | _order(rng, moment(), maybe) for _ in range(rng.randrange(9))]
        for session in range(rng.randrange(5)):
            at = moment()
            for _ in range(rng.randrange(1, 7)):
                at += dt.timedelta(seconds=rng.randrange(5, 900))
                tables["events"].append(who | _event(rng, at, f"s{person}-{session}", maybe))
        tables["visits"] += [who | _visit(rng, moment().date()) for _ in range(rng.randrange(4))]
        tables["grades"] += [who | _grade(rng, moment(), maybe) for _ in range(rng.randrange(5))]
        tables["tickets"] += [who | _ticket(rng, moment(), maybe) for _ in range(rng.randrange(4))]
    holes = random.Random(seed)
    for table, column in HOLES:
        rows = {row["person_id"]: row for row in tables[table]}
        for row in holes.sample([*rows.values()], len(rows) // 8):
            row[column] = None
    for i, row in enumerate(tables["orders"]):
        row["order_id"] = i
    for i, row in enumerate(tables["tickets"]):
        row["ticket_id"] = i
    return {name: _table(rows) for name, rows in tables.items()}


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    small = {f.name: pa.int32() for f in table.schema if f.type == pa.int64()}
    fields = [pa.field(f.name, small.get(f.name, f.type)) for f in table.schema]
    return table.cast(pa.schema(fields))


def _order(rng: random.Random, at: dt.datetime, maybe: Any) -> dict[str, Any]:
    return {
        "order_id": 0,
        "ordered_at": at,
        "amount": rng.randrange(2_000) / 4,
        "quantity": rng.randrange(1, 6),
        "product_id": rng.randrange(1, 13),
        "status": rng.choice(KEYS["status"]),
        "channel": rng.choice(KEYS["channel"]),
        "coupon": maybe(rng.choice(["SPRING", " vip", "WELCOME10", "WELCOME20"]), 0.6),
        "delivered_at": maybe(at.date() + dt.timedelta(days=rng.randrange(9)), 0.3),
    }


def _event(rng: random.Random, at: dt.datetime, session: str, maybe: Any) -> dict[str, Any]:
    event = rng.choice(KEYS["event"])
    props: dict[str, Any] = {"source": rng.choice(["ad", "mail", "organic", "none"])}
    if rng.random() < 0.8:
        props["scroll"] = rng.randrange(100)
        props["geo"] = {"country": rng.choice(["BE", "SE", "IT", "NO"])}
        props["beta"] = rng.random() < 0.5
        props["tags"] = rng.sample(["new", "sale", "old"], rng.randrange(3))
    if rng.random() < 0.5:
        props["experiment"] = rng.choice("AB")
    terms = ["Red shoes", " red-shoes ", "café", "abox", "42 chairs", "", "garden"]
    return {
        "ts": at,
        "event": event,
        "page": rng.choice(["/home", "/product/3", "/help/a", "/x"]),
        "device": rng.choice(KEYS["device"]),
        "duration_ms": maybe(rng.randrange(400_000)),
        "query": maybe(rng.choice(terms)) if event == "search" else None,
        "props": json.dumps(props),
        "session_id": session,
    }


def _visit(rng: random.Random, day: dt.date) -> dict[str, Any]:
    return {
        "visit_date": day,
        "clinic_id": rng.randrange(1, 5),
        "diagnosis": rng.choice(KEYS["diagnosis"]),
        "systolic": rng.randrange(95, 190),
        "cost": rng.randrange(20_000) / 8,
        "los_days": rng.randrange(20),
        "readmit": rng.random() < 0.2,
    }


def _grade(rng: random.Random, at: dt.datetime, maybe: Any) -> dict[str, Any]:
    score = maybe(rng.randrange(200, 800) / 8)
    return {
        "course_id": rng.randrange(1, 7),
        "term": f"{at.year}S{1 + (at.month > 6)}",
        "score": score,
        "submitted_at": at,
        "passed": bool(score and score >= 50),
        "attempt": rng.randrange(1, 3),
    }


def _ticket(rng: random.Random, at: dt.datetime, maybe: Any) -> dict[str, Any]:
    closed = at + dt.timedelta(hours=rng.randrange(1, 200))
    subjects = ["Refund please", "Re: login", "LATE", "Help with login", "a question"]
    bodies = ["order #123 is late", "it was delayed", "cannot log in", "missing part of order #9"]
    return {
        "ticket_id": 0,
        "opened_at": at,
        "closed_at": maybe(closed, 0.2),
        "priority": rng.choice(KEYS["priority"]),
        "team": rng.choice(KEYS["team"]),
        "subject": rng.choice(subjects),
        "body": rng.choice(bodies),
        "rating": maybe(rng.randrange(1, 6), 0.3),
        "meta": json.dumps({"source": rng.choice(["web", "phone", "mail"])}),
    }


def store(
    norm_budget: float = 1e6,
    lives_here: Callable[[int], bool] = lambda person: True,
    found: bool = False,
) -> sparseq.Store:
    """Return the town's store: kappa is 1024, so that an answer has almost no noise.

    Args:
        norm_budget: Budget of each person.
        lives_here: People whose rows are in it.
        found: True to find the keys that nobody can list (FOUND).
    """
    tables = {
        name: table.filter(pa.array(map(lives_here, table["person_id"].to_pylist())))
        for name, table in private().items()
    }
    columns = {name: table.column_names for name, table in tables.items()}
    owned = dict.fromkeys(["order_id", "ticket_id", "session_id"], "@own")
    con = sparseq.create(
        None,
        {**tables, "customers": tables.pop("customers")},
        user="person_id",
        public=PUBLIC,
        keys=of_each(KEYS | owned, columns),
        bounds=of_each(BOUNDS, columns),
        most={"rows": MOST_ROWS},
        kappa=1024.0,
        seed=18,
        purposes=[sparseq.Questions(in_or_out=True, counts=norm_budget, keys_delta=0.05)],
    )
    for column, table in FOUND.items() if found else ():
        Keys(con).discover(f"SELECT {column} FROM {table}", price=1000)
    return con


def plain() -> duckdb.DuckDBPyConnection:
    """Return the same rows in plain DuckDB."""
    con = duckdb.connect()
    for macro in MACROS:
        con.execute(f"CREATE MACRO {macro}")
    for name, table in {**private(), **PUBLIC}.items():
        con.register("incoming", table)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        con.unregister("incoming")
    return con
