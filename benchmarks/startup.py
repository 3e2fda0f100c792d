"""The cost of a command before its work: processor time of whole processes.

python -m benchmarks startup

Times are of processes whose modules are compiled, like those of an installed package. Each is also
given as a multiple of importing NumPy, DuckDB, PyArrow, sqlglot and click alone, measured in turn:
that holds on other machines, and on busy ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparseq

REPETITIONS = 7
QUERY = "SELECT count(*) AS n FROM t WHERE day = 3"
MOST = {"--help": 0.15, "budget": 0.4, "history": 0.5, "sql": 0.7}
"""Seconds of processor time."""
MOST_TIMES = {"--help": 0.4, "budget": 1.4, "history": 1.7, "sql": 2.5}
"""As parts of what the libraries take."""
LIBRARIES = "import numpy, duckdb, pyarrow, sqlglot, click"


def run() -> Iterator[dict[str, Any]]:
    """Yield the least processor time of each command, in seconds, and as a part of theirs."""
    spent = measured(REPETITIONS)
    for name, limit in MOST.items():
        yield _figure(name, spent[name], "s of CPU", limit)
        yield _figure(
            f"{name}.times", spent[name] / spent[LIBRARIES], "× the libraries", MOST_TIMES[name]
        )


def _figure(name: str, figure: float, unit: str, limit: float) -> dict[str, Any]:
    name = f"startup.{name.strip('-')}"
    return {
        "name": name,
        "figure": figure,
        "unit": unit,
        "limit": f"≤ {limit}",
        "ok": figure <= limit,
    }


def measured(repetitions: int) -> dict[str, float]:
    """Return the least processor time of each command and of the libraries, taken in turn."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "s.sparseq")
        rows = pa.table({"who": list(range(1000)), "day": [i % 7 for i in range(1000)]})
        sparseq.create(
            store, {"t": rows}, user="who", purposes=[sparseq.Questions(answers=1000)]
        ).close()
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = folder
        commands = {name: ["-m", "sparseq", name, str(store)] for name in MOST}
        commands["--help"] = ["-m", "sparseq", "--help"]
        commands["sql"].append(QUERY)
        commands[LIBRARIES] = ["-c", LIBRARIES]
        least = dict.fromkeys(commands, float("inf"))
        for turn in range(repetitions + 1):  # the first one compiles
            for name, command in commands.items():
                spent = seconds(command, env)
                least[name] = min(least[name], spent) if turn else least[name]
    return least


def seconds(command: list[str], env: Mapping[str, str]) -> float:
    """Return the processor time of one process, its children's included."""
    before = os.times()
    subprocess.run([sys.executable, *command], capture_output=True, check=True, env=env)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
