"""Sources to read: files, folders, patterns, databases, tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparseq.base.arguments import check_path
from sparseq.base.errors import DataError, SparseqError
from sparseq.base.file_formats import SUFFIXES, asked_format, suffix_of
from sparseq.base.texts import shown
from sparseq.load.databases import DuckTable, PostgresTable, SqliteTable, shown_address
from sparseq.load.file_patterns import DELTA, Finds, Found
from sparseq.load.file_sources import (
    ANY_FORM,
    DAMAGE,
    ArrowFile,
    ParquetFile,
    TextFile,
    TextForm,
    damage_error,
)
from sparseq.load.json_lines import JsonFile
from sparseq.load.memory_table import source_in_memory
from sparseq.load.optional_modules import import_optional
from sparseq.load.source import NO_TYPES, Source
from sparseq.load.workbook import SheetFile
from sparseq.load.wrapped_source import WrappedSource
from sparseq.question.catalog import KeyLink

SERVERS = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class FileKind:
    """One kind of file that can be read.

    Attributes:
        opens: Makes a source of a file; for a file with several tables, of the named one.
        begins: The first bytes of such files, and their position; none for text.
        suffixes: Endings of names, in addition to `sparseq.base.file_formats.SUFFIXES`.
        tables: True if the file may have several tables.
    """

    opens: Callable[..., Source]
    begins: tuple[int, bytes] | None = None
    suffixes: tuple[str, ...] = ()
    tables: bool = False


KINDS: Mapping[str, FileKind] = {
    "text": FileKind(TextFile),
    "json": FileKind(JsonFile),
    "parquet": FileKind(ParquetFile, (0, b"PAR1")),
    "arrow": FileKind(ArrowFile, (0, b"ARROW1")),
    "sheets": FileKind(
        SheetFile, (0, b"PK\x03\x04"), (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), tables=True
    ),
    "sqlite": FileKind(
        SqliteTable, (0, b"SQLite format 3\0"), (".sqlite", ".sqlite3", ".db"), tables=True
    ),
    "duckdb": FileKind(DuckTable, (8, b"DUCK"), (".duckdb",), tables=True),
}
_TEXTS = {"csv": "text", "tsv": "text", "jsonl": "json"}
_READ = {suffix: name for name, kind in KINDS.items() for suffix in kind.suffixes}
_ENDS = (
    *(".parquet", ".csv", ".tsv", ".json", ".jsonl (also .gz, .zst, .bz2)", ".arrow"),
    *(kind.suffixes[0] for kind in KINDS.values() if kind.suffixes),
)
_CONTENTS = (
    *((*kind.begins, name) for name, kind in KINDS.items() if kind.begins),
    (0, b"\x1f\x8b", ".gz"),
    (0, b"(\xb5/\xfd", ".zst"),
    (0, b"BZh", ".bz2"),
)
"""First bytes of files that are not text, each with its format or compression."""


def readable_format(path: Path) -> str:
    """Return the format of a file by its name if it can be read; else "".

    Example:
        >>> [readable_format(Path(name)) for name in ("a.csv.gz", "a.xlsx", "a.md")]
        ['csv', 'sheets', '']
    """
    suffix = suffix_of(path)[0]
    return SUFFIXES.get(suffix) or _READ.get(suffix, "")


@dataclass
class SourceList:
    """Sources, and messages about them.

    Attributes:
        sources: One source per file.
        files: The files as they were found; None for a source that is no file.
        notes: Messages about files that were passed over: for the curator.
    """

    sources: list[Source]
    files: list[Found | None]
    notes: list[str]


def open_sources(source: Any, wanted: Iterable[str] = (), form: TextForm = ANY_FORM) -> SourceList:
    """Return the sources of any input of rows.

    Args:
        source: One or several places (a file, a folder, a pattern, `FILE#TABLE`, `postgresql://…`,
            `delta:FOLDER`), or a table in memory.
        wanted: The columns that a file should have.
        form: The format of the table's text files.

    Raises:
        DataError: A file is missing, of an unknown kind, or has no header or schema.
    """
    rows = isinstance(source, list) and any(isinstance(row, Mapping) for row in source)
    if rows or not isinstance(source, (str, Path, list, tuple)):
        try:
            table = source_in_memory(_of_rows(source) if rows else source)
            return SourceList([table], [None], list(table.notes))
        except DAMAGE as error:
            raise damage_error("the table", error) from None
    finds = Finds(readable_format)
    sources: list[Source] = []
    files: list[Found | None] = []
    for place in [source] if isinstance(source, (str, Path)) else source:
        chosen = _chosen(place, form, wanted)
        if chosen is not None:
            sources.append(chosen[0])
            files.append(chosen[1])
            continue
        before = len(finds.files)
        finds.add(Path(place))
        for found in finds.files[before:]:
            sources.append(_partition(found, wanted, form))
            files.append(found)
    if not sources:
        raise DataError("no file was given")
    notes = [*finds.notes, *(note for s in sources for note in s.notes)]
    return SourceList(sources, files, notes)


def _of_rows(rows: Any) -> pa.Table:
    """Return rows that are mappings from names to values as a table; missing values are NULL."""
    try:
        return pa.Table.from_struct_array(pa.array(rows))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"the rows can't be read as a table: {str(error).splitlines()[0]}",
            "give rows that are all mappings, and only values of one type in a column",
        ) from None


def _chosen(
    place: str | Path, form: TextForm, wanted: Iterable[str] = ()
) -> tuple[Source, Found | None] | None:
    """Return the table that a place names, on a server or in a file, with the file."""
    text = str(place)
    check_path("the file", text)
    if text.startswith(SERVERS):
        try:
            return PostgresTable(text), None
        except DAMAGE as error:
            raise damage_error(
                shown_address(text), error, "check address, password and table"
            ) from None
    if text.startswith(DELTA) or Path(text, "_delta_log").is_dir():
        return _delta(text.removeprefix(DELTA)), None
    file, mark, table = text.partition("#")
    if not mark or Path(text).exists() or not Path(file).is_file():
        return None
    path = Path(file)
    kind = kind_of(path)
    if not KINDS[kind].tables:
        raise DataError(f"{shown(path.name)} has no tables to choose from", f"say {shown(file)}")
    more = (form, wanted) if kind == "sheets" else ()
    return _read(path.name, lambda: KINDS[kind].opens(path, table, *more)), Found(path, part=table)


def keys_elsewhere(place: str) -> tuple[set[str], list[KeyLink]]:
    """Return the columns and foreign keys of a database's table; none for other places."""
    try:
        chosen = _chosen(place, ANY_FORM)
        source = chosen[0] if chosen else None
        if isinstance(source, SqliteTable | DuckTable | PostgresTable):
            return set(source.types), source.foreign_keys()
    except (SparseqError, *DAMAGE):  # the next read reports it
        pass
    return set(), []


