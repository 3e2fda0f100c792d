"""Roots of releases: what they are made of, and that nothing of the past can be changed."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import hmac
import json
import shutil
import struct
from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_check import audit
from receipt_check import check

import sparseq
from sparseq.base.errors import StoreError
from sparseq.lake import lake_ledger
from sparseq.lake.lake_store import LakeBackend
from sparseq.ledger._duckdb import journal as journals
from sparseq.ledger._duckdb import segments
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger.lifetimes import LifetimeDues
from sparseq.ledger.notes import NoteTable
from sparseq.ledger.packed_integers import pack, pack_set
from sparseq.ledger.past_check import check_past
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import RequestId
from sparseq.ledger.root_chain import ROOT_KEY
from sparseq.store.account_roots import publish_root, published_roots
from sparseq.store.curator import forget
from sparseq.store.receipt import receipt

KEY = bytes(range(32))
META = "CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR)"
Units = list[int]


def made(key: bytes = KEY) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(journals.TABLES + META)
    connection.execute("INSERT INTO meta VALUES (?, ?)", [ROOT_KEY, json.dumps(key.hex())])
    return connection


def entry(number: int, units: Units, departed: int = 0, life: int = 0) -> Entry:
    """A release; the first people are left out, or pay over all windows as well."""
    users, charges = np.flatnonzero(units).astype(np.int32), np.array(units, np.int64)
    request = RequestId.of_analyst(f"r{number}") if number % 2 else None
    at = dt.datetime(2024, 5, 1, 12, 30, number)
    release = Release(
        number, request, at, f"SELECT {number} -- é", 1, (1.5,), (3.0,), 0.95, bytes([number]) * 50
    )
    dues = LifetimeDues(users[:life], charges[users[:life]])
    return Entry(
        release, users, charges[users], users[:departed], tuple(dues.notes(number)), lifetimes=dues
    )


def of_file(entries: list[Entry]) -> list[tuple[Release, list[bytes]]]:
    """Return releases, and whom they charged as it is packed."""
    found = []
    for one in entries:
        parts = [pack_set(one.users), pack(one.charges), b"", b"", b""]
        if len(one.departed):
            parts[2] = pack_set(one.departed)
        if one.lifetimes and len(one.lifetimes.people):
            parts[3:] = [pack_set(one.lifetimes.people), pack(one.lifetimes.units)]
        found.append((one.release, parts))
    return found


def expected(past: list[tuple[Release, list[bytes]]], key: bytes = KEY) -> list[tuple[str, str]]:
    """What docs/receipt.md says, again."""
    before, found = bytes(32), []
    for of, parts in past:
        at = of.released_at.isoformat(timespec="seconds") + "Z"
        text = [of.id, at, "analyst", of.request_id or "", of.query]
        said = hashlib.sha256(json.dumps(text, separators=(",", ":")).encode()).digest()
        answer = hashlib.sha256(of.answer).digest()
        whole = hmac.digest(key, b"charges" + said + answer, "sha256") + bytes([of.pot])
        whole += b"".join(struct.pack(">Q", len(part)) + bytes(part) for part in parts)
        sealed = hashlib.sha256(whole).digest()
        before = hashlib.sha256(b"\3" + before + said + answer + sealed).digest()
        found.append((sealed.hex(), before.hex()))
    return found


class Bare(Journal):
    """A journal without roots of accounts."""

    def notes(self, table: NoteTable) -> pa.Table:
        return table.schema.empty_table()


def roots(journal: Journal) -> list[tuple[str, str]]:
    return [(one.sealed, one.root) for one in journal.releases()]


charged = st.tuples(
    st.lists(st.integers(0, 5000), min_size=9, max_size=9), st.integers(0, 2), st.integers(0, 2)
)


@given(st.lists(charged, min_size=1, max_size=7), st.data())
@settings(max_examples=8, deadline=None)
def test_roots_are_those_of_the_formula_however_releases_are_written(
    lives: list[tuple[Units, int, int]], data: st.DataObject
) -> None:
    """One by one or together, in one table or in several, opened again or not."""
    entries = [entry(n, *life) for n, life in enumerate(lives, 1)]
    connection = made()
    journal = Journal(connection)
    with mock.patch.object(segments, "SEGMENT_BYTES", data.draw(st.sampled_from([100, 1 << 26]))):
        while journal.next_id <= len(entries):
            some = data.draw(st.integers(1, 3))
            journal.commit(entries[journal.next_id - 1 :][:some])
            if data.draw(st.booleans()):
                journal = Journal(connection)
    assert roots(journal) == expected(of_file(entries))
    check_past(Bare(connection))


def test_whatever_is_changed_the_root_is_another() -> None:
    entries = [entry(n, [5, n, 300], 1, 2) for n in (1, 2, 3)]
    connection = made()
    Journal(connection).commit(entries)
    other = {
        "request_id": "'analyst/x'",
        "released_at": "now()::TIMESTAMP",
        "query": "'SELECT 4'",
        "answer": "'\\x09'::BLOB",
        "users": "'\\x09'::BLOB",
        "charges": "'\\x09'::BLOB",
        "pot": "1",
        "departed": "NULL",
        "sealed": "'\\x09'::BLOB",
        "root": "NULL",
    }
    changes = [
        f"UPDATE ledger.release_1 SET {what} = {to} WHERE id = 3" for what, to in other.items()
    ]
    changes += [
        "UPDATE ledger.lifetimes SET units = people WHERE release = 3",
        "DELETE FROM ledger.lifetimes WHERE release = 3",
    ]
    for change in changes:
        connection.execute("BEGIN; " + change)
        with pytest.raises(StoreError, match="up to release 3 does not match"):
            check_past(Bare(connection))
        connection.execute("ROLLBACK")
    check_past(Bare(connection))


def test_a_store_of_a_version_without_roots_gets_them_from_its_next_answer_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.sparseq"
    with sparseq.create(path, {"t": pa.table({"who": ["a", "b"]})}, user="who", seed=1) as con:
        con.sql("SELECT count(*) AS n FROM t")
    with duckdb.connect(str(path)) as raw:
        raw.execute(
            "DROP VIEW ledger.release; ALTER TABLE ledger.release_1 DROP sealed;"
            "ALTER TABLE ledger.release_1 DROP root;"
            "CREATE VIEW ledger.release AS SELECT * FROM ledger.release_1"
        )
        raw.execute("DELETE FROM meta WHERE key = ?", [ROOT_KEY])
    with sparseq.connect(path) as con:
        assert [one.root for one in con.releases()] == [""]
        assert published_roots(con) == []
        con.sql("SELECT count(*) AS n FROM t WHERE who = 'a'")
    with sparseq.connect(shutil.copy(path, tmp_path / "copy")) as con:
        con.sql("SELECT count(*) AS n FROM t WHERE who < 'b'")
        found = [one.root for one in con.releases()]
        assert [len(root) for root in found] == [0, 64, 64]
        publish_root(con)
        listed = published_roots(con)
        assert [row["root"] for row in listed[:2]] == found[1:]
        found = receipt(con, "a", True)
        assert [charge["release"] for charge in found["accounts"][0]["charges"]] == [1, 2, 3]
        check(found, listed)


def of_lake(folder: Path) -> list[tuple[Release, list[bytes]]]:
    """Return what is in the files of a lake's ledger: releases, and whom they charged."""
    ledger = LakeBackend(folder).ledger
    rows = {
        kind: [r for t in ledger._log.rows(ledger._log.head.of(kind)) for r in t.to_pylist()]
        for kind in ("charges", "departed")
    }
    found = []
    for one in ledger.releases():
        paid = [row for row in rows["charges"] if row["release"] == one.id]
        parts = [
            part
            for row in sorted(paid, key=lambda row: row["bucket"])
            for part in (row["users"], row["charges"])
        ]
        parts += [row["users"] for row in rows["departed"] if row["release"] == one.id]
        found.append((one, parts))
    return found


