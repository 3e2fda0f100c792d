"""Rows held in memory, and rows that DuckDB sorts: the same tables come of both ways."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled import one_in

import sparseq
from sparseq.base._duckdb import connection
from sparseq.load import held_rows, row_order
from sparseq.load._duckdb import storage
from sparseq.load.held_rows import HeldRows
from sparseq.load.row_order import _radix_order, sorted_rows
from sparseq.question.catalog import Column, Table
from sparseq.store._duckdb import file_backend as memory

UNITS = 1000
DAY = dt.date(2024, 1, 1)


def rows_of(seed: int, count: int = 400) -> pa.Table:
    """Return rows with missing values of every kind."""
    rng = np.random.default_rng(seed)

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        missing = rng.random(count) < 0.1
        return pa.array([None if m else v for v, m in zip(values, missing, strict=True)], kind)

    return pa.table(
        {
            "who": some([f"p{k}" if k else "" for k in rng.integers(0, 60, count)], pa.string()),
            "day": some(
                [DAY + dt.timedelta(int(k)) for k in rng.integers(0, 30, count)], pa.date32()
            ),
            "kind": some(
                [f"kind {k}" for k in rng.integers(0, 5, count)], pa.string()
            ).dictionary_encode(),
            "note": some([f"note {k}" for k in rng.integers(0, 300, count)], pa.large_string()),
            "amount": some(rng.normal(size=count).tolist(), pa.float64()),
            "late": some((rng.random(count) < 0.5).tolist(), pa.bool_()),
            "price": some([round(float(x), 2) for x in rng.random(count)], pa.float64()).cast(
                pa.decimal128(12, 4), safe=False
            ),
            "at": some(rng.integers(0, 10**15, count).tolist(), pa.timestamp("us")),
        }
    )


def tables_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that a store's file has of rows, people and strings."""
    con = connection.connect(path)
    try:
        names = con.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name IN "
            "('by_user', 'by_time', 'public') OR table_name = 'users'"
        ).fetchall()
        return {
            f"{schema}.{table}": con.execute(
                f'SELECT * FROM {schema}."{table}" ORDER BY ALL'
            ).fetchall()
            for schema, table in names
        }
    finally:
        con.close()


@pytest.mark.parametrize(
    ("time", "held_bytes"),
    one_in(3, itertools.product(["day", "at", "kind", "amount"], [10_000, 0])),
)
def test_both_ways_make_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: str, held_bytes: int
) -> None:
    monkeypatch.setattr(held_rows, "DICTIONARY_LIMIT", 150)
    monkeypatch.setattr("sparseq.load.file_sources.ROWS", 64)
    pq.write_table(rows_of(1), tmp_path / "a.parquet")
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    pq.write_table(rows_of(2), files[1])
    found = []
    for most in (1 << 30, held_bytes):
        monkeypatch.setattr("sparseq.store._duckdb.create_file.held_bytes", lambda most=most: most)
        monkeypatch.setattr("sparseq.store._duckdb.file_backend.held_bytes", lambda most=most: most)
        path = tmp_path / f"{most}.sparseq"
        with sparseq.create(path, {"t": files}, user="who", time=time) as con:
            con.ingest(rows_of(3), "t")
            notes = con.curator_notes()
        found.append((notes, tables_of(path)))
    assert found[0] == found[1]
    assert len(found[0][1]["by_user.t"]) > 900


def test_a_table_lies_in_its_order(tmp_path: Path) -> None:
    sparseq.create(tmp_path / "s", {"t": rows_of(4, 130_000)}, user="who").close()
    con = connection.connect(tmp_path / "s")
    for schema, order in storage.orders(Table("t", (Column("who", "VARCHAR"),), "who", "day")):
        keys = order.split(", ")
        rows = con.execute(f"SELECT {order} FROM {schema}.t ORDER BY rowid").fetchall()
        assert rows == sorted(rows, key=lambda r: [(x is None, x) for x in r]), keys
    con.close()


@given(
    st.lists(st.tuples(st.integers(-1, 5), st.none() | st.integers(0, 9)), max_size=30),
    st.sampled_from([pa.date32(), pa.timestamp("us"), pa.int32()]),
)
def test_orders(rows: list[tuple[int, int | None]], kind: pa.DataType) -> None:
    users = np.array([u for u, _ in rows], np.int32)
    by_user, by_time = sorted_rows(
        users,
        pa.array([t for _, t in rows], pa.int32())
        .cast(pa.int64() if kind == pa.timestamp("us") else pa.int32())
        .view(kind),
    )
    named = [i for i, (u, _) in enumerate(rows) if u >= 0]
    late = {i: (rows[i][1] is None, rows[i][1] or 0) for i in named}
    assert by_user.tolist() == sorted(named, key=lambda i: (rows[i][0], late[i]))
    assert by_time.tolist() == sorted(named, key=lambda i: (late[i], rows[i][0]))


def test_counting_is_what_numpy_sorts(monkeypatch: pytest.MonkeyPatch) -> None:
    users = np.random.default_rng(0).integers(0, 1000, 300_000).astype(np.int32)
    time = pa.array(np.random.default_rng(1).integers(0, 365, 300_000).astype(np.int32))
    monkeypatch.setattr(row_order, "_MANY", 1)
    here = sorted_rows(users, time.view(pa.date32()))
    monkeypatch.setattr(row_order, "worthwhile", lambda length, loads: False)
    there = sorted_rows(users, time.view(pa.date32()))
    assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


def test_only_strings_of_rows_come_to_a_dictionary() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int32()), ["secret", "known"])
    rows = HeldRows({"who": pa.int64(), "word": pa.string()}, "who")
    rows.add(pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), words], ["who", "word"]))
    assert rows.column("word").dictionary.to_pylist() == ["known"]


def test_a_container_s_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = memory.machine_memory()
    (tmp_path / "limit").write_text("6000000\n")
    (tmp_path / "none").write_text("max\n")
    monkeypatch.setattr(memory, "CONTAINER_LIMITS", (str(tmp_path / "none"), "/no/such/file"))
    assert memory.machine_memory() >= machine
    monkeypatch.setattr(memory, "CONTAINER_LIMITS", (str(tmp_path / "limit"),))
    assert (memory.machine_memory(), memory.held_bytes()) == (6_000_000, 1_000_000)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 1 << 16, (1 << 16) + 1, 1 << 24, (1 << 31) - 2])
def test_the_order_by_halves_of_keys_is_stable(size: int) -> None:
    keys = np.random.default_rng(3).integers(0, size + 1, 3000, dtype=np.int32)
    keys[::3] = size
    assert _radix_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
