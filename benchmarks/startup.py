"""What a command costs before it does anything: processor time of whole processes.

python -m benchmarks startup
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparseq

REPETITIONS = 7
MOST: dict[str, float | None] = {"--help": 0.15, "budget": 0.5, "history": None}


def run() -> Iterator[dict[str, Any]]:
    """Yield the least processor time of each command, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "s.sparseq")
        rows = pa.table({"who": list(range(1000)), "day": [i % 7 for i in range(1000)]})
        with sparseq.create(store, rows, user="who", table="t", seed=1) as con:
            con.sql("SELECT count(*) AS n FROM t WHERE day = 3")
        for name, limit in MOST.items():
            command = [name] if name.startswith("-") else [name, str(store)]
            spent = min(seconds(command) for _ in range(REPETITIONS))
            yield {
                "name": f"startup.{name.strip('-')}",
                "figure": spent,
                "unit": "s of CPU",
                "limit": None if limit is None else f"≤ {limit}",
                "ok": limit is None or spent <= limit,
            }


def seconds(command: list[str]) -> float:
    """Return the processor time of one command, its children's included."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "sparseq", *command], capture_output=True, check=True)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
