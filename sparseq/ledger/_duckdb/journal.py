"""The durable side of the ledger: every release with its charges, in one transaction.

Tables, all in schema `ledger` of the store's DuckDB file:

    release    what was asked, with which noise, the answer as it went out, and (private) who paid
               how much for it, from which pot, and who was left out of a query for the first time:
               one row, so that there is none of this without the other (a view: see `segments`)
    snapshot   private: what everybody had spent of a pot after a release, so that opening is quick
    watched, alarm      private: the state of `sparseq.series.watch`
    users, forgotten    private: who has an account (see `sparseq.engine._duckdb.people`)

`commit` returns only when the rows are on disk; a crash before leaves nothing of them.
What a user has spent is the last snapshot plus the charges after it, and nothing else.

Segments of releases: one table after the other; what was written is never written again.

When DuckDB takes its log into a table, it writes that table's last row group anew, which is up to
122,880 rows: were releases in one table, each would be written again with those of years, and the
answer that it falls on would wait for that. So a table takes `SEGMENT_BYTES`, and then the next one
begins, in the transaction that writes to it. `ledger.release` is a view of them all.

Request ids that have a release: looked up in the store, so that memory does not grow with it.

Almost every id that is asked about is new. A sieve (Bloom 1970) tells most of those apart without
the store: two to four bytes a release, never a wrong "new", and a wrong "perhaps" now and then,
which costs a look into the store and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError, QueryRefused, StoreError
from sparseq.ledger._duckdb.notes import DuckNotes
from sparseq.ledger._duckdb.session import StoreSession
from sparseq.ledger.accounts import pack, pack_set, unpack, unpack_set
from sparseq.ledger.lifetimes import LIFETIMES
from sparseq.ledger.notes import Fact, Note, NoteRows, NoteTable, RequestId
from sparseq.ledger.protocol import Entry, Parts, Release, RootChain
from sparseq.ledger.purposes import Pot, Pots

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Departures, Index, Ints

# -- segments of releases: one table after the other; what was written is never written again ------

SEGMENT_BYTES = 1 << 26
"""A table with so many bytes of answers and charges is full; a checkpoint writes no more anew."""
_MANY = 4  # rows from which one statement for all is quicker
_COLUMNS = """(
    id BIGINT NOT NULL, request_id VARCHAR, released_at TIMESTAMP NOT NULL,
    query VARCHAR NOT NULL, coordinates BIGINT NOT NULL, sigma DOUBLE[] NOT NULL,
    bound DOUBLE[] NOT NULL, confidence DOUBLE NOT NULL, answer BLOB NOT NULL,
    users BLOB NOT NULL, charges BLOB NOT NULL USING COMPRESSION uncompressed,
    pot UTINYINT NOT NULL, departed BLOB, sealed BLOB, root BLOB)"""
_LONG = ("answer", "users", "charges")
_PUBLIC = "id, request_id, released_at, query, coordinates, sigma, bound, confidence, answer, pot"


def _segment_sql(number: int) -> str:
    """Return SQL that begins a segment."""
    every = " UNION ALL BY NAME ".join(
        f"SELECT * FROM ledger.release_{n + 1}" for n in range(number)
    )
    return (
        f"CREATE TABLE ledger.release_{number} {_COLUMNS};\n"
        f"CREATE OR REPLACE VIEW ledger.release AS {every};\n"
    )


FIRST_SEGMENT = _segment_sql(1)


class Segments:
    """The tables of releases, of which the last one is written to.

    Attributes:
        rooted: Releases have roots; else an earlier version made the tables, and the next one that
            is begun has them.
        public: The columns that make a `Release`.

    Raises:
        StoreError: There is none.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con, self._number = connection, 1
        try:
            self._bytes = self._count_bytes()
        except duckdb.CatalogException:
            raise StoreError("the ledger has no table of releases", "restore a copy") from None
        self._read_columns()
        if self._bytes >= SEGMENT_BYTES or not self.rooted:  # only then can there be more
            self._number = self._count()
            self._bytes = self._count_bytes()
            self._read_columns()

    def _read_columns(self) -> None:
        self._schema = self._con.sql(f"FROM {self._table} LIMIT 0").to_arrow_table().schema
        self._long = [self._schema.get_field_index(column) for column in _LONG]
        self.rooted = "root" in self._schema.names
        self.public = f"{_PUBLIC}, sealed, root" if self.rooted else _PUBLIC

    @property
    def _table(self) -> str:
        return f"ledger.release_{self._number}"

    def _count(self) -> int:
        """Return how many tables there are; the first look at a database's takes 9 ms."""
        ((number,),) = self._con.execute(
            "SELECT count(*) FROM duckdb_tables() "
            "WHERE schema_name = 'ledger' AND table_name SIMILAR TO 'release_[0-9]+'"
        ).fetchall()
        return int(number)

    def _count_bytes(self) -> int:
        """Return how many bytes are in the last table."""
        bytes_of_a_row = " + ".join(f"octet_length({column})" for column in _LONG)
        ((bytes,),) = self._con.execute(
            f"SELECT coalesce(sum({bytes_of_a_row}), 0)::BIGINT FROM {self._table}"
        ).fetchall()
        return int(bytes)

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write releases, in a transaction of the caller; where there are many, by way of Arrow.

        If the transaction fails, this object must not be used again.
        """
        if self._bytes >= SEGMENT_BYTES or not self.rooted:
            self._number, self._bytes = self._count() + 1, 0
            self._con.execute(_segment_sql(self._number))
            self._read_columns()
        self._bytes += sum(len(row[i]) for row in rows for i in self._long)
        if len(rows) < _MANY:
            marks = ", ".join(["?"] * len(self._schema))
            for row in rows:
                self._con.execute(f"INSERT INTO {self._table} VALUES ({marks})", list(row))
            return
        columns = [list(column) for column in zip(*rows, strict=True)]
        self._con.register("entries", pa.table(columns, schema=self._schema))
        self._con.execute(f"INSERT INTO {self._table} SELECT * FROM entries")
        self._con.unregister("entries")


# -- request ids that have a release ---------------------------------------------------------------

_PLACES = 6  # bits a text sets
_BITS_A_TEXT = 16  # at least: then 1 new text in 1,000 looks as if it had been seen
_FIRST_LAYER = 4096  # texts


class Sieve:
    """Tells of most texts that they have not been seen.

    >>> sieve = Sieve()
    >>> sieve.add(["a", "b"])
    >>> sieve.passes(["a", "new"])
    ['a']
    """

    def __init__(self) -> None:
        self._layers: list[NDArray[np.uint8]] = []
        self._room = 0

    def add(self, texts: Sequence[str]) -> None:
        """Remember texts."""
        start = 0
        while start < len(texts):
            if self._room == 0:  # twice as large as the last one, and that is kept
                self._room = _FIRST_LAYER << len(self._layers)
                self._layers.append(np.zeros(self._room * _BITS_A_TEXT // 8, np.uint8))
            part = texts[start : start + self._room]
            layer = self._layers[-1]
            places = _places(part, layer)
            np.bitwise_or.at(layer, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))
            self._room -= len(part)
            start += len(part)

    def passes(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that may have been seen: all that were, and few others."""
        maybe = np.zeros(len(texts), np.bool_)
        for layer in self._layers:
            places = _places(texts, layer)
            maybe |= ((layer[places >> 3] >> (places & 7)) & 1).all(axis=1)
        return [text for text, may in zip(texts, maybe, strict=True) if may]


