"""Processes of the command line: single commands, and a server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from checks.judge.book import MOST_SECONDS, ROOT, SPARSEQ


def command(*words: str, program: Sequence[str] = SPARSEQ) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*program, *words],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=MOST_SECONDS,
    )


def told(*words: str) -> str:
    """Return the output of a command that must succeed."""
    done = command(*words)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


class Silent(RuntimeError):
    """Nobody serves the store, or answers, any more."""


class Server:
    """A server of a store; `url` and `pg` are "" while nobody serves."""

    def __init__(self, store: str, program: Sequence[str], log: Path) -> None:
        self._command = [
            *program,
            "serve",
            store,
            "--http",
            "127.0.0.1:0",
            "--pg",
            "127.0.0.1:0",
        ]
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self.url = self.pg = ""

    def start(self) -> bool:
        """Begin; tell whether it serves."""
        with self._log.open("a") as log:
            process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
            )
        assert process.stdout is not None
        places = re.findall(r"\w+://[\d.:]+", process.stdout.readline().partition(" at ")[2])
        if len(places) != 2:
            process.wait(MOST_SECONDS)
            return False
        self._process, (self.url, self.pg) = process, places
        return True

    def end(self, how: signal.Signals) -> None:
        """End it, with SIGTERM or SIGKILL."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(MOST_SECONDS)
            self._process, self.url, self.pg = None, "", ""
