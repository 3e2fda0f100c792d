"""The identity of a stored column: its table, and its name in the table.

Declared, found and measured facts of a column are stored under this identity. A bare name is not
enough: two tables may each have a column of that name, with different facts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class ColumnId:
    """One column of one stored table; both names are spelled as they are stored.

    Example:
        >>> str(ColumnId("sales", "price"))
        'sales.price'
    """

    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"
