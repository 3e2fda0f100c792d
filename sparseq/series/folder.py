"""A folder in which files of rows appear: each file is loaded once, in the order of the names.

    a file that has not changed for a while     is loaded, each row by itself
    … whose end is missing                      is waited for, and set aside after the patience
    … without a header, or without a column     is set aside
    … with the name of a loaded file            is not loaded again, whatever it contains
    … with the contents of a loaded file        is loaded: its name is new
    hidden files, folders, *.tmp, *.part        are ignored

"Set aside" means: moved to `rejected/` in the folder, with the reason in a text file that only the
owner can read. A file that is waited for holds up the files after it. A file that is set aside
holds back its ticks and all later ones until it is mended (a file of its name is loaded) or skipped
(by the curator): its rows are missing, and an answer without them would be wrong.

Public facts of a file before its rows are read are its name, its existence and its frame: the
header or schema, and whether its end is there. Only these decide what happens to the file and
which ticks are complete (see `stamp`). Only the curator's log says that contents came twice or
changed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparseq.base.errors import DataError, ParameterError
from sparseq.base.texts import shown
from sparseq.load.column_report import as_word
from sparseq.load.content_hashes import key_of, sha256
from sparseq.load.file_patterns import UNFINISHED
from sparseq.load.file_sources import DAMAGE
from sparseq.load.open_sources import kind_of, source_of
from sparseq.load.text_streams import open_json, open_text
from sparseq.series.arrivals import Arrival, Inbox

REJECTED, REASON = "rejected", ".reason.txt"
WAIT = object()
PATIENCE = 15
"""A file that cannot be read is waited for this many times longer than one that can."""
_CHANGED = (
    "has changed since it was loaded, and was not loaded again: put added or corrected rows into a "
    "file with a new name"
)
_MOST_BYTES = 255
"""Longest file name, in bytes, on file systems with a limit."""
_STAMP = re.compile(
    r"(?<!\d)(\d{4})-?(0[1-9]|1[0-2])(?:-?(0[1-9]|[12]\d|3[01])"
    r"(?:[T_-]?([01]\d|2[0-3])(?:[:-]?([0-5]\d))?)?)?(?!\d)"
)
_DAY = dt.timedelta(days=1)
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class FileState:
    """The size and time of a file at one look."""

    bytes: int
    modified: int

    @classmethod
    def at(cls, path: Path) -> FileState:
        """Look at a file."""
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns)


class Folder:
    """The files of a folder as arrivals, in the order of their names; None if no file is ready.

    Args:
        path: The folder.
        inbox: Record of the loaded files, and the table that receives new ones.
        hours: File names may contain an hour.
        settle: Seconds for which a file must not have changed.
        by_name: The dates in the names declare which data are complete.
        once: End when every file is handled; else wait for more.
        say: Receives a message about each file.
        wait: Sleeps for some seconds; returns True if the monitor must stop.
        clock: The time, in seconds since 1970.

    Raises:
        DataError: There is no such folder.
    """

    def __init__(
        self,
        path: Path,
        inbox: Inbox,
        *,
        hours: bool = False,
        settle: float = 2.0,
        once: bool = False,
        by_name: bool = True,
        say: Callable[[str], None] = lambda _: None,
        wait: Callable[[float], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not path.is_dir():
            raise DataError(f"there is no folder {str(path)!r}", "--follow takes a folder")
        self.path, self._inbox = path, inbox
        self._hours, self._settle, self._once, self._by_name = hours, settle, once, by_name
        self._say, self._wait, self._clock = say, wait, clock
        self._done: dict[str, FileState] = {}
        self._seen: dict[str, tuple[FileState, float]] = {}
        self._files: dict[str, str] = {}
        self.set_aside = 0
        """Number of files that were set aside."""

    @property
    def held(self) -> list[str]:
        """The files that were set aside and that hold ticks back."""
        return self._inbox.held

    def __iter__(self) -> Iterator[Arrival | None]:
        while True:
            some = waiting = False
            for name in self._names():
                found = self._handle(name)
                if found is WAIT:  # later files wait for it
                    waiting = True
                    break
                if isinstance(found, Arrival):
                    some = True
                    yield found
            if some:  # more files may have appeared meanwhile
                continue
            if not waiting:
                yield None
                if self._once:
                    return
            if self._wait(min(self._settle, 1.0)):
                return

    def _handle(self, name: str) -> Arrival | object:
        """Return a file as rows to load, or WAIT; any other value: the file is handled."""
        try:
            look = FileState.at(self.path / name)
            if self._done.get(name) == look or self._is_known(name, look):
                self._done[name] = look
                return None
            age = self._age(name, look)
            if age < self._settle or not self._is_whole(name, age):
                return WAIT
            return self._arrival(name, look)
        except FileNotFoundError:  # removed meanwhile
            return None

    def _names(self) -> list[str]:
        with os.scandir(self.path) as entries:
            return sorted(
                e.name
                for e in entries
                if e.is_file() and e.name[0] not in "._" and not e.name.endswith(UNFINISHED)
            )

    def _age(self, name: str, look: FileState) -> float:
        """Return for how long a file has not changed, by its own time or by our observations."""
        now = self._clock()
        seen, since = self._seen.get(name, (look, now))
        if seen != look:
            since = now
        self._seen[name] = (look, since)
        return max(now - look.modified / 1e9, now - since)

    def _is_known(self, name: str, look: FileState) -> bool:
        """Return True if a file of this name was loaded; if it has changed, tell the curator."""
        note = self._inbox.notes.get(key_of(name))
        if note is None:
            return False
        same = (note.get("bytes"), note.get("modified")) == (look.bytes, look.modified)
        if not same and note.get("sha256") != _digest(self.path / name):
            self._inbox.tell_curator(f"{shown(name)} {_CHANGED}")
        return True

    def _is_whole(self, name: str, age: float) -> bool:
        """Return True if a file's end is there; for text, if the last line is terminated.

        After the patience, return True for any file.
        """
        try:
            return age >= PATIENCE * self._settle or has_end(self.path / name)
        except PermissionError:
            return False

    def _arrival(self, name: str, look: FileState) -> Arrival:
        """Return a file as rows to load."""
        path = self.path / name
        key, digest = key_of(name), _digest(path)
        self._files[key] = name
        same = [
            k for k, note in self._inbox.notes.items() if note.get("sha256") == digest is not None
        ]
        if same:
            self._inbox.tell_curator(f"{shown(name)} has the contents of {shown(same[0])}")
        upto = stamp(name, self._hours) if self._by_name else None
        if upto is None and self._by_name:
            self._say(
                f"{shown(name)} has no date in its name: it is taken in, and completes no tick"
            )
        note = {"sha256": digest, "bytes": look.bytes, "modified": look.modified}
        return Arrival([path], key, upto, note, lambda e: self.reject(key, str(e)))

    def reject(self, key: str, reason: str) -> None:
        """Move a file to `rejected/`, with the reason in a text file for the owner only."""
        name = self._files.get(key, key)
        aside = self.path / REJECTED
        try:
            aside.mkdir(mode=0o700, exist_ok=True)
            target, k = aside / name, 1
            while os.path.lexists(target):
                k += 1
                target = aside / _shorten(f"{k}-{name}", _MOST_BYTES)
            beside = _shorten(target.name, _MOST_BYTES - len(REASON)) + REASON
            handle = os.open(aside / beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(handle, "w", encoding="utf-8") as file:
                file.write(reason.rstrip() + "\n")
            os.rename(self.path / name, target)
        except OSError as error:
            raise ParameterError(
                f"{shown(name)} can't be moved to {shown(aside)}: {error.strerror}",
                "the folder must be writable",
            ) from None
        self.set_aside += 1
        self._say(f"{shown(name)} is set aside: see {shown(aside / beside, None)}")
        if key in self._inbox.held:
            self._say(waits(key))


def waits(key: str) -> str:
    """Return a message that ticks wait for a file that was set aside, and how to continue."""
    return (
        f"its ticks and later ones wait for {shown(key)}: mend it and put it back under this name, "
        f"or say `--skip {as_word(key)}` to answer them without it"
    )


def _digest(path: Path) -> str | None:
    try:
        return sha256(path)
    except PermissionError:
        return None


def _shorten(name: str, most: int) -> str:
    """Return a file's name without its last characters, so that it has at most `most` bytes."""
    return os.fsdecode(os.fsencode(name)[:most])


