"""Rows in memory, column by column, and how to sort them by user and by time.

Every row is written once, to the end of its columns, so that rows take as much room as their values
have. Texts are numbers, and a dictionary beside them, as long as it is small. Only strings that a
row has come to it: what else a file's own dictionary may hold is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.compiled import compiled, worthwhile
from sparseq.engine.reduce import Index

AT_ONCE = 122_880  # rows of a batch that is handed on: as many as DuckDB stores together
DICTIONARY_LIMIT = 10_000
"""A column with more distinct texts than this has them as they are."""
_LARGE = dict.fromkeys((pa.string(), pa.large_string()), pa.large_string())
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
            yield [decoded(column.slice(start, AT_ONCE)) for column in columns]

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
        new = set(_used(_words(array)).to_pylist()) - self.places.keys()
        return len(self.places) + len(new - {None}) <= DICTIONARY_LIMIT

    def add(self, array: pa.Array) -> None:
        words = _words(array)
        for text in _used(words).drop_null().to_pylist():
            self.places.setdefault(text, len(self.places))
        places = [self.places.get(text) for text in words.dictionary.to_pylist()]
        self._codes.add(pa.array(places, pa.int32()).take(words.indices))

    def array(self) -> pa.Array:
        texts = pa.array(list(self.places), pa.string())
        return pa.DictionaryArray.from_arrays(self._codes.array(), texts)


class _Chunks:
    """Any column, as it came."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = _LARGE.get(kind, kind)  # texts together may be more than 2 GiB
        self._chunks: list[pa.Array] = []
        self.nbytes = self.valid = 0

    def add(self, array: pa.Array) -> None:
        self._chunks.append(decoded(array).cast(self._kind))
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


def _used(array: pa.DictionaryArray) -> pa.Array:
    return array.dictionary.take(array.indices.unique())


def decoded(array: pa.Array) -> pa.Array:
    """Return values without a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


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
        return [_ascending(users)]
    moments = _places_of(time)
    if bool(np.all(moments[1:] >= moments[:-1])):
        by_user = _ascending(users)
    else:
        by_time = _ascending(moments)
        by_user = by_time[_ascending(users[by_time])]
    return [by_user, by_user[_ascending(moments[by_user])]]


def in_order(columns: pa.RecordBatch, order: Order) -> Iterator[pa.RecordBatch]:
    """Yield the rows in an order, some at a time."""
    for start in range(0, len(order), AT_ONCE):
        yield columns.take(pa.array(order[start : start + AT_ONCE]))


def _ascending(keys: NDArray[np.int32]) -> Order:
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
