"""A new file of a store: made in full, then published."""

from __future__ import annotations

import os
from pathlib import Path

from sparseq.base.errors import StoreError
from sparseq.base.whole_files import PRIVATE, sync_folder
from sparseq.ledger._duckdb.duckdb_log import (
    log_of,
)
from sparseq.ledger._duckdb.progress_record import (
    read_record,
    record_of,
)


def check_free(path: Path) -> None:
    """Refuse a path at which no new store can be made.

    Another store's log or record at the path may be all that remains of that store.

    Raises:
        StoreError: The path exists, or its folder does not.
    """
    if path.exists():
        raise StoreError(f"{path} exists already", "choose another path, or delete the file")
    if not path.parent.is_dir():
        raise StoreError(f"there is no folder {path.parent}", "make it first")
    record = read_record(record_of(path))
    for file in (log_of(path), record_of(path)):
        if file.exists() and (file == log_of(path) or record is None or record.open):
            raise StoreError(
                f"{file} is there: a store of this name was not closed, and has been moved",
                "choose another path; or delete the file, if that store is gone for good",
            )


def publish(working: Path, path: Path) -> None:
    """Give a finished file its name, durably; an existing file is never replaced.

    Raises:
        StoreError: The path exists by now.
    """
    working.chmod(PRIVATE)
    with open(working, "rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(working, path)
    except FileExistsError:
        raise StoreError(f"{path} exists already", "choose another path") from None
    except OSError:  # a file system without hard links
        os.rename(working, path)
    sync_folder(path)
