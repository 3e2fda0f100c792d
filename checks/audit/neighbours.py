"""Neighbouring stores: one person present or not, in the crowd or alone, and all else the same.

A `World` has the public facts (schemas, declarations, budgets) and the rows of all people. It is
opened as four stores: the crowd without the person, with, the person alone, and nobody. Everything
public must be the same in all four once outputs are frozen, as the answer's existence and form are
functions of public facts alone.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from checks.language import BOOL, DATE, FLOAT, INT, TEXT, TIME
from checks.stores import made_store
from sparseq.store.store import Store

WITHOUT, WITH, ALONE, NOBODY = "without", "with", "alone", "nobody"
VARIANTS = (WITHOUT, WITH, ALONE, NOBODY)
PAIRS = ((WITHOUT, WITH), (NOBODY, ALONE))
Row = dict[str, Any]
UNIT = 2.0**-24
"""Ledger's unit, in squared norm: own budgets lie one unit beside what counts cost."""

SCHEMA = pa.schema(
    [
        ("who", pa.int64()),
        ("n", pa.int64()),
        ("k", pa.int32()),
        ("x", pa.float64()),
        ("a", pa.float64()),
        ("s", pa.string()),
        ("w", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("z", pa.int8()),
        ("c", pa.decimal128(12, 2)),
        ("u", pa.uint64()),
    ]
)
VISITS = pa.schema([("who", pa.int64()), ("pages", pa.int64()), ("day", pa.date32())])
TYPE_OF = {
    "n": INT,
    "k": INT,
    "pages": INT,
    "x": FLOAT,
    "a": FLOAT,
    "s": TEXT,
    "w": TEXT,
    "b": BOOL,
    "day": DATE,
    "at": TIME,
    "z": INT,
    "c": FLOAT,
    "u": INT,
}
PUBLIC = pa.table(
    {
        "k": pa.array([0, 1, 2, 3, 3, None], pa.int32()),
        "label": ["a", "b", "c", "a", "d", "none"],
        "weight": [0.5, -1.0, 1e6, 2.0, 3.0, 0.0],
    }
)
_BOUNDS = {"x": (0, 100), "n": (0, 10), "pages": (0, 20), "u": (0, 250)}
"""Values are cut to those that are declared; extremes come to the other columns."""
_DAY0 = dt.date(2024, 1, 1)
NASTY: dict[str, list[Any]] = {
    "n": [2**63 - 1, -(2**63), 2**31, -1, 0, None, 1234],
    "k": [2**31 - 1, -(2**31), 3, None],
    "x": [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, None, 1234.5, 1e19],
    "a": [1e18, -1e18, 0.1, None],
    "s": ["", "a", "\x00é", "infinity", "zz", None, "99999999999999999999", "2024-13-45", "'"],
    "w": ["x" * 2000, "\U0001f600" * 3, "1e400", "%", "-9223372036854775809", "\x1b[31m", "1"],
    "b": [True, False, None],
    "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 1, 3), None],
    "at": [
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59),
        None,
        dt.datetime(2024, 1, 2, 3, 4, 5),
    ],
    "z": [127, -128, 0, 1, None],
    "c": [Decimal("9999999999.99"), Decimal("-9999999999.99"), Decimal("0.01"), Decimal(0), None],
    "u": [2**64 - 1, 2**63, 0, 7, None],
    "pages": [2**63 - 1, -(2**63), 0, 77, None],
}


@dataclass(frozen=True)
class World:
    """Public facts, and all people's rows of the tables t and v.

    Attributes:
        crowd, person: Rows by table.
        who: The person's identifier.
        options: Arguments of `sparseq.create`.
        own: Own budgets by identifier; the person's does not depend on its rows.
        path: True if the engine's SQL is compared: False if limits were lowered so that a few rows
            count as many.
    """

    crowd: Mapping[str, Sequence[Row]]
    person: Mapping[str, Sequence[Row]]
    who: int
    options: Mapping[str, Any]
    own: Mapping[int, float] = field(default_factory=dict)
    path: bool = True

    def rows(self, variant: str, table: str) -> list[Row]:
        """Return the rows of a table in one of the four stores, the person's in the midst."""
        crowd = self.crowd[table] if variant in (WITHOUT, WITH) else ()
        person = self.person[table] if variant in (WITH, ALONE) else ()
        cut = len(crowd) // 3
        return [*crowd[:cut], *person, *crowd[cut:]]

    def table(self, variant: str, table: str) -> pa.Table:
        """Return the rows of a table as Arrow."""
        schema = SCHEMA if table == "t" else VISITS
        rows = self.rows(variant, table)
        if table == "t" and self.own:
            schema = schema.append(pa.field("own", pa.float64()))
            rows = [r | {"own": self.own.get(r["who"])} for r in rows]
        return pa.Table.from_pylist(rows, schema)

    def open(self, variant: str) -> Store:
        """Make one of the four stores."""
        return self.create(None, variant)

    def create(self, path: str | Path | None, variant: str = WITH, **more: Any) -> Store:
        """Create a store at a path, with further options."""
        tables = {name: self.table(variant, name) for name in ("t", "v")}
        own = {"budget_column": "own"} if self.own else {}
        return made_store(
            path, tables=tables, user="who", public={"p": PUBLIC}, **own, **{**self.options, **more}
        )

    def smaller(self) -> list[World]:
        """Return worlds with fewer rows."""
        found = []
        for name in ("crowd", "person"):
            tables: Mapping[str, Sequence[Row]] = getattr(self, name)
            for table, rows in tables.items():
                halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
                found += [
                    replace(self, **{name: {**tables, table: half}})
                    for half in halves
                    if len(half) < len(rows) and (half or name == "crowd" or table != "t")
                ]
        return found

    def values(self) -> dict[str, list[object]]:
        """Return the person's values and some of the crowd's, by type."""
        found: dict[str, list[object]] = {t: [] for t in (INT, FLOAT, TEXT, BOOL, DATE, TIME)}
        for rows in (self.person, {k: v[:3] for k, v in self.crowd.items()}):
            for row in (r for some in rows.values() for r in some):
                for column, value in row.items():
                    if column in TYPE_OF and value is not None and value not in found:
                        found[TYPE_OF[column]].append(value)
        found["who"] = [self.who, self.crowd["t"][0]["who"] if self.crowd["t"] else 1]
        return found


