"""Whole lives of stores from one seed: see `checks.simulation`."""

from __future__ import annotations

import errno
import os
import random
import secrets
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")

import sparseq
from checks.simulation import delta
from checks.simulation.disk import Disk
from checks.simulation.faults import PLANTED
from checks.simulation.runs import SETTINGS, Runner, runner
from checks.simulation.threads import Lock
from checks.simulation.world import Stuck, World
from sparseq.lake import delta_table, fenced_log, ledger_rows
from sparseq.lake._duckdb import layout
from sparseq.lake.fenced_log import FencedLog
from sparseq.ledger._duckdb import duckdb_log, session
from sparseq.store import population
from sparseq.store._duckdb import open_file
from sparseq.store._duckdb.outside_mark import keep_mark

HOUR, FAULT = 3600, 600
"""Seconds of fresh seeds among the deep tests, and in which each planted fault is to be found."""


@pytest.fixture(scope="module")
def worlds() -> Iterator[Runner]:
    with runner() as made:
        yield made


OTHERS = sorted(set(SETTINGS) - {"lake"})


@pytest.mark.parametrize(
    "setting", ["lake", *(pytest.param(s, marks=pytest.mark.deep) for s in OTHERS)]
)
def test_a_seed_is_one_life(worlds: Runner, setting: str) -> None:
    one, again, other = (worlds.run(s, setting, 100) for s in (3, 3, 4))
    assert one == again
    assert one.digest != other.digest
    assert one.steps >= 100
    assert one.found == ""


def test_fresh_seeds_find_nothing(worlds: Runner) -> None:
    """A few short lives; CI runs a minute of long ones (.ci/run)."""
    for setting in ("lake", "monitors", "servers"):
        run = worlds.run(secrets.randbelow(10**9), setting, 60)
        assert run.found == "", f"--seed {run.seed} --setting {setting}, 60 steps: {run.found}"


@pytest.mark.parametrize("fault", ["fence-out", "rename-not-synced", "fsync-skipped"])
def test_a_planted_fault_is_found_in_a_life_that_is_known(worlds: Runner, fault: str) -> None:
    lives = [5, 9] if fault != "fence-out" else [2, 5]
    assert any(worlds.run(seed, "lake", plant=fault).found for seed in lives)
    assert all(worlds.run(seed, "lake", 400).found == "" for seed in lives)


@pytest.mark.deep
def test_an_hour_of_fresh_seeds_finds_nothing(worlds: Runner) -> None:
    for run in worlds.runs(secrets.randbelow(10**9), HOUR, float("inf")):
        again = f"--seed {run.seed} --setting {run.setting}"
        assert run.found == "", f"python -m checks.simulation {again}"


@pytest.mark.deep
@pytest.mark.parametrize("fault", sorted(PLANTED))
def test_a_planted_fault_is_found_within_ten_minutes(worlds: Runner, fault: str) -> None:
    assert any(run.found for run in worlds.runs(1, FAULT, float("inf"), fault))


def log_of(folder: Path) -> FencedLog:
    folder.mkdir()
    return FencedLog.create(folder, b"", ledger_rows.all_columns())


def row(number: int) -> pa.Table:
    return pa.table({"release": pa.array([number], pa.int64()), "users": pa.array([b""])})


