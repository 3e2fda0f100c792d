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
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from sparseq.base.arguments import check_path
from sparseq.base.errors import StoreError
from sparseq.ledger._duckdb.record import (
    RECORD_BYTES,
    HighWaterMark,
    Lock,
    Record,
    lacks,
    sync_folder,
)


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
    from sparseq.ledger._duckdb.mark_object import MarkObject

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
        found = Record.from_bytes(os.pread(self._lock.fd, RECORD_BYTES + 1, 0))
        if found is None:
            self.release()  # something else: it is not written over
        return found

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
            raise StoreError(
                f"the store's high-water mark, {self.path}, can't be written: {error.strerror}",
                "no answer leaves without it: see that it can be, and open the store again",
            ) from None

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
