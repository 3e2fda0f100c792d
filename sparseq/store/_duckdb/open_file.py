"""Opening a store's file: whole, or not at all.

What must hold is said in `sparseq.ledger._duckdb.session`. Here the parts are found, whatever they
are called by now: the record of the last session, and DuckDB's log. Until a store is known to be
whole nothing is written to any file, so that a part that is missing can still be brought.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import duckdb

from sparseq.base.errors import SparseqError, StoreError, StoreInUse
from sparseq.base.whole_files import PRIVATE, make_durable, sync_folder
from sparseq.engine._duckdb.connection import connect, is_damage
from sparseq.engine._duckdb.storage import Storage
from sparseq.engine.protocol import first_line
from sparseq.ledger._duckdb import notes
from sparseq.ledger._duckdb.mark import (
    HighWaterMark,
    Lock,
    Record,
    StoreMark,
    behind,
    lacks,
    mark_at,
    read_record,
    record_of,
)
from sparseq.ledger._duckdb.notes import CuratorLog, is_full, not_written
from sparseq.ledger._duckdb.session import (
    PLACE,
    SESSIONS,
    Head,
    SessionMark,
    StoreSession,
    add_loss,
    adopt,
    files_beside,
    has_log,
    log_of,
    logs_beside,
    read_mark,
    read_progress,
    unreadable,
)
from sparseq.store._duckdb.file_backend import (
    FORMATS,
    POPULATION_FORMAT,
    UPGRADED_FROM,
    DuckBackend,
    limit_memory,
)

_LAST = "`sparseq recover STORE --accept-loss` opens it without, and says so for ever"


class MissingPart(StoreError):
    """A part of the store is missing, or something else lies in its place."""


class Hold:
    """This process has a store's file; within a process DuckDB's locks don't tell.

    Raises:
        StoreInUse: It has it already.
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
        """Let go of it."""
        with self._lock:
            self._held.discard(self._key)


def hold(path: Path) -> Hold:
    """Take hold of a store's file.

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
        path, accept_loss: See there.
        mark: Where the store's high-water mark lies now; None: where the store says.
        formats: That it may have.
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
    """Check that there is a store of this version's format; return which store it is."""
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
    """Tidy up after a process that was killed, say how much memory DuckDB may have."""
    for leftover in Path(f"{path}.tmp").glob("duckdb_temp_*"):  # private, of a process killed
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
    """Open a store of which nothing is missing.

    Args:
        path: Of its file, without symbolic links.
        check: Raises if the database is no store; returns which store it is.
        accept_loss: Open it all the same, and write into it for ever that it was so.
        now: Where its mark lies now; None: where it says.

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
        flush_log(path)  # before any mark tells of what is in it
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
    """Make what was read from a log durable: whoever wrote it may have been killed before.

    Raises:
        StoreError: It can't be.
    """
    if os.name == "nt":  # only who writes to a file can flush it there
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
    """Return what is said of a store that can't be read."""
    if is_full(error):
        return not_written(error, f"{path} was not opened")
    reason = first_line(error) if isinstance(error, duckdb.Error) else type(error).__name__
    return StoreError(
        f"{path} is damaged: {reason}", "restore a backup: `sparseq backup` makes them"
    )


def open_database(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a store's database. To close it again writes nothing, whatever is in the log.

    Raises:
        Lacking: It has a log that is not its own, or damaged.
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
    """Return the log of a store that was not closed, if it lies beside it under another name.

    One whose own store is still there is that store's; and where several may be it, none is taken.
    The second value says so, for the case that the store needs one.

    Raises:
        StoreInUse: Somebody is writing to it.
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
    """Tell whether no other store is there that a log or a record belongs to by its name."""
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
    """Compare a store with the records of what it must have.

    Raises:
        Lacking: It has less, or there is no record.
        StoreInUse: Somebody is writing to the record.
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
    place = notes.get(connection, PLACE)
    return None if place is None else now or mark_at(place)


def _taken(mark: StoreMark, store: str) -> Record | None:
    """Return what a mark says, locked; None: it is missing or damaged.

    Raises:
        StoreError: It is another store's.
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
    """Compare a store with its mark outside of it, and bring the mark up to it.

    Raises:
        MissingPart: The store is behind the mark, or the mark is missing.
    """
    if record is None:
        raise MissingPart(
            f"the high-water mark of {path.name}, {mark.name}, is missing or damaged: nobody "
            "can tell what this copy lacks",
            f"bring {mark.place}; `sparseq mark STORE FILE` says where it lies now; {_LAST}",
        )
    has, sessions = read_progress(connection), notes.get(connection, SESSIONS) or []
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


# -- with a loss -----------------------------------------------------------------------------------


def _set_aside(file: Path) -> None:
    """Give a file that does not fit another name: it may be all that is left of something."""
    if not file.exists():
        return
    number = 1
    while (aside := Path(f"{file}.lost-{number}")).exists():
        number += 1
    os.rename(file, aside)


# -- a new file ------------------------------------------------------------------------------------


def check_free(path: Path) -> None:
    """Refuse a path at which no new store can be made.

    Another store's log or record may be all that tells of it.

    Raises:
        StoreError: Something is there, or the folder is not.
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
        StoreError: Something has come to be there.
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
