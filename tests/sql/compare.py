"""An answer without its noise against the plain SQL that means the same."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sparseq.released.result_columns import columns_of, noised_of

Row = tuple[Any, ...]


def check_same(ours: pa.Table, theirs: pa.Table, in_order: bool, exact: bool = True) -> None:
    """Compare names, rows and order; a group that plain SQL has no row for must hold nothing.

    Args:
        ours: Keys and noised columns, each of these with its error beside it.
        theirs: The same columns, without errors.
        in_order: The rows have an order.
        exact: Numbers are the same but for floating point; else, but for a lattice.
    """
    shown, noisy = columns_of(ours), noised_of(ours)
    names = [s if "(" in t else t for t, s in zip(theirs.column_names, shown, strict=True)]
    assert [c.lower() for c in shown] == [c.lower() for c in names]
    noised = {i for i, c in enumerate(shown) if c in noisy}
    keys = [i for i in range(len(shown)) if i not in noised]
    got, want = _rows(ours.select(shown)), _rows(theirs)
    if in_order:
        assert len(got) == len(want)
        for mine, row in zip(got, want, strict=True):
            assert _same(mine, row, exact), (mine, row)
        return
    found = {tuple(row[i] for i in keys): row for row in got}
    assert len(found) == len(got), "a group is there twice"
    for row in want:
        mine = found.pop(tuple(row[i] for i in keys))
        assert _same(mine, row, exact), (mine, row)
    for row in found.values():
        assert all(row[i] in (0, None) for i in noised), row


def _rows(table: pa.Table) -> list[Row]:
    return [tuple(map(_plain, row.values())) for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date()
    return float(value) if isinstance(value, Decimal) else value


def _same(ours: Row, theirs: Row, exact: bool) -> bool:
    return len(ours) == len(theirs) and all(
        _equal(a, b, exact) for a, b in zip(ours, theirs, strict=True)
    )


def _equal(a: Any, b: Any, exact: bool) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or not _numbers(a, b):
        return type(a) is type(b) and bool(a == b)
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    relative, absolute = (1e-7, 1e-6) if exact else (1e-6, 1e-3)
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)


def _numbers(*values: Any) -> bool:
    return all(isinstance(v, int | float) for v in values)
