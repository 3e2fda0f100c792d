"""Replays a log in children that kill themselves (-9) at random moments; then to its end.

    python killed.py STORE LOG OUT KILLS SEED

Each child is forked before anything is open. Moments: between two lines, before a transaction, in
the middle of one, after it and before the rows are handed on, and before a part gets its name.
Prints the moments, and the summary of the run that was left alone, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
import preloaded  # noqa: F401

import sparseq
from sparseq.base import whole_files as writing
from sparseq.ledger._duckdb.journal import Journal
from sparseq.ledger._duckdb.segments import Segments
from sparseq.replay import AnswerFile, Log, answer_file, replay
from sparseq.replay import log as replay_log
from sparseq.stream import batches as groups

MOMENTS = {"line": 60, "begin": 6, "middle": 6, "commit": 6, "part": 3}
"""And how many of its kind a run lives to see at most."""


def die_at(moment: str, left: int) -> Callable[[int], None]:
    """Arrange for this process to die; return what is told of every line."""

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(function: Any, before: bool) -> Any:
        def wrapped(*args: Any) -> Any:
            if before:
                count()
            result = function(*args)
            if not before:
                count()
            return result

        return wrapped

    if moment in ("begin", "commit"):
        Journal.commit = around(Journal.commit, moment == "begin")  # type: ignore[method-assign]
    elif moment == "middle":
        Segments.append = around(Segments.append, False)  # type: ignore[method-assign]
    elif moment == "part":
        writing.os.replace = around(os.replace, True)  # type: ignore[attr-defined]
    return (lambda lines: count()) if moment == "line" else lambda lines: None


def run(store: Path, log: Path, out: Path, advance: Callable[[int], None]) -> None:
    with sparseq.connect(store) as con:
        summary = replay(con, Log(log), AnswerFile(out, {"log": log.name}, True), advance=advance)
    print(json.dumps(asdict(summary)), flush=True)


def main(store: Path, log: Path, out: Path, kills: int, seed: int) -> None:
    groups.BLOCK = replay_log.BLOCK = 64
    groups.GROUP, answer_file.PART_ROWS = 16, 48
    draw = random.Random(seed)
    for n in range(kills + 1):
        moment = draw.choice(list(MOMENTS))
        left = draw.randint(1, MOMENTS[moment])
        if (child := os.fork()) == 0:
            run(store, log, out, die_at(moment, left) if n < kills else lambda lines: None)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if n < kills:
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (moment, left)
            print(json.dumps([moment, left]), flush=True)
        else:
            assert status == 0


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *map(int, sys.argv[4:6]))  # type: ignore[arg-type]
