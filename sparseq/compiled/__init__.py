"""The few loops that large inputs go to, compiled by Numba where it is installed.

Each has a twin in NumPy with the same meaning; without `pip install 'sparseq[fast]'`, or for small
inputs, the twin does the work.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

THREADS = 2
SHARED = 1 << 17  # rows from which a second thread pays
COLD, WARM = 200_000, 4_000  # rows from which loops pay, before and after they have been loaded


@cache
def compiled() -> Any:
    """Return the compiled loops; None without Numba."""
    if importlib.util.find_spec("numba") is None:
        return None
    from sparseq.compiled import loops

    return loops


def worthwhile(length: int) -> bool:
    """Tell whether to use the compiled loops for an input of this length."""
    loaded = compiled.cache_info().currsize > 0
    return length >= (WARM if loaded else COLD) and compiled() is not None


def selected(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Return `values[mask]`."""
    few = 16 * np.count_nonzero(mask) < len(values)
    if few or not worthwhile(len(values)):
        return values[np.flatnonzero(mask)] if few else values[mask]
    out = np.empty(len(values) + 1, values.dtype)
    chosen: NDArray[Any] = out[: compiled().select(values, mask, out)]
    return chosen.copy() if 2 * len(chosen) < len(values) else chosen


def halves(length: int, work: Callable[[slice], object], shared: int = SHARED) -> None:
    """Do something to both halves of an array, at once; to one below `shared` in one go."""
    if length < shared:
        work(slice(0, length))
        return
    other = pool().submit(work, slice(length // 2, length))
    work(slice(0, length // 2))
    other.result()


@cache
def pool() -> ThreadPoolExecutor:
    """Return the threads that compiled loops run on."""
    return ThreadPoolExecutor(THREADS)
