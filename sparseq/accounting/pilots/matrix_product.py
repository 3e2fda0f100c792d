"""Products of matrices of samples, on one thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_AT_ONCE = 1 << 17
"""The multiplications of one call of BLAS: from twice as many, OpenBLAS wakes threads. Waking
threads takes twenty times as long as such a product, and longer while other processes compute.
"""


def product(left: Floats, right: Floats) -> Floats:
    """Return left @ right, a few rows at a time.

    Args:
        left: (samples, n).
        right: (n, m).

    Example:
        >>> product(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    rows = max(_AT_ONCE // max(right.size, 1), 1)
    parts = [left[at : at + rows] @ right for at in range(0, max(len(left), 1), rows)]
    return np.concatenate(parts)
