"""The audit log: each request's user, question, time, address, and cost in public terms.

Files in the store's folder, one JSON object per line. The current file is `shop.sparseq.audit`;
when it is large it becomes `shop.sparseq.audit.1`, then `.2` and so on, and the largest number is
the latest. Each line has the hash of the line before, over all files, so a line that is changed,
removed or inserted is detected; missing lines at the end are detected only with a later hash that
was kept elsewhere. No line has a value of a row, or an answer.

Writing reads only the last line; showing the last lines reads only their blocks. A file begins with
the sums of all earlier lines, so a server reads one file at its start. Only `verify` and `lines`
read everything.

Several processes may write to it: a server, and commands that create and revoke tokens.
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
except ImportError:  # Windows, where a store can be kept, but not served
    fcntl = None  # type: ignore[assignment]

FIRST = "0" * 64
"""The hash before the first line."""
SUM = "sum"
"""The subject of a line with the sums of all lines before it."""
MOST_BYTES = 8 << 20
"""The size of the current file at which the next one is begun."""
MOST_TEXT = 2048
"""The maximum number of characters of a text in a line; a longer one is cut, with its length."""
MOST_LOOKED = 50_000
"""The number of lines that are searched for a page."""
_AT_ONCE = 1 << 24  # bytes that other processes have written; a line is shorter
_BLOCK = 1 << 16  # bytes that are read at once, from the end


@dataclass(frozen=True)
class Chain:
    """The valid part of a log: from line `first` to line `lines`, which has the hash `last`."""

    lines: int = 0
    last: str = FIRST
    first: int = 1


@dataclass(frozen=True)
class AuditFilter:
    """A filter for lines.

    Attributes:
        who: The token's name; "": all lines, including those without a name.
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
        """Tell whether a line matches; a line of sums never does."""
        whose = line.get("who"), line.get("token")  # that was created or revoked
        if line.get("what") == SUM or (self.who and self.who not in whose):
            return False
        day = str(line.get("at", ""))[:10]
        return (self.first is None or day >= self.first.isoformat()) and (
            self.last is None or day <= self.last.isoformat()
        )


@dataclass(frozen=True)
class AuditPage:
    """Lines of the log, newest first; `earlier`: the line before which to continue, None: there are
    no more.
    """

    lines: list[dict[str, Any]]
    earlier: int | None


class AuditLog:
    """The audit log of one store; threads and processes may share it.

    Its methods read and write files, so an event loop must not call them.

    Args:
        path: The path of the current file; None: it is in memory.
        most: The size in bytes from which the file is `full`.

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
        self._sum = 0  # bytes of the line at the start of a file

    @classmethod
    def beside(cls, store: Path) -> AuditLog:
        """Return the audit log of the store with this file."""
        return cls(store.with_name(store.name + ".audit"))

    # Writing.

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines, each with its number, the time and its hash; long texts are cut.

        Raises:
            StoreError: The log can't be written.
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
                os.truncate(file, self._end)  # of an incomplete line
                if os.write(file, data) != len(data):
                    os.truncate(file, self._end)
                    self._file_id = -1
                    raise StoreError(f"can't write to {self.path}", "is the disk full?")
            self._chain, self._end = chain, self._end + len(data)

    @property
    def full(self) -> bool:
        """True if the current file is large: then call `turn`."""
        return self._end - self._sum >= self.most

    def turn(self, total: Mapping[str, Any]) -> None:
        """Begin the next file, with a line of the sums of all lines so far.

        If the process is killed before that line is written, the next file begins with another
        line, and a reader of `since_sum` gets more lines.

        Raises:
            StoreError: The log can't be written.
        """
        with self._lock, self._file():
            if self.path is None:
                self._memory, self._end = b"", 0
            else:
                number = max(map(_number, self._earlier()), default=0) + 1
                self.path.rename(f"{self.path}.{number}")
        self.add([{"what": SUM, "who": "", **total}])
        self._sum = self._end

    # Reading.

    def latest(self, last: int) -> list[dict[str, Any]]:
        """Return the `last` newest lines, newest first; only their blocks are read."""
        return list(islice(self._newest(), last))

    def _newest(self, before: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield all complete lines, newest first; those before a line, and maybe others.

        Files without such lines are not read.
        """

        def lines() -> Iterator[bytes]:
            for part in reversed(self._parts()):
                with part() as file:
                    first = next(_read([file.readline()]), {})
                    if before is None or _n(first) < before:
                        yield from _backwards(file)

        return _read(lines())

    def page(self, wanted: AuditFilter, before: int | None, last: int) -> AuditPage:
        """Return the `last` newest matching lines, newest first.

        Args:
            wanted: The filter.
            before: Only lines with a smaller number; None: all.
            last: The maximum number of lines.
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
        """Yield all complete lines, oldest first."""
        return _read(_whole_lines(self._parts()))

    def since_sum(self) -> Iterator[dict[str, Any]]:
        """Yield the last line of sums, and all lines after it.

        Without such a line, all are yielded.
        """
        parts = self._parts()
        for k in range(len(parts) - 1, -1, -1):
            first = next(_read(_whole_lines(parts[k : k + 1])), {})
            if first.get("what") == SUM:
                return _read(_whole_lines(self._parts()[k - len(parts) :]))
        return self.lines()

    def verify(self) -> Chain:
        """Check each line's hash over all files, and return the valid part.

        It begins with line 1, or later if the earliest files were moved away.

        Raises:
            StoreError: A line was changed, removed or inserted; the message names it.
        """
        return _follow(None, _whole_lines(self._parts()))

    # Files.

    def _earlier(self) -> list[Path]:
        """Return the earlier files, oldest first."""
        if self.path is None:
            return []
        files = self.path.parent.glob(glob.escape(self.path.name) + ".*")
        return sorted((p for p in files if _number(p)), key=_number)

    def _parts(self) -> list[Callable[[], BinaryIO]]:
        """Return a function that opens each file, oldest first; the last is the current one.

        The current file is opened now: it may have another name when it is read.
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
        """Open the current file, for this process alone."""
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
        """Read lines that other processes have written; of another file, only its last line."""
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
        """Return the end of the log, from its last line."""
        for part in reversed(self._parts()):
            with part() as file:
                last = next(_backwards(file), None)
            if last is not None:
                return _after(last)
        return Chain()


