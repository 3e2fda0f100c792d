"""Tables and subqueries of a FROM, and how DuckDB reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from sparseq.query.bounds import Interval
from sparseq.query.catalog import Column, Table

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
        stored: The stored column behind it, where it is just that.
    """

    type: str = ""
    bounds: Interval | None = None
    stored: Column | None = None


@dataclass
class Source:
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


def quoted(name: str) -> str:
    """Return an SQL identifier."""
    return exp.to_identifier(name, quoted=True).sql("duckdb")


def source_sql(source: Source) -> str:
    """Return a source as an item of FROM; call it when it is known what must be decoded."""
    alias = quoted(source.alias)
    ids = f' JOIN ledger.users AS "#u" ON "#u".{USER} = "#t".{USER}' if source.needs_ids else ""
    id_column = f', "#u".id AS {quoted(USER_ID)}' if source.needs_ids else ""
    if source.derived:
        if not source.needs_ids:
            return f"{source.derived} AS {alias}"
        return f'(SELECT "#t".*{id_column} FROM {source.derived} AS "#t"{ids}) AS {alias}'
    table = source.table
    assert table is not None
    if not table.private:
        return f"public.{quoted(table.name)} AS {alias}"
    stored = f"{'by_time' if source.by_time else 'by_user'}.{quoted(table.name)}"
    if not source.decoded and not source.needs_ids:
        return f"{stored} AS {alias}"
    columns = f'"#t".{USER}{id_column}'
    for i, column in enumerate(c.name.lower() for c in table.columns):
        name = quoted(column)
        if column in source.decoded:
            dictionary = quoted(f"{table.name}.{table.column(column).name}")
            ids += f' LEFT JOIN dictionary.{dictionary} AS "#{i}" ON "#{i}".code = "#t".{name}'
            columns += f', "#{i}".value AS {name}, "#t".{name} AS {quoted(code_of(column))}'
        elif column not in source.users:
            columns += f', "#t".{name}'
    return f'(SELECT {columns} FROM {stored} AS "#t"{ids}) AS {alias}'


def code_of(column: str) -> str:
    """Return the name under which a decoded column still shows its code."""
    return f"{column}#code"
