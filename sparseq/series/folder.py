"""A folder that files of rows appear in: each is taken in once, in the order of their names.

    a file that has not changed for a while     is taken in; each row is read by itself
    … whose end is missing                      is waited for, and set aside in the end
    … without a header, or without a column     is set aside
    … of the name of one taken in               is not taken in again, whatever it holds
    … with the contents of one taken in         is taken in: its name is new
    hidden files, folders, *.tmp, *.part        are not looked at

Set aside means: moved to `rejected/` in the folder, with the reason in a file beside it that only
the owner can read. A file that is waited for holds up those after it.

What is known about a file before its rows are taken in, its name and that it is there, is public,
and so is its frame: its header or schema, and that its end is there. Nothing else decides what
becomes of it, and its name alone decides which ticks are complete (see `stamp`): also where it is
set aside. That contents came twice, or changed, only the curator's log has.

Rows that arrive while a stream goes on: each arrival is taken in once, and completes ticks.

Which ticks are complete must be public, because the number of answers is. So it is said from
outside (by the name of a file, by a broker's own watermark, by the clock), and never found by
looking for the latest row: one person's row, dated next year, would complete every tick until then.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparseq.base.errors import DataError, ParameterError
from sparseq.base.texts import shown
from sparseq.load.content_hashes import key_of, sha256
from sparseq.load.file_patterns import UNFINISHED
from sparseq.load.file_sources import DAMAGE
from sparseq.load.open_sources import kind_of, source_of
from sparseq.load.text_lines import open_json, open_text
from sparseq.store.store import Store

# -- rows that arrive while a stream goes on -------------------------------------------------------


@dataclass(frozen=True)
class Arrival:
    """Rows to take in, once.

    Attributes:
        rows: An Arrow record batch or table, or paths of files.
        key: Stands for these rows, for ever: a file's name, a broker's partition and offset.
        upto: With these rows, the data up to this moment are complete. Public. None: says nothing.
        note: More to remember beside the key.
        refused: Told when a file's frame is wrong; nothing of it was taken in. None: it raises.
    """

    rows: Any
    key: str
    upto: dt.datetime | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    refused: Callable[[DataError], None] | None = None


class Inbox:
    """The files taken into one table: the store's own record, so that a crash can't forget it.

    Args:
        store: Where rows go.
        table: Which private table.
    """

    def __init__(self, store: Store, table: str) -> None:
        self._store, self._table = store, table
        self._corrects = bool(store.catalog.table(table).row_key)
        self._prefix = f"monitor/{table}/"
        self.notes: dict[str, dict[str, Any]] = {
            key.removeprefix(self._prefix): json.loads(note)
            for key, note in store.taken().items()
            if key.startswith(self._prefix)
        }
        """By key: what was noted when its rows were taken in."""
        self._aside = f"set aside/{table}/"
        aside = [
            json.loads(note) for key, note in store.taken().items() if key.startswith(self._aside)
        ]
        moments = [n["upto"] for n in (*self.notes.values(), *aside) if n.get("upto")]
        self.upto = max(map(dt.datetime.fromisoformat, moments), default=None)
        """The data up to this moment are complete."""

    def take(self, arrival: Arrival, late: bool = False) -> bool:
        """Take in rows, all or none, unless they were taken in before; tell whether they were now.

        The rows and the record that they were taken in are one transaction; so is that they may be
        about ticks that were answered: because they are `late`, because nothing says up to when
        they go, or because in a table with a row key they may replace any others. All of this is
        public, and the rows are not looked at for it.

        What is refused is remembered as well, with what it completes: a name decides which ticks
        are complete, never what a file holds.
        """
        if arrival.key in self.notes:
            return False
        upto = arrival.upto.isoformat() if arrival.upto is not None else None
        note = {**arrival.note, "upto": upto}
        try:
            self._store.ingest(
                arrival.rows,
                self._table,
                once=self._prefix + arrival.key,
                note=json.dumps(note),
                late=late or upto is None or self._corrects,
            )
        except DataError as error:
            if arrival.refused is None:
                raise
            # It completes its ticks all the same: its name says so.
            self._store.remember(self._aside + arrival.key, json.dumps(note))
            arrival.refused(error)
            self._complete(arrival.upto)
            return False
        self.notes[arrival.key] = note
        self._complete(arrival.upto)
        return True

    def _complete(self, upto: dt.datetime | None) -> None:
        if upto is not None:
            self.upto = max(self.upto or upto, upto)

    def tell_curator(self, message: str) -> None:
        """Write a line to the curator's log: private."""
        self._store.tell_curator("arrival", f"{self._table}: {message}")


