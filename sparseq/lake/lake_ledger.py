"""A ledger in a lake: a fenced log of Parquet files, with the accounts of all users in memory."""

from __future__ import annotations

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
from sparseq.lake.ledger_rows import (
    KINDS,
    KeptNotes,
    budgets_of,
    charge_rows,
    departed_rows,
    join_charges,
    note_row,
    parts_by_release,
    people_of,
    release_of,
    release_row,
    spent_rows,
    table,
    with_root,
)
from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.departures import Departures
from sparseq.ledger.lifetimes import Lifetimes
from sparseq.ledger.notes import USER, CuratorLine, LoggedLine, Note, NoteTable
from sparseq.ledger.packed_integers import unpack, unpack_set
from sparseq.ledger.past_check import check_past
from sparseq.ledger.pots import DRAWS, Pot, Pots
from sparseq.ledger.purposes import PURPOSES, Purpose, read
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import RequestId
from sparseq.ledger.root_chain import Parts, RootChain

Names = Callable[[Iterable[int]], dict[int, Any]]


def _of(releases: range) -> pc.Expression:
    """Return the condition that a row belongs to some releases."""
    return (pc.field("release") >= releases[0]) & (pc.field("release") <= releases[-1])


_AT_ONCE = 64  # releases whose charges are in memory at once
_FILES = 256  # small files of one kind that are left as they are
_SMALL = 1 << 20  # bytes


class LakeLedger:
    """See `sparseq.ledger.protocol.Ledger`.

    Args:
        log: The log of the ledger.
        buckets: The number of buckets.
        budgets: One per user, by index, in ledger units; 0 for unused indices.
        reserves: The share of every budget for each pot.
        halt: See `Accounts`.
        names: Returns the identifiers of users.
        purposes: The purposes that were declared when the lake was made.
        budget: The store's budget.

    Raises:
        StoreError: The records contradict each other.
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
        self._recent: dict[int, Release] = {}  # releases that this ledger has written or read ahead
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

    # Opening.

    def _pots(self, budgets: Ints) -> Pots:
        purposes = (*self._purposes, *read(self.fact(PURPOSES)))
        moves = {p.number: self.charges(p.came) for p in purposes if p.came}
        pots = Pots(budgets, self._reserves, self._halt, purposes, self._budget, moves)
        pots.restore_draws(self.notes(DRAWS))
        return pots

    def _index(self) -> None:
        """Read the numbers of all releases, their names, and the file of each."""
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
        """Set the spent amounts of all users to the last sum and the charges after it."""
        since = 0
        for row in self._rows("spent"):
            since, spent = row["release"], unpack(row["charges"])
            places = self.pots[Pot(row["pot"])].spent[row["bucket"] :: self._buckets]
            if since > len(self) or len(spent) > len(places):
                raise StoreError("the ledger has a sum that matches no release", "restore a copy")
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
        """Return the current buckets, in their order: see `BUCKETS`."""
        return manifest_of(self._log)

    def people_arrived(self) -> None:
        """Open the accounts of new users in buckets."""
        before, budgets = self.pots, budgets_of(self.manifest())
        self.pots = self._pots(budgets)
        for pot, accounts in before.items():
            self.pots[pot].spent[: len(accounts)] = accounts.spent
        self.departures.add_users(len(self.pots) - len(before))

    # Writing.

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
        """See `Ledger`: after a failed commit, this ledger is closed."""
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
        """Return the charges of some releases, by bucket."""
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
        """Write rows, and make them current in one commit; if it fails, the result is unknown."""
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
            self._closed = "another driver committed first"
            self._check_open()
        except Exception as error:
            raise StoreError(
                f"the ledger can't be written: {error}; the answer was not given, and only the "
                "lake shows whether it was charged",
                "open the lake again: it is complete",
            ) from None
        self._closed = ""
        return files

    def _check_open(self) -> None:
        if self._closed:
            raise StoreInUse(
                f"{self._closed}; nothing was answered or charged here since",
                "open the lake again: it then includes the other driver's commits",
            )

    def _with_failures(self, entry: Entry) -> list[Note]:
        """Return the notes of a release; engine failures add lines for the curator."""
        whose = [f.user for f in entry.failed if f.user is not None]
        names = self.identifiers(whose) if whose else {}
        lines = [failure.told(entry.release.id, names) for failure in entry.failed]
        return [*entry.notes, *(CuratorLine("engine", line) for line in lines)]

    def fold(self, at_least: int) -> None:
        """See `Ledger`; many small files become one as well."""
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
        """The version of the log that this ledger has read or written last."""
        return self._log.head.version

    @property
    def behind(self) -> bool:
        """True if another driver has written since: see `FencedLog.behind`."""
        return self._log.behind

    def fence(self) -> None:
        """Write an empty entry: drivers with an earlier version can't commit any more."""
        self._extend({}, ())

    def trim(self) -> list[Path]:
        """Remove old entries of the log: see `FencedLog.trim`."""
        return self._log.trim()

    def orphans(self) -> list[Path]:
        """Return the files of the log that no commit refers to: see `FencedLog.orphans`."""
        return self._log.orphans()

    def audit(self) -> None:
        """Add all charges up again, from the first release on, and recompute all roots.

        Raises:
            StoreError: The accounts or the roots differ, or a file is damaged.
        """
        damaged = self._log.damaged()
        if damaged:
            raise StoreError(f"damaged: {', '.join(file.path for file in damaged)}")
        again = {pot: np.zeros(len(accounts), np.int64) for pot, accounts in self.pots.items()}
        for row in self._rows("charges"):
            again[Pot(row["pot"])][people_of(row, self._buckets)] += unpack(row["charges"])
        for pot, accounts in self.pots.items():
            if not np.array_equal(accounts.spent, again[pot]):
                raise StoreError(
                    f"the spent amounts of {pot.name.lower()} are not the sum of charges"
                )
        check_past(self)

    # Reading.

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        """See `Ledger`."""
        if request is None:
            return None
        if not request.text.strip():
            raise ParameterError("the request id is empty", "give one, or leave it out")
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

    # Notes.

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
        self._log.delete(old)  # rewritten rows are erased for good
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
    """Return the current buckets at a log's head, in their order.

    Raises:
        StoreError: A bucket is missing.
    """
    buckets = [row for some in log.rows(log.head.of("buckets")) for row in some.to_pylist()]
    buckets.sort(key=lambda row: int(row["bucket"]))
    if [row["bucket"] for row in buckets] != list(range(len(buckets))):
        raise StoreError("the ledger lacks a bucket, or has one twice", "restore a copy")
    return buckets