def _delta(folder: str) -> Source:
    """Return the current state of a Delta table, which may not include all files in its folder."""
    table = import_optional("deltalake", "lake", "a Delta table").DeltaTable
    try:
        return source_in_memory(table(folder).to_pyarrow_dataset())
    except Exception as error:
        raise DataError(f"{shown(folder)} can't be read as a Delta table: {error}") from None


def _partition(found: Found, wanted: Iterable[str], form: TextForm) -> Source:
    inner = source_of(found.path, wanted, form)
    own = set() if inner.open_ended else {name.lower() for name in inner.types}
    values = {name: text for name, text in found.values.items() if name.lower() not in own}
    return PartitionFile(inner, values) if values else inner


def source_of(path: Path, wanted: Iterable[str] = (), form: TextForm = ANY_FORM) -> Source:
    """Return a file as a source.

    Args:
        path: The path of the file.
        wanted: The columns that the file should have.
        form: The format of the table's text files.

    Raises:
        DataError: The file is missing, of an unknown kind, or has no header or schema.
    """
    if not path.is_file():
        raise DataError(f"there is no file {shown(path)!r}")
    name = kind_of(path)
    kind = KINDS[name]
    more = {"text": (wanted, form), "sheets": ("", form, wanted)}.get(name, ())
    return _read(path.name, lambda: kind.opens(path, *more))


def _read(name: str, open_it: Callable[[], Source]) -> Source:
    try:
        return open_it()
    except DAMAGE as error:
        raise damage_error(name, error) from None


def kind_of(path: Path) -> str:
    """Return the kind of file for a name; raise `DataError` for an unknown one.

    If the contents begin like those of another kind, the name is wrong.
    """
    named, packed = asked_format(path)
    named = named or readable_format(path)
    kind = _TEXTS.get(named, named)
    if not kind or (packed and kind not in ("text", "json")):
        raise DataError(
            f"{shown(path.name)}: this kind of file is not known",
            f"use a name that ends in {', '.join(_ENDS[:-1])} or {_ENDS[-1]}",
        )
    inside = _contents(path) if kind in ("text", "json", "sqlite") and not packed else ""
    if inside == "duckdb" and kind == "sqlite":
        return inside
    if inside and inside != kind:
        raise DataError(
            f"{shown(path.name)} has another format than its name says: it holds {inside}",
            "rename it",
        )
    return kind


def _contents(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            head = file.read(16)
    except OSError:  # the next read reports it
        return ""
    return next((kind for at, mark, kind in _CONTENTS if head[at:].startswith(mark)), "")


class PartitionFile(WrappedSource):
    """A file with additional columns from the names of its folders: the same value in every row.

    A column of the file itself never gets its value from a folder's name.
    """

    def __init__(self, inner: Source, values: Mapping[str, str | None]) -> None:
        super().__init__(inner)
        self._values = values
        self.name, self.separator, self.notes = inner.name, inner.separator, inner.notes
        self.open_ended, self.declared = inner.open_ended, inner.declared
        self.letters = inner.letters if isinstance(inner, TextFile) else None

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """See `Source`."""
        return {**self._inner.types, **dict.fromkeys(self._values, pa.string())}

    @property
    def words(self) -> Collection[str]:
        """See `Source`."""
        return [name for name in self._inner.words if name not in self._values]

    @property
    def not_null(self) -> Collection[str]:
        """See `Source`."""
        return [name for name in self._inner.not_null if name not in self._values]

    def raw_types(self) -> dict[str, pa.DataType]:
        """See `Source`."""
        return {n: t for n, t in self._inner.raw_types().items() if n not in self._values}

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        inside = [c for c in columns if c not in self._values]
        if not inside:  # a column that gives the number of rows
            inside = [next(iter(self._inner.types), "")]
        for arrays in self._inner.batches(inside, types):
            made = dict(zip(inside, arrays, strict=True))
            rows = len(arrays[0])
            yield [
                pa.repeat(pa.scalar(self._values[c], pa.string()), rows)
                if c in self._values
                else made[c]
                for c in columns
            ]
