"""A lake's keys that lead to users, and the rows that wait for one: a file next to the buckets.

It gives each row its user before the row is laid out, so every bucket has rows with their users
only. Like a bucket, it is never changed: a change makes a new file, and a commit makes it the
current one. Only the process that loads rows reads it, and no task does.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from sparseq.base._duckdb.connection import connect
from sparseq.base.errors import StoreError
from sparseq.base.private import Private
from sparseq.base.sql_text import quote
from sparseq.base.whole_files import PRIVATE, make_durable
from sparseq.engine._duckdb.people import People, kind_of
from sparseq.engine.protocol import USER
from sparseq.load._duckdb.erasure import scrub, scrub_later
from sparseq.load._duckdb.linked_rows import KeyIndex, LinkedRows, forget_linked
from sparseq.load._duckdb.storage import FACTS, SCHEMAS, Storage
from sparseq.load.load_rows import IncomingRows
from sparseq.question.catalog import Catalog, Table


@dataclass(frozen=True)
class OwnedRows:
    """Rows of a table with their user column, and messages about them."""

    table: Table
    rows: pa.Table
    told: list[str]


class KeyFile:
    """A new file of keys, until it gets its name; a context manager.

    Args:
        folder: The folder of the buckets.
        key: The key of the lake; identifiers and keys of erased users are hashed under it.
        catalog: The lake's tables.
        file: The name of the previous file; "" for a new lake.

    Raises:
        StoreError: The file before does not exist any more.
    """

    def __init__(self, folder: Path, key: bytes, catalog: Catalog, file: str) -> None:
        self._folder, self._key, self._catalog = folder, key, catalog
        self._path = folder / f".keys-{secrets.token_hex(8)}"
        if file and not (folder / file).is_file():
            raise StoreError("the lake's keys are not there any more", "open the lake again")
        self._path.touch(PRIVATE)
        if file:
            shutil.copyfile(folder / file, self._path)
        else:
            self._path.unlink()
        self._con = connect(self._path)
        first = catalog.private[0]
        kind = kind_of(first.column(first.user).type)
        self._people = People(self._con, kind, key)
        if not file:
            self._con.execute(f"{SCHEMAS}{FACTS} CREATE SCHEMA ledger;")
            self._people.create_tables()

    def add(self, table: Table) -> None:
        """Create the tables for one table, empty; the tables that it leads to were added before."""
        self._catalog = self._catalog.with_table(table)
        for keys in self._catalog.below(table):
            KeyIndex(self._con, table.name, keys).create(table)
        if table.link is not None:
            LinkedRows(self._con, table).create()

    def take(
        self, table: Table, rows: IncomingRows, types: Mapping[str, str], new: bool = False
    ) -> list[OwnedRows]:
        """Load rows of a table; return rows that have a user now, also of the tables below.

        Args:
            table: The table of the rows.
            rows: The rows to read.
            types: The types of the columns in files, and of users' own budgets.
            new: True if the table is new: see `KeyIndex.claim`.

        Raises:
            DataError: A file can't be read, lacks a column, or is about several users.
        """
        linked = LinkedRows(self._con, table) if table.link else None
        below = {name for keys in self._catalog.below(table) for name in keys}
        whole = {*below, *(table.link.columns if table.link else ())}
        rows.read(self._con, types, "" if linked else table.user, 0, whole)
        told = rows.told.messages()
        if linked is None:
            self._people.open_accounts(table.user, 0, "")
        elif table.link is not None:
            told += linked.find().messages(table.link)
        return self._find_people(table, types, told, new)

    def _find_people(
        self, table: Table, types: Mapping[str, str], told: list[str], new: bool
    ) -> list[OwnedRows]:
        """Return the staged rows that have a user, and those that have waited for them."""
        user = quote(table.user)
        columns = [f"s.{quote(name)}" for name in types]
        whose, names = f"JOIN ledger.users AS u ON u.id = s.{user}", ""
        if table.link is not None:
            columns.append(f"p.id AS {user}")
            whose = LinkedRows(self._con, table).whose
            names = f"JOIN ledger.users AS p ON p.{USER} = u.{USER}"
        rows = self._con.sql(
            f"SELECT {', '.join(columns)} FROM staged AS s {whose} {names} ORDER BY s.rowid"
        ).to_arrow_table()
        for keys in self._catalog.below(table):
            listed = ", ".join(f"s.{quote(key)}" for key in keys)
            claims = f"SELECT {listed}, u.{USER}, s.rowid AS place FROM staged AS s {whose}"
            contested = KeyIndex(self._con, table.name, keys).claim(claims, self._key, new)
            told += contested.messages()
        self._con.execute("DROP TABLE staged")
        found = [OwnedRows(table, rows, [f"{table.name}: {one}" for one in told])]
        for child in self._catalog.children(table):
            came = LinkedRows(self._con, child).stage()
            if came is not None and child.link is not None:
                said = f"{came.rows - came.nobodys:,} waiting rows were added"
                said_of = [said, *came.messages(child.link)]
                found += self._find_people(child, child.in_files, said_of, False)
        return found

    def forget(self, identifiers: Sequence[str]) -> Private[dict[str, int]]:
        """Erase users; return the number of deleted waiting rows, by table."""
        known = [self._people.find(identifier).inside() for identifier in identifiers]
        users = sorted({person.user for person in known if person is not None})
        rows = forget_linked(self._con, self._catalog, users, self._key)
        self._people.forget(users)
        # rows that an earlier version kept here are only marked as deleted
        for table in self._catalog.private:
            self._con.execute(f"DROP TABLE IF EXISTS by_user.{quote(table.name)}")
        scrub_later(Storage(self._con))
        scrub(self._con)
        return Private(rows)

    def named(self) -> str:
        """Give the file a name that contains its digest, and return the name."""
        self._con.execute("CHECKPOINT")
        self._con.close()
        name = f"keys-{digest_of(self._path, self._key)}-{secrets.token_hex(4)}.keys"
        self._path.rename(self._folder / name)
        make_durable(self._folder / name)
        return name

    def __enter__(self) -> KeyFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._con.close()
        for leftover in (self._path, Path(f"{self._path}.wal")):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(f"{self._path}.tmp", ignore_errors=True)


def digest_of(path: Path, key: bytes) -> str:
    """Return the digest of a file's contents that its name contains."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(key=key, digest_size=20))
    return digest.hexdigest()
