"""DuckDB's log of a store: how a file is recognised as its log, under any name.

DuckDB writes commits to `STORE.wal`, and moves them into the store's file at a checkpoint. The log
begins with the number of its database and of the checkpoint that it follows; the head of the
store's file contains both as well. So a log is recognised by its contents.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparseq.base.errors import StoreError

_HEAD = 3 * 4096  # of a database: its own head, and two that checkpoints write in turn
_LOG_HEAD = 128
_BEGINS = b"d\0be\0"  # field 100: an entry of type 'b', its version; field 101: the version number
_IDENTIFIER, _ITERATION = b"f\0", b"g\0"
_ALSO = (".checkpoint", ".recovery")  # files that exist with the log during a checkpoint


@dataclass(frozen=True)
class Head:
    """The head of a store's file, with the numbers that its log must contain."""

    start: bytes
    iteration: int

    @classmethod
    def of(cls, path: Path) -> Head:
        """Read the head. The process must not have the file open: closing would undo its lock."""
        with open(path, "rb") as file:
            head = file.read(_HEAD)
        if len(head) < _HEAD:
            return cls(head, -1)
        return cls(head[:4096], max(struct.unpack_from("<Q", head, at)[0] for at in (4104, 8200)))

    def matches(self, log: bytes) -> bool:
        """Tell whether these are the first bytes of this store's log."""
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
    """Return a number of seven bits a byte, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def log_of(path: Path) -> Path:
    """Return the path where DuckDB looks for a store's log."""
    return Path(f"{path}.wal")


def has_log(path: Path) -> bool:
    """Tell whether a file exists where DuckDB looks for a log."""
    return any(Path(f"{log_of(path)}{end}").exists() for end in ("", *_ALSO))


def files_beside(path: Path) -> Iterator[Path]:
    """Yield the files in a store's folder that this process does not have open.

    Reading and closing a file that the process has open would undo its locks.
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
    """Return the files in a store's folder that begin like its log, one name for each file."""
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
    """Rename a log, and the files of a checkpoint with it."""
    for end in ("", *_ALSO):
        old, new = Path(f"{log}{end}"), Path(f"{name}{end}")
        if not end or (old.exists() and not new.exists()):
            os.rename(old, new)


def unreadable(path: Path, error: Exception) -> StoreError | None:
    """Return an error for DuckDB's message about an unusable log; None: it is about something else.

    >>> print(unreadable(Path("a"), ValueError("WAL does not match database file.")).message)
    a.wal is the log of another store
    """
    text, name = str(error), log_of(path).name
    if "WAL does not match database file" in text:
        return StoreError(
            f"{name} is the log of another store",
            f"move it to the folder of that store, and restore the file that was called {name} "
            "before",
        )
    if "checkpoint iteration does not match" in text:
        return StoreError(
            f"{name} and {path.name} are from different times: one of them is older",
            f"restore the {path.name} and the {name} that were there together",
        )
    if re.search(r"replaying|Corrupt WAL|WAL file|\bWAL\b", text):
        return StoreError(
            f"{name} is damaged; it contains answers and their charges",
            f"restore an undamaged copy of {name}; nothing has been changed",
        )
    return None