def test_entries_in_small_steps_are_those_of_delta_rs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads what the other has written, and refuses a second entry of a version."""
    real = delta_table.table_at
    log, table = log_of(tmp_path / "log"), None
    for small in (False, True, True, False):
        with monkeypatch.context() as patch:
            if small:
                patch.setattr(fenced_log, "extend", delta.extend)
                patch.setattr(fenced_log, "files", delta.files)
                patch.setattr(delta_table, "table_at", delta.table_at)
            log, late = (FencedLog(tmp_path / "log", b"") for _ in range(2))
            log.commit([log.put("departed", row(log.head.version))], log.head.files[:1])
            with pytest.raises(fenced_log.Overtaken):
                late.commit([])
            table = delta.table_at(tmp_path / "log")
        assert real(tmp_path / "log").version() == table.version() == log.head.version
        assert sorted(delta_table.files(real(tmp_path / "log"))) == sorted(delta.files(table))
    assert log.head.version == 4


@pytest.mark.parametrize("torn", ["empty", "half", "gone"])
def test_a_checkpoint_that_a_loss_of_power_took_is_set_aside(tmp_path: Path, torn: str) -> None:
    log = log_of(tmp_path / "log")
    for _ in range(3):
        log.commit([])
    log._table.create_checkpoint()
    log.commit([])
    (checkpoint,) = (tmp_path / "log" / "_delta_log").glob("*.checkpoint.parquet")
    data = checkpoint.read_bytes()
    checkpoint.write_bytes(data[: len(data) // 2] if torn == "half" else b"")
    if torn == "gone":
        checkpoint.unlink()
    again = FencedLog(tmp_path / "log", b"")
    assert again.head.version == 4
    again.commit([])
    assert FencedLog(tmp_path / "log", b"").head.version == 5


@pytest.mark.parametrize("left", [b"", bytes(20), b'{"version":', b"{}", b"3"])
def test_nothing_is_trimmed_by_what_a_loss_of_power_left_of_a_pointer(
    tmp_path: Path, left: bytes
) -> None:
    log = log_of(tmp_path / "log")
    for _ in range(3):
        log.commit([])
    log._table.create_checkpoint()
    (tmp_path / "log" / "_delta_log" / "_last_checkpoint").write_bytes(left)
    again = FencedLog(tmp_path / "log", b"")
    assert again.trim() == []
    again.commit([])
    assert FencedLog(tmp_path / "log", b"").head.version == 4


def test_a_checkpoint_that_stands_for_entries_that_are_gone_is_left_there(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    for _ in range(3):
        log.commit([])
    log._table.create_checkpoint()
    assert len(log.trim()) == 3
    (checkpoint,) = (tmp_path / "log" / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(b"rotten")
    with pytest.raises(fenced_log.StoreError, match="can't be read"):
        FencedLog(tmp_path / "log", b"")
    assert checkpoint.exists()


@pytest.mark.parametrize("mood", ["lost", "kept", "in order", "any"])
def test_what_was_flushed_survives_a_loss_of_power(tmp_path: Path, mood: str) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    (root / "old").write_bytes(b"old")
    disk = Disk(root)
    (root / "old").write_bytes(b"new")
    (root / "new").write_bytes(b"new")
    (root / "kept").write_bytes(b"kept")
    for path in (root / "kept", root):
        disk.flushed(str(path))
    (root / "later").write_bytes(b"later")
    disk.look(str(root))
    os.rename(root / "kept", root / "renamed")
    disk.renamed(str(root / "kept"), str(root / "renamed"))
    disk.lose_power(random.Random(1), mood)
    left = {path.name: path.read_bytes() for path in root.iterdir()}
    assert b"kept" in left.values()
    assert left["old"] in (
        (b"old", b"new")
        if mood not in ("lost", "kept")
        else (b"old",)
        if mood == "lost"
        else (b"new",)
    )
    assert left["new"] in (b"", b"new")
    assert ("later" in left) or mood != "kept"
    assert ("later" not in left) or mood != "lost"


def test_a_damaged_file_of_a_lakes_log_is_told_in_words(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    log.commit([log.put("departed", row(1))])
    (file,) = log.head.files
    (tmp_path / "log" / file.path).write_bytes(b"PAR1")
    with pytest.raises(fenced_log.StoreError, match="is damaged"):
        list(log.rows(log.head.files))


def test_what_was_flushed_of_a_log_is_not_lost(tmp_path: Path) -> None:
    """By the engine's COMMIT, or by whoever opens it after its writer was killed."""
    left = set()
    for seed in range(20):
        root = tmp_path / f"disk{seed}"
        root.mkdir()
        (root / "s").write_bytes(b"")
        disk, log = Disk(root), root / "s.wal"
        log.write_bytes(b"one")
        disk.engine_wrote(str(root / "s"), True)
        log.write_bytes(b"one, two")
        disk.engine_wrote(str(root / "s"), False)
        for path in (log, root):
            disk.flushed(str(path))
        log.write_bytes(b"one, two, six")
        disk.engine_wrote(str(root / "s"), False)
        disk.lose_power(random.Random(seed), "any")
        left.add(log.read_bytes())
    assert left <= {b"one, two, six"[:size] for size in range(8, 14)}
    assert len(left) > 1


