"""Releases lie in one table after the other: nothing shows it but what a checkpoint writes."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparseq
from sparseq.ledger._duckdb import segments
from sparseq.question.plan import Options
from sparseq.store.curator import account
from sparseq.stream import batches as groups

PEOPLE, DAYS = 3000, 12
THEN = dt.datetime(2024, 5, 1)
Blocks = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 12_000)
    monkeypatch.setattr(groups, "GROUP", 5)


def made(path: Path | None) -> sparseq.Store:
    rng = np.random.default_rng(3)
    rows = pa.table(
        {
            "who": np.repeat(np.arange(PEOPLE), 3),
            "day": rng.integers(0, DAYS, 3 * PEOPLE),
            "x": rng.normal(0, 1, 3 * PEOPLE),
        }
    )
    return sparseq.create(
        path,
        {"t": rows},
        user="who",
        bounds={"x": (-1, 1)},
        seed=5,
        purposes=[sparseq.Questions(in_or_out=True, counts=9)],
    )


def asked(con: sparseq.Store, first: int, last: int) -> list[groups.Request]:
    """Sums over everybody, whose charges fill a table soon, and counts of a day."""
    text = ("SELECT sum(x) AS s FROM t", "SELECT count(*) AS n FROM t WHERE day = {}")
    return [
        groups.Request(con.lower(text[i % 2].format(i % DAYS)), Options(), f"id {i}")
        for i in range(first, last)
    ]


def answers(con: sparseq.Store, first: int, last: int) -> list[Any]:
    outcomes = list(con.ask_many(asked(con, first, last)))
    return [(o.recorded, o.answer and o.answer.to_bytes()) for o in outcomes]


def tables(con: sparseq.Store) -> int:
    return con.stream.ledger._segments._number


def seen(con: sparseq.Store) -> list[Any]:
    """Everything that is read back from releases."""
    releases = [replace(one, released_at=THEN) for one in con.releases()]
    one_by_one = [con.stream.ledger.read(i + 1) for i in range(len(releases))]
    assert [replace(one, released_at=THEN) for one in one_by_one] == releases
    return [
        releases,
        [account(con, str(who)) for who in (0, 17, PEOPLE - 1)],
        con.stream.accounts.spent.tolist(),
        con.stream.departures.first.tolist(),
    ]


def test_one_table_or_many_a_store_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made(tmp_path / "many") as many:
        first = answers(many, 0, 31)
        assert tables(many) > 4
    with sparseq.connect(tmp_path / "many") as many:
        opened = tables(many)
        again = answers(many, 0, 60)
        assert [recorded for recorded, _ in again] == [True] * 31 + [False] * 29
        assert [table for _, table in again[:31]] == [table for _, table in first]
        assert tables(many) > opened
        expected = seen(many)
        assert any(expected[-1]), "somebody has departed"
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1 << 40)
    with made(tmp_path / "one") as one:
        assert [answer for _, answer in answers(one, 0, 60)] == [answer for _, answer in again]
        assert tables(one) == 1
        assert seen(one) == expected


def test_a_table_takes_what_it_should_also_where_every_release_has_an_opening_of_its_own(
    tmp_path: Path,
) -> None:
    made(tmp_path / "s").close()
    sizes: list[int] = []
    for i in range(0, 24, 2):
        with sparseq.connect(tmp_path / "s") as con:
            answers(con, i, i + 2)
            sizes = [
                size
                for n in range(tables(con))
                for (size,) in con.backend.database.execute(
                    f"SELECT sum(octet_length(charges)) FROM ledger.release_{n + 1}"
                ).fetchall()
            ]
    assert len(sizes) > 2
    assert all(5_000 < size < 24_000 for size in sizes[:-1])


def blocks(con: sparseq.Store, number: int) -> Blocks:
    """Where the charges of a table lie in the file."""
    return con.backend.database.execute(
        f"SELECT segment_id, block_id, block_offset, additional_block_ids "
        f"FROM pragma_storage_info('ledger.release_{number}') "
        "WHERE column_name = 'charges' AND persistent"
    ).fetchall()


def test_what_is_full_is_never_written_again(tmp_path: Path) -> None:
    """Else every checkpoint would write all of the past, as it does with the table in use."""
    with made(tmp_path / "s") as con:
        answers(con, 0, 20)
        con.backend.database.execute("CHECKPOINT")
        full = tables(con) - 1
        assert full > 1
        before = [blocks(con, n) for n in range(1, full + 1)]
        assert all(before)
        written_again = 0
        for i in range(20, 26):
            used, lay = tables(con), blocks(con, tables(con))
            answers(con, i, i + 1)
            con.backend.database.execute("CHECKPOINT")
            written_again += used == tables(con) and blocks(con, used) != lay
        assert [blocks(con, n) for n in range(1, full + 1)] == before
        assert written_again, "the table in use is, or this would show nothing"


def test_a_new_table_that_is_not_committed_never_was(tmp_path: Path) -> None:
    with made(tmp_path / "s") as con:
        answers(con, 0, 7)
        number = tables(con)
        con.stream.ledger._segments._bytes = 1 << 30
        con.backend.database.execute("BEGIN")
        con.stream.ledger._segments.append([])
        con.backend.database.execute("ROLLBACK")
        assert segments.Segments(con.backend.database)._number == number
        with pytest.raises(duckdb.CatalogException):
            con.backend.database.execute(f"SELECT * FROM ledger.release_{number + 1}")
