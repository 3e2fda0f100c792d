"""Files and tables in memory as tidy Arrow arrays, in batches. Files are opened as they are.

A file's frame is public: that it can be opened, what its header or schema names, that its end is
there. Whatever is wrong with it is a `DataError` that names the file or the column. What is within
the frame is never an error.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from sparseq.engine._duckdb.connection import scratch
from sparseq.engine.files.ahead import mapped
from sparseq.engine.files.lines import (
    LONGEST_LINE,
    MARK,
    ByteStream,
    Lines,
    fields_of,
    fitted,
    has_spelled,
    is_regular,
    restored,
    unified,
    unquoted,
)
from sparseq.engine.files.objects import read
from sparseq.engine.files.tidy import tidy_type
from sparseq.errors import DataError
from sparseq.escape import shown
from sparseq.formats import format_of

SEPARATORS = (",", "\t", ";", "|")
ROWS = 1 << 17
PART = 1 << 13  # rows that one of DuckDB's threads takes at once
FIRST = 20_480
"""So many rows of a text file are looked at to guess its types."""
_KINDS = {"parquet": "parquet", "csv": "text", "tsv": "text", "jsonl": "json", "arrow": "arrow"}
NO_TYPES: Mapping[str, str] = {}
DAMAGE = (pa.ArrowException, OSError, EOFError, UnicodeError, duckdb.Error)
"""What damaged files raise."""


class Source(Protocol):
    """Rows to read.

    Attributes:
        name: Of the file, to be shown.
        types: Each column's tidy type, None for one that nothing can be made of; all text for
            text files. For JSON Lines: the keys that the first lines have.
        open_ended: A column may be missing from `types` and still be there.
        left_out: How many lines were left out so far, because they are too long or odd.
        separator: Of the file's values, if it is text.
    """

    name: str
    open_ended: bool
    left_out: int
    separator: str

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """See above."""

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """Return the columns of all rows, as they are in the file; text is tidy.

        Args:
            columns: Which, in what order.
            types: What they become, if that is known: where it is text, a number has one spelling.
        """


def source_of(
    path: Path, wanted: Iterable[str] = (), separator: str = "", multiline: bool = False
) -> Source:
    """Return a file as a source.

    Args:
        path: Of the file.
        wanted: The columns that it should have.
        separator: That the table's text files have; "" if nothing is known.
        multiline: Values may have several lines.

    Raises:
        DataError: There is no such file, or it is of no known kind, or has no header or schema.
    """
    if not path.is_file():
        raise DataError(f"there is no file {shown(path)!r}")
    kind = kind_of(path)
    try:
        if kind == "text":
            return TextFile(path, wanted, separator, multiline)
        if kind == "json":
            return JsonFile(path)
        return ParquetFile(path) if kind == "parquet" else ArrowFile(path)
    except DAMAGE as error:
        raise damaged(path.name, error) from None


def damaged(name: str, error: BaseException) -> DataError:
    """Return that a file can't be read."""
    text = str(error).strip().splitlines()
    why = shown(text[0]) if text else type(error).__name__
    return DataError(f"{shown(name)} can't be read: {why}", "check that the file is complete")


def kind_of(path: Path) -> str:
    """Return what kind of file has such a name; raises `DataError` for none that is known."""
    named, packed = format_of(path)
    kind = _KINDS.get(named, "")
    if kind and (not packed or kind in ("text", "json")):
        return kind
    raise DataError(
        f"{shown(path.name)}: this kind of file is not known",
        "names end in .parquet, .csv, .tsv, .jsonl (also .gz, .zst) or .arrow",
    )


def open_text(path: Path) -> ByteStream:
    """Open a text file, unpacked if need be, by its name as it is."""
    file = open(path, "rb")  # noqa: SIM115 - closed with the stream
    packed = format_of(path)[1]
    if not packed:
        return file
    stream: ByteStream = pa.CompressedInputStream(pa.PythonFile(file, "r"), packed)
    return stream


class _ResumedStream:
    """A stream, some of which was read already."""

    def __init__(self, data: bytes, stream: ByteStream) -> None:
        self._data, self._stream = data, stream

    def read(self, size: int, /) -> bytes:
        data, self._data = self._data, b""
        return data or self._stream.read(size)


