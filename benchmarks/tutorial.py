"""The tutorial, as it is written: every command of docs/tutorial.md, and how exact its answers are.

    python -m benchmarks tutorial

The commands run in an empty folder, with noise from the operating system. The truth is counted in
the made-up visits themselves.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sparseq
from sparseq.answers.answer import Answer
from sparseq.released.result_columns import ColumnRole, column_parts
from sparseq.store.curator import exact_sql

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
QUESTIONS, MOST_SHARE, MOST_OF_SERIES = 10, 0.10, 0.20


def commands() -> list[list[str]]:
    """Return the page's commands, in words."""
    blocks = re.findall(
        r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return [shlex.split(line[2:]) for b in blocks for line in b.splitlines() if line[:2] == "$ "]


def run() -> Iterator[dict[str, Any]]:
    """Yield how wide intervals are, as parts of their values, and how often they hold the truth."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for name in ("data", "queries"):
            (here / name).symlink_to(ROOT / name)
        began = time.perf_counter()
        for words in commands():
            perform(words, here)
        seconds = time.perf_counter() - began
        with sparseq.connect(here / "ward.sparseq") as store:
            asked = [Answer.from_bytes(r.answer) for r in store.releases()][:QUESTIONS]
            exact = [exact_sql(store, answer.facts.query).to_pylist() for answer in asked]
        with open(here / "weekly.csv", encoding="utf-8", newline="") as file:
            weekly = [float(r["error"]) / float(r["value"]) for r in csv.DictReader(file)]
    widths = [statistics.median(row[0] for row in shares(answer)) for answer in asked]
    held = [all(inside(answer, rows)) for answer, rows in zip(asked, exact, strict=True)]
    yield figure("tutorial.half_width", statistics.median(widths), "of the value", MOST_SHARE)
    yield figure("tutorial.widest_question", max(widths), "of the value")
    wide = sum(share > 1 for answer in asked for share, _ in shares(answer))
    yield figure("tutorial.imprecise", wide, "values", 0)
    yield figure("tutorial.series", statistics.median(weekly), "of the value", MOST_OF_SERIES)
    yield figure("tutorial.series_widest", max(weekly), "of the value")
    yield figure("tutorial.held", sum(held), f"of {QUESTIONS} questions")
    yield figure("tutorial.seconds", seconds, "s")


def perform(words: list[str], folder: Path) -> None:
    """Run a command as a separate process; `sparseq` is this checkout's."""
    program = ["-m", "sparseq"] if words[0] == "sparseq" else []
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *program, *words[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)}\n{done.stderr}")


def shares(answer: Answer) -> Iterator[tuple[float, str]]:
    """Yield half the width of each interval as a part of its value, and the column."""
    table = answer.arrow()
    for name, parts in column_parts(table).items():
        if ColumnRole.LOW in parts:
            for row in table.to_pylist():
                half = (row[parts[ColumnRole.HIGH]] - row[parts[ColumnRole.LOW]]) / 2
                yield half / abs(row[name]), name


def inside(answer: Answer, exact: list[dict[str, Any]]) -> Iterator[bool]:
    """Yield for each value whether its interval holds the exact one."""
    table = answer.arrow()
    parts = column_parts(table)
    noised = [name for name in parts if ColumnRole.LOW in parts[name]]
    keys = [name for name in parts if name not in noised]
    found = {tuple(row[k] for k in keys): row for row in exact}
    for row in table.to_pylist():
        true = found[tuple(row[k] for k in keys)]
        for name in noised:
            yield (
                row[parts[name][ColumnRole.LOW]] <= true[name] <= row[parts[name][ColumnRole.HIGH]]
            )


def figure(name: str, value: float, unit: str, limit: float | None = None) -> dict[str, Any]:
    """Return a figure, and whether it keeps its limit."""
    ok = limit is None or value <= limit
    return {"name": name, "figure": value, "unit": unit, "limit": limit, "ok": ok}