@pytest.mark.parametrize("dropped", [False, True])
def test_a_lake_has_roots_of_the_same_formula(tmp_path: Path, dropped: bool) -> None:
    """Whoever drives it, whoever comes, and however its files are put together."""
    pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
    place, rows = f"lake://{tmp_path}/lake", {"t": pa.table({"who": list(range(300))})}
    halting = [sparseq.Questions(in_or_out=True, counts=2.0)] if dropped else []
    sparseq.create(place, rows, user="who", buckets=3, purposes=halting).close()
    for n in range(4):
        with sparseq.connect(place) as con, mock.patch.object(lake_ledger, "_FILES", 1):
            for k in range(2):
                where = f"who < {200 + 10 * n + k}"
                with contextlib.suppress(sparseq.QueryRefused):
                    con.sql(f"SELECT count(*) AS n FROM t WHERE {where}", fresh=True)
            con.stream.ledger.fold(1)
            con.ingest(pa.table({"who": [1000 + n]}), again=True)
    with sparseq.connect(place) as con:
        past = of_lake(tmp_path / "lake")
        key = bytes.fromhex(con.stream.ledger.fact(ROOT_KEY))
        assert len(past) >= (2 if dropped else 8)
        assert any(con.stream.departures.first) is dropped
        found = [(one.sealed, one.root) for one, _ in past]
        assert found == expected(past, key)
        listed = published_roots(con)
        assert [(row["sealed"], row["root"]) for row in listed] == found
        con.stream.ledger.audit()


