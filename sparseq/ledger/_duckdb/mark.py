"""A high-water mark outside of the store: what a restored copy is compared with.

A record beside the store (`session`) is lost with the store's folder, or put back together with it.
A mark lies elsewhere, on another disk or machine: a file, or an object (`mark_object`), with the
last session that has answered, and with how far it came. It is flushed to its disk after each
commit, before the answer leaves.
The store's own file says where its mark lies, and which sessions it has had; copies have both. So
each of them looks at the one mark, and whoever has it open holds its lock.

A store opens only if (1) its mark's session is one of its own, and (2) it has all releases and
changes that the mark tells of. If a commit was not told of yet, the mark is brought up to it before
anything is read.

Claim: of all copies of one store, none opens that lacks a charge for an answer that was read from
any of them. Proof. Every answer that was read was counted in the mark first, by a session that held
its lock; so the mark's last writer W, of session s at n, had all of them: it had opened under the
same rules. A copy with s among its sessions was made of W's file after s had begun, and releases
and changes within s have one order; so if it has n of them, it has those of W. One that has gone
on from there in a session of its own has written that session into the mark. An accepted loss
begins a session too: from then on no other copy opens.

A mark that was itself put back to an earlier time tells of less, and is no hindrance: what lies in
files can't tell that.

A high-water mark in an object store: S3 and its like, Google's, Azure's.

In place of a lock there is a condition on each write (`If-None-Match`, then `If-Match`): it is
refused unless the object is as this copy of the store has read or written it last. So the writes of
a mark are one chain, and the claim of `mark` holds: the last writer W had all that the one before
had told of. Two copies may be open at once; the first that is asked shuts the other out, whose next
answer does not leave.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import secrets
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from sparseq.base.arguments import check_path
from sparseq.base.errors import ParameterError, StoreError, StoreInUse
from sparseq.base.whole_files import PRIVATE, sync_folder

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# -- a record of how far a store has come ----------------------------------------------------------

try:
    import fcntl
except ImportError:  # Windows: nothing there is renamed or removed while it is open
    fcntl = None  # type: ignore[assignment]

RECORD_BYTES = 512
_TITLE = "sparseq session record"


@dataclass(frozen=True)
class HighWaterMark:
    """The progress of a store: releases, and other changes of it."""

    releases: int = 0
    writes: int = 0

    def covers(self, other: HighWaterMark) -> bool:
        """Tell whether nothing of `other` is missing here."""
        return self.releases >= other.releases and self.writes >= other.writes


@dataclass(frozen=True)
class Record:
    """The record that lies beside a store while it is open.

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


def lacks(has: HighWaterMark, needs: HighWaterMark) -> str:
    """Return in words what a store lacks.

    >>> lacks(HighWaterMark(5, 1), HighWaterMark(7, 2))
    'lacks 2 answers and 1 change, with all charges for it'
    """
    missing = (needs.releases - has.releases, "answer"), (needs.writes - has.writes, "change")
    both = " and ".join(f"{n:,} {noun}{'s' if n > 1 else ''}" for n, noun in missing if n > 0)
    return f"lacks {both}, with all charges for it"


class Lock:
    """A record's file, opened by whoever has the store open; nobody else may use it meanwhile.

    Raises:
        StoreInUse: Somebody else has.
    """

    def __init__(self, path: Path, flags: int = 0) -> None:
        self.fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | flags, PRIVATE)
        if fcntl is None:
            return
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
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


# -- a high-water mark outside of the store: what a restored copy is compared with -----------------


class StoreMark(Protocol):
    """A mark, wherever it lies: in a file, or in an object store (`mark_object`).

    Attributes:
        place: Where, as a store remembers it.
        name: What it is called in a message.
    """

    place: str
    name: str

    def exists(self) -> bool:
        """Tell whether anything is there."""

    def take(self) -> Record | None:
        """Return what it says; None: it is not there, or is no mark."""

    def write(self, record: Record) -> None:
        """Say how far the store has come, durably; raise where that can't be."""

    def release(self) -> None:
        """Let go of it."""


def mark_at(place: str) -> StoreMark:
    """Return the mark at a place: the path of a file, or an address such as s3://bucket/name.

    Raises:
        ParameterError: No file system has such a path.

    >>> mark_at("/mnt/other/shop.mark").name
    'shop.mark'
    """
    if "://" not in place:
        check_path("the mark", place)
        return MarkFile(Path(place).resolve())
    from sparseq.ledger._duckdb.mark import MarkObject

    return MarkObject(place)


