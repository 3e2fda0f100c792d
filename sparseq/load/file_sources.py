"""Files and tables in memory as tidy Arrow arrays, in batches; file names are used as they are.

A file's frame is public: that the file can be opened, the names in its header or schema, and that
its end exists. Every error in the frame is a `DataError` that names the file or the column. The
contents within the frame never cause an error.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from sparseq.base.errors import DataError
from sparseq.base.file_formats import asked_format
from sparseq.base.texts import shown
from sparseq.load.source import NO_TYPES, Source
from sparseq.load.text_lines import (
    LONGEST_LINE,
    MARK,
    Lines,
    fields_of,
    fit,
    has_spelled,
    is_regular,
    restore,
    unify,
    unquote,
    unreadable,
    without_escapes,
)
from sparseq.load.text_streams import (
    UNREADABLE,
    ByteStream,
    Letters,
    ResumedStream,
    open_text,
    with_line_feeds,
)
from sparseq.load.tidy import tidy_type
from sparseq.load.title_rows import MOST, header_by_names, header_by_shape, titles_note
from sparseq.load.wrapped_source import WrappedSource

SEPARATORS = (",", "\t", ";", "|")
_ENCODING = "if it is Latin-1, use --csv encoding=latin-1; in Python csv={'encoding': 'latin-1'}"
_OPEN_QUOTES = (
    "{}: of its first lines {:,} have a quote that is not closed, and ends with the line; if "
    "values have several lines, --csv multiline reads them"
)
_SAID = re.compile(rb'"?sep=([ -~\t])"?\r?')
ROWS = 1 << 17
PART = 1 << 13  # rows that one of DuckDB's threads takes at once
_FIRST_PART = 1 << 16  # bytes among which the header is looked for
FIRST = 20_480
"""The number of rows of a text file from which its types are guessed."""
DAMAGE = (pa.ArrowException, OSError, EOFError, UnicodeError, duckdb.Error, sqlite3.Error)
"""Errors that readers raise for damaged files."""


def damage_error(
    name: str, error: BaseException, hint: str = "check that the file is complete"
) -> DataError:
    """Return the error for an unreadable file."""
    text = str(error).strip().splitlines()
    why = shown(text[0]) if text else type(error).__name__
    return DataError(f"{shown(name)} can't be read: {why}", hint)


class TextColumns:
    """Base class of sources of texts."""

    open_ended, separator, left_out, unreadable, short, torn = False, "", 0, 0, 0, 0
    words: Collection[str] = frozenset()
    not_null: Collection[str] = frozenset()
    declared: Mapping[str, str] = NO_TYPES
    notes: tuple[str, ...] = ()

    def raw_types(self) -> dict[str, pa.DataType]:
        """See `Source`: all columns are text."""
        return {}


@dataclass(frozen=True)
class TextForm:
    """The format of text files.

    Attributes:
        separator: The separator between values; "" if unknown.
        multiline: Values may have several lines.
        nulls: Values that mean NULL, in addition to the empty value.
        encoding: See `open_text`; None: it is guessed from the first part of the file.
        skip: The number of lines before the header.
        escape: The character before a quote, a separator or itself in a value; "": quotes are
            doubled.
        first: True if the files are the first of a table: then messages report oddities in their
            first parts.
        people: The columns that identify users, as files call them.
        is_new: True if a table is made of the files: then titles before a header are found by the
            shape of the first rows, if no name tells where the header is.
    """

    separator: str = ""
    multiline: bool = False
    nulls: tuple[str, ...] = ()
    encoding: str | None = ""
    skip: int = 0
    escape: str = ""
    first: bool = False
    people: tuple[str, ...] = ()
    is_new: bool = False

    def header_place(
        self, splits: Sequence[Sequence[Sequence[str]]], wanted: Collection[str]
    ) -> int:
        """Return the place of the header among the first rows, in each way to split them.

        Args:
            splits: The first rows, for each possible separator.
            wanted: The columns that the file should have.
        """
        for rows in splits:
            place = header_by_names(rows, self.people or wanted, wanted, self.skip)
            if place is not None:
                return place
        if self.skip or not self.is_new:
            return self.skip
        found = [(len(rows[place]), place) for rows in splits for place in [header_by_shape(rows)]]
        return max(found, default=(0, 0), key=lambda one: one[0])[1]


ANY_FORM = TextForm()
Item = TypeVar("Item")


def distinct(name: str, columns: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return unique column names in any case, and messages about the changes.

    Args:
        name: The name of the file, for messages.
        columns: The names in the file; a column without a name has "", which stays.

    >>> distinct("a.csv", ["day", "Day", ""])[0]
    ['day', 'Day_2', '']
    """
    columns = list(columns)
    taken = {c.lower() for c in columns}
    found: list[str] = []
    notes = []
    seen: set[str] = set()
    for column in columns:
        called, n = column, 2
        while column and called.lower() in (seen if n == 2 else taken | seen):
            called, n = f"{column}_{n}", n + 1
        if called != column:
            notes.append(
                f"{shown(name)}: another column {shown(column)!r} is called {shown(called)!r}"
            )
        seen.add(called.lower())
        found.append(called)
    if nameless := columns.count(""):
        some = "a column" if nameless == 1 else f"{nameless} columns"
        notes.append(f"{shown(name)}: {some} without a name: not read")
    return found, tuple(notes)


