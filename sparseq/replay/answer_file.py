"""Answers of a replay: one row for each line of the log, in a file that appears whole.

While the replay runs, rows are written in parts in the folder FILE.parts. Each part appears whole
or not at all: after a kill the parts can be read, and `--resume` continues after them. At the end
they become the file.

Columns: line, id, status (answered, refused or failed), reason, release, value and error (of an
answer with one number), and answer: all its cells, with the names of its columns.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError
from sparseq.base.file_formats import format_of
from sparseq.base.whole_files import whole_file, writing
from sparseq.released.result_columns import ColumnRole, ResultColumn, column_parts, result_names

ANSWERED, REFUSED, FAILED = "answered", "refused", "failed"
PART_ROWS = 4096
PART_CELLS = 1 << 18
_CELL = pa.struct(
    [
        ("row", pa.int32()),
        ("column", pa.string()),
        ("key", pa.string()),
        ("value", pa.float64()),
        ("error", pa.float64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("id", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("release", pa.int64()),
        ("value", pa.float64()),
        ("error", pa.float64()),
        ("answer", pa.list_(_CELL)),
    ]
)


@dataclass(frozen=True)
class Result:
    """The outcome of one line; `recorded`: the answer comes from the journal."""

    line: int
    id: str
    status: str
    reason: str | None = None
    answer: Answer | None = None
    recorded: bool = False


class AnswerFile:
    """The file of answers, and its parts until it is finished.

    Args:
        path: Parquet, CSV or JSON Lines, by its ending.
        log: Identity of the log: parts of another log are not continued.
        resume: Keep the existing parts.

    Raises:
        ParameterError: The ending is not known, the place can't be written to, or the parts belong
            to another log.
    """

    def __init__(self, path: Path, log: dict[str, Any], resume: bool) -> None:
        self.path = path
        self._format, packed = format_of(path)
        if self._format not in ("parquet", "csv", "jsonl") or packed:
            raise ParameterError(
                f"--output {path.name}: no format is known by this name", ".parquet, .csv or .jsonl"
            )
        self._folder = path.with_name(f"{path.name}.parts")
        self._rows: list[Result] = []
        self._cells = 0
        self.counts = dict.fromkeys((ANSWERED, REFUSED, FAILED), 0)
        self.done = 0
        with writing(path):
            self._start(log, resume)

    def _start(self, log: dict[str, Any], resume: bool) -> None:
        manifest = self._folder / "log.json"
        if resume and manifest.is_file():
            if json.loads(manifest.read_text()) != log:
                raise ParameterError(
                    f"{self._folder} has parts of another log, or of this one before it changed",
                    "replay without --resume: answered lines are read back, free",
                )
            for part in self._parts():
                self._count(part)
            return
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir()
        try:
            with whole_file(manifest) as working, writing(manifest):
                working.write_text(json.dumps(log))
        except ParameterError:
            shutil.rmtree(self._folder)
            raise

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.parquet"))

    def _count(self, part: Path) -> None:
        rows = pq.read_table(part, columns=["line", "status"])
        for status in rows["status"].to_pylist():
            self.counts[status] += 1
        self.done = max([self.done, *rows["line"].to_pylist()])

    @property
    def lines(self) -> int:
        """Number of lines that have a row."""
        return sum(self.counts.values())

    def add(self, result: Result) -> None:
        """Add a row; it is written with the next part."""
        self._rows.append(result)
        self.counts[result.status] += 1
        if result.answer is not None:
            table = result.answer.arrow()
            self._cells += table.num_rows * table.num_columns
        if len(self._rows) >= PART_ROWS or self._cells >= PART_CELLS:
            self.flush()

    def flush(self) -> None:
        """Write the waiting rows as a part."""
        if not self._rows:
            return
        table, last = as_table(self._rows), self._rows[-1].line
        part = self._folder / f"{last:012d}.parquet"
        with whole_file(part) as working, writing(part):
            pq.write_table(table, working, compression="zstd")
        self._rows, self._cells = [], 0

    def finish(self) -> None:
        """Join the parts into the file."""
        self.flush()
        write = {"parquet": _write_parquet, "csv": _write_csv, "jsonl": _write_jsonl}[self._format]
        with whole_file(self.path) as working, writing(self.path):
            write(working, self._parts())
        shutil.rmtree(self._folder)


def as_table(results: list[Result]) -> pa.Table:
    """Return results as rows of `SCHEMA`."""
    answers = [None if r.answer is None else r.answer.arrow() for r in results]
    cells = [None if table is None else cells_of(table) for table in answers]
    single = [_single(c) for c in cells]
    columns = [
        [r.line for r in results],
        [r.id for r in results],
        [r.status for r in results],
        [r.reason for r in results],
        [None if r.answer is None else r.answer.facts.release for r in results],
        [value for value, _ in single],
        [error for _, error in single],
        cells,
    ]
    return pa.table(columns, schema=SCHEMA)


def cells_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the cells of an answer: keys as text, numbers with their ±.

    >>> cells_of(pa.table({"kind": ["a"], "n": [3], "n_error": [1.5]}))[1]
    {'row': 0, 'column': 'n', 'value': 3.0, 'error': 1.5}
    """
    columns = {name: table[name].to_pylist() for name in table.column_names}
    cells: list[dict[str, Any]] = []
    for row in range(table.num_rows):
        for name, parts in column_parts(table).items():
            value = columns[name][row]
            if ColumnRole.VALUE in parts:
                error = columns[parts[ColumnRole.ERROR]][row]
                number = None if value is None else float(value)
                cells.append({"row": row, "column": name, "value": number, "error": error})
            else:
                cells.append({"row": row, "column": name, "key": _key(value)})
            for role in (ColumnRole.LOW, ColumnRole.HIGH, ColumnRole.SUPPRESSED):
                if (beside := parts.get(role)) is not None:
                    text = _key(columns[beside][row])
                    cells.append({"row": row, "column": beside, "key": text})
    return cells


