"""Small tables in an SQLite file in the store's folder."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sparseq.base.errors import StoreError
from sparseq.base.whole_files import PRIVATE


class SideFile:
    """An SQLite file for its owner only. Threads and processes may share it.

    Args:
        path: The path, which is created if it is missing; None: in memory.
        what: The contents, for messages, such as "the tokens".
        tables: SQL that creates its tables, if they are missing.
        begin: Further preparation before the file is used.

    Raises:
        StoreError: It can't be written.

    Example:
        >>> file = SideFile(None, "the notes", "CREATE TABLE IF NOT EXISTS notes (text TEXT);")
        >>> with file.writes() as db:
        ...     _ = db.execute("INSERT INTO notes VALUES (?)", ["a note"])
        >>> file.rows("SELECT text FROM notes")
        [('a note',)]
    """

    def __init__(
        self,
        path: Path | None,
        what: str,
        tables: str,
        begin: Callable[[sqlite3.Connection], None] = lambda db: None,
    ) -> None:
        self._lock, self._path, self._what = threading.RLock(), path, what
        new = path is not None and not path.exists()
        try:
            with self._told():
                if path is not None:
                    path.touch(PRIVATE)
                self._db = sqlite3.connect(
                    path or ":memory:", timeout=10, isolation_level=None, check_same_thread=False
                )
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.executescript(tables)
            with self.writes() as db:
                begin(db)
        except StoreError:
            if new and path is not None:
                with contextlib.suppress(OSError):  # on a disk that can't be written
                    path.unlink()
            raise

    def rows(self, sql: str, given: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self._lock:
            return self._db.execute(sql, given).fetchall()

    @contextlib.contextmanager
    def writes(self) -> Iterator[sqlite3.Connection]:
        """Yield the database for one transaction: all of it becomes durable, or nothing.

        Raises:
            StoreError: It can't be written.
        """
        with self._lock, self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Convert an error in the block to the message that the file can't be written."""
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise StoreError(
                f"{self._what}, {self._path}, can't be written: {why}",
                "check the free space, and your permission to write there",
            ) from None
