"""Bins of numbers by a look-up of their leading bits.

The order of floats is the order of their bits, read as integers (those of negative ones but for the
sign turned round). So the leading bits of a number, its exponent and some bits of its mantissa,
name an interval; a table has how many edges lie below each interval, and the edge inside of it.
With at most one edge in an interval, one comparison is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BITS = range(2, 13)  # of the mantissa
_MOST = 1 << 12  # intervals: the table stays in the nearest cache
_WIDTH = 52
_REST = np.int64(2**63 - 1)


@dataclass(frozen=True)
class BinTable:
    """The intervals around some edges.

    Attributes:
        shift: The bits that name no interval.
        first: The name of the first interval. It and the last one have no edge.
        below: The number of edges below each interval.
        edges: The edge in each interval; infinite if there is none.
    """

    shift: int
    first: int
    below: NDArray[np.int64]
    edges: NDArray[np.float64]

    @classmethod
    def of(cls, edges: NDArray[np.float64]) -> BinTable | None:
        """Return the table of ascending, finite edges; None: they are too near to each other.

        Example:
            >>> table, numbers = BinTable.of(np.array([0.5, 0.75, 6.0])), np.array([0.1, 0.6, 7.0])
            >>> at = table.places(numbers)
            >>> (table.below[at] + (table.edges[at] <= numbers)).tolist()
            [0, 1, 3]
        """
        if len(edges) == 0:
            return None
        ordered = _ordered(edges)
        for bits in _BITS:
            shift = _WIDTH - bits
            names = ordered >> shift
            first, size = int(names[0]) - 1, int(names[-1]) - int(names[0]) + 3
            if size > _MOST:
                return None
            if np.all(names[1:] > names[:-1]):
                inside = np.full(size, np.inf)
                inside[names - first] = edges
                below = np.searchsorted(names, first + np.arange(size))
                return cls(shift, first, below.astype(np.int64), inside)
        return None

    def places(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the place of each number's interval."""
        names = (_ordered(numbers) >> self.shift) - self.first
        return np.asarray(np.clip(names, 0, len(self.below) - 1), np.int64)


def _ordered(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers in the order of some numbers; both zeros have one."""
    bits = (numbers + 0.0).view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & _REST))
