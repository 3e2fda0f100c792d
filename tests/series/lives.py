"""Runs `sparseq` commands in short lives; driven by test_follow.py.

    python lives.py

Each line of standard input, a JSON list [N, argument, …], forks a child that runs the command and
kills itself at its N-th moment: before or after a release, rows or a file become durable. With N 0
it lives to the end. A child is a copy of this process, which has imported everything and opened
nothing. A line comes back for each: the exit status, negative for a signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
import preloaded  # noqa: F401

from sparseq.base import whole_files as writing
from sparseq.cli.app import sparseq as command
from sparseq.ledger._duckdb.journal import Journal
from sparseq.load._duckdb.storage import Storage

left = 0


def moment() -> None:
    """One of the moments at which it may die."""
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def around(owner: Any, name: str) -> None:
    """Make what is before and after a call such moments."""
    call = getattr(owner, name)

    def wrapped(*args: Any) -> Any:
        moment()
        result = call(*args)
        moment()
        return result

    setattr(owner, name, wrapped)


def at_the_end_of_work(self: Storage, work: Callable[[], Any], *then: Callable[[], None]) -> Any:
    def worked() -> Any:
        done = work()
        moment()  # all is written, and nothing is durable
        return done

    done = in_transaction(self, worked, *then)
    moment()
    return done


in_transaction = Storage.in_transaction


def main() -> None:
    global left
    around(Journal, "commit")
    around(writing.os, "replace")
    Storage.in_transaction = at_the_end_of_work  # type: ignore[method-assign]
    for line in sys.stdin:
        left, *args = json.loads(line)
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = 1
            try:
                command.main(args, prog_name="sparseq")
            except SystemExit as ended:
                code = int(ended.code or 0)
            os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)


if __name__ == "__main__":
    main()
