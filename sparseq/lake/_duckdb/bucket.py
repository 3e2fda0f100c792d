"""A bucket: all rows of some users, in a store's file that is never written again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa

from sparseq.base._duckdb.connection import ReplaceableConnection, connect
from sparseq.base.errors import StoreError
from sparseq.base.private import Private
from sparseq.base.sql_text import quote
from sparseq.engine._duckdb.contributed_rows import numbers_of
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.engine.protocol import USER
from sparseq.engine.reduction import Ints
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger.accounts import Person
from sparseq.load._duckdb.storage import Storage
from sparseq.load.read_schema import Schema
from sparseq.store._duckdb.file_backend import machine_memory

_MOST_OPEN = 64
_open: OrderedDict[str, Bucket] = OrderedDict()
_opening = threading.Lock()


class Bucket:
    """The rows of a bucket, for reading: several processes can have it open.

    Attributes:
        lock: Held by the thread of this process that uses the bucket.
        engine: The engine for one machine, over these rows.
        people: The number of users: indices 0, 1, …
    """

    def __init__(self, path: str) -> None:
        if not Path(path).is_file():
            raise StoreError(
                f"there is no bucket {Path(path).name} any more",
                "open the lake again; if it is still missing, restore a copy",
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
        """Return some columns of a private table, in order of user; strings are unchanged."""
        parts = self.engine.by_people(
            self.catalog.table(table), columns, pa.Table.from_batches, self.people
        )
        return pa.concat_tables(parts)

    def identifiers(self, places: Sequence[int]) -> list[Any]:
        """Return the identifiers of users, by their indices."""
        found = self._con.execute(
            f"SELECT {USER}, id FROM ledger.users WHERE {USER} IN (SELECT unnest(?::INTEGER[]))",
            [list(places)],
        ).fetchall()
        names = dict(found)
        return [names.get(place) for place in places]

    def budgets(self) -> Any:
        """Return the budgets of all users, in ledger units."""
        return self._con.execute(f"SELECT budget FROM ledger.users ORDER BY {USER}").fetchnumpy()[
            "budget"
        ]

    def find(self, identifier: str) -> Private[Person | None]:
        """Return the user with an identifier, or None."""
        return self._storage.people().find(identifier)

    def count_rows(self, table: str, place: int | None = None) -> Private[int]:
        """Return the number of rows of a private table here, or of those about one user."""
        if place is not None:
            return self._storage.count_rows(self.catalog.table(table), [place])
        sql = f"SELECT count(*) FROM by_user.{quote(table)}"
        ((rows,),) = self._con.execute(sql).fetchall()
        return Private(int(rows))

    def rows_of_each(self, table: str, accounts: int) -> Private[Ints]:
        """Return the number of rows of a private table about each user here."""
        return self._storage.rows_of_each(self.catalog.table(table), accounts)

    def told(self) -> Private[list[str]]:
        """Return messages for the curator about the rows."""
        lines = CuratorLog(self._con).entries()
        return Private([line.message for line in lines if line.kind == "ingest"])

    def numbers_of(self, identifiers: pa.Array) -> Ints:
        """Return the indices of users by identifier, -1 without an account."""
        return numbers_of(self._con, identifiers)

    def public_twin(self) -> tuple[str, dict[str, pa.Table]]:
        """Return SQL that creates its tables, empty, with the rows of the public ones."""
        public = [table for table in self.catalog.tables if not table.private]
        rows = {table.name: self._storage.public_rows(table) for table in public}
        return self._storage.empty_tables(self.catalog), rows

    def schema(self, table: str) -> Schema:
        """Return the schema of the rows of a private table."""
        return self._storage.schema(self.catalog.table(table))

    def close(self) -> None:
        """Close the file."""
        self._con.close()


def bucket_at(path: Path | str) -> Bucket:
    """Return a bucket by its file's name, which contains its digest; some stay open."""
    name = str(path)
    with _opening:
        if name in _open:
            _open.move_to_end(name)
            return _open[name]
        while len(_open) >= _MOST_OPEN:
            _open.popitem(last=False)  # it is closed when no thread uses it any more
        return _open.setdefault(name, Bucket(name))
