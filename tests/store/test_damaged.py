"""A file with other bytes than were written: it answers rightly, or says that it is damaged."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from sparseq.base._duckdb.connection import connect, is_damage
from sparseq.base.errors import StoreError
from sparseq.cli.app import sparseq as command
from sparseq.ledger._duckdb.notes import DuckNotes
from sparseq.stream.partition_selection import DELTAS

ROWS = 20_000
BLOCK = 1 << 18
blocks = pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.deep)])
"""A bit of each block, or of each other one."""
QUERIES = (
    "SELECT sum(x) AS n FROM t",
    "SELECT count(*) AS n FROM t WHERE day > DATE '2024-01-05'",
    "SELECT count(*) AS n FROM t AS a JOIN t AS b ON a.who = b.who",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A closed store's file: some blocks have rows, some the ledger."""
    path = tmp_path_factory.mktemp("whole") / "s.sparseq"
    rows = pa.table(
        {
            "who": [i // 4 for i in range(ROWS)],
            "day": [dt.date(2024, 1, 1 + i % 28) for i in range(ROWS)],
            "x": [i * 0.37 % 10 for i in range(ROWS)],
        }
    )
    with sparseq.create(
        path,
        {"t": rows},
        user="who",
        time="day",
        bounds={"x": (0, 10)},
        kappa=1000,
        purposes=[sparseq.Questions(in_or_out=True, counts=10_000)],
    ) as con:
        con.sql(QUERIES[0])
    return path.read_bytes()


def flipped(whole: bytes, path: Path, at: int) -> Path:
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    return path


@blocks
def test_a_flipped_bit_is_told_and_no_answer_lacks_anybody(
    whole: bytes, tmp_path: Path, every: int
) -> None:
    path, told = tmp_path / "s.sparseq", 0
    path.write_bytes(whole)
    truth = [found(path, query) for query in QUERIES]
    for at in range(BLOCK // 2, len(whole), every * BLOCK):
        flipped(whole, path, at)
        for query, right in zip(QUERIES, truth, strict=True):
            answer = found(path, query)
            if isinstance(answer, StoreError):
                assert "is damaged" in answer.message
                assert "backup" in answer.hint
                told += 1
            else:
                assert abs(answer["n"] - right["n"]) < 4 * right["n_error"]
    assert told > 5 // every


def found(path: Path, query: str) -> Any:
    try:
        with sparseq.connect(path) as con:
            return con.sql(query).rows()[0]
    except StoreError as error:
        return error


@blocks
def test_the_command_line_says_it_wherever_it_comes_up(
    whole: bytes, tmp_path: Path, every: int
) -> None:
    path, told = tmp_path / "s.sparseq", 0
    for at in range(BLOCK // 2, len(whole), every * BLOCK):
        flipped(whole, path, at)
        store = str(path)
        for arguments in (
            ["history", store],
            ["curator", "user", store, "77"],
            ["sql", store, QUERIES[0]],
        ):
            result = CliRunner().invoke(command, arguments)
            assert result.exit_code in (0, StoreError.exit_code), result.output
            told += result.exit_code != 0 and "is damaged" in result.output
    assert told > 5 // every


@pytest.mark.parametrize("sql", ["SELECT CAST(s AS INTEGER)", "SELECT error(s)"])
def test_no_row_can_say_it(sql: str) -> None:
    con = connect()
    with pytest.raises(duckdb.Error, match="Corrupt database file") as caught:
        con.execute(f"{sql} FROM (SELECT 'Corrupt database file: x' AS s)").fetchall()
    assert not is_damage(caught.value)


@pytest.mark.parametrize("kind", [duckdb.InterruptException, duckdb.OutOfMemoryException])
def test_what_is_of_the_moment_is_not_called_damage(
    kind: type[duckdb.Error], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> Any:
        raise kind("not now")

    with sparseq.create(None, {"t": pa.table({"who": [1]})}, user="who") as con:
        monkeypatch.setattr(DuckNotes, "read", stopped)
        with pytest.raises(kind):
            con.stream.ledger.notes(DELTAS)
        monkeypatch.setattr(DuckNotes, "read", lambda *_: (_ for _ in ()).throw(duckdb.Error("x")))
        with pytest.raises(StoreError, match="damaged"):
            con.stream.ledger.notes(DELTAS)
