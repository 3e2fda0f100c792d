"""Giving a store a high-water mark outside of it, or telling it where that lies now."""

from __future__ import annotations

from pathlib import Path

from sparseq.base.errors import StoreError
from sparseq.ledger._duckdb.mark import HighWaterMark, mark_at
from sparseq.ledger._duckdb.session import PLACE
from sparseq.store._duckdb.open_file import open_backend


def keep_mark(path: Path, place: str | Path) -> HighWaterMark:
    """Have a store's high-water mark outside of it; return how far it has come.

    Args:
        path: Of the store, which is closed.
        place: A file, or an object as `s3://bucket/name`. Of a store without a mark: nothing is
            there, and the mark is made. Of a store that has one: the mark, which was moved there.

    Raises:
        StoreError: Something else is there, or it can't be written.
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
