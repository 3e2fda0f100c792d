"""Durable releases and notes, for readers in other threads than the stream's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.ledger._duckdb.notes import DuckNotes
from sparseq.ledger._duckdb.release_tables import ReleaseTables
from sparseq.ledger.notes import NoteTable
from sparseq.ledger.releases import Release

if TYPE_CHECKING:
    from sparseq.ledger.accounts import Index

T = TypeVar("T")


class DuckReleaseArchive:
    """See `sparseq.ledger.protocol.ReleaseArchive`: read on a connection of its own.

    DuckDB shows a statement what was committed before it began, and reading waits for no commit and
    for no other reading. Threads may share it: they read one after the other.

    Args:
        open: Returns a connection to the store; None: the store is closed.
    """

    def __init__(self, open: Callable[[], duckdb.DuckDBPyConnection | None]) -> None:
        self._open = open
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lock = threading.Lock()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Let nobody read in the block, and hold no connection: the file is about to change."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            yield

    def _reading(self, read: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            if self._connection is None:
                raise StoreError("the store is closed", "open it again with sparseq.connect")
            return read(self._connection)

    @property
    def next_id(self) -> int:
        """See `ReleaseArchive`."""
        return self._reading(lambda con: ReleaseTables(con).next_id)

    def read(self, release_id: int) -> Release:
        """See `ReleaseArchive`."""
        return self._reading(lambda con: ReleaseTables(con).read(release_id))

    def releases(self, last: int | None = None, before: int | None = None) -> list[Release]:
        """See `ReleaseArchive`."""
        return self._reading(lambda con: ReleaseTables(con).releases(last, before))

    def notes(
        self, table: NoteTable, users: Index | None = None, latest: int | None = None, **equal: Any
    ) -> pa.Table:
        """See `ReleaseArchive`."""
        return self._reading(lambda con: DuckNotes(con).read(table, users, equal, latest))

    def fact(self, key: str) -> Any:
        """See `ReleaseArchive`."""
        return self._reading(lambda con: DuckNotes(con).fact(key))

    def __len__(self) -> int:
        return self.next_id - 1