class MarkFile:
    """A mark in a file; to be taken before it is read, and held as long as the store is open."""

    def __init__(self, path: Path) -> None:
        self.path, self.place, self.name = path, str(path), path.name
        self._lock: Lock | None = None

    def exists(self) -> bool:
        """Tell whether anything is there."""
        return self.path.exists()

    def take(self) -> Record | None:
        """Lock the file and return what it says; None: it is not there, or is no mark.

        Raises:
            StoreInUse: A copy of the same store is open.
        """
        try:
            self._lock = Lock(self.path)
        except OSError:
            return None
        record = Record.from_bytes(os.pread(self._lock.fd, RECORD_BYTES + 1, 0))
        if record is None:
            self.release()  # something else: it is not written over
            return None
        try:
            os.fsync(self._lock.fd)  # whoever wrote it may have been killed before
        except OSError as error:
            self.release()
            raise self._disk_error(error) from None
        return record

    def write(self, record: Record) -> None:
        """Say how far the store has come, durably.

        Raises:
            StoreError: It can't be written; nothing may be answered.
        """
        made = self._lock is None
        try:
            if self._lock is None:
                self._lock = Lock(self.path, os.O_CREAT | os.O_EXCL)
                sync_folder(self.path)
            os.pwrite(self._lock.fd, record.to_bytes(), 0)
            os.fsync(self._lock.fd)
        except OSError as error:
            if made and self._lock is not None:  # half of a mark is none
                self.path.unlink()
                self.release()
            raise self._disk_error(error) from None

    def _disk_error(self, error: OSError) -> StoreError:
        return StoreError(
            f"the store's high-water mark, {self.path}, can't be written: {error.strerror}",
            "no answer leaves without it: see that it can be, and open the store again",
        )

    def release(self) -> None:
        """Let go of the file."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def behind(found: Record, sessions: list[str], has: HighWaterMark) -> str:
    """Return what is said of a store that is behind its mark; "": it is not.

    >>> mark = Record("shop", "monday", HighWaterMark(3, 1))
    >>> behind(mark, ["sunday", "monday"], HighWaterMark(4, 1))
    ''
    >>> behind(mark, ["sunday", "monday"], HighWaterMark(2, 1))
    'lacks 1 answer, with all charges for it'
    >>> behind(mark, ["sunday", "tuesday"], HighWaterMark(4, 1))
    'is not the copy that was asked last'
    """
    if not has.covers(found.reached):
        return lacks(has, found.reached)
    return "" if found.session in sessions else "is not the copy that was asked last"


# -- a high-water mark in an object store: S3 and its like, Google's, Azure's ----------------------

_PATIENCE = dt.timedelta(seconds=20)
"""So long is a request tried again; answers wait for it."""
SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


class MarkObject:
    """A mark in an object; whoever writes it has read it before, and nobody in between.

    Args:
        place: Its address, such as `s3://bucket/shop.mark`. Credentials are found where the object
            store's own tools look for them, in the environment, and are no part of it.
        store: Where it lies; by default at that address.

    Raises:
        ParameterError: It is no address of an object, or has credentials in it.
    """

    def __init__(self, place: str, store: ObjectStore | None = None) -> None:
        parts = urlsplit(place)
        self.place, self._key = place, parts.path.strip("/")
        odd = parts.query or "@" in parts.netloc or parts.scheme not in SCHEMES
        if odd or not parts.netloc or not self._key:
            raise ParameterError(
                f"{parts.scheme}://{parts.hostname or ''}{parts.path} is no address of a mark",
                "write it as s3://BUCKET/NAME; credentials are found in the environment",
            )
        self._store = store or _open(f"{parts.scheme}://{parts.netloc}")
        self._version: dict[str, str] | None = None
        self._nonce = secrets.token_hex(16).encode()  # whose writes they are
        self.name = place

    def exists(self) -> bool:
        """Tell whether anything is there."""
        return self._read() is not None

    def take(self) -> Record | None:
        """Return what the mark says; None: it is not there, or is no mark."""
        data = self._read()
        record = None if data is None else Record.from_bytes(data[:RECORD_BYTES])
        if record is None:
            self._version = None  # something else: it is not written over
        return record

    def write(self, record: Record) -> None:
        """Say how far the store has come, durably, if nobody else has meanwhile.

        Raises:
            StoreError: Another copy of the store has, or it can't be written: nothing may leave.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        data = record.to_bytes() + self._nonce
        condition: Any = self._version or "create"
        try:
            self._version = _version(obstore.put(self._store, self._key, data, mode=condition))
        except (AlreadyExistsError, PreconditionError):
            if self._read() == data:  # an earlier try of this write has arrived after all
                return
            raise StoreError(
                f"the store's high-water mark, {self.place}, was written by another copy of it",
                "only the copy that was asked last opens: go on with that one",
            ) from None
        except Exception as error:
            raise self._failure("written", error) from None

    def release(self) -> None:
        """Let go of it: there is no lock."""

    def _read(self) -> bytes | None:
        """Return what is there, and remember which version of it was read."""
        import obstore

        try:
            stored = obstore.get(self._store, self._key)
            data, self._version = bytes(stored.bytes()), _version(stored.meta)
        except FileNotFoundError:
            self._version = None
            return None
        except Exception as error:
            raise self._failure("read", error) from None
        return data

    def _failure(self, verb: str, error: Exception) -> StoreError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return StoreError(
            f"the store's high-water mark, {self.place}, can't be {verb}: {lines[0][:200]}",
            "no answer leaves without it: see that it can be, and open the store again",
        )


def _open(address: str) -> ObjectStore:
    if importlib.util.find_spec("obstore") is None:
        raise ParameterError(
            f"for a mark at {address} another package is needed", "pip install 'sparseq[objects]'"
        )
    from obstore.store import from_url

    return from_url(address, retry_config={"retry_timeout": _PATIENCE})


def _version(of: Any) -> dict[str, str]:
    """Return what an object's version is told by: what the object store has said of it."""
    return {k: of[k] for k in ("e_tag", "version") if of.get(k) is not None}
