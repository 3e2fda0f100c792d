"""Rows in memory, column by column, and how to sort them by user and by time.

Every row is written once, to the end of its columns, so that rows take as much room as their values
have. Texts are numbers, and a dictionary beside them, as long as it is small. Only strings that a
row has come to it: what else a file's own dictionary may hold is never looked at.

Identifiers of several columns: `--user shop,customer` makes the text `7,ann` of a row.

With a window, `--window month`, the day it begins on is one more part: `7,ann,2024-03-01`.

Each part has one spelling, that of its column's type, as an identifier of one column has. A comma
or a backslash in a part has a backslash before it, so that no two people have one text. A row that
lacks a part names nobody.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.compiled import compiled, worthwhile
from sparseq.engine._duckdb.connection import scratch
from sparseq.engine.contributions import Index, as_arrow
from sparseq.engine.protocol import quote
from sparseq.load.convert import MOST_TEXT, expression, to_text
from sparseq.load.databases import spell
from sparseq.load.file_sources import FIRST, NO_TYPES, ArrowSource, Source, one_array
from sparseq.load.read_schema import Schema
from sparseq.load.tidy import duck_type, list_of, tidy, tidy_type

# -- rows in memory, column by column, and how to sort them by user and by time --------------------

AT_ONCE = 122_880  # rows of a batch that is handed on: as many as DuckDB stores together
DICTIONARY_LIMIT = 10_000
"""A column with more distinct texts than this has them as they are."""
_LARGE = dict.fromkeys((pa.string(), pa.large_string()), pa.large_string())
_LARGE_LISTS = {pa.list_(pa.string()): pa.large_list(pa.large_string())}
_LEAST = 1 << 16  # rows that a column has room for at first
Order = NDArray[np.uint32] | NDArray[np.int64]


class HeldRows:
    """Rows in the order in which they came.

    Args:
        kinds: Column to its type.
        user: The column that says whom a row is about; rows without it have no place in an order.

    Attributes:
        rows: How many there are.
    """

    def __init__(self, kinds: Mapping[str, pa.DataType], user: str) -> None:
        self._user, self.rows = user, 0
        self._columns: dict[str, _Column] = {}
        for name, kind in kinds.items():
            self._columns[name] = _held(kind)
            if kind in _LARGE and name != user:
                self._columns[name] = _Texts()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        for name, array in zip(self._columns, batch.columns, strict=True):
            column = self._columns[name]
            if isinstance(column, _Texts) and not column.fits(array):
                column = self._columns[name] = _held(pa.large_string(), column.array())
            column.add(array)
        self.rows += len(batch)

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return sum(column.nbytes for column in self._columns.values())

    def valid(self, name: str) -> int:
        """Return how many values of a column are not missing."""
        return self._columns[name].valid

    def batches(self) -> Iterator[list[pa.Array]]:
        """Yield columns of some of the rows, and hold them no longer."""
        columns = [self.column(name) for name in list(self._columns)]
        for start in range(0, self.rows, AT_ONCE):
            yield [decode(column.slice(start, AT_ONCE)) for column in columns]

    def users(self) -> tuple[pa.Array, Index]:
        """Return the distinct identifiers as they appear, and the place of each row's; -1: none."""
        found = self.column(self._user).dictionary_encode()
        return found.dictionary, pc.fill_null(found.indices, -1).to_numpy()

    def column(self, name: str) -> pa.Array:
        """Return a column, and hold it no longer."""
        return self._columns.pop(name).array()

    def has_few(self, name: str) -> bool:
        """Tell whether a column of texts has few distinct ones."""
        return isinstance(self._columns[name], _Texts)

    def words(self, name: str) -> pa.DictionaryArray:
        """Return a column of texts, and hold it no longer."""
        return _words(self.column(name))


class _Column(Protocol):
    @property
    def nbytes(self) -> int: ...

    @property
    def valid(self) -> int: ...

    def add(self, array: pa.Array) -> None: ...

    def array(self) -> pa.Array: ...