def _places(texts: Sequence[str], layer: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the bits of a layer that stand for each text."""
    hashes = np.fromiter(map(hash, texts), np.int64, len(texts)).view(np.uint64)
    steps = (hashes >> np.uint64(32)) | np.uint64(1)
    nth = np.arange(_PLACES, dtype=np.uint64)
    places: NDArray[np.uint64] = hashes[:, None] + np.multiply.outer(steps, nth)
    return (places % np.uint64(8 * len(layer))).astype(np.int64)


class RequestIds:
    """The release that each request id stands for.

    Args:
        connection: To the store; ids (`RequestId.stored`) and their releases are columns of
            `ledger.release`.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._con = connection
        self._sieve = Sieve()
        self._ahead: dict[str, int] = {}
        self._looked_up: set[str] = set()
        for batch in connection.sql(
            "SELECT request_id FROM ledger.release WHERE request_id IS NOT NULL"
        ).to_arrow_reader(1 << 16):
            self._sieve.add(batch.column(0).to_pylist())

    def look_up(self, ids: Iterable[str]) -> dict[str, int]:
        """Return those of the ids that have a release, with it; `get` knows them until next time.

        However many they are, it is at most one look into the store.
        """
        wanted = set(ids)
        if not wanted <= self._looked_up:
            ahead = self._store(self._sieve.passes(list(wanted)))
            self._looked_up = set()  # interrupted anywhere, no id passes for one without a release
            self._ahead = ahead
            self._looked_up = wanted
        return {id: self._ahead[id] for id in wanted if id in self._ahead}

    def get(self, id: str) -> int | None:
        """Return the release of an id, if there is one."""
        if id in self._looked_up:
            return self._ahead.get(id)
        return self._store(self._sieve.passes([id])).get(id)

    def add(self, numbers: dict[str, int]) -> None:
        """Know ids that have been written since."""
        self._sieve.add(list(numbers))
        self._ahead.update((id, n) for id, n in numbers.items() if id in self._looked_up)

    def _store(self, ids: Sequence[str]) -> dict[str, int]:
        if not ids:
            return {}
        return dict(
            self._con.execute(
                "SELECT request_id, id FROM ledger.release "
                "WHERE request_id IN (SELECT unnest(?::VARCHAR[]))",
                [ids],
            ).fetchall()
        )


# -- the durable side of the ledger: every release with its charges, in one transaction ------------

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


class Journal:
    """The releases and charges of one store, on a connection that only the store uses.

    Args:
        connection: To the store.
        former: The last release of the version that had no askers, 0 if there was none: what it
            released is found under the former spelling of a request, and nothing later is.
        session: Which is told what is durable.

    Attributes:
        committing: A commit has begun and has not ended: what it wrote, only the file knows.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        former: int = 0,
        session: StoreSession | None = None,
    ) -> None:
        self._con, self._former = connection, former
        self._session = session or StoreSession(connection)
        self._segments = Segments(connection)
        self._last = self._number("SELECT coalesce(max(id), 0) FROM ledger.release")
        self.requests = RequestIds(connection)
        self._noted: set[str] = set()
        self._unfolded = 0
        self._ahead: dict[int, Release] = {}
        self._chain: RootChain | None = None
        self.committing = False

    @property
    def next_id(self) -> int:
        """The id of the release to come."""
        return self._last + 1

    def recorded(self, request: RequestId | None, query: str) -> Release | None:
        """Return the release that `request` stands for, if there is one.

        Raises:
            ParameterError: The name is empty.
            QueryRefused: The name was given to another query.
        """
        if request is None:
            return None
        if not request.text.strip():
            raise ParameterError("the request id is empty", "give one, or none at all")
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
        """Return what an earlier version released for this very request, if it did."""
        if not self._former or not request.former:
            return None
        release = self.under(RequestId.of_analyst(request.former))
        known = release is not None and release.id <= self._former and release.query == query
        return release if known else None

    def read_ahead(self, requests: Iterable[RequestId]) -> None:
        """Read the releases of these requests, all at once; they are kept until the next call."""
        numbers = self.requests.look_up(request.stored for request in requests).values()
        self._ahead = {}
        if numbers:
            rows = self._con.execute(
                f"SELECT {self._segments.public} FROM ledger.release WHERE id BETWEEN ? AND ? "
                "AND id IN (SELECT unnest(?::BIGINT[]))",
                [min(numbers), max(numbers), list(numbers)],
            ).fetchall()
            self._ahead = {release.id: release for release in map(_release, rows)}

    def under(self, request: RequestId) -> Release | None:
        """Return what was released for a request, whatever its query, if anything was."""
        number = self.number(request)
        return None if number is None else self._ahead.get(number) or self.read(number)

    def number(self, request: RequestId) -> int | None:
        """Return the release of a request, whatever its query, if there is one."""
        return self.requests.get(request.stored)

    def numbers(self, requests: Iterable[RequestId]) -> dict[RequestId, int]:
        """Return the releases of requests, of those that have one."""
        stored = {request.stored: request for request in requests}
        return {stored[text]: n for text, n in self.requests.look_up(stored).items()}

    def names(self, releases: Iterable[int]) -> dict[int, RequestId]:
        """Return what releases were called, of those that have a name."""
        rows = self._con.execute(
            "SELECT id, request_id FROM ledger.release "
            "WHERE request_id IS NOT NULL AND id IN (SELECT unnest(?::BIGINT[]))",
            [list(releases)],
        ).fetchall()
        return {number: RequestId.read(stored) for number, stored in rows}

    def commit(self, entries: Sequence[Entry]) -> None:
        """Write releases and their charges durably, all or none: one transaction.

        The transaction is begun here, not left to the connection: had an interrupt left one open,
        the rows would wait for its end, and BEGIN fails instead. After any failure it is unknown
        what was written, and the connection must not be used again.
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
        """Return what gives the next release its root."""
        if self._chain is None:
            last = self.read(self._last) if self._last else None
            self._chain = RootChain.after(last, DuckNotes(self._con).fact)
        return self._chain

    def past(self) -> Iterator[tuple[Release, Parts]]:
        """Yield all releases in order, and whom they charged. Private."""
        life = {r["release"]: r for r in DuckNotes(self._con).read(LIFETIMES, None, {}).to_pylist()}
        columns = f"{self._segments.public}, users, charges, departed"
        cursor = self._con.execute(f"SELECT {columns} FROM ledger.release ORDER BY id")
        while rows := cursor.fetchmany(16):
            for *public, users, charges, departed in rows:
                release = _release(public)
                whole = life.get(release.id, {"people": b"", "units": b""})
                yield (
                    release,
                    (users, charges, departed or b"", whole["people"], whole["units"]),
                )

    def restore(self, pots: Pots) -> None:
        """Set what everybody has spent to what the charges say.

        Raises:
            StoreError: The ledger contradicts itself.
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
        """Start from the last snapshot; return the release that it was taken after."""
        latest = self._con.execute(
            "SELECT release_id, pot, spent FROM ledger.snapshot "
            "WHERE release_id = (SELECT max(release_id) FROM ledger.snapshot)"
        ).fetchall()
        for since, pot, packed in latest:
            spent = unpack(packed)
            if since > self._last or len(spent) > len(pots):
                raise StoreError("the ledger has a snapshot that fits no release", "restore a copy")
            pots[Pot(pot)].spent[: len(spent)] = spent
        return int(latest[0][0]) if latest else 0

    def restore_departures(self, departures: Departures) -> None:
        """Set who has been left out of a query, and of which first, to what was written.

        Raises:
            StoreError: The ledger contradicts itself.
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
        """Take a snapshot if `at_least` charges have piled up since the last one.

        Each statement leaves the ledger whole: the latest snapshot counts, however many there are.
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
        """Return who paid how much for a release. Private."""
        ((users, charges),) = self._con.execute(
            "SELECT users, charges FROM ledger.release WHERE id = ?", [release_id]
        ).fetchall()
        return unpack_set(users), unpack(charges)

    def read(self, release_id: int) -> Release:
        """Return one release.

        Raises:
            StoreError: There is none of that number.
        """
        rows = self._con.execute(
            f"SELECT {self._segments.public} FROM ledger.release WHERE id = ?", [release_id]
        ).fetchall()
        if not rows:
            raise StoreError(
                f"there is no release {release_id}", "`sparseq history` lists the releases"
            )
        return _release(rows[0])

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """Return the releases, or those before one, oldest first; the `last` of them if given."""
        until = self.next_id if before is None else min(before, self.next_id)
        first = 1 if last is None else max(until - last, 1)
        rows = self._con.execute(
            f"SELECT {self._segments.public} FROM ledger.release WHERE id >= ? AND id < ? "
            "ORDER BY id",
            [first, until],
        ).fetchall()
        return [_release(row) for row in rows]

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


def _release(row: Sequence[object]) -> Release:
    values = list(row)
    values[1] = None if values[1] is None else RequestId.read(str(values[1]))
    values[5], values[6] = tuple(values[5]), tuple(values[6])  # type: ignore[arg-type]
    values[9] = Pot(values[9])  # type: ignore[arg-type]
    values[10:] = [b.hex() if b else "" for b in values[10:]]  # type: ignore[attr-defined]
    return Release(*values)  # type: ignore[arg-type]


def _merge_notes(notes: Sequence[Note]) -> list[Note]:
    """Return notes without the facts that a later one of them replaces, a table's rows together."""
    last = {note.key: note for note in notes if isinstance(note, Fact)}
    rows: dict[NoteTable, list[pa.Table]] = defaultdict(list)
    for note in notes:
        if isinstance(note, NoteRows):
            rows[note.of].append(note.table)
    together = [NoteRows(of, pa.concat_tables(tables)) for of, tables in rows.items()]
    others = [n for n in notes if not isinstance(n, NoteRows)]
    return [*(n for n in others if not isinstance(n, Fact) or last[n.key] is n), *together]
