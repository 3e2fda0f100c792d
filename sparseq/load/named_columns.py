"""Columns in options: `TABLE.COL`, or a bare name that only one table has.

An option about columns never means two columns. A name that begins with a table's name and a dot
belongs to that table. Any other name is searched in all tables; if several have it, the option is
refused and the message lists the possible names. Declarations about values (bounds, keys, `@own`)
are about private tables only: everybody may see a public table, so its own values are used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.base.texts import shown
from sparseq.language.column_id import ColumnId

Said = TypeVar("Said")


def table_apart(written: str, tables: Iterable[str]) -> tuple[str, str]:
    """Return the table at the beginning of a name, "" for a bare name, and the column.

    Example:
        >>> table_apart("sales.price", ["sales"]), table_apart("a.b", ["sales"])
        (('sales', 'price'), ('', 'a.b'))
    """
    begun = [t for t in tables if written.lower().startswith(f"{t.lower()}.")]
    table = max(begun, key=len, default="")
    return (table, written[len(table) + 1 :]) if table else ("", written)


def said_of_table(said: Mapping[str, Said], table: str, tables: Collection[str]) -> dict[str, Said]:
    """Return the options about the columns of one table, by the columns' names.

    Bare names are included; `check_alone` refuses one if another table has the column, too.

    Example:
        >>> said_of_table({"a.day": 1, "b.day": 2, "x": 3}, "a", ["a", "b"])
        {'x': 3, 'day': 1}
    """
    parts = {written: table_apart(written, tables) for written in said}
    bare = {name: said[w] for w, (of, name) in parts.items() if not of}
    return bare | {name: said[w] for w, (of, name) in parts.items() if of == table}


def time_of(written: str, table: str, tables: Collection[str]) -> str:
    """Return the time column of one table; "": none is named.

    Args:
        written: One column of every table, or `TABLE.COL` of some, separated by commas.
        table: The name of the table.
        tables: The names of all tables.

    Example:
        >>> [time_of("a.day,b.at", table, ["a", "b", "c"]) for table in "abc"]
        ['day', 'at', '']
        >>> time_of("day", "a", ["a", "b"])
        'day'
    """
    parts = [table_apart(one.strip(), tables) for one in written.split(",")]
    return next((name for of, name in parts if of in ("", table)), "")


def check_alone(option: str, written: str, having: Collection[str]) -> None:
    """Check that only one table has a bare name.

    Args:
        option: The option: `--type`.
        written: The name.
        having: The tables that have a column of that name.

    Raises:
        ParameterError: Several tables have it.
    """
    if len(having) > 1:
        forms = " or ".join(f"{option} {shown(f'{table}.{written}')}" for table in having)
        raise ParameterError(
            f"{option} {shown(written)}: {', '.join(map(shown, having))} each have a column "
            f"{shown(written)}",
            f"name the table: {forms}",
        )


@dataclass(frozen=True)
class NamedColumns:
    """The columns of a store's tables, by name.

    Attributes:
        private, public: By table: its columns.
    """

    private: Mapping[str, Collection[str]]
    public: Mapping[str, Collection[str]]

    def find(self, option: str, written: str) -> ColumnId:
        """Return the private column that an option means.

        Args:
            option: The option: `--bounds`.
            written: `TABLE.COL`, or a name that only one private table has.

        Raises:
            ParameterError: No private table has such a column, or several have it.

        Example:
            >>> columns = NamedColumns({"sales": ["who", "price"]}, {"prod": ["price"]})
            >>> columns.find("--bounds", "price")
            ColumnId(table='sales', name='price')
        """
        tables = {**self.private, **self.public}
        table, name = table_apart(written, tables)
        if table in self.public and table not in self.private:
            raise ParameterError(
                f"{option} {shown(written)}: {shown(table)} is a public table",
                f"everybody may see it, so its own values are used: remove {option}",
            )
        found = [
            ColumnId(one, actual)
            for one, columns in self.private.items()
            for actual in columns
            if table in ("", one) and actual.lower() == name.lower()
        ]
        if not found:
            raise ParameterError(
                f"no table has a column {shown(written)}", self._hint(option, name)
            )
        check_alone(option, written, [column.table for column in found])
        return found[0]

    def _hint(self, option: str, name: str) -> str:
        """Return a hint why no private table has a column."""
        for table, columns in self.public.items():
            if name.lower() in map(str.lower, columns):
                return (
                    f"the public table {shown(table)} has one; everybody may see it, so its own "
                    f"values are used: remove {option}"
                )
        known = [name for columns in self.private.values() for name in columns]
        return did_you_mean(name, known) or f"check {option}"