class TextFile(TextColumns):
    """Comma-separated values and similar formats: a header, and one line per row."""

    def __init__(self, path: Path, wanted: Iterable[str], form: TextForm) -> None:
        self.name, self._path = path.name, path
        self._multiline, self._nulls = form.multiline, ["", *form.nulls]
        self.letters = Letters.of(path, form.skip + 1) if form.first else Letters()
        self._encoding = self.letters.encoding if form.encoding is None else form.encoding
        self._skip, self._escape = 0, form.escape.encode()
        self.left_out, self.unreadable, self._said = 0, 0, ""
        tabs = asked_format(path)[0] == "tsv"
        among = [*form.separator, *"\t"[:tabs], *SEPARATORS]
        self._skip = form.header_place(self._first_rows(among), set(wanted))
        header, _ = self._open()
        self.separator = self._said or _separator(header, among, {w.lower() for w in wanted})
        if UNREADABLE in header:
            raise DataError(f"the header of {shown(self.name)} is not UTF-8", _ENCODING)
        if re.search(rb'(^|[%s])"' % self.separator.encode(), header) and header.count(b'"') % 2:
            raise DataError(
                f"the header of {shown(self.name)} has a quote that is not closed",
                "a header is one line: write it without line ends",
            )
        names = [f.decode().strip() for f in fields_of(header, self.separator.encode())]
        names, self.notes = distinct(self.name, names)
        if self._skip and self._skip != form.skip:
            self.notes += (titles_note(self.name, self._skip),)
        if self.letters.open_quotes and not form.multiline:
            self.notes += (_OPEN_QUOTES.format(shown(self.name), self.letters.open_quotes),)
        self._names = names
        self.types: dict[str, pa.DataType | None] = dict.fromkeys(filter(None, names), pa.string())

    def _first_rows(self, separators: Sequence[str]) -> list[list[list[str]]]:
        """Return the first lines, split at each separator; those without a character are left out.

        Only whole lines count, unless the file ends.
        """
        header, stream = self._open()
        part = stream.read(_FIRST_PART)
        whole = part if len(part) < _FIRST_PART else part[: part.rfind(b"\n") + 1]
        after = [line for line in unify(whole).split(b"\n") if line and not _SAID.fullmatch(line)]
        lines = [header, *after][: MOST + 3]
        return [
            [[cell.decode(errors="replace").strip() for cell in row] for row in rows]
            for one in ([self._said] if self._said else separators)
            for rows in [[fields_of(line, one.encode()) for line in lines]]
        ]

    def _open(self) -> tuple[bytes, ByteStream]:
        """Return the header line, and the stream of the rest."""
        stream, data = with_line_feeds(open_text(self._path, self._encoding)), b""
        before = self._skip
        while True:
            line, end, rest = data.removeprefix(MARK).lstrip(b"\r\n").partition(b"\n")
            said = _SAID.fullmatch(line) if end else None
            if said:  # a line for Excel, before the header
                data, self._said = rest, said[1].decode()
                continue
            if end and before:
                data, before = rest, before - 1
                continue
            if end:
                return unify(line).replace(b"\xfe", b""), ResumedStream(rest, stream)
            more = stream.read(1 << 16)
            if not more and line:
                return unify(line + b"\n").strip(b"\n"), stream
            if not more or len(data) > LONGEST_LINE:
                raise DataError(
                    f"{shown(self.name)} has no header",
                    ("its first line must have the columns' names"),
                )
            data += more

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        separator = self.separator.encode()
        self.left_out = self.unreadable = self.short = self.torn = 0
        lines = Lines(self._open()[1], self._multiline)
        positions = [self._names.index(c) for c in columns]
        for chunk in lines:
            chunk = unify(chunk, self._multiline)
            self.unreadable += unreadable(chunk)
            if chunk.strip(b"\n"):
                yield self._parse(chunk, separator, positions, lines.last_is_open)
            self.left_out += lines.too_long
            lines.too_long = 0

    def _parse(
        self, chunk: bytes, separator: bytes, columns: list[int], is_open: bool
    ) -> list[pa.Array]:
        count = len(self._names)
        if self._escape and self._escape in chunk:
            plain = without_escapes(chunk, separator, self._escape)
        else:
            with suppress(pa.ArrowInvalid):  # a line has more values or fewer
                if b'"' not in chunk:
                    return _values(chunk, separator, count, columns, self._nulls)
                if count > 1 and is_regular(chunk, separator):
                    return _values(chunk, separator, count, columns, self._nulls, quoted=True)
            plain = unquote(chunk, separator)
        chunk, odd, short = fit(plain, separator, count)
        if is_open and short:  # only the last line
            self.torn += 1
            return [pa.nulls(0, pa.string()) for _ in columns]
        self.left_out += odd
        self.short += short
        if not chunk.strip(b"\n"):
            return [pa.nulls(0, pa.string()) for _ in columns]
        return _values(chunk, separator, count, columns, self._nulls)


