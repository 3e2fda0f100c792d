"""Complete copies of a store.

A copy is a separate store: queries to one are not charged in the other, so **queries to both copies
spend the same budget twice**. A backup is only for the loss of the store itself. It has all answers
and charges up to its creation, its high-water mark, and nothing later. So, after the first backup
of a store, the store's record (`ledger/_duckdb/session.py`) stays next to it when it is closed: an
earlier state in its place is behind the record, and does not open.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from sparseq.base._duckdb.connection import connect
from sparseq.base.arguments import check_arguments
from sparseq.base.errors import ParameterError, StoreError
from sparseq.base.whole_files import PRIVATE, private_folder
from sparseq.ledger._duckdb.session import KEPT, close_mark, read_progress
from sparseq.ledger._duckdb.write_errors import not_written
from sparseq.load._duckdb.storage import Storage
from sparseq.store._duckdb.file_backend import as_duckdb
from sparseq.store._duckdb.new_file import check_free, publish
from sparseq.store.store import Store

_CHUNK = 1 << 23


@dataclass(frozen=True)
class Backup:
    """A backup's high-water mark: public.

    Attributes:
        at: The time of the backup, in UTC.
        releases: The number of its last answer.
        writes: The number of other changes of the store in it.
    """

    at: str
    releases: int
    writes: int


@check_arguments
def backup(store: Store, path: str | Path) -> Backup:
    """Write a complete copy of an open store; it appears whole or not at all.

    Args:
        store: Open; it stays so.
        path: Path of the copy; it must not exist.

    Raises:
        StoreError: The path exists already, or can't be written.
        ParameterError: The store is in memory.

    Example:
        >>> import sparseq, pyarrow as pa, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> rows = pa.table({"who": [1]})
        >>> with sparseq.create(folder + "/s.sparseq", {"t": rows}, user="who") as con:
        ...     sparseq.backup(con, folder + "/copy.sparseq").releases
        0
        >>> with sparseq.connect(folder + "/copy.sparseq") as con:
        ...     con.released
        0
    """
    path = Path(path)
    if store.path is None:
        raise ParameterError("a store in memory has no file to copy", "create it with a path")
    check_free(path)
    with private_folder(path) as folder:
        working = folder / "store"
        try:
            with store.stream.lock:
                store.stream.flush()  # the rest of an interrupted step
                with as_duckdb(store.backend).at_rest({KEPT: True}) as file:
                    _copy(file, working)
            made = _close(working)
            publish(working, path)
        except (OSError, duckdb.Error) as error:
            raise not_written(error, "there is no backup") from None
    return made


def _close(working: Path) -> Backup:
    """Mark a copy as closed, with its progress."""
    connection = connect(working)
    try:
        reached = read_progress(connection)
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        made = Backup(now, reached.releases, reached.writes)
        Storage(connection).put("backup", asdict(made))
        close_mark(connection, reached)
        connection.execute("CHECKPOINT")
        return made
    finally:
        connection.close()


def _copy(file: Path, to: Path) -> None:
    """Copy a file that DuckDB has open in this process.

    Opening and closing the file again would release DuckDB's lock on it (POSIX). So the copy reads
    through DuckDB's file descriptor.
    """
    number = _open_number(file)
    if number is None:
        to.touch(PRIVATE)
        shutil.copyfile(file, to)
        return
    at, size = 0, os.fstat(number).st_size
    with open(to, "xb") as copy:
        while at < size:
            chunk = os.pread(number, min(_CHUNK, size - at), at)
            if not chunk:
                raise StoreError(f"{file} became shorter while it was copied", "try again")
            copy.write(chunk)
            at += len(chunk)


def _open_number(file: Path) -> int | None:
    """Return the number under which this process has a file open; None where that is unknown."""
    if os.name == "nt":  # no lock is lost there
        return None
    status = file.stat()
    for number in map(int, os.listdir("/dev/fd")):
        try:
            found = os.fstat(number)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino):
            return number
    raise StoreError(
        f"{file} is no longer the file that this store has open",
        "the file was moved or replaced; open the store again",
    )
