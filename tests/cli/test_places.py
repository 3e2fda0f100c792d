"""Commands that write: who may read what they make, and what they say where nothing can be made."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deploy.shipped import can_isolate
from sampled import one_in

import sparseq
from checks.stores import made_store
from sparseq.base.whole_files import for_others

PLACES = Path(__file__).with_name("places.py")
FOR_OTHERS = {"n.csv", "n.parquet", "history.csv", "series.csv", "done.jsonl", "model.json"}
"""Released answers, which are files like any other."""


def _ran(how: str, store: Path, folder: Path) -> list[list[Any]]:
    own = [] if how == "fine" else ["unshare", "--mount"]
    command = [*own, sys.executable, str(PLACES), how, str(store), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[list[Any]] = json.loads(done.stdout)
    return found


def _modes(folder: Path) -> dict[str, int]:
    """Return the mode of each file and folder that lies there."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(above) / name
            found[str(path.relative_to(folder))] = stat.S_IMODE(path.stat().st_mode)
    return found


@pytest.mark.deep
def test_what_commands_make_is_their_owners_alone(folder: Path, tmp_path: Path) -> None:
    for words, code, said, _ in _ran("fine", folder / "web.sparseq", tmp_path):
        assert code == 0, (words, said)
    for name, mode in _modes(tmp_path / "fine").items():
        if Path(name).name == "web.sparseq":
            continue  # it was copied there by the test
        assert bool(mode & 0o077) == (name in FOR_OTHERS), (name, oct(mode))
        assert mode == 0o644 or mode in (0o600, 0o700), (name, oct(mode))


@pytest.mark.skipif(not can_isolate(), reason="needs root, and namespaces")
@pytest.mark.parametrize("how", one_in(2, ["read-only", "full"]))
def test_a_place_that_cannot_be_written_is_told_in_plain_words(
    folder: Path, tmp_path: Path, how: str
) -> None:
    """Nothing half-done is left there, and nobody is asked to report it."""
    for words, code, said, new in _ran(how, folder / "web.sparseq", tmp_path):
        assert code in (2, 4), (words, code, said)
        assert "report" not in said, (words, said)
        assert any(w in said for w in ("full", "No space", "Read-only")), (words, said)
        assert "hint: " in said, (words, said)
        assert new == [], (words, new)


def test_a_library_makes_private_files_too_and_leaves_its_callers_umask(tmp_path: Path) -> None:
    """Also while the store is open, and DuckDB's log and the session's record lie beside it."""
    before = os.umask(0o022)
    try:
        rows = pa.table({"who": [1, 2], "v": [1, 2]})
        options: dict[str, Any] = {"table": "t", "user": "who", "seed": 1}
        with made_store(tmp_path / "s", rows, **options) as store:
            store.sql("SELECT count(*) AS n FROM t")
            assert {"s", "s.wal", "s.session"} == set(_modes(tmp_path))
            assert set(_modes(tmp_path).values()) == {0o600}
            sparseq.backup(store, tmp_path / "b")
        assert _modes(tmp_path) == dict.fromkeys(("s", "b", "s.session"), 0o600)
        pytest.importorskip("deltalake")
        with made_store(f"lake://{tmp_path}/l", rows, buckets=2, **options) as lake:
            lake.sql("SELECT count(*) AS n FROM t")
        assert _modes(tmp_path)["l"] == 0o700
    finally:
        assert os.umask(before) == 0o022


def test_a_file_for_others_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w") as file:
        before = stat.S_IMODE((tmp_path / "a").stat().st_mode)
        for_others(file.fileno())
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == before