def _values(
    chunk: bytes,
    separator: bytes,
    count: int,
    columns: list[int],
    nulls: list[str],
    quoted: bool = False,
) -> list[pa.Array]:
    """Return some of the values of plain lines, or of regular lines with quotes."""
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
            quoted_strings_can_be_null=True,
            null_values=nulls,
        ),
    )
    arrays = [one_array(c) for c in table.columns]
    return [restore(a, separator).cast(pa.string()) for a in arrays] if spelled else arrays


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _separator(header: bytes, among: Sequence[str], wanted: set[str]) -> str:
    """Return the separator with which the wanted columns are found, or else most columns."""

    def rank(separator: str) -> tuple[bool, int]:
        fields = fields_of(header, separator.encode())
        names = [f.decode(errors="replace").strip().lower() for f in fields]
        return bool(wanted) and wanted <= set(names), len(names)

    return max(among, key=rank)  # the first of equal ranks


class RenamedSource(WrappedSource):
    """A source with renamed columns, and without some of its columns.

    Args:
        inner: The source of the columns.
        names: The new names by the original names, in any case.
        dropped: Original names, in lower case, of columns that are not read.
    """

    def __init__(self, inner: Source, names: Mapping[str, str], dropped: Collection[str]) -> None:
        there = {name.lower(): name for name in inner.types}
        said = {old.lower(): new for old, new in names.items()}
        own = there.keys() - said.keys()  # a file may have a column with the new name already
        self._names = {o: n for o, n in said.items() if o in there or n.lower() not in own}
        self._there = {new: there.get(old, old) for old, new in self._names.items()}
        both = [new for new in self._names.values() if new.lower() in own]
        super().__init__(inner)
        self._dropped = {*dropped, *map(str.lower, both)}
        self.name, self.separator = inner.name, inner.separator
        told = (
            f"{shown(self.name)}: of two columns {shown(n)!r} the renamed one is read" for n in both
        )
        self.notes = (*inner.notes, *told)
        self.open_ended = inner.open_ended
        self.declared: Mapping[str, str] = self._rename(inner.declared)

    def _rename(self, of: Mapping[str, Item]) -> dict[str, Item]:
        return {
            self._names.get(name.lower(), name): value
            for name, value in of.items()
            if name.lower() not in self._dropped
        }

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """See `Source`."""
        return self._rename(self._inner.types)

    @property
    def words(self) -> Collection[str]:
        """See `Source`."""
        return self._rename(dict.fromkeys(self._inner.words)).keys()

    @property
    def not_null(self) -> Collection[str]:
        """See `Source`."""
        return self._rename(dict.fromkeys(self._inner.not_null)).keys()

    def raw_types(self) -> dict[str, pa.DataType]:
        """See `Source`."""
        return self._rename(self._inner.raw_types())

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        there = {self._there.get(name, name): kind for name, kind in types.items()}
        return self._inner.batches([self._there.get(name, name) for name in columns], there)


