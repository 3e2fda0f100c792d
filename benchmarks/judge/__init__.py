"""A judge from outside: does what clients saw fit the promise? In the manner of Jepsen.

    python -m benchmarks judge --runs 20               drive the real thing, and judge it
    python -m benchmarks.judge check HISTORY EXPORT    judge what was written down before
    python -m benchmarks.judge planted                 is every planted fault found?

`workload.py` drives servers, drivers, kills and copies from outside, as processes, and writes down
what each client sent and got, and when. `export.py` is the curator's export at the end. `check.py`
knows neither: it reads the two files, counts with plain DuckDB, and imports nothing of sparseq.
docs/judge.md has what is checked, and both formats.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RUNS = 20


def run(runs: int = RUNS) -> Iterator[dict[str, Any]]:
    """Yield how many findings so many lives have; a folder with findings stays."""
    from benchmarks.judge.check import History, judged
    from benchmarks.judge.workload import lives  # needs psycopg, which the judge does not

    folder = Path(tempfile.mkdtemp(prefix="sparseq-judge-"))
    totals = {"answers": 0, "lost": 0, "kills": 0, "put_back": 0}
    findings = 0
    for history, export in lives(folder, runs):
        lines = history.read_text("utf-8").splitlines()
        read = History.read(lines)
        totals["answers"] += sum(op.end == "answer" for op in read.asked)
        totals["lost"] += sum(op.end in ("", "lost") for op in read.asked)
        totals["kills"] += sum('"kill -9"' in line for line in lines)
        totals["put_back"] += sum("in the store's place" in line for line in lines)
        found = judged(history, export)
        findings += len(found)
        for finding in found:
            print(f"{history.parent}: {finding}")
        if not found:
            shutil.rmtree(history.parent)
    for name, total in totals.items():
        yield {"name": f"judge.{name}", "figure": total, "unit": f"in {runs} runs", "limit": None,
               "ok": True}  # fmt: skip
    yield {"name": "judge.findings", "figure": findings, "unit": f"in {runs} runs", "limit": "0",
           "ok": not findings}  # fmt: skip
