"""The journal of a store: every release with its charges, written in one transaction.

Tables, all in schema `ledger` of the store's DuckDB file:

    release    the query, its noise, the answer as it was returned, and (private) the charges, the
               pot, and the users who were left out of a query for the first time: one row, so that
               no part exists without the others (a view: see `segments`)
    snapshot   private: the spent amounts of all users in a pot after a release, for fast opening
    watched, alarm      private: the state of `sparseq.series.watch`
    users, forgotten    private: the accounts (see `sparseq.engine._duckdb.people`)

`commit` returns only when the rows are on disk; a crash before that leaves no row. The amount that
a user has spent is the last snapshot plus the charges after it, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from sparseq.base.errors import ParameterError, QueryRefused, StoreError
from sparseq.ledger._duckdb.notes import DuckNotes
from sparseq.ledger._duckdb.release_tables import ReleaseTables, as_release
from sparseq.ledger._duckdb.request_ids import RequestIds
from sparseq.ledger._duckdb.segments import FIRST_SEGMENT, Segments
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.ledger.lifetimes import LIFETIMES
from sparseq.ledger.notes import Fact, Note, NoteRows, NoteTable
from sparseq.ledger.packed_integers import pack, pack_set, unpack, unpack_set
from sparseq.ledger.pots import Pot, Pots
from sparseq.ledger.releases import Entry, Release
from sparseq.ledger.request_id import RequestId
from sparseq.ledger.root_chain import Parts, RootChain

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index, Ints
    from sparseq.ledger.departures import Departures

TABLES = f"""
CREATE SCHEMA ledger;
{FIRST_SEGMENT}
CREATE TABLE ledger.snapshot (
    release_id BIGINT NOT NULL, pot UTINYINT NOT NULL, spent BLOB NOT NULL);
CREATE TABLE ledger.watched (
    tick BIGINT NOT NULL, release_id BIGINT NOT NULL, users BIGINT NOT NULL);
CREATE TABLE ledger.alarm (
    tick BIGINT NOT NULL, release_id BIGINT NOT NULL, level BIGINT NOT NULL,
    noise BIGINT NOT NULL, counted BIGINT NOT NULL, fired BOOLEAN NOT NULL);
