"""Decoded columns kept in memory between full scans, oldest out first.

A scan of all rows spends most of its time decoding; what it decoded is worth keeping for the next
one. Only whole-table columns come here, in the order by user, and they go when rows arrive.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# -- decoded columns kept in memory between full scans, oldest out first ---------------------------


class ColumnCache:
    """At most `capacity` bytes of arrays, the least recently used dropped first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._arrays: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()
        self._size = 0

    def get(self, key: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the array kept under `key`; make it, and keep it if it fits."""
        if key in self._arrays:
            self._arrays.move_to_end(key)
            return self._arrays[key]
        array = make()
        array.flags.writeable = False
        if array.nbytes <= self._capacity:
            self._arrays[key] = array
            self._size += array.nbytes
            while self._size > self._capacity:
                _, oldest = self._arrays.popitem(last=False)
                self._size -= oldest.nbytes
        return array

    def clear(self) -> None:
        """Forget everything: rows have arrived."""
        self._arrays.clear()
        self._size = 0

    @property
    def roomy(self) -> bool:
        """Tell whether at least half of the room is left."""
        return 2 * self._size < self._capacity

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._size


def combine_positions(
    positions: list[NDArray[np.int32]], sizes: list[int]
) -> NDArray[np.int32] | None:
    """Return one index for several keys, last key fastest; -1 where a row is in no group.

    Args:
        positions: Place in each key's domain, by row; out of range: in none.
        sizes: Number of values of each key.

    Example:
        >>> combine_positions([np.array([0, 1], np.int32), np.array([2, 9], np.int32)], [2, 3])
        array([ 2, -1], dtype=int32)
    """
    if not positions:
        return None
    index = np.zeros(len(positions[0]), np.int32)
    inside = np.ones(len(positions[0]), bool)
    for position, size in zip(positions, sizes, strict=True):
        inside &= (position >= 0) & (position < size)
        index *= size
        index += position
    if not inside.all():
        index[~inside] = -1
    return index


# -- giving memory back to the operating system, which allocators keep when it is freed ------------


def release_freed() -> None:
    """Give back what is free: between parts of what is too large to be held at once."""
    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Return the C library's own way, where it is glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
