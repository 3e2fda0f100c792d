"""Sessions: they detect that a part of a store is missing.

Charges since the last checkpoint are in DuckDB's log, a separate file in the store's folder. DuckDB
finds it by name, and without it opens the store in its earlier state: the charges would be
forgotten. So a session marks the store's file itself as open before its first durable write, and as
closed at the end. The mark lies in `meta`, and a checkpoint moves it from the log into the file:

    {"id": which session, "open": true or false, "releases": …, "writes": …}

The folder also holds the session's record, `STORE.session`: the numbers of durable releases and of
other durable changes. It is written after each commit, before the answer is returned. It is not
flushed to the disk each time: written bytes survive the end of the process, though not of the
machine, and DuckDB flushes its log. After a loss of power the record is a lower bound, and the log
is complete.

A store is complete if (1) it is marked as closed, or (2) the record of the session in its mark
exists; and in both cases, if no record that it meets counts more releases or changes than it has.
Proof: every answer that was returned was committed first, and then counted in the record. Releases
are numbered, changes are counted in their own transactions, and a log is replayed from its start,
so a store that has reached the record's numbers has every release and change up to them. A closed
store had them all when it was closed; a copy from before another session lacks that session's
answers, which only a record of that session can reveal (see `sparseq.store._duckdb.backup`).

A session that only reads has no mark and no record, and writes nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import os
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb

from sparseq.base._duckdb.connection import not_judged
from sparseq.base.errors import StoreError
from sparseq.base.whole_files import PRIVATE, make_durable, sync_folder
from sparseq.ledger._duckdb import facts, write_errors
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.ledger._duckdb.duckdb_log import log_of
from sparseq.ledger._duckdb.mark import StoreMark
from sparseq.ledger._duckdb.progress_record import (
    HighWaterMark,
    Lock,
    Record,
    read_record,
    record_of,
)
from sparseq.ledger.releases import Loss

_MARK, WRITES, KEPT, LOSSES = "session", "writes", "record kept", "losses"
"""Keys of `meta`: the mark, the count of changes, whether the record stays after closing, and when
the store was opened although a part of it was missing.
"""
PLACE, SESSIONS = "mark", "sessions"
"""Keys of `meta`: the place of the mark outside of the store, and the store's sessions since then.
"""
# the limit of the list: a mark of an earlier session looks like that of another copy
_MOST_SESSIONS = 1000


@dataclass(frozen=True)
class SessionMark:
    """The last session in a store's file: its identifier, and whether it was closed."""

    id: str
    open: bool


def read_mark(connection: duckdb.DuckDBPyConnection) -> SessionMark | None:
    """Return the last session of a store; None: it never had one."""
    mark = facts.get(connection, _MARK)
    return None if mark is None else SessionMark(mark["id"], mark["open"])


def read_progress(connection: duckdb.DuckDBPyConnection) -> HighWaterMark:
    """Return the progress of a store."""
    ((releases,),) = connection.execute(
        "SELECT coalesce(max(id), 0) FROM ledger.release"
    ).fetchall()
    return HighWaterMark(int(releases), int(facts.get(connection, WRITES) or 0))


def add_loss(connection: duckdb.DuckDBPyConnection, missing: str) -> None:
    """Record permanently that the store continues without a part, and mark it as closed."""
    has = read_progress(connection)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    losses = facts.get(connection, LOSSES) or []
    facts.put(connection, LOSSES, [*losses, asdict(Loss(now, has.releases, missing))])
    close_mark(connection, has)
    connection.execute("CHECKPOINT")


def close_mark(connection: duckdb.DuckDBPyConnection, reached: HighWaterMark) -> None:
    """Mark a store as closed, in its file."""
    mark = facts.get(connection, _MARK) or {"id": secrets.token_hex(16)}
    numbers = {"releases": reached.releases, "writes": reached.writes}
    facts.put(connection, _MARK, {"id": mark["id"], "open": False, **numbers})


