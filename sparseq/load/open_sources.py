"""Sources that are to be read: files, folders, patterns, databases, tables in memory.

Names, folders and patterns of files; and what folders' names say.

    visits.csv          that file, whatever signs are in its name
    exports/            all files of one kind in it, and in the folders in it
    exports/2024-*.csv  every file that fits: `*`, `?`, `[…]`, and `**` for any folders
    day=2024-01-05/     a folder of a partition: its files have a column `day` with that value

Hidden files and those that begin with `_` are passed over, and so are files that are still being
written (`*.tmp`, `*.part`) and other files that lie there; the curator is told of the latter. A
file that two names lead to is read once. All of it is decided by names.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from sparseq.base.arguments import check_path
from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.base.whole_files import asked_format, format_of
from sparseq.load.databases import (
    DuckTable,
    PostgresTable,
    SheetFile,
    SqliteTable,
    needed,
    shown_address,
)
from sparseq.load.file_sources import (
    ANY_FORM,
    DAMAGE,
    NO_TYPES,
    ArrowFile,
    ParquetFile,
    Source,
    TextFile,
    TextForm,
    damaged,
)
from sparseq.load.json_lines import JsonFile
from sparseq.load.memory_table import source_in_memory

# -- names, folders and patterns of files; and what folders' names say -----------------------------

UNFINISHED = (".tmp", ".part", ".partial", ".swp", ".crdownload", "~")
"""How the names of files end that are still being written."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
DELTA = "delta:"
"""What the address of a Delta table may begin with."""
PARQUET = "parquet:"
"""What the address of Parquet files may begin with."""
_PARTITION = re.compile(r"([^\W\d][\w .-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """A file to read.

    Attributes:
        path: Where it is.
        values: What the names of its folders say: column to text, None for no value.
        part: Which table or sheet of it; "" if nothing was said.
    """

    path: Path
    values: Mapping[str, str | None] = field(default_factory=dict)
    part: str = ""


@dataclass
class Finds:
    """Files to read, in the order in which they were named, those of a folder by their names."""

    files: list[Found] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was passed over, in words."""
    _names: dict[str, Path] = field(default_factory=dict)

    def add(self, place: Path) -> None:
        """Find the files that are meant.

        Raises:
            DataError: There is none, or a folder has several kinds.
        """
        if not os.path.lexists(place):
            place = Path(str(place).removeprefix(PARQUET))
        if place.is_file():
            self._take(place)
        elif place.is_dir():
            self._take_folder(place)
        elif os.path.lexists(place):
            raise DataError(
                f"{shown(place)} is no file", "it is a link that leads nowhere, or a device"
            )
        else:
            self._take_pattern(place)

    def _take(self, path: Path) -> None:
        if self._names.setdefault(os.path.realpath(path), path) != path:
            self.notes.append(f"{shown(path.name)} is another name of a file that is there already")
        else:
            self.files.append(Found(path, partition(path)))

    def _take_folder(self, folder: Path) -> None:
        kinds: Counter[str] = Counter()
        passed: list[str] = []
        chosen: list[Path] = []
        for path in _within(folder, frozenset()):
            kind = format_of(path)[0]
            if kind:
                kinds[kind] += 1
                chosen.append(path)
            else:
                passed.append(shown(path.name))
        if len(kinds) > 1:
            listed = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
            raise DataError(
                f"the folder {shown(folder)} has files of several kinds: {listed}",
                f"say which, for example '{shown(folder)}/*{chosen[0].suffix}'",
            )
        if not chosen:
            raise DataError(
                f"the folder {shown(folder)} has no file that can be read",
                "names end in .parquet, .csv, .jsonl, .json, .arrow or .xlsx",
            )
        if passed:
            some = ", ".join(passed[:3]) + ", …" * (len(passed) > 3)
            self.notes.append(
                f"{shown(folder)}: {len(passed):,} other files were passed over: {some}"
            )
        for path in chosen:
            self._take(path)

    def _take_pattern(self, place: Path) -> None:
        paths = [Path(p) for p in sorted(glob.glob(str(place), recursive=True))]
        files = [p for p in paths if p.is_file()]
        if not files and not any(p.is_dir() for p in paths):
            what = "no file fits" if glob.has_magic(str(place)) else "there is no file"
            raise DataError(f"{what} {shown(place)!r}", "check the name, and where you are")
        for path in files:
            self._take(path)
        for folder in paths if not files else ():
            self._take_folder(folder)


def _within(folder: Path, above: frozenset[str]) -> Iterator[Path]:
    """Return the files in a folder and those in it, by name; a folder within itself is left."""
    above = above | {os.path.realpath(folder)}
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name.startswith((".", "_")) or entry.name.endswith(UNFINISHED):
                continue
            if entry.is_file():
                yield folder / entry.name
            elif entry.is_dir() and os.path.realpath(entry.path) not in above:
                yield from _within(folder / entry.name, above)


def partition(path: Path) -> dict[str, str | None]:
    """Return what the names of a file's folders say.

    >>> partition(Path("visits/day=2024-01-05/shop=K%C3%B6ln/part-0.parquet"))
    {'day': '2024-01-05', 'shop': 'Köln'}
    """
    said = [found for part in path.parts[:-1] if (found := _PARTITION.fullmatch(part))]
    return {f[1]: None if f[2] == _NULL else unquote(f[2]) for f in said}


def exists(place: str) -> bool:
    """Tell whether a name or a pattern leads to something."""
    return os.path.lexists(place) or bool(glob.glob(place, recursive=True))


def table_name(place: str | Path) -> str:
    """Return the name of the table that a place makes, if it isn't given one.

    >>> table_name("data/web-log.2024.csv"), table_name("visits/day=*/*.parquet")
    ('web_log', 'visits')
    >>> table_name("exports/sales-*.csv"), table_name("shop.db#web.orders")
    ('sales', 'orders')
    """
    text, _, chosen = str(place).removeprefix(DELTA).partition("#")
    if re.fullmatch(r"\w+(\.\w+)?", chosen):
        return chosen.rpartition(".")[2]
    parts = [p for p in Path(text).parts if p != "/" and not _PARTITION.fullmatch(p)]
    names = [re.split(r"[*?\[]", p)[0].split(".")[0] for p in parts] or [""]
    plain = [re.sub(r"\W", "_", n) for n in names]
    if glob.has_magic(text) and not os.path.lexists(text):
        plain = [name.strip("_") for name in plain]
    return next((n for n in reversed(plain) if n), "events")


# -- sources that are to be read: files, folders, patterns, databases, tables in memory ------------

SERVERS = ("postgresql://", "postgres://")
_KINDS = {"csv": "text", "tsv": "text", "jsonl": "json"}
_TABLES: Mapping[str, Callable[[Path, str], Source]] = {
    "sheets": SheetFile, "sqlite": SqliteTable, "duckdb": DuckTable,
}  # fmt: skip
_CONTENTS = (
    (0, b"PAR1", "parquet"), (0, b"ARROW1", "arrow"), (0, b"SQLite format 3\0", "sqlite"),
    (8, b"DUCK", "duckdb"), (0, b"PK\x03\x04", "sheets"), (0, b"\x1f\x8b", ".gz"),
    (0, b"(\xb5/\xfd", ".zst"), (0, b"BZh", ".bz2"),
)  # fmt: skip
"""How files begin that are no text, with their format or how they are packed."""


@dataclass
class SourceList:
    """Sources, and what should be known about them.

    Attributes:
        sources: One for each file.
        files: Those that are files, as they were found; None for a source that is none.
        notes: What was passed over, in words: for the curator.
    """

    sources: list[Source]
    files: list[Found | None]
    notes: list[str]


def opened(source: Any, wanted: Iterable[str] = (), form: TextForm = ANY_FORM) -> SourceList:
    """Return whatever rows come from as sources.

    Args:
        source: A place or several (a file, a folder, a pattern, `FILE#TABLE`, `postgresql://…`,
            `delta:FOLDER`), or a table in memory.
        wanted: The columns that a file should have.
        form: Of the table's text files.

    Raises:
        DataError: Something is not there, or is of no known kind, or has no header or schema.
    """
    if not isinstance(source, (str, Path, list, tuple)):
        try:
            table = source_in_memory(source)
            return SourceList([table], [None], list(table.notes))
        except DAMAGE as error:
            raise damaged("the table", error) from None
    finds = Finds()
    sources: list[Source] = []
    files: list[Found | None] = []
    for place in [source] if isinstance(source, (str, Path)) else source:
        chosen = _chosen(place)
        if chosen is not None:
            sources.append(chosen[0])
            files.append(chosen[1])
            continue
        before = len(finds.files)
        finds.add(Path(place))
        for found in finds.files[before:]:
            sources.append(_partitioned(found, wanted, form))
            files.append(found)
    if not sources:
        raise DataError("no file was given")
    notes = [*finds.notes, *(note for s in sources for note in s.notes)]
    return SourceList(sources, files, notes)


def _chosen(place: str | Path) -> tuple[Source, Found | None] | None:
    """Return the table that a place names, of a server or of a file, with the file."""
    text = str(place)
    check_path("the file", text)
    if text.startswith(SERVERS):
        try:
            return PostgresTable(text), None
        except DAMAGE as error:
            raise damaged(shown_address(text), error, "check address, password and table") from None
    if text.startswith(DELTA) or Path(text, "_delta_log").is_dir():
        return _delta(text.removeprefix(DELTA)), None
    file, mark, table = text.partition("#")
    if not mark or Path(text).exists() or not Path(file).is_file():
        return None
    path = Path(file)
    kind = kind_of(path)
    if kind not in _TABLES:
        raise DataError(f"{shown(path.name)} has no tables to choose from", f"say {shown(file)}")
    return _read(path.name, lambda: _TABLES[kind](path, table)), Found(path, part=table)


def _delta(folder: str) -> Source:
    """Return a Delta table as it is now: not all files in its folder are of it."""
    table = needed("deltalake", "lake", "a Delta table").DeltaTable
    try:
        return source_in_memory(table(folder).to_pyarrow_dataset())
    except Exception as error:
        raise DataError(f"{shown(folder)} can't be read as a Delta table: {error}") from None


def _partitioned(found: Found, wanted: Iterable[str], form: TextForm) -> Source:
    inner = source_of(found.path, wanted, form)
    own = set() if inner.open_ended else {name.lower() for name in inner.types}
    values = {name: text for name, text in found.values.items() if name.lower() not in own}
    return PartitionFile(inner, values) if values else inner


def source_of(path: Path, wanted: Iterable[str] = (), form: TextForm = ANY_FORM) -> Source:
    """Return a file as a source.

    Args:
        path: Of the file.
        wanted: The columns that it should have.
        form: Of the table's text files.

    Raises:
        DataError: There is no such file, or it is of no known kind, or has no header or schema.
    """
    if not path.is_file():
        raise DataError(f"there is no file {shown(path)!r}")
    kind = kind_of(path)

    def open_it() -> Source:
        if kind == "text":
            return TextFile(path, wanted, form)
        if kind == "json":
            return JsonFile(path)
        if kind in _TABLES:
            return _TABLES[kind](path, "")
        return ParquetFile(path) if kind == "parquet" else ArrowFile(path)

    return _read(path.name, open_it)


def _read(name: str, open_it: Callable[[], Source]) -> Source:
    try:
        return open_it()
    except DAMAGE as error:
        raise damaged(name, error) from None


def kind_of(path: Path) -> str:
    """Return what kind of file has such a name; raises `DataError` for none that is known.

    Where the contents begin as those of another kind do, the name is wrong.
    """
    named, packed = asked_format(path)
    kind = _KINDS.get(named, named)
    if not kind or (packed and kind not in ("text", "json")):
        raise DataError(
            f"{shown(path.name)}: this kind of file is not known",
            "names end in .parquet, .csv, .tsv, .json, .jsonl (also .gz, .zst, .bz2), .arrow, "
            ".xlsx, .sqlite or .duckdb",
        )
    inside = _contents(path) if kind in ("text", "json", "sqlite") and not packed else ""
    if inside == "duckdb" and kind == "sqlite":
        return inside
    if inside and inside != kind:
        raise DataError(
            f"{shown(path.name)} is not what its name says: it begins as a file of {inside} does",
            "rename it",
        )
    return kind


def _contents(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            head = file.read(16)
    except OSError:  # whoever reads it says so
        return ""
    return next((kind for at, mark, kind in _CONTENTS if head[at:].startswith(mark)), "")


class PartitionFile:
    """A file with columns that the names of its folders say: the same value in every row.

    What a file has as a column itself is never told by a name.
    """

    def __init__(self, inner: Source, values: Mapping[str, str | None]) -> None:
        self._inner, self._values = inner, values
        self.name, self.separator, self.notes = inner.name, inner.separator, inner.notes
        self.open_ended, self.declared = inner.open_ended, inner.declared

    @property
    def types(self) -> dict[str, pa.DataType | None]:
        """See `Source`."""
        return {**self._inner.types, **dict.fromkeys(self._values, pa.string())}

    @property
    def words(self) -> Collection[str]:
        """See `Source`."""
        return [name for name in self._inner.words if name not in self._values]

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
        return {n: t for n, t in self._inner.raw_types().items() if n not in self._values}

    def batches(
        self, columns: Sequence[str], types: Mapping[str, str] = NO_TYPES
    ) -> Iterator[list[pa.Array]]:
        """See `Source`."""
        inside = [c for c in columns if c not in self._values]
        if not inside:  # something that says how many rows there are
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
