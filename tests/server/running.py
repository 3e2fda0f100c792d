"""A server as a process of its own, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from sparseq.server.tokens import Role, Tokens

ROOT = Path(__file__).parent.parent.parent


class Running:
    """`sparseq serve` of a store; `url` is where it listens, `pg` too if `--pg` is given."""

    def __init__(self, store: Path, *options: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "sparseq",
                "serve",
                str(store),
                "--http",
                "127.0.0.1:0",
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert "is served at http://" in said, said
        places = [word for word in said.split() if "://" in word]
        self.url, self.pg = places[0], places[-1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it with SIGTERM, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def secret(store: Path, name: str, role: Role = Role.ANALYST) -> str:
    """Make a token."""
    tokens = Tokens.beside(store)
    made = tokens.create(name, role)
    tokens.close()
    return made