class StoreSession:
    """One opening of a store: it marks the store at the first write, and counts durable changes.

    Args:
        connection: The store's; nothing else writes to it.
        path: The path of the store's file, without symbolic links; None: the store is in memory,
            and there is nothing to mark.
        store: The store's identifier.
        marked: True if the store has the mark of a session that was not closed.

    Attributes:
        mark: The mark outside of the store, if it has one.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        path: Path | None = None,
        store: str = "",
        marked: bool = False,
    ) -> None:
        self._con = connection
        self._path = path
        self._record = Record(store, "", HighWaterMark())
        self._marked = marked
        self._lock: Lock | None = None
        self._log: int | None = None  # the log's file descriptor, once its name is durable
        self.begun = path is None
        self.mark: StoreMark | None = None
        self._earlier: list[tuple[Path, Lock]] = []

    def goes_over(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Use another connection to the same store from now on."""
        self._con = connection

    def hold(self, file: Path, lock: Lock) -> None:
        """Keep the record of the session before, which was not closed, as long as it is needed."""
        self._earlier.append((file, lock))

    def begin(self) -> None:
        """Mark the store as open, durably; call this before each write, outside of transactions.

        Raises:
            StoreError: There is no space left, or no permission.
        """
        if self.begun:
            return
        assert self._path is not None
        record = replace(
            self._record, session=secrets.token_hex(16), reached=read_progress(self._con)
        )
        beside = record_of(self._path)
        new = Path(f"{beside}.{record.session[:8]}")
        try:
            lock = Lock(new, os.O_CREAT | os.O_EXCL)
            os.pwrite(lock.fd, record.to_bytes(), 0)
            os.fsync(lock.fd)
            sync_folder(new)
        except OSError as error:
            new.unlink(missing_ok=True)
            raise StoreError(
                f"{new.name} can't be written beside the store: {error.strerror}",
                "a store needs a folder with free space in which you may write",
            ) from None
        self._marked = True
        if self.mark is not None:
            self._remember(record.session)
        facts.put(self._con, _MARK, {"id": record.session, "open": True})
        if said := not_judged():
            CuratorLog(self._con).add_once("engine", said)
        self._con.execute("CHECKPOINT")  # from here on the store is complete only with this record
        try:
            os.replace(new, beside)
            sync_folder(new)
        except OSError as error:
            raise write_errors.not_written(error, "nothing was answered or charged") from None
        if self.mark is not None:
            self.mark.write(record)
        self._record, self._lock, self.begun = record, lock, True
        self._drop_earlier()

    def closed(self) -> None:
        """Record that the store has been marked as closed."""
        self._marked = False

    def reached(self, releases: int | None = None, writes: int | None = None) -> None:
        """Record the durable progress. An answer may be returned only after this.

        Raises:
            StoreError: The record can't be written; no answer may be returned.
        """
        if self._lock is None or self._path is None:
            return
        old = self._record.reached
        new = HighWaterMark(
            old.releases if releases is None else releases, old.writes if writes is None else writes
        )
        self._record = replace(self._record, reached=new)
        try:
            self._keep_log(log_of(self._path))
            os.pwrite(self._lock.fd, self._record.to_bytes(), 0)
        except OSError as error:
            raise write_errors.not_written(
                error, "no answer was returned", "it was charged"
            ) from None
        if self.mark is not None:
            self.mark.write(self._record)

    def _keep_log(self, log: Path) -> None:
        """Make the name of DuckDB's log durable; DuckDB creates the log after each checkpoint.

        DuckDB flushes the log's contents, but not its name: without the name, a loss of power would
        lose all answers since the checkpoint. The log stays open here, so that the file system
        gives its number to no other file.
        """
        if os.name == "nt":
            return
        try:
            number = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # a checkpoint has just moved all of it into the store's file
        if self._log is not None and os.path.sameopenfile(number, self._log):
            os.close(number)
            return
        try:
            os.fchmod(number, PRIVATE)
            sync_folder(log)
        except BaseException:
            os.close(number)
            raise
        if self._log is not None:
            os.close(self._log)
        self._log = number

    @property
    def has_reached(self) -> HighWaterMark:
        """The progress of the store, once it has begun."""
        return self._record.reached

    def keep_mark(self, mark: StoreMark, session: str = "") -> None:
        """Use a mark outside of the store from now on, and write the progress to it.

        Args:
            mark: The mark at the place that the store records.
            session: The session that has come so far; by default a new one, of this copy alone.
        """
        if not session:
            session = self._record.session or secrets.token_hex(16)
            self._remember(session)
            self._con.execute("CHECKPOINT")
        mark.write(replace(self._record, session=session, reached=read_progress(self._con)))
        self.mark = mark

    def _remember(self, session: str) -> None:
        sessions = facts.get(self._con, SESSIONS) or []
        facts.put(self._con, SESSIONS, [*sessions, session][-_MOST_SESSIONS:])

    def count_write(self) -> int:
        """Count a change in its own transaction; return its number, for `reached`."""
        number = int(facts.get(self._con, WRITES) or 0) + 1
        facts.put(self._con, WRITES, number)
        return number

    def finish(self) -> None:
        """Mark the store as closed if anything was written, and move the log into the file."""
        if self._path is None:
            return
        if not self._marked:
            self._drop_earlier()
            if Path(f"{self._path}.wal").exists():
                self._con.execute("CHECKPOINT")
            return
        reached = read_progress(self._con)
        close_mark(self._con, reached)
        self._keep_log(log_of(self._path))  # a log of two checkpoints ago matches no store
        self._con.execute("CHECKPOINT")
        kept = bool(facts.get(self._con, KEPT))
        self._con.close()
        self._drop_earlier()
        beside = record_of(self._path)
        if kept:
            closed = Record(self._record.store, self._record.session, reached, open=False)
            with contextlib.suppress(OSError):
                beside.touch(PRIVATE)
                beside.write_bytes(closed.to_bytes())
                make_durable(beside)  # else an earlier backup would be taken for the store
        else:
            beside.unlink(missing_ok=True)

    def release(self) -> None:
        """Release the record, the log and the mark; the files stay."""
        if self._log is not None:
            os.close(self._log)
            self._log = None
        if self.mark is not None:
            self.mark.release()
        if self._lock is not None:
            self._lock.release()
        for _, lock in self._earlier:
            lock.release()
        self._earlier = []

    def _drop_earlier(self) -> None:
        """Remove the records of the session before, which this one replaces."""
        assert self._path is not None
        beside = record_of(self._path)
        for file, lock in self._earlier:
            if file != beside:
                file.unlink(missing_ok=True)
            lock.release()
        self._earlier = []
        for file in beside.parent.glob(f"{glob.escape(beside.name)}.{'[0-9a-f]' * 8}"):
            record = read_record(file)  # of a session that was killed at its start
            if record is None or record.store == self._record.store:
                file.unlink(missing_ok=True)
