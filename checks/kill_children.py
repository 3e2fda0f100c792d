"""The store that is killed, and the child processes that ask it questions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparseq
import sparseq.store.create  # what every child would else import
from sparseq.store.curator import forget
from sparseq.stream.batches import Request

PEOPLE = 30
QUERIES = (
    "SELECT count(*) AS n FROM t",
    "SELECT day, sum(amount) AS x FROM t WHERE day BETWEEN 0 AND 9 GROUP BY day",
    "SELECT count(DISTINCT who) AS n FROM t WHERE day < 5",
)
ENDS = ("", ".wal", ".session")


def make(path: Path) -> None:
    """Make a store of a few people with room for all that will be asked."""
    rows = [(who, who * k % 10, float(k)) for who in range(PEOPLE) for k in range(3)]
    who, day, amount = zip(*rows, strict=True)
    table = pa.table({"who": who, "day": day, "amount": amount})
    sparseq.create(
        path,
        {"t": table},
        user="who",
        bounds={"amount": (0, 10)},
        purposes=[sparseq.Questions(in_or_out=True, counts=100_000)],
    ).close()


def live(path: str, seed: int) -> None:
    """Use a store until killed; a line after each step says how far it has come."""
    draw = random.Random(seed)
    con = sparseq.connect(path)
    step = 0
    while True:
        step += 1
        kind = draw.choices(["ask", "many", "ingest", "erase", "checkpoint"], [8, 2, 2, 1, 1])[0]
        name = f"{seed}.{step}"
        if kind == "ask":
            con.sql(draw.choice(QUERIES), request_id=name)
        elif kind == "many":
            asked = [Request(con.lower(q), request_id=f"{name}.{i}") for i, q in enumerate(QUERIES)]
            list(con.ask_many(asked))
        elif kind == "checkpoint":  # as DuckDB does when its log is long
            con.backend.database.execute("CHECKPOINT")
        else:
            who = 1000 + 100 * seed + step
            rows = {"who": [who, 1], "day": [1, 2], "amount": [1.0, 2.0]}
            con.ingest(pa.table(rows), once=name)
            if kind == "erase":
                forget(con, str(who))
        say(state(con))


def state(con: sparseq.Store) -> dict[str, Any]:
    """Return a store's progress: its last answers, spending, loaded rows and erasures."""
    ((erased,),) = con.backend.database.execute(
        "SELECT count(*) FROM ledger.users WHERE id IS NULL"
    ).fetchall()
    return {
        "releases": con.released,
        "last": [hashlib.sha256(r.answer).hexdigest() for r in con.releases(3)],
        "spent": sum(con.stream.accounts.spent.tolist()),
        "taken": len(con.taken()),
        "erased": erased,
    }


def say(fact: dict[str, Any]) -> None:
    """Write one line at once: a kill can't cut it."""
    os.write(1, (json.dumps(fact) + "\n").encode())


def serve() -> None:
    """Fork a child for each line of standard input, `PATH SEED`: it has imported everything."""
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401 - and, where it is installed, at its first Arrow table
    for line in sys.stdin:
        path, seed = line.rsplit(" ", 1)
        child = os.fork()
        if child == 0:
            say({"pid": os.getpid()})
            try:
                live(path, int(seed))
            except BaseException as error:
                say({"error": repr(error)})
            os._exit(1)
        os.waitpid(child, 0)
        say({"dead": True})


class Children:
    """The process whose children are killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "checks.kills", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )

    def killed(self, path: Path, seed: int, lines: int, delay: float) -> dict[str, Any] | None:
        """Run one life of these steps, and a little more; return its last report."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{path} {seed}\n")
        stdin.flush()
        pid, said = json.loads(stdout.readline())["pid"], None
        for count, line in enumerate(stdout):
            fact = json.loads(line)
            if "error" in fact:
                raise RuntimeError(fact["error"])
            if "dead" in fact:
                return said
            said = fact
            if count == lines:
                time.sleep(delay)
                os.kill(pid, signal.SIGKILL)
        raise RuntimeError("the children are gone")

    def close(self) -> None:
        """End it."""
        self._process.communicate()
