"""A queue, and a pool of threads, that are fair between users."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sparseq.base.cancellation import Cancellation, current
from sparseq.base.errors import ServerError, Why
from sparseq.engine.freed_memory import release_freed

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue that is fair between its users. Threads may share it.

    Args:
        most: The maximum number of waiting items.
        each: The maximum number of waiting items of one user.
        at_once: The maximum number of items of one user in work; None: no limit.

    Example:
        >>> queue = FairQueue[str]()
        >>> for asker, item in [("ada", "a1"), ("ada", "a2"), ("ada", "a3"), ("bob", "b1")]:
        ...     queue.put(asker, item)
        >>> queue.take(3)
        ['a1', 'b1', 'a2']
    """

    def __init__(self, most: int = 1024, each: int = 256, at_once: int | None = None) -> None:
        self.most, self.each, self.at_once = most, each, at_once
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._size = self._lent = 0
        self._taken: Counter[str] = Counter()
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._size

    def put(self, asker: str, item: T) -> None:
        """Add an item, which waits for its turn.

        Raises:
            ServerError: Too much is waiting, or the queue is closed.
        """
        with self._changed:
            if self._closed:
                raise ServerError(Why.CLOSING, "the server is stopping", "try again in a minute")
            mine = self._waiting.get(asker, ())
            if self._size >= self.most or len(mine) >= self.each:
                whose, most = (
                    ("yours", self.each) if len(mine) >= self.each else ("everybody's", self.most)
                )
                raise ServerError(
                    Why.BUSY,
                    f"{most:,} of {whose} are waiting already; nothing was charged",
                    "wait for some of the answers, then ask again",
                )
            self._waiting.setdefault(asker, deque()).append(item)
            self._size += 1
            self._changed.notify_all()

    def take(self, most: int) -> list[T]:
        """Wait for items, and return up to `most`; none: the queue is closed, and empty."""
        with self._changed:
            while (ready := self._ready()) is None and not (
                self._closed and not self._size and not self._lent
            ):
                self._changed.wait()
            taken: list[T] = []
            while ready is not None and len(taken) < most:
                items = self._waiting.pop(ready)
                taken.append(items.popleft())
                self._size -= 1
                self._taken[ready] += self.at_once is not None
                if items:
                    self._waiting[ready] = items  # behind all others
                ready = self._ready()
            return taken

    def _ready(self) -> str | None:
        """Return the next user; None: there is none."""
        if self.at_once is None:
            return next(iter(self._waiting), None)
        return next((who for who in self._waiting if self._taken[who] < self.at_once), None)

    def done(self, asker: str) -> None:
        """Record that a taken item is done."""
        with self._changed:
            self._taken[asker] -= 1
            if not self._taken[asker]:
                del self._taken[asker]
            self._changed.notify_all()

    def lend(self) -> None:
        """Record that a taken item comes back: the queue does not end before."""
        with self._changed:
            self._lent += 1

    def give_up(self) -> None:
        """Record that a lent item is finished."""
        with self._changed:
            self._lent -= 1
            self._changed.notify_all()

    def put_back(self, asker: str, item: T) -> None:
        """Put a lent item first among its user's items, whatever waits."""
        with self._changed:
            self._waiting.setdefault(asker, deque()).appendleft(item)
            self._size += 1
            self._lent -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Accept no more items; waiting ones are still taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def stand_behind() -> None:
    """Give this thread, and those that it starts, a lower priority for processors."""
    if sys.platform == "linux":  # threads have their own priority there
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


@dataclass
class _Work:
    """A unit of work, its user, and its cancellation."""

    who: str
    run: Callable[[], Any]
    cancellation: Cancellation | None
    done: Future[Any] = field(default_factory=Future)


class FairPool:
    """Threads that run work of users in turn. Cancelled work is stopped, or not begun.

    Args:
        name: The name of the threads.
        threads: The number of threads.
        at_once: The number that work for one user at once.
        behind: True if they have a lower priority for processors.
        most, each: The maximum numbers of waiting items: see `FairQueue`.

    Example:
        >>> pool = FairPool("doctest", threads=2, at_once=1)
        >>> pool.submit("ada", lambda: 1 + 1).result(), pool.close()
        (2, None)
    """

    def __init__(
        self,
        name: str,
        threads: int,
        at_once: int,
        most: int = 1024,
        each: int = 64,
        behind: bool = False,
    ) -> None:
        self._queue: FairQueue[_Work] = FairQueue(most, each, at_once)
        self._behind = behind
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, who: str, run: Callable[[], Any]) -> Future[Any]:
        """Run something as a part of the current work (`cancellation.current`).

        Raises:
            ServerError: Too much is waiting, or the pool is closed.
        """
        work = _Work(who, run, current())
        stack = ExitStack()
        if work.cancellation is not None:
            stack.enter_context(work.cancellation.interrupts(work.done.cancel))
        try:
            self._queue.put(who, work)
        except ServerError:
            stack.close()
            raise
        work.done.add_done_callback(lambda _: stack.close())
        return work.done

    def close(self) -> None:
        """Accept nothing more, and wait for running work."""
        self._queue.close()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        if self._behind:
            stand_behind()
        while taken := self._queue.take(1):
            (work,) = taken
            if work.done.set_running_or_notify_cancel():
                self._do(work)
            self._queue.done(work.who)
            del work, taken
            if self._behind:
                release_freed()  # large, especially after a cancellation: its frames had it

    def _do(self, work: _Work) -> None:
        try:
            with ExitStack() as stack:
                if work.cancellation is not None:
                    stack.enter_context(work.cancellation.ambient())
                result = work.run()
        except BaseException as error:
            work.done.set_exception(error)
        else:
            work.done.set_result(result)
