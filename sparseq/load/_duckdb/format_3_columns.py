"""Conversion of stores of format 3: their columns get current types, and values within their range.

Format 3 stored integers of 128 bits, decimals of 38 digits, moments with a time zone, infinite
dates and texts of any length. The new form of each value is decided by that value and its type.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb

from sparseq.base.sql_text import quote
from sparseq.engine.protocol import USER
from sparseq.language.types import Family, find_type
from sparseq.load._duckdb.storage import Storage
from sparseq.load.convert import MOST_TEXT
from sparseq.load.read_schema import MOST_DIGITS
from sparseq.question.catalog import Catalog, Column, Table

_RANGES = {
    "DATE": "BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    "TIMESTAMP": "BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'",
}


def keep_to_types(connection: duckdb.DuckDBPyConnection) -> None:
    """Rewrite tables with a column, or a value, that is no longer allowed.

    The caller begins the transaction.
    """
    storage = Storage(connection)
    tables = tuple(_kept(connection, table) for table in storage.catalog().tables)
    storage.put("catalog", Catalog(tables).to_dict())


def _kept(connection: duckdb.DuckDBPyConnection, table: Table) -> Table:
    columns, projections = [], []
    for column in table.columns:
        if column.name == table.user:
            columns.append(column)
            continue
        type, sql = _becomes(column)
        columns.append(replace(column, type=type))
        projections.append(f"{sql} AS {quote(column.name)}")
    for schema in _schemas(table):
        name, new = quote(table.name), quote(f"{table.name} rewritten")
        user = [USER] if table.private else []
        connection.execute(
            f"CREATE TABLE {schema}.{new} AS SELECT {', '.join([*user, *projections])} "
            f"FROM {schema}.{name}"
        )
        connection.execute(f"DROP TABLE {schema}.{name}")
        connection.execute(f"ALTER TABLE {schema}.{new} RENAME TO {name}")
    return replace(table, columns=tuple(columns))


def _schemas(table: Table) -> tuple[str, ...]:
    if not table.private:
        return ("public",)
    return ("by_user", "by_time") if table.time else ("by_user",)


def _becomes(column: Column) -> tuple[str, str]:
    """Return a column's type, and SQL of its values in it.

    >>> _becomes(Column("n", "HUGEINT")), _becomes(Column("b", "BIGINT"))
    (('DOUBLE', 'CAST("n" AS DOUBLE)'), ('BIGINT', '"b"'))
    """
    name = quote(column.name)
    if column.type in _RANGES:
        return column.type, f"CASE WHEN {name} {_RANGES[column.type]} THEN {name} END"
    if column.type == "VARCHAR":
        return column.type, f"left({name}, {MOST_TEXT})"
    if column.type == "TIMESTAMP WITH TIME ZONE":
        moment = f"CAST(CASE WHEN isfinite({name}) THEN epoch_us({name}) END AS BIGINT)"
        within = f"CASE WHEN {moment} BETWEEN -62135596800000000 AND 253402300799999999"
        return "TIMESTAMP", f"{within} THEN make_timestamp({moment}) END"
    kind = find_type(column.type)
    wide = kind is not None and kind.family is Family.DECIMAL and kind.width > MOST_DIGITS
    if kind is None or wide:
        return "DOUBLE", f"CAST({name} AS DOUBLE)"
    return column.type, name
