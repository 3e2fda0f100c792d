"""The names, columns and orders of stored tables, as SQL."""

from __future__ import annotations

import duckdb

from sparseq.base.sql_text import quote
from sparseq.engine.protocol import USER
from sparseq.question.catalog import Table

_SIGNED_ZERO = ("DOUBLE", "FLOAT")


def table_sql(table: Table) -> str:
    """Return SQL that creates a table in both orders."""
    types = {quote(c.name): c.type for c in table.columns}
    if not table.private:
        return f"CREATE TABLE public.{quote(table.name)} ({_sql_list(types)});\n"
    del types[quote(table.user)]
    made = []
    for schema in ("by_user", "by_time") if table.time else ("by_user",):
        columns = _sql_list({USER: "INTEGER NOT NULL"} | types)
        made.append(f"CREATE TABLE {schema}.{quote(table.name)} ({columns});\n")
    return "".join(made)


def _sql_list(types: dict[str, str]) -> str:
    return ", ".join(f"{column} {type}" for column, type in types.items())


def orders(table: Table) -> list[tuple[str, str]]:
    """Return the orders in which a table is stored: a schema's name, and SQL for each."""
    if not table.time:
        return [("by_user", USER)]
    time = quote(table.time)
    return [("by_user", f"{USER}, {time}"), ("by_time", f"{time}, {USER}")]


def value_order(table: Table) -> str:
    """Return SQL that orders rows of one user by their values, such that only equal rows tie.

    The order is by time, then by the other columns in their order. Zeros of different signs are
    equal as numbers and differ as texts, so floating-point columns are also ordered by their texts.
    """
    of_user = [c for c in table.columns if c.name != table.user]
    columns = sorted(of_user, key=lambda c: c.name != table.time)
    by = [quote(c.name) for c in columns]
    by += [f"CAST({quote(c.name)} AS VARCHAR)" for c in columns if c.type.startswith(_SIGNED_ZERO)]
    return ", ".join(by) or USER


def write_anew(
    connection: duckdb.DuckDBPyConnection,
    schema: str,
    name: str,
    where: str = "true",
    order: str = "i.rowid",
) -> None:
    """Rewrite a table with the rows `i` that meet `where`, as a single run."""
    old, new = quote(name), quote(f"{name} rewritten")
    connection.execute(
        f"CREATE TABLE {schema}.{new} AS SELECT * FROM {schema}.{old} AS i "
        f"WHERE {where} ORDER BY {order}"
    )
    connection.execute(f"DROP TABLE {schema}.{old}")
    connection.execute(f"ALTER TABLE {schema}.{new} RENAME TO {old}")
