"""A cache of decoded columns of stored tables between questions, within a limit of bytes.

Columns that were used once and columns that were used again have separate shelves, so that the
latter stay longer. All columns are dropped when rows arrive or go. The cache holds no results: each
column equals what a new read would return.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

MOST_NAMES = 4096
"""The most names of requested columns that are remembered."""


class Shelf:
    """Objects of known sizes, within a limit of bytes; the least recently used is dropped first.

    Example:
        >>> shelf = Shelf(10)
        >>> for name in "abc":
        ...     shelf.keep(name, name.upper(), 4)
        >>> [shelf.find(name) for name in "abc"], shelf.bytes
        ([None, 'B', 'C'], 8)
    """

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0
        self._things: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def find(self, name: Hashable) -> Any:
        """Return an object by its name; None: it is absent."""
        if name not in self._things:
            return None
        self._things.move_to_end(name)
        return self._things[name][0]

    def keep(self, name: Hashable, thing: Any, size: int) -> None:
        """Keep an object if it fits, and drop others for it."""
        self.take(name)
        if size > self.most:
            return
        self._things[name] = thing, size
        self.bytes += size
        while self.bytes > self.most:
            _, (_, gone) = self._things.popitem(last=False)
            self.bytes -= gone

    def take(self, name: Hashable) -> tuple[Any, int] | None:
        """Remove an object; return it and its size. None: it is absent."""
        found = self._things.pop(name, None)
        self.bytes -= found[1] if found else 0
        return found

    def clear(self) -> None:
        """Remove everything."""
        self._things.clear()
        self.bytes = 0


@dataclass
class KeptColumns:
    """Decoded columns by name.

    Args:
        most: The limit in bytes.

    Example:
        >>> kept = KeptColumns(1 << 20)
        >>> kept.known(["x"]), kept.known(["x", "y"]), kept.known(["x", "y"])
        (False, False, True)
        >>> kept.keep("x", "decoded", 8)
        >>> kept.find("x")
        'decoded'
    """

    most: int
    _known: OrderedDict[Hashable, bool] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._once = Shelf(self.most // 4)
        self._often = Shelf(self.most - self.most // 4)

    def known(self, names: Iterable[Hashable]) -> bool:
        """Record a request for columns; tell whether all had been requested before."""
        all_known = True
        for name in names:
            all_known &= self._known.pop(name, False)
            self._known[name] = True
        while len(self._known) > MOST_NAMES:
            self._known.popitem(last=False)
        return all_known

    def find(self, name: Hashable) -> Any:
        """Return a column; None: it is not kept. A column that is found twice stays longer."""
        found = self._often.find(name)
        if found is None and (once := self._once.take(name)) is not None:
            self._often.keep(name, *once)
            found = once[0]
        return found

    def keep(self, name: Hashable, column: Any, size: int, again: bool = False) -> None:
        """Keep a column.

        Args:
            name: The name of the column.
            column: The decoded column.
            size: Its size in bytes.
            again: It had been requested before.
        """
        (self._often if again else self._once).keep(name, column, size)

    @property
    def bytes(self) -> int:
        """Number of bytes in use."""
        return self._once.bytes + self._often.bytes

    def clear(self) -> None:
        """Drop all columns: rows have changed."""
        self._once.clear()
        self._often.clear()
