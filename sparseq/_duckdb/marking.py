"""Giving a store a high-water mark outside of it, or telling it where that lies now."""

from __future__ import annotations

from pathlib import Path

from sparseq._duckdb.opening import open_backend
from sparseq.errors import StoreError
from sparseq.ledger._duckdb.mark import MarkFile
from sparseq.ledger._duckdb.record import HighWaterMark
from sparseq.ledger._duckdb.session import PLACE


def keep_mark(path: Path, file: Path) -> HighWaterMark:
    """Have a store's high-water mark in a file outside of it; return how far it has come.

    Args:
        path: Of the store, which is closed.
        file: Of a store without a mark: nothing is there, and the mark is made. Of a store that
            has one: the mark, which was moved there.

    Raises:
        StoreError: Something else is there, or it can't be written.
        StoreInUse: The store, or a copy of it, is open.
    """
    file = file.resolve()
    backend = open_backend(path, mark=file)
    try:
        session, storage = backend.session, backend.storage
        if session.mark is None:
            if file.exists():
                raise StoreError(f"{file} exists already", "choose another path, or delete it")
            session.begin()
            session.keep_mark(MarkFile(file))
        storage.in_transaction(lambda: storage.put(PLACE, str(file)))
        reached = session.has_reached
        backend.close()
        return reached
    finally:
        backend.release()
