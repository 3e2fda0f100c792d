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
session answered, which only a record of that session can tell (see `sparseq.store._duckdb.backup`).

A session that only reads has no mark and no record, and writes nothing.

DuckDB's log of a store: which file it is, whatever it is called.

DuckDB writes what is committed to `STORE.wal`, and moves it into the store's file at a checkpoint.
The log begins with the number of the database that it belongs to, and of the checkpoint that it
follows; both are in the head of the store's file as well. So a log can be told by what is in it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import os
import re
import secrets
import stat
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb

from sparseq.base.errors import StoreError
from sparseq.base.whole_files import PRIVATE, make_durable, sync_folder
from sparseq.engine._duckdb.connection import not_judged
from sparseq.ledger._duckdb import notes
from sparseq.ledger._duckdb.mark import (
    HighWaterMark,
    Lock,
    Record,
    StoreMark,
    read_record,
    record_of,
)
from sparseq.ledger._duckdb.notes import CuratorLog
from sparseq.ledger.protocol import Loss

# -- duckDB's log of a store: which file it is, whatever it is called ------------------------------

_HEAD = 3 * 4096  # of a database: its own head, and two that checkpoints write in turn
_LOG_HEAD = 128
_BEGINS = b"d\0be\0"  # field 100: an entry of type 'b', its version; field 101: which version
_IDENTIFIER, _ITERATION = b"f\0", b"g\0"
_ALSO = (".checkpoint", ".recovery")  # what a checkpoint has beside the log while it goes on


@dataclass(frozen=True)
class Head:
    """The head of a store's file: what its log must say."""

    start: bytes
    iteration: int

    @classmethod
    def of(cls, path: Path) -> Head:
        """Read it. The file must not be open in this process: closing it would undo its lock."""
        with open(path, "rb") as file:
            head = file.read(_HEAD)
        if len(head) < _HEAD:
            return cls(head, -1)
        return cls(head[:4096], max(struct.unpack_from("<Q", head, at)[0] for at in (4104, 8200)))

    def matches(self, log: bytes) -> bool:
        """Tell whether a log's first bytes are those of this store's log."""
        if not log.startswith(_BEGINS):
            return False
        at = log.find(_IDENTIFIER, len(_BEGINS))
        try:
            count, at = _number(log, at + 2)
            identifier = bytearray()
            for _ in range(count):
                value, at = _number(log, at)
                identifier.append(value)
            if at < 0 or log[at : at + 2] != _ITERATION:
                return False
            iteration, _ = _number(log, at + 2)
        except (IndexError, ValueError):
            return False
        return bytes(identifier) in self.start and iteration == self.iteration


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def log_of(path: Path) -> Path:
    """Return where DuckDB looks for a store's log."""
    return Path(f"{path}.wal")


def has_log(path: Path) -> bool:
    """Tell whether anything lies where DuckDB looks for a log."""
    return any(Path(f"{log_of(path)}{end}").exists() for end in ("", *_ALSO))


def files_beside(path: Path) -> Iterator[Path]:
    """Yield the files in a store's folder that this process does not have open.

    To read one that it has open, and to close it again, would undo locks on it.
    """
    held = _held()
    with os.scandir(path.parent) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in held:
                yield Path(entry.path)


def _held() -> set[tuple[int, int]]:
    held: set[tuple[int, int]] = set()
    try:
        numbers = [int(n) for n in os.listdir("/dev/fd")]
    except (OSError, ValueError):
        return held
    for number in numbers:
        try:
            status = os.fstat(number)
        except OSError:
            continue
        held.add((status.st_dev, status.st_ino))
    return held


def logs_beside(path: Path, head: Head) -> list[Path]:
    """Return the files in a store's folder that begin as its log does, one name each."""
    logs: dict[tuple[int, int], Path] = {}
    for file in files_beside(path):
        try:
            with open(file, "rb") as opened:
                if head.matches(opened.read(_LOG_HEAD)):
                    status = os.fstat(opened.fileno())
                    logs.setdefault((status.st_dev, status.st_ino), file)
        except OSError:
            continue
    return sorted(logs.values())


def adopt(log: Path, name: Path) -> None:
    """Give a log another name, and what a checkpoint has beside it."""
    for end in ("", *_ALSO):
        old, new = Path(f"{log}{end}"), Path(f"{name}{end}")
        if not end or (old.exists() and not new.exists()):
            os.rename(old, new)


def unreadable(path: Path, error: Exception) -> StoreError | None:
    """Return in plain words what DuckDB says about a log that it can't take in; None: about none.

    >>> print(unreadable(Path("a"), ValueError("WAL does not match database file.")).message)
    a.wal is the log of another store
    """
    text, name = str(error), log_of(path).name
    if "WAL does not match database file" in text:
        return StoreError(
            f"{name} is the log of another store",
            f"move it to where that store is, and bring back what was called {name} before",
        )
    if "checkpoint iteration does not match" in text:
        return StoreError(
            f"{name} and {path.name} are from different times: one of them is older",
            f"bring the {path.name} and the {name} that were there together",
        )
    if re.search(r"replaying|Corrupt WAL|WAL file|\bWAL\b", text):
        return StoreError(
            f"{name} is damaged, and answers and what they cost are in it",
            f"bring back a {name} that is whole; nothing has been changed",
        )
    return None


# -- sessions: how a store knows that a part of it is missing --------------------------------------

