"""Watches a store tick after tick, and dies on the way as it is told; driven by test_watch_crash.

    python watching.py STORE TICKS DEATH…

Each DEATH, `N before` or `N after`, forks a child that opens the store, goes on with the watch
where it was, and kills itself before or after its Nth COMMIT. A last child finishes.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import sparseq
from sparseq.series.watch import ActiveWatch

THRESHOLDS = [0.95, 0.5]


class Dying:
    """A connection on which the process dies before or after its Nth COMMIT."""

    def __init__(self, connection: Any, commits: int, after: bool) -> None:
        self._connection, self._left, self._after = connection, commits, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *parameters: Any) -> Any:
        self._left -= sql == "COMMIT"
        dying = sql == "COMMIT" and self._left == 0
        if dying and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = self._connection.execute(sql, *parameters)
        if dying:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def watch(con: sparseq.Store, ticks: int) -> list[Any]:
    """Ask two queries and watch, a tick after the other, each under its request id."""
    active = ActiveWatch(con, ticks, THRESHOLDS)
    seen = []
    for tick in range(1, ticks + 1):
        for part in "ab":
            con.sql("SELECT count(*) FROM t", request_id=f"{tick}{part}")
        seen.append(active.tick(tick, f"day {tick}"))
    return seen


def main() -> None:
    path, ticks, *deaths = sys.argv[1:]
    for death in [*deaths, ""]:
        child = os.fork()
        if child == 0:
            con = sparseq.connect(path)
            if death:
                commits, when = death.split()
                con.stream.ledger._con = Dying(con.backend.database, int(commits), when == "after")  # type: ignore
            watch(con, int(ticks))
            con.close()
            os._exit(3 if death else 0)
        _, status = os.waitpid(child, 0)
        expected = -signal.SIGKILL if death else 0
        if os.waitstatus_to_exitcode(status) != expected:
            sys.exit(f"{death!r} ended with {status}")


if __name__ == "__main__":
    import preloaded  # noqa: F401

    main()
