"""Functions that open a store's file if it is complete.

`sparseq.ledger._duckdb.session` has the conditions. This module finds the parts, even if they were
renamed: the record of the last session, and DuckDB's log. No file is written before the store is
found complete, so that a missing part can still be restored.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import duckdb

from sparseq.base._duckdb.connection import connect, is_damage
from sparseq.base.errors import SparseqError, StoreError, StoreInUse
from sparseq.base.sql_text import first_line
from sparseq.base.whole_files import make_durable
from sparseq.ledger._duckdb import facts
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger._duckdb.duckdb_log import (
    Head,
    adopt,
    files_beside,
    has_log,
    log_of,
    logs_beside,
    unreadable,
)
from sparseq.ledger._duckdb.mark import StoreMark, behind, mark_at
from sparseq.ledger._duckdb.progress_record import (
    HighWaterMark,
    Lock,
    Record,
    lacks,
    read_record,
    record_of,
)
from sparseq.ledger._duckdb.session import (
    PLACE,
    SESSIONS,
    SessionMark,
    StoreSession,
    add_loss,
    read_mark,
    read_progress,
)
from sparseq.ledger._duckdb.write_errors import is_full, not_written
from sparseq.load._duckdb.storage import Storage
from sparseq.store._duckdb.file_backend import (
    FORMATS,
    POPULATION_FORMAT,
    UPGRADED_FROM,
    DuckBackend,
    limit_memory,
)

_LAST = "`sparseq recover STORE --accept-loss` opens it without, and says so for ever"


class MissingPart(StoreError):
    """A part of the store is missing, or another file is in its place."""


class Hold:
    """A hold on a store's file within this process, where DuckDB's locks have no effect.

    Raises:
        StoreInUse: The process has it open already.
    """

    _held: ClassVar[set[tuple[int, int]]] = set()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path) -> None:
        status = path.stat()
        self._key = (status.st_dev, status.st_ino)
        with self._lock:
            if self._key in self._held:
                raise StoreInUse(
                    f"{path} is in use by this process", "share the open store between threads"
                )
            self._held.add(self._key)

    def release(self) -> None:
        """Release the hold."""
        with self._lock:
            self._held.discard(self._key)


def hold(path: Path) -> Hold:
    """Hold a store's file for this process.

    Raises:
        StoreError: There is none.
        StoreInUse: This process has it open.
    """
    if not path.is_file():
        raise StoreError(f"there is no store at {path}", "`sparseq create` makes one")
    return Hold(path)


def open_backend(
    path: Path,
    accept_loss: bool = False,
    mark: StoreMark | None = None,
    formats: Sequence[int] = FORMATS,
) -> DuckBackend:
    """Open a store's file: see `sparseq.connect`.

    Args:
        path, accept_loss: See `sparseq.connect`.
        mark: The new place of the store's high-water mark; None: the place in the store.
        formats: The accepted formats.
    """
    held = hold(path)
    try:
        connection, session = open_whole(
            path.resolve(), lambda opened: _check(opened, path, formats), accept_loss, mark
        )
        try:
            _set_up(connection, path)
            return DuckBackend(
                connection,
                path,
                held.release,
                session,
                lambda: _set_up(open_database(path.resolve()), path),
            )
        except BaseException as error:
            connection.close()
            session.release()
            if isinstance(error, SparseqError) or not isinstance(error, Exception):
                raise
            raise damage_error(path, error) from error
    except BaseException:
        held.release()
        raise


def _check(connection: duckdb.DuckDBPyConnection, path: Path, formats: Sequence[int]) -> str:
    """Check that there is a store of this version's format; return the store's id."""
    try:  # a look at the list of tables takes 9 ms
        connection.execute("FROM main.meta, ledger.users, ledger.snapshot LIMIT 0")
    except duckdb.CatalogException:
        raise StoreError(f"{path} is not a sparseq store", "`sparseq create` makes one") from None
    settings = Storage(connection).get("settings")
    if settings is None or settings["format"] not in formats:
        if settings is not None and settings["format"] == POPULATION_FORMAT:
            raise StoreError(
                f"{path} is a population, and no store", f"`sparseq population show {path}`"
            )
        if POPULATION_FORMAT in formats:
            raise StoreError(
                f"{path} is a store, and no population", "`sparseq population create` makes one"
            )
        older = settings is not None and settings["format"] in UPGRADED_FROM
        raise StoreError(
            f"{path} is not a store that this version of sparseq reads",
            f"`sparseq upgrade {path}` makes it one, and changes no charge and no answer"
            if older
            else "open it with the version that made it",
        )
    return str(settings["store"])


def _set_up(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyConnection:
    """Clean up after a killed process, and limit DuckDB's memory."""
    for leftover in Path(f"{path}.tmp").glob("duckdb_temp_*"):  # private, from a killed process
        leftover.unlink(missing_ok=True)
    limit_memory(connection)
    connection.execute("SET lock_configuration = true")
    return connection


