"""What is public about a store's tables: names, types, and what the curator declared.

Which strings a column holds, how many rows or users there are, and everything else that comes from
the rows is private, and not here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from sparseq.errors import ParameterError, QueryRefused, did_you_mean

INTEGER_TYPES = frozenset(
    [
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
        "UINTEGER", "UBIGINT",
    ]
)  # fmt: skip
TIME_TYPES = frozenset(["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])


@dataclass(frozen=True)
class Column:
    """One column, as analysts see it.

    Attributes:
        name, type: DuckDB's name of the type that analysts work with.
        coded: Strings are stored as codes of a private dictionary.
        bounds: Declared lowest and highest value; a promise about scale, never checked for privacy.
        keys: Declared public values, a domain to group by.
    """

    name: str
    type: str
    coded: bool = False
    bounds: tuple[float, float] | None = None
    keys: tuple[Any, ...] | None = None

    @property
    def integral(self) -> bool:
        """Values are integers."""
        return self.type in INTEGER_TYPES


@dataclass(frozen=True)
class Table:
    """One table. Private ones have a user column; rows are laid out by the column `time`.

    Attributes:
        row_key: Columns that, with the user, say which row is meant: a row that arrives replaces
            the one of the same user and key. Empty: every row is a row of its own.
    """

    name: str
    columns: tuple[Column, ...]
    user: str = ""
    time: str = ""
    row_key: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """Rows are about users."""
        return bool(self.user)

    def column(self, name: str) -> Column:
        """Return the column of that name (case-insensitive).

        Raises:
            QueryRefused: There is none.
        """
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise QueryRefused(
            f"table {self.name} has no column {name!r}",
            did_you_mean(name, (c.name for c in self.columns)),
        )

    def with_column(self, column: Column) -> Table:
        """Return the table with the column of that name replaced."""
        return replace(
            self, columns=tuple(column if c.name == column.name else c for c in self.columns)
        )


@dataclass(frozen=True)
class Catalog:
    """All tables of a store."""

    tables: tuple[Table, ...]

    def table(self, name: str) -> Table:
        """Return the table of that name (case-insensitive).

        Raises:
            QueryRefused: There is none.
        """
        for table in self.tables:
            if table.name.lower() == name.lower():
                return table
        raise QueryRefused(
            f"there is no table {name!r}", did_you_mean(name, (t.name for t in self.tables))
        )

    @property
    def private(self) -> tuple[Table, ...]:
        """The tables about users."""
        return tuple(t for t in self.tables if t.private)

    def only_private(self) -> Table:
        """Return the one private table.

        Raises:
            QueryRefused: There are several.
        """
        if len(self.private) != 1:
            names = ", ".join(t.name for t in self.private)
            raise QueryRefused("there are several tables", f"name one of {names}")
        return self.private[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the catalog as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Catalog:
        """Return the catalog that `to_dict` described."""

        def column(c: dict[str, Any]) -> Column:
            bounds, keys = c["bounds"], c["keys"]
            return Column(
                c["name"],
                c["type"],
                c["coded"],
                (bounds[0], bounds[1]) if bounds is not None else None,
                tuple(keys) if keys is not None else None,
            )

        return cls(
            tuple(
                Table(
                    t["name"],
                    tuple(map(column, t["columns"])),
                    t["user"],
                    t["time"],
                    tuple(t.get("row_key", ())),
                )
                for t in data["tables"]
            )
        )

    def with_table(self, table: Table) -> Catalog:
        """Return the catalog with `table` added, or replaced if it is there."""
        others = tuple(t for t in self.tables if t.name.lower() != table.name.lower())
        return Catalog((*others, table))


def declared(
    table: Table,
    keys: dict[str, tuple[Any, ...]],
    bounds: dict[str, tuple[float, float]],
) -> Table:
    """Return the table with the curator's declarations about its columns.

    Raises:
        ParameterError: A declaration is about no column, or makes no sense.
    """
    names = {c.name.lower(): c for c in table.columns}
    for name, (low, high) in bounds.items():
        if name.lower() in names:
            if not low < high:
                raise ParameterError(f"bounds of {name} are {low}..{high}; low must be below high")
            table = table.with_column(replace(table.column(name), bounds=(low, high)))
    for name, values in keys.items():
        if name.lower() in names:
            if len(set(values)) != len(values) or not values:
                raise ParameterError(f"keys of {name} are empty or repeat a value")
            table = table.with_column(replace(table.column(name), keys=values))
    return table
