"""Cancellation of running work, from another thread or after a time-out.

    with Cancellation(seconds=30) as work:      # another thread may call work.cancel()
        with work.interrupts(connection.interrupt):
            connection.execute(…)               # stopped at once
        check()                                 # between blocks: raises `QueryCancelError`

One thread watches all time-outs. It repeats the interrupt of cancelled work until the work has
ended, because an engine ignores an interrupt between two statements.

A time-out depends on the clock, and the time of work on rows depends on the rows. So no work that
reads users' rows has a time-out unless its caller or the curator set one (docs/guarantee.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, Token
from copy import copy
from types import TracebackType
from typing import Any

from sparseq.base.errors import ParameterError, QueryCancelError, TimedOut

MOST_SECONDS = 86_400.0
_AGAIN = 0.02  # seconds until running work is interrupted again


class Cancellation:
    """A unit of work that can be cancelled. In a `with` block, it is what `current` returns.

    Cancelling work also cancels the work within it.

    Args:
        seconds: The time-out, in seconds; None: none.

    Attributes:
        error: The reason of the cancellation; None: it was not cancelled.

    Example:
        >>> with Cancellation() as work:
        ...     check()
        ...     work.cancel()
        ...     check()
        Traceback (most recent call last):
        sparseq.base.errors.QueryCancelError: cancelled; nothing was charged
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.error: QueryCancelError | None = None
        self._seconds = seconds
        self._lock = threading.RLock()  # an interrupt may end the work that this belongs to
        self._interrupts: dict[object, Callable[[], Any]] = {}
        self._leave: list[Callable[[], object]] = []

    def cancel(self, error: QueryCancelError | None = None) -> None:
        """Cancel it, from any thread. A question that is committed already is still answered."""
        with self._lock:
            self.error = self.error or error or QueryCancelError()
            for interrupt in list(self._interrupts.values()):
                # this one has just ended, or is closed: the others are still cancelled
                with suppress(Exception):
                    interrupt()
            again = bool(self._interrupts)
        if again:
            _watcher.look(self, time.monotonic() + _AGAIN)

    def check(self) -> None:
        """Raise `QueryCancelError` if it was cancelled."""
        if self.error is not None:
            # with a trace, the frames in it would live as long as this object
            raise copy(self.error)

    @contextmanager
    def interrupts(self, interrupt: Callable[[], Any]) -> Iterator[None]:
        """Call `interrupt` if it is cancelled while the block runs, and never after that.

        Raises:
            QueryCancelError: It was cancelled before.
        """
        key = object()
        with self._lock:
            self.check()
            self._interrupts[key] = interrupt
        try:
            yield
        finally:
            with self._lock:
                del self._interrupts[key]

    @contextmanager
    def ambient(self) -> Iterator[None]:
        """Make it the current work of this thread as well."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def __enter__(self) -> Cancellation:
        parent = current()
        linked = parent.interrupts(lambda: self.cancel(parent.error)) if parent else nullcontext()
        linked.__enter__()
        before: Token[Cancellation | None] = _current.set(self)
        self._leave = [lambda: _current.reset(before), lambda: linked.__exit__(None, None, None)]
        if self._seconds is not None:
            _watcher.look(self, time.monotonic() + self._seconds)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _watcher.forget(self)
        for leave in self._leave:
            leave()

    def time_out(self) -> None:
        """Cancel it because its time is over."""
        self.cancel(self.error or TimedOut(self._seconds or 0.0))


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


def current() -> Cancellation | None:
    """Return the current work of this thread, if it can be cancelled."""
    return _current.get()


def check() -> None:
    """Raise `QueryCancelError` if the current work was cancelled."""
    work = _current.get()
    if work is not None:
        work.check()


def interruptible(interrupt: Callable[[], Any]) -> AbstractContextManager[None]:
    """Call `interrupt` if the current work is cancelled while the block runs."""
    work = _current.get()
    return nullcontext() if work is None else work.interrupts(interrupt)


def checked_seconds(seconds: float | None) -> float | None:
    """Return a valid time-out.

    Raises:
        ParameterError: It is not valid.
    """
    if seconds is not None and not 0 < seconds <= MOST_SECONDS:
        raise ParameterError(f"timeout is {seconds!r}", f"seconds, up to {MOST_SECONDS:g}")
    return seconds


class _Watcher:
    """The thread that watches all time-outs."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Cancellation, float] = {}
        self._thread: threading.Thread | None = None
        self._wakes = 0.0

    def look(self, work: Cancellation, at: float) -> None:
        """Cancel work at a moment, or interrupt it again."""
        with self._changed:
            self._due[work] = min(at, self._due.get(work, at))
            # not started yet, or lost in a fork
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
                self._thread.start()
            elif at < self._wakes:
                self._changed.notify()

    def forget(self, work: Cancellation) -> None:
        """Stop watching work."""
        with self._changed:
            self._due.pop(work, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [work for work, at in self._due.items() if at <= now]
                for work in due:
                    del self._due[work]
                if not due:
                    self._wakes = min(self._due.values(), default=now + 3600)
                    self._changed.wait(self._wakes - now)
            for work in due:
                work.time_out()


_watcher = _Watcher()
