"""Laying rows out: by a keyed hash of whom they are about, in buckets that are small stores.

The hash is SHA-256 of the lake's key and the identifier as text, so it is the same in any version
of anything, and whoever chooses identifiers can't fill one bucket.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError, StoreError
from sparseq.base.whole_files import PRIVATE, make_durable
from sparseq.engine._duckdb.connection import ReplaceableConnection, connect
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.engine._duckdb.people import kind_of, numbers_of
from sparseq.engine._duckdb.storage import Storage
from sparseq.engine.contributions import Ints
from sparseq.engine.protocol import USER, quote
from sparseq.lake._duckdb.key_file import KeyFile, digest_of
from sparseq.ledger._duckdb.notes import CuratorLog
from sparseq.ledger.accounts import Person
from sparseq.load.key_chain import check_declared, declared_links
from sparseq.load.load_rows import IncomingRows
from sparseq.load.memory_table import DICTIONARY_LIMIT
from sparseq.load.read_schema import Declarations, Schema, check_named
from sparseq.sql.catalog import Catalog, KeyLink, Table, columns_of
from sparseq.store._duckdb.create_file import (
    Declaration,
    budget_column_of,
    check_bounds,
    create_file,
)
from sparseq.store._duckdb.file_backend import DuckBackend, machine_memory
from sparseq.store._duckdb.open_file import open_backend

# -- a bucket: all rows of some people, in a store's file that nobody writes to any more -----------

_MOST_OPEN = 64
_open: OrderedDict[str, Bucket] = OrderedDict()
_opening = threading.Lock()


class Bucket:
    """The rows of a bucket, for reading: several processes can have it open.

    Attributes:
        lock: Of this process's threads, one at a time uses it: whoever does holds the lock.
        engine: The engine of one machine, over these rows.
        people: How many there are: numbers 0, 1, …
    """

    def __init__(self, path: str) -> None:
        if not Path(path).is_file():
            raise StoreError(
                f"there is no bucket {Path(path).name} any more",
                "open the lake again; if it is still not there, restore a copy",
            )
        self._path, self.lock = path, threading.RLock()
        held = ReplaceableConnection(self._connect())
        connection = self._con = cast(duckdb.DuckDBPyConnection, held)
        self._storage = Storage(connection)
        self.catalog = self._storage.catalog()
        cache = machine_memory() // (4 * _MOST_OPEN)
        self.engine = DuckEngine(
            connection, cache, self.catalog, lambda: held.replace(self._connect)
        )
        ((self.people,),) = connection.execute("SELECT count(*) FROM ledger.users").fetchall()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return connect(self._path, locked=True, read_only=True)

    def rows(self, table: str, columns: Sequence[str]) -> pa.Table:
        """Return some columns of a private table, in order of person; strings as they are."""
        parts = self.engine.by_people(
            self.catalog.table(table), columns, pa.Table.from_batches, self.people
        )
        return pa.concat_tables(parts)

    def identifiers(self, places: Sequence[int]) -> list[Any]:
        """Return what people are called, by their numbers."""
        found = self._con.execute(
            f"SELECT {USER}, id FROM ledger.users WHERE {USER} IN (SELECT unnest(?::INTEGER[]))",
            [list(places)],
        ).fetchall()
        names = dict(found)
        return [names.get(place) for place in places]

    def budgets(self) -> Any:
        """Return everybody's budget, in ledger units."""
        return self._con.execute(f"SELECT budget FROM ledger.users ORDER BY {USER}").fetchnumpy()[
            "budget"
        ]

    def find(self, identifier: str) -> Person | None:
        """Return whose identifier it is, None if nobody's."""
        return self._storage.people().find(identifier)

    def count_rows(self, table: str, place: int | None = None) -> int:
        """Return how many rows a private table has here, or has of one person."""
        if place is not None:
            return self._storage.count_rows(self.catalog.table(table), [place])
        sql = f"SELECT count(*) FROM by_user.{quote(table)}"
        ((rows,),) = self._con.execute(sql).fetchall()
        return int(rows)

    def told(self) -> list[str]:
        """Return what its curator should know of its rows: private."""
        return [n.message for n in CuratorLog(self._con).entries() if n.kind == "ingest"]

    def numbers_of(self, identifiers: pa.Array) -> Ints:
        """Return the numbers of people by identifier, -1 for whom there is no account."""
        return numbers_of(self._con, identifiers)

    def public_twin(self) -> tuple[str, dict[str, pa.Table]]:
        """Return SQL that makes its tables, empty, and the rows of the public ones."""
        public = [table for table in self.catalog.tables if not table.private]
        rows = {table.name: self._storage.public_rows(table) for table in public}
        return self._storage.empty_tables(self.catalog), rows

    def schema(self, table: str) -> Schema:
        """Return how the rows of a private table are read."""
        return self._storage.schema(self.catalog.table(table))

    def close(self) -> None:
        """Let go of the file."""
        self._con.close()


