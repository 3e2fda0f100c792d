"""Leaks in decisions at loading, and in the meaning of questions without matching rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import sparseq.load._duckdb.storage
import sparseq.sql.subquery_expressions
from checks.audit.planting import Leak, put
from sparseq.load._duckdb.storage import Storage
from sparseq.question.catalog import Column, Table
from sparseq.store.store import Store


def order_by_codes() -> AbstractContextManager[None]:
    """The kept rows of a person depend on the person who brought a text first."""
    place = sparseq.load._duckdb.storage
    right = place.value_order

    def by_code(table: Any) -> str:
        texts = [c.name for c in table.columns if c.type == "VARCHAR" and c.name != table.user]
        if not texts:
            return right(table)
        rows = f'SELECT "{texts[0]}" AS v, min(rowid) AS r FROM by_user."{table.name}" GROUP BY 1'
        code = f'list_position((SELECT list(v ORDER BY r) FROM ({rows})), "{texts[0]}")'
        return f"{code}, {right(table)}"

    return put(place, "value_order", by_code)


def catalogue_of_rows() -> AbstractContextManager[None]:
    """The bounds of a column of numbers are the extremes of its rows when a store is opened."""
    made = Store.__init__

    def seen(store: Store, table: Table, column: Column) -> Column:
        ends = f'min("{column.name}"), max("{column.name}")'
        sql = f'SELECT {ends} FROM by_user."{table.name}" WHERE isfinite("{column.name}")'
        ((low, high),) = store.backend.database.execute(sql).fetchall()
        return column if low is None else replace(column, bounds=(float(low), float(high)))

    def opened(store: Store, *rest: Any) -> None:
        made(store, *rest)
        tables = []
        for table in store.catalog.tables:
            for column in table.columns:
                if column.type == "DOUBLE" and table.user and column.name != table.user:
                    table = table.with_column(seen(store, table, column))
            tables.append(table)
        store.catalog = replace(store.catalog, tables=tuple(tables))

    return put(Store, "__init__", opened)


@contextlib.contextmanager
def cut_too_early() -> Iterator[None]:
    """The most rows of a person are cut when a table is made, and not when later rows come."""
    right, done = Storage._cut_rows, set[tuple[int, str]]()

    def cut(storage: Storage, table: Any) -> list[str]:
        if (id(storage), table.name) in done:
            return []
        done.add((id(storage), table.name))
        return right(storage, table)

    with put(Storage, "_cut_rows", cut):
        yield


def default_of_null() -> AbstractContextManager[None]:
    """A count over no rows is NULL, as other aggregates are."""
    return put(sparseq.sql.subquery_expressions, "value_over_no_rows", lambda _: None)


_OTHERS = ("charges of others", "accounts of others", "own charge", "own contribution", "path")
PLANTED = (
    Leak("an order by codes", order_by_codes, (), _OTHERS, life="loads", seed=3),
    Leak(
        "a fact of the catalogue from rows",
        catalogue_of_rows,
        ("SELECT sum(x) AS a0 FROM t",),
        ("told for nothing",),
    ),
    Leak(
        "a cut that later rows are not under",
        cut_too_early,
        (),
        ("too many rows",),
        life="loads",
        seed=6,
    ),
    Leak("a default that is NULL", default_of_null, (), ("another sum",), life="meanings"),
)
