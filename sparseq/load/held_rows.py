"""Rows in memory, by column, and their orders by user and by time.

Every row is written once, at the end of its columns, so rows take only the space of their values.
Texts are numbers with a dictionary, as long as it is small. Only strings that a row has are in it:
other entries of a file's own dictionary are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.engine.reduction import Index

AT_ONCE = 122_880  # rows of one output batch: DuckDB stores this number together
DICTIONARY_LIMIT = 10_000
"""A column with more distinct texts than this stores them without a dictionary."""
_LARGE = dict.fromkeys((pa.string(), pa.large_string()), pa.large_string())
_LARGE_LISTS = {pa.list_(pa.string()): pa.large_list(pa.large_string())}
_LEAST = 1 << 16  # the initial capacity of a column, in rows
Order = NDArray[np.uint32] | NDArray[np.int64]


class HeldRows:
    """Rows in their order of arrival.

    Args:
        kinds: The type of each column.
        user: The column of users' identifiers; rows without one have no place in an order.

    Attributes:
        rows: The number of rows.
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
        """The number of bytes in use."""
        return sum(column.nbytes for column in self._columns.values())

    def valid(self, name: str) -> int:
        """Return the number of values of a column that are not NULL."""
        return self._columns[name].valid

    def batches(self) -> Iterator[list[pa.Array]]:
        """Yield the columns in blocks of rows, and free each block."""
        columns = [self.column(name) for name in list(self._columns)]
        for start in range(0, self.rows, AT_ONCE):
            yield [decode(column.slice(start, AT_ONCE)) for column in columns]

    def users(self) -> tuple[pa.Array, Index]:
        """Return the distinct identifiers by first appearance, and the index of each row's; -1:
        none.
        """
        found = self.column(self._user).dictionary_encode()
        return found.dictionary, pc.fill_null(found.indices, -1).to_numpy()

    def column(self, name: str) -> pa.Array:
        """Return a column, and free it."""
        return self._columns.pop(name).array()


class _Column(Protocol):
    @property
    def nbytes(self) -> int: ...

    @property
    def valid(self) -> int: ...

    def add(self, array: pa.Array) -> None: ...

    def array(self) -> pa.Array: ...


class _Numbers:
    """A column whose values have a fixed width."""

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
        if end > len(self._values):  # large arrays grow in place; the new part is zero
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
    """A column with few distinct texts."""

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
        """Tell whether the distinct texts would still be few with these."""
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
    """A column of any type, unchanged."""

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
    """Return a new column of a type."""
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
