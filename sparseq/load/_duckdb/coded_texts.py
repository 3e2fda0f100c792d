"""Texts of stores of formats 3 to 6, which kept some columns as codes of a private dictionary.

A count of private rows decided which columns had codes, and codes followed the order in which texts
arrived. Neither may become visible, so stores have no codes any more: `store_texts` replaces the
codes of an earlier store by texts.
"""

from __future__ import annotations

from typing import Any

import duckdb

from sparseq.base.sql_text import quote
from sparseq.load._duckdb.storage import Storage


def store_texts(connection: duckdb.DuckDBPyConnection) -> None:
    """Replace codes in tables by texts, and drop the dictionaries.

    The caller begins the transaction. Rows keep their order.
    """
    storage = Storage(connection)
    catalog = storage.get("catalog")
    for table in catalog["tables"]:
        coded = [c["name"] for c in table["columns"] if c.pop("coded", False)]
        if coded:
            for schema in ("by_user", "by_time") if table["time"] else ("by_user",):
                _decode(connection, schema, table, coded)
        for column in coded:
            connection.execute(f"DROP TABLE {_dictionary(table, column)}")
    connection.execute("DROP SCHEMA IF EXISTS dictionary")
    storage.put("catalog", catalog)


def _decode(
    connection: duckdb.DuckDBPyConnection, schema: str, table: dict[str, Any], coded: list[str]
) -> None:
    """Rewrite one order of a table with the texts of its coded columns."""
    old, new = quote(table["name"]), quote(f"{table['name']} rewritten")
    texts = ", ".join(f"d{i}.value AS {quote(c)}" for i, c in enumerate(coded))
    joins = " ".join(
        f"LEFT JOIN {_dictionary(table, c)} AS d{i} ON d{i}.code = t.{quote(c)}"
        for i, c in enumerate(coded)
    )
    connection.execute(
        f"CREATE TABLE {schema}.{new} AS SELECT t.* REPLACE ({texts}) "
        f"FROM {schema}.{old} AS t {joins} ORDER BY t.rowid"
    )
    connection.execute(f"DROP TABLE {schema}.{old}")
    connection.execute(f"ALTER TABLE {schema}.{new} RENAME TO {old}")


def _dictionary(table: dict[str, Any], column: str) -> str:
    return f"dictionary.{quote(table['name'] + '.' + column)}"
