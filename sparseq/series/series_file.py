"""The file of a series: Parquet, CSV or JSON Lines, that holds whole ticks at every moment.

New rows are gathered, and written by making the file anew beside the old one and giving it the
name: whoever reads, and whatever is killed, finds a whole file. Rows are gathered until they are
an eighth of the file, or the loop waits for data or ends, so that n ticks cost O(n) in all. Rows
that a kill took with it are in the journal, which is the truth, and come from there at the restart.

The rows of a monitored series: one a tick, group and number. All of it is public.

    series      whose row it is: the name of the query's file
    tick        the tick's start
    …           the group's keys, a column each; null for series without that key
    estimate    `answer`, or what else is released or computed beside the answers
    column      the column of the query's answer that the number is in
    value       the noised number
    error       its ±, all numbers of the tick's answer at once, at `confidence`; null: unknown; of
                `corrected` about everybody, noise and forecast (`sparseq.series.methods.corrector`)
    sigma       standard deviation of its noise; null where the number was computed from several
    bound       Corollary 4.7's bound, for the same numbers
    forecast_error  an estimate, no bound, of what a forecast in the value may be off by; else null
    release     the release that it comes from
    strategy    where a series has one: its taps, as `Strategy.of` reads them; else not there
    left_out    where there is room for people who are left out: what that is of `error`

Group keys stand between the tick and the estimate.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sparseq.base.errors import ParameterError, StoreError
from sparseq.base.whole_files import check_writable, format_of, whole_file, writing

# -- the rows of a monitored series: one a tick, group and number. All of it is public -------------

ANSWER = "answer"


@dataclass(frozen=True)
class Row:
    """One number of one tick; see the module for what the fields are."""

    series: str
    tick: Any
    column: str
    value: float | None
    error: float | None = None
    sigma: float | None = None
    bound: float | None = None
    forecast_error: float | None = None
    release: int | None = None
    estimate: str = ANSWER
    strategy: str | None = None
    left_out: float | None = None
    keys: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the row by column."""
        plain = {k: v for k, v in self.__dict__.items() if k != "keys"}
        return plain | self.keys


_FIRST = [("series", pa.string())]
_LAST = [
    ("estimate", pa.string()),
    ("column", pa.string()),
    *((name, pa.float64()) for name in ("value", "error", "sigma", "bound", "forecast_error")),
    ("release", pa.int64()),
]
STRATEGY, LEFT_OUT = "strategy", "left_out"
FIXED = frozenset(["tick", *(name for name, _ in (*_FIRST, *_LAST))])


def schema_of(
    keys: Iterable[tuple[str, pa.DataType]],
    dates: bool,
    strategies: bool = False,
    left_out: bool = False,
) -> pa.Schema:
    """Return the columns of series with these group keys.

    Args:
        keys: Name and type; the same key may come from several series.
        dates: Ticks start at midnight.
        strategies: One of the series has a strategy.
        left_out: And one of these allows for people who are left out.

    Raises:
        ParameterError: A key is called as another column, or has several types.
    """
    known: dict[str, pa.DataType] = {}
    more = [(STRATEGY, pa.string())] * strategies + [(LEFT_OUT, pa.float64())] * left_out
    last, taken = [*_LAST, *more], FIXED | {column for column, _ in more}
    for name, type in keys:
        if name in taken:
            raise ParameterError(
                f"a group key can't be called {name!r} in a series",
                f"rename it: SELECT {name} AS other",
            )
        if known.setdefault(name, type) != type:
            raise ParameterError(
                f"group key {name!r} is {known[name]} in one series and {type} in another",
                "rename one of them: SELECT … AS other",
            )
    tick = ("tick", pa.date32() if dates else pa.timestamp("s"))
    return pa.schema([*_FIRST, tick, *known.items(), *last])


def as_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Return rows as an Arrow table of this schema."""
    return pa.Table.from_pylist([row.as_dict() for row in rows], schema=schema)


# -- the file of a series: Parquet, CSV or JSON Lines, that holds whole ticks at every moment ------

_SHARE, _SECONDS = 8, 1.0

Known = dict[tuple[str, str], set[int]]
"""Series and label of the ticks that a file has, with the releases that its answers name."""


class Format(Protocol):
    """Reader and writer of one kind of file."""

    def read(self, path: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
        """Return the columns, and the rows."""

    def table(self, path: Path, schema: pa.Schema) -> pa.Table:
        """Return the rows as a table of this schema."""

    def write(self, old: Path | None, rows: pa.Table, new: Path) -> None:
        """Write what the old file has, and then the rows, to a new file."""


class SeriesFile:
    """The file that rows are appended to.

    Args:
        path: Ends in .parquet, .csv or .jsonl.
        schema: Of the rows.

    Raises:
        ParameterError: It is of no such kind, or can't be written.
        StoreError: A file of that name is there, and holds something else.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self._schema = path, schema
        self._format = series_format(path)
        self._pending: list[pa.Table] = []
        self._length = self._waiting = 0
        self._written = time.monotonic()
        check_writable(path)  # before anything is asked

    def known(self) -> Known:
        """Return which ticks of which series are in the file."""
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
        """Return all rows: those in the file, and those that are gathered."""
        written = self._format.table(self.path, self._schema) if self.path.exists() else None
        return pa.concat_tables([written or self._schema.empty_table(), *self._pending])

    def flush(self) -> None:
        """Write what is gathered; the file is whole before, during and after."""
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
    """Parquet."""

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
    """CSV and JSON Lines: the old file is copied, and lines are added."""

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
    """CSV with a head; unknown is empty."""

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
    """JSON Lines; unknown is null."""

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
    """Return how a file is written, by its name.

    Raises:
        ParameterError: The name says nothing that is known.
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
    """Return the rows of a text file as what they were: empty is null."""
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
        StoreError: It is no such file.
    """
    format = series_format(path)
    try:
        if isinstance(format, ParquetFormat):
            table = pq.read_table(path)
        else:
            names, rows = format.read(path)
            first = next(rows, {})
            known = {f.name: f.type for f in schema_of([], "T" not in str(first.get("tick")))}
            if names[-1:] == [LEFT_OUT]:  # where it is one, no key is
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
    """Return a value as text files have it: dates and times as ISO text."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def label_of(tick: Any) -> str:
    """Return the label of a tick that a file has."""
    return str(plain(tick))
