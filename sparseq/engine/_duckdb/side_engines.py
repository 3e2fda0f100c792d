"""Engines that read outside the stream, with a separate connection for each question.

They see committed data. Before the file is rewritten, copied or closed, they are shut down: running
reads are interrupted, and their connections closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import duckdb

from sparseq.engine.contributions import Contributions
from sparseq.engine.freed_memory import release_freed
from sparseq.engine.protocol import Engine
from sparseq.question.plan import Plan

if TYPE_CHECKING:
    import duckdb

_IDLE = 2  # number of engines kept for later questions
_AGAIN = 0.01


class ClosedError(Exception):
    """The store has closed an engine outside the stream."""


class BesideEngine:
    """An engine for one thread at a time: see `sparseq.engine.protocol.SideReader`."""

    def __init__(
        self,
        engine: Engine,
        connection: duckdb.DuckDBPyConnection,
        back: Callable[[BesideEngine], None],
    ) -> None:
        self._engine, self._connection, self._back = engine, connection, back
        self._used = threading.Lock()
        self._closed = False

    def contributions(self, plan: Plan, users: int) -> Contributions:
        """Return the contributions of all users, with all reads of rows done."""
        with self._used:
            if self._closed:
                raise ClosedError
            try:
                made = self._engine.contributions(plan, users)
            except KeyboardInterrupt:  # by `shut`
                raise ClosedError from None
            finally:
                release_freed()
            made.measures  # noqa: B018 - computed here, and not at first use
            if self._engine.take_failures():
                # this needs the backstop: the store's own engine runs it, and reports the users
                raise ClosedError
            return made

    def at(self, version: int) -> None:
        """Drop rows of other versions of the data."""
        if self._engine.version != version:
            self._engine.rows_arrived()
            self._engine.version = version

    def close(self) -> None:
        """Return the engine to its pool."""
        self._back(self)

    def shut(self) -> None:
        """Interrupt the engine, and close its connection."""
        self._closed = True
        while not self._used.acquire(timeout=_AGAIN):
            self._connection.interrupt()
        try:
            self._connection.close()
        finally:
            self._used.release()


class BesideEngines:
    """The engines of one store outside the stream: those in use, and some idle engines."""

    def __init__(self) -> None:
        self._idle: list[BesideEngine] = []
        self._lent: list[BesideEngine] = []
        self._lock = threading.Lock()

    def lend(
        self, version: int, make: Callable[[Callable[[BesideEngine], None]], BesideEngine]
    ) -> BesideEngine:
        """Return an engine that reads rows of a version."""
        with self._lock:
            found = self._idle.pop() if self._idle else make(self._give_back)
            self._lent.append(found)
        found.at(version)
        return found

    def _give_back(self, engine: BesideEngine) -> None:
        with self._lock:
            if engine not in self._lent:
                return
            self._lent.remove(engine)
            if len(self._idle) < _IDLE:
                self._idle.append(engine)
                return
        engine.shut()

    def let_go(self) -> None:
        """Close all engines."""
        with self._lock:
            engines = self._lent + self._idle
            self._lent, self._idle = [], []
        for engine in engines:
            engine.shut()
