"""The names, columns and orders of stored tables, as SQL."""

from __future__ import annotations

import duckdb

from sparseq.engine.protocol import USER, quote
from sparseq.sql.catalog import Table


def dictionary_table(table: str, column: str) -> str:
    """Return the SQL name of a coded column's dictionary."""
    return f"dictionary.{quote(f'{table}.{column}')}"


def table_sql(table: Table) -> str:
    """Return SQL that makes a table in both orders, with its dictionaries."""
    types = {quote(c.name): "UINTEGER" if c.coded else c.type for c in table.columns}
    if not table.private:
        return f"CREATE TABLE public.{quote(table.name)} ({_sql_list(types)});\n"
    del types[quote(table.user)]
    made = [
        f"CREATE TABLE {dictionary_table(table.name, c.name)} "
        "(code UINTEGER NOT NULL, value VARCHAR NOT NULL);\n"
        for c in table.columns
        if c.coded
    ]
    for schema in ("by_user", "by_time") if table.time else ("by_user",):
        columns = _sql_list({USER: "INTEGER NOT NULL"} | types)
        made.append(f"CREATE TABLE {schema}.{quote(table.name)} ({columns});\n")
    return "".join(made)


def _sql_list(types: dict[str, str]) -> str:
    return ", ".join(f"{column} {type}" for column, type in types.items())


def orders(table: Table) -> list[tuple[str, str]]:
    """Return the orders in which a table's rows are kept: a schema's name, and SQL."""
    if not table.time:
        return [("by_user", USER)]
    time = quote(table.time)
    return [("by_user", f"{USER}, {time}"), ("by_time", f"{time}, {USER}")]


def write_anew(
    connection: duckdb.DuckDBPyConnection,
    schema: str,
    name: str,
    where: str = "true",
    order: str = "i.rowid",
) -> None:
    """Write a table, `i`, anew: the rows that `where` holds for, as a single run."""
    old, new = quote(name), quote(f"{name} rewritten")
    connection.execute(
        f"CREATE TABLE {schema}.{new} AS SELECT * FROM {schema}.{old} AS i "
        f"WHERE {where} ORDER BY {order}"
    )
    connection.execute(f"DROP TABLE {schema}.{old}")
    connection.execute(f"ALTER TABLE {schema}.{new} RENAME TO {old}")
