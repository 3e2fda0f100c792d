"""The file of a series: Parquet, CSV or JSON Lines, with whole ticks at every moment.

New rows are gathered in memory. A flush writes a new file next to the old one and renames it, so
that a reader finds a whole file even after the process was killed. A flush happens when the
gathered rows are an eighth of the file, when the loop waits for data and at the end, so that n
ticks cost O(n) in total. If a kill loses rows, the restart reads them again from the journal,
which is the record of all releases.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sparseq.base.errors import ParameterError, StoreError
from sparseq.base.file_formats import format_of
from sparseq.base.whole_files import check_writable, whole_file, writing
from sparseq.series.series_rows import ANSWER, FIXED, LEFT_OUT, schema_of

_SHARE, _SECONDS = 8, 1.0

Known = dict[tuple[str, str], set[int]]
"""From (series, label of a tick) in a file to the releases that its answers name."""


class Format(Protocol):
    """Reader and writer of one kind of file."""

    def read(self, path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
        """Return the columns, and the rows."""

    def table(self, path: Path, schema: pa.Schema) -> pa.Table:
        """Return the rows as a table of this schema."""

    def write(self, old: Path | None, rows: pa.Table, new: Path) -> None:
        """Write the contents of the old file, and then the rows, to a new file."""


class SeriesFile:
    """A file that rows are appended to.

    Args:
        path: Ends in .parquet, .csv or .jsonl.
        schema: Columns of the rows.

    Raises:
        ParameterError: The name has another ending, or the file can't be written.
        StoreError: A file of that name exists and holds something else.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self._schema = path, schema
        self._format = series_format(path)
        self._pending: list[pa.Table] = []
        self._length = self._waiting = 0
        self._written = time.monotonic()
        check_writable(path)  # before any question is asked

    def known(self) -> Known:
        """Return the ticks of each series that are in the file."""
        if not self.path.exists():
            return {}
        found: Known = {}
        try:
            columns, rows = self._format.read(self.path)
            if columns and columns != self._schema.names:
                raise StoreError(
                    f"{self.path} has the columns {', '.join(columns)}; these series have "
                    f"{', '.join(self._schema.names)}",
                    "give another --output; all that was released is written to it, free of charge",
                )
            for row in rows:
                ticks = found.setdefault((row["series"], label_of(row["tick"])), set())
                if row["estimate"] == ANSWER:
                    ticks.add(int(row["release"]))
                self._length += 1
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise StoreError(
                f"{self.path} can't be read as a series ({type(error).__name__})",
                "move it away; all that was released is written again, free of charge",
            ) from None
        return found

    def append(self, rows: pa.Table) -> None:
        """Add the rows of one tick; they are in the file at the next flush."""
        self._pending.append(rows)
        self._waiting += rows.num_rows
        due = time.monotonic() - self._written > _SECONDS
        if due or self._waiting * _SHARE >= self._length:
            self.flush()

    def table(self) -> pa.Table:
        """Return all rows: those in the file and those not yet written."""
        written = self._format.table(self.path, self._schema) if self.path.exists() else None
        return pa.concat_tables([written or self._schema.empty_table(), *self._pending])

    def flush(self) -> None:
        """Write the gathered rows; a reader finds a whole file at every moment."""
        if not self._pending and self.path.exists():
            return
        rows = pa.concat_tables([self._schema.empty_table(), *self._pending])
        old = self.path if self.path.exists() else None
        with whole_file(self.path) as working, writing(self.path):
            self._format.write(old, rows, working)
        self._length += self._waiting
        self._pending, self._waiting = [], 0
        self._written = time.monotonic()