def failing(_: Path) -> None:
    raise OSError(errno.EIO, "no disk")


def test_a_mark_is_never_ahead_of_a_log_that_was_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer was killed after the commit, before the mark; then the log can't be flushed."""
    path, mark = tmp_path / "s.sparseq", tmp_path / "far.mark"
    sparseq.create(path, {"t": pa.table({"who": [1, 2]})}, user="who").close()
    keep_mark(path, mark)
    with sparseq.connect(path) as store:
        store.sql("SELECT count(*) AS n FROM t")
        before = mark.read_bytes()
        store.sql("SELECT count(*) AS n FROM t WHERE who > 1")
        store.backend.abandon()
    mark.write_bytes(before)

    with monkeypatch.context() as patch:
        patch.setattr(open_file, "make_durable", failing)
        with pytest.raises(sparseq.StoreError, match="no disk"):
            sparseq.connect(path)
    assert mark.read_bytes() == before
    sparseq.connect(path).close()
    assert mark.read_bytes() != before


def test_no_log_of_two_checkpoints_ago_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup takes the log away; its name is away for good before closing takes the next one."""
    path, made = tmp_path / "s.sparseq", list[Path]()
    sparseq.create(path, {"t": pa.table({"who": [1, 2]})}, user="who").close()
    real = session.sync_folder
    monkeypatch.setattr(session, "sync_folder", lambda file: (real(file), made.append(file)))
    with sparseq.connect(path) as store:
        store.sql("SELECT count(*) AS n FROM t")
        sparseq.backup(store, tmp_path / "copy.sparseq")
        assert not duckdb_log.log_of(path).exists()
        made.clear()
    assert made == [duckdb_log.log_of(path)]


# -- found by the simulator: the disk's fault is told as that, and never as that of the rows -------

ROWS = pa.table({"who": [1, 2]})


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fails_as_rows_come_is_not_the_fault_of_the_rows(tmp_path: Path) -> None:
    """Else whoever follows a folder sets the file aside, and its tick lacks the rows for ever."""

    def work() -> None:
        raise duckdb.IOException("IO Error: Input/output error")

    with sparseq.create(tmp_path / "s.sparseq", {"t": ROWS}, user="who") as store:
        with pytest.raises(sparseq.StoreError, match="can't be written: IO Error"):
            store.backend.storage.in_transaction(work)  # type: ignore[attr-defined]
        assert store.ingest(ROWS, "t", again=True) == 2


def test_a_full_disk_under_a_lake_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sparseq.create(f"lake://{tmp_path / 'lake'}", {"t": ROWS}, user="who", buckets=1) as lake:
        with monkeypatch.context() as patch:
            patch.setattr(layout, "make_durable", full)
            with pytest.raises(sparseq.StoreError, match="the disk is full; nothing was changed"):
                lake.ingest(ROWS, "t", once="a")
        assert lake.ingest(ROWS, "t", once="a") == 2


def test_a_full_disk_under_a_population_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparseq.create_population(tmp_path / "people")
    with monkeypatch.context() as patch:
        patch.setattr(population, "Lock", full)
        with pytest.raises(sparseq.StoreError, match=r"the disk is full; .* was not asked"):
            sparseq.population_facts(tmp_path / "people")
    assert sparseq.population_facts(tmp_path / "people")["least_left"] == 1


def test_threads_that_wait_for_each_other_are_found(tmp_path: Path) -> None:
    world = World(1, tmp_path, {})
    process, one, other = world.process(), Lock(world), Lock(world)

    def takes(first: Lock, then: Lock) -> None:
        with first:
            world.wait(lambda: one.depth + other.depth == 2)
            with then:
                pass

    world.task("a", process, lambda: takes(one, other))
    world.task("b", process, lambda: takes(other, one))
    with pytest.raises(Stuck, match="a, b"):
        world.run()
