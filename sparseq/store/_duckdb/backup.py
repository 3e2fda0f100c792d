"""Copies of a store that are whole, and what a copy can't know.

A copy is a store of its own: what is asked of the one is not charged in the other, so **two copies
that are both asked spend the same budget twice**. A backup is for the day on which the store itself
is lost. It has what had been answered and charged when it was made, its high-water mark, and
forgets what came after.

So once a backup has been made of a store, the store's record (`ledger/_duckdb/session.py`) stays
beside it when it is closed: an earlier state that is put in its place is behind the record, and
does not open.

Stores of an earlier format become this version's, in place: charges and answers bit by bit.

Each step is a function with a name, in the order in which they are done, all in one transaction: a
process that is killed leaves the store as it was, or upgraded. Add yours to `STEPS`.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from sparseq.base.arguments import check_arguments
from sparseq.base.errors import ParameterError, StoreError
from sparseq.base.whole_files import PRIVATE, private_folder
from sparseq.engine._duckdb.connection import connect
from sparseq.engine._duckdb.storage import Storage, keep_to_types
from sparseq.engine.protocol import first_line
from sparseq.ledger._duckdb import notes
from sparseq.ledger._duckdb.mark import HighWaterMark, mark_at
from sparseq.ledger._duckdb.notes import name_askers, not_written
from sparseq.ledger._duckdb.session import KEPT, PLACE, close_mark, read_progress
from sparseq.load.read_schema import schema_of_existing
from sparseq.store._duckdb.file_backend import FORMAT, FORMATS, UPGRADED_FROM, as_duckdb
from sparseq.store._duckdb.open_file import (
    check_free,
    flush_log,
    hold,
    open_backend,
    open_database,
    publish,
)
from sparseq.store.store import Store

# -- copies of a store that are whole, and what a copy can't know ----------------------------------

_CHUNK = 1 << 23


@dataclass(frozen=True)
class Backup:
    """A backup's high-water mark: public.

    Attributes:
        at: When it was made, in UTC.
        releases: The last answer that it has.
        writes: How many other changes of the store it has.
    """

    at: str
    releases: int
    writes: int


@check_arguments
def backup(store: Store, path: str | Path) -> Backup:
    """Write a whole copy of an open store; it appears whole or not at all.

    Args:
        store: Open; it stays so.
        path: Of the copy; nothing is there.

    Raises:
        StoreError: Something is there already, or it can't be written.
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
                store.stream.flush()  # what an interrupt left
                with as_duckdb(store.backend).at_rest({KEPT: True}) as file:
                    _copy(file, working)
            made = _close(working)
            publish(working, path)
        except (OSError, duckdb.Error) as error:
            raise not_written(error, "there is no backup") from None
    return made


def _close(working: Path) -> Backup:
    """Mark a copy as closed, with how far it has come."""
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

    To open it once more, and to close it, would undo DuckDB's lock on it (POSIX). So what DuckDB
    has opened is read.
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
    if os.name == "nt":  # nothing is undone there
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


# -- giving a store a high-water mark outside of it, or telling it where that lies now -------------


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


# -- stores of an earlier format become this version's ---------------------------------------------

Connection = duckdb.DuckDBPyConnection


@dataclass(frozen=True)
class UpgradeStep:
    """One change of the format; `apply` runs within the transaction of all."""

    name: str
    apply: Callable[[Connection], None]


def name_the_store(connection: Connection) -> None:
    """Give the store a number of its own, which its copies and records have too."""
    storage = Storage(connection)
    settings = storage.get("settings")
    storage.put("settings", settings | {"store": secrets.token_hex(16)})


def begin_the_curators_log(connection: Connection) -> None:
    """Make the table of what only the curator is told."""
    connection.execute(notes.TABLE)


def fix_how_rows_are_read(connection: Connection) -> None:
    """Keep how the rows of each table are read: types as they are stored, the usual formats."""
    storage = Storage(connection)
    for table, schema in schema_of_existing(storage.catalog()).items():
        storage.keep_schema(table, schema)


STEPS: tuple[UpgradeStep, ...] = (
    UpgradeStep("the store has a number", name_the_store),
    UpgradeStep("the curator has a log", begin_the_curators_log),
    UpgradeStep("requests have askers", name_askers),
    UpgradeStep("columns are of the closed list of types", keep_to_types),
    UpgradeStep("rows are read in one way", fix_how_rows_are_read),
)
"""From format 3 to format 4."""


def upgrade(path: str | Path) -> bool:
    """Make a store one of this version's format; False: it is one already.

    What was asked, answered and charged stays as it is, to the bit. A store of format 3 can't tell
    that its log is missing: the log must lie beside it, if it was not closed.

    Args:
        path: Of the store's file; nobody has it open.

    Raises:
        StoreError: There is no store, it is damaged, or of a format that no step starts from.
        StoreInUse: Another process has it open.

    Example:
        >>> import sparseq, pyarrow as pa, tempfile
        >>> path = tempfile.mkdtemp() + "/s.sparseq"
        >>> sparseq.create(path, {"t": pa.table({"who": [1]})}, user="who").close()
        >>> sparseq.upgrade(path)
        False
    """
    path = Path(path)
    held = hold(path)
    try:
        connection = open_database(path.resolve())
        try:
            flush_log(path.resolve())  # before it is said what is in it
            return _upgrade(connection, path)
        except duckdb.Error as error:
            raise StoreError(
                f"{path} can't be upgraded: {first_line(error)}", "it is as it was before"
            ) from None
        finally:
            connection.close()
    finally:
        held.release()


def _upgrade(connection: Connection, path: Path) -> bool:
    tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
    if not {("main", "meta"), ("ledger", "users")} <= set(tables):
        raise StoreError(f"{path} is not a sparseq store", "`sparseq create` makes one")
    format = Storage(connection).get("settings")["format"]
    if format in FORMATS:
        return False
    if format not in UPGRADED_FROM:
        raise StoreError(
            f"{path} has format {format}, which can't be made format {FORMAT}",
            "open it with the version that made it",
        )
    connection.execute("CHECKPOINT")  # of what the earlier version left in its log
    connection.execute("BEGIN")
    for step in STEPS:
        step.apply(connection)
    storage = Storage(connection)
    storage.put("settings", storage.get("settings") | {"format": FORMAT})
    connection.execute("COMMIT")
    connection.execute("CHECKPOINT")
    return True
