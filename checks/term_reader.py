"""Expressions read as a query's are, without a query: much quicker than to lower one."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language.column_id import ColumnId
from sparseq.language.expression_tree import Term
from sparseq.language.types import find_type
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.parse import Dialect
from sparseq.store.store import Store


class TermReader:
    """Reads expressions over a store's table.

    Args:
        store: Whose.
        table: The table's name.
    """

    def __init__(self, store: Store, table: str) -> None:
        self._store, self._table = store, store.catalog.table(table)
        self._reader = ExpressionReader(self._column, self._constant)
        self._constants: dict[str, object] = {}

    def read(self, text: str) -> Term | None:
        """Return a term; None where it is refused."""
        try:
            tree = sqlglot.parse_one(f"SELECT {text}", dialect=Dialect)
            return self._reader.read(tree.expressions[0])
        except (QueryRefused, sqlglot.ParseError):
            return None

    def _column(self, column: exp.Column) -> Term:
        type = find_type(self._table.column(column.name).type)
        assert type is not None
        return Term(
            type,
            f'"{self._table.name}"."{column.name}"',
            column=ColumnId(self._table.name, column.name),
        )

    def _constant(self, sql: str) -> object:
        if sql not in self._constants:
            found = self._store.backend.database.sql(f"SELECT {sql}").fetchall()
            ((self._constants[sql],),) = found
        return self._constants[sql]
