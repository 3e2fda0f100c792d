"""Rows of a lake's ledger: releases, charges by bucket, notes, and sums of what was spent.

A person's number is its place in its bucket times the number of buckets, plus the bucket: so the
number stays while people come to other buckets, and a task knows its people by their places alone.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.codec import pack, pack_set, unpack_set
from sparseq.ledger.notes import CuratorLine, Fact, LoggedLine, Note, RequestId
from sparseq.ledger.protocol import Entry, Release
from sparseq.ledger.purposes import Pot, Pots

RELEASES = pa.schema(
    {
        "release": pa.int64(), "request": pa.string(), "at": pa.timestamp("us"),
        "query": pa.string(), "coordinates": pa.int64(), "sigma": pa.list_(pa.float64()),
        "bound": pa.list_(pa.float64()), "confidence": pa.float64(), "answer": pa.binary(),
        "pot": pa.int8(),
    }
)  # fmt: skip
CHARGES = pa.schema(
    {
        "bucket": pa.int32(), "release": pa.int64(), "pot": pa.int8(), "users": pa.binary(),
        "charges": pa.binary(),
    }
)  # fmt: skip
DEPARTED = pa.schema({"release": pa.int64(), "users": pa.binary()})
SPENT = pa.schema(
    {"bucket": pa.int32(), "release": pa.int64(), "pot": pa.int8(), "charges": pa.binary()}
)
NOTES = pa.schema({"version": pa.int64(), "place": pa.int64(), "of": pa.string(),
                   "note": pa.binary()})  # fmt: skip
BUCKETS = pa.schema(
    {
        "bucket": pa.int32(), "file": pa.string(), "rows": pa.int64(), "budgets": pa.binary(),
    }
)  # fmt: skip
KINDS = {"releases": RELEASES, "charges": CHARGES, "departed": DEPARTED, "spent": SPENT,
         "notes": NOTES, "buckets": BUCKETS}  # fmt: skip
_FACT, _CURATOR, _TABLE = "fact", "curator", "table "


def all_columns() -> pa.Schema:
    """Return the columns of all kinds of files together."""
    return pa.schema({field.name: field.type for schema in KINDS.values() for field in schema})


def bucket_row(bucket: int, file: str, rows: int, budgets: Ints) -> list[Any]:
    """Return a bucket as a row: its file, and everybody's budget by place, in ledger units."""
    return [bucket, file, rows, budgets.astype("<i8").tobytes()]


def budgets_of(manifest: Sequence[dict[str, Any]]) -> Ints:
    """Return budgets by number of all buckets' people; 0 for numbers that nobody has."""
    parts = [np.frombuffer(row["budgets"], "<i8") for row in manifest]
    budgets = np.zeros((max(map(len, parts), default=0), len(parts)), np.int64)
    for bucket, part in enumerate(parts):
        budgets[: len(part), bucket] = part
    return budgets.ravel()


