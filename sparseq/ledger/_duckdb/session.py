"""Sessions: how a store knows that a part of it is missing.

Charges since the last checkpoint lie in DuckDB's log, a file of its own beside the store's. DuckDB
finds it by name, and without it opens the store as it was before: the charges would be forgotten.
So before its first durable write a session marks the store's file itself as open, and when it is
closed, as closed. The mark lies in `meta`, and a checkpoint takes it out of the log:

    {"id": which session, "open": true or false, "releases": …, "writes": …}

Beside the file lies the session's record, `STORE.session`: how many releases and how many other
changes are durable. It is written after each commit, and before the answer leaves. It is not
flushed to the disk each time: what is written survives the process, if not the machine, and DuckDB
flushes its log. After a loss of power the record is a lower bound, and the log is whole.

A store is whole if (1) it is marked as closed, or (2) the record of the session that it is marked
with is found; and in both cases, if no record that it meets tells of more releases or changes than
it has. Proof: every answer that left was committed first, and then counted in the record. Releases
are numbered, changes are counted in their own transactions, and a log is replayed from its start,
so a store that has reached the record's numbers has every release and change up to these.
A closed one had all when it was closed; a copy of it from before another session forgets what that
session answered, which only a record of that session can tell (see `sparseq._duckdb.backup`).

A session that only reads has no mark and no record, and writes nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import os
import secrets
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb

from sparseq.errors import StoreError, StoreInUse
from sparseq.ledger._duckdb import meta
from sparseq.ledger.entry import Loss

try:
    import fcntl
except ImportError:  # Windows: nothing there is renamed or removed while it is open
    fcntl = None  # type: ignore[assignment]

RECORD_BYTES = 512
_TITLE = "sparseq session record"
_MARK, WRITES, KEPT, LOSSES = "session", "writes", "record kept", "losses"
"""Keys of `meta`: the mark, the count of changes, whether the record stays after closing, and when
the store was opened although a part of it was missing."""


@dataclass(frozen=True)
class HighWaterMark:
    """How far a store has come: releases, and other changes of it."""

    releases: int = 0
    writes: int = 0

    def covers(self, other: HighWaterMark) -> bool:
        """Tell whether nothing of `other` is missing here."""
        return self.releases >= other.releases and self.writes >= other.writes


@dataclass(frozen=True)
class SessionMark:
    """What a store's file says of its last session: which, and whether it was closed."""

    id: str
    open: bool


