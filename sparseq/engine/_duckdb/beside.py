"""Engines for reading beside the stream, on connections of their own: one for each question.

They see what is committed. Whoever is about to rewrite, copy or close the file lets go of them
first: what reads is interrupted, and its connection closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from sparseq.engine.contributions import Contributions
from sparseq.engine.memory import release_freed
from sparseq.engine.protocol import Engine
from sparseq.sql.plan import Plan

if TYPE_CHECKING:
    import duckdb

_IDLE = 2  # that are kept for the next questions
_AGAIN = 0.01


class ClosedError(Exception):
    """The store has let go of an engine beside it."""


class BesideEngine:
    """See `sparseq.engine.protocol.SideReader`: an engine that one thread at a time uses."""

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
        """Return what everybody contributes, with all that needs the rows done."""
        with self._used:
            if self._closed:
                raise ClosedError
            try:
                made = self._engine.contributions(plan, users)
            except KeyboardInterrupt:  # by `shut`
                raise ClosedError from None
            finally:
                release_freed()
            made.measures  # noqa: B018 - made here, and not when somebody looks
            if self._engine.take_failures():
                raise ClosedError  # the backstop's work: the store's own engine does it, and tells
            return made

    def at(self, version: int) -> None:
        """Forget what is kept of rows of another version."""
        if self._engine.version != version:
            self._engine.rows_arrived()
            self._engine.version = version

    def close(self) -> None:
        """Give it back."""
        self._back(self)

    def shut(self) -> None:
        """End what it does, and close its connection."""
        self._closed = True
        while not self._used.acquire(timeout=_AGAIN):
            self._connection.interrupt()
        try:
            self._connection.close()
        finally:
            self._used.release()


class BesideEngines:
    """All that one store has lent, and some that wait for the next question."""

    def __init__(self) -> None:
        self._idle: list[BesideEngine] = []
        self._lent: list[BesideEngine] = []
        self._lock = threading.Lock()

    def lend(
        self, version: int, make: Callable[[Callable[[BesideEngine], None]], BesideEngine]
    ) -> BesideEngine:
        """Return one that reads rows of a version."""
        with self._lock:
            found = self._idle.pop() if self._idle else make(self._returned)
            self._lent.append(found)
        found.at(version)
        return found

    def _returned(self, engine: BesideEngine) -> None:
        with self._lock:
            if engine not in self._lent:
                return
            self._lent.remove(engine)
            if len(self._idle) < _IDLE:
                self._idle.append(engine)
                return
        engine.shut()

    def let_go(self) -> None:
        """Shut them all."""
        with self._lock:
            engines = self._lent + self._idle
            self._lent, self._idle = [], []
        for engine in engines:
            engine.shut()
