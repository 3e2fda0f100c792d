"""Settings of a judged life, and the book in which clients record their observations."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DAYS = range(1, 6)
FEW, MANY, KAPPA = 24, 160, 8.0
"""People who are in or out, or weighted: of a few dozen, pilots know too little."""
ANSWERS, IN_OR_OUT = "answers=240", "in-or-out,counts=1500"
QUOTA, COMMON, SPARE = 6, 6, 15
MOST_SECONDS = 240.0
"""Seconds that clients may go without answers, on a machine that does much else."""
SPARSEQ = (sys.executable, "-m", "sparseq")
COLUMNS = {"who": "BIGINT", "day": "BIGINT", "x": "DOUBLE"}
Row = tuple[int, int, float]


class Book:
    """The history, a line at once; from any thread."""

    def __init__(self, path: Path) -> None:
        self._file, self._lock, self._ops = path.open("w", encoding="utf-8"), threading.Lock(), 0

    def note(self, what: str, **facts: Any) -> None:
        """Write a line."""
        with self._lock:
            line = {"at": time.monotonic(), "what": what} | facts
            self._file.write(json.dumps(line, default=float) + "\n")
            self._file.flush()

    def begin(self, what: str, **facts: Any) -> int:
        """Write that something is sent; return its number."""
        with self._lock:
            self._ops += 1
            number = self._ops
        self.note(what, op=number, **facts)
        return number

    def close(self) -> None:
        """Write no more."""
        self._file.close()