# -- a folder that files of rows appear in ---------------------------------------------------------

REJECTED, REASON = "rejected", ".reason.txt"
WAIT = object()
PATIENCE = 15
"""A file that can't be read is waited for this many times as long as one that can."""
_CHANGED = (
    "has other contents than when it was taken in; nothing of it was taken in again: rows that are "
    "added or corrected come in a file of a new name"
)
_MOST_BYTES = 255
"""Of a file's name, where a file system has a limit."""
_STAMP = re.compile(
    r"(?<!\d)(\d{4})-?(0[1-9]|1[0-2])(?:-?(0[1-9]|[12]\d|3[01])"
    r"(?:[T_-]?([01]\d|2[0-3])(?:[:-]?([0-5]\d))?)?)?(?!\d)"
)
_DAY = dt.timedelta(days=1)
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class FileState:
    """The state of a file when we looked."""

    bytes: int
    modified: int

    @classmethod
    def at(cls, path: Path) -> FileState:
        """Look at a file."""
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns)


class Folder:
    """The files of a folder as arrivals, in the order of their names; None when none is ready.

    Args:
        path: The folder.
        inbox: What was taken in before, and where it goes.
        hours: The names of files may say the hour.
        settle: Seconds that a file must not have changed for.
        by_name: The dates in their names say what is complete.
        once: End when everything is dealt with; else wait for more.
        say: Told, in words, what happened to which file.
        wait: Sleeps for some seconds; returns True if the monitor is to stop.
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

    def __iter__(self) -> Iterator[Arrival | None]:
        while True:
            some = waiting = False
            for name in self._names():
                found = self._look_at(name)
                if found is WAIT:  # whatever comes after it comes after it
                    waiting = True
                    break
                if isinstance(found, Arrival):
                    some = True
                    yield found
            if some:  # more may have come meanwhile
                continue
            if not waiting:
                yield None
                if self._once:
                    return
            if self._wait(min(self._settle, 1.0)):
                return

    def _look_at(self, name: str) -> Arrival | object:
        """Return a file as rows to take in, or WAIT; anything else: it is dealt with."""
        try:
            look = FileState.at(self.path / name)
            if self._done.get(name) == look or self._is_known(name, look):
                self._done[name] = look
                return None
            age = self._age(name, look)
            if age < self._settle or not self._is_whole(name, age):
                return WAIT
            return self._arrival(name, look)
        except FileNotFoundError:  # taken away meanwhile
            return None

    def _names(self) -> list[str]:
        with os.scandir(self.path) as entries:
            return sorted(
                e.name
                for e in entries
                if e.is_file() and e.name[0] not in "._" and not e.name.endswith(UNFINISHED)
            )

    def _age(self, name: str, look: FileState) -> float:
        """Return for how long a file has not changed, by its own time or by what we saw."""
        now = self._clock()
        seen, since = self._seen.get(name, (look, now))
        if seen != look:
            since = now
        self._seen[name] = (look, since)
        return max(now - look.modified / 1e9, now - since)

    def _is_known(self, name: str, look: FileState) -> bool:
        """Tell whether a file of this name was taken in; if it has changed, tell the curator."""
        note = self._inbox.notes.get(key_of(name))
        if note is None:
            return False
        same = (note.get("bytes"), note.get("modified")) == (look.bytes, look.modified)
        if not same and note.get("sha256") != _digest(self.path / name):
            self._inbox.tell_curator(f"{shown(name)} {_CHANGED}")
        return True

    def _is_whole(self, name: str, age: float) -> bool:
        """Tell whether a file's end is there; for text, whether the last line is ended.

        When patience is at an end, it is whatever it is.
        """
        try:
            return age >= PATIENCE * self._settle or has_end(self.path / name)
        except PermissionError:
            return False

    def _arrival(self, name: str, look: FileState) -> Arrival:
        """Return a file as rows to take in."""
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
        """Move a file out of the way, with the reason beside it, for the owner's eyes only."""
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


def _digest(path: Path) -> str | None:
    try:
        return sha256(path)
    except PermissionError:
        return None


def _shorten(name: str, most: int) -> str:
    """Return a file's name, cut at its end to so many bytes."""
    return os.fsdecode(os.fsencode(name)[:most])


def stamp(name: str, hours: bool = False) -> dt.datetime | None:
    """Return up to when the rows of a file go, as its name says: the end of the last date in it.

    A month is as good as a date; with `hours`, so is an hour.

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
    """Tell whether a file's last bytes are what a finished file of its kind ends with.

    Where there is no such mark (compressed text, an Arrow stream), it can be read.
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
    """Tell whether a file of which no mark says that its end is there can be read to it."""
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
