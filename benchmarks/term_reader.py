"""Expressions read as a query's are, without a query: much quicker than to lower one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlglot
from sqlglot import exp

from benchmarks.language import NUMBER, TYPES, Function
from sparseq.base.errors import QueryRefused
from sparseq.engine.interpreter import Unwritable, Writer
from sparseq.language.expression_tree import Term
from sparseq.language.types import type_named
from sparseq.sql.bind_expressions import ExpressionReader
from sparseq.sql.catalog import Table
from sparseq.sql.parse import Dialect
from sparseq.store.store import Store

_HAD: dict[Function, bool] = {}
"""Whether the interpreter has a word: of columns of these types, whatever the table."""


class TermReader:
    """Reads expressions over a store's table.

    Args:
        store: Whose.
        table: The table's name, and how its columns are called.
        columns: A column of each type that has one.
    """

    def __init__(self, store: Store, table: str, columns: dict[str, Sequence[str]]) -> None:
        self._store, self._table = store, store.catalog.table(table)
        self._columns = {type: columns.get(type, ("NULL",))[0] for type in TYPES}
        self._columns[NUMBER] = self._columns["int"]
        self._reader = ExpressionReader(self._column, self._constant)
        self._constants: dict[str, object] = {}

    @property
    def table(self) -> Table:
        """What is read about."""
        return self._table

    def read(self, text: str) -> Term | None:
        """Return a term; None where it is refused."""
        try:
            tree = sqlglot.parse_one(f"SELECT {text}", dialect=Dialect)
            return self._reader.read(tree.expressions[0])
        except (QueryRefused, sqlglot.ParseError):
            return None

    def known_to_interpreter(self, words: Sequence[Function]) -> list[Function]:
        """Return the words that the interpreter has."""
        return [word for word in words if self._has(word)]

    def _has(self, word: Function) -> bool:
        if word not in _HAD:
            term = self.read(word.template.format(*(self._columns[a] for a in word.arguments)))
            _HAD[word] = term is not None and self._can(lambda writer: writer.step(term))
        return _HAD[word]

    def _can(self, write: Callable[[Writer], object]) -> bool:
        try:
            write(Writer(self._table))
        except Unwritable:
            return False
        return True

    def _column(self, column: exp.Column) -> Term:
        type = type_named(self._table.column(column.name).type)
        assert type is not None
        return Term(type, f'"{self._table.name}"."{column.name}"', column=column.name)

    def _constant(self, sql: str) -> object:
        if sql not in self._constants:
            found = self._store.backend.database.sql(f"SELECT {sql}").fetchall()
            ((self._constants[sql],),) = found
        return self._constants[sql]
