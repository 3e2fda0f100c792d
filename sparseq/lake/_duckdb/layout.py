"""The layout of rows in buckets, which are small stores, by a keyed hash of their users.

The hash is SHA-256 of the lake's key and the identifier as text, so it is the same in all versions,
and a user who chooses identifiers can't fill one bucket.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base._duckdb.connection import connect
from sparseq.base.errors import ParameterError
from sparseq.base.sql_text import quote
from sparseq.base.whole_files import PRIVATE, make_durable
from sparseq.engine._duckdb.people import kind_of
from sparseq.lake._duckdb.bucket import Bucket
from sparseq.lake._duckdb.key_file import KeyFile, digest_of
from sparseq.load.key_chain import check_declared, declared_links
from sparseq.load.load_rows import IncomingRows
from sparseq.load.read_schema import Declarations, Schema, check_named
from sparseq.question.catalog import Catalog, KeyLink, Table, columns_of
from sparseq.store._duckdb.create_file import (
    Declaration,
    DeclaredFacts,
    budget_column_of,
    check_bounds,
    create_file,
)
from sparseq.store._duckdb.file_backend import DuckBackend
from sparseq.store._duckdb.open_file import open_backend

_BUCKET, _PLACE = "#bucket", "#place"


@dataclass(frozen=True)
class Laid:
    """A bucket that was written, and that no commit refers to yet.

    Attributes:
        bucket: The index of the bucket.
        file: Its name, which contains the digest.
        rows: The number of its rows in all private tables.
        budgets: The budgets of its users, by index: private.
        told: Messages for the curator: private.
    """

    bucket: int
    file: str
    rows: int
    budgets: NDArray[Any]
    told: list[str]


class Shuffle:
    """Rows on their way into buckets: private, in a temporary database.

    Args:
        folder: The folder of the lake; the database lies in it while this is used.
        key: The key of the hash.
        count: The number of buckets.
    """

    def __init__(self, folder: Path, key: bytes, count: int) -> None:
        self._folder, self._key, self._count = folder, key, count
        self._path = folder / f".shuffle-{secrets.token_hex(8)}"
        self._con = connect(self._path)
        self._columns: dict[str, str] = {}
        self.told: list[str] = []

    def take(self, name: str, rows: IncomingRows, types: Mapping[str, str], user: str) -> None:
        """Load the rows of a table.

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

    def buckets_of(self, name: str) -> list[int]:
        """Return the buckets that rows of a table belong to."""
        sql = f'SELECT DISTINCT "{_BUCKET}" FROM {quote(name)} ORDER BY 1'
        return [bucket for (bucket,) in self._con.execute(sql).fetchall()]

    def rows(self, name: str, bucket: int) -> pa.Table:
        """Return a table's rows for a bucket, in their order."""
        return self._con.sql(
            f'SELECT {self._columns[name]} FROM {quote(name)} WHERE "{_BUCKET}" = {bucket} '
            f'ORDER BY "{_PLACE}"'
        ).to_arrow_table()

    def close(self) -> None:
        """Remove the database."""
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
        made: The declaration of the store.

    Raises:
        DataError, ParameterError: See `sparseq.create`.

    Attributes:
        schemas: The schemas for files of each private table.
        links: The links of tables that find their users by keys.
        keys: The name of the file of keys; "" without such a file.
    """

    def __init__(self, folder: Path, key: bytes, count: int, made: Declaration) -> None:
        if "," in made.user or any("," in user for user in made.chains().users.values()):
            raise ParameterError("a lake has one column that identifies the user of a row")
        self._folder, self._key, self._count, self._made = folder, key, count, made
        self.schemas: dict[str, Schema] = {}
        self._public_schemas: dict[str, Schema] = {}
        self._types: dict[str, dict[str, str]] = {}
        self._not_null: dict[str, frozenset[str]] = {}
        self._zoned: dict[str, frozenset[str]] = {}
        self._users: dict[str, str] = {}
        self._shuffle = Shuffle(folder, key, count)
        self._chains = made.chains()
        self.links: dict[str, KeyLink] = {}
        self.keys = ""
        try:
            self._take_all()
            self._public = {name: self._public_rows(name) for name in made.public}
            schemas = self.schemas | self._public_schemas
            check_named(schemas, made.read_as, made.public, made.shared())
        except BaseException:
            self._shuffle.close()
            raise

    def _take_all(self) -> None:
        """Load the rows of all tables."""
        made, chains = self._made, self._chains
        elsewhere = declared_links({**made.sources, **made.public}, made.read_as)
        check_declared(chains, elsewhere, made.public, made.really_public)
        opened = {
            name: IncomingRows(
                made.sources[name], declared=made.read_as.of(name), user=chains.users[name]
            )
            for name in chains.order()
        }
        tables = list[Table]()
        for name, rows in opened.items():
            rows.check_people(name, linked=name in chains.links and not chains.users[name])
        private = {name: rows.usable() for name, rows in opened.items()}
        facts = made.facts(private, dict.fromkeys(made.public, ()))
        for name, rows in opened.items():
            tables.append(self._table(name, rows, facts, {t.name: t for t in tables}))
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
                    for led in keys.take(table, opened[table.name], table.in_files, new=True):
                        self._shuffle.told += led.told
                        types = {c.name: c.type for c in led.table.columns}
                        self._take(led.table, IncomingRows(led.rows, Schema(types)))
                self.keys = keys.named()
        for rows in opened.values():
            rows.close()

    def _table(
        self, name: str, rows: IncomingRows, facts: DeclaredFacts, before: Mapping[str, Table]
    ) -> Table:
        """Return a table, from its files and the tables that it leads to."""
        made, chains, types = self._made, self._chains, rows.usable()
        above = chains.links.get(name)
        parent = before[above.parent] if above else None
        link = chains.link_of(name, types, parent.in_files if parent else {})
        check_bounds(facts, name, link, chains.below(name, types))
        budget_column_of(made, facts, name, rows.user, link)
        user = next((c for c in types if c.lower() == rows.user.lower()), "")
        if parent is not None and link is not None:
            user = chains.user_name(name, types)
            types[user] = parent.column(parent.user).type
            self.links[name] = link
        columns = columns_of(types, {user, *rows.schema.not_null}, rows.schema.zoned)
        return Table(name, columns, user, link=link)

    def _take(self, table: Table, rows: IncomingRows) -> None:
        self._shuffle.take(table.name, rows, self._types[table.name], table.user)

    def _public_rows(self, name: str) -> pa.Table:
        """Return a public table, which every bucket has."""
        rows = IncomingRows(
            self._made.public[name], declared=replace(self._made.read_as.of(name), bounds={})
        )
        if name not in self._made.really_public:
            rows.check_public(name, self._chains.ways())
        self._types[name] = rows.usable()
        self._not_null[name], self._zoned[name] = rows.schema.not_null, rows.schema.zoned
        self._public_schemas[name] = rows.schema
        with connect() as con:
            rows.read(con, self._types[name])
            found = con.sql("FROM staged").to_arrow_table()
        rows.close()
        return found

    def _said(self) -> dict[str, dict[str, str]]:
        """Return the declared columns of all tables."""

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
                    links={},
                    users=self._users,
                    marks="",  # these belong to the lake
                )
                working = self._folder / f".bucket-{secrets.token_hex(8)}"
                create_file(working, small)
                told = self._shuffle.told if bucket == 0 else []
                yield _name(self._folder, self._key, bucket, working, told)
        finally:
            self._shuffle.close()


def _name(folder: Path, key: bytes, bucket: int, working: Path, told: list[str]) -> Laid:
    """Rename a finished bucket, so that its name contains its digest."""
    name = f"{bucket:05d}-{digest_of(working, key)}-{secrets.token_hex(4)}.bucket"
    os.replace(working, folder / name)
    make_durable(folder / name)
    opened = Bucket(str(folder / name))
    rows = sum(opened.count_rows(table.name).inside() for table in opened.catalog.private)
    laid = Laid(bucket, name, rows, opened.budgets(), [*told, *opened.told().for_curator()])
    opened.close()
    return laid


def rewritten(
    folder: Path, key: bytes, bucket: int, file: str, change: Callable[[DuckBackend], None]
) -> Laid:
    """Write a new version of a bucket with a change; the previous version stays unchanged."""
    working = folder / f".bucket-{secrets.token_hex(8)}"
    working.touch(PRIVATE)
    shutil.copyfile(folder / file, working)
    try:
        backend = open_backend(working)
        try:
            before = len(backend.curator_log().for_curator())
            change(backend)
            told = [line.message for line in backend.curator_log().for_curator()[before:]]
            backend.close()
        finally:
            backend.release()
        return replace(_name(folder, key, bucket, working, []), told=told)
    finally:
        for leftover in (working, Path(f"{working}.wal"), Path(f"{working}.session")):
            leftover.unlink(missing_ok=True)
