"""A store of which a part is missing is refused, or has every charge; refusing changes nothing."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.ledger._duckdb.progress_record import HighWaterMark, Record, record_of

ASKED = 3
COUNT = "SELECT count(*) AS n FROM t"


@dataclass(frozen=True)
class Killed:
    """The files of a store as kill -9 leaves them, after `ASKED` answers and an ingest."""

    main: bytes
    log: bytes
    record: bytes
    spent: tuple[int, ...] = ()

    def lay(self, path: Path, *, log: bytes | None = b"*", record: bytes | None = b"*") -> Path:
        """Write them; another log or record can be given, or None."""
        path.write_bytes(self.main)
        log, record = (self.log if log == b"*" else log), self.record if record == b"*" else record
        if log is not None:
            Path(f"{path}.wal").write_bytes(log)
        if record is not None:
            record_of(path).write_bytes(record)
        return path


def bytes_of(path: Path) -> Killed:
    """Read a store's files while it is open; nobody flushes or closes anything."""
    log = Path(f"{path}.wal")
    return Killed(
        path.read_bytes(),
        log.read_bytes() if log.exists() else b"",
        record_of(path).read_bytes(),
    )


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    path = tmp_path_factory.mktemp("killed") / "s.sparseq"
    table = pa.table({"who": list(range(50))})
    with sparseq.create(
        path, {"t": table}, user="who", purposes=[sparseq.Questions(counts=20)]
    ) as con:
        con.sql(COUNT, request_id="q0")
        con.ingest(pa.table({"who": [50]}), once="late")
        for i in range(1, ASKED):
            con.sql(COUNT, request_id=f"q{i}")
        spent = con.stream.accounts.spent.tolist()
        assert 0 < spent[50] < spent[49], "the last came late"
        return replace(bytes_of(path), spent=tuple(spent))


def whole(killed: Killed, path: Path) -> bool:
    """Open a store: True if every charge is there, False if it is refused; no middle way."""
    before = {p: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}
    refused: sparseq.StoreError | None = None
    try:
        con = sparseq.connect(path)
    except sparseq.StoreError as error:
        refused = error
    if refused:
        assert refused.hint
        assert "Error" not in refused.message, "in plain words"
        after = {p: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}
        assert {p: b for p, b in after.items() if b} == {p: b for p, b in before.items() if b}
        return False
    with con:
        assert [r.request_id for r in con.releases()] == [f"q{i}" for i in range(ASKED)]
        assert tuple(con.stream.accounts.spent.tolist()) == killed.spent
        assert list(con.taken()) == ["late"]
    assert not Path(f"{path}.wal").exists()
    assert not record_of(path).exists()
    return True


def test_as_it_lies_it_is_whole(killed: Killed, tmp_path: Path) -> None:
    assert whole(killed, killed.lay(tmp_path / "s.sparseq"))


@pytest.mark.parametrize("log", [None, b""], ids=["missing", "empty"])
@pytest.mark.parametrize("record", [b"*", None], ids=["record", "no record"])
def test_without_its_log_it_is_refused(
    killed: Killed, tmp_path: Path, log: bytes | None, record: bytes | None
) -> None:
    path = killed.lay(tmp_path / "s.sparseq", log=log, record=record)
    assert not whole(killed, path)
    Path(f"{path}.wal").write_bytes(killed.log)  # it can still be brought
    record_of(path).write_bytes(killed.record)
    assert whole(killed, path)


@pytest.mark.parametrize("log", [b"*", None], ids=["log", "no log"])
def test_a_copy_of_an_open_store_without_the_record_is_refused(
    killed: Killed, tmp_path: Path, log: bytes | None
) -> None:
    path = killed.lay(tmp_path / "s.sparseq", log=log, record=None)
    with pytest.raises(sparseq.StoreError, match=r"was not closed.*s\.sparseq\.session.*missing"):
        sparseq.connect(path)
    assert not whole(killed, path)