class _Numbers:
    """A column whose values are of one width."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._values = np.empty(_LEAST, f"V{kind.bit_width // 8}")
        self._known: list[pa.BooleanArray] = []
        self._length = self.valid = 0

    @property
    def nbytes(self) -> int:
        return self._length * self._values.itemsize

    def add(self, array: pa.Array) -> None:
        end = self._length + len(array)
        if end > len(self._values):  # large arrays grow in place; what is new is zeroed
            self._values.resize(max(end, len(self._values) * 9 // 8), refcheck=False)
        values = np.frombuffer(array.buffers()[1] or b"", self._values.dtype)
        self._values[self._length : end] = values[array.offset : array.offset + len(array)]
        self._known.append(array.is_valid())
        self._length, self.valid = end, self.valid + len(array) - array.null_count

    def array(self) -> pa.Array:
        known = None
        if self.valid < self._length:
            known = pa.concat_arrays(self._known).buffers()[1]
        return pa.Array.from_buffers(self._kind, self._length, [known, pa.py_buffer(self._values)])


class _Texts:
    """A column of texts that are few."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self._codes = _Numbers(pa.int32())

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes

    @property
    def valid(self) -> int:
        return self._codes.valid

    def fits(self, array: pa.Array) -> bool:
        """Tell whether the texts would still be few with these."""
        new = set(_use(_words(array)).to_pylist()) - self.places.keys()
        return len(self.places) + len(new - {None}) <= DICTIONARY_LIMIT

    def add(self, array: pa.Array) -> None:
        words = _words(array)
        for text in _use(words).drop_null().to_pylist():
            self.places.setdefault(text, len(self.places))
        places = [self.places.get(text) for text in words.dictionary.to_pylist()]
        self._codes.add(pa.array(places, pa.int32()).take(words.indices))

    def array(self) -> pa.Array:
        texts = pa.array(list(self.places), pa.string())
        return pa.DictionaryArray.from_arrays(self._codes.array(), texts)


class _Chunks:
    """Any column, as it came."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = (_LARGE | _LARGE_LISTS).get(
            kind, kind
        )  # texts together may be more than 2 GiB
        self._chunks: list[pa.Array] = []
        self.nbytes = self.valid = 0

    def add(self, array: pa.Array) -> None:
        self._chunks.append(decode(array).cast(self._kind))
        self.nbytes += self._chunks[-1].nbytes
        self.valid += len(array) - array.null_count

    def array(self) -> pa.Array:
        return pa.concat_arrays([*self._chunks, pa.nulls(0, self._kind)])


def _held(kind: pa.DataType, *arrays: pa.Array) -> _Column:
    """Return a column of a type, with some values."""
    wide = (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)) and kind.bit_width >= 8
    column: _Column = _Numbers(kind) if wide else _Chunks(kind)
    for array in arrays:
        column.add(array)
    return column


def _words(array: pa.Array) -> pa.DictionaryArray:
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _use(array: pa.DictionaryArray) -> pa.Array:
    return array.dictionary.take(array.indices.unique())


def decode(array: pa.Array) -> pa.Array:
    """Return values without a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


# -- rows that have NULL where a column is NOT NULL ------------------------------------------------


