"""A bucket: all rows of some people, in a store's file that nobody writes to any more."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.engine._duckdb.connection import ReplaceableConnection, connected
from sparseq.engine._duckdb.engine import DuckEngine
from sparseq.engine._duckdb.people import numbers_of
from sparseq.engine._duckdb.storage import Storage
from sparseq.engine.protocol import USER, quote
from sparseq.engine.reduce import Ints
from sparseq.ledger._duckdb.notes import CuratorLog
from sparseq.ledger.accounts import Person
from sparseq.load.read_schema import Schema
from sparseq.store._duckdb.memory_limit import machine_memory

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
        held = ReplaceableConnection(self._connected())
        connection = self._con = cast(duckdb.DuckDBPyConnection, held)
        self._storage = Storage(connection)
        self.catalog = self._storage.catalog()
        cache = machine_memory() // (4 * _MOST_OPEN)
        self.engine = DuckEngine(
            connection, cache, self.catalog, lambda: held.replace(self._connected)
        )
        ((self.people,),) = connection.execute("SELECT count(*) FROM ledger.users").fetchall()

    def _connected(self) -> duckdb.DuckDBPyConnection:
        return connected(self._path, locked=True, read_only=True)

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
