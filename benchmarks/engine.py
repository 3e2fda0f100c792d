"""The engine against the same non-private query in plain DuckDB, in one run.

Events of 10 million rows, 1 million users, 365 days and 50 activities. Plain is a plain table,
rows in time order. Each figure is a median over alternating repetitions; our time is everything
from the SQL text to the durable, noised answer.
"""

from __future__ import annotations

import datetime as dt
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

import sparseq

ROWS, USERS, DAYS, ACTIVITIES = 10_000_000, 1_000_000, 365, 50
ONE_DAY = "SELECT count(DISTINCT user_id) AS users FROM events WHERE day = DATE '{day}'"
BY_ACTIVITY = "SELECT activity, sum(amount) AS total FROM events GROUP BY activity"


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    with _folder() as folder:
        events = folder / "events.parquet"
        _generate(events)
        started = time.perf_counter()
        _create(folder / "events.sparseq", events).close()
        yield _info("engine.create_seconds", time.perf_counter() - started, "s")
        plain = duckdb.connect(str(folder / "plain.duckdb"))
        plain.execute(f"CREATE TABLE events AS SELECT * FROM '{events}'")
        with sparseq.connect(folder / "events.sparseq") as con:
            yield from _one_day(con, plain)
            yield from _stream(con)
            yield from _by_activity(con, plain)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield _info("engine.peak_memory", peak, "MiB, ours and plain together")


def _one_day(con: sparseq.Store, plain: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    """(a) One-day distinct users, another day each time: at most 2x, plus at most 5 ms."""
    days = iter(_days(con, plain))

    def pair() -> tuple[Callable[[], Any], Callable[[], Any]]:
        sql = ONE_DAY.format(day=next(days))
        return (lambda: plain.execute(sql).fetchall()), (lambda: con.sql(sql, fresh=True))

    theirs, ours = _alternate(pair, 41)
    ok = ours <= 2 * theirs + 0.005
    yield _info("engine.one_day_plain", theirs * 1e3, "ms")
    yield {
        "name": "engine.one_day",
        "figure": ours * 1e3,
        "unit": "ms",
        "limit": f"<= {(2 * theirs + 0.005) * 1e3:.3g} (2x plain + 5)",
        "ok": ok,
    }


def _by_activity(con: sparseq.Store, plain: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    """(b) Sum of amount by 50 activities over everything: at most 6x."""

    def pair() -> tuple[Callable[[], Any], Callable[[], Any]]:
        return (lambda: plain.execute(BY_ACTIVITY).fetchall()), (
            lambda: con.sql(BY_ACTIVITY, fresh=True)
        )

    started = time.perf_counter()
    con.sql(BY_ACTIVITY, fresh=True)
    yield _info("engine.by_activity_first", (time.perf_counter() - started) * 1e3, "ms")
    theirs, ours = _alternate(pair, 21)
    yield _info("engine.by_activity_plain", theirs * 1e3, "ms")
    yield _info("engine.by_activity_rows", ROWS / ours / 1e6, "million rows/s")
    yield {
        "name": "engine.by_activity",
        "figure": ours / theirs,
        "unit": "x plain",
        "limit": "<= 6",
        "ok": ours <= 6 * theirs,
    }


def _stream(con: sparseq.Store) -> Iterator[dict[str, Any]]:
    """(c) 365 one-day queries in a row, durable each: at least 100 a second."""
    started = time.perf_counter()
    for day in _calendar():
        con.sql(ONE_DAY.format(day=day), fresh=True)
    rate = DAYS / (time.perf_counter() - started)
    yield {
        "name": "engine.stream",
        "figure": rate,
        "unit": "queries/s",
        "limit": ">= 100",
        "ok": rate >= 100,
    }


def _alternate(
    pair: Callable[[], tuple[Callable[[], Any], Callable[[], Any]]], times: int
) -> tuple[float, float]:
    """Return the median seconds of two things done in turn."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for spent, do in zip(seconds, pair(), strict=True):
            started = time.perf_counter()
            do()
            spent.append(time.perf_counter() - started)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def _calendar() -> list[str]:
    first = dt.date(2024, 1, 1)
    return [str(first + dt.timedelta(days=i)) for i in range(DAYS)]


def _days(con: sparseq.Store, plain: duckdb.DuckDBPyConnection) -> list[str]:
    """Return days in a scattered order, having warmed both sides up."""
    days = _calendar()
    scattered = [days[i * 89 % DAYS] for i in range(DAYS)]
    for day in scattered[-3:]:
        plain.execute(ONE_DAY.format(day=day)).fetchall()
        con.sql(ONE_DAY.format(day=day), fresh=True)
    return scattered[:-3]


def _create(path: Path, events: Path) -> sparseq.Store:
    return sparseq.create(
        path,
        {"events": events},
        user="user_id",
        kappa=0.5,
        bounds={"amount": (0, 500)},
        keys={"activity": tuple(f"activity_{i:02d}" for i in range(ACTIVITIES))},
        purposes=[sparseq.Questions(in_or_out=True, counts=100)],
    )


def _generate(path: Path) -> None:
    """Write the events in a separate process, so that its memory is not counted."""
    sizes = ["--rows", str(ROWS), "--users", str(USERS)]
    sizes += ["--days", str(DAYS), "--activities", str(ACTIVITIES)]
    command = [sys.executable, "data/events.py", str(path), *sizes]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sparseq-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _info(name: str, figure: float, unit: str) -> dict[str, Any]:
    return {"name": name, "figure": figure, "unit": unit, "limit": None, "ok": True}