def test_people_of_a_lake_get_proofs_whoever_comes_later(tmp_path: Path) -> None:
    """Who comes later may have a number below others', and is under none of the earlier roots."""
    pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
    place, rows = f"lake://{tmp_path}/lake", {"t": pa.table({"who": [f"p{i}" for i in range(60)]})}
    sparseq.create(place, rows, user="who", buckets=4).close()
    with sparseq.connect(place) as con:
        con.sql("SELECT count(*) AS n FROM t")
        first = publish_root(con)
        before = con.backend.people().inside().tolist()
        assert before != list(range(before[-1] + 1))
        kept = receipt(con, "p7", True)
        check(kept, published_roots(con))
    with sparseq.connect(place) as con:
        con.ingest(pa.table({"who": [f"q{i}" for i in range(40)]}), again=True)
        assert any(
            u < before[-1] for u in set(con.backend.people().inside().tolist()) - set(before)
        )
        con.sql("SELECT count(*) AS n FROM t WHERE who < 'p3'")
    with sparseq.connect(place) as con:
        forget(con, "p8")
        second = publish_root(con)
        con.sql("SELECT count(*) AS n FROM t WHERE who > 'p3'")
        con.stream.ledger.audit()
        listed = published_roots(con)
        assert [row["release"] for row in listed] == [1, 1, 2, 2, 3]
        assert listed[2]["root"] != first["root"]
        for name in ("p7", "p8", "p59"):
            found = receipt(con, name, True, 1)
            assert [p["root"] for p in found["accounts"][0]["proofs"]] == [
                first["root"],
                second["root"],
            ]
            check(found, listed, kept if name == "p7" else None)
        came = receipt(con, "q0", True)
        check(came, listed)
        with pytest.raises(ValueError, match="whose leaf"):
            check(came | {"accounts": [came["accounts"][0] | {"name": "q1"}]}, listed)
        found = [receipt(con, name, True, 1) for name in ("p7", "p59")]
        copy = Path(shutil.copytree(tmp_path / "lake", tmp_path / "copy"))
        audit(copy, listed, [*found, came])
        with pytest.raises(ValueError, match="charged others"):
            audit(copy, [*listed[:-1], listed[-1] | {"sealed": "00"}], found)
        con.stream.ledger.chain().key = bytes(32)
        with pytest.raises(StoreError, match="does not match the published root"):
            con.stream.ledger.audit()
