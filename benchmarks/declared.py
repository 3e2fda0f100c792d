"""Declarations about a column of several tables, repeated for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def of_each(said: Mapping[str, Any], tables: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return declarations by table and column, for all tables that have the column.

    Args:
        said: Declarations by the name of a column.
        tables: Columns of each table.

    Example:
        >>> of_each({"x": (0, 9)}, {"a": ["who", "x"], "b": ["x"], "c": ["y"]})
        {'a.x': (0, 9), 'b.x': (0, 9)}
    """
    return {
        f"{table}.{column}": what
        for column, what in said.items()
        for table, columns in tables.items()
        if column in columns
    }
