"""Asks a store one query after another until it is killed; driven by test_crash.py.

    python endless_stream.py STORE

Each line of standard input, `FIRST HOW`, forks a child that opens the store and asks query number
FIRST, FIRST + 1, … A child is a copy of this process, which has imported everything and opened
nothing, so that it is at work within a few milliseconds. HOW says where it kills itself:

    never       it goes on until it is killed
    before      when it is about to commit a release
    after       when it has committed one, and before it says so
    snapshot    in the middle of taking a snapshot
    ingest      in the middle of taking in rows

Lines out: `pid N`, `commit` before each commit, `answer {…}` after each, `dead` in the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import sparseq
import sparseq.ledger._duckdb.segments

SIGMAS = (1.0, 3.0, 40.0, 10 / 3, 7.0)  # in units of sigma_0


def question(i: int) -> tuple[str, float]:
    """Query number i, and how much more noise than sigma_0 it asks for."""
    day = i % 10
    sql = (
        f"SELECT count(DISTINCT who) AS x FROM t WHERE day = {day}",
        f"SELECT count(*) AS x FROM t WHERE day <= {day}",
        "SELECT day, sum(amount) AS x FROM t WHERE day BETWEEN 0 AND 9 GROUP BY day",
        "SELECT count(*) AS x, sum(amount) AS y FROM t",
    )
    return sql[i % 4], SIGMAS[i % 5]


def say(line: str) -> None:
    """Write one line at once: a kill can't cut it."""
    os.write(1, (line + "\n").encode())


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """A connection on which the process dies before or after a statement that starts so."""

    def __init__(self, connection: Any, start: str, after: bool = False) -> None:
        self._connection, self._start, self._after = connection, start, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *parameters: Any) -> Any:
        dying = sql.startswith(self._start)
        if dying and not self._after:
            die()
        result = self._connection.execute(sql, *parameters)
        if dying:
            die()
        return result


def announced(commit: Callable[..., None]) -> Callable[..., None]:
    def announce(*args: Any) -> None:
        say("commit")
        commit(*args)

    return announce


def ask(con: sparseq.Store, i: int) -> sparseq.Answer:
    """Ask query number i under its request id."""
    sql, factor = question(i)
    return con.sql(sql, sigma=factor * con.guarantee.sigma_0, request_id=f"q{i}")


def run(path: str, first: int, how: str) -> None:
    con = sparseq.connect(path)
    journal = con.stream.ledger
    if how in ("before", "after"):
        journal._con = Dying(con.backend.database, "COMMIT", how == "after")
    elif how == "snapshot":
        journal._con = Dying(con.backend.database, "DELETE FROM ledger.snapshot")
    elif how == "ingest":
        con.backend.storage._con = Dying(con.backend.database, "COMMIT")
        rows = {"who": [0, 999], "day": [0, 0], "amount": [1.0, 1.0]}
        con.ingest(pa.table(rows), once="rows")
    journal.commit = announced(journal.commit)  # type: ignore[method-assign]
    for i in range(first, first + 10_000):
        answer = ask(con, i)
        digest = hashlib.sha256(answer.to_bytes()).hexdigest()
        if how == "snapshot" and i == first + 3:
            journal.fold(0)
        say("answer " + json.dumps({"i": i, "release": answer.facts.release, "sha256": digest}))


def main() -> None:
    path = sys.argv[1]
    sparseq.ledger._duckdb.segments.SEGMENT_BYTES = 4000  # a new table after three releases or so
    for line in sys.stdin:
        first, how = line.split()
        child = os.fork()
        if child == 0:
            try:
                say(f"pid {os.getpid()}")
                run(path, int(first), how)
            except BaseException as error:
                say(f"error {error!r}")
            os._exit(1)
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    import preloaded  # noqa: F401

    main()
