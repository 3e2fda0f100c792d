"""Rows of a lake's ledger: releases, charges by bucket, notes, and sums of spent amounts.

A user's index is the position in its bucket times the number of buckets, plus the bucket. So
indices stay the same while other buckets grow, and a task knows its users by their positions only.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.notes import CuratorLine, Fact, LoggedLine, Note
from sparseq.ledger.packed_integers import pack, pack_set, unpack_set
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import RequestId
from sparseq.ledger.root_chain import Parts, RootChain

RELEASES = pa.schema(
    {
        "release": pa.int64(),
        "request": pa.string(),
        "at": pa.timestamp("us"),
        "query": pa.string(),
        "coordinates": pa.int64(),
        "sigma": pa.list_(pa.float64()),
        "bound": pa.list_(pa.float64()),
        "confidence": pa.float64(),
        "answer": pa.binary(),
        "pot": pa.int8(),
        "sealed": pa.binary(),
        "root": pa.binary(),
    }
)
"""Files of versions without roots lack the last two."""
CHARGES = pa.schema(
    {
        "bucket": pa.int32(),
        "release": pa.int64(),
        "pot": pa.int8(),
        "users": pa.binary(),
        "charges": pa.binary(),
    }
)
DEPARTED = pa.schema({"release": pa.int64(), "users": pa.binary()})
SPENT = pa.schema(
    {"bucket": pa.int32(), "release": pa.int64(), "pot": pa.int8(), "charges": pa.binary()}
)
NOTES = pa.schema(
    {"version": pa.int64(), "place": pa.int64(), "of": pa.string(), "note": pa.binary()}
)
BUCKETS = pa.schema(
    {"bucket": pa.int32(), "file": pa.string(), "rows": pa.int64(), "budgets": pa.binary()}
)
KINDS = {
    "releases": RELEASES,
    "charges": CHARGES,
    "departed": DEPARTED,
    "spent": SPENT,
    "notes": NOTES,
    "buckets": BUCKETS,
}
_FACT, _CURATOR, _TABLE = "fact", "curator", "table "


def all_columns() -> pa.Schema:
    """Return the columns of all kinds of files together."""
    return pa.schema({field.name: field.type for schema in KINDS.values() for field in schema})


def bucket_row(bucket: int, file: str, rows: int, budgets: Ints) -> list[Any]:
    """Return a bucket as a row: its file, and all users' budgets by position, in ledger units."""
    return [bucket, file, rows, budgets.astype("<i8").tobytes()]


def budgets_of(manifest: Sequence[dict[str, Any]]) -> Ints:
    """Return budgets by index of all buckets' users; 0 for unused indices."""
    parts = [np.frombuffer(row["budgets"], "<i8") for row in manifest]
    budgets = np.zeros((max(map(len, parts), default=0), len(parts)), np.int64)
    for bucket, part in enumerate(parts):
        budgets[: len(part), bucket] = part
    return budgets.ravel()


