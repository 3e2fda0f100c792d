"""The number of rows that are read, told to the command that reads them: for the curator only.

DuckDB asks for rows in threads of its own, so that the listener is the process's and no context's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int], None]
"""Takes the name of a file, and the number of its rows that have been read."""
_listeners: list[Listener] = []


@contextmanager
def reading_told(listener: Listener) -> Iterator[None]:
    """Tell a listener of rows that are read, within the block.

    Example:
        >>> found = []
        >>> with reading_told(lambda name, rows: found.append((name, rows))):
        ...     tell_rows("a.csv", 1_000)
        >>> tell_rows("b.csv", 1)
        >>> found
        [('a.csv', 1000)]
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell_rows(name: str, rows: int) -> None:
    """Tell the listeners, if there are any, how many rows of a file have been read."""
    for listener in tuple(_listeners):
        listener(name, rows)