class LackingRows:
    """Leaves out rows that have NULL where a column is NOT NULL, each for itself, and counts them.

    Args:
        not_null: The columns that are NOT NULL.
        types: All columns.
        user: The column that says whom a row is about; rows without it are left out anyway.

    Attributes:
        rows: How many were left out.
        valid: Column to how many values were in them.
        null: NOT NULL column to how many of them have no value there.
    """

    def __init__(self, not_null: Collection[str], types: Iterable[str], user: str) -> None:
        self._user, self.rows = user, 0
        self.valid = dict.fromkeys(types, 0)
        self.null = {name: 0 for name in self.valid if name in not_null and name != user}

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that stay."""
        if not any(batch[name].null_count for name in self.null):
            return batch
        named = batch[self._user].is_valid() if self._user else pa.scalar(True)
        out = pa.array(np.zeros(len(batch), bool))
        for name in self.null:
            lacking = pc.and_(batch[name].is_null(), named)
            self.null[name] += lacking.true_count
            out = pc.or_(out, lacking)
        left = batch.filter(out)
        self.rows += len(left)
        for name, column in zip(self.valid, left.columns, strict=True):
            self.valid[name] += len(column) - column.null_count
        return batch.filter(pc.invert(out))

    def cut_staged(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Take them out of the table `staged`."""
        if not self.null:
            return
        lacking = [f"{quote(name)} IS NULL" for name in self.null]
        out = f"({' OR '.join(lacking)})"
        if self._user:
            out += f" AND {quote(self._user)} IS NOT NULL"
        counts = [f"count({quote(name)})" for name in self.valid]
        counts += map("count(*) FILTER ({})".format, lacking)
        sql = f"SELECT {', '.join(counts)} FROM staged WHERE {out}"
        (found,) = connection.execute(sql).fetchall()
        for k, name in enumerate(self.valid):
            self.valid[name] += found[k]
        for k, name in enumerate(self.null, len(self.valid)):
            self.null[name] += found[k]
        ((rows,),) = connection.execute(f"DELETE FROM staged WHERE {out}").fetchall()
        self.rows += rows


# -- order -----------------------------------------------------------------------------------------


def sorted_rows(users: Index, time: pa.Array | None) -> list[Order]:
    """Return the rows in order of (user, time) and in order of (time, user); what is equal stays.

    Args:
        users: Whose each row is.
        time: When; missing values come last. None: the rows have no time, and no second order.

    Example:
        >>> [order.tolist() for order in sorted_rows(np.array([1, 0, 1]), pa.array([7, 9, None]))]
        [[1, 0, 2], [0, 1, 2]]
    """
    if len(users) and users.min() < 0:
        rows = np.flatnonzero(users >= 0)
        some = None if time is None else time.take(pa.array(rows))
        return [rows[order] for order in sorted_rows(users[rows], some)]
    if time is None:
        return [_sort_order(users)]
    moments = _places_of(time)
    if bool(np.all(moments[1:] >= moments[:-1])):
        by_user = _sort_order(users)
    else:
        by_time = _sort_order(moments)
        by_user = by_time[_sort_order(users[by_time])]
    return [by_user, by_user[_sort_order(moments[by_user])]]


def in_order(columns: pa.RecordBatch, order: Order) -> Iterator[pa.RecordBatch]:
    """Yield the rows in an order, some at a time."""
    for start in range(0, len(order), AT_ONCE):
        yield columns.take(pa.array(order[start : start + AT_ONCE]))


def _sort_order(keys: NDArray[np.int32]) -> Order:
    """Return a stable order of numbers from 0 up, the smallest first."""
    size = int(keys.max(initial=-1)) + 1
    if not worthwhile(len(keys)) or size > 4 * len(keys) or len(keys) >= 2**32:
        return np.argsort(keys, kind="stable")
    order = np.empty(len(keys), np.uint32)
    compiled().counting_order(keys, np.zeros(size + 1, np.int64), order)
    return order


