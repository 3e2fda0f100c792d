"""Query logs: JSON Lines, CSV or Parquet, plain or compressed, read a line at a time.

Columns: sql and, optionally, id, time, analyst, parameters, options; others are ignored. A line
that can't be read is still a line: it has the reason.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import math
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sparseq.base.errors import DataError, ParameterError
from sparseq.base.file_formats import format_of
from sparseq.question.plan import KNOWN_OPTIONS, Options
from sparseq.stream.batches import BLOCK

COLUMNS = ("id", "time", "analyst", "sql", "parameters", "options")
LONGEST_LINE = 1 << 24  # bytes; a longer one is not a query
BLOCK_TEXT = 1 << 24  # approximate characters of queries per block
_ROWS = 2048  # of Parquet at a time


@dataclass(frozen=True)
class Line:
    """One line of a log.

    Attributes:
        number: From 1; a CSV's header is not counted, blank lines of JSON Lines are.
        id: Id in the log; "line N" without one.
        sql: The query, with its parameters.
        time, analyst: Values in the log, as text.
        parameters, options: See docs/replay.md.
        failed: The reason why the line can't be read; "" if it can.
    """

    number: int
    id: str
    sql: str = ""
    time: str | None = None
    analyst: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    failed: str = ""


class Log:
    """The lines of a file, one after another; iterate over it once.

    Args:
        path: The format is in the name: .jsonl, .csv or .parquet, optionally with .gz or .zst.

    Raises:
        DataError: There is no such file, or its format is not known.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        named, packed = format_of(path)
        self._compression = packed or None
        self.format = "jsonl" if named == "json" else named
        if self.format not in ("jsonl", "csv", "parquet") or (
            self.format == "parquet" and self._compression
        ):
            raise DataError(
                f"{path.name} is not a log that sparseq can read",
                "logs are .jsonl, .csv or .parquet; the first two also .gz or .zst",
            )
        if not path.is_file():
            raise DataError(f"there is no file {str(path)!r}")
        self.bytes = path.stat().st_size
        self._file: BinaryIO | None = None
        self._share = 0.0

    @property
    def name(self) -> str:
        """The file's name without the endings of its format."""
        return self.path.name.split(".")[0] or self.path.name

    @property
    def share(self) -> float:
        """Approximate share of the file that has been read, 0 to 1."""
        if self._file is not None and not self._file.closed and self.bytes:
            self._share = min(self._file.tell() / self.bytes, 1.0)
        return self._share

    def lines(self, after: int = 0) -> Iterator[Line]:
        """Yield the lines, without the first `after`.

        Raises:
            DataError: The file as a whole can't be read, or no column is called sql.
        """
        read = {"jsonl": self._json_lines, "csv": self._csv, "parquet": self._parquet}
        for line in read[self.format]():
            if line.number > after:
                yield line
        self._file, self._share = None, 1.0

    def _open(self) -> BinaryIO:
        """Return the file's bytes, decompressed while reading."""
        self._file = open(self.path, "rb")  # noqa: SIM115
        if self._compression is None:
            return self._file
        if self._compression == "gzip":
            return gzip.open(self._file, "rb")  # type: ignore[return-value]

        stream = pa.CompressedInputStream(pa.PythonFile(self._file, mode="r"), "zstd")
        return io.BufferedReader(_Readable(stream), 1 << 16)

    def _raw_lines(self) -> Iterator[bytes]:
        try:
            with self._open() as file:
                while line := file.readline(LONGEST_LINE):
                    yield line
                    while len(line) >= LONGEST_LINE and not line.endswith(b"\n"):
                        line = file.readline(LONGEST_LINE)  # the rest of it
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.path.name} can't be read: {_plain(error)}") from None

    def _json_lines(self) -> Iterator[Line]:
        for number, raw in enumerate(self._raw_lines(), 1):
            if not raw.strip():
                continue
            try:
                if len(raw) >= LONGEST_LINE:
                    raise ValueError(f"the line is longer than {LONGEST_LINE:,} bytes")
                record = json.loads(raw.decode())
                if not isinstance(record, dict):
                    raise ValueError("the line is not a JSON object")
            except (ValueError, RecursionError) as error:
                yield Line(number, f"line {number}", failed=_plain(error))
            else:
                yield line_of(number, record)

    def _csv(self) -> Iterator[Line]:
        csv.field_size_limit(LONGEST_LINE)
        text = (raw.decode("utf-8", "surrogateescape") for raw in self._raw_lines())
        rows = csv.reader(text)
        head = [name.strip().lstrip("\ufeff").lower() for name in next(rows, [])]
        self._check(head)
        number = 0
        while True:
            number += 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield Line(number, f"line {number}", failed=_plain(error))
                continue
            if len(row) > len(head):
                why = f"{len(row)} values under {len(head)} columns"
                yield Line(number, f"line {number}", failed=why)
            elif row:
                record = {k: v for k, v in zip(head, row, strict=False) if v != ""}
                yield line_of(number, record)
            else:
                number -= 1  # a blank line

    def _parquet(self) -> Iterator[Line]:

        number = 0
        try:
            with pq.ParquetFile(self.path) as file:
                names = {name.lower(): name for name in file.schema_arrow.names}
                self._check(names)
                wanted = [names[name] for name in COLUMNS if name in names]
                total = max(file.metadata.num_rows, 1)
                for batch in file.iter_batches(_ROWS, columns=wanted):
                    self._share = number / total
                    for record in batch.to_pylist():
                        number += 1
                        known = {k.lower(): v for k, v in record.items() if v is not None}
                        yield line_of(number, known)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path.name} can't be read: {_plain(error)}") from None

    def _check(self, names: Any) -> None:
        if "sql" not in names:
            found = textwrap.shorten(", ".join(names), 200, placeholder=" …")
            raise DataError(
                f"{self.path.name} has no column sql; it has {found or 'none'}",
                "a log's columns are id, time, analyst, sql, parameters, options",
            )