class Quartet:
    """The four stores of a world, open; a context manager."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stores = {variant: world.open(variant) for variant in VARIANTS}

    def __enter__(self) -> Quartet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for store in self.stores.values():
            store.close()


def world(rng: random.Random, kind: str) -> World:
    """Return a world of one of the kinds of `KINDS`."""
    budget = 9.0 if kind == "poor" else 2.0**20
    options: dict[str, Any] = {
        "kappa": 0.5 if kind == "poor" else 1024.0,
        "norm_budget": budget,
        "halt": kind == "poor" and rng.random() < 0.2,
        "in_or_out": rng.random() < 0.4,
        "least_people": rng.choice((0, 0, 12)),
        "time": "day",
        "most": {"work": rng.choice((3, 20, 1000)) if kind in ("poor", "small") else 20_000_000},
        "seed": rng.randrange(2**31),
        "bounds": {name: both for name, both in _BOUNDS.items() if rng.random() < 0.5},
        "keys": {"s": ["a", "b", "zz", ""], "k": [0, 1, 2, 3, 77]},
    }
    who = rng.choice((5_000, 0, -1, 2**62))
    people = [i for i in rng.sample(range(1, 10_000), 24) if i != who]
    t = [ordinary(rng, i) for i in people for _ in range(rng.choice((1, 2, 3, 9)))]
    rng.shuffle(t)
    v = [
        {"who": i, "pages": rng.randrange(20), "day": _DAY0 + dt.timedelta(rng.randrange(9))}
        for i in people
        if rng.random() < 0.7
        for _ in range(rng.choice((1, 2)))
    ]
    own = {}
    if kind == "poor":
        own = {i: _own_budget(rng) for i in [*people, who]}
    return World(
        {"t": t, "v": v}, _person(rng, who), who, options, own, path=kind not in ("small", "loops")
    )


KINDS = ("rich", "poor", "small", "loops", "terms")
"""Budgets that admit everything; that are used up; limits on sizes so low that every path is taken;
the compiled loops, which else only large stores use; and "terms", which is rich, and asked about
one table."""


def _own_budget(rng: random.Random) -> float:
    """Return the cost of a few counts, or a unit less: it decides activity."""
    return rng.choice((1.0, 4.0, 9.0, 5.0, 2.0)) - rng.choice((0, 0, 1, 2)) * UNIT


def ordinary(rng: random.Random, who: int) -> Row:
    """Return a row as most are: small values, NULL in texts only."""
    return {
        "who": who,
        "n": rng.randrange(10),
        "k": rng.randrange(5),
        "x": rng.uniform(0, 100),
        "a": rng.randrange(1000) / 10,
        "s": rng.choice(("a", "b", "c", None)),
        "w": rng.choice(("1", "2024-01-02", "A", "b%", "x y", None)),
        "b": rng.choice((True, False)),
        "day": _DAY0 + dt.timedelta(rng.randrange(20)),
        "at": dt.datetime(2024, 1, 1) + dt.timedelta(seconds=rng.randrange(10**6)),
        "z": rng.randrange(-3, 4),
        "c": Decimal(rng.randrange(10_000)) / 100,
        "u": rng.randrange(200),
    }


def _person(rng: random.Random, who: int) -> dict[str, list[Row]]:
    """Return a person's rows: of extreme values, of ordinary ones a little larger, or many.

    As often as not a value is NULL: the crowd has none but in texts, so that with the person
    columns have some, and without have none.
    """
    style = rng.choice(("nasty", "nasty", "largest", "many", "mixed"))
    count = {"many": 200, "largest": 2}.get(style, rng.choice((1, 4, 8)))
    rows = []
    for _ in range(count):
        row = ordinary(rng, who)
        if style == "largest":
            row |= {"n": 1234, "x": 4321.5, "day": dt.date(2024, 3, 1), "k": 4}
        elif style != "many":
            for column in row:
                if column in NASTY and (style == "nasty" or rng.random() < 0.3):
                    row[column] = rng.choice(NASTY[column])
        rows.append(with_nulls(rng, row))
    visits = [
        with_nulls(
            rng,
            {"who": who, "pages": rng.choice(NASTY["pages"]), "day": rng.choice(NASTY["day"])},
        )
        for _ in range(rng.choice((0, 2, 5)))
    ]
    return {"t": rows, "v": visits}


def with_nulls(rng: random.Random, row: Row) -> Row:
    """Return a row, of which each value is NULL as often as not."""
    return {k: v if k == "who" or rng.random() < 0.5 else None for k, v in row.items()}
