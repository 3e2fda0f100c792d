"""Tables and subqueries of a FROM, and how DuckDB reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sparseq.language.bounds import Interval
from sparseq.sql.catalog import Column, Table
from sparseq.sql.cost_limits import ROWS
from sparseq.sql.plan import Cap

USER = "_user"
"""The user's dense index, in every row about people; no column of a query can have this name."""
USER_ID = "_user#id"
"""The user's identifier, joined in where an expression looks at it."""


@dataclass(frozen=True)
class ColumnFacts:
    """What is publicly known about a column of a source.

    Attributes:
        type: DuckDB's type, or "" if not known.
        bounds: Declared or derived lowest and highest value.
            Of dates and times in days since 1970, both included.
        stored: The stored column behind it, where it is just that.
        values: Finds the public values of a subquery's column, if there are any.
    """

    type: str = ""
    bounds: Interval | None = None
    stored: Column | None = None
    values: Callable[[], list[Any] | None] | None = field(default=None, compare=False)


@dataclass
class FromItem:
    """One item of FROM, by its alias.

    Attributes:
        alias: Its name in the query.
        private: Its rows are about users.
        users: Its columns that hold the user.
        columns: What is known about the others.
        table: The stored table, if it is one.
        derived: The subquery in physical form, in parentheses, if it is one.
        optional: It is LEFT JOINed: all of its columns may be NULL.
        decoded: Coded columns whose strings are needed.
        needs_ids: The users' identifiers are needed.
        by_time: Read in the order of time.
        single: It has at most one row a person.
        caps: Who is taken out of the joins inside it, innermost first.
        people: How many tables about people its rows are combinations of.
        most: Of an answer, or a subquery about nobody: about how many rows it has at most, where
            joins by equal columns don't multiply.
    """

    alias: str
    private: bool
    users: set[str]
    columns: dict[str, ColumnFacts]
    table: Table | None = None
    derived: str = ""
    optional: bool = False
    decoded: set[str] = field(default_factory=set)
    needs_ids: bool = False
    by_time: bool = False
    single: bool = False
    caps: tuple[Cap, ...] = ()
    people: int = 1
    most: int = 0

    def rows_sql(self) -> str:
        """Return its rows as an item of FROM without a name: as they are, nothing looked up."""
        if self.table is None:
            return self.derived
        return f"{'by_user' if self.private else 'public'}.{quoted(self.table.name)}"


def quoted(name: str) -> str:
    """Return an SQL identifier."""
    return exp.to_identifier(name, quoted=True).sql("duckdb")


def source_sql(source: FromItem, over: str = "") -> str:
    """Return a source as an item of FROM; call it when it is known what must be decoded.

    Args:
        source: A table or a subquery.
        over: The table of people who are taken out of it; "": nobody is.
    """
    alias = quoted(source.alias)
    ids = f' JOIN ledger.users AS "#u" ON "#u".{USER} = "#t".{USER}' if source.needs_ids else ""
    id_column = f', "#u".id AS {quoted(USER_ID)}' if source.needs_ids else ""
    out = f' WHERE "#t".{USER} NOT IN (SELECT {USER} FROM temp.{quoted(over)})' if over else ""
    if source.table is not None and not source.table.private:
        return f"public.{quoted(source.table.name)} AS {alias}"
    plain = not source.decoded and not source.needs_ids
    rows = source.rows_sql()
    if source.table is not None and source.by_time:
        rows = f"by_time.{quoted(source.table.name)}"
    if plain and not over:
        return f"{rows} AS {alias}"
    if plain or source.table is None:
        return f'(SELECT "#t".*{id_column} FROM {rows} AS "#t"{ids}{out}) AS {alias}'
    columns = f'"#t".{USER}{id_column}'
    for i, column in enumerate(c.name.lower() for c in source.table.columns):
        name = quoted(column)
        if column in source.decoded:
            dictionary = quoted(f"{source.table.name}.{source.table.column(column).name}")
            ids += f' LEFT JOIN dictionary.{dictionary} AS "#{i}" ON "#{i}".code = "#t".{name}'
            columns += f', "#{i}".value AS {name}, "#t".{name} AS {quoted(code_of(column))}'
        elif column not in source.users:
            columns += f', "#t".{name}'
    return f'(SELECT {columns} FROM {rows} AS "#t"{ids}{out}) AS {alias}'


def code_of(column: str) -> str:
    """Return the name under which a decoded column still shows its code."""
    return f"{column}#code"


def most_rows(sources: Iterable[FromItem], limits: Mapping[str, int]) -> int | None:
    """Return how many rows of a FROM a person has at most, where that is declared: of one table."""
    only = list(sources)
    alone = len(only) == 1 and only[0].private and only[0].table is not None
    return limits.get(ROWS) if alone else None
