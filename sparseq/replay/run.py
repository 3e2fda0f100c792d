"""Replaying a log: every line one outcome, nothing stops the batch.

A line's request id is made from the log's name, the line's id, its text and its options, in a
namespace that no analyst reaches. So a line that was answered once is read back ever after: no new
noise, no charge, whatever was killed in between; and a line that was changed is a new question.

Answers of a replay: one row a line of the log, in a file that appears whole.

While the replay runs, rows are written in parts beside the file, in FILE.parts, each of which
appears whole or not at all: a kill leaves parts that can be read, and `--resume` goes on after
them. At the end they become the file.

Columns: line, id, status (answered, refused or failed), reason, release, value and error (of an
answer that is one number), and answer: all of its cells, whatever its columns are.
"""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparseq.base.errors import NotSql, ParameterError, QueryRefused, SparseqError
from sparseq.base.whole_files import format_of, whole_file, writing
from sparseq.ledger.notes import Asker, RequestId
from sparseq.released.render import ERROR_SUFFIX
from sparseq.replay.log import Line, Log, blocks
from sparseq.sql.parameters import QueryText
from sparseq.sql.plan import Options, Plan
from sparseq.store.answer import Answer
from sparseq.store.store import Store
from sparseq.stream.step import Outcome, Request

# -- answers of a replay: one row a line of the log, in a file that appears whole ------------------

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
    """The outcome of one line; `recorded`: the answer was read back from the journal."""

    line: int
    id: str
    status: str
    reason: str | None = None
    answer: Answer | None = None
    recorded: bool = False


class AnswerFile:
    """The file of answers, and its parts while it is being made.

    Args:
        path: Parquet, CSV or JSON Lines, by its name.
        log: What is replayed: parts of another log are not gone on from.
        resume: Keep the parts that are there.

    Raises:
        ParameterError: The name says no format, the place can't be written to, or the parts are
            those of another log.
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
                    "replay without --resume: what was answered is read back, free",
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
        """Write the rows that wait as a part."""
        if not self._rows:
            return
        table, last = as_table(self._rows), self._rows[-1].line
        part = self._folder / f"{last:012d}.parquet"
        with whole_file(part) as working, writing(part):
            pq.write_table(table, working, compression="zstd")
        self._rows, self._cells = [], 0

    def finish(self) -> None:
        """Make the parts the file."""
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
    names = table.column_names
    columns = {name: table[name].to_pylist() for name in names}
    cells: list[dict[str, Any]] = []
    for row in range(table.num_rows):
        for name in names:
            if name.endswith(ERROR_SUFFIX) and name.removesuffix(ERROR_SUFFIX) in columns:
                continue
            value = columns[name][row]
            if name + ERROR_SUFFIX in columns:
                error = columns[name + ERROR_SUFFIX][row]
                number = None if value is None else float(value)
                cells.append({"row": row, "column": name, "value": number, "error": error})
            else:
                cells.append({"row": row, "column": name, "key": _key(value)})
    return cells


def _single(cells: list[dict[str, Any]] | None) -> tuple[float | None, float | None]:
    """Return the one number of an answer that is one, with its ±."""
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
    """Yield rows with the answer as the list of its rows, by column."""
    for table in _tables(parts):
        for record in table.to_pylist():
            if record["answer"] is not None:
                record["answer"] = _by_row(record["answer"])
            yield record


def _by_row(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    for cell in cells:
        row = rows.setdefault(cell["row"], {})
        if cell["key"] is None and (cell["value"] is not None or cell["error"] is not None):
            row[cell["column"]] = cell["value"]
            row[cell["column"] + ERROR_SUFFIX] = cell["error"]
        else:
            row[cell["column"]] = cell["key"]
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


# -- replaying a log: every line one outcome, nothing stops the batch ------------------------------

MOST_REASONS = 1000  # kept apart


@dataclass(frozen=True)
class Summary:
    """The outcome of a replay.

    Attributes:
        lines, answered, refused, failed: How many lines, and what became of them.
        from_journal: Of the answered, those that an earlier run had asked already: free.
        seconds: Of this run.
    """

    lines: int
    answered: int
    refused: int
    failed: int
    from_journal: int
    seconds: float


def replay(
    store: Store,
    log: Log,
    answers: AnswerFile,
    name: str | None = None,
    advance: Callable[[int], None] = lambda lines: None,
) -> Summary:
    """Ask every line of a log that has no row yet, in order; write a row for each.

    Args:
        store: Who is asked.
        log: The lines.
        answers: Where rows go; it is left unfinished, and can be gone on from, if this raises.
        name: Of the log, in request ids; by default the file's.
        advance: Told after each row how many there are.
    """
    started = time.monotonic()
    fresh = 0
    try:
        for result in results(store, log.lines(answers.done), name or log.name):
            answers.add(result)
            fresh += result.answer is not None and not result.recorded
            advance(answers.lines)
    finally:
        answers.flush()
    answers.finish()
    count = answers.counts
    return Summary(
        answers.lines,
        count[ANSWERED],
        count[REFUSED],
        count[FAILED],
        count[ANSWERED] - fresh,
        time.monotonic() - started,
    )


def results(store: Store, lines: Iterable[Line], name: str) -> Iterator[Result]:
    """Yield what becomes of each line, in order."""
    for block in blocks(lines):
        prepared = [asked_of(store, line, name) for line in block]
        outcomes = store.ask_many(p for p in prepared if isinstance(p, Request))
        for line, one in zip(block, prepared, strict=True):
            yield one if isinstance(one, Result) else _result(line, next(outcomes))


def dry_run(store: Store, lines: Iterable[Line]) -> Iterator[tuple[Result, Sequence[Plan]]]:
    """Yield what would become of each line on public facts alone, and its plans: free.

    The last is that of the line; others are of questions that are asked before it, once for all.
    """
    first = set[tuple[str, Options]]()
    for line in lines:
        one = asked_of(store, line, "")
        if isinstance(one, Request):
            try:
                own = one.options.over(one.query.options).of_first
                new = [q for q in one.query.first if (q.text, own) not in first]
                plans = [store.explain(before, own) for before in new]
                first.update((before.text, own) for before in new)
                plans.append(store.explain(one.query, one.options))
                yield Result(line.number, line.id, ANSWERED), plans
            except (QueryRefused, ParameterError) as error:
                yield _refusal(line, error), ()
        else:
            yield one, ()


def asked_of(store: Store, line: Line, name: str) -> Request | Result:
    """Lower a line; what can't be is told at once."""
    if line.failed:
        return Result(line.number, line.id, FAILED, line.failed)
    try:
        sql = line.sql.strip().rstrip(";")
        if line.parameters:
            sql = QueryText.of(sql).with_values(line.parameters)
        query = store.lower(sql)
        return Request(query, line.options, _request(name, line, query.text))
    except ParameterError as error:
        return Result(line.number, line.id, FAILED, error.message)
    except QueryRefused as error:
        return _refusal(line, error)


