"""A backup is whole, whenever it is made; what is behind the record of its store does not open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparseq
from sparseq import backup
from sparseq.ledger._duckdb.progress_record import record_of
from sparseq.store._duckdb import backup as module
from sparseq.store.curator import forget

COUNT = "SELECT count(*) AS n FROM t"


def facts(con: sparseq.Store) -> list[Any]:
    return [
        con.releases(),
        con.stream.accounts.spent.tolist(),
        con.taken(),
        con.catalog,
        con.guarantee,
    ]


@pytest.fixture
def con(tmp_path: Path) -> sparseq.Store:
    con = sparseq.create(tmp_path / "s", {"t": pa.table({"who": [1, 2, 3]})}, user="who")
    con.sql(COUNT, request_id="a")
    return con


def test_a_backup_of_an_open_store_is_whole(con: sparseq.Store, tmp_path: Path) -> None:
    con.ingest(pa.table({"who": [4]}), once="b")
    forget(con, "2")
    made = backup(con, tmp_path / "copy")
    assert (made.releases, made.writes) == (1, 4)
    expected = facts(con)
    con.sql(COUNT, fresh=True)  # the store goes on
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy", "s", "s.session", "s.wal"]
    (tmp_path / "there").mkdir()
    (tmp_path / "copy").rename(tmp_path / "there" / "c")
    with sparseq.connect(tmp_path / "there" / "c") as copy:
        assert facts(copy) == expected
        assert copy.sql(COUNT, request_id="a").facts.release == 1
        copy.sql(COUNT, fresh=True)
    con.close()
    with sparseq.connect(tmp_path / "s") as again:
        assert again.released == 2


def test_while_a_backup_is_made_nobody_else_gets_the_store(
    con: sparseq.Store, tmp_path: Path
) -> None:
    """To read a file in the process that has it open would undo its lock."""
    backup(con, tmp_path / "copy")
    code = "import sys, sparseq; sparseq.connect(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(sparseq.__file__).parents[1])},
    )
    assert "StoreInUse" in done.stderr
    con.close()


def test_an_earlier_state_in_the_place_of_its_store_does_not_open(
    con: sparseq.Store, tmp_path: Path
) -> None:
    backup(con, tmp_path / "copy")
    con.sql(COUNT, fresh=True)
    con.sql(COUNT, fresh=True)
    con.close()
    assert record_of(tmp_path / "s").exists(), "it stays"
    with sparseq.connect(tmp_path / "s") as same:
        assert same.released == 3
    latest = (tmp_path / "s").read_bytes()
    os.replace(tmp_path / "copy", tmp_path / "s")
    with pytest.raises(sparseq.StoreError, match=r"lacks 2 answers.*an earlier state of its"):
        sparseq.connect(tmp_path / "s")
    (tmp_path / "s").write_bytes(latest)
    sparseq.connect(tmp_path / "s").close()


def test_a_backup_in_the_place_of_a_killed_store_does_not_open(
    con: sparseq.Store, tmp_path: Path
) -> None:
    backup(con, tmp_path / "copy")
    con.sql(COUNT, fresh=True)
    parts = {end: Path(f"{tmp_path / 's'}{end}").read_bytes() for end in (".wal", ".session")}
    con.close()
    for parts_left in ([".session"], [".wal", ".session"], [".wal"]):
        folder = tmp_path / "".join(parts_left)
        folder.mkdir()
        (folder / "s").write_bytes((tmp_path / "copy").read_bytes())
        for end in parts_left:
            Path(f"{folder / 's'}{end}").write_bytes(parts[end])
        with pytest.raises(sparseq.StoreError):
            sparseq.connect(folder / "s")
    with sparseq.connect(tmp_path / ".session" / "s", accept_loss=True) as con:
        assert len(con.losses) == 1


def test_it_appears_whole_or_not_at_all(
    con: sparseq.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").write_text("something")
    with pytest.raises(sparseq.StoreError, match="exists already"):
        backup(con, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "something"
    with pytest.raises(sparseq.StoreError, match="no folder"):
        backup(con, tmp_path / "none" / "copy")

    def fails(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "_close", fails)
    with pytest.raises(sparseq.StoreError, match="the disk is full; there is no backup"):
        backup(con, tmp_path / "copy")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s", "s.session", "there"]
    con.sql(COUNT, fresh=True)
    con.close()


def test_what_has_no_file_has_no_backup(tmp_path: Path) -> None:
    with sparseq.create(None, {"t": pa.table({"who": [1]})}, user="who") as con:
        with pytest.raises(sparseq.ParameterError):
            backup(con, tmp_path / "copy")
        con.sql(COUNT, fresh=True)


def test_a_closed_store_has_none(con: sparseq.Store, tmp_path: Path) -> None:
    con.close()
    with pytest.raises(sparseq.StoreError, match="closed"):
        backup(con, tmp_path / "copy")
