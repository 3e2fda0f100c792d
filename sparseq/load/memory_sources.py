"""Tables in memory as sources: of Arrow, Polars, pandas, or whatever gives an Arrow stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from sparseq.base.errors import DataError
from sparseq.engine.contributions import as_arrow
from sparseq.load.databases import spelled
from sparseq.load.file_sources import FIRST, ArrowSource, Source

_NAME = "the table"


class Memory(ArrowSource):
    """A table in memory.

    Args:
        table: Its columns.
        texts: Those whose types are told by their texts, as in text files.
    """

    def __init__(self, table: pa.Table, texts: frozenset[str] = frozenset()) -> None:
        self._table, self._texts = table, texts
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
        return _of_lazy(rows)
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


def _of_lazy(frame: Any) -> Source:
    """Return a LazyFrame, computed a batch at a time."""
    schema = as_arrow(frame.collect_schema().to_frame(eager=True)).schema
    parts = (as_arrow(part) for part in frame.collect_batches(maintain_order=True))
    return Batches(schema, chain.from_iterable(part.to_batches() for part in parts))


def _of_pandas(frame: Any) -> Source:
    """Return a frame of pandas; columns of Python objects are read value by value, as texts.

    Indexes that have names are columns; others are row numbers.
    """
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    twice = [name for name, n in Counter(map(str, frame.columns)).items() if n > 1]
    if twice:
        raise DataError(f"the frame has several columns {twice[0]!r}", "give each its own name")
    arrays, texts = {}, set()
    for name in frame.columns:
        column = frame[name]
        if column.dtype == object:
            values = [None if _is_missing(v) else v for v in column]
            arrays[str(name)] = pa.array(map(spelled, values), pa.string(), size=len(values))
            if not any(isinstance(v, str) for v in values[:FIRST]):
                texts.add(str(name))
        else:
            arrays[str(name)] = pa.chunked_array(pa.array(column, from_pandas=True))
    return Memory(pa.table(arrays), frozenset(texts))


def _is_missing(value: Any) -> bool:
    """Tell whether a value is none: None, NaN, NaT, pandas' NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
