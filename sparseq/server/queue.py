"""Who is next: one of each asker in turn, and no more waiting than a stated number."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar

from sparseq.errors import ServerError, Why

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue that takes from its askers in turn. Threads may share it.

    Args:
        most: What may wait in all.
        each: What may wait of one asker.

    Example:
        >>> queue = FairQueue[str]()
        >>> for asker, item in [("ada", "a1"), ("ada", "a2"), ("ada", "a3"), ("bob", "b1")]:
        ...     queue.put(asker, item)
        >>> queue.take(3)
        ['a1', 'b1', 'a2']
    """

    def __init__(self, most: int = 1024, each: int = 256) -> None:
        self.most, self.each = most, each
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._size = 0
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._size

    def put(self, asker: str, item: T) -> None:
        """Let an item wait for its turn.

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
            self._changed.notify()

    def take(self, most: int) -> list[T]:
        """Wait for items, and return up to so many; none: the queue is closed, and empty."""
        with self._changed:
            while not self._size and not self._closed:
                self._changed.wait()
            taken: list[T] = []
            while self._size and len(taken) < most:
                asker, items = self._waiting.popitem(last=False)
                taken.append(items.popleft())
                self._size -= 1
                if items:
                    self._waiting[asker] = items  # behind all others
            return taken

    def close(self) -> None:
        """Let nothing more in; what waits is still taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