def _request(name: str, line: Line, text: str) -> RequestId:
    knobs = "" if line.options == Options() else repr(line.options)
    question = f"{text}\0{knobs}" if knobs else text
    former = f"{name}: {line.id}"
    return RequestId.of(Asker.REPLAY, name, line.id, question=question, former=former)


def _refusal(line: Line, error: SparseqError) -> Result:
    status = FAILED if isinstance(error, NotSql) else REFUSED
    hint = f" ({error.hint})" if error.hint else ""
    return Result(line.number, line.id, status, error.message + hint)


def _result(line: Line, outcome: Outcome) -> Result:
    if outcome.answer is None:
        assert outcome.refused is not None
        return _refusal(line, outcome.refused)
    return Result(line.number, line.id, ANSWERED, answer=outcome.answer, recorded=outcome.recorded)


@dataclass(frozen=True)
class Prices:
    """The cost of a log, on public facts alone.

    Attributes:
        lines, answered, refused, failed: How many lines there are, and how many could be answered.
        worst_case: What a person with a full contribution to every query would pay, in squared
            norm; only those whose queries count a person more than once can pay more.
        affordable: How many of the lines that can be answered worst-case composition would
            answer, in order, within one budget.
        reasons: Of what is refused or fails, and how many lines each, the most frequent first.
    """

    lines: int
    answered: int
    refused: int
    failed: int
    worst_case: float
    affordable: int
    reasons: dict[str, int]


def price_list(
    store: Store, log: Log, advance: Callable[[int], None] = lambda lines: None
) -> Prices:
    """Check and price every line of a log; nothing is asked, no row is looked at."""
    count = Counter[str]()
    reasons = Counter[str]()
    total, affordable = 0.0, 0
    for result, plans in dry_run(store, log.lines()):
        count[result.status] += 1
        if plans:
            total += sum(plan.worst_case_charge for plan in plans)
            affordable += total <= store.guarantee.norm_budget * (1 + 1e-9)
        elif result.reason is not None and (
            len(reasons) < MOST_REASONS or result.reason in reasons
        ):
            reasons[result.reason] += 1
        advance(count.total())
    return Prices(
        count.total(),
        count[ANSWERED],
        count[REFUSED],
        count[FAILED],
        total,
        affordable,
        dict(reasons.most_common()),
    )
