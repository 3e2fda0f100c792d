"""A high-water mark outside of a store: creating it, or finding it at a new place."""

from __future__ import annotations

from pathlib import Path

from sparseq.base.errors import StoreError
from sparseq.ledger._duckdb.mark import mark_at
from sparseq.ledger._duckdb.progress_record import HighWaterMark
from sparseq.ledger._duckdb.session import PLACE
from sparseq.store._duckdb.open_file import (
    open_backend,
)


def keep_mark(path: Path, place: str | Path) -> HighWaterMark:
    """Keep a store's high-water mark outside of it; return the mark's progress.

    Args:
        path: Path of the store, which is closed.
        place: A file, or an object as `s3://bucket/name`. For a store without a mark it must not
            exist, and the mark is made. For a store with a mark it is the mark, moved there.

    Raises:
        StoreError: The place has something else, or can't be written.
        StoreInUse: The store, or a copy of it, is open.
    """
    mark = mark_at(str(place))
    backend = open_backend(path, mark=mark)
    try:
        session, storage = backend.session, backend.storage
        if session.mark is None:
            if mark.exists():
                raise StoreError(
                    f"{mark.place} exists already", "choose another place, or delete it"
                )
            session.begin()
            session.keep_mark(mark)
        storage.in_transaction(lambda: storage.put(PLACE, mark.place))
        reached = session.has_reached
        backend.close()
        return reached
    except BaseException:
        backend.abandon()
        raise
    finally:
        backend.release()
