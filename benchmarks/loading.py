"""Loading text: the time for a CSV file, against the time for its parts.

python -m benchmarks loading [--json]

The same rows as CSV and as Parquet, 10 million of them about a million people. Loading the CSV file
is compared with the sum of plain DuckDB reading it into a table and loading the Parquet file: all
in turn in one run, so that the ratio holds on other machines and on busy ones.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import sparseq
from data.events import SCHEMA, generate

ROWS, PEOPLE, REPETITIONS, LIMIT = 10_000_000, 1_000_000, 3, 2.0


def run(rows: int = ROWS) -> Iterator[dict[str, Any]]:
    """Yield how many times as long CSV takes as its parts, the best of some runs of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make(folder, rows)
        took = {part: float("inf") for part in ("csv", "parquet", "plain")}
        for _ in range(REPETITIONS):
            took["plain"] = min(took["plain"], _seconds(lambda: _plain(folder)))
            for kind in ("csv", "parquet"):
                took[kind] = min(took[kind], _seconds(lambda k=kind: _load(folder, k)))  # type: ignore[misc]
    for part, seconds in took.items():
        yield {
            "name": f"loading.{part}.seconds",
            "figure": seconds,
            "unit": "s",
            "limit": None,
            "ok": True,
        }
    ratio = took["csv"] / (took["plain"] + took["parquet"])
    yield {
        "name": "loading.csv",
        "figure": ratio,
        "unit": "× its parts",
        "limit": f"≤ {LIMIT:g}",
        "ok": ratio <= LIMIT,
    }


def _make(folder: Path, rows: int) -> None:
    """Write the rows in both forms."""
    people = max(1, rows * PEOPLE // ROWS)
    with pq.ParquetWriter(folder / "events.parquet", SCHEMA) as out:
        for batch in generate(users=people, rows=rows):
            out.write_table(pa.Table.from_batches([batch]))
    with duckdb.connect() as con:
        con.execute("SET enable_progress_bar = false")
        con.execute(f"COPY (FROM '{folder / 'events.parquet'}') TO '{folder / 'events.csv'}'")


def _load(folder: Path, kind: str) -> None:
    store = folder / "store"
    sparseq.create(
        store,
        {"events": folder / f"events.{kind}"},
        user="user_id",
    ).close()
    store.unlink()


def _plain(folder: Path) -> None:
    with duckdb.connect(folder / "plain") as con:
        con.execute("SET enable_progress_bar = false")
        con.execute(f"CREATE TABLE events AS FROM read_csv('{folder / 'events.csv'}')")
    (folder / "plain").unlink()


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
