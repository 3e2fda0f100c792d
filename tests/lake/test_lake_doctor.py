"""What is wrong with a lake is found; what is swept up is nobody's, whoever writes beside."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from sparseq.cli.app import sparseq as command
from sparseq.lake import delta_table, lake_ledger
from sparseq.lake import lake_ledger as rows
from sparseq.lake.doctor import examine, swept
from sparseq.lake.fenced_log import FencedLog
from sparseq.lake.lake_ledger import LakeLedger
from sparseq.lake.lake_store import LakeBackend
from sparseq.ledger.packed_integers import pack, pack_set, unpack
from sparseq.ledger.root_chain import ROOT_KEY

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
COUNT = "SELECT count(*) AS n FROM t"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two buckets and four releases, whose small files have become one, and a new one."""
    folder = tmp_path_factory.mktemp("made") / "lake"
    people = pa.table({"who": list(range(20))})
    sparseq.create(
        f"lake://{folder}",
        {"t": people},
        user="who",
        buckets=2,
        purposes=[sparseq.Questions(in_or_out=True, counts=400.0)],
    ).close()
    with pytest.MonkeyPatch.context() as few, sparseq.connect(folder) as opened:
        few.setattr(lake_ledger, "_FILES", 2)
        for n in range(4):
            opened.sql(COUNT, fresh=True)
            if n == 2:
                opened.stream.ledger.fold(1)
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    monkeypatch.setattr(lake_ledger, "_FILES", 2)
    return shutil.copytree(made, tmp_path / "lake")


def wrong(folder: Path, deep: bool = False) -> dict[str, str]:
    return {one.of: one.said for one in examine(folder, deep) if one.wrong}


def of_kind(folder: Path, kind: str) -> list[Path]:
    log = LakeBackend(folder).ledger._log
    return [folder / "ledger" / file.path for file in log.head.of(kind)]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def test_a_lake_that_is_whole_has_what_was_left_over_swept_up(lake: Path) -> None:
    with sparseq.connect(lake) as opened:
        before = opened.stream.accounts.spent.tolist(), [r.query for r in opened.releases()]
    (lake / "buckets" / ".bucket-0").write_bytes(b"of an ingest that was killed")
    assert wrong(lake, deep=True) == {}
    said = CliRunner().invoke(command, ["doctor", f"lake://{lake}", "--sweep"])
    assert said.exit_code == 0
    assert "of 4 releases" in said.output
    assert {one.of: one.said for one in examine(lake)}["left over"].startswith("0 files")
    assert not (lake / "buckets" / ".bucket-0").exists()
    with sparseq.connect(lake) as opened:
        after = opened.stream.accounts.spent.tolist(), [r.query for r in opened.releases()]
        assert after == before
        opened.sql(COUNT, fresh=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda lake: flip(of_kind(lake, "charges")[0]),
        lambda lake: cut(of_kind(lake, "releases")[0]),
        lambda lake: of_kind(lake, "spent")[0].unlink(),
        lambda lake: flip(next((lake / "buckets").iterdir())),
        lambda lake: next((lake / "buckets").iterdir()).unlink(),
        lambda lake: (lake / "lake.json").unlink(),
    ],
    ids=["charges", "releases", "spent", "bucket flipped", "bucket gone", "manifest"],
)
def test_damage_is_found(lake: Path, damage: Callable[[Path], Any]) -> None:
    damage(lake)
    assert set(wrong(lake, deep=True)) & {"lake", "buckets", "accounts"}
    assert CliRunner().invoke(command, ["doctor", f"{lake}", "--deep"]).exit_code != 0


