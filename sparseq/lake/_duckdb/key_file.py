"""A lake's keys that lead to people, and the rows that wait for one: a file beside the buckets.

It says whose a row is before the row is laid out, so that every bucket has rows with their person
alone. As buckets are, it is never written to: a change makes a new one, and a commit says which is
current. It is read by the process that takes rows in, and by no task.
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

from sparseq.base.errors import StoreError
from sparseq.base.whole_files import PRIVATE, make_durable
from sparseq.engine._duckdb.connection import connect
from sparseq.engine._duckdb.people import People, kind_of
from sparseq.engine._duckdb.storage import FACTS, SCHEMAS, Storage, scrub, scrub_later
from sparseq.engine._duckdb.tables import write_anew
from sparseq.engine.protocol import USER, quote
from sparseq.load._duckdb.linked_rows import KeyIndex, LinkedRows, forget_linked
from sparseq.load.load_rows import IncomingRows
from sparseq.sql.catalog import Catalog, Table


@dataclass(frozen=True)
class OwnedRows:
    """Rows of a table, with the column that says whom each is about; and what is said of them."""

    table: Table
    rows: pa.Table
    told: list[str]


class KeyFile:
    """A new file of keys, until it is named; a context manager.

    Args:
        folder: Of the buckets.
        key: Of the lake; erased people's identifiers and keys are hashed under it.
        catalog: The lake's tables.
        file: Name of the one before; "": there is none.

    Raises:
        StoreError: It is not there any more.
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
        """Make what is kept of a table, empty; those that it leads to were added before."""
        self._catalog = self._catalog.with_table(table)
        for keys in self._catalog.below(table):
            KeyIndex(self._con, table.name, keys).create(table)
        if table.link is not None:
            LinkedRows(self._con, table).create()
        names = {name for keys in self._catalog.below(table) for name in keys}
        columns = [f"{quote(n)} {table.column(n).type}" for n in sorted(names)]
        listed = ", ".join([f"{USER} INTEGER NOT NULL", *columns])
        self._con.execute(f"CREATE TABLE by_user.{quote(table.name)} ({listed})")

    def take(
        self, table: Table, rows: IncomingRows, types: Mapping[str, str], check: bool = False
    ) -> list[OwnedRows]:
        """Take in rows of a table; return those that are somebody's now, of the tables below too.

        Args:
            table: Where they come.
            rows: To be read.
            types: Column to its type: what files have, and people's own budgets.
            check: The table is new: see `KeyIndex.check`.

        Raises:
            DataError: A file can't be read, lacks a column, or is about several people.
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
        found = self._find_people(table, types, told)
        for keys in self._catalog.below(table) if check else ():
            KeyIndex(self._con, table.name, keys).check()
        return found

    def _find_people(
        self, table: Table, types: Mapping[str, str], told: list[str]
    ) -> list[OwnedRows]:
        """Return the staged rows that are somebody's, and those that have waited for them."""
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
        kept, below = f"by_user.{quote(table.name)}", self._catalog.below(table)
        keys = sorted({name for names_ in below for name in names_})
        listed = ", ".join([f"u.{USER}", *(f"s.{quote(k)}" for k in keys)])
        self._con.execute(f"INSERT INTO {kept} SELECT {listed} FROM staged AS s {whose}")
        for names_ in below:
            KeyIndex(self._con, table.name, names_).extend(-1, self._key)
        self._con.execute(f"DELETE FROM {kept}")
        self._con.execute("DROP TABLE staged")
        found = [OwnedRows(table, rows, [f"{table.name}: {one}" for one in told])]
        for child in self._catalog.children(table):
            came = LinkedRows(self._con, child).stage()
            if came is not None and child.link is not None:
                said = f"{came.rows - came.several:,} rows that have waited came in"
                found += self._find_people(
                    child, child.in_files, [said, *came.messages(child.link)]
                )
        return found

    def forget(self, identifiers: Sequence[str]) -> dict[str, int]:
        """Erase people; return how many rows that waited are gone, by table."""
        known = [self._people.find(identifier) for identifier in identifiers]
        users = sorted({person.user for person in known if person is not None})
        rows = forget_linked(self._con, self._catalog, users, self._key)
        self._people.forget(users)
        for table in self._catalog.private:  # empty, but DuckDB only marks what was there
            write_anew(self._con, "by_user", table.name)
        scrub_later(Storage(self._con))
        scrub(self._con)
        return rows

    def named(self) -> str:
        """Give the file the name that says what is in it, and return that."""
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
    """Return what is in a file's name of what is in the file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(key=key, digest_size=20))
    return digest.hexdigest()