def test_a_log_that_is_cut_anywhere(killed: Killed, tmp_path: Path) -> None:
    size = len(killed.log)
    for cut in [*range(0, size, size // 16), *range(size - 3, size)]:
        path = killed.lay(tmp_path / f"{cut}.sparseq", log=killed.log[:cut])
        assert not whole(killed, path), cut
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()


def test_a_log_with_a_bit_flipped_anywhere(killed: Killed, tmp_path: Path) -> None:
    refused = 0
    for at in range(0, len(killed.log), len(killed.log) // 20):
        log = bytearray(killed.log)
        log[at] ^= 4
        path = killed.lay(tmp_path / f"{at}.sparseq", log=bytes(log))
        refused += not whole(killed, path)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
    assert refused > 15


def test_a_record_that_is_damaged_is_none(killed: Killed, tmp_path: Path) -> None:
    for record in (b"", b"x" * 512, killed.record.replace(b"releases 3", b"releases 1")):
        path = killed.lay(tmp_path / "s.sparseq", record=record)
        assert not whole(killed, path)


# Names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "record"),
    one_in(
        4,
        itertools.product(
            ["s.sparseq.wal", "moved.sparseq.wal", "some name"],
            ["s.sparseq.session", "moved.sparseq.session", "another name"],
        ),
    ),
)
def test_whatever_its_parts_are_called(
    killed: Killed, tmp_path: Path, log: str, record: str
) -> None:
    killed.lay(tmp_path / "s.sparseq").rename(tmp_path / "moved.sparseq")
    (tmp_path / "s.sparseq.wal").rename(tmp_path / log)
    (tmp_path / "s.sparseq.session").rename(tmp_path / record)
    assert whole(killed, tmp_path / "moved.sparseq")
    assert [p.name for p in tmp_path.iterdir()] == ["moved.sparseq"]


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_another_name_of_the_same_file(
    killed: Killed, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    path = killed.lay(tmp_path / "s.sparseq")
    link(path, tmp_path / "other.sparseq")
    assert whole(killed, tmp_path / "other.sparseq")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.sparseq", "s.sparseq"]
    with sparseq.connect(path) as con:
        assert con.released == ASKED


def test_another_folder_has_nothing_of_it(killed: Killed, tmp_path: Path) -> None:
    path = killed.lay(tmp_path / "s.sparseq")
    (tmp_path / "there").mkdir()
    path.rename(tmp_path / "there" / "s.sparseq")
    assert not whole(killed, tmp_path / "there" / "s.sparseq")
    for end in (".wal", ".session"):
        Path(f"{path}{end}").rename(tmp_path / "there" / f"s.sparseq{end}")
    assert whole(killed, tmp_path / "there" / "s.sparseq")


def test_a_copy_takes_nothing_from_a_store_that_is_there(killed: Killed, tmp_path: Path) -> None:
    path = killed.lay(tmp_path / "s.sparseq")
    copy = killed.lay(tmp_path / "copy.sparseq", log=None, record=None)
    with pytest.raises(sparseq.StoreError, match=r"s\.sparseq\.wal belongs to a copy"):
        sparseq.connect(copy)
    assert not whole(killed, copy)
    assert whole(killed, path)


def test_which_of_several_logs_is_for_the_user_to_say(killed: Killed, tmp_path: Path) -> None:
    path = killed.lay(tmp_path / "s.sparseq", log=None)
    (tmp_path / "one").write_bytes(killed.log)
    (tmp_path / "two").write_bytes(killed.log[:-100])
    with pytest.raises(sparseq.StoreError, match="it could be one or two"):
        sparseq.connect(path)
    (tmp_path / "one").rename(tmp_path / "s.sparseq.wal")
    assert whole(killed, path)


def test_two_stores_that_swapped_names(tmp_path: Path) -> None:
    """Each finds the other's log at its own name: told, not mixed up."""
    for name in "ab":
        with sparseq.create(tmp_path / name, {"t": pa.table({"who": [1]})}, user="who") as con:
            con.sql(COUNT, fresh=True)
            files = bytes_of(tmp_path / name)
        files.lay(tmp_path / name)
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "b").rename(tmp_path / "a")
    (tmp_path / "c").rename(tmp_path / "b")
    with pytest.raises(sparseq.StoreError, match=r"a\.wal is the log of another store"):
        sparseq.connect(tmp_path / "a")


def test_a_store_that_is_in_use_keeps_its_log_and_record(tmp_path: Path) -> None:
    path, copy = tmp_path / "s.sparseq", tmp_path / "copy.sparseq"
    with sparseq.create(path, {"t": pa.table({"who": [1, 2]})}, user="who") as con:
        con.sql(COUNT, fresh=True)
        files = bytes_of(path)
        files.lay(copy, log=None, record=None)
        with pytest.raises(sparseq.StoreError):
            sparseq.connect(copy)
        files.lay(copy, log=None)
        with pytest.raises(sparseq.StoreError):
            sparseq.connect(copy)
        con.sql(COUNT, fresh=True)
    with sparseq.connect(path) as con:
        assert con.released == 2
    assert not list(tmp_path.glob("s.sparseq.*"))


# Other sessions -----------------------------------------------------------------------------------


def test_logs_and_states_of_other_sessions(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    sessions: list[Killed] = []
    sparseq.create(
        path,
        {"t": pa.table({"who": [1, 2]})},
        user="who",
        purposes=[sparseq.Questions(counts=50)],
    ).close()
    for i in range(3):
        with sparseq.connect(path) as con:
            con.sql(COUNT, request_id=f"{i}")
            sessions.append(bytes_of(path))
    closed = path.read_bytes()
    first, second, third = sessions
    for main, log, record in [
        (third.main, second.log, third.record),
        (third.main, first.log, third.record),
        (second.main, third.log, third.record),
        (second.main, third.log, second.record),
        (first.main, second.log, first.record),
        (third.main, third.log, second.record),
        (second.main, second.log, third.record),
        (closed, third.log, third.record),
        (closed, first.log, None),
    ]:
        folder = tmp_path / "tried"
        folder.mkdir()
        path = Killed(main, log, b"").lay(folder / "s.sparseq", record=record)
        with pytest.raises(sparseq.StoreError):
            sparseq.connect(path)
        shutil.rmtree(folder)


def test_a_checkpoint_in_the_middle_of_a_session(tmp_path: Path) -> None:
    """DuckDB makes one when the log is long: what is in the file then needs no log."""
    path = tmp_path / "s.sparseq"
    with sparseq.create(path, {"t": pa.table({"who": [1, 2]})}, user="who") as con:
        con.sql(COUNT, fresh=True)
        con.backend.database.execute("CHECKPOINT")
        at_checkpoint = bytes_of(path)
        con.sql(COUNT, fresh=True)
        after = bytes_of(path)
    folder = tmp_path / "there"
    folder.mkdir()
    path = folder / "s.sparseq"
    with pytest.raises(sparseq.StoreError):
        sparseq.connect(at_checkpoint.lay(path, log=None, record=None))
    with sparseq.connect(at_checkpoint.lay(path, log=None)) as con:
        assert con.released == 1
    with pytest.raises(sparseq.StoreError, match="lacks 1 answer"):
        sparseq.connect(after.lay(path, log=None))
    with sparseq.connect(after.lay(path)) as con:
        assert con.released == 2


def test_whoever_only_reads_leaves_everything_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    with sparseq.create(path, {"t": pa.table({"who": [1, 2]})}, user="who") as con:
        con.sql(COUNT, request_id="a")
    before = path.read_bytes()
    with sparseq.connect(path) as con:
        assert con.releases()
        con.explain(con.lower(COUNT))
        assert con.sql(COUNT, request_id="a").facts.release == 1
        assert [p.name for p in tmp_path.iterdir()] == ["s.sparseq"]
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.sparseq"]


def test_a_store_that_nobody_closes_is_closed_at_the_end_of_the_process(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, sparseq, pyarrow as pa\n"
        "con = sparseq.create(sys.argv[1], {'t': pa.table({'who': [1]})}, user='who')\n"
        "con.sql('SELECT count(*) AS n FROM t')\n"
    )
    root = Path(sparseq.__file__).parents[1]
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s.sparseq")],
        check=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert [p.name for p in tmp_path.iterdir()] == ["s.sparseq"]


def test_a_new_store_is_not_made_where_a_part_of_another_lies(
    killed: Killed, tmp_path: Path
) -> None:
    for part in (".wal", ".session"):
        path = killed.lay(tmp_path / "s.sparseq")
        path.unlink()
        Path(f"{path}{part}").unlink()
        with pytest.raises(sparseq.StoreError, match="a store of this name was not closed"):
            sparseq.create(path, {"t": pa.table({"who": [1]})}, user="who")


# With a loss --------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", one_in(2, ["log", "record", "end of the log", "damaged"]))
def test_a_loss_can_be_accepted_and_is_told_for_ever(
    killed: Killed, tmp_path: Path, missing: str
) -> None:
    cut = killed.log[: len(killed.log) * 2 // 3]
    damaged = cut + bytes([cut[-1] ^ 1]) * 300
    log = {"log": None, "end of the log": cut, "damaged": damaged}.get(missing, killed.log)
    path = killed.lay(
        tmp_path / "s.sparseq", log=log, record=None if missing == "record" else killed.record
    )
    assert not whole(killed, path)
    with sparseq.connect(path, accept_loss=True) as con:
        (loss,) = con.losses
        assert loss.after == con.released
        assert "s.sparseq" in loss.missing
        assert con.sql(COUNT, fresh=True).facts.losses == 1
        assert con.released <= ASKED + 1
    for _ in range(2):
        with sparseq.connect(path) as con:
            assert con.losses == (loss,)
            assert con.sql(COUNT, fresh=True).facts.losses == 1


def test_nothing_is_accepted_where_nothing_is_missing(killed: Killed, tmp_path: Path) -> None:
    with sparseq.connect(killed.lay(tmp_path / "s.sparseq"), accept_loss=True) as con:
        assert con.losses == ()
        assert con.sql(COUNT, fresh=True).facts.losses == 0


def test_the_record_is_written_before_the_answer_leaves(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    with sparseq.create(path, {"t": pa.table({"who": [1, 2]})}, user="who") as con:
        for i in range(1, 4):
            con.sql(COUNT, fresh=True)
            record = Record.from_bytes(record_of(path).read_bytes())
            assert record is not None
            assert record.reached == HighWaterMark(i, 2 * i - 2)
            con.ingest(pa.table({"who": [i]}))
            record = Record.from_bytes(record_of(path).read_bytes())
            assert record is not None
            assert record.reached == HighWaterMark(i, 2 * i), "the epoch, and the rows"