def open_whole(
    path: Path,
    check: Callable[[duckdb.DuckDBPyConnection], str],
    accept_loss: bool = False,
    now: StoreMark | None = None,
) -> tuple[duckdb.DuckDBPyConnection, StoreSession]:
    """Open a store with all its parts.

    Args:
        path: Path of its file, without symbolic links.
        check: Raises if the database is no store; returns the store's id.
        accept_loss: Open the store even with a missing part, and record this in it for ever.
        now: The new place of its mark; None: the place in the store.

    Raises:
        Lacking: A part is missing; no file was changed.
        StoreInUse: Another process has it open.
        StoreError: It is no store.
    """
    head, lost, brought, others = Head.of(path), "", None, ""
    outside: StoreMark | None = None
    try:
        connection = open_database(path)
    except MissingPart as lacking:
        if not accept_loss:
            raise
        lost = lacking.message
        _set_aside(log_of(path))
        connection = open_database(path)
    try:
        store, mark = _looked_at(connection, path, check)
        if mark is not None and mark.open and not lost and not has_log(path):
            brought, others = _log_elsewhere(path, head, mark)
            if brought is not None:
                connection.close()
                adopt(brought, log_of(path))
                connection = open_database(path)
                mark = read_mark(connection)
        session = StoreSession(connection, path, store, marked=mark is not None and mark.open)
        flush_log(path)  # before any mark counts its contents
        outside = _mark_of(connection, now)
        told = None if outside is None else _taken(outside, store)
        try:
            _check_whole(connection, path, store, mark, session, others)
            if outside is not None:
                _check_mark(connection, path, outside, told, session)
        except duckdb.Error as error:
            raise damage_error(path, error) from error
        except MissingPart as lacking:
            if not accept_loss:
                raise
            lost = lost or lacking.message
        if lost:
            CuratorLog(connection).add("loss", f"opened with --accept-loss: {lost}")
            add_loss(connection, lost)
            session.closed()
            _set_aside(record_of(path))
            if outside is not None:
                session.keep_mark(outside)  # from here on no other copy opens
        return connection, session
    except BaseException:
        connection.close()
        if outside is not None:
            outside.release()
        if brought is not None and not brought.exists():
            adopt(log_of(path), brought)
        raise


