"""A seeded stream of events, as large as you like: a few users do most of it.

    python data/events.py OUT.parquet --users 1000000 --rows 10000000 --days 365 --seed 0

Columns: user_id INT64 (unique, looks random), day DATE (from 2024-01-01), activity VARCHAR
(`activity_01` the most popular, Zipf), amount DOUBLE (dollars and cents, lognormal, at most 500).
Rows are in time order, weekdays are busier than weekends. Users have rates with a (cut-off)
Pareto tail and act at random times. The same arguments give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SCHEMA = pa.schema(
    [
        pa.field("user_id", pa.int64(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("activity", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("amount", pa.float64(), nullable=False),
    ]
)
FIRST_DAY = date(2024, 1, 1)  # a Monday
WEEK = np.array([1.05, 1.1, 1.1, 1.05, 1.0, 0.8, 0.75])  # relative traffic, Monday to Sunday
PARETO_SHAPE, MAX_RATE = 1.5, 1000.0  # of the users' rates; the quietest user has rate 1
MEDIAN_DOLLARS, SPREAD, MAX_DOLLARS = 20.0, 1.0, 500.0
CHUNK = 1 << 20  # rows per batch and row group; part of what a seed means


def generate(
    users: int, rows: int, days: int = 365, activities: int = 50, seed: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield batches with exactly `rows` rows in all, in time order.

    Exactly `users` users appear where rows >= users (each has one row, the rest fall by rate);
    with fewer rows than users, at most `rows` of them do.

    >>> sum(batch.num_rows for batch in generate(users=10, rows=100, days=7))
    100
    """
    if min(users, rows, days, activities) < 1 or users > 1 << 32:
        raise ValueError("users, rows, days and activities must be at least 1, users at most 2**32")
    rng = np.random.default_rng(seed)
    who = _actors(rng, users, rows)
    per_day = rng.multinomial(rows, _day_weights(rng, days))
    first_row = np.concatenate([[0], np.cumsum(per_day)])
    names = pa.array([f"activity_{k:02d}" for k in range(1, activities + 1)])
    popularity = np.cumsum(1 / np.arange(1, activities + 1))
    start_day = (FIRST_DAY - date(1970, 1, 1)).days
    for low in range(0, rows, CHUNK):
        high = min(low + CHUNK, rows)
        in_chunk = np.diff(np.clip(first_row, low, high))
        day = np.repeat(np.arange(start_day, start_day + days, dtype=np.int32), in_chunk)
        kind = np.searchsorted(popularity, rng.random(high - low) * popularity[-1], side="right")
        columns = [
            pa.array(_disguise(who[low:high], seed)),
            pa.array(day, pa.date32()),
            pa.DictionaryArray.from_arrays(pa.array(kind.astype(np.int32)), names),
            pa.array(_dollars(rng, high - low)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def write_events(
    path: str | Path,
    users: int,
    rows: int,
    days: int = 365,
    activities: int = 50,
    seed: int = 0,
) -> None:
    """Write `generate(...)` as Parquet, one row group a batch; each has its days' range."""
    with pq.ParquetWriter(
        path, SCHEMA, compression="zstd", use_dictionary=["day", "activity"], store_schema=False
    ) as writer:
        for batch in generate(users, rows, days, activities, seed):
            writer.write_batch(batch, row_group_size=CHUNK)


def _actors(rng: np.random.Generator, users: int, rows: int) -> NDArray[np.uint32]:
    """The user (0 to users - 1) of each row, in random order."""
    rates = np.minimum((1 - rng.random(users)) ** (-1 / PARETO_SHAPE), MAX_RATE)
    everyone = 1 if rows >= users else 0
    counts = rng.multinomial(rows - everyone * users, rates / rates.sum()) + everyone
    who = np.repeat(np.arange(users, dtype=np.uint32), counts)
    rng.shuffle(who)
    return who


def _day_weights(rng: np.random.Generator, days: int) -> NDArray[np.float64]:
    weights = WEEK[np.arange(days) % 7] * rng.lognormal(0, 0.03, days)
    return np.asarray(weights / weights.sum())


def _dollars(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    cents = np.rint(MEDIAN_DOLLARS * 100 * np.exp(SPREAD * rng.standard_normal(n)))
    return np.asarray(np.clip(cents, 1, MAX_DOLLARS * 100) / 100)


def _disguise(index: NDArray[np.uint32], seed: int) -> NDArray[np.int64]:
    """A bijection of 32-bit numbers, so that ids are unique but neither dense nor in order.

    It is the finaliser of MurmurHash3: xor-shifts and odd multipliers, each of them invertible.
    """
    x = index + np.uint32(seed * 0x9E3779B1 & 0xFFFFFFFF)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x.astype(np.int64)


@click.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--users", type=click.IntRange(1, 1 << 32), default=1_000_000, show_default=True)
@click.option("--rows", type=click.IntRange(1), default=10_000_000, show_default=True)
@click.option("--days", type=click.IntRange(1), default=365, show_default=True)
@click.option("--activities", type=click.IntRange(1), default=50, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(out: Path, users: int, rows: int, days: int, activities: int, seed: int) -> None:
    """Write a stream of made-up events to OUT (Parquet)."""
    write_events(out, users, rows, days, activities, seed)
    click.echo(f"{out}: {rows:,} rows, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
