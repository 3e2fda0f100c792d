"""Results of statements: a table and a tag, sent as rows or as COPY data."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sparseq.pgwire import server_messages
from sparseq.pgwire.pg_values import encoders, fields
from sparseq.pgwire.wire_errors import PROTOCOL_VIOLATION, WireError

BLOCK = 1_000
"""Rows to write before waiting for a slow client."""


@dataclass(frozen=True)
class CopyFormat:
    """The form in which COPY writes rows."""

    format: str = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    forced: bool = False


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement.

    Attributes:
        tag: The command; for rows, their number is added.
        table: The rows; None: the statement has none.
        copying: True if the rows are sent in the form of COPY.
    """

    tag: str
    table: pa.Table | None = None
    copying: CopyFormat | None = None


def describe_rows(schema: pa.Schema | None, formats: Sequence[int]) -> bytes:
    """Return RowDescription, or NoData."""
    if schema is None:
        return server_messages.NO_DATA
    return server_messages.row_description(fields(schema), spread(formats, len(schema)))


def spread(formats: Sequence[int], columns: int) -> list[int]:
    """Return one format a column: text by default; a single format is for all columns.

    Raises:
        WireError: The number of formats is not 0, 1 or the number of columns.
    """
    if len(formats) not in (0, 1, columns):
        problem = f"{len(formats)} formats are given for {columns} columns"
        raise WireError(PROTOCOL_VIOLATION, problem)
    return list(formats) if len(formats) == columns else [*(formats or (0,))] * columns


def rows(table: pa.Table, formats: Sequence[int]) -> Iterator[bytes]:
    """Yield DataRows, a block at a time."""
    written = encoders(table.schema, spread(formats, table.num_columns))
    for start in range(0, table.num_rows, BLOCK):
        block = table.slice(start, BLOCK)
        columns = [
            [None if v is None else write(v) for v in column.to_pylist()]
            for write, column in zip(written, block.columns, strict=True)
        ]
        lines = zip(*columns, strict=True) if columns else [()] * block.num_rows
        yield b"".join(map(server_messages.data_row, lines))


def cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the types that were described before it existed.

    Numbers are rounded where whole numbers were described; only a value that is no number fails,
    and becomes NULL.
    """
    if table.schema.equals(schema) or len(schema) != table.num_columns:
        return table
    columns = [_cast_column(c, f.type) for c, f in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast_column(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if column.type.equals(type):
        return column
    try:
        if pa.types.is_integer(type) and pa.types.is_floating(column.type):
            column = pc.round(column)
        return column.cast(type, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([pa.nulls(len(column), type)])


def copy_out(table: pa.Table, how: CopyFormat) -> Iterator[bytes]:
    """Yield the messages of COPY … TO STDOUT, from CopyOutResponse to CopyDone."""
    binary = how.format == "binary"
    yield server_messages.copy_out(table.num_columns, int(binary))
    if binary:
        yield from _copied_binary(table)
    else:
        line = _csv_line if how.format == "csv" else _text_line
        if how.header:
            names: list[bytes | None] = [n.encode(errors="replace") for n in table.column_names]
            yield server_messages.copy_data(line(names, how))
        written = encoders(table.schema, [0] * table.num_columns)
        for start in range(0, table.num_rows, BLOCK):
            columns = [
                [None if v is None else write(v) for v in column.to_pylist()]
                for write, column in zip(written, table.slice(start, BLOCK).columns, strict=True)
            ]
            lines = (
                server_messages.copy_data(line(row, how)) for row in zip(*columns, strict=True)
            )
            yield b"".join(lines)
    yield server_messages.COPY_DONE


def _copied_binary(table: pa.Table) -> Iterator[bytes]:
    head = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
    for block in rows(table, [1]):
        yield b"".join(_copy_rows(block, head))
        head = b""
    yield server_messages.copy_data(head + struct.pack("!h", -1))


def _copy_rows(block: bytes, head: bytes) -> Iterator[bytes]:
    """Turn DataRows into CopyData: the same bytes after the length."""
    at = 0
    while at < len(block):
        (length,) = struct.unpack_from("!i", block, at + 1)
        yield server_messages.copy_data(head + block[at + 5 : at + 1 + length])
        head, at = b"", at + 1 + length


_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\b": b"\\b"}


def _text_line(values: Sequence[bytes | None], how: CopyFormat) -> bytes:
    cells = []
    for value in values:
        if value is None:
            cells.append(how.null.encode())
            continue
        for raw, escaped in _ESCAPES.items():
            value = value.replace(raw, escaped)
        if how.delimiter != "\t":
            value = value.replace(how.delimiter.encode(), b"\\" + how.delimiter.encode())
        cells.append(value)
    return how.delimiter.encode().join(cells) + b"\n"


def _csv_line(values: Sequence[bytes | None], how: CopyFormat) -> bytes:
    quote, null, delimiter = how.quote.encode(), how.null.encode(), how.delimiter.encode()
    cells = []
    for value in values:
        if value is None:
            cells.append(null)
            continue
        special = any(c in value for c in (quote, delimiter, b"\n", b"\r"))
        if special or value == null or how.forced or (len(values) == 1 and value == b"\\."):
            value = quote + value.replace(quote, quote * 2) + quote
        cells.append(value)
    return delimiter.join(cells) + b"\n"