class ArrowSource(TextColumns, ABC):
    """A source whose columns have Arrow types."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name, self._schema = name, schema
        self.types: dict[str, pa.DataType | None] = {}
        for column in schema:
            self.types.setdefault(column.name, tidy_type(column.type))
        self.not_null = frozenset(
            name for name in self.types if not schema.field(self._at(name)).nullable
        )
        twice = [n for n, k in Counter(schema.names).items() if k > 1]
        self.notes = tuple(
            f"{shown(name)}: there are several columns {shown(n)!r}; the first is read"
            for n in twice
        )

    def raw_types(self) -> dict[str, pa.DataType]:
        """Return the columns' types in the file."""
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
        """Return batches with the columns, with the file's values."""


class ParquetFile(ArrowSource):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as file:
            self._dictionary_columns = _dictionary_columns(file.metadata)
            super().__init__(path.name, file.schema_arrow)

    def _open(self, repeated: Sequence[str] = ()) -> pq.ParquetFile:
        return pq.ParquetFile(_opened(self._path), read_dictionary=list(repeated))

    def _batches(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        with self._open(self._dictionary_columns) as file:
            yield from file.iter_batches(ROWS, columns=list(dict.fromkeys(columns)))


def _dictionary_columns(metadata: pq.FileMetaData) -> list[str]:
    """Return the text columns that the file stores as indices into a dictionary."""
    texts = [
        k
        for k in range(metadata.num_columns)
        if metadata.schema.column(k).logical_type.type == "STRING"
        and metadata.schema.column(k).max_repetition_level == 0
    ]
    sizes = dict.fromkeys(texts, 0)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for k in texts:
            sizes[k] += group.column(k).total_uncompressed_size
    few = 2 * metadata.num_rows
    return [metadata.schema.column(k).path for k, size in sizes.items() if size < few]


class ArrowFile(ArrowSource):
    """A file in Arrow's file format, or in its stream format."""

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
    """Raise `ArrowInvalid` if an array's lengths and offsets don't fit; values are not checked."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check(array.storage)
    elif pa.types.is_dictionary(kind):
        _check(array.dictionary)
        codes = array.indices.cast(pa.int64())
        if pc.any(pc.greater_equal(codes, len(array.dictionary))).as_py():
            raise pa.ArrowInvalid("a code is outside of its dictionary")
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
    except UnicodeEncodeError:  # a name that is not UTF-8
        return pa.PythonFile(open(path, "rb"), "r")
