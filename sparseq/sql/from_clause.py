"""Tables and subqueries in a FROM, and their SQL for DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparseq.base.sql_text import quote
from sparseq.language.column_id import ColumnId
from sparseq.language.ends import Interval
from sparseq.language.types import Type, find_type
from sparseq.question.catalog import Column, Table
from sparseq.question.limits import ROWS
from sparseq.question.plan import Cap

USER = "_user"
"""The user's dense index, in every row about people; no column of a query may have this name."""
USER_ID = "_user#id"
"""The user's identifier, joined in where an expression uses it."""
PLACE = "_user#place"
"""A row's place among its user's rows, in the order in which the windows processed them."""


@dataclass(frozen=True)
class ColumnFacts:
    """Public facts of a column of a source.

    Attributes:
        type: DuckDB's type, or "" if not known.
        bounds: Declared or derived lowest and highest value; both ends are included, and dates and
            times are in days since 1970.
        stored, place: The stored column, if the source's column is a plain copy of it, and its
            identity.
        values: Finds the public values of a subquery's column, if it has any.
        null: Tells whether a subquery's column may be NULL.
        zoned: Its times are moments (TIMESTAMP WITH TIME ZONE).
        unit: The unit of time that each value of a subquery's column begins; "": none.
    """

    type: str = ""
    bounds: Interval | None = None
    stored: Column | None = None
    place: ColumnId | None = None
    values: Callable[[], list[Any] | None] | None = field(default=None, compare=False)
    null: Callable[[], bool] | None = field(default=None, compare=False)
    zoned: bool = False
    unit: str = ""

    @property
    def held(self) -> Type | None:
        """The type of its values in an expression; None if no expression accepts it."""
        known = find_type(self.type)
        return known and replace(known, zoned=self.zoned)


@dataclass
class FromItem:
    """One item of FROM, by its alias.

    Attributes:
        alias: Its name in the query.
        private: Its rows belong to users.
        users: The columns that hold the user.
        columns: The facts of the other columns.
        table: The stored table, if the item is one.
        derived: The subquery in physical form, in parentheses, if the item is one.
        optional: It is LEFT JOINed, or a side of a FULL JOIN: all of its columns may be NULL.
        full: It is FULL JOINed: no row is left out, on either side.
        needs_ids: The query needs the users' identifiers.
        by_time: Its rows are read in order of time.
        unique: Columns whose values together differ between all rows of a person; None if unknown.
        once: At most one of its rows matches each row of the sources before it.
        domain: It is a domain: the distinct values that a subquery uses of its outer row.
        placed: Its column PLACE gives the order in which inner windows processed its rows.
        caps: The limits that exclude people from the joins inside it, innermost first.
        people: The number of private tables that its rows combine.
        most: For an answer, or a subquery without private rows: an estimate of its maximum number
            of rows, if joins by equal columns do not multiply rows.
    """

    alias: str
    private: bool
    users: set[str]
    columns: dict[str, ColumnFacts]
    table: Table | None = None
    derived: str = ""
    optional: bool = False
    full: bool = False
    needs_ids: bool = False
    by_time: bool = False
    unique: frozenset[str] | None = None
    once: bool = False
    domain: bool = False
    placed: bool = False
    caps: tuple[Cap, ...] = ()
    people: int = 1
    most: int = 0

    @property
    def single(self) -> bool:
        """Tell whether it has at most one row per person."""
        return self.unique == frozenset()

    def rows_sql(self) -> str:
        """Return its rows as an item of FROM, without an alias and without lookups."""
        if self.table is None:
            return self.derived
        return f"{'by_user' if self.private else 'public'}.{quote(self.table.name)}"


def column_of(alias: str, name: str) -> str:
    """Return SQL of a source's column."""
    return f"{quote(alias)}.{quote(name)}"


def source_sql(source: FromItem, over: str = "") -> str:
    """Return a source as an item of FROM; call it after every use of the source is bound.

    Args:
        source: A table or a subquery.
        over: The table of people to exclude; "" excludes nobody.
    """
    alias = quote(source.alias)
    ids = f' JOIN ledger.users AS "#u" ON "#u".{USER} = "#t".{USER}' if source.needs_ids else ""
    id_column = f', "#u".id AS {quote(USER_ID)}' if source.needs_ids else ""
    out = f' WHERE "#t".{USER} NOT IN (SELECT {USER} FROM temp.{quote(over)})' if over else ""
    if source.table is not None and not source.table.private:
        return f"public.{quote(source.table.name)} AS {alias}"
    plain = not source.needs_ids
    rows = source.rows_sql()
    if source.table is not None and source.by_time:
        rows = f"by_time.{quote(source.table.name)}"
    if plain and not over:
        return f"{rows} AS {alias}"
    if plain or source.table is None:
        return f'(SELECT "#t".*{id_column} FROM {rows} AS "#t"{ids}{out}) AS {alias}'
    columns = f'"#t".{USER}{id_column}'
    for column in (c.name.lower() for c in source.table.columns):
        if column not in source.users:
            columns += f', "#t".{quote(column)}'
    return f'(SELECT {columns} FROM {rows} AS "#t"{ids}{out}) AS {alias}'


def most_rows(sources: Iterable[FromItem], limits: Mapping[str, int]) -> int | None:
    """Return the declared maximum rows per person of a FROM with one table, or None."""
    only = list(sources)
    alone = len(only) == 1 and only[0].private and only[0].table is not None
    return limits.get(ROWS) if alone else None