class TextFile:
    """Comma-separated values and the like: a header, and a line a row."""

    open_ended = False

    def __init__(self, path: Path, wanted: Iterable[str], separator: str, multiline: bool) -> None:
        self.name, self._path, self._multiline = path.name, path, multiline
        self.left_out = 0
        header, _ = self._open()
        usual = ("\t", *SEPARATORS) if ".tsv" in path.name.lower() else SEPARATORS
        self.separator = _separator(header, [*separator, *usual], {w.lower() for w in wanted})
        names = [f.decode().strip() for f in fields_of(header, self.separator.encode())]
        self._names = names
        self.types: dict[str, pa.DataType | None] = dict.fromkeys(filter(None, names), pa.string())

    def _open(self) -> tuple[bytes, ByteStream]:
        """Return the header line, and a stream of what comes after it."""
        stream, data = open_text(self._path), b""
        while True:
            line, end, rest = data.removeprefix(MARK).lstrip(b"\r\n").partition(b"\n")
            if end:
                return unified(line).replace(b"\xfe", b""), _ResumedStream(rest, stream)
            more = stream.read(1 << 16)
            if not more and line:
                return unified(line + b"\n").strip(b"\n"), stream
            if not more or len(data) > LONGEST_LINE:
                raise DataError(f"{shown(self.name)} has no header", "its first line names columns")
            data += more

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        separator, before = self.separator.encode(), self.left_out
        lines = Lines(self._open()[1], self._multiline)
        positions = [self._names.index(c) for c in columns]
        for chunk in lines:
            chunk = unified(chunk, self._multiline)
            if chunk.strip(b"\n"):
                yield self._parsed(chunk, separator, positions)
            self.left_out += lines.too_long
            lines.too_long = 0
        self.left_out = max(self.left_out, before)

    def _parsed(self, chunk: bytes, separator: bytes, columns: list[int]) -> list[pa.Array]:
        count = len(self._names)
        with suppress(pa.ArrowInvalid):  # a line has more values or fewer
            if b'"' not in chunk:
                return _values(chunk, separator, count, columns)
            if count > 1 and is_regular(chunk, separator):
                return _values(chunk, separator, count, columns, quoted=True)
        chunk, odd = fitted(unquoted(chunk, separator), separator, count)
        self.left_out += odd
        if not chunk.strip(b"\n"):
            return [pa.nulls(0, pa.string()) for _ in columns]
        return _values(chunk, separator, count, columns)


def _values(
    chunk: bytes, separator: bytes, count: int, columns: list[int], quoted: bool = False
) -> list[pa.Array]:
    """Return some of the values of lines that are plain, or regular ones with quotes."""
    spelled = has_spelled(chunk)
    names = [str(k) for k in range(count)]
    table = pyarrow.csv.read_csv(
        pa.BufferReader(chunk),
        read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=len(chunk) + 1),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=separator.decode(),
            quote_char='"' if quoted else False,
            double_quote=quoted,
            escape_char=False,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary() if spelled else pa.string()),
            include_columns=[names[k] for k in columns],
            check_utf8=False,
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    arrays = [one_array(c) for c in table.columns]
    return [restored(a, separator).cast(pa.string()) for a in arrays] if spelled else arrays


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _separator(header: bytes, among: Sequence[str], wanted: set[str]) -> str:
    """Return what separates: what the wanted columns are found with, or most columns."""

    def rank(separator: str) -> tuple[bool, int]:
        names = [f.decode().strip().lower() for f in fields_of(header, separator.encode())]
        return bool(wanted) and wanted <= set(names), len(names)

    return max(among, key=rank)  # the first of equals


class JsonFile:
    """JSON Lines: an object a line. What is no object is a row without values."""

    open_ended, separator = True, ""

    def __init__(self, path: Path) -> None:
        self.name, self._path, self.left_out = path.name, path, 0
        open_text(path).read(1)

    @cached_property
    def types(self) -> dict[str, pa.DataType | None]:
        """The keys of the first lines, in their order; None for lists and objects."""
        return {k: None if seen <= {list, dict} else pa.string() for k, seen in self.seen.items()}

    @cached_property
    def seen(self) -> dict[str, set[type]]:
        """What the keys of the first lines have as values, but for nulls."""
        seen: dict[str, set[type]] = {}
        decode = json.JSONDecoder().decode
        for line in next(self._chunks(), b"").split(b"\n", FIRST)[:FIRST]:
            try:
                values = decode(line.decode())
            except (ValueError, RecursionError):
                continue
            for key, value in values.items() if isinstance(values, dict) else ():
                kinds = seen.setdefault(key, set())
                if value is not None:
                    kinds.add(type(value))
        return {key: kinds or {str} for key, kinds in seen.items() if key}

    def _chunks(self) -> Iterator[bytes]:
        lines = Lines(open_text(self._path))
        for chunk in lines:
            yield unified(chunk).replace(b"\xfe", b"\r")
            self.left_out += lines.too_long
            lines.too_long = 0

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        self.left_out = 0
        sql, paths = _extracted(columns, types)
        with scratch() as con:
            alone = Lock()

            def one_by_one(lines: pa.Array) -> list[pa.Array]:
                parts = pa.table({"line": lines}).to_batches(max_chunksize=PART)
                with alone:
                    con.register("lines", pa.Table.from_batches(parts, _LINES))
                    table = con.sql(sql, params=paths).to_arrow_table()
                return [one_array(c) for c in table.columns]

            yield from mapped(lambda c: read(c, columns, types, one_by_one), self._chunks())


