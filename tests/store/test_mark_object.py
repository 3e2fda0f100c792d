"""A high-water mark in an object store: conditions on writes in place of a lock."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from checks.stores import IN_OR_OUT
from sparseq.base.errors import ParameterError, StoreError
from sparseq.ledger._duckdb import mark_object
from sparseq.ledger._duckdb.mark_object import MarkObject
from sparseq.ledger._duckdb.progress_record import RECORD_BYTES, Record
from sparseq.store._duckdb.outside_mark import keep_mark

obstore = pytest.importorskip("obstore")

COUNT, PLACE = "SELECT count(*) AS n FROM t", "s3://bucket/marks/s"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An object store in memory: every mark of the test is in it."""
    from obstore.store import MemoryStore

    bucket = MemoryStore()
    monkeypatch.setattr(mark_object, "_open", lambda _: bucket)
    return bucket


@pytest.fixture
def place(tmp_path: Path, bucket: Any) -> Path:
    """A store `s` of one answer, and its mark."""
    rows = pa.table({"who": [1, 2, 3]})
    with sparseq.create(tmp_path / "s", {"t": rows}, user="who", purposes=IN_OR_OUT) as con:
        con.sql(COUNT)
    assert keep_mark(tmp_path / "s", PLACE).releases == 1
    return tmp_path


def ask(con: sparseq.Store) -> int:
    return con.sql(COUNT, fresh=True).facts.release


def marked(bucket: Any) -> int:
    record = Record.from_bytes(bytes(obstore.get(bucket, "marks/s").bytes())[:RECORD_BYTES])
    assert record is not None
    return record.reached.releases


def test_a_copy_behind_the_mark_does_not_open(place: Path, bucket: Any) -> None:
    with sparseq.connect(place / "s") as con:
        sparseq.backup(con, place / "copy")
        assert ask(con) == marked(bucket) == 2
    with pytest.raises(StoreError, match=r"lacks 1 answer.*marks/s, is ahead of it"):
        sparseq.connect(place / "copy")
    with sparseq.connect(place / "copy", accept_loss=True) as con:
        assert ask(con) == marked(bucket) == 2
    with pytest.raises(StoreError, match="is not the copy that was asked last"):
        sparseq.connect(place / "s")


def test_of_two_copies_that_are_open_the_first_that_is_asked_shuts_the_other_out(
    place: Path, bucket: Any
) -> None:
    with sparseq.connect(place / "s") as con:
        sparseq.backup(con, place / "copy")
        with sparseq.connect(place / "copy") as copy:
            assert ask(copy) == marked(bucket) == 2
        with pytest.raises(StoreError, match="written by another copy"):
            ask(con)
        with pytest.raises(StoreError, match="closed"):
            ask(con)
    with pytest.raises(StoreError, match="is not the copy that was asked last"):
        sparseq.connect(place / "s")


def test_a_write_of_which_nobody_heard_is_no_other_copy_s(
    place: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, tries = obstore.put, list[int]()

    def heard_late(*given: Any, **more: Any) -> Any:
        if not tries:
            tries.append(1)
            put(*given, **more)  # and the reply is lost, so that it is sent once more
        return put(*given, **more)

    with sparseq.connect(place / "s") as con:
        ask(con)
        monkeypatch.setattr(obstore, "put", heard_late)
        assert ask(con) == marked(bucket) == 3
        assert ask(con) == marked(bucket) == 4


def test_no_answer_leaves_where_the_mark_can_not_be_reached(
    place: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: Any, **__: Any) -> Any:
        raise OSError("no route to host")

    with sparseq.connect(place / "s") as con:
        ask(con)
        with monkeypatch.context() as broken:
            broken.setattr(obstore, "put", down)
            with pytest.raises(StoreError, match="no route to host"):
                ask(con)
    with monkeypatch.context() as broken:
        broken.setattr(obstore, "get", down)
        with pytest.raises(StoreError, match="can't be read"):
            sparseq.connect(place / "s")
    with sparseq.connect(place / "s") as con:
        assert con.released == marked(bucket) == 3


def test_what_is_no_mark_is_not_written_over(place: Path, bucket: Any) -> None:
    obstore.put(bucket, "marks/letter", b"a letter")
    with pytest.raises(StoreError, match=r"exists already|missing or damaged"):
        keep_mark(place / "s", "s3://bucket/marks/letter")
    obstore.put(bucket, "marks/s", b"a letter")
    for lossy in (False, True):
        with pytest.raises(StoreError):
            sparseq.connect(place / "s", accept_loss=lossy)
    assert bytes(obstore.get(bucket, "marks/s").bytes()) == b"a letter"


@pytest.mark.parametrize(
    "place", ["s3://key:secret@bucket/m", "s3://bucket", "s3:///m", "s3://b/m?key=x", "ftp://a/b"]
)
def test_an_address_that_is_none_is_refused_and_no_secret_is_repeated(place: str) -> None:
    with pytest.raises(ParameterError, match="is not a valid address of a mark") as refused:
        MarkObject(place)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("seed", one_in(12, range(12)))
def test_no_copy_answers_that_lacks_an_answer_that_was_read(place: Path, seed: int) -> None:
    """Copies of any moment, up to two of them open at once, asked in any order.

    Oracle: the answers that were read from any copy.
    """
    draw, read, answered, refused = random.Random(seed), set[bytes](), 0, 0
    copies, opened = ["s"], dict[str, sparseq.Store]()
    for step in range(120 if seed else 70):  # the others are deep
        name = draw.choice(list(opened) if len(opened) == 2 else copies)
        act = draw.choice(("ask", "ask", "ask", "backup", "close"))
        try:
            con = opened.setdefault(name, opened.get(name) or sparseq.connect(place / name))
            if act == "ask":
                con.sql(COUNT, fresh=True)
                has = {release.answer for release in con.releases()}
                assert read <= has, (step, name)
                read, answered = read | has, answered + 1
                copies = [*(c for c in copies if c != name), name]  # the last is never dropped
            elif act == "backup":
                sparseq.backup(con, place / f"c{step}")
                copies = [f"c{step}", *copies[-3:]]
            else:
                opened.pop(name).close()
        except StoreError:
            refused += 1
            if name in opened:
                opened.pop(name).close()
    for con in opened.values():
        con.close()
    assert answered > 10
    assert refused > 5


@pytest.mark.deep
def test_in_s3_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moto's server, which does as S3 does; needs `pip install 'moto[server]'`."""
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    import urllib.request

    running = server.ThreadedMotoServer(port=0)
    running.start()
    try:
        host, port = running.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        made = urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")
        urllib.request.urlopen(made).close()
        rows = pa.table({"who": [1, 2, 3]})
        sparseq.create(tmp_path / "s", {"t": rows}, user="who", purposes=IN_OR_OUT).close()
        keep_mark(tmp_path / "s", PLACE)
        with sparseq.connect(tmp_path / "s") as con:
            assert ask(con) == 1
            sparseq.backup(con, tmp_path / "copy")
            assert ask(con) == 2
        with pytest.raises(StoreError, match="lacks 1 answer"):
            sparseq.connect(tmp_path / "copy")
        shutil.copy(tmp_path / "s", tmp_path / "other")
        with sparseq.connect(tmp_path / "s") as con, sparseq.connect(tmp_path / "other") as other:
            assert ask(con) == 3
            with pytest.raises(StoreError, match="written by another copy"):
                ask(other)
    finally:
        running.stop()