def people_in(manifest: Sequence[dict[str, Any]]) -> Index:
    """Return the indices of all users of all buckets, ascending."""
    sizes = [len(row["budgets"]) // 8 for row in manifest]
    parts = [
        numbers_in(b, np.arange(size, dtype=np.int32), len(sizes)) for b, size in enumerate(sizes)
    ]
    return np.sort(np.concatenate(parts))


def by_bucket(users: Index, buckets: int) -> Iterator[tuple[int, Index, Any]]:
    """Yield each bucket of some users: their positions there, and in `users`."""
    whose = users % buckets
    for bucket in np.unique(whose).tolist():
        at = np.flatnonzero(whose == bucket)
        yield bucket, (users[at] // buckets).astype(np.int32), at


def numbers_in(bucket: int, places: Index, buckets: int) -> Index:
    """Return the indices of users by their positions in a bucket."""
    return (places * buckets + bucket).astype(np.int32)


def table(kind: str, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows of a kind of file."""
    schema = KINDS[kind]
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def release_row(release: Release) -> list[Any]:
    """Return a release, with its root, as a row."""
    request = None if release.request is None else release.request.stored
    return [
        release.id,
        request,
        release.released_at,
        release.query,
        release.coordinates,
        list(release.sigma),
        list(release.bound),
        release.confidence,
        release.answer,
        int(release.pot),
        bytes.fromhex(release.sealed),
        bytes.fromhex(release.root),
    ]


def release_of(row: dict[str, Any]) -> Release:
    """Return the release from which `release_row` made the row."""
    request = None if row["request"] is None else RequestId.read(row["request"])
    return Release(
        row["release"],
        request,
        row["at"],
        row["query"],
        row["coordinates"],
        tuple(row["sigma"]),
        tuple(row["bound"]),
        row["confidence"],
        row["answer"],
        Pot(row["pot"]),
        (row.get("sealed") or b"").hex(),
        (row.get("root") or b"").hex(),
    )


def charge_rows(entries: Iterable[Entry], buckets: int) -> list[list[Any]]:
    """Return the charges of releases, as rows by bucket and then release."""
    rows = [
        [bucket, e.release.id, int(e.release.pot), pack_set(places), bytes(pack(e.charges[at]))]
        for e in entries
        for bucket, places, at in by_bucket(e.users, buckets)
    ]
    return sorted(rows, key=lambda row: (row[0], row[1]))


def departed_rows(entries: Iterable[Entry]) -> list[list[Any]]:
    """Return the users who were left out for the first time, as rows."""
    return [[e.release.id, pack_set(e.departed)] for e in entries if len(e.departed)]


def parts_by_release(
    charges: Iterable[Sequence[Any]], departed: Iterable[Sequence[Any]]
) -> dict[int, list[bytes]]:
    """Return the charges of releases in the form for their roots, from rows.

    For each bucket its payers and amounts; then users left out for the first time.
    """
    parts = defaultdict[int, list[bytes]](list)
    for _, release, _, users, units in sorted(charges, key=lambda row: int(row[0])):
        parts[release] += [users, units]
    for release, users in departed:
        parts[release].append(users)
    return parts


def with_root(release: Release, chain: RootChain, parts: Parts) -> Release:
    """Return a release with its root, which becomes the last of the chain."""
    sealed, root = chain.add(release, parts)
    return replace(release, sealed=sealed.hex(), root=root.hex())


def spent_rows(pots: Pots, after: int, buckets: int) -> list[list[Any]]:
    """Return the spent amounts of all users after a release, as rows by bucket."""
    return [
        [bucket, after, int(pot), bytes(pack(accounts.spent[bucket::buckets]))]
        for bucket in range(buckets)
        for pot, accounts in pots.items()
    ]


def note_row(note: Note | LoggedLine, version: int, place: int) -> list[Any]:
    """Return a note as a row: the order of version and position is the order of the notes."""
    if isinstance(note, Fact):
        return [version, place, _FACT, json.dumps([note.key, note.value]).encode()]
    if isinstance(note, CuratorLine):
        return note_row(LoggedLine(now(), note.kind, note.message), version, place)
    if isinstance(note, LoggedLine):
        line = json.dumps([note.at.isoformat(), note.kind, note.message])
        return [version, place, _CURATOR, line.encode()]
    return [version, place, _TABLE + note.of.name, to_bytes(note.table)]


def now() -> dt.datetime:
    """Return the time, UTC."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def to_bytes(rows: pa.Table) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


class KeptNotes:
    """All notes of a ledger, in memory.

    Attributes:
        facts: The last fact under each key.
        lines: The lines of the curator's log.
        tables: Rows of each table of notes.
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.lines: list[LoggedLine] = []
        self.tables: dict[str, pa.Table] = {}

    def copy(self) -> KeptNotes:
        """Return an independent copy of the notes."""
        new = KeptNotes()
        new.facts, new.lines = dict(self.facts), list(self.lines)
        new.tables = dict(self.tables)
        return new

    def add(self, of: str, note: bytes) -> None:
        """Add a row that `note_row` has made."""
        if of == _FACT:
            key, value = json.loads(note)
            self.facts[key] = value
        elif of == _CURATOR:
            at, kind, message = json.loads(note)
            self.lines.append(LoggedLine(dt.datetime.fromisoformat(at), kind, message))
        else:
            name, rows = of.removeprefix(_TABLE), pa.ipc.open_stream(note).read_all()
            before = self.tables.get(name)
            self.tables[name] = rows if before is None else pa.concat_tables([before, rows])

    def rows(self, version: int) -> list[list[Any]]:
        """Return all notes as rows, which replace the rows that they came from."""
        notes: list[list[Any]] = [
            note_row(Fact(key, value), version, 0) for key, value in self.facts.items()
        ]
        notes += [note_row(line, version, 0) for line in self.lines]
        notes += [
            [version, 0, _TABLE + name, to_bytes(rows)]
            for name, rows in self.tables.items()
            if rows.num_rows
        ]
        return [[version, place, of, note] for place, (_, _, of, note) in enumerate(notes)]


def people_of(row: dict[str, Any], buckets: int) -> Index:
    """Return the indices of the users in a row of charges."""
    return numbers_in(row["bucket"], unpack_set(row["users"]), buckets)


def join_charges(parts: list[tuple[Index, Ints]]) -> tuple[Index, Ints]:
    """Return charges of several buckets, in order of user."""
    if not parts:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    users, charges = (np.concatenate(some) for some in zip(*parts, strict=True))
    order = np.argsort(users, kind="stable")
    return users[order], charges[order]