_LINES = pa.schema({"line": pa.string()})


def _extracted(
    columns: Sequence[str], types: Mapping[str, str]
) -> tuple[str, dict[str, list[str]]]:
    """Return SQL for some values of the objects that `lines` are, and its parameters."""
    texts = [c for c in columns if types.get(c) == "VARCHAR"]
    values = [
        _spelled(f"found[{k}]", f"kinds[{texts.index(c) + 1}]") if c in texts else f"found[{k}]"
        for k, c in enumerate(columns, 1)
    ]
    kinds = ", json_type(object, $texts) AS kinds" if texts else ""
    paths = {"paths": [_pointer(c) for c in columns]}
    paths |= {"texts": [_pointer(c) for c in texts]} if texts else {}
    return (
        f"SELECT {', '.join(values)} FROM "
        f"(SELECT json_extract_string(object, $paths) AS found{kinds} FROM "
        "(SELECT CASE WHEN json_valid(line) THEN line END AS object FROM lines))",
        paths,
    )


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _spelled(text: str, kind: str) -> str:
    """Return SQL for a value of JSON as text: whole numbers have no point, however written."""
    number = f"TRY_CAST({text} AS DOUBLE)"
    return (
        f"CASE WHEN {kind} = 'DOUBLE' AND abs({number}) < 1e18 AND {number} = trunc({number}) "
        f"THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) ELSE {text} END"
    )


class _ArrowSource(ABC):
    """A source whose columns have Arrow types."""

    open_ended, separator, left_out = False, "", 0

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name, self._schema = name, schema
        self.types: dict[str, pa.DataType | None] = {}
        for column in schema:
            self.types.setdefault(column.name, tidy_type(column.type))

    def raw_types(self) -> dict[str, pa.DataType]:
        """Return the columns' types as they are in the file."""
        return {name: self._schema.field(self._at(name)).type for name in self.types}

    def _at(self, name: str) -> int:
        return int(self._schema.get_all_field_indices(name)[0])

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        for batch in self._batches(columns):
            for start in range(0, batch.num_rows, ROWS):
                some = batch.slice(start, ROWS)
                yield [some.column(some.schema.get_all_field_indices(c)[0]) for c in columns]

    @abstractmethod
    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        """Return batches that have the columns, as they are in the file."""


class ParquetFile(_ArrowSource):
    """Parquet."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(_opened(path))
        super().__init__(path.name, self._file.schema_arrow)

    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        found: Iterable[pa.RecordBatch] = self._file.iter_batches(
            ROWS, columns=list(dict.fromkeys(columns))
        )
        return found


class ArrowFile(_ArrowSource):
    """Arrow's file format, or its stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(path.name, self._open().schema)

    def _open(self) -> Any:
        try:
            return pa.ipc.open_file(_opened(self._path))
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(_opened(self._path))

    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        reader = self._open()
        many = getattr(reader, "num_record_batches", None)
        batches = reader if many is None else map(reader.get_batch, range(many))
        for batch in batches:
            for column in batch.columns:
                _check(column)
            yield batch


def _check(array: pa.Array) -> None:
    """Raise `ArrowInvalid` if an array's lengths and offsets don't fit; its values may be any."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check(array.storage)
    elif pa.types.is_dictionary(kind):
        _check(array.dictionary)
        codes = array.indices.cast(pa.int64())
        if pc.any(pc.greater_equal(codes, len(array.dictionary))).as_py():
            raise pa.ArrowInvalid("a code is beyond its dictionary")
    elif kind in _AS_BYTES:
        array.view(_AS_BYTES[kind]).validate(full=True)
    else:
        array.validate()


_AS_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
    pa.binary(): pa.binary(),
    pa.large_binary(): pa.large_binary(),
    pa.binary_view(): pa.binary_view(),
}


def _opened(path: Path) -> Any:
    try:
        return pa.OSFile(str(path), "r")
    except UnicodeEncodeError:  # a name that is no UTF-8
        return pa.PythonFile(open(path, "rb"), "r")


class Memory(_ArrowSource):
    """A table in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        super().__init__("the table", table.schema)

    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        positions = [self._at(c) for c in columns]
        batches: list[pa.RecordBatch] = self._table.select(positions).to_batches()
        return batches