def people_in(manifest: Sequence[dict[str, Any]]) -> Index:
    """Return the numbers of all people of all buckets, ascending."""
    sizes = [len(row["budgets"]) // 8 for row in manifest]
    parts = [
        numbers_in(b, np.arange(size, dtype=np.int32), len(sizes)) for b, size in enumerate(sizes)
    ]
    return np.sort(np.concatenate(parts))


def by_bucket(users: Index, buckets: int) -> Iterator[tuple[int, Index, Any]]:
    """Yield each bucket that some people are in: their places, and where they are in `users`."""
    whose = users % buckets
    for bucket in np.unique(whose).tolist():
        at = np.flatnonzero(whose == bucket)
        yield bucket, (users[at] // buckets).astype(np.int32), at


def numbers_in(bucket: int, places: Index, buckets: int) -> Index:
    """Return the numbers of people by their places in a bucket."""
    return (places * buckets + bucket).astype(np.int32)


def table(kind: str, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows of a kind of file."""
    schema = KINDS[kind]
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def release_row(release: Release) -> list[Any]:
    """Return a release as a row."""
    request = None if release.request is None else release.request.stored
    return [
        release.id, request, release.released_at, release.query, release.coordinates,
        list(release.sigma), list(release.bound), release.confidence, release.answer,
        int(release.pot),
    ]  # fmt: skip


def release_of(row: dict[str, Any]) -> Release:
    """Return what `release_row` was given."""
    request = None if row["request"] is None else RequestId.read(row["request"])
    return Release(
        row["release"], request, row["at"], row["query"], row["coordinates"],
        tuple(row["sigma"]), tuple(row["bound"]), row["confidence"], row["answer"], Pot(row["pot"]),
    )  # fmt: skip


def charge_rows(entries: Iterable[Entry], buckets: int) -> list[list[Any]]:
    """Return who pays for releases, as rows by bucket and then release."""
    rows = [
        [bucket, e.release.id, int(e.release.pot), pack_set(places), bytes(pack(e.charges[at]))]
        for e in entries
        for bucket, places, at in by_bucket(e.users, buckets)
    ]
    return sorted(rows, key=lambda row: (row[0], row[1]))


def departed_rows(entries: Iterable[Entry]) -> list[list[Any]]:
    """Return who was left out for the first time, as rows."""
    return [[e.release.id, pack_set(e.departed)] for e in entries if len(e.departed)]


def spent_rows(pots: Pots, after: int, buckets: int) -> list[list[Any]]:
    """Return what everybody has spent after a release, as rows by bucket."""
    return [
        [bucket, after, int(pot), bytes(pack(accounts.spent[bucket::buckets]))]
        for bucket in range(buckets)
        for pot, accounts in pots.items()
    ]


def note_row(note: Note | LoggedLine, version: int, place: int) -> list[Any]:
    """Return a note as a row: they are read back in order of version and place."""
    if isinstance(note, Fact):
        return [version, place, _FACT, json.dumps([note.key, note.value]).encode()]
    if isinstance(note, CuratorLine):
        return note_row(LoggedLine(now(), note.kind, note.message), version, place)
    if isinstance(note, LoggedLine):
        said = json.dumps([note.at.isoformat(), note.kind, note.message])
        return [version, place, _CURATOR, said.encode()]
    return [version, place, _TABLE + note.of.name, packed(note.table)]


def now() -> dt.datetime:
    """Return the time, UTC."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def packed(rows: pa.Table) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


class KeptNotes:
    """All notes of a ledger, in memory.

    Attributes:
        facts: The last fact under each key.
        lines: Of the curator's log.
        tables: Rows of each table of notes.
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.lines: list[LoggedLine] = []
        self.tables: dict[str, pa.Table] = {}

    def copy(self) -> KeptNotes:
        """Return notes that can be changed without these."""
        new = KeptNotes()
        new.facts, new.lines = dict(self.facts), list(self.lines)
        new.tables = dict(self.tables)
        return new

    def add(self, of: str, note: bytes) -> None:
        """Take in a row that `note_row` has made."""
        if of == _FACT:
            key, value = json.loads(note)
            self.facts[key] = value
        elif of == _CURATOR:
            at, kind, message = json.loads(note)
            self.lines.append(LoggedLine(dt.datetime.fromisoformat(at), kind, message))
        else:
            name, rows = of.removeprefix(_TABLE), pa.ipc.open_stream(note).read_all()
            known = self.tables.get(name)
            self.tables[name] = rows if known is None else pa.concat_tables([known, rows])

    def rows(self, version: int) -> list[list[Any]]:
        """Return all of them as rows, in place of those that they were made of."""
        notes: list[list[Any]] = [
            note_row(Fact(key, value), version, 0) for key, value in self.facts.items()
        ]
        notes += [note_row(line, version, 0) for line in self.lines]
        notes += [
            [version, 0, _TABLE + name, packed(rows)]
            for name, rows in self.tables.items()
            if rows.num_rows
        ]
        return [[version, place, of, note] for place, (_, _, of, note) in enumerate(notes)]


def people_of(row: dict[str, Any], buckets: int) -> Index:
    """Return the numbers of the people in a row of charges."""
    return numbers_in(row["bucket"], unpack_set(row["users"]), buckets)


def joined(parts: list[tuple[Index, Ints]]) -> tuple[Index, Ints]:
    """Return charges of several buckets, in order of person."""
    if not parts:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    users, charges = (np.concatenate(some) for some in zip(*parts, strict=True))
    order = np.argsort(users, kind="stable")
    return users[order], charges[order]
