"""The audit log: who asked what, when, from where, and what it cost in public terms.

Files beside the store, one JSON object a line. `shop.sparseq.audit` is written to; when it is
large it becomes `shop.sparseq.audit.1`, then `.2` and so on, the largest number the latest. Each
line has the hash of the line before, over all files, so that a line that is changed, taken out or
put in shows; that lines are missing at the end shows only to whoever has kept a later hash. No line
has a value of a row, or an answer.

To write, the last line is all that is read; to show the last lines, the blocks that they are in.
A file begins with what the lines before it add up to, so a server that begins reads one file. Only
`verify` and `lines` read everything.

Several processes may write to it: a server, and commands that make and revoke tokens.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import hashlib
import io
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from sparseq.base.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows, where a store can be kept, if not served
    fcntl = None  # type: ignore[assignment]

FIRST = "0" * 64
"""Stands for the line before the first."""
SUM = "sum"
"""Subject of a line that says what all lines before it add up to."""
MOST_BYTES = 8 << 20
"""Of a file that is written to, before the next one is begun."""
MOST_TEXT = 2048
"""Letters of a text in a line; a longer one is cut, and says how long it was."""
MOST_LOOKED = 50_000
"""Lines that are looked at for a page of those that are wanted."""
_AT_ONCE = 1 << 24  # bytes of what others have written; a line is shorter
_BLOCK = 1 << 16  # bytes that are read at once, from the end


@dataclass(frozen=True)
class Chain:
    """The whole part of a log: from line `first` to line `lines`, which has the hash `last`."""

    lines: int = 0
    last: str = FIRST
    first: int = 1


@dataclass(frozen=True)
class AuditFilter:
    """The lines that somebody looks for.

    Attributes:
        who: Whose; "": everybody's, and those that are about nobody.
        first, last: Days, in UTC, both included; None: any.

    Example:
        >>> line = {"what": "asked", "who": "ada", "at": "2026-03-01T09:00:00+00:00"}
        >>> AuditFilter("ada", dt.date(2026, 3, 1)).has(line), AuditFilter("bob").has(line)
        (True, False)
    """

    who: str = ""
    first: dt.date | None = None
    last: dt.date | None = None

    def has(self, line: Mapping[str, Any]) -> bool:
        """Tell whether a line is looked for; what all lines add up to never is."""
        whose = line.get("who"), line.get("token")  # that was made or revoked
        if line.get("what") == SUM or (self.who and self.who not in whose):
            return False
        day = str(line.get("at", ""))[:10]
        return (self.first is None or day >= self.first.isoformat()) and (
            self.last is None or day <= self.last.isoformat()
        )


@dataclass(frozen=True)
class AuditPage:
    """Lines of the log, newest first; `earlier`: before which one to go on, None: these are all."""

    lines: list[dict[str, Any]]
    earlier: int | None


class AuditLog:
    """The audit log of one store; threads and processes may share it.

    It reads and writes files, so nothing of it is called in an event loop.

    Args:
        path: Of the file that is written to; None: it is in memory.
        most: Bytes of it, before it is `full`.

    Example:
        >>> log = AuditLog(None)
        >>> log.add([{"what": "asked", "who": "ada"}, {"what": "asked", "who": "bob"}])
        >>> [line["who"] for line in log.latest(1)], log.verify().lines
        (['bob'], 2)
    """

    def __init__(self, path: Path | None, most: int = MOST_BYTES) -> None:
        self.path, self.most = path, most
        self._lock = threading.Lock()
        self._memory = b""
        self._chain, self._end, self._file_id = Chain(), 0, -1
        self._sum = 0  # bytes of the line that a file begins with

    @classmethod
    def beside(cls, store: Path) -> AuditLog:
        """Return the audit log of the store whose file it is."""
        return cls(store.with_name(store.name + ".audit"))

    # -- writing ---------------------------------------------------------------------------------

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines, each with its number, the time and its hash; long texts are cut.

        Raises:
            StoreError: The log can't be written to.
        """
        lines = list(lines)
        if not lines:
            return
        with self._lock, self._file() as file:
            self._catch_up(file)
            now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
            chain, made = self._chain, []
            for line in lines:
                facts = {"n": chain.lines + 1, "at": now, **line}
                if line.get("what") == SUM:
                    facts["follows"] = chain.last
                text = json.dumps({key: _cut(value) for key, value in facts.items()}, default=str)
                chain = Chain(chain.lines + 1, _hash(chain.last, text))
                made.append(f'{text[:-1]}, "hash": "{chain.last}"}}\n'.encode())
            data = b"".join(made)
            if file is None:
                self._memory += data
            else:
                os.truncate(file, self._end)  # of a line that was torn
                if os.write(file, data) != len(data):
                    os.truncate(file, self._end)
                    self._file_id = -1
                    raise StoreError(f"can't write to {self.path}", "is the disk full?")
            self._chain, self._end = chain, self._end + len(data)

    @property
    def full(self) -> bool:
        """The file that is written to is large: it is time to `turn`."""
        return self._end - self._sum >= self.most

    def turn(self, total: Mapping[str, Any]) -> None:
        """Begin the next file, with a line that says what all lines so far add up to.

        Killed before that line is there, the next file begins with another one, and whoever asks
        for lines `since` the last sum gets more of them.

        Raises:
            StoreError: It can't be written to.
        """
        with self._lock, self._file():
            if self.path is None:
                self._memory, self._end = b"", 0
            else:
                number = max(map(_number, self._earlier()), default=0) + 1
                self.path.rename(f"{self.path}.{number}")
        self.add([{"what": SUM, "who": "", **total}])
        self._sum = self._end

    # -- reading ---------------------------------------------------------------------------------

    def latest(self, last: int) -> list[dict[str, Any]]:
        """Return so many of the last lines, newest first; only their blocks are read."""
        return list(islice(self._newest(), last))

    def _newest(self, before: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield all lines that are whole, newest first; those before a line, and maybe others.

        Files that have none of them are not read.
        """

        def lines() -> Iterator[bytes]:
            for part in reversed(self._parts()):
                with part() as file:
                    first = next(_read([file.readline()]), {})
                    if before is None or _n(first) < before:
                        yield from _backwards(file)

        return _read(lines())

    def page(self, wanted: AuditFilter, before: int | None, last: int) -> AuditPage:
        """Return so many of the last lines that are wanted, newest first.

        Args:
            wanted: Which.
            before: Only lines with a smaller number; None: all.
            last: How many, at most.
        """
        found: list[dict[str, Any]] = []
        looked = 0
        for line in self._newest(before):
            number = _n(line)
            if before is not None and number >= before:
                continue
            if len(found) == last or looked == MOST_LOOKED:
                return AuditPage(found, number + 1)
            looked += 1
            if wanted.has(line):
                found.append(line)
        return AuditPage(found, None)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all lines that are whole, oldest first."""
        return _read(_whole_lines(self._parts()))

    def since_sum(self) -> Iterator[dict[str, Any]]:
        """Yield the last line that says what those before it add up to, and all after it.

        Without such a line, all are yielded.
        """
        parts = self._parts()
        for k in range(len(parts) - 1, -1, -1):
            first = next(_read(_whole_lines(parts[k : k + 1])), {})
            if first.get("what") == SUM:
                return _read(_whole_lines(self._parts()[k - len(parts) :]))
        return self.lines()

    def verify(self) -> Chain:
        """Check each line's hash over all files, and return how far the log goes.

        It goes from line 1 on, or from later where the earliest files were put away.

        Raises:
            StoreError: A line was changed, taken out or put in; the message says which.
        """
        return _follow(None, _whole_lines(self._parts()))

    # -- files -----------------------------------------------------------------------------------

    def _earlier(self) -> list[Path]:
        """Return the files that are not written to any more, oldest first."""
        if self.path is None:
            return []
        files = self.path.parent.glob(glob.escape(self.path.name) + ".*")
        return sorted((p for p in files if _number(p)), key=_number)

    def _parts(self) -> list[Callable[[], BinaryIO]]:
        """Return what opens each file, oldest first; the last is the one that is written to.

        That one is opened now: it may be called otherwise before it is read.
        """
        if self.path is None:
            memory = self._memory
            return [lambda: io.BytesIO(memory)]
        try:
            now: BinaryIO | None = open(self.path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            now = None
        same = None if now is None else os.fstat(now.fileno()).st_ino
        parts: list[Callable[[], BinaryIO]] = [
            _opener(path) for path in self._earlier() if path.stat().st_ino != same
        ]
        return parts if now is None else [*parts, lambda: now]

    @contextlib.contextmanager
    def _file(self) -> Iterator[int | None]:
        """Open the file that is written to, for this process alone."""
        if self.path is None:
            yield None
            return
        file = -1
        try:
            while True:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(self.path).st_ino == os.fstat(file).st_ino:
                        break
                os.close(file)  # another process has begun the next file meanwhile
                file = -1
            yield file
        except OSError as error:
            raise StoreError(f"can't write to {self.path}: {error.strerror}") from None
        finally:
            if file >= 0:
                os.close(file)

    def _catch_up(self, file: int | None) -> None:
        """Read what others have written since; of another file, its last line alone."""
        if file is None:
            return
        status = os.fstat(file)
        if status.st_ino != self._file_id or status.st_size < self._end:
            self._chain, self._file_id = self._tail(), status.st_ino
            with open(file, "rb", closefd=False) as whole:
                self._end = _whole_end(whole)
        while data := os.pread(file, min(status.st_size - self._end, _AT_ONCE), self._end):
            whole_lines = data[: data.rfind(b"\n") + 1]
            if not whole_lines:
                return
            self._chain = _follow(self._chain, whole_lines[:-1].split(b"\n"))
            self._end += len(whole_lines)

    def _tail(self) -> Chain:
        """Return how far the log goes, by its last line."""
        for part in reversed(self._parts()):
            with part() as file:
                last = next(_backwards(file), None)
            if last is not None:
                return _after(last)
        return Chain()


def _after(line: bytes) -> Chain:
    """Return how far a log goes whose last line it is."""
    text, digest = _split_line(line)
    try:
        return Chain(int(json.loads(text)["n"]), digest)
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            "the last line of the audit log can't be read", "put the log away; a new one is begun"
        ) from None


def _follow(chain: Chain | None, lines: Iterable[bytes]) -> Chain:
    """Return the chain after more whole lines; raises `StoreError` where it does not hold.

    Without a chain, it begins with the first line, which says what it follows if it is a sum.
    """
    for line in lines:
        text, digest = _split_line(line)
        if chain is None:
            chain = _before(text)
        chain = Chain(chain.lines + 1, _hash(chain.last, text), chain.first)
        if digest != chain.last:
            raise StoreError(
                f"line {chain.lines:,} of the audit log does not follow from those before",
                "it was changed, or a line before it was taken out or put in",
            )
    return chain or Chain()


def _before(text: str) -> Chain:
    """Return how far the log went before its first line that is there."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        facts = json.loads(text)
        return Chain(int(facts["n"]) - 1, str(facts["follows"]), int(facts["n"]))
    return Chain()


def _split_line(line: bytes) -> tuple[str, str]:
    """Return a line's text without its hash, and the hash."""
    text, _, digest = line.decode("utf-8", "replace").rpartition(', "hash": "')
    return text + "}", digest.removesuffix('"}')


def _whole_lines(parts: Iterable[Callable[[], BinaryIO]]) -> Iterator[bytes]:
    """Yield the lines that have an end, one after the other: the log may be long."""
    for part in parts:
        with part() as file:
            yield from (line[:-1] for line in file if line.endswith(b"\n"))


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file that have an end, the last one first; its end alone is read.

    >>> list(_backwards(io.BytesIO(b"one\\ntwo\\nthr")))
    [b'two', b'one']
    """
    at, first = file.seek(0, os.SEEK_END), b""
    torn = True  # what comes after the last end of a line
    while at:
        size = min(_BLOCK, at)
        at = file.seek(at - size)
        first, *others = (file.read(size) + first).split(b"\n")
        for line in reversed(others):
            if not torn:
                yield line
            torn = False
    if not torn:
        yield first


def _whole_end(file: BinaryIO) -> int:
    """Return where the last line ends that has an end."""
    at = file.seek(0, os.SEEK_END)
    while at:
        size = min(_BLOCK, at)
        at = file.seek(at - size)
        place = file.read(size).rfind(b"\n")
        if place >= 0:
            return at + place + 1
    return 0


def _read(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with contextlib.suppress(ValueError):
            line_facts = json.loads(line.decode("utf-8", "replace"))
            if isinstance(line_facts, dict):
                yield line_facts


def _n(line: Mapping[str, Any]) -> int:
    """Return a line's number; 0: it was changed to have none."""
    number = line.get("n")
    return number if isinstance(number, int) else 0


def _opener(path: Path) -> Callable[[], BinaryIO]:
    return lambda: path.open("rb")


def _number(path: Path) -> int:
    """Return which file it is, by its name; 0: it is none of the log's."""
    text = path.name.rpartition(".")[2]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _cut(value: Any) -> Any:
    """Return a value; a text that is too long is cut, and says so.

    >>> _cut("x" * 3000)[-18:]
    'x… (3,000 letters)'
    """
    if not isinstance(value, str) or len(value) <= MOST_TEXT:
        return value
    return f"{value[:MOST_TEXT]}… ({len(value):,} letters)"


def _hash(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}{text}".encode()).hexdigest()
