"""Columns of stored tables in memory, as the interpreter reads them: whole, in order of user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.engine._duckdb.reader import Reader
from sparseq.engine._duckdb.storage import dictionary_table
from sparseq.engine.columns import ColumnCache
from sparseq.engine.operations import Vector
from sparseq.engine.program import Column, Leaf
from sparseq.engine.protocol import USER
from sparseq.engine.reduce import Index, Ints, Runs
from sparseq.engine.sql import quote
from sparseq.query.plan import Domain
from sparseq.query.types import Family


class StoredColumns:
    """Reads columns, and keeps them while there is room.

    Args:
        reader: Of the store.
        cache: Where they are kept.

    Attributes:
        cache: As given.
    """

    def __init__(self, reader: Reader, cache: ColumnCache) -> None:
        self._reader, self.cache = reader, cache
        self._layouts: dict[str, tuple[Index, Runs, Ints | None]] = {}

    def layout(self, table: str) -> tuple[Index, Runs]:
        """Return whose each row is, and where each user's rows lie."""
        return self._layout(table)[:2]

    def column(self, table: str, leaf: Leaf) -> Column:
        """Return what a leaf of a program is."""
        if leaf.type.family is Family.TEXT or leaf.said:
            last = self._last_code(table, leaf.column)
            kind = "UTINYINT" if last <= 255 else "UINTEGER"
            codes = f"CAST(coalesce({quote(leaf.column)}, {last}) AS {kind})"
            return Column(self._kept(table, codes), True, self._table(table, leaf, last))
        sql = quote(leaf.column)
        known = self.cache.get((table, "known", sql), lambda: self._known(table, sql))
        return Column(self._kept(table, sql), known if len(known) else True)

    def clear(self) -> None:
        """Forget everything: rows have arrived."""
        self.cache.clear()
        self._layouts.clear()

    def _layout(self, table: str) -> tuple[Index, Runs, Ints | None]:
        """Return the layout, and how to sort rows by user (None: they are)."""
        if table not in self._layouts:
            users = self._fetch(table, USER)
            order = None
            if bool(np.any(users[1:] < users[:-1])):
                order = np.argsort(users, kind="stable")
                users = users[order]
            self._layouts[table] = users, Runs.of(users), order
        return self._layouts[table]

    def _fetch(self, table: str, sql: str) -> NDArray[Any]:
        return values_of(self._reader.columns(f"SELECT {sql} AS x FROM by_user.{quote(table)}")[0])

    def _kept(self, table: str, sql: str) -> NDArray[Any]:
        def make() -> NDArray[Any]:
            array, order = self._fetch(table, sql), self._layout(table)[2]
            return array if order is None else array[order]

        return self.cache.get((table, sql), make)

    def _known(self, table: str, sql: str) -> NDArray[Any]:
        """Return which values of a column are not NULL; nothing where none is."""
        known, order = self._fetch(table, f"{sql} IS NOT NULL"), self._layout(table)[2]
        if known.all():
            return np.zeros(0, np.bool_)
        return known if order is None else known[order]

    def _last_code(self, table: str, column: str) -> int:
        """Return the code that stands for NULL, above all others."""
        codes = self._reader.fetch(f"SELECT code FROM {dictionary_table(table, column)}")[0]
        return max(codes.tolist(), default=-1) + 1

    def _table(self, table: str, leaf: Leaf, last: int) -> Vector:
        """Return what is said of each code."""
        strings = dictionary_table(table, leaf.column)
        if isinstance(leaf.said, Domain):
            codes = np.arange(last + 1, dtype=np.int32)
            return Vector(self._reader.place(codes, leaf.said))
        name = quote(leaf.column)
        alias = leaf.name[: -len(name) - 1]
        said, codes = self._reader.columns(
            f'SELECT {leaf.said} AS said, "#code" FROM (SELECT code AS "#code", value AS {name} '
            f"FROM {strings} UNION ALL SELECT {last}, NULL) AS {alias}"
        )
        values = np.zeros(last + 1, values_of(said).dtype)
        known = np.zeros(last + 1, np.bool_)
        values[values_of(codes)] = values_of(said)
        known[values_of(codes)] = said.is_valid().to_numpy(zero_copy_only=False)
        return Vector(values, True if known.all() else known)


def values_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column's values as the interpreter has them, 0 or false for NULL."""
    if pa.types.is_decimal128(column.type):
        return np.concatenate([_low_words(c) for c in column.chunks] or [np.zeros(0, np.int64)])
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(pa.scalar(0).cast(column.type))
    chunks = column.chunks
    one = chunks[0] if len(chunks) == 1 else column.combine_chunks()
    return np.asarray(one.to_numpy(zero_copy_only=False))


def _low_words(chunk: pa.Decimal128Array) -> NDArray[np.int64]:
    """Return decimals of at most 18 digits, which are the low halves of what they are held in."""
    words = np.frombuffer(chunk.buffers()[1], np.int64)[0::2]
    words = words[chunk.offset : chunk.offset + len(chunk)]
    known = chunk.is_valid().to_numpy(zero_copy_only=False)
    return np.where(known, words, 0)
