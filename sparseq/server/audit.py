"""The audit log: who asked what, when, from where, and what it cost in public terms.

A file beside the store, one JSON object a line. Each line has the hash of the line before, so that
a line that is changed, taken out or put in shows; that lines are missing at the end shows only to
whoever has kept a later hash. No line has a value of a row, or an answer.

Several processes may write to it: a server, and commands that make and revoke tokens.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparseq.errors import StoreError
from sparseq.ledger.entry import Loss

try:
    import fcntl
except ImportError:  # Windows, where a store can be kept, if not served
    fcntl = None  # type: ignore[assignment]

FIRST = "0" * 64
"""What stands for the line before the first."""
_AT_ONCE = 1 << 24  # bytes of what others have written; a line is shorter


@dataclass(frozen=True)
class Chain:
    """How far a log is whole: so many lines, the last of this hash."""

    lines: int = 0
    last: str = FIRST


class AuditLog:
    """The audit log of one store; threads and processes may share it.

    Args:
        path: Of the file; None: it is in memory.

    Example:
        >>> log = AuditLog(None)
        >>> log.add([{"what": "asked", "who": "ada"}])
        >>> [line["who"] for line in log.lines()], log.verify().lines
        (['ada'], 1)
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._memory = b""
        self._chain, self._end = Chain(), 0

    @classmethod
    def beside(cls, store: Path) -> AuditLog:
        """Return the audit log of the store whose file it is."""
        return cls(store.with_name(store.name + ".audit"))

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines, each with its number, the time and its hash.

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
                text = _text({"n": chain.lines + 1, "at": now} | dict(line))
                chain = Chain(chain.lines + 1, _hash(chain.last, text))
                made.append(f'{text[:-1]}, "hash": "{chain.last}"}}\n'.encode())
            data = b"".join(made)
            if file is None:
                self._memory += data
            else:
                os.truncate(file, self._end)  # of a line that was torn
                if os.write(file, data) != len(data):
                    os.truncate(file, self._end)
                    raise StoreError(f"can't write to {self.path}", "is the disk full?")
            self._chain, self._end = chain, self._end + len(data)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that are whole, oldest first."""
        for line in self._whole_lines():
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found

    def verify(self) -> Chain:
        """Check each line's hash, and return how far the log goes.

        Raises:
            StoreError: A line was changed, taken out or put in; the message says which.
        """
        return _followed(Chain(), self._whole_lines())

    def _whole_lines(self) -> Iterator[bytes]:
        """Yield the lines that have an end, one after the other: the log may be long."""
        if self.path is None:
            yield from self._memory.splitlines(keepends=True)
        elif self.path.exists():
            with open(self.path, "rb") as file:
                yield from (line for line in file if line.endswith(b"\n"))

    @contextlib.contextmanager
    def _file(self) -> Iterator[int | None]:
        """Open the file, for this process alone."""
        if self.path is None:
            yield None
            return
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise StoreError(f"can't write to {self.path}: {error.strerror}") from None
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        except OSError as error:
            raise StoreError(f"can't write to {self.path}: {error.strerror}") from None
        finally:
            os.close(file)

    def _catch_up(self, file: int | None) -> None:
        """Read what others have written since."""
        if file is None:
            return
        size = os.fstat(file).st_size
        if size < self._end:  # it was taken away
            self._chain, self._end = Chain(), 0
        while data := os.pread(file, min(size - self._end, _AT_ONCE), self._end):
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                return
            self._chain = _followed(self._chain, whole[:-1].split(b"\n"))
            self._end += len(whole)


def tell_losses(log: AuditLog, losses: Iterable[Loss]) -> None:
    """Write down where a store was opened although charges were missing, unless that is known."""
    said = "loss accepted"
    known = {(x.get("since"), x.get("after")) for x in log.lines() if x.get("what") == said}
    log.add(
        {"what": said, "who": "", "since": loss.at, "after": loss.after, "missing": loss.missing}
        for loss in losses
        if (loss.at, loss.after) not in known
    )


def _followed(chain: Chain, lines: Iterable[bytes]) -> Chain:
    """Return the chain after more whole lines; raises `StoreError` where it does not hold."""
    for line in lines:
        text, _, said = line.decode("utf-8", "replace").removesuffix("\n").rpartition(', "hash": "')
        chain = Chain(chain.lines + 1, _hash(chain.last, text + "}"))
        if said != f'{chain.last}"}}':
            raise StoreError(
                f"line {chain.lines:,} of the audit log does not follow from those before",
                "it was changed, or a line before it was taken out or put in",
            )
    return chain


def _text(line: Mapping[str, Any]) -> str:
    return json.dumps(line, default=str, ensure_ascii=True)


def _hash(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}{text}".encode()).hexdigest()
