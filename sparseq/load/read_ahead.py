"""Items that another thread makes in advance, while the consumer uses the one before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Return the items in order, each made in another thread while the one before is used.

    An error of making an item is raised in its place. A consumer that stops early waits for the
    item in work.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    making, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, making, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, making, end)
            yield item  # type: ignore[misc]


def map_ahead(
    make: Callable[[Item], Made], items: Iterable[Item], threads: int = 2
) -> Iterator[Made]:
    """Return the result of `make` for each item, in order; `threads` are in work at once.

    >>> list(map_ahead(str, range(3)))
    ['0', '1', '2']
    """
    making = iter(items)
    for first in making:  # alone: the consumer may stop after it
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
