"""One item ahead: what comes next is made while the last one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


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
