"""The order of rows by user and time, and by time and user."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.compiled import compiled, worthwhile
from sparseq.engine.reduction import Index
from sparseq.load.held_rows import AT_ONCE, Order

_MANY = 1 << 24  # rows from which loading the compiled loops pays


def sorted_rows(users: Index, time: pa.Array | None) -> list[Order]:
    """Return the rows by (user, time) and by (time, user); equal rows keep their order.

    Args:
        users: The user of each row.
        time: The time of each row; NULL comes last. None: there is no time, and no second order.

    Example:
        >>> [order.tolist() for order in sorted_rows(np.array([1, 0, 1]), pa.array([7, 9, None]))]
        [[1, 0, 2], [0, 1, 2]]
    """
    if len(users) and users.min() < 0:
        rows = np.flatnonzero(users >= 0)
        some = None if time is None else time.take(pa.array(rows))
        return [rows[order] for order in sorted_rows(users[rows], some)]
    if time is None:
        return [_sort_order(users)]
    moments = _places_of(time)
    if bool(np.all(moments[1:] >= moments[:-1])):
        by_user = _sort_order(users)
    else:
        by_time = _sort_order(moments)
        by_user = by_time[_sort_order(users[by_time])]
    return [by_user, by_user[_sort_order(moments[by_user])]]


def in_order(columns: pa.RecordBatch, order: Order) -> Iterator[pa.RecordBatch]:
    """Yield the rows in an order, in blocks."""
    for start in range(0, len(order), AT_ONCE):
        yield columns.take(pa.array(order[start : start + AT_ONCE]))


def _sort_order(keys: NDArray[np.int32]) -> Order:
    """Return a stable sort order of numbers from 0 up, the smallest first."""
    size = int(keys.max(initial=-1)) + 1
    loops = worthwhile(len(keys), loads=len(keys) >= _MANY)
    if not loops or size > 4 * len(keys) or len(keys) >= 2**32:
        return _radix_order(keys)
    order = np.empty(len(keys), np.uint32)
    compiled().counting_order(keys, np.zeros(size + 1, np.int64), order)
    return order


def _radix_order(keys: NDArray[np.int32]) -> Order:
    """Compute `_sort_order` in NumPy, which sorts 16 bits by counting, and more by comparing."""
    order = np.argsort(keys.astype(np.uint16), kind="stable")  # the lower bits
    upper = keys >> 16
    if upper.any():
        upper = upper.astype(np.uint8 if int(upper.max()) < 256 else np.uint16)
        order = order[np.argsort(upper[order], kind="stable")]
    return order.astype(np.uint32) if len(keys) < 2**32 else order


def _places_of(time: pa.Array) -> NDArray[np.int32]:
    """Return numbers from 0 up in the order of the values; NULL comes last."""
    if pa.types.is_date32(time.type) and len(time) > time.null_count:
        days = time.view(pa.int32())
        extremes = pc.min_max(days).as_py()
        if extremes["max"] - extremes["min"] < len(time):
            last = extremes["max"] + 1
            places: NDArray[np.int32] = pc.fill_null(days, last).to_numpy() - extremes["min"]
            return places.astype(np.int32)
    ranks = pc.rank(time, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(ranks).astype(np.int32)
