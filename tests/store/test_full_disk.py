"""A disk that fills up: the error says so, and what is sure; nothing is lost or charged twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparseq

CHILD = """
import json, os, resource, signal, sys
import pyarrow as pa, sparseq, sparseq.store.create
from sparseq import backup
from sparseq.store.curator import forget

try:
    import pandas  # or every child does, at its first Arrow table
except ImportError:
    pass
COUNT = "SELECT count(*) AS n FROM t"

def fill(path, how, room):
    con = sparseq.connect(path)
    given = 0
    if how != "first":
        for i in range(2):
            con.sql(COUNT, request_id=f"a{i}")
            given += 1
    grown = max(os.path.getsize(f) for f in (path, path + ".wal") if os.path.exists(f))
    log = os.path.getsize(path + ".wal") if os.path.exists(path + ".wal") else 0
    limit = {"first": 0, "backup": 4096}.get(how, log + room)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    error = ""
    try:
        if how in ("first", "ask"):
            for i in range(60):
                con.sql(COUNT, request_id=f"b{i}")
                given += 1
        elif how == "ingest":
            rows = {"who": list(range(5000, 6000))}
            rows["x"] = [os.urandom(20).hex() for _ in rows["who"]]
            con.ingest(pa.table(rows), once="big")
        elif how == "forget":
            forget(con, "5")
        elif how == "close":
            con.close()
        elif how == "backup":
            backup(con, path + ".copy")
    except sparseq.StoreError as told:
        error = f"{told.message} | {told.hint}"
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    goes_on = True
    try:
        if how != "close":
            con.sql(COUNT, request_id="after")
            given += 1
    except sparseq.StoreError as told:
        goes_on = False
        assert "closed" in told.message or "not given, and nobody was charged" in told.message, told
    print(json.dumps([how, room, error, given, goes_on]), flush=True)
    os._exit(0)

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for how, room in json.loads(sys.argv[2]):
    if os.fork() == 0:
        fill(f"{sys.argv[1]}/{how}{room}", how, room)
    assert os.wait()[1] == 0, (how, room)
"""
CASES = [
    ("ask", 0),
    ("ask", 900),
    ("ingest", 0),
    ("ingest", 4096),
    ("forget", 0),
    ("first", 0),
    ("close", 0),
    ("backup", 0),
]


@pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.deep)])
def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path, step: int) -> None:
    cases = CASES[::step]
    table = pa.table({"who": list(range(500)), "x": [f"{i:09}" for i in range(500)]})
    with sparseq.create(
        tmp_path / "made",
        {"t": table},
        user="who",
        row_key="x",
        purposes=[sparseq.Questions(in_or_out=True, counts=400)],
    ):
        pass
    for how, room in cases:
        (tmp_path / f"{how}{room}").write_bytes((tmp_path / "made").read_bytes())
    (tmp_path / "made").unlink()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), json.dumps(cases)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(sparseq.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    outcomes: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(how, room) for how, room, *_ in outcomes] == cases
    for how, room, error, given, _ in outcomes:
        case = f"{how}{room}: {error}"
        if how != "close":
            assert error.startswith("the disk is full") or "can't be written beside" in error, case
            assert "make room" in error or "with room" in error, case
        with sparseq.connect(tmp_path / f"{how}{room}") as con:
            assert given <= con.released <= given + 1, case
            assert con.stream.accounts.spent[:500].tolist() == [con.released * 2**24] * 500, case
            taken = list(con.taken()) == ["big"]
            assert len(con.stream.accounts) == (1500 if taken else 500), case
            assert not (tmp_path / f"{how}{room}.copy").exists()
    by_case = {(how, room): error for how, room, error, *_ in outcomes}
    assert "the answer was not given" in by_case["ask", 0]
    assert any(goes_on for *_, goes_on in outcomes)