"""


class Journal(ReleaseTables):
    """The releases and charges of one store, on a connection that nothing else uses.

    Args:
        connection: The store's.
        former: The last release of the version without askers, 0 if there was none: its releases
            are found by the former spelling of a request, and later ones are not.
        session: The session, which records the durable progress.

    Attributes:
        committing: True while a commit has begun and not ended: only the file shows its result.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        former: int = 0,
        session: StoreSession | None = None,
    ) -> None:
        super().__init__(connection)
        self._segments, self._former = Segments(connection), former
        self._session = session or StoreSession(connection)
        self._last = self._number("SELECT coalesce(max(id), 0) FROM ledger.release")
        self.requests = RequestIds(connection)
        self._noted: set[str] = set()
        self._unfolded = 0
        self._ahead: dict[int, Release] = {}
        self._chain: RootChain | None = None
        self.committing = False

    @property
    def public(self) -> str:
        """See `ReleaseTables`."""
        return self._segments.public

    @property
    def next_id(self) -> int:
        """The number of the next release."""
        return self._last + 1

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        """Return the release that `request` was answered with, if there is one.

        Raises:
            ParameterError: The name is empty.
            QueryRefused: The name belongs to another query.
        """
        if request is None:
            return None
        if not request.text.strip():
            raise ParameterError("the request id is empty", "give one, or leave it out")
        release = self.under(request)
        if release is None:
            return self._formerly(request, query)
        if release.query != query:
            raise QueryRefused(
                f"request id {str(request)!r} belongs to another query: {release.query}",
                "use a new request id for a new query",
            )
        return release

    def _formerly(self, request: RequestId, query: str) -> Release | None:
        """Return the release that an earlier version made for this request, if there is one."""
        if not self._former or not request.former:
            return None
        release = self.under(RequestId.of_analyst(request.former))
        known = release is not None and release.id <= self._former and release.query == query
        return release if known else None

    def read_ahead(self, requests: Iterable[RequestId]) -> None:
        """Read the releases of these requests in one query; they are kept until the next call."""
        numbers = self.requests.look_up(request.stored for request in requests).values()
        self._ahead = {}
        if numbers:
            rows = self._con.execute(
                f"SELECT {self.public} FROM ledger.release WHERE id BETWEEN ? AND ? "
                "AND id IN (SELECT unnest(?::BIGINT[]))",
                [min(numbers), max(numbers), list(numbers)],
            ).fetchall()
            self._ahead = {release.id: release for release in map(as_release, rows)}

    def under(self, request: RequestId) -> Release | None:
        """Return the release of a request, for any query, or None."""
        number = self.number(request)
        return None if number is None else self._ahead.get(number) or self.read(number)

    def number(self, request: RequestId) -> int | None:
        """Return the number of the release of a request, for any query, or None."""
        return self.requests.get(request.stored)

    def numbers(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the numbers of the releases of requests, for those that have one."""
        stored = {request.stored: request for request in requests}
        return {stored[text]: n for text, n in self.requests.look_up(stored).items()}

    def names(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return the request names of releases, for those that have a name."""
        rows = self._con.execute(
            "SELECT id, request_id FROM ledger.release "
            "WHERE request_id IS NOT NULL AND id IN (SELECT unnest(?::BIGINT[]))",
            [list(releases)],
        ).fetchall()
        return {number: RequestId.read(stored) for number, stored in rows}

    def commit(self, entries: Sequence[Entry]) -> None:
        """Write releases and their charges durably in one transaction, all or none.

        This method begins the transaction itself. If an interrupt had left one open, the rows would
        wait for its end; here BEGIN fails instead. After any failure the state of the file is
        unknown, and the connection must not be used again.
        """
        for id, entry in enumerate(entries, self.next_id):
            if entry.release.id != id:
                raise StoreError(f"release {entry.release.id} does not follow {id - 1}")
        self._session.begin()
        chain, self._chain = self.chain(), None
        rows = [_row(entry, chain) for entry in entries]
        self._con.execute("BEGIN")
        self._segments.append(rows)
        notes = [note for entry in entries for note in self._notes(entry)]
        for note in _merge_notes([*chain.facts(), *notes]):
            DuckNotes(self._con, self._noted).write(note)
        self.committing = True
        self._con.execute("COMMIT")
        self.committing = False
        self._chain, chain.new = chain, False
        self._last += len(entries)
        self._session.reached(releases=self._last)
        self._unfolded += sum(len(entry.users) for entry in entries)
        releases = [entry.release for entry in entries]
        self.requests.add({r.request.stored: r.id for r in releases if r.request is not None})

    def _notes(self, entry: Entry) -> Sequence[Note]:
        return entry.notes

    def chain(self) -> RootChain:
        """Return the chain that gives the next release its root."""
        if self._chain is None:
            last = self.read(self._last) if self._last else None
            self._chain = RootChain.after(last, DuckNotes(self._con).fact)
        return self._chain

    def past(self) -> Iterator[tuple[Release, Parts]]:
        """Yield all releases in order, with the records of their charges: private."""
        life = {r["release"]: r for r in DuckNotes(self._con).read(LIFETIMES, None, {}).to_pylist()}
        columns = f"{self.public}, users, charges, departed"
        cursor = self._con.execute(f"SELECT {columns} FROM ledger.release ORDER BY id")
        while rows := cursor.fetchmany(16):
            for *public, users, charges, departed in rows:
                release = as_release(public)
                whole = life.get(release.id, {"people": b"", "units": b""})
                yield (
                    release,
                    (users, charges, departed or b"", whole["people"], whole["units"]),
                )

    def restore(self, pots: Pots) -> None:
        """Set the spent amounts of all users from the charges.

        Raises:
            StoreError: The records contradict each other.
        """
        if self._number("SELECT count(*) FROM ledger.release") != self._last:
            raise StoreError("the ledger lacks a release", "restore a copy")
        since = self._restore_snapshot(pots)
        reader = self._con.sql(
            f"SELECT users, charges, pot FROM ledger.release WHERE id > {int(since)}"
        ).to_arrow_reader(256)
        for batch in reader:
            for entry in batch.to_pylist():
                users, charges = unpack_set(entry["users"]), unpack(entry["charges"])
                if len(users) != len(charges) or (len(users) and users[-1] >= len(pots)):
                    raise StoreError(
                        "the ledger charges a person who has no account", "restore a copy"
                    )
                pots[Pot(entry["pot"])].charge(users, charges)
                self._unfolded += len(users)
        for _, accounts in pots.items():
            if np.any((accounts.spent < 0) | (accounts.spent > accounts.budgets)):
                raise StoreError("the ledger has an account that is overdrawn", "restore a copy")

    def _restore_snapshot(self, pots: Pots) -> int:
        """Start from the last snapshot; return the last release that it includes."""
        latest = self._con.execute(
            "SELECT release_id, pot, spent FROM ledger.snapshot "
            "WHERE release_id = (SELECT max(release_id) FROM ledger.snapshot)"
        ).fetchall()
        for since, pot, packed in latest:
            spent = unpack(packed)
            if since > self._last or len(spent) > len(pots):
                raise StoreError(
                    "the ledger has a snapshot that matches no release", "restore a copy"
                )
            pots[Pot(pot)].spent[: len(spent)] = spent
        return int(latest[0][0]) if latest else 0

    def restore_departures(self, departures: Departures) -> None:
        """Set the departures from the records: the users left out of a query, each with the first
        release.

        Raises:
            StoreError: The records contradict each other.
        """
        rows = self._con.execute(
            "SELECT id, departed FROM ledger.release WHERE departed IS NOT NULL ORDER BY id"
        ).fetchall()
        for release, packed in rows:
            users = unpack_set(packed)
            known = len(users) == 0 or users[-1] < len(departures.first)
            if not known or np.any(departures.first[users]):
                raise StoreError(
                    "the ledger leaves out a person who has no account", "restore a copy"
                )
            departures.add(release, users)

    def snapshot(self, pots: Pots, at_least: int) -> None:
        """Take a snapshot if at least `at_least` charges were added since the last one.

        Each statement leaves the ledger consistent: only the latest snapshot counts.
        """
        if self._unfolded < max(at_least, 1):
            return
        rows = [(self._last, int(pot), pack(accounts.spent)) for pot, accounts in pots.items()]
        self._con.execute(
            f"INSERT INTO ledger.snapshot VALUES {', '.join(['(?, ?, ?)'] * len(rows))}",
            [value for row in rows for value in row],
        )
        self._con.execute("DELETE FROM ledger.snapshot WHERE release_id < ?", [self._last])
        self._unfolded = 0

    def charges(self, release_id: int) -> tuple[Index, Ints]:
        """Return the users charged for a release, and their charges: private."""
        ((users, charges),) = self._con.execute(
            "SELECT users, charges FROM ledger.release WHERE id = ?", [release_id]
        ).fetchall()
        return unpack_set(users), unpack(charges)

    def __len__(self) -> int:
        return self._last

    def _number(self, sql: str) -> int:
        ((number,),) = self._con.execute(sql).fetchall()
        return int(number)


def _row(entry: Entry, chain: RootChain) -> list[Any]:
    release = entry.release
    users, charges = pack_set(entry.users), pack(entry.charges)
    departed = pack_set(entry.departed) if len(entry.departed) else None
    life = (b"", b"") if entry.lifetimes is None else entry.lifetimes.as_bytes
    return [
        release.id,
        None if release.request is None else release.request.stored,
        release.released_at,
        release.query,
        release.coordinates,
        list(release.sigma),
        list(release.bound),
        release.confidence,
        release.answer,
        users,
        charges,
        int(release.pot),
        departed,
        *chain.add(release, (users, charges, departed or b"", *life)),
    ]


def _merge_notes(notes: Sequence[Note]) -> list[Note]:
    """Return notes without facts that a later one replaces; rows of one table are put together."""
    last = {note.key: note for note in notes if isinstance(note, Fact)}
    rows: dict[NoteTable, list[pa.Table]] = defaultdict(list)
    for note in notes:
        if isinstance(note, NoteRows):
            rows[note.of].append(note.table)
    together = [NoteRows(of, pa.concat_tables(tables)) for of, tables in rows.items()]
    others = [n for n in notes if not isinstance(n, NoteRows)]
    return [*(n for n in others if not isinstance(n, Fact) or last[n.key] is n), *together]