def bucket_at(path: Path | str) -> Bucket:
    """Return a bucket by its file's name, which says what is in it; some stay open."""
    name = str(path)
    with _opening:
        if name in _open:
            _open.move_to_end(name)
            return _open[name]
        while len(_open) >= _MOST_OPEN:
            _open.popitem(last=False)  # it is closed when nobody uses it any more
        return _open.setdefault(name, Bucket(name))


# -- laying rows out -------------------------------------------------------------------------------

_BUCKET, _PLACE = "#bucket", "#place"


@dataclass(frozen=True)
class Laid:
    """A bucket that was written, and that nothing refers to yet.

    Attributes:
        bucket: Which.
        file: Its name, which says what is in it.
        rows: How many rows it has, of all private tables.
        budgets: Of its people, by place: private.
        told: What its curator should know: private.
    """

    bucket: int
    file: str
    rows: int
    budgets: NDArray[Any]
    told: list[str]


class Shuffle:
    """Rows on their way into buckets: private, in a temporary database.

    Args:
        folder: Of the lake; the database lies in it while this is used.
        key: Of the hash.
        count: How many buckets.
    """

    def __init__(self, folder: Path, key: bytes, count: int) -> None:
        self._folder, self._key, self._count = folder, key, count
        self._path = folder / f".shuffle-{secrets.token_hex(8)}"
        self._con = connect(self._path)
        self._columns: dict[str, str] = {}
        self.told: list[str] = []

    def take(self, name: str, rows: IncomingRows, types: Mapping[str, str], user: str) -> None:
        """Take in the rows of a table.

        Raises:
            DataError: A file can't be read, or lacks a column.
        """
        rows.read(self._con, types, user)
        self.told += [f"{name}: {message}" for message in rows.told.messages()]
        whom = f"CAST({quote(user)} AS {kind_of(types[user])})"
        self._columns[name] = ", ".join(map(quote, types))
        self._con.execute(
            f"CREATE TABLE {quote(name)} AS WITH homes AS (SELECT id, "
            f"{_home(self._key, self._count)} AS home "
            f"FROM (SELECT DISTINCT {whom} AS id FROM staged)) "
            f'SELECT s.*, coalesce(home, 0) AS "{_BUCKET}", s.rowid AS "{_PLACE}" '
            f"FROM staged AS s LEFT JOIN homes ON homes.id = {whom} "
            f'ORDER BY "{_BUCKET}", "{_PLACE}"'
        )
        self._con.execute("DROP TABLE staged")

    def few(self, name: str, types: Mapping[str, str]) -> frozenset[str]:
        """Return the text columns of a table that are worth a dictionary."""
        texts = [column for column, type in types.items() if type == "VARCHAR"]
        if not texts:
            return frozenset()
        counts = ", ".join(f"count(DISTINCT {quote(c)})" for c in texts)
        (found,) = self._con.execute(f"SELECT {counts} FROM {quote(name)}").fetchall()
        return frozenset(c for c, n in zip(texts, found, strict=True) if n <= DICTIONARY_LIMIT)

    def buckets_of(self, name: str) -> list[int]:
        """Return the buckets that rows of a table are for."""
        sql = f'SELECT DISTINCT "{_BUCKET}" FROM {quote(name)} ORDER BY 1'
        return [bucket for (bucket,) in self._con.execute(sql).fetchall()]

    def rows(self, name: str, bucket: int) -> pa.Table:
        """Return a table's rows for a bucket, in their order."""
        return self._con.sql(
            f'SELECT {self._columns[name]} FROM {quote(name)} WHERE "{_BUCKET}" = {bucket} '
            f'ORDER BY "{_PLACE}"'
        ).to_arrow_table()

    def close(self) -> None:
        """Remove all of it."""
        self._con.close()
        for leftover in (self._path, Path(f"{self._path}.wal")):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(f"{self._path}.tmp", ignore_errors=True)


