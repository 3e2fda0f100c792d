"""Replay of a log of one-day queries, against asking them one by one, in one run.

The store is that of `benchmarks.engine`: 10 million rows, 1 million users, 365 days. One by one is
`con.sql` with a request id, durable each, over the first lines of the log and on a copy of the
same store; that is its best case, as nobody has been left out yet. Replay is everything from the
file of the log to the file of answers.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sparseq
from benchmarks.engine import ONE_DAY, _calendar, _create, _folder, _generate, _info
from sparseq.replay import AnswerFile, Log, Summary, replay

LINES, ONE_BY_ONE = 10_000, 300
AT_LEAST = 5.0  # times the throughput of one by one
MOST_GROWTH = 64.0  # MiB, from a quarter of the log to its end


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    with _folder() as folder:
        events = folder / "events.parquet"
        _generate(events)
        _create(folder / "one.sparseq", events).close()
        shutil.copy(folder / "one.sparseq", folder / "many.sparseq")
        log = folder / "log.jsonl"
        _write_log(log)
        before = _one_by_one(folder / "one.sparseq", 0)
        summary, growth = _replay(folder, log)
        after = _one_by_one(folder / "one.sparseq", ONE_BY_ONE)
        yield from _figures(2 / (1 / before + 1 / after), summary, growth)


def _figures(one: float, summary: Summary, growth: float) -> Iterator[dict[str, Any]]:
    many = summary.lines / summary.seconds
    yield _info("replay.one_by_one", one, "queries/s")
    yield _info("replay.throughput", many, f"queries/s, {summary.answered:,} answered")
    yield {
        "name": "replay.ratio",
        "figure": many / one,
        "unit": "x one by one",
        "limit": f">= {AT_LEAST:g}",
        "ok": many >= AT_LEAST * one and summary.answered == LINES,
    }
    yield {
        "name": "replay.memory_growth",
        "figure": growth,
        "unit": f"MiB, line {LINES // 4:,} to {LINES:,}",
        "limit": f"<= {MOST_GROWTH:g}",
        "ok": growth <= MOST_GROWTH,
    }


def _write_log(path: Path) -> None:
    days = _calendar()
    with open(path, "w") as file:
        for i in range(LINES):
            file.write(json.dumps({"sql": ONE_DAY.format(day=days[i % len(days)])}) + "\n")


def _one_by_one(path: Path, start: int) -> float:
    """Return queries a second."""
    days = _calendar()
    with sparseq.connect(path) as con:
        for day in days[-3:]:
            con.sql(ONE_DAY.format(day=day), fresh=True)
        started = time.perf_counter()
        for i in range(start, start + ONE_BY_ONE):
            con.sql(ONE_DAY.format(day=days[i % len(days)]), request_id=f"one {i}")
        return ONE_BY_ONE / (time.perf_counter() - started)


def _replay(folder: Path, path: Path) -> tuple[Summary, float]:
    """Return the summary, and by how many MiB memory grew after a quarter of the log."""
    memory: list[float] = []

    def advance(lines: int) -> None:
        if lines == LINES // 4 or lines == LINES:
            memory.append(_resident())

    with sparseq.connect(folder / "many.sparseq") as con:
        log = Log(path)
        summary = replay(con, log, AnswerFile(folder / "a.parquet", {}, False), advance=advance)
    return summary, memory[-1] - memory[0]


def _resident() -> float:
    """Return the memory in use, in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


if __name__ == "__main__":
    for figure in run():
        print(figure)
