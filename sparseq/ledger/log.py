"""DuckDB's log of a store: which file it is, whatever it is called.

DuckDB writes what is committed to `STORE.wal`, and moves it into the store's file at a checkpoint.
The log begins with the number of the database that it belongs to, and of the checkpoint that it
follows; both are in the head of the store's file as well. So a log can be told by what is in it.
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
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and (found.st_dev, found.st_ino) not in held:
                yield Path(entry.path)


def _held() -> set[tuple[int, int]]:
    held: set[tuple[int, int]] = set()
    try:
        numbers = [int(n) for n in os.listdir("/dev/fd")]
    except (OSError, ValueError):
        return held
    for number in numbers:
        try:
            found = os.fstat(number)
        except OSError:
            continue
        held.add((found.st_dev, found.st_ino))
    return held


def logs_beside(path: Path, head: Head) -> list[Path]:
    """Return the files in a store's folder that begin as its log does, one name each."""
    found: dict[tuple[int, int], Path] = {}
    for file in files_beside(path):
        try:
            with open(file, "rb") as opened:
                if head.matches(opened.read(_LOG_HEAD)):
                    status = os.fstat(opened.fileno())
                    found.setdefault((status.st_dev, status.st_ino), file)
        except OSError:
            continue
    return sorted(found.values())


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