def _places_of(time: pa.Array) -> NDArray[np.int32]:
    """Return numbers from 0 up that are in the order of some values; missing ones come last."""
    if pa.types.is_date32(time.type) and len(time) > time.null_count:
        days = time.view(pa.int32())
        extremes = pc.min_max(days).as_py()
        if extremes["max"] - extremes["min"] < len(time):
            last = extremes["max"] + 1
            places: NDArray[np.int32] = pc.fill_null(days, last).to_numpy() - extremes["min"]
            return places.astype(np.int32)
    ranks = pc.rank(time, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(ranks).astype(np.int32)


# -- tables in memory as sources: of Arrow, Polars, pandas, or whatever gives an Arrow stream ------

_NAME = "the table"


class Memory(ArrowSource):
    """A table in memory.

    Args:
        table: Its columns.
        texts: Those whose types are told by their texts, as in text files.
        lists: Of these, those that have lists as JSON has them, with their types.
    """

    def __init__(
        self,
        table: pa.Table,
        texts: frozenset[str] = frozenset(),
        lists: Mapping[str, str] = NO_TYPES,
    ) -> None:
        self._table, self._texts, self.declared = table, texts, lists
        super().__init__(_NAME, table.schema)

    def raw_types(self) -> dict[str, pa.DataType]:
        """See `Source`."""
        return {n: kind for n, kind in super().raw_types().items() if n not in self._texts}

    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        positions = [self._at(c) for c in columns]
        batches: list[pa.RecordBatch] = self._table.select(positions).to_batches()
        return batches


class Batches(ArrowSource):
    """Batches that come one after the other, and are gone when they were read."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self._rest: Iterator[pa.RecordBatch] | None = iter(batches)
        super().__init__("the stream", schema)

    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        if self._rest is None:
            raise DataError("the rows of the stream were read already", "make a new stream")
        batches, self._rest = self._rest, None
        return batches


def source_in_memory(rows: Any) -> Source:
    """Return a table in memory, or a stream, as a source.

    Raises:
        DataError: It is neither.
    """
    library = type(rows).__module__.partition(".")[0]
    if library == "pandas" and hasattr(rows, "columns"):
        return _of_pandas(rows)
    if library == "polars" and hasattr(rows, "collect_batches"):
        schema = as_arrow(rows.collect_schema().to_frame(eager=True)).schema
        parts = (as_arrow(part) for part in rows.collect_batches(maintain_order=True))
        return Batches(schema, chain.from_iterable(part.to_batches() for part in parts))
    if library == "polars" and hasattr(rows, "to_frame"):
        rows = rows.to_frame()
    if isinstance(rows, pa.RecordBatchReader):
        return Batches(rows.schema, rows)
    if library == "pyarrow" and hasattr(rows, "scanner"):
        rows = rows.scanner()
    if library == "pyarrow" and hasattr(rows, "projected_schema"):
        return Batches(rows.projected_schema, rows.to_batches())
    if hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pa.Table):
        try:
            reader = pa.RecordBatchReader.from_stream(rows)
        except (TypeError, ValueError, pa.ArrowException):
            reader = None
        if reader is not None:
            return Batches(reader.schema, reader)
    return Memory(as_arrow(rows))


def _of_pandas(frame: Any) -> Source:
    """Return a frame of pandas; columns of Python objects are read value by value, as texts.

    Indexes that have names are columns; others are row numbers.
    """
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    twice = [name for name, n in Counter(map(str, frame.columns)).items() if n > 1]
    if twice:
        raise DataError(f"the frame has several columns {twice[0]!r}", "give each its own name")
    arrays, texts, lists = {}, set(), dict[str, str]()
    for name in frame.columns:
        column = frame[name]
        if column.dtype == object:
            listed = [v.tolist() if isinstance(v, np.ndarray) else v for v in column]
            values = [None if _is_missing(v) else v for v in listed]
            some = [v for v in values[:FIRST] if v is not None]
            if some and all(isinstance(v, list) for v in some):
                kind = list_of({type(x) for v in some for x in v})
                lists |= {str(name): kind} if kind else {}
            if str(name) in lists:
                values = [json.dumps(v, default=str) if isinstance(v, list) else v for v in values]
                texts.add(str(name))
            arrays[str(name)] = pa.array(map(spell, values), pa.string(), size=len(values))
            if not any(isinstance(v, str) for v in values[:FIRST]):
                texts.add(str(name))
        else:
            arrays[str(name)] = pa.chunked_array(pa.array(column, from_pandas=True))
    return Memory(pa.table(arrays), frozenset(texts), lists)


def _is_missing(value: Any) -> bool:
    """Tell whether a value is none: None, NaN, NaT, pandas' NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


# -- identifiers of several columns: `--user shop,customer` makes the text `7,ann` of a row --------


def parts_of(user: str) -> tuple[str, ...]:
    """Return the columns that identify people, where they are several.

    >>> parts_of("shop,customer"), parts_of("customer")
    (('shop', 'customer'), ())
    """
    names = tuple(name.strip() for name in user.split(","))
    return names if len(names) > 1 else ()


def composite_name(parts: Sequence[str], window: str = "") -> str:
    """Return the name of the column that several make.

    >>> composite_name(["shop", "customer"]), composite_name(["customer"], "month")
    ('shop_customer', 'customer_month')
    """
    return "_".join([*parts, window] if window else parts)


class CompositeFile:
    """A source with one more column: the identifier that several of its columns make.

    Args:
        inner: What has the columns.
        schema: Their types and formats, and which they are.

    Raises:
        DataError: One is missing.
    """

    def __init__(self, inner: Source, schema: Schema) -> None:
        self._inner, self._schema = inner, schema
        self.name, self.separator, self.notes = inner.name, inner.separator, inner.notes
        self.open_ended, self.declared = inner.open_ended, inner.declared
        self.column = composite_name(schema.user, schema.window)
        named = {name.lower(): name for name in inner.types}
        wanted = [*schema.user, schema.time] if schema.window else schema.user
        self._parts = [named.get(part.lower(), part) for part in wanted]
        for part in self._parts:
            if part not in inner.types and not inner.open_ended:
                raise DataError(
                    f"{shown(inner.name)} has no column {shown(part)!r}",
                    f"{', '.join(map(shown, wanted))} say together whose account a row is for",
                )

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """See `Source`."""
        return {**self._inner.types, self.column: pa.string()}

    @property
    def words(self) -> Collection[str]:
        """See `Source`."""
        return self._inner.words

    @property
    def not_null(self) -> Collection[str]:
        """See `Source`."""
        return self._inner.not_null

    @property
    def left_out(self) -> int:
        """See `Source`."""
        return self._inner.left_out

    @property
    def unreadable(self) -> int:
        """See `Source`."""
        return self._inner.unreadable

    def raw_types(self) -> dict[str, pa.DataType]:
        """See `Source`."""
        return self._inner.raw_types()

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        inside = [c for c in dict.fromkeys([*columns, *self._parts]) if c != self.column]
        for arrays in self._inner.batches(inside, types):
            made = dict(zip(inside, arrays, strict=True))
            if self.column in columns:
                made[self.column] = self._identifiers([made[p] for p in self._parts])
            yield [made[c] for c in columns]

    def _identifiers(self, arrays: list[pa.Array]) -> pa.Array:
        raw = self._inner.raw_types()
        kept = {name.lower(): name for name in self._schema.types}
        columns, texts = {}, []
        for k, (part, array) in enumerate(zip(self._parts, arrays, strict=True)):
            kind = tidy_type(raw[part], binary=True) if part in raw else pa.string()
            if kind is None:
                return pa.nulls(len(array), pa.string())
            columns[f"c{k}"] = tidy(array)
            name = kept.get(part.lower(), part)
            target = self._schema.types.get(name, "VARCHAR")
            value = expression(f"c{k}", duck_type(kind), target, self._schema.formats.get(name, ""))
            text = value if target == "VARCHAR" else to_text(f"({value})", target)
            if k == len(self._schema.user):
                begun = f"date_trunc('{self._schema.window}', ({value})::TIMESTAMP)"
                text = f"strftime({begun}, '%Y-%m-%d')"
            # One that is too long is nobody's: two could begin alike.
            escaped = f"replace(replace({text}, '\\', '\\\\'), ',', '\\,')"
            texts.append(f"CASE WHEN length({text}) BETWEEN 1 AND {MOST_TEXT} THEN {escaped} END")
        joined = " || ',' || ".join(texts)
        with scratch() as con:
            con.register("parts", pa.table(columns))
            found = con.sql(f"SELECT {joined} AS id FROM parts")
            return one_array(found.to_arrow_table().column(0)).cast(pa.string())
