"""Ranges that move with a clock: which are widened, to which buckets, and which stay."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from sqlglot import parse_one

import sparseq
from sparseq.sql.moving_ranges import widen_moving_ranges

DAYS = [dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 1, 3)]
TIMES = [dt.datetime(2023, 12, 31, 23), dt.datetime(2024, 1, 1, 9), dt.datetime(2024, 1, 9)]


@pytest.fixture(scope="module")
def con() -> sparseq.Store:
    rows = {"who": [1, 2, 3], "day": DAYS, "at": pa.array(TIMES, pa.timestamp("us"))}
    return sparseq.create(None, {"t": pa.table(rows)}, user="who", seed=1)


def _count(column: str, bucket: str, low: str, high: str) -> str:
    key = f"date_trunc('{bucket}', {column}) AS k, " if bucket else ""
    group = " GROUP BY 1" if bucket else ""
    return f"SELECT {key}count(*) AS n FROM t WHERE {column} BETWEEN '{low}' AND '{high}'{group}"


@pytest.mark.parametrize(
    ("column", "bucket", "first", "last"),
    [
        ("day", "", "2024-01-01", "2024-01-03"),
        ("at", "week", "2024-01-01", "2024-01-08"),
        ("at", "month", "2024-01-01", "2024-02-01"),
    ],
)
def test_a_range_is_that_of_the_buckets_that_it_touches(
    con: sparseq.Store, column: str, bucket: str, first: str, last: str
) -> None:
    text = _count(column, bucket, "2024-01-01T10:00:00Z", "2024-01-02T10:00:00.5Z")
    notes = con.lower(text).notes
    assert any(f"from {first} 00:00:00 to {last} 00:00:00" in note for note in notes)


@pytest.mark.parametrize("bucket", ["week", "month", "year"])
def test_a_range_up_to_the_ends_of_time_is_not_widened(con: sparseq.Store, bucket: str) -> None:
    """The week of 9999-12-31 ends in a year that no date has."""
    tree = parse_one(_count("at", bucket, "2024-01-01T00:00:00Z", "9999-12-31T23:59:59Z"))
    before = tree.copy()
    assert widen_moving_ranges(tree, con.catalog) == []
    assert tree == before


def test_ends_that_are_written_in_another_way_stay(con: sparseq.Store) -> None:
    text = _count("at", "week", "2024-01-01 10:00:00", "2024-01-02 10:00:00")
    assert not any("widened" in note for note in con.lower(text).notes)