def homes(identifiers: pa.Array, kind: str, key: bytes, count: int) -> list[int | None]:
    """Return the bucket of each identifier."""
    with connect() as con:
        con.register("given", pa.table({"id": identifiers}))
        found = con.execute(
            f"SELECT {_home(key, count)} FROM (SELECT CAST(id AS {kind_of(kind)}) AS id FROM given)"
        ).fetchall()
    return [home for (home,) in found]


def _home(key: bytes, count: int) -> str:
    """Return SQL for the bucket of an identifier `id`: the first 60 bits of its hash."""
    digest = f"substr(sha256('{key.hex()}' || CAST(id AS VARCHAR)), 1, 15)"
    return f"CAST(CAST('0x' || {digest} AS BIGINT) % {count} AS INTEGER)"


class NewBuckets:
    """The buckets of a new lake.

    Args:
        folder, key, count: See `Shuffle`.
        made: What they are made of.

    Raises:
        DataError, ParameterError: See `sparseq.create`.

    Attributes:
        schemas: How the files of each private table are read.
        links: Of the tables whose people are found by keys.
        keys: Name of the file of keys; "": there is none.
    """

    def __init__(self, folder: Path, key: bytes, count: int, made: Declaration) -> None:
        if "," in made.user or any("," in user for user in made.chains().users.values()):
            raise ParameterError("a lake has one column that says whom a row is about")
        self._folder, self._key, self._count, self._made = folder, key, count, made
        self.schemas: dict[str, Schema] = {}
        self._public_schemas: list[Schema] = []
        self._types: dict[str, dict[str, str]] = {}
        self._not_null: dict[str, frozenset[str]] = {}
        self._zoned: dict[str, frozenset[str]] = {}
        self._users: dict[str, str] = {}
        self._coded: dict[str, frozenset[str]] = {}
        self._shuffle = Shuffle(folder, key, count)
        self._chains = made.chains()
        self.links: dict[str, KeyLink] = {}
        self.keys = ""
        try:
            self._take_all()
            self._public = {name: self._public_rows(name) for name in made.public}
            known = {column.lower() for types in self._types.values() for column in types}
            for name in made.read_as.types:
                if name.lower() not in known:
                    raise ParameterError(f"no table has a column {name!r}", "check --type")
            check_named([*self.schemas.values(), *self._public_schemas], made.read_as)
        except BaseException:
            self._shuffle.close()
            raise

    def _take_all(self) -> None:
        """Take in the rows of all tables."""
        made, chains = self._made, self._chains
        elsewhere = declared_links({**made.sources, **made.public}, made.read_as.rename)
        check_declared(chains, elsewhere, made.public, made.really_public)
        opened = {
            name: IncomingRows(
                made.sources[name], declared=made.read_as.of(name), user=chains.users[name]
            )
            for name in chains.order()
        }
        tables = list[Table]()
        for name, rows in opened.items():
            tables.append(self._table(name, rows, {t.name: t for t in tables}))
            self._types[name] = {c.name: c.type for c in tables[-1].columns}
            self._not_null[name], self._zoned[name] = tables[-1].not_null, tables[-1].zoned
            self._users[name] = tables[-1].user
            self.schemas[name] = rows.schema
        if not self.links:
            for table in tables:
                self._take(table, opened[table.name])
        else:
            with KeyFile(self._folder, self._key, Catalog(tuple(tables)), "") as keys:
                for table in tables:
                    keys.add(table)
                for table in tables:
                    for led in keys.take(table, opened[table.name], table.in_files, check=True):
                        self._shuffle.told += led.told
                        types = {c.name: c.type for c in led.table.columns}
                        self._take(led.table, IncomingRows(led.rows, Schema(types)))
                self.keys = keys.named()
        for rows in opened.values():
            rows.close()

    def _table(self, name: str, rows: IncomingRows, before: Mapping[str, Table]) -> Table:
        """Return a table, by its files and the tables that it leads to."""
        made, chains, types = self._made, self._chains, rows.usable()
        whose, above = chains.users[name], chains.links.get(name)
        rows.check_people(name, linked=not whose)
        parent = before[above.parent] if above else None
        link = chains.link_of(name, types, parent.in_files if parent else {})
        check_bounds(made, name, link, chains.below(name, types))
        budget_column_of(made, name, types, rows.user, link)
        user = next((c for c in types if c.lower() == rows.user.lower()), "")
        if parent is not None and link is not None:
            user = chains.user_name(name, types)
            types[user] = parent.column(parent.user).type
            self.links[name] = link
        columns = columns_of(types, {user, *rows.schema.not_null}, rows.schema.zoned)
        return Table(name, columns, user, link=link)

    def _take(self, table: Table, rows: IncomingRows) -> None:
        types = self._types[table.name]
        self._shuffle.take(table.name, rows, types, table.user)
        self._coded[table.name] = self._shuffle.few(table.name, types)

    def _public_rows(self, name: str) -> pa.Table:
        """Return a public table, which every bucket has."""
        rows = IncomingRows(
            self._made.public[name], declared=replace(self._made.read_as.of(name), bounds={})
        )
        if name not in self._made.really_public:
            rows.check_public(name, self._chains.ways())
        self._types[name] = rows.usable()
        self._not_null[name], self._zoned[name] = rows.schema.not_null, rows.schema.zoned
        self._public_schemas.append(rows.schema)
        with connect() as con:
            rows.read(con, self._types[name])
            found = con.sql("FROM staged").to_arrow_table()
        rows.close()
        return found

    def _said(self) -> dict[str, dict[str, str]]:
        """Return the columns of all tables as they are declared."""

        def said(table: str, column: str, type: str) -> str:
            kind = "TIMESTAMPTZ" if column in self._zoned[table] else type
            return f"{kind} NOT NULL" if column in self._not_null[table] else kind

        return {
            name: {column: said(name, column, type) for column, type in types.items()}
            for name, types in self._types.items()
        }

    def written(self) -> Iterator[Laid]:
        """Write the buckets, one after the other."""
        try:
            for bucket in range(self._count):
                small = replace(
                    self._made,
                    sources={name: self._shuffle.rows(name, bucket) for name in self._made.sources},
                    public=self._public,
                    read_as=Declarations(schemas=self._said()),
                    again=True,
                    coded=self._coded,
                    links={},
                    users=self._users,
                    marks="",  # it is the lake's
                )
                working = self._folder / f".bucket-{secrets.token_hex(8)}"
                create_file(working, small)
                told = self._shuffle.told if bucket == 0 else []
                yield _name(self._folder, self._key, bucket, working, told)
        finally:
            self._shuffle.close()


