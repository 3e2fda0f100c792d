"""A high-water mark outside of the store: of all copies, only the one asked last opens."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.base.errors import StoreError, StoreInUse
from sparseq.ledger._duckdb.mark import MarkFile
from sparseq.ledger._duckdb.progress_record import Lock, Record, read_record
from sparseq.store._duckdb.outside_mark import keep_mark

COUNT = "SELECT count(*) AS n FROM t"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, rows = tmp_path_factory.mktemp("store") / "s", pa.table({"who": [1, 2, 3]})
    with sparseq.create(path, {"t": rows}, user="who", purposes=IN_OR_OUT) as con:
        con.sql(COUNT)
    return path


@pytest.fixture
def place(store: Path, tmp_path: Path) -> Path:
    """A store `s` of one answer, and its mark."""
    shutil.copy(store, tmp_path / "s")
    (tmp_path / "elsewhere").mkdir()
    assert keep_mark(tmp_path / "s", tmp_path / "elsewhere" / "mark").releases == 1
    return tmp_path


def ask(path: Path, to: Path | None = None) -> int:
    """Ask once, then make a backup if one is wanted; return the number of the answer."""
    with sparseq.connect(path) as con:
        number = con.sql(COUNT, fresh=True).facts.release
        if to is not None:
            sparseq.backup(con, to)
    return number


def marked(place: Path) -> int:
    record = read_record(place / "elsewhere" / "mark")
    assert record is not None
    return record.reached.releases


def test_a_copy_behind_the_mark_does_not_open(place: Path) -> None:
    ask(place / "s", place / "copy")
    assert ask(place / "s") == marked(place) == 3
    before = (place / "copy").read_bytes()
    with pytest.raises(StoreError, match=r"copy lacks 1 answer, with all charges .* is ahead"):
        sparseq.connect(place / "copy")
    assert (place / "copy").read_bytes() == before
    assert ask(place / "s") == 4


def test_one_that_is_not_behind_opens_and_then_the_other_does_not(place: Path) -> None:
    ask(place / "s", place / "copy")
    assert ask(place / "copy") == marked(place) == 3
    with pytest.raises(StoreError, match="s lacks 1 answer"):
        sparseq.connect(place / "s")


def test_a_store_ahead_of_its_mark_opens_and_brings_it_up(place: Path) -> None:
    mark = place / "elsewhere" / "mark"
    then = mark.read_bytes()
    ask(place / "s")
    ask(place / "s", place / "copy")
    mark.write_bytes(then)
    sparseq.connect(place / "s").close()
    assert marked(place) == 3


def test_what_was_committed_only_is_told_before_it_can_be_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a copy without it would open once it was read."""
    ask(place / "s", place / "copy")
    con = sparseq.connect(place / "s")
    with monkeypatch.context() as broken:
        con.sql(COUNT, fresh=True)
        broken.setattr(MarkFile, "write", _fails)
        with pytest.raises(StoreError, match="mark"):
            con.sql(COUNT, fresh=True)
    con.close()
    assert marked(place) == 3
    with sparseq.connect(place / "s") as con:
        assert con.released == marked(place) == 4


def _fails(*_: object) -> None:
    raise StoreError("the mark can't be written")


def test_two_copies_are_not_open_at_once(place: Path) -> None:
    with sparseq.connect(place / "s") as con:
        sparseq.backup(con, place / "copy")
        with pytest.raises(StoreInUse):
            sparseq.connect(place / "copy")
    sparseq.connect(place / "copy").close()


def test_an_accepted_loss_shuts_all_other_copies_out(place: Path) -> None:
    """Though they have as many answers: these are others."""
    ask(place / "s", place / "copy")
    ask(place / "s", place / "later")
    with sparseq.connect(place / "copy", accept_loss=True) as con:
        assert [loss.after for loss in con.losses] == [2]
    for other in ("s", "later"):
        with pytest.raises(StoreError, match="is not the copy that was asked last"):
            sparseq.connect(place / other)
    assert ask(place / "copy") == 3


def test_a_missing_mark_is_missed_and_one_that_moved_is_told_of(place: Path) -> None:
    mark, moved = place / "elsewhere" / "mark", place / "mark"
    mark.rename(moved)
    with pytest.raises(StoreError, match="mark, is missing"):
        sparseq.connect(place / "s")
    with pytest.raises(StoreError, match="missing"):
        keep_mark(place / "s", place / "nothing")
    keep_mark(place / "s", moved)
    assert ask(place / "s") == 2


def test_what_is_no_mark_of_this_store_is_left_as_it_is(place: Path) -> None:
    mark = place / "elsewhere" / "mark"
    own = mark.read_bytes()
    sparseq.create(
        place / "other",
        {"t": pa.table({"who": [1]})},
        user="who",
    ).close()
    with pytest.raises(StoreError, match="exists already"):
        keep_mark(place / "other", mark)
    keep_mark(place / "other", place / "elsewhere" / "others")
    mark.write_bytes((place / "elsewhere" / "others").read_bytes())
    with pytest.raises(StoreError, match="of another store"):
        sparseq.connect(place / "s", accept_loss=True)
    mark.write_text("a letter")
    with pytest.raises(StoreError, match="can't be written"):
        sparseq.connect(place / "s", accept_loss=True)
    assert mark.read_text() == "a letter"
    mark.write_bytes(own)
    Lock(mark).release()
    sparseq.connect(place / "s").close()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(6))
def test_no_copy_opens_that_lacks_an_answer_that_was_read(
    place: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of any moment, by `backup` or of a store's files, asked in any order, and killed.

    A kill comes after the commit, before or after the mark is written. Oracle: the answers that
    were read from any copy, since a loss was last accepted.
    """
    draw, copies, read, opened, refused = random.Random(seed), ["s"], set[bytes](), 0, 0
    write = MarkFile.write

    def breaks(mark: MarkFile, record: Record) -> None:
        if draw.random() < 0.5:
            write(mark, record)
        raise StoreError("killed")

    for step in range(120):
        path = place / draw.choice(copies)
        lossy = draw.random() < 0.04
        try:
            con = sparseq.connect(path, accept_loss=lossy)
        except StoreError:
            refused += 1
            continue
        opened += 1
        with con:
            has = {release.answer for release in con.releases()}
            if lossy and not read <= has:
                read = set()
            assert read <= has, (step, path)
            read |= has
            for _ in range(draw.randrange(3)):
                con.sql(COUNT, fresh=True)
            read |= {release.answer for release in con.releases()}
            act = draw.choice(("close", "backup", "kill", "copy"))
            new = f"c{step}"
            if act == "backup":
                sparseq.backup(con, place / new)
                copies.append(new)
            if act == "kill":
                with monkeypatch.context() as killed:
                    killed.setattr(MarkFile, "write", breaks)
                    with pytest.raises(StoreError, match="killed"):
                        con.sql(COUNT, fresh=True)
        if act == "copy":
            for file in place.glob(f"{path.name}*"):
                if file.name.removeprefix(path.name) in ("", ".wal", ".session"):
                    shutil.copy(file, place / file.name.replace(path.name, new, 1))
            copies.append(new)
        copies = copies[-4:]
    assert opened > 20
    assert refused > 10
