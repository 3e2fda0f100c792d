"""A ledger in a lake: a fenced log of Parquet files, with what everybody has in memory.

Rows of a lake's ledger: releases, charges by bucket, notes, and sums of what was spent.

A person's number is its place in its bucket times the number of buckets, plus the bucket: so the
number stays while people come to other buckets, and a task knows its people by their places alone.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.accounting.budget import Budget
from sparseq.base.errors import ParameterError, QueryRefused, StoreError, StoreInUse
from sparseq.lake.fenced_log import FencedLog, LogFile, Overtaken
from sparseq.ledger.accounts import Departures, Index, Ints, pack, pack_set, unpack, unpack_set
from sparseq.ledger.lifetimes import Lifetimes
from sparseq.ledger.notes import USER, CuratorLine, Fact, LoggedLine, Note, NoteTable, RequestId
from sparseq.ledger.protocol import Entry, Parts, Release, RootChain, check_past
from sparseq.ledger.purposes import DRAWS, PURPOSES, Pot, Pots, Purpose, read

# -- rows of a lake's ledger: releases, charges by bucket, notes, and sums of what was spent -------

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
"""The last two are not in files of the versions that gave no roots."""
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
    """Return what `release_row` was given."""
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


def parts_by_release(
    charges: Iterable[Sequence[Any]], departed: Iterable[Sequence[Any]]
) -> dict[int, list[bytes]]:
    """Return whom releases charged, as their roots have it, from rows.

    Of each bucket in turn who of it paid, and how much; then who was left out for the first time.
    """
    parts = defaultdict[int, list[bytes]](list)
    for _, release, _, users, units in sorted(charges, key=lambda row: int(row[0])):
        parts[release] += [users, units]
    for release, users in departed:
        parts[release].append(users)
    return parts


def with_root(release: Release, chain: RootChain, parts: Parts) -> Release:
    """Return a release with its root, which is the last of the chain then."""
    sealed, root = chain.add(release, parts)
    return replace(release, sealed=sealed.hex(), root=root.hex())


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
            before = self.tables.get(name)
            self.tables[name] = rows if before is None else pa.concat_tables([before, rows])

    def rows(self, version: int) -> list[list[Any]]:
        """Return all of them as rows, in place of those that they were made of."""
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
    """Return the numbers of the people in a row of charges."""
    return numbers_in(row["bucket"], unpack_set(row["users"]), buckets)


def join_charges(parts: list[tuple[Index, Ints]]) -> tuple[Index, Ints]:
    """Return charges of several buckets, in order of person."""
    if not parts:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    users, charges = (np.concatenate(some) for some in zip(*parts, strict=True))
    order = np.argsort(users, kind="stable")
    return users[order], charges[order]


# -- a ledger in a lake: a fenced log of Parquet files, with what everybody has in memory ----------

Names = Callable[[Iterable[int]], dict[int, Any]]


def _of(releases: range) -> pc.Expression:
    """Return the condition that a row is of some releases."""
    return (pc.field("release") >= releases[0]) & (pc.field("release") <= releases[-1])


_AT_ONCE = 64  # releases whose charges are in memory at once
_FILES = 256  # small ones of one kind, that are left as they are
_SMALL = 1 << 20  # bytes


class LakeLedger:
    """See `sparseq.ledger.protocol.Ledger`.

    Args:
        log: Where it is written.
        buckets: That people lie in.
        budgets: One a person, by number, in ledger units; 0 for numbers that nobody has.
        reserves: Shares of everybody's budget, by pot.
        halt: See `Accounts`.
        names: Says what people are called.
        purposes: That the lake was made with.
        budget: Its.

    Raises:
        StoreError: The ledger contradicts itself.
    """

    def __init__(
        self,
        log: FencedLog,
        buckets: int,
        budgets: Ints,
        reserves: Mapping[Pot, float],
        halt: bool,
        names: Names,
        purposes: Sequence[Purpose] = (),
        budget: Budget | None = None,
    ) -> None:
        self._log, self._buckets, self._names = log, buckets, names
        self._closed = ""
        self._requests: dict[str, int] = {}
        self._where: list[LogFile] = []  # the file of each release
        self._recent: dict[int, Release] = {}  # what this ledger has written or read ahead
        self._index()
        self._reserves, self._halt, self._budget = reserves, halt, budget
        self._notes = self._read_notes()
        self._purposes = tuple(purposes)
        self.pots = self._pots(budgets)
        self.lifetimes: Lifetimes | None = None  # a lake has no windows
        self._unfolded = 0
        self._restore()
        self.departures = Departures()
        self.departures.add_users(len(self.pots))
        self._restore_departures()
        self._pending: list[Note] | None = None
        self._laid: dict[int, list[Any]] = {}
        self._anew = False
        last = self.read(len(self)) if len(self) else None
        self._chain = RootChain.after(last, self.fact)

    # -- opening -----------------------------------------------------------------------------------

    def _pots(self, budgets: Ints) -> Pots:
        purposes = (*self._purposes, *read(self.fact(PURPOSES)))
        moves = {p.number: self.charges(p.came) for p in purposes if p.came}
        pots = Pots(budgets, self._reserves, self._halt, purposes, self._budget, moves)
        pots.restore_draws(self.notes(DRAWS))
        return pots

    def _index(self) -> None:
        """Know which releases there are, what they are called, and in which file each is."""
        releases: list[tuple[int, str | None, LogFile]] = []
        for file in self._log.head.of("releases"):
            for some in self._log.rows([file], ["release", "request"]):
                names = zip(some["release"].to_pylist(), some["request"].to_pylist(), strict=True)
                releases += [(number, name, file) for number, name in names]
        releases.sort(key=lambda one: one[0])
        if [number for number, _, _ in releases] != list(range(1, len(releases) + 1)):
            raise StoreError("the ledger lacks a release", "restore a copy")
        self._where = [file for _, _, file in releases]
        self._requests = {name: number for number, name, _ in releases if name is not None}

    def _restore(self) -> None:
        """Set what everybody has spent to the last sum and the charges after it."""
        since = 0
        for row in self._rows("spent"):
            since, spent = row["release"], unpack(row["charges"])
            places = self.pots[Pot(row["pot"])].spent[row["bucket"] :: self._buckets]
            if since > len(self) or len(spent) > len(places):
                raise StoreError("the ledger has a sum that fits no release", "restore a copy")
            places[: len(spent)] = spent
        for row in self._rows("charges", pc.field("release") > since):
            self._charge(row)
        for _, accounts in self.pots.items():
            if np.any((accounts.spent < 0) | (accounts.spent > accounts.budgets)):
                raise StoreError("the ledger has an account that is overdrawn", "restore a copy")

    def _charge(self, row: dict[str, Any]) -> None:
        users, charges = people_of(row, self._buckets), unpack(row["charges"])
        have_accounts = not len(users) or users[-1] < len(self.pots)
        if len(users) != len(charges) or row["release"] > len(self) or not have_accounts:
            raise StoreError("the ledger charges a person who has no account", "restore a copy")
        self.pots[Pot(row["pot"])].charge(users, charges)
        self._unfolded += len(users)

    def _restore_departures(self) -> None:
        for row in sorted(self._rows("departed"), key=lambda row: int(row["release"])):
            self.departures.add(row["release"], unpack_set(row["users"]))

    def _read_notes(self) -> KeptNotes:
        notes = KeptNotes()
        for row in sorted(self._rows("notes"), key=lambda row: (row["version"], row["place"])):
            notes.add(row["of"], row["note"])
        return notes

    def manifest(self) -> list[dict[str, Any]]:
        """Return the buckets that are current, in their order: see `rows.BUCKETS`."""
        return manifest_of(self._log)

    def people_arrived(self) -> None:
        """Open the accounts of people who have come to buckets."""
        before, budgets = self.pots, budgets_of(self.manifest())
        self.pots = self._pots(budgets)
        for pot, accounts in before.items():
            self.pots[pot].spent[: len(accounts)] = accounts.spent
        self.departures.add_users(len(self.pots) - len(before))

    # -- writing -----------------------------------------------------------------------------------

    @property
    def next_id(self) -> int:
        """See `Ledger`."""
        return len(self._where) + 1

    def __len__(self) -> int:
        return len(self._where)

    def recover(self) -> None:
        """See `Ledger`: nothing is ever half read."""

    def commit(self, entries: Sequence[Entry]) -> None:
        """See `Ledger`: one entry of the log, after the head that this ledger has read."""
        self._check_open()
        for number, entry in enumerate(entries, self.next_id):
            if entry.release.id != number:
                raise StoreError(f"release {entry.release.id} does not follow {number - 1}")
        charges, departed = charge_rows(entries, self._buckets), departed_rows(entries)
        chain, parts = replace(self._chain), parts_by_release(charges, departed)
        releases = [with_root(e.release, chain, parts[e.release.id]) for e in entries]
        notes = [*chain.facts(), *(n for entry in entries for n in self._with_failures(entry))]
        written = {
            "releases": list(map(release_row, releases)),
            "charges": charges,
            "departed": departed,
            "notes": self._note_rows(notes),
        }
        files = self._extend(written, ())
        self._chain = replace(chain, new=False)
        for release in releases:
            self._where.append(files["releases"])
            self._recent[release.id] = release
            if release.request is not None:
                self._requests[release.request.stored] = release.id
        self._unfolded += sum(len(entry.users) for entry in entries)
        self._take_notes(written["notes"])

    def chain(self) -> RootChain:
        """See `Ledger`: after a commit that failed, this ledger is closed."""
        return self._chain

    def past(self) -> Iterator[tuple[Release, Parts]]:
        """See `Ledger`."""
        left = [[row["release"], row["users"]] for row in self._rows("departed")]
        for first in range(1, len(self) + 1, _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, len(self) + 1))
            rows = [list(row.values()) for row in self._rows("charges", _of(some))]
            parts, releases = parts_by_release(rows, left), self._read(set(some))
            for number in some:
                yield releases[number], parts[number]

    def _charges(self, some: range) -> dict[int, list[tuple[Index, Ints]]]:
        """Return who paid how much for some releases, by bucket."""
        found: dict[int, list[tuple[Index, Ints]]] = {number: [] for number in some}
        for row in self._rows("charges", _of(some)):
            found[row["release"]].append((people_of(row, self._buckets), unpack(row["charges"])))
        return found

    def _rows(self, kind: str, where: pc.Expression | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of all files of a kind."""
        for some in self._log.rows(self._log.head.of(kind), where=where):
            yield from some.to_pylist()

    def _extend(
        self, written: Mapping[str, pa.Table | list[list[Any]]], old: Sequence[LogFile]
    ) -> dict[str, LogFile]:
        """Write rows, and make them current in one commit; nothing is known if it fails."""
        self._check_open()
        self._closed = "a commit failed, or was interrupted"  # until it is known to be durable
        try:
            tables = {
                kind: some if isinstance(some, pa.Table) else table(kind, some)
                for kind, some in written.items()
            }
            files = {k: self._log.put(k, table) for k, table in tables.items() if table.num_rows}
            self._log.commit(list(files.values()), old)
        except Overtaken:
            self._closed = "another driver was first"
            self._check_open()
        except Exception as error:
            raise StoreError(
                f"the ledger can't be written: {error}; the answer was not given, and whether it "
                "was charged, only the lake knows",
                "open the lake again: it is whole",
            ) from None
        self._closed = ""
        return files

    def _check_open(self) -> None:
        if self._closed:
            raise StoreInUse(
                f"{self._closed}; nothing was answered or charged here since",
                "open the lake again: it then has what the other has written",
            )

    def _with_failures(self, entry: Entry) -> list[Note]:
        """Return what is noted with a release: also where an engine failed, for the curator."""
        whose = [f.user for f in entry.failed if f.user is not None]
        names = self.identifiers(whose) if whose else {}
        lines = [failure.told(entry.release.id, names) for failure in entry.failed]
        return [*entry.notes, *(CuratorLine("engine", line) for line in lines)]

    def fold(self, at_least: int) -> None:
        """See `Ledger`; small files, of which there are many, become one as well."""
        head, old = self._log.head, list[LogFile]()
        written: dict[str, Any] = {}  # tables, or rows
        if self._unfolded and self._unfolded >= at_least:
            old += head.of("spent")
            written["spent"] = spent_rows(self.pots, len(self), self._buckets)
        for kind in ("releases", "charges", "departed", "notes"):
            files_of_kind = head.of(kind)
            small = (
                files_of_kind if kind == "notes" else [f for f in files_of_kind if f.size < _SMALL]
            )
            if len(small) > _FILES:
                old += small
                written[kind] = self._merge(kind, small)
        if not written:
            return
        files = self._extend(written, old)
        if "releases" in files:
            for number in written["releases"]["release"].to_pylist():
                self._where[number - 1] = files["releases"]
        if "spent" in files:
            self._unfolded = 0

    def _merge(self, kind: str, files: Sequence[LogFile]) -> pa.Table | list[list[Any]]:
        """Return the rows of many files as those of one."""
        if kind == "notes":
            return self._notes.rows(self._log.head.version + 1)
        order = [name for name in ("bucket", "release") if name in KINDS[kind].names]
        whole = pa.concat_tables(self._log.rows(files), promote_options="default")
        return whole.sort_by([(name, "ascending") for name in order])

    @property
    def version(self) -> int:
        """Of the log, as this ledger has read or written it last."""
        return self._log.head.version

    @property
    def behind(self) -> bool:
        """Another driver has written since: see `FencedLog.behind`."""
        return self._log.behind

    def fence(self) -> None:
        """Put an empty entry: whoever has read less than this ledger can't commit any more."""
        self._extend({}, ())

    def trim(self) -> list[Path]:
        """Remove the entries of the log that nobody needs: see `FencedLog.trim`."""
        return self._log.trim()

    def orphans(self) -> list[Path]:
        """Return the files of the log that nothing refers to: see `FencedLog.orphans`."""
        return self._log.orphans()

    def audit(self) -> None:
        """Add all charges up again, from the first release on, and make all roots again.

        Raises:
            StoreError: It is not what the accounts or the roots say, or a file is damaged.
        """
        damaged = self._log.damaged()
        if damaged:
            raise StoreError(f"damaged: {', '.join(file.path for file in damaged)}")
        again = {pot: np.zeros(len(accounts), np.int64) for pot, accounts in self.pots.items()}
        for row in self._rows("charges"):
            again[Pot(row["pot"])][people_of(row, self._buckets)] += unpack(row["charges"])
        for pot, accounts in self.pots.items():
            if not np.array_equal(accounts.spent, again[pot]):
                raise StoreError(f"what was spent of {pot.name.lower()} is not the sum of charges")
        check_past(self)

    # -- reading back ------------------------------------------------------------------------------

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        """See `Ledger`."""
        if request is None:
            return None
        if not request.text.strip():
            raise ParameterError("the request id is empty", "give one, or none at all")
        release = self.under(request)
        if release is not None and release.query != query:
            raise QueryRefused(
                f"request id {str(request)!r} belongs to another query: {release.query}",
                "use a new request id for a new query",
            )
        return release

    def under(self, request: RequestId) -> Release | None:
        """See `Ledger`."""
        number = self.number(request)
        return None if number is None else self.read(number)

    def number(self, request: RequestId) -> int | None:
        """See `Ledger`."""
        return self._requests.get(request.stored)

    def numbers(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """See `Ledger`."""
        numbers = {request: self.number(request) for request in requests}
        return {request: number for request, number in numbers.items() if number is not None}

    def names(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """See `Ledger`."""
        wanted = set(releases)
        names = {number: name for name, number in self._requests.items() if number in wanted}
        return {number: RequestId.read(name) for number, name in sorted(names.items())}

    def read_ahead(self, requests: Iterable[RequestId]) -> None:
        """See `Ledger`."""
        self._recent = self._read(set(self.numbers(requests).values()))

    def read(self, release_id: int) -> Release:
        """See `Ledger`."""
        if not 1 <= release_id <= len(self):
            raise StoreError(
                f"there is no release {release_id}", "`sparseq history` lists the releases"
            )
        return self._recent.get(release_id) or self._read({release_id})[release_id]

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """See `Ledger`."""
        until = len(self) + 1 if before is None else min(before, len(self) + 1)
        first = 1 if last is None else max(until - last, 1)
        releases = self._read(set(range(first, until)))
        return [releases[number] for number in sorted(releases)]

    def _read(self, numbers: set[int]) -> dict[int, Release]:
        releases: dict[int, Release] = {}
        files = dict.fromkeys(self._where[number - 1] for number in sorted(numbers))
        wanted = pc.field("release").isin(sorted(numbers))
        for some in self._log.rows(files, where=wanted):
            releases |= {row["release"]: release_of(row) for row in some.to_pylist()}
        return releases

    def charges(self, release_id: int) -> tuple[Index, Ints]:
        """See `Ledger`."""
        return join_charges(self._charges(range(release_id, release_id + 1))[release_id])

    def identifiers(self, users: Iterable[int]) -> dict[int, Any]:
        """See `Ledger`."""
        return self._names(users)

    def payments(self, user: int) -> list[tuple[int, int]]:
        """See `Ledger`."""
        bucket, paid = user % self._buckets, list[tuple[int, int]]()
        for row in self._rows("charges", pc.field("bucket") == bucket):
            users = people_of(row, self._buckets)
            at = int(np.searchsorted(users, user))
            if at < len(users) and users[at] == user:
                paid.append((row["release"], int(unpack(row["charges"])[at])))
        return sorted(one for one in paid if one[1])

    def paid_from(self, pot: Pot) -> int:
        """See `Ledger`."""
        pots = self._log.rows(self._log.head.of("releases"), ["pot"])
        return sum(some["pot"].to_pylist().count(pot) for some in pots)

    @property
    def lines(self) -> list[LoggedLine]:
        """The curator's log, oldest first: private."""
        return self._notes.lines

    # -- notes -------------------------------------------------------------------------------------

    def notes(
        self, table: NoteTable, users: Index | None = None, latest: int | None = None, **equal: Any
    ) -> pa.Table:
        """See `Ledger`."""
        rows = self._notes.tables.get(table.name, table.schema.empty_table())
        for name, value in equal.items():
            rows = rows.filter(pc.equal(rows[name], value))
        if users is not None:
            rows = rows.filter(pc.is_in(rows[USER], pa.array(users, pa.int32())))
        first = 0 if latest is None else max(len(rows) - latest, 0)
        return rows.select(list(table.columns)).slice(first)

    def fact(self, key: str) -> Any:
        """See `Ledger`."""
        return self._notes.facts.get(key)

    def in_transaction(self, work: Callable[[], Any]) -> Any:
        """See `Ledger`: a change is one entry of the log."""
        self._check_open()
        before, self._notes = self._notes, self._notes.copy()
        self._pending, self._laid, self._anew = [], {}, False
        try:
            done = work()
            notes = self._note_rows(self._pending)
            old = self._log.head.of("notes") if self._anew else []
            if self._anew:
                notes = self._notes.rows(self._log.head.version + 1)
            laid = self._all_buckets() if self._laid else []
            past = self._log.head.of("buckets") if self._laid else []
            if notes or laid or old:
                self._extend({"notes": notes, "buckets": laid}, [*old, *past])
        except BaseException:
            self._notes = before
            raise
        finally:
            self._pending, self._laid = None, {}
        self._log.delete(old)  # what was rewritten is erased for good
        return done

    def lay_out(self, buckets: Iterable[list[Any]]) -> None:
        """Make other files the current ones of some buckets; in a transaction only."""
        assert self._pending is not None, "buckets are laid out in a transaction"
        self._laid |= {row[0]: row for row in buckets}

    def _all_buckets(self) -> list[list[Any]]:
        current = {row["bucket"]: list(row.values()) for row in self.manifest()}
        return [row for _, row in sorted((current | self._laid).items())]

    def write(self, note: Note) -> None:
        """See `Ledger`."""
        assert self._pending is not None, "notes are written in a transaction"
        self._pending.append(note)
        self._take_notes(self._note_rows([note]))

    def drop(self, table: NoteTable, besides: Index, **equal: Any) -> None:
        """See `Ledger`."""
        self._anew = True
        rows = self.notes(table)
        gone = pc.invert(pc.is_in(rows[USER], pa.array(besides, pa.int32())))
        for name, value in equal.items():
            gone = pc.and_(gone, pc.equal(rows[name], value))
        self._notes.tables[table.name] = rows.filter(pc.invert(gone))

    def rewrite(self, table: NoteTable, change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """See `Ledger`."""
        self._anew = True
        changed = [change(batch) for batch in self.notes(table).to_batches()]
        self._notes.tables[table.name] = pa.Table.from_batches(changed, table.schema)

    def _note_rows(self, notes: Iterable[Note]) -> list[list[Any]]:
        version = self._log.head.version + 1
        return [note_row(note, version, place) for place, note in enumerate(notes)]

    def _take_notes(self, written: Iterable[Sequence[Any]]) -> None:
        for _, _, of, note in written:
            self._notes.add(of, note)


def manifest_of(log: FencedLog) -> list[dict[str, Any]]:
    """Return the buckets that are current at a log's head, in their order.

    Raises:
        StoreError: One is missing.
    """
    buckets = [row for some in log.rows(log.head.of("buckets")) for row in some.to_pylist()]
    buckets.sort(key=lambda row: int(row["bucket"]))
    if [row["bucket"] for row in buckets] != list(range(len(buckets))):
        raise StoreError("the ledger lacks a bucket, or has one twice", "restore a copy")
    return buckets