def _name(folder: Path, key: bytes, bucket: int, working: Path, told: list[str]) -> Laid:
    """Give a finished bucket the name that says what is in it."""
    name = f"{bucket:05d}-{digest_of(working, key)}-{secrets.token_hex(4)}.bucket"
    os.replace(working, folder / name)
    make_durable(folder / name)
    opened = Bucket(str(folder / name))
    rows = sum(opened.count_rows(table.name) for table in opened.catalog.private)
    laid = Laid(bucket, name, rows, opened.budgets(), [*told, *opened.told()])
    opened.close()
    return laid


def rewritten(
    folder: Path, key: bytes, bucket: int, file: str, change: Callable[[DuckBackend], None]
) -> Laid:
    """Write a bucket anew with a change; the one before stays as it is."""
    working = folder / f".bucket-{secrets.token_hex(8)}"
    working.touch(PRIVATE)
    shutil.copyfile(folder / file, working)
    try:
        backend = open_backend(working)
        try:
            before = len(backend.curator_log())
            change(backend)
            told = [line.message for line in backend.curator_log()[before:]]
            backend.close()
        finally:
            backend.release()
        return replace(_name(folder, key, bucket, working, []), told=told)
    finally:
        for leftover in (working, Path(f"{working}.wal"), Path(f"{working}.session")):
            leftover.unlink(missing_ok=True)
