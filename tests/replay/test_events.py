"""Questions of all kinds about the generated events, killed six times: as if nothing had been."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sparseq

ROOT = Path(__file__).resolve().parents[2]
LINES, KILLS = 200, 4


def made(script: str, *arguments: object) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / script), *map(str, arguments)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def replayed(name: str, kills: int, log: Path, folder: Path) -> list[str]:
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [
            sys.executable,
            script,
            folder / f"{name}.sparseq",
            log,
            folder / f"{name}.parquet",
            str(kills),
            "5",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.deep
def test_killed_at_random_it_is_the_unbroken_run(tmp_path: Path) -> None:
    made(
        "data/events.py", tmp_path / "events.parquet", "--users", 300, "--rows", 6000, "--days", 30
    )
    log = tmp_path / "log.csv.zst"
    made("queries/logs/make.py", "mixed", log, "--lines", LINES, "--days", 30)
    with sparseq.create(
        tmp_path / "killed.sparseq",
        {"events": tmp_path / "events.parquet"},
        user="user_id",
        bounds={"amount": (0, 500)},
        seed=2,
        purposes=[sparseq.Questions(counts=30)],
    ):
        pass
    shutil.copy(tmp_path / "killed.sparseq", tmp_path / "whole.sparseq")
    *moments, last = replayed("killed", KILLS, log, tmp_path)
    (unbroken,) = replayed("whole", 0, log, tmp_path)
    assert len(moments) == KILLS
    assert len({json.loads(m)[0] for m in moments}) >= 3, "kinds of moments"
    assert json.loads(unbroken)["lines"] == json.loads(last)["lines"] == LINES
    killed, whole = (pq.read_table(tmp_path / f"{n}.parquet") for n in ("killed", "whole"))
    assert killed.equals(whole)
    statuses = pc.value_counts(whole["status"]).to_pylist()
    assert {s["values"] for s in statuses} == {"answered", "refused", "failed"}
    assert min(s["counts"] for s in statuses) > 15
    with (
        sparseq.connect(tmp_path / "killed.sparseq") as one,
        sparseq.connect(tmp_path / "whole.sparseq") as other,
    ):
        assert [r.answer for r in one.releases()] == [r.answer for r in other.releases()]
        assert one.stream.accounts.spent.tolist() == other.stream.accounts.spent.tolist()
        assert one.stream.departures.first.tolist() == other.stream.departures.first.tolist()
        assert one.stream.departures.first.any(), "somebody was left out"