def _after(line: bytes) -> Chain:
    """Return the state of a log after its last line."""
    text, digest = _split_line(line)
    try:
        return Chain(int(json.loads(text)["n"]), digest)
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            "the last line of the audit log can't be read", "move the log away; a new one is begun"
        ) from None


def _follow(chain: Chain | None, lines: Iterable[bytes]) -> Chain:
    """Return the chain after more complete lines; raise `StoreError` if a line does not fit.

    Without a chain, it begins with the first line, whose sums contain the hash before it.
    """
    for line in lines:
        text, digest = _split_line(line)
        if chain is None:
            chain = _before(text)
        chain = Chain(chain.lines + 1, _hash(chain.last, text), chain.first)
        if digest != chain.last:
            raise StoreError(
                f"line {chain.lines:,} of the audit log does not follow from those before",
                "it was changed, or a line before it was removed or inserted",
            )
    return chain or Chain()


def _before(text: str) -> Chain:
    """Return the state of the log before its first existing line."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        facts = json.loads(text)
        return Chain(int(facts["n"]) - 1, str(facts["follows"]), int(facts["n"]))
    return Chain()


def _split_line(line: bytes) -> tuple[str, str]:
    """Return a line's text without its hash, and the hash."""
    text, _, digest = line.decode("utf-8", "replace").rpartition(', "hash": "')
    return text + "}", digest.removesuffix('"}')


def _whole_lines(parts: Iterable[Callable[[], BinaryIO]]) -> Iterator[bytes]:
    """Yield the complete lines, one after the other: the log may be long."""
    for part in parts:
        with part() as file:
            yield from (line[:-1] for line in file if line.endswith(b"\n"))


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield the complete lines of a file, the last one first; only the end is read.

    >>> list(_backwards(io.BytesIO(b"one\\ntwo\\nthr")))
    [b'two', b'one']
    """
    at, first = file.seek(0, os.SEEK_END), b""
    torn = True  # text after the last line's end
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
    """Return the position of the last line's end."""
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
    """Return a line's number; 0: it was changed and has none."""
    number = line.get("n")
    return number if isinstance(number, int) else 0


def _opener(path: Path) -> Callable[[], BinaryIO]:
    return lambda: path.open("rb")


def _number(path: Path) -> int:
    """Return the number in a file's name; 0: it is no file of the log."""
    text = path.name.rpartition(".")[2]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _cut(value: Any) -> Any:
    """Return a value; a text that is too long is cut, with its length.

    >>> _cut("x" * 3000)[-18:]
    'x… (3,000 letters)'
    """
    if not isinstance(value, str) or len(value) <= MOST_TEXT:
        return value
    return f"{value[:MOST_TEXT]}… ({len(value):,} letters)"


def _hash(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}{text}".encode()).hexdigest()