_MARK, WRITES, KEPT, LOSSES = "session", "writes", "record kept", "losses"
"""Keys of `meta`: the mark, the count of changes, whether the record stays after closing, and when
the store was opened although a part of it was missing."""
PLACE, SESSIONS = "mark", "sessions"
"""Keys of `meta`: where the mark outside of the store lies, and the store's sessions since."""
_MOST_SESSIONS = 1000  # that are remembered: a mark of an earlier one is taken for another copy's


@dataclass(frozen=True)
class SessionMark:
    """The last session, as a store's file has it: which, and whether it was closed."""

    id: str
    open: bool


def read_mark(connection: duckdb.DuckDBPyConnection) -> SessionMark | None:
    """Return what a store says of its last session; None: it never had one."""
    mark = notes.get(connection, _MARK)
    return None if mark is None else SessionMark(mark["id"], mark["open"])


def read_progress(connection: duckdb.DuckDBPyConnection) -> HighWaterMark:
    """Return how far a store has come."""
    ((releases,),) = connection.execute(
        "SELECT coalesce(max(id), 0) FROM ledger.release"
    ).fetchall()
    return HighWaterMark(int(releases), int(notes.get(connection, WRITES) or 0))


def add_loss(connection: duckdb.DuckDBPyConnection, missing: str) -> None:
    """Write into a store for ever that it goes on without a part, and mark it as closed."""
    has = read_progress(connection)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    losses = notes.get(connection, LOSSES) or []
    notes.put(connection, LOSSES, [*losses, asdict(Loss(now, has.releases, missing))])
    close_mark(connection, has)
    connection.execute("CHECKPOINT")


def close_mark(connection: duckdb.DuckDBPyConnection, reached: HighWaterMark) -> None:
    """Mark a store as closed, in its file."""
    mark = notes.get(connection, _MARK) or {"id": secrets.token_hex(16)}
    numbers = {"releases": reached.releases, "writes": reached.writes}
    notes.put(connection, _MARK, {"id": mark["id"], "open": False, **numbers})


class StoreSession:
    """One opening of a store: marks it at the first write, and counts what is durable.

    Args:
        connection: The store's; nothing else writes to it.
        path: Of the store's file, without symbolic links; None: the store is in memory, and there
            is nothing to mark.
        store: Which store it is.
        marked: The mark that the store has is of a session that was not closed.

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
        self._log: int | None = None  # the number of the log, once its name is durable
        self.begun = path is None
        self.mark: StoreMark | None = None
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
                "a store that is asked needs a folder with room that you may write in",
            ) from None
        self._marked = True
        if self.mark is not None:
            self._remember(record.session)
        notes.put(self._con, _MARK, {"id": record.session, "open": True})
        if said := not_judged():
            CuratorLog(self._con).add_once("engine", said)
        self._con.execute("CHECKPOINT")  # from here on the store is whole with this record only
        try:
            os.replace(new, beside)
            sync_folder(new)
        except OSError as error:
            raise notes.not_written(error, "nothing was answered or charged") from None
        if self.mark is not None:
            self.mark.write(record)
        self._record, self._lock, self.begun = record, lock, True
        self._drop_earlier()

    def closed(self) -> None:
        """Know that the store has been marked as closed."""
        self._marked = False

    def reached(self, releases: int | None = None, writes: int | None = None) -> None:
        """Note what is durable now. Only then may an answer leave.

        Raises:
            StoreError: It can't be noted; nothing may leave.
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
            raise notes.not_written(error, "nothing left the store", "it was charged") from None
        if self.mark is not None:
            self.mark.write(self._record)

    def _keep_log(self, log: Path) -> None:
        """Make the name of DuckDB's log durable, which it begins anew after each checkpoint.

        DuckDB flushes what is in the log, and not its name: without it a loss of power would take
        all answers since the checkpoint. The log stays open here, so that its number in the file
        system is no other file's.
        """
        if os.name == "nt":
            return
        try:
            number = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # a checkpoint has just taken all of it into the store's file
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
        """Have a mark outside of the store from now on: say how far it has come.

        Args:
            mark: It lies at the place that the store remembers.
            session: Which session has come so far; by default a new one, of this copy alone.
        """
        if not session:
            session = self._record.session or secrets.token_hex(16)
            self._remember(session)
            self._con.execute("CHECKPOINT")
        mark.write(replace(self._record, session=session, reached=read_progress(self._con)))
        self.mark = mark

    def _remember(self, session: str) -> None:
        sessions = notes.get(self._con, SESSIONS) or []
        notes.put(self._con, SESSIONS, [*sessions, session][-_MOST_SESSIONS:])

    def count_write(self) -> int:
        """Count a change, in its own transaction; return its number, for `reached`."""
        number = int(notes.get(self._con, WRITES) or 0) + 1
        notes.put(self._con, WRITES, number)
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
        reached = read_progress(self._con)
        close_mark(self._con, reached)
        self._keep_log(log_of(self._path))  # a log of two checkpoints ago fits no store
        self._con.execute("CHECKPOINT")
        kept = bool(notes.get(self._con, KEPT))
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
        """Let go of the record, the log and the mark; they stay where they are."""
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
        """Remove the records of the session before, which this one has made out of date."""
        assert self._path is not None
        beside = record_of(self._path)
        for file, lock in self._earlier:
            if file != beside:
                file.unlink(missing_ok=True)
            lock.release()
        self._earlier = []
        for file in beside.parent.glob(f"{glob.escape(beside.name)}.{'[0-9a-f]' * 8}"):
            record = read_record(file)  # of a session that was killed while it began
            if record is None or record.store == self._record.store:
                file.unlink(missing_ok=True)
