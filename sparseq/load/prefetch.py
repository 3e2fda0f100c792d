"""Ahead of who uses it: what comes next is made while the last one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Return the items in their order, each made in another thread while the one before is used.

    Whatever making one raises is raised in its place. Who stops early waits for the one that is
    being made.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    making, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, making, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, making, end)
            yield item  # type: ignore[misc]


def mapped(make: Callable[[Item], Made], items: Iterable[Item], threads: int = 2) -> Iterator[Made]:
    """Return what is made of each item, in their order, so many being made at once.

    >>> list(mapped(str, range(3)))
    ['0', '1', '2']
    """
    making = iter(items)
    for first in making:  # alone: nobody may want more
        yield make(first)
        break
    with ThreadPoolExecutor(threads) as pool:
        coming: deque[Future[Made]] = deque()
        for item in making:
            coming.append(pool.submit(make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
