"""A process that runs tasks: `python -m sparseq.lake.worker`, see `sparseq.lake.fleets`."""

from __future__ import annotations

import os
import sys

from sparseq.lake.fleets import receive, send
from sparseq.lake.task import told


def main() -> None:
    """Run tasks from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not mix with the results
    while task := receive(sys.stdin.buffer):
        send(answers, told(task))


if __name__ == "__main__":
    main()