def stamp(name: str, hours: bool = False) -> dt.datetime | None:
    """Return the moment up to which a file has rows, from its name: the end of the last date in it.

    A month counts like a date; with `hours`, so does an hour.

    >>> [str(stamp(n)) for n in ("1997-01-31.csv", "s_19970101-19970107.parquet", "1997-02.csv")]
    ['1997-02-01 00:00:00', '1997-01-08 00:00:00', '1997-03-01 00:00:00']
    >>> str(stamp("sales-2024-01-01T05.jsonl", hours=True)), stamp("part-0001.csv")
    ('2024-01-01 06:00:00', None)
    """
    found = list(_STAMP.finditer(name))
    if not found:
        return None
    year, month, day, hour, minute = (int(g) if g else None for g in found[-1].groups())
    assert year is not None
    assert month is not None
    try:
        if day is None:
            return dt.datetime(year + month // 12, month % 12 + 1, 1)
        start = dt.datetime(year, month, day)
        if not hours or hour is None:
            return start + _DAY
        start += dt.timedelta(hours=hour, minutes=minute or 0)
        return start + dt.timedelta(minutes=1 if minute is not None else 60)
    except (ValueError, OverflowError):  # no such day
        return None


def has_end(path: Path) -> bool:
    """Return True if a file's last bytes are those of a finished file of its kind.

    Kinds without such bytes (compressed text, an Arrow stream) are read to their end instead.
    """
    name = path.name.lower()
    with open(path, "rb") as file:
        head = file.read(8)
        file.seek(max(path.stat().st_size - 8, 0))
        tail = file.read(8)
    if name.endswith((".parquet", ".pq")):
        return len(head) == 8 and tail.endswith(b"PAR1")
    if head.startswith(b"ARROW1"):
        return tail.endswith(b"ARROW1")
    if name.endswith((".csv", ".tsv", ".jsonl", ".ndjson")):
        return not tail or tail.endswith(b"\n") or _is_json(_last_line(path))
    return _can_be_read(path)


def _last_line(path: Path) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(path.stat().st_size - _LONGEST_LINE, 0))
        return file.read().rpartition(b"\n")[2]


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _can_be_read(path: Path) -> bool:
    """Return True if a file whose kind has no end mark can be read to its end."""
    try:
        kind = kind_of(path)
    except DataError:
        return True  # nothing to wait for
    try:
        if kind in ("text", "json"):
            stream = open_json(path) if kind == "json" else open_text(path)
            while stream.read(1 << 20):
                pass
        elif kind != "parquet":
            for _ in source_of(path).batches([]):
                pass
    except (DataError, *DAMAGE):
        return False
    return True
