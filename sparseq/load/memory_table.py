"""Tables in memory as sources: of Arrow, Polars, pandas, or any exporter of an Arrow stream."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from sparseq.base.errors import DataError
from sparseq.engine.contribution_tables import as_arrow
from sparseq.load.databases import spell
from sparseq.load.file_sources import FIRST, ArrowSource
from sparseq.load.source import NO_TYPES, Source
from sparseq.load.tidy import list_of

_NAME = "the table"


class Memory(ArrowSource):
    """A table in memory.

    Args:
        table: The columns.
        texts: Columns whose types follow from their texts, as in text files.
        lists: Of these, columns with lists in JSON, with their types.
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
    """Batches in sequence, which can be read once."""

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
    """Return a frame of pandas; columns of Python objects become texts, value by value.

    Named indexes are columns; others are row numbers.
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
    """Tell whether a value is missing: None, NaN, NaT, pandas' NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
