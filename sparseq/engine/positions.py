"""One index for the values of several group keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def combine_positions(
    positions: list[NDArray[np.signedinteger[Any]]], sizes: list[int]
) -> NDArray[np.signedinteger[Any]] | None:
    """Return one index for several keys (the last varies fastest); -1: no group.

    Args:
        positions: The index in each key's domain, by row; out of range: no group.
        sizes: The number of values of each key.

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
