"""The record of a store's progress: the format of session records and of marks, and its lock."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from sparseq.base.errors import StoreInUse
from sparseq.base.whole_files import PRIVATE

try:
    import fcntl
except ImportError:  # Windows: an open folder cannot be renamed or removed
    fcntl = None  # type: ignore[assignment]

RECORD_BYTES = 512
_TITLE = "sparseq session record"


@dataclass(frozen=True)
class HighWaterMark:
    """The progress of a store: its releases, and its other changes."""

    releases: int = 0
    writes: int = 0

    def covers(self, other: HighWaterMark) -> bool:
        """Tell whether this progress includes all of `other`."""
        return self.releases >= other.releases and self.writes >= other.writes


@dataclass(frozen=True)
class Record:
    """The record in the folder of an open store.

    Attributes:
        store: The store's identifier, which all copies share.
        session: The session's identifier.
        reached: A lower bound of the durable progress.
        open: False: the progress of a closed store; the record stays where backups may be restored.
    """

    store: str
    session: str
    reached: HighWaterMark
    open: bool = True

    def to_bytes(self) -> bytes:
        """Return the record as text of a fixed length, so that one call writes it."""
        text = (
            f"{_TITLE}\nstore {self.store}\nsession {self.session}\n"
            f"releases {self.reached.releases}\nwrites {self.reached.writes}\n"
            f"state {'open' if self.open else 'closed'}\n"
        )
        text += f"check {zlib.crc32(text.encode()):08x}\n"
        return text.ljust(RECORD_BYTES - 1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Record | None:
        """Return the record that `to_bytes` wrote, or None.

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
    """Return the path of a store's record."""
    return Path(f"{path}.session")


def read_record(path: Path) -> Record | None:
    """Return the record in a file, or None."""
    try:
        if path.stat().st_size != RECORD_BYTES:
            return None
        return Record.from_bytes(path.read_bytes())
    except OSError:
        return None


def lacks(has: HighWaterMark, needs: HighWaterMark) -> str:
    """Return a text about the missing part of a store.

    >>> lacks(HighWaterMark(5, 1), HighWaterMark(7, 2))
    'lacks 2 answers and 1 change, with all charges for it'
    """
    missing = (needs.releases - has.releases, "answer"), (needs.writes - has.writes, "change")
    both = " and ".join(f"{n:,} {noun}{'s' if n > 1 else ''}" for n, noun in missing if n > 0)
    return f"lacks {both}, with all charges for it"


class Lock:
    """The locked file of a record; the process that has the store open holds the lock.

    Raises:
        StoreInUse: Another process holds it.
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
            pass  # a file system without locks: DuckDB's own lock on the store remains

    def release(self) -> None:
        """Release the lock and close the file."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            self.release()