class ParquetFormat:
    """Reader and writer of Parquet files."""

    def read(self, path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
        """See `Format`."""
        file = pq.ParquetFile(path)
        names = list(file.schema_arrow.names)
        wanted = [name for name in ("series", "tick", "estimate", "release") if name in names]
        batches = file.iter_batches(columns=wanted)
        return names, (row for batch in batches for row in batch.to_pylist())

    def table(self, path: Path, schema: pa.Schema) -> pa.Table:
        """See `Format`."""
        return pq.read_table(path, schema=schema)

    def write(self, old: Path | None, rows: pa.Table, new: Path) -> None:
        """See `Format`."""
        if old is not None:
            before = pq.read_table(old, schema=rows.schema)
            rows = pa.concat_tables([before, rows]).combine_chunks()
        pq.write_table(rows, new)


class TextFormat(ABC):
    """CSV and JSON Lines: the old file is copied, and lines are appended."""

    def read(self, path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
        """See `Format`."""
        with open(path, encoding="utf-8", newline="") as file:
            lines = self.parsed(file)
            first = next(lines, {})
        return list(first), self._all(path)

    def _all(self, path: Path) -> Iterator[dict[str, Any]]:
        with open(path, encoding="utf-8", newline="") as file:
            yield from self.parsed(file)

    def table(self, path: Path, schema: pa.Schema) -> pa.Table:
        """See `Format`."""
        return _type(self._all(path), schema)

    def write(self, old: Path | None, rows: pa.Table, new: Path) -> None:
        """See `Format`."""
        if old is not None:
            shutil.copyfile(old, new)
        with open(new, "ab" if old is not None else "wb") as file:
            file.write(self.text(rows, head=old is None).encode())

    @abstractmethod
    def text(self, rows: pa.Table, head: bool) -> str:
        """Return rows as text."""

    @abstractmethod
    def parsed(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Return the rows of a file's lines."""


class CsvFormat(TextFormat):
    """CSV with a header; an unknown value is empty."""

    def read(self, path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
        """See `Format`."""
        with open(path, encoding="utf-8", newline="") as file:
            head = next(csv.reader(file), [])
        return head, self._all(path)

    def text(self, rows: pa.Table, head: bool) -> str:
        """Return rows as text."""
        sink = io.StringIO()
        writer = csv.writer(sink, lineterminator="\n")
        if head:
            writer.writerow(rows.column_names)
        for row in rows.to_pylist():
            writer.writerow(["" if v is None else plain(v) for v in row.values()])
        return sink.getvalue()

    def parsed(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Return the rows of a file's lines."""
        return csv.DictReader(lines)


class JsonLinesFormat(TextFormat):
    """JSON Lines; an unknown value is null."""

    def text(self, rows: pa.Table, head: bool) -> str:
        """Return rows as text."""
        lines = (json.dumps({k: plain(v) for k, v in row.items()}) for row in rows.to_pylist())
        return "".join(line + "\n" for line in lines)

    def parsed(self, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Return the rows of a file's lines."""
        return map(json.loads, lines)


_FORMATS: dict[str, Format] = {
    "parquet": ParquetFormat(),
    "csv": CsvFormat(),
    "jsonl": JsonLinesFormat(),
}


def series_format(path: Path) -> Format:
    """Return the format of a file, from its name.

    Raises:
        ParameterError: The ending is not known.
    """
    named, packed = format_of(path)
    if named not in _FORMATS or packed:
        raise ParameterError(
            f"--output {str(path)!r}: this kind of file is not known",
            f"one of {', '.join(f'.{name}' for name in _FORMATS)}; a page of a series is made by "
            "`sparseq monitor --plot`, a workbook by `sparseq derive`",
        )
    return _FORMATS[named]


def _type(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return the rows of a text file as a table with these types: an empty value is null."""
    columns: dict[str, list[str | None]] = {name: [] for name in schema.names}
    for row in rows:
        for name, column in columns.items():
            value = row[name]
            column.append(None if value in (None, "") else str(value))
    arrays = [pa.array(columns[f.name], pa.string()).cast(f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def series_table(path: Path) -> pa.Table:
    """Return the rows of a series file; group keys of text files are text.

    Raises:
        StoreError: The file is not a series file.
    """
    format = series_format(path)
    try:
        if isinstance(format, ParquetFormat):
            table = pq.read_table(path)
        else:
            names, rows = format.read(path)
            first = next(rows, {})
            known = {f.name: f.type for f in schema_of([], "T" not in str(first.get("tick")))}
            if names[-1:] == [LEFT_OUT]:  # a group key of this name cannot stand last
                known[LEFT_OUT] = pa.float64()
            schema = pa.schema([(name, known.get(name, pa.string())) for name in names])
            table = format.table(path, schema)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        raise StoreError(f"{path} can't be read as a series") from None
    if not set(table.column_names) >= FIXED:
        raise StoreError(
            f"{path} is not a series file", "`sparseq monitor --output FILE` makes one"
        )
    return table


def plain(value: Any) -> Any:
    """Return a value as text files hold it: dates and times as ISO text."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def label_of(tick: Any) -> str:
    """Return the label of a tick in a file."""
    return str(plain(tick))
