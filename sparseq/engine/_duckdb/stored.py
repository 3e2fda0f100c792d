"""Columns of stored tables in memory, as the interpreter reads them: whole, in order of user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.compiled import order_of
from sparseq.engine._duckdb.reader import Reader, chunk_values
from sparseq.engine._duckdb.tables import dictionary_table
from sparseq.engine.columns import ColumnCache
from sparseq.engine.operations import ALL, Vector
from sparseq.engine.program import Leaf, StepValues
from sparseq.engine.protocol import USER, quote
from sparseq.engine.reduce import Index, Ints, Runs
from sparseq.language.types import Family, type_named
from sparseq.sql.catalog import Column
from sparseq.sql.plan import Domain

MOST_CODES = 1 << 16
_EPOCH = "CAST('1970-01-01' AS DATE)"


@dataclass(frozen=True)
class Span:
    """Whole numbers or days that lie close: codes count from the least one, the last is NULL's."""

    codes: str
    table: Vector


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
        self._spans: dict[tuple[str, str], Span | None] = {}
        self._nulls: dict[tuple[str, str], bool] = {}
        self._last_codes: dict[tuple[str, str], int] = {}

    def layout(self, table: str) -> tuple[Index, Runs]:
        """Return whose each row is, and where each user's rows lie."""
        return self._layout(table)[:2]

    def column(self, table: str, leaf: Leaf) -> StepValues:
        """Return what a leaf of a program is."""
        if leaf.type.family is Family.TEXT or leaf.said:
            codes, last = self._codes(table, leaf.column)
            return StepValues(codes, ALL, self._table(table, leaf, last))
        sql = quote(leaf.column)
        if leaf.type.family in (Family.DATE, Family.INTEGER):
            span = self._span(table, sql, leaf.type.family)
            if span is not None:
                return StepValues(self._kept(table, span.codes), ALL, span.table)
        known = self.cache.get((table, "known", sql), lambda: self._known(table, sql))
        return StepValues(self._kept(table, sql), known if len(known) else ALL)

    def warm(self, table: str, column: Column) -> None:
        """Keep what most questions about a column read, if there is room."""
        type = type_named(column.type)
        if column.coded:
            self._codes(table, column.name)
        elif type is not None and type.family is not Family.TEXT:
            self.column(table, Leaf(column.name, type))

    def clear(self) -> None:
        """Forget everything: rows have arrived."""
        self.cache.clear()
        self._layouts.clear()
        self._spans.clear()
        self._nulls.clear()
        self._last_codes.clear()

    def _layout(self, table: str) -> tuple[Index, Runs, Ints | None]:
        """Return the layout, and how to sort rows by user (None: they are)."""
        if table not in self._layouts:
            users = self._fetch(table, USER)
            order = order_of(users)
            if order is not None:
                users = users[order]
            self._layouts[table] = users, Runs.of(users), order
        return self._layouts[table]

    def _span(self, table: str, sql: str, family: Family) -> Span | None:
        """Return a column's values between the least and the greatest; None: they are many."""
        if (table, sql) not in self._spans:
            ends = f"SELECT min({sql}) AS low, max({sql}) AS high FROM by_user.{quote(table)}"
            some = self._lacks_some(table, sql)
            self._spans[table, sql] = _span_of(sql, family, some, *self._reader.columns(ends))
        return self._spans[table, sql]

    def _lacks_some(self, table: str, sql: str) -> bool:
        """Tell whether a column has a NULL."""
        missing = f"SELECT count(*) > count({sql}) AS x FROM by_user.{quote(table)}"
        return bool(self._reader.columns(missing)[0][0].as_py())

    def _fetch(self, table: str, sql: str) -> NDArray[Any]:
        return values_of(self._reader.columns(f"SELECT {sql} AS x FROM by_user.{quote(table)}")[0])

    def _kept(self, table: str, sql: str) -> NDArray[Any]:
        def make() -> NDArray[Any]:
            array, order = self._fetch(table, sql), self._layout(table)[2]
            return array if order is None else array[order]

        return self.cache.get((table, sql), make)

    def _codes(self, table: str, column: str) -> tuple[NDArray[Any], int]:
        """Return a coded column, and the code that stands for NULL."""
        last = self._last_code(table, column)
        sql = f"CAST(coalesce({quote(column)}, {last}) AS {_code_type(last)})"
        return self._kept(table, sql), last

    def _known(self, table: str, sql: str) -> NDArray[Any]:
        """Return which values of a column are not NULL; nothing where none is."""
        known, order = self._fetch(table, f"{sql} IS NOT NULL"), self._layout(table)[2]
        if known.all():
            return np.zeros(0, np.bool_)
        return known if order is None else known[order]

    def _last_code(self, table: str, column: str) -> int:
        """Return the code that stands for NULL, above all others; remembered."""
        if (table, column) not in self._last_codes:
            codes = self._reader.fetch(f"SELECT code FROM {dictionary_table(table, column)}")[0]
            self._last_codes[table, column] = max(codes.tolist(), default=-1) + 1
        return self._last_codes[table, column]

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
        if not self._has_null(table, leaf.column) and known[:-1].all():  # asked of any column
            return Vector(values)
        return Vector(values, ALL if known.all() else known)

    def _has_null(self, table: str, column: str) -> bool:
        """Tell whether a coded column has a NULL; remembered."""
        if (table, column) not in self._nulls:
            self._nulls[table, column] = self._lacks_some(table, quote(column))
        return self._nulls[table, column]


def _span_of(
    sql: str, family: Family, lacks_some: bool, low: pa.ChunkedArray, high: pa.ChunkedArray
) -> Span | None:
    if low.null_count:
        return None
    kind, first, last = values_of(low).dtype, int(values_of(low)[0]), int(values_of(high)[0])
    count = last - first + 1
    if count >= MOST_CODES:
        return None
    number = f"CAST({sql} AS BIGINT)" if family is Family.INTEGER else f"({sql} - {_EPOCH})"
    code = f"CAST(coalesce({number} - ({first}), {count}) AS {_code_type(count)})"
    values = np.append(first + np.arange(count), 0).astype(kind)  # last + 1 may be 2^63
    known = np.arange(count + 1) < count if lacks_some else ALL
    return Span(code, Vector(values, known))


def _code_type(last: int) -> str:
    return "UTINYINT" if last < 1 << 8 else "USMALLINT" if last < 1 << 16 else "UINTEGER"


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
    return chunk_values(one)


def _low_words(chunk: pa.Decimal128Array) -> NDArray[np.int64]:
    """Return decimals of at most 18 digits, which are the low halves of what they are held in."""
    words = np.frombuffer(chunk.buffers()[1], np.int64)[0::2]
    words = words[chunk.offset : chunk.offset + len(chunk)]
    known = chunk.is_valid().to_numpy(zero_copy_only=False)
    return np.where(known, words, 0)