def _single(cells: list[dict[str, Any]] | None) -> tuple[float | None, float | None]:
    """Return the number of an answer that has only one, with its half-width."""
    if cells is None or len(cells) != 1 or "value" not in cells[0]:
        return None, None
    return cells[0]["value"], cells[0]["error"]


def _key(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _tables(parts: list[Path]) -> Iterator[pa.Table]:
    for part in parts:
        yield pq.read_table(part, schema=SCHEMA)


def _write_parquet(to: Path, parts: list[Path]) -> None:
    with pq.ParquetWriter(to, SCHEMA, compression="zstd") as writer:
        for table in _tables(parts):
            writer.write_table(table)


def _records(parts: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield rows, with the answer as a list of its rows by column."""
    for table in _tables(parts):
        for record in table.to_pylist():
            if record["answer"] is not None:
                record["answer"] = rows_of_cells(record["answer"])
            yield record


def rows_of_cells(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells of an answer as its rows, by the names of its columns."""
    noised = {c["column"] for c in cells if c["value"] is not None or c["error"] is not None}
    columns = list(dict.fromkeys(cell["column"] for cell in cells))
    kinds = {True: (ColumnRole.VALUE, ColumnRole.ERROR), False: (ColumnRole.KEY,)}
    parts = [dict.fromkeys(kinds[name in noised], pa.null()) for name in columns]
    called = result_names(list(map(ResultColumn, columns, parts)))
    names = dict(zip(columns, called, strict=True))
    rows: dict[int, dict[str, Any]] = {}
    for cell in cells:
        row = rows.setdefault(cell["row"], {})
        for role, name in names[cell["column"]].items():
            row[name] = cell[role.value]
    return list(rows.values())


def _write_csv(to: Path, parts: list[Path]) -> None:
    with open(to, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(SCHEMA.names)
        for record in _records(parts):
            if record["answer"] is not None:
                record["answer"] = json.dumps(record["answer"], ensure_ascii=False)
            writer.writerow(record.values())


def _write_jsonl(to: Path, parts: list[Path]) -> None:
    with open(to, "w", encoding="utf-8") as file:
        for record in _records(parts):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