def test_a_sum_that_is_not_that_of_the_charges_is_found(lake: Path) -> None:
    log = LakeBackend(lake).ledger._log
    old = log.head.of("spent")
    sums = [row for some in log.rows(old) for row in some.to_pylist()]
    less = [list((row | {"charges": pack(unpack(row["charges"]) // 2)}).values()) for row in sums]
    log.commit([log.put("spent", rows.table("spent", less))], old)
    assert "not the sum" in wrong(lake)["accounts"]


@pytest.mark.parametrize("what", ["query", "answer", "charges", "departed", "request", "root"])
def test_a_past_that_was_changed_is_found(lake: Path, what: str) -> None:
    """By whoever has the lake's keys, and writes its files as they are to be."""
    ledger = LakeBackend(lake).ledger
    log, kind = ledger._log, "charges" if what == "charges" else "releases"
    old = log.head.of(kind)
    past = [row for some in log.rows(old) for row in some.to_pylist()]
    if what == "departed":
        log.commit(
            [log.put("departed", rows.table("departed", [[2, pack_set(np.array([3], np.int32))]]))]
        )
    elif what == "charges":  # one pays more of the first, and less of the last
        first, other = (row for row in past if row["bucket"] == 0 and row["release"] in (1, 4))
        units = unpack(first["charges"])
        units[0] += 1
        less = unpack(other["charges"])
        less[0] -= 1
        first["charges"], other["charges"] = bytes(pack(units)), bytes(pack(less))
        log.commit([log.put(kind, rows.table(kind, [list(r.values()) for r in past]))], old)
    else:
        other = {"query": "SELECT 1", "answer": b"9", "request": "analyst/z", "root": bytes(32)}
        past[1][what] = other[what]
        log.commit([log.put(kind, rows.table(kind, [list(r.values()) for r in past]))], old)
    assert wrong(lake)["accounts"] != ""


def test_a_lake_of_a_version_without_roots_gets_them_from_its_next_answer_on(lake: Path) -> None:
    ledger = LakeBackend(lake).ledger
    log, ledger._anew = ledger._log, True
    old = log.head.of("releases")
    bare = pa.concat_tables(log.rows(old)).drop_columns(["sealed", "root"])
    kept = [note for note in ledger._notes.rows(1) if ROOT_KEY not in str(note[3])]
    log.commit(
        [log.put("releases", bare), log.put("notes", rows.table("notes", kept))],
        [*old, *log.head.of("notes")],
    )
    with sparseq.connect(lake) as opened:
        assert {one.root for one in opened.releases()} == {""}
        opened.sql(COUNT, fresh=True)
    with sparseq.connect(lake) as opened:
        opened.sql(COUNT, fresh=True)
        opened.stream.ledger.fold(1)
    with sparseq.connect(lake) as opened:
        assert [len(one.root) for one in opened.releases()] == [0, 0, 0, 0, 64, 64]
    assert wrong(lake) == {}


def test_a_fence_that_does_not_hold_is_found(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unfenced(log: FencedLog, *given: Any) -> None:
        delta_table.extend(delta_table.open_table(log.folder), (), (), {}, retries=15)

    monkeypatch.setattr(FencedLog, "_extend", unfenced)
    assert "both committed as the first" in wrong(lake)["fence"]


def asks_while(monkeypatch: pytest.MonkeyPatch, lake: Path, then: Callable[[], Any]) -> Any:
    """Have a driver ask; `then` happens when its files are written, and not yet committed."""
    driver, extend, done = sparseq.connect(lake), FencedLog._extend, list[int]()

    def slow(log: FencedLog, new: Any, old: Any, number: str) -> None:
        if log is driver.stream.ledger._log and not done:
            done.append(1)
            then()
        extend(log, new, old, number)

    monkeypatch.setattr(FencedLog, "_extend", slow)
    return driver.sql(COUNT, fresh=True)


def test_a_sweep_beside_a_writer_loses_nothing(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sparseq.StoreInUse):
        asks_while(monkeypatch, lake, lambda: swept(lake))
    assert wrong(lake, deep=True) == {}
    with sparseq.connect(lake) as opened:
        assert opened.sql(COUNT, fresh=True).facts.release == 5


def test_without_its_fence_a_sweep_would_lose_charges(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LakeLedger, "fence", lambda self: None)
    with contextlib.suppress(sparseq.StoreError):  # it may notice that its files are gone
        asks_while(monkeypatch, lake, lambda: swept(lake))
    with pytest.raises(sparseq.StoreError, match="has no file"):
        sparseq.connect(lake)


def test_a_sweep_that_was_overtaken_removes_nothing(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeper = LakeBackend(lake)
    left = sweeper.orphans()
    with sparseq.connect(lake) as driver:
        driver.sql(COUNT, fresh=True)
    with pytest.raises(sparseq.StoreInUse):
        sweeper.sweep()
    assert left
    assert all(path.exists() for path in left)


def test_old_entries_are_removed_and_a_sleeper_is_still_told(lake: Path) -> None:
    """Its place in the log is free again: without a look at what it has read, it would commit."""
    sleeper = sparseq.connect(lake)
    with sparseq.connect(lake) as driver:
        for _ in range(3):
            driver.sql(COUNT, fresh=True)
        driver.stream.ledger._log._table.create_checkpoint()
    before = len(list((lake / "ledger" / "_delta_log").iterdir()))
    swept(lake)
    assert len(list((lake / "ledger" / "_delta_log").iterdir())) < before - 5
    with pytest.raises(sparseq.StoreInUse):
        sleeper.sql(COUNT, fresh=True)
    assert wrong(lake) == {}
    with sparseq.connect(lake) as again:
        assert again.sql(COUNT, fresh=True).facts.release == 8


@pytest.mark.parametrize("lost", ["nothing", "the last entry", "an entry in the middle"])
def test_a_checkpoint_that_a_loss_of_power_has_torn(lake: Path, lost: str) -> None:
    """It may be of an entry that is lost too: which was not durable, and nobody was told of it."""
    with sparseq.connect(lake) as driver:
        driver.sql(COUNT, fresh=True)
        before = driver.released
        driver.sql(COUNT, fresh=True)
        driver.stream.ledger._log._table.create_checkpoint()
    log = lake / "ledger" / "_delta_log"
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    checkpoint.write_bytes(bytes(checkpoint.stat().st_size))
    entries = sorted(log.glob("*.json"))
    if lost != "nothing":
        entries[-1 if lost == "the last entry" else 1].unlink()
    if lost == "an entry in the middle":
        with pytest.raises(sparseq.StoreError, match="can't be read"):
            sparseq.connect(lake)
        assert checkpoint.exists()
        return
    with sparseq.connect(lake) as again:
        assert again.released == before + (lost == "nothing")
        again.sql(COUNT, fresh=True)
    assert wrong(lake) == {}


def test_who_reads_beside_a_sweep_opens_the_lake_again(lake: Path) -> None:
    reader = sparseq.connect(lake)
    with sparseq.connect(lake) as driver:
        driver.sql(COUNT, fresh=True)
        driver.stream.ledger.fold(1)
        for _ in range(3):
            driver.sql(COUNT, fresh=True)
        driver.stream.ledger.fold(1)
        driver.ingest(pa.table({"who": [1, 2, 3, 4, 5]}), again=True)
    assert swept(lake) > 4
    for read in (lambda: reader.releases(), lambda: reader.sql(COUNT, fresh=True)):
        with pytest.raises(sparseq.StoreError, match=r"any more|committed first"):
            read()
    with sparseq.connect(lake) as again:
        assert len(again.releases()) == 8
