"""A run on disk: the state a killed run needs to continue, each step in one durable transaction.

The file holds the releases so far, and their cost: with accounts of users in it, it is private.
Only one process at a time can open it.
"""

from __future__ import annotations

import io
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import QueryRefused, StoreError, StoreInUse

_KIND = 0x73707271  # "sprq"
Arrays = Mapping[str, NDArray[Any]]


class RunFile:
    """Named parts, each a set of arrays, written together or not at all.

    Args:
        path: Path of the file; None: in memory, for a run that can't be continued.
        settings: Settings of the run; a file with other settings is refused.

    Raises:
        QueryRefused: It holds a run with other settings.
        StoreInUse: Another process has it open.
        StoreError: It can't be read as a run, or can't be created.

    Example:
        >>> with RunFile(None, "settings") as file:
        ...     file.write(state={"step": np.array(3)})
        ...     file.read("state")["step"], file.read("accounts")
        (array(3), None)
    """

    def __init__(self, path: str | Path | None, settings: str) -> None:
        self._name = "memory" if path is None else str(path)
        try:
            if path is not None:  # nobody else may read it
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._con = sqlite3.connect(
                ":memory:" if path is None else path, isolation_level=None, timeout=0
            )
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self._name!r} can't be opened as a run: {error}") from None
        try:
            self._open(settings)
        except sqlite3.OperationalError as error:
            self._con.close()
            if "locked" in str(error):
                raise StoreInUse(
                    f"the run {self._name!r} is in progress", "wait for it, or give another file"
                ) from None
            raise StoreError(f"{self._name!r} can't be opened as a run: {error}") from None
        except sqlite3.DatabaseError:
            self._con.close()
            raise StoreError(
                f"{self._name!r} is not the file of a run", "give another one"
            ) from None
        except QueryRefused:
            self._con.close()
            raise

    def _open(self, settings: str) -> None:
        run = self._con.execute
        ((kind,),) = run("PRAGMA application_id").fetchall()
        if kind != _KIND and run("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
            raise sqlite3.DatabaseError("another program's database")
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            run(f"PRAGMA {pragma}")
        run("BEGIN IMMEDIATE")
        run(f"PRAGMA application_id = {_KIND}")
        run("CREATE TABLE IF NOT EXISTS parts (name TEXT PRIMARY KEY, arrays BLOB NOT NULL)")
        run("INSERT OR IGNORE INTO parts VALUES ('settings', ?)", (settings.encode(),))
        run("COMMIT")
        ((found,),) = run("SELECT arrays FROM parts WHERE name = 'settings'").fetchall()
        if found != settings.encode():
            raise QueryRefused(
                f"{self._name!r} holds a run with other settings",
                "repeat them, or give another file for another run",
            )

    def read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Return a part; None: it was never written."""
        rows = self._con.execute("SELECT arrays FROM parts WHERE name = ?", (name,)).fetchall()
        if not rows:
            return None
        try:
            with np.load(io.BytesIO(rows[0][0]), allow_pickle=False) as arrays:
                return dict(arrays)
        except (ValueError, OSError, EOFError):
            raise StoreError(f"the run {self._name!r} is damaged: {name} can't be read") from None

    def write(self, **parts: Arrays) -> None:
        """Write parts; on return they are on disk."""
        run = self._con.execute
        run("BEGIN IMMEDIATE")
        try:
            for name, arrays in parts.items():
                buffer = io.BytesIO()
                np.savez(buffer, **arrays)  # type: ignore[arg-type]
                run("INSERT OR REPLACE INTO parts VALUES (?, ?)", (name, buffer.getvalue()))
            run("COMMIT")
        except BaseException:
            if self._con.in_transaction:
                run("ROLLBACK")
            raise

    def __enter__(self) -> RunFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._con.close()
