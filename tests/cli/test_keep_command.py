"""`backup`, `recover` and `upgrade`: what they say, and where a loss shows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from command_runs import output, run

import sparseq

COUNT = "SELECT count(*) AS n FROM visits"
DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def killed(store: Path) -> Path:
    """A store whose log holds one of two answers, as after a kill."""
    output("sql", store, COUNT)
    with sparseq.connect(store) as con:
        con.sql(COUNT, fresh=True)
        parts = {end: Path(f"{store}{end}").read_bytes() for end in ("", ".wal", ".session")}
    for end, content in parts.items():
        Path(f"{store}{end}").write_bytes(content)
    return store


def test_backup(store: Path, tmp_path: Path) -> None:
    output("sql", store, COUNT)
    said = output("backup", store, tmp_path / "copy.sparseq")
    assert "copy.sparseq has everything up to release 1, and none of the charges after it" in said
    assert json.loads(output("history", tmp_path / "copy.sparseq", "--format", "json"))
    again = run("backup", store, tmp_path / "copy.sparseq")
    assert (again.exit_code, "exists already" in again.stderr) == (4, True)


def test_recover_what_is_whole(killed: Path) -> None:
    assert output("recover", killed) == f"{killed} is whole, up to release 2\n"
    assert [p.name for p in killed.parent.glob("web.sparseq*")] == ["web.sparseq"]


def test_what_is_missing_is_told_with_what_to_bring(killed: Path) -> None:
    Path(f"{killed}.wal").unlink()
    for command in (["history", killed], ["sql", killed, COUNT], ["recover", killed]):
        result = run(*command)
        assert (result.exit_code, result.stdout) == (4, "")
        assert "web.sparseq lacks 1 answer, with all charges for it" in result.stderr
        assert "bring web.sparseq.wal" in result.stderr


def test_a_loss_shows_everywhere_for_ever(killed: Path) -> None:
    Path(f"{killed}.wal").unlink()
    said = output("recover", killed, "--accept-loss")
    assert "continues from release 1. A part of it was missing" in said
    loud = "A HOLE IN THE GUARANTEE: this store was opened once without a part"
    for command in (["history", killed], ["budget", killed], ["sql", killed, COUNT]):
        assert loud in output(*command)
    (loss,) = json.loads(output("budget", killed, "--format", "json"))["losses"]
    assert loss["after"] == 1
    answer = run("sql", killed, COUNT, "--format", "json")
    assert json.loads(answer.stdout)["losses"] == 1
    assert loud in answer.stderr


def test_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "old.sparseq"
    path.write_bytes(gzip.decompress((DATA / "format3.sparseq.gz").read_bytes()))
    refused = run("history", path)
    assert (refused.exit_code, f"`sparseq upgrade {path}`" in refused.stderr) == (4, True)
    assert output("upgrade", path) == f"{path} is of this version now\n"
    assert output("upgrade", path) == f"{path} is of this version already\n"
    assert "q1" in output("history", path)
