"""The few loops that large inputs go to, compiled by Numba where it is installed.

Each has a twin in NumPy with the same meaning; without `pip install 'sparseq[fast]'`, or for small
inputs, the twin does the work.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

THREADS = 2
SHARED = 1 << 19  # rows from which a second thread pays
COLD, WARM = 2_000_000, 4_000  # rows from which loops pay, before and after they have been loaded
_TOGETHER = 3  # times `COLD`: rows of several inputs from which loading the loops pays


@cache
def compiled() -> Any:
    """Return the compiled loops; None without Numba."""
    if importlib.util.find_spec("numba") is None:
        return None
    from sparseq.compiled import loops

    return loops


def worthwhile(length: int, loads: bool = True) -> bool:
    """Tell whether to use the compiled loops for an input of this length.

    Args:
        length: The number of elements.
        loads: False: use them only if they are loaded. Loading takes a second, which is longer than
            the twin in NumPy takes for any input.
    """
    if compiled.cache_info().currsize > 0:
        return length >= WARM and compiled() is not None
    if not loads:
        return False
    _Twins.rows += length
    often = length >= WARM and _Twins.rows >= _TOGETHER * COLD
    return (length >= COLD or often) and compiled() is not None


class _Twins:
    """The work of the twins in NumPy, before the loops are loaded.

    A process that asks one question about a million rows is faster without the loops, and one that
    asks several is faster with them.

    Attributes:
        rows: The number of rows of all their inputs.
    """

    rows = 0


def as_mask(mask: Any) -> Any:
    """Return a mask, by row or one for all, once it is known to be one.

    Raises:
        TypeError: It is not NumPy's bool: no loop checks what it is given, and bytes of numbers
            would be read as truths of other rows.

    Example:
        >>> as_mask(np.array([True, False])), as_mask(np.True_)
        (array([ True, False]), np.True_)
    """
    if not isinstance(mask, np.ndarray | np.bool_) or mask.dtype != np.bool_:
        raise TypeError(f"a mask is {getattr(mask, 'dtype', type(mask))}")
    return mask if isinstance(mask, np.bool_) or mask.ndim else mask[()]


def bits_as(array: NDArray[Any], of: Any, kind: Any) -> NDArray[Any]:
    """Return an array's own bytes as another type of the same width.

    Args:
        array: To be read otherwise; nothing is copied.
        of: What it has to be, a type or a kind of types: `np.bool_`, `np.signedinteger`.
        kind: What it is read as.

    Raises:
        TypeError: It is something else, or the other type is of another width.

    Example:
        >>> bits_as(np.array([True, False]), np.bool_, np.uint8).tolist()
        [1, 0]
    """
    if not np.issubdtype(array.dtype, of) or array.dtype.itemsize != np.dtype(kind).itemsize:
        raise TypeError(f"{array.dtype} is not to be read as {np.dtype(kind)}")
    return array.view(kind)


def select(values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Return `values[mask]`."""
    as_mask(mask)
    few = 16 * np.count_nonzero(mask) < len(values)
    if few or not worthwhile(len(values), loads=False):
        return values[np.flatnonzero(mask)] if few else values[mask]
    out = np.empty(len(values) + 1, values.dtype)
    chosen: NDArray[Any] = out[: compiled().select(values, mask, out)]
    return chosen.copy() if 2 * len(chosen) < len(values) else chosen


def order_of(numbers: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """Return how to sort numbers, stably; None: they are sorted.

    Example:
        >>> order_of(np.array([2, 1, 2], np.int32)).tolist()
        [1, 0, 2]
    """
    if len(numbers) < 2 or bool(np.all(numbers[1:] >= numbers[:-1])):
        return None
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > 8 * len(numbers) or not worthwhile(len(numbers)):
        return np.argsort(numbers, kind="stable")
    out = np.empty(len(numbers), np.int64)
    compiled().counting_order(numbers - low, np.zeros(high - low + 2, np.int64), out)
    return out


def merged(
    left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return the values of two ascending lists of distinct ones, and each list's places among them.

    `numpy.union1d` hashes: it takes forty times as long for a million values.

    Example:
        >>> left, right = np.array([1, 5], np.int32), np.array([1, 2], np.int32)
        >>> [x.tolist() for x in merged(left, right)]
        [[1, 2, 5], [0, 2], [0, 1]]
    """
    size = len(left) + len(right)
    if not worthwhile(size):
        both = np.sort(np.concatenate([left, right]))
        values = both[np.diff(both, prepend=-1) > 0]
        return values, np.searchsorted(values, left), np.searchsorted(values, right)
    values = np.empty(size, np.int32)
    at_left, at_right = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    count = compiled().merge(left, right, values, at_left, at_right)
    return values[:count].copy(), at_left, at_right


def looked_up(
    table: NDArray[Any], codes: NDArray[Any], out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return `table[codes]`, in `out` if it is given; codes are unsigned, and the table has all."""
    if not worthwhile(len(codes), loads=False):
        return table.take(codes, out=out)
    out = np.empty(len(codes), table.dtype) if out is None else out
    bits = f"u{table.dtype.itemsize}"
    compiled().look_up(bits_as(table, np.generic, bits), codes, bits_as(out, table.dtype, bits))
    return out


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
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(THREADS)
