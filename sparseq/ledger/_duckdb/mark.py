"""A high-water mark outside of the store, with which a restored copy is compared.

A session record in the store's folder (`session`) is lost with the folder, or restored together
with it. A mark lies elsewhere, on another disk or machine: a file, or an object (`mark_object`). It
holds the last session that answered, and its progress. It is flushed to its disk after each commit,
before the answer is returned. The store's own file holds the place of its mark and the list of its
sessions; copies of the store have both. So all copies read the same mark, and the process that has
it open holds its lock.

A store opens only if (1) the mark's session is in its list, and (2) it has all releases and
changes that the mark counts. If the mark does not count the last commit yet, it is updated before
any read.

Claim: no copy of a store opens that lacks a charge for an answer that was read from any of the
copies. Proof. Every answer that was read was counted in the mark first, by a session that held the
mark's lock. So the mark's last writer W, of session s at n, had all of them: it had opened under
the same rules. A copy with s among its sessions was made of W's file after s had begun, and
releases and changes within s have one order; so if it has n of them, it has those of W. A copy that
continued from there in a session of its own has written that session into the mark. An accepted
loss begins a session too: from then on no other copy opens.

A mark that was itself restored to an earlier time counts less, and prevents nothing: files cannot
reveal that.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from sparseq.base.arguments import check_path
from sparseq.base.errors import StoreError
from sparseq.base.whole_files import sync_folder
from sparseq.ledger._duckdb.progress_record import RECORD_BYTES, HighWaterMark, Lock, Record, lacks


class StoreMark(Protocol):
    """A mark in a file or in an object store (`mark_object`).

    Attributes:
        place: The place, as the store records it.
        name: The name of the mark in messages.
    """

    place: str
    name: str

    def exists(self) -> bool:
        """Tell whether the mark exists."""

    def take(self) -> Record | None:
        """Return the record in the mark; None: there is no mark, or it is unreadable."""

    def write(self, record: Record) -> None:
        """Write the store's progress durably; raise an error if that fails."""

    def release(self) -> None:
        """Release the mark."""


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
    """A mark in a file; it is locked before it is read, and as long as the store is open."""

    def __init__(self, path: Path) -> None:
        self.path, self.place, self.name = path, str(path), path.name
        self._lock: Lock | None = None

    def exists(self) -> bool:
        """Tell whether the file exists."""
        return self.path.exists()

    def take(self) -> Record | None:
        """Lock the file and return its record; None: there is no file, or it is no mark.

        Raises:
            StoreInUse: A copy of the same store is open.
        """
        try:
            self._lock = Lock(self.path)
        except OSError:
            return None
        record = Record.from_bytes(os.pread(self._lock.fd, RECORD_BYTES + 1, 0))
        if record is None:
            self.release()  # another kind of file: it is not overwritten
            return None
        try:
            os.fsync(self._lock.fd)  # its writer may have been killed before the flush
        except OSError as error:
            self.release()
            raise self._disk_error(error) from None
        return record

    def write(self, record: Record) -> None:
        """Write the store's progress durably.

        Raises:
            StoreError: The file can't be written; no answer may be returned.
        """
        made = self._lock is None
        try:
            if self._lock is None:
                self._lock = Lock(self.path, os.O_CREAT | os.O_EXCL)
                sync_folder(self.path)
            os.pwrite(self._lock.fd, record.to_bytes(), 0)
            os.fsync(self._lock.fd)
        except OSError as error:
            if made and self._lock is not None:  # half of a mark is no mark
                self.path.unlink()
                self.release()
            raise self._disk_error(error) from None

    def _disk_error(self, error: OSError) -> StoreError:
        return StoreError(
            f"the store's high-water mark, {self.path}, can't be written: {error.strerror}",
            "no answer is returned without it: make the file writable, and open the store again",
        )

    def release(self) -> None:
        """Release the lock and close the file."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def behind(found: Record, sessions: list[str], has: HighWaterMark) -> str:
    """Return the reason that a store is behind its mark; "": it is not.

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