def flush_log(path: Path) -> None:
    """Make the contents of a log durable: its writer may have been killed before a flush.

    Raises:
        StoreError: The flush failed.
    """
    if os.name == "nt":  # Windows flushes only files opened for writing
        return
    try:
        make_durable(log_of(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise not_written(error, f"{path} was not opened") from None


def _looked_at(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    check: Callable[[duckdb.DuckDBPyConnection], str],
) -> tuple[str, SessionMark | None]:
    try:
        return check(connection), read_mark(connection)
    except (duckdb.Error, ValueError, KeyError, TypeError) as error:
        raise damage_error(path, error) from error


def damage_error(path: Path, error: BaseException) -> StoreError:
    """Return the error for a store that can't be read."""
    if is_full(error):
        return not_written(error, f"{path} was not opened")
    reason = first_line(error) if isinstance(error, duckdb.Error) else type(error).__name__
    return StoreError(
        f"{path} is damaged: {reason}", "restore a backup: `sparseq backup` makes them"
    )


def open_database(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a store's database. Closing it again writes nothing, for any contents of the log.

    Raises:
        Lacking: Its log is damaged or belongs to another store.
        StoreInUse: Another process has it open.
        StoreError: It is no database.
    """
    try:
        connection = connect(path)
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        return connection
    except duckdb.Error as error:
        holder = re.search(r"PID (\d+)", str(error))
        if holder:
            raise StoreInUse(
                f"{path} is in use by process {holder[1]}",
                "wait until it is done, or stop it; one process at a time can have a store open",
            ) from None
        if has_log(path) and (said := unreadable(path, error)) is not None:
            raise MissingPart(said.message, f"{said.hint}; {_LAST}") from None
        if is_damage(error):
            raise damage_error(path, error) from None
        if isinstance(error, duckdb.IOException):
            raise StoreError(
                f"{path} can't be opened: {first_line(error)}",
                "a store that is asked needs a folder with room that you may write in",
            ) from None
        raise StoreError(f"{path} is not a store: {first_line(error)}") from None


def _log_elsewhere(path: Path, head: Head, mark: SessionMark) -> tuple[Path | None, str]:
    """Return the log of an unclosed store, if it is next to it under another name.

    A log whose own store is still there belongs to that store, and of several candidates no one is
    chosen. The second value explains this, for a store that needs a log.

    Raises:
        StoreInUse: Another process is writing to it.
    """
    logs = logs_beside(path, head)
    free = [log for log in logs if _is_free(log, ".wal", path)]
    if len(free) == 1:
        for file, _ in _records_beside(path, mark):
            Lock(file).release()
        return free[0], ""
    if free:
        return None, f"; it could be {' or '.join(log.name for log in free)}"
    return None, "".join(f"; {log.name} belongs to a copy of the same store" for log in logs[:1])


def _is_free(part: Path, end: str, path: Path) -> bool:
    """Return True if no other store exists to which a log or record belongs by name."""
    owner = part.with_suffix("")
    return part.suffix != end or not owner.is_file() or owner.samefile(path)


def _records_beside(path: Path, mark: SessionMark) -> list[tuple[Path, Record]]:
    """Return the records of the marked session in the store's folder."""
    records = ((file, read_record(file)) for file in files_beside(path))
    return [(file, r) for file, r in records if r is not None and r.session == mark.id]


def _check_whole(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    store: str,
    mark: SessionMark | None,
    session: StoreSession,
    others: str,
) -> None:
    """Compare a store with the records of its required contents.

    Raises:
        Lacking: The store has less, or there is no record.
        StoreInUse: Another process is writing to the record.
    """
    beside = record_of(path)
    own = read_record(beside)
    if own is not None and own.store != store and own.open:
        raise MissingPart(
            f"{beside.name} belongs to another store, which was not closed",
            f"move it to where that store is, or away; {_LAST}",
        )
    has, closed = read_progress(connection), mark is None or not mark.open
    if own is not None and own.store == store and not has.covers(own.reached):
        raise _short(path, has, own.reached, closed, others)
    if mark is None or closed:
        return
    records = _records_beside(path, mark)
    if not records:
        raise MissingPart(
            f"{path.name} was not closed, or is a copy of a store that was open; "
            f"{beside.name}, which says what it must have, is missing",
            f"bring {beside.name} and {log_of(path).name} from where the store was; {_LAST}",
        )
    for _, record in records:
        if not has.covers(record.reached):
            raise _short(path, has, record.reached, closed, others)
    mine = [file for file, record in records if file == beside]
    for file in mine or [file for file, _ in records if _is_free(file, ".session", path)]:
        session.hold(file, Lock(file))


def _mark_of(connection: duckdb.DuckDBPyConnection, now: StoreMark | None) -> StoreMark | None:
    place = facts.get(connection, PLACE)
    return None if place is None else now or mark_at(place)


def _taken(mark: StoreMark, store: str) -> Record | None:
    """Lock a mark and return its record; None: it is missing or damaged.

    Raises:
        StoreError: The mark belongs to another store.
        StoreInUse: A copy of the store is open.
    """
    record = mark.take()
    if record is not None and record.store != store:
        mark.release()
        raise StoreError(
            f"{mark.place} is the high-water mark of another store",
            "`sparseq mark STORE FILE` says where its own lies",
        )
    return record


def _check_mark(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    mark: StoreMark,
    record: Record | None,
    session: StoreSession,
) -> None:
    """Compare a store with its outside mark, and update the mark.

    Raises:
        MissingPart: The store is behind the mark, or the mark is missing.
    """
    if record is None:
        raise MissingPart(
            f"the high-water mark of {path.name}, {mark.name}, is missing or damaged: nobody "
            "can tell what this copy lacks",
            f"bring {mark.place}; `sparseq mark STORE FILE` says where it lies now; {_LAST}",
        )
    has, sessions = read_progress(connection), facts.get(connection, SESSIONS) or []
    if lag := behind(record, sessions, has):
        raise MissingPart(
            f"{path.name} {lag}: its high-water mark, {mark.name}, is ahead of it",
            f"bring the copy that was asked last; {_LAST}; after that, no other copy opens",
        )
    if has == record.reached:
        session.mark = mark
    else:
        session.keep_mark(mark, sessions[-1])


def _short(
    path: Path, has: HighWaterMark, needs: HighWaterMark, closed: bool, others: str
) -> MissingPart:
    log, lag = log_of(path).name, f"{path.name} {lacks(has, needs)}"
    if closed:
        return MissingPart(
            f"{lag}: it is an earlier state of its store", f"bring the latest {path.name}; {_LAST}"
        )
    how = "is cut short or of another session" if has_log(path) else f"is missing{others}"
    return MissingPart(
        f"{lag}: it was not closed, and its log {log} {how}",
        f"bring {log} from where the store was; {_LAST}",
    )


def _set_aside(file: Path) -> None:
    """Rename a file that does not fit, rather than delete it: it may be the last copy."""
    if not file.exists():
        return
    number = 1
    while (aside := Path(f"{file}.lost-{number}")).exists():
        number += 1
    os.rename(file, aside)