@dataclass(frozen=True)
class Record:
    """What lies beside a store while it is open.

    Attributes:
        store: Which store; every copy of it has the same.
        session: Which session.
        reached: What is durable, at least.
        open: False: what a closed store had reached; it stays where backups may come back.
    """

    store: str
    session: str
    reached: HighWaterMark
    open: bool = True

    def to_bytes(self) -> bytes:
        """Return the record as text of a fixed length, so that it can be written in one piece."""
        text = (
            f"{_TITLE}\nstore {self.store}\nsession {self.session}\n"
            f"releases {self.reached.releases}\nwrites {self.reached.writes}\n"
            f"state {'open' if self.open else 'closed'}\n"
        )
        text += f"check {zlib.crc32(text.encode()):08x}\n"
        return text.ljust(RECORD_BYTES - 1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Record | None:
        """Return the record that `to_bytes` wrote; None if it is none.

        >>> record = Record("a", "b", HighWaterMark(3, 1))
        >>> Record.from_bytes(record.to_bytes()) == record
        True
        >>> Record.from_bytes(record.to_bytes().replace(b"3", b"2"))
        """
        head, _, check = data.decode(errors="replace").rpartition("check ")
        lines = head.splitlines()
        if len(data) != RECORD_BYTES or not lines or lines[0] != _TITLE:
            return None
        if check.split() != [f"{zlib.crc32(head.encode()):08x}"]:
            return None
        words = dict(line.split(" ", 1) for line in lines[1:])
        reached = HighWaterMark(int(words["releases"]), int(words["writes"]))
        return cls(words["store"], words["session"], reached, words["state"] == "open")


def record_of(path: Path) -> Path:
    """Return where a store's record lies."""
    return Path(f"{path}.session")


def read_record(path: Path) -> Record | None:
    """Return the record in a file; None if there is none."""
    try:
        if path.stat().st_size != RECORD_BYTES:
            return None
        return Record.from_bytes(path.read_bytes())
    except OSError:
        return None


def read_mark(connection: duckdb.DuckDBPyConnection) -> SessionMark | None:
    """Return what a store says of its last session; None: it never had one."""
    mark = meta.get(connection, _MARK)
    return None if mark is None else SessionMark(mark["id"], mark["open"])


def read_reached(connection: duckdb.DuckDBPyConnection) -> HighWaterMark:
    """Return how far a store has come."""
    ((releases,),) = connection.execute(
        "SELECT coalesce(max(id), 0) FROM ledger.release"
    ).fetchall()
    return HighWaterMark(int(releases), int(meta.get(connection, WRITES) or 0))


def add_loss(connection: duckdb.DuckDBPyConnection, missing: str) -> None:
    """Write into a store for ever that it goes on without a part, and mark it as closed."""
    has = read_reached(connection)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    losses = meta.get(connection, LOSSES) or []
    meta.put(connection, LOSSES, [*losses, asdict(Loss(now, has.releases, missing))])
    close_mark(connection, has)
    connection.execute("CHECKPOINT")


def close_mark(connection: duckdb.DuckDBPyConnection, reached: HighWaterMark) -> None:
    """Mark a store as closed, in its file."""
    mark = meta.get(connection, _MARK) or {"id": secrets.token_hex(16)}
    numbers = {"releases": reached.releases, "writes": reached.writes}
    meta.put(connection, _MARK, {"id": mark["id"], "open": False, **numbers})


class Lock:
    """A record's file, opened by whoever has the store open; nobody else may use it meanwhile.

    Raises:
        StoreInUse: Somebody else has.
    """

    def __init__(self, path: Path, flags: int = 0) -> None:
        self.fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | flags, 0o666)
        if fcntl is None:
            return
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.fd)
            raise StoreInUse(
                f"the store that {path.name} belongs to is in use", "wait until it is closed"
            ) from None
        except OSError:
            pass  # a file system without locks: DuckDB's own lock on the store is left

    def release(self) -> None:
        """Let go of the file."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            self.release()


class StoreSession:
    """One opening of a store: marks it at the first write, and counts what is durable.

    Args:
        connection: The store's; nothing else writes to it.
        path: Of the store's file, without symbolic links; None: the store is in memory, and there
            is nothing to mark.
        store: Which store it is.
        marked: The mark that the store has is of a session that was not closed.
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
        self.begun = path is None
        self._earlier: list[tuple[Path, Lock]] = []

    def goes_over(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Use another connection to the same store from now on."""
        self._con = connection

    def hold(self, file: Path, lock: Lock) -> None:
        """Keep the record of the session before, which was not closed, until it is not needed."""
        self._earlier.append((file, lock))

    def begin(self) -> None:
        """Mark the store as open, durably; to be called before each write, outside transactions.

        Raises:
            StoreError: There is no room for it, or no permission.
        """
        if self.begun:
            return
        assert self._path is not None
        record = replace(
            self._record, session=secrets.token_hex(16), reached=read_reached(self._con)
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
                "a store that is asked needs a folder with room that you may write in",
            ) from None
        self._marked = True
        meta.put(self._con, _MARK, {"id": record.session, "open": True})
        self._con.execute("CHECKPOINT")  # from here on the store is whole with this record only
        os.replace(new, beside)
        sync_folder(new)
        self._record, self._lock, self.begun = record, lock, True
        self._drop_earlier()

    def closed(self) -> None:
        """Know that the store has been marked as closed."""
        self._marked = False

    def reached(self, releases: int | None = None, writes: int | None = None) -> None:
        """Note what is durable now. Only then may an answer leave."""
        if self._lock is None:
            return
        old = self._record.reached
        new = HighWaterMark(
            old.releases if releases is None else releases, old.writes if writes is None else writes
        )
        self._record = replace(self._record, reached=new)
        os.pwrite(self._lock.fd, self._record.to_bytes(), 0)

    def count_write(self) -> int:
        """Count a change, in its own transaction; return its number, for `reached`."""
        number = int(meta.get(self._con, WRITES) or 0) + 1
        meta.put(self._con, WRITES, number)
        return number

    def finish(self) -> None:
        """Mark the store as closed, if anything was written, and take all of it out of the log."""
        if self._path is None:
            return
        if not self._marked:
            self._drop_earlier()
            if Path(f"{self._path}.wal").exists():
                self._con.execute("CHECKPOINT")
            return
        reached = read_reached(self._con)
        close_mark(self._con, reached)
        self._con.execute("CHECKPOINT")
        kept = bool(meta.get(self._con, KEPT))
        self._con.close()
        self._drop_earlier()
        beside = record_of(self._path)
        if kept:
            closed = Record(self._record.store, self._record.session, reached, open=False)
            with contextlib.suppress(OSError):
                beside.write_bytes(closed.to_bytes())
        else:
            beside.unlink(missing_ok=True)

    def release(self) -> None:
        """Let go of the record; it stays where it is."""
        if self._lock is not None:
            self._lock.release()
        for _, lock in self._earlier:
            lock.release()
        self._earlier = []

    def _drop_earlier(self) -> None:
        """Remove the records of the session before, which this one has made out of date."""
        assert self._path is not None
        beside = record_of(self._path)
        for file, lock in self._earlier:
            if file != beside:
                file.unlink(missing_ok=True)
            lock.release()
        self._earlier = []
        for file in beside.parent.glob(f"{glob.escape(beside.name)}.{'[0-9a-f]' * 8}"):
            found = read_record(file)  # of a session that was killed while it began
            if found is None or found.store == self._record.store:
                file.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Make a file's name durable."""
    if os.name == "nt":
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