def blocks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield lines in blocks that are asked together and fit in memory."""
    block: list[Line] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line.sql)
        if len(block) == BLOCK or size >= BLOCK_TEXT:
            yield block
            block, size = [], 0
    if block:
        yield block


class _Readable(io.RawIOBase):
    """An Arrow stream with the interface of Python's `io`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            raise OSError(f"it is damaged, or no zstd: {error}") from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def line_of(number: int, record: Mapping[str, Any]) -> Line:
    """Return a record of a log as a line; `failed` has the reason if it can't be read.

    >>> line_of(3, {"sql": "SELECT 1", "options": '{"sigma": 5}'}).options.sigma
    5.0
    >>> line_of(4, {"query": "SELECT 1"}).failed
    'the line has no sql'
    """
    id = _text(record.get("id"))
    line = Line(number, f"line {number}" if id is None else id)
    line = replace(line, time=_text(record.get("time")), analyst=_text(record.get("analyst")))
    sql = record.get("sql")
    try:
        if not isinstance(sql, str) or not sql.strip():
            raise ValueError(
                "sql is not text"
                if sql is not None and not isinstance(sql, str)
                else "the line has no sql"
            )
        _check_text(sql, line.id)
        return replace(
            line,
            sql=sql,
            parameters=_parameters(_object("parameters", record.get("parameters"))),
            options=_options(_object("options", record.get("options"))),
        )
    except UnicodeEncodeError:
        return Line(number, f"line {number}", failed="the line is not UTF-8 text")
    except (ValueError, RecursionError) as error:
        message = error.message if isinstance(error, ParameterError) else _plain(error)
        return replace(line, failed=message)


def _object(name: str, value: Any) -> dict[str, Any]:
    """Return parameters or options: an object, or the text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError(f"{name} can't be read: {value[:60]!r} is not JSON") from None
    if isinstance(value, list) and all(isinstance(v, tuple) for v in value):  # Parquet's maps
        value = dict(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f'{name} must be an object, as in {{"sigma": 10}}')
    return {str(k): v for k, v in value.items() if v is not None}


def _parameters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in given.items():
        _check_text(name, value if isinstance(value, str) else "")
        if isinstance(value, str):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"parameter {name} is {value!r}; it must be a finite number")
        if not isinstance(value, int | float | dt.date):
            raise ValueError(f"parameter {name} must be text, a number, a truth or a date")
    return given


def _check_text(*texts: str) -> None:
    """Fail on lone surrogates, which come from bytes that are not text."""
    for text in texts:
        text.encode()


def _options(given: Mapping[str, Any]) -> Options:
    numbers: dict[str, Any] = {}
    for name, value in given.items():
        if name not in KNOWN_OPTIONS:
            raise ValueError(f"there is no option {name!r}; there are {', '.join(KNOWN_OPTIONS)}")
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise ValueError(f"option {name} is {value!r}; it must be a number")
        numbers[name] = float(value)
    return Options(**numbers)


def _text(value: Any) -> str | None:
    """Return an id, a time or a name as text."""
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _plain(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
