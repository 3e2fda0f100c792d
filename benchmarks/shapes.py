"""Ad-hoc questions of many shapes, each against the same non-private query in plain DuckDB.

    python -m benchmarks.shapes                                   10 million rows, a table
    python -m benchmarks.shapes --rows 2000000 --users 200000 --only weekday --json
    python -m benchmarks.shapes --folder /tmp/shapes --only day   keeps the store for the next time
    python -m benchmarks.shapes --people pilots                   people are weighted, C is chosen

Every repetition asks with new constants, so that no result can be kept from the last one; `--seed`
draws others. Ours and plain take turns. Our time is everything from the SQL text to the durable,
noised answer; the times of the reduction, the filter and the commit are given as well. Everybody
still pays in every repetition: that is checked.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import duckdb
import numpy as np

import sparseq
from sparseq.accounting import UNITS_PER_NORM
from sparseq.stream import step

ROWS, USERS, DAYS, ACTIVITIES, TIMES = 10_000_000, 1_000_000, 365, 50, 9
FIRST = dt.date(2024, 1, 1)
SIGMA = 1e7
"""Of all noise: so coarse that whoever has most rows can pay for every question."""


@dataclass(frozen=True)
class Way:
    """A way of counting people, and its promised times.

    Attributes:
        file: File of the store.
        options: Options of every question.
        times, slack: Largest ratio of a shape's time to the plain query's, plus seconds.
        median: Largest median over all shapes.
    """

    file: str
    options: Mapping[str, float]
    times: float = 2.0
    slack: float = 0.015
    median: float = 1.3


WAYS = {
    "in-or-out": Way("events.sparseq", {"sigma": SIGMA}),
    "scale": Way("weighted.sparseq", {"scale": 100.0}),
    "pilots": Way("weighted.sparseq", {}, 3.0, 0.025, 2.0),
}
_BINS = [0, 5, 10, 20, 40, 80, 160, 500]


class Draw(random.Random):
    """Constants of a question."""

    def amount(self, low: float, high: float) -> float:
        return round(self.uniform(low, high), 4)

    def days(self, length: int) -> str:
        """Return a condition that holds for this number of days."""
        first = FIRST + dt.timedelta(self.randrange(DAYS - length + 1))
        return f"day BETWEEN DATE '{first}' AND DATE '{first + dt.timedelta(length - 1)}'"

    def day(self, last: int = DAYS) -> dt.date:
        return FIRST + dt.timedelta(self.randrange(last))


def _daily(draw: Draw, what: str, length: int) -> str:
    return (
        f"SELECT day, {what} AS n FROM events WHERE {draw.days(length)} "
        f"AND amount > {draw.amount(1, 20)} GROUP BY day"
    )


def _third(draw: Draw) -> str:
    return (
        "SELECT avg(amount) AS a FROM (SELECT user_id, amount, row_number() OVER (PARTITION BY "
        f"user_id ORDER BY day, amount) AS p FROM events WHERE amount > {draw.amount(0, 5)}) AS t "
        "WHERE p = 3"
    )


def _median(draw: Draw) -> tuple[str, str]:
    rest = f"FROM events WHERE amount > {draw.amount(0, 5)}"
    return f"SELECT median(amount, {_BINS}) AS m {rest}", f"SELECT median(amount) AS m {rest}"


def _same(text: Callable[[Draw], str]) -> Callable[[Draw], tuple[str, str]]:
    def both(draw: Draw) -> tuple[str, str]:
        sql = text(draw)
        return sql, sql

    return both


_PLAIN: dict[str, Callable[[Draw], str]] = {
    "one_day": lambda d: (
        f"SELECT count(DISTINCT user_id) AS n FROM events WHERE {d.days(1)} "
        f"AND amount > {d.amount(0, 2)}"
    ),
    "week": lambda d: (
        f"SELECT count(DISTINCT user_id) AS n FROM events WHERE {d.days(7)} "
        f"AND amount > {d.amount(0, 2)}"
    ),
    "quarter": lambda d: (
        f"SELECT count(DISTINCT user_id) AS n FROM events WHERE {d.days(91)} "
        f"AND amount > {d.amount(0, 2)}"
    ),
    "rows_by_value": lambda d: (
        f"SELECT count(*) AS n FROM events WHERE amount > {d.amount(5, 100)}"
    ),
    "users_by_value": lambda d: (
        f"SELECT count(DISTINCT user_id) AS n FROM events WHERE amount > {d.amount(5, 100)}"
    ),
    "sum_by_key": lambda d: (
        f"SELECT activity, sum(least(amount, {d.amount(400, 500)})) AS s "
        "FROM events GROUP BY activity"
    ),
    "sum_by_key_filter": lambda d: (
        "SELECT activity, sum(amount) AS s FROM events WHERE amount > "
        f"{d.amount(5, 100)} GROUP BY activity"
    ),
    "average_clamped": lambda d: f"SELECT avg(least(amount, {d.amount(50, 300)})) AS a FROM events",
    "daily_rows_year": lambda d: _daily(d, "count(*)", 365),
    "daily_users_quarter": lambda d: _daily(d, "count(DISTINCT user_id)", 91),
    "daily_users_year": lambda d: _daily(d, "count(DISTINCT user_id)", 365),
    "month_by_key": lambda d: (
        f"SELECT activity, count(*) AS n FROM events WHERE {d.days(30)} "
        f"AND amount > {d.amount(0, 2)} GROUP BY activity"
    ),
    "case_buckets": lambda d: (
        f"SELECT CASE WHEN amount < {d.amount(5, 15)} THEN 'low' WHEN amount "
        f"< {d.amount(30, 90)} THEN 'mid' ELSE 'high' END AS b, count(*) AS "
        "n FROM events GROUP BY b"
    ),
    "weekday": lambda d: (
        "SELECT dayofweek(day) AS w, count(*) AS n FROM events WHERE amount > "
        f"{d.amount(1, 20)} GROUP BY w"
    ),
    "hour": lambda d: (
        f"SELECT hour(moment) AS h, count(*) AS n FROM events WHERE amount > "
        f"{d.amount(1, 20)} GROUP BY h"
    ),
    "several_aggregates": lambda d: (
        "SELECT count(*) AS n, count(DISTINCT user_id) AS u, "
        f"avg(amount) AS a FROM events WHERE {d.days(30)} AND amount "
        f"> {d.amount(0, 2)}"
    ),
    "orders_per_person": lambda d: (
        "SELECT n, count(*) AS people FROM (SELECT user_id, "
        "least(count(*), 20) AS n FROM events WHERE amount > "
        f"{d.amount(1, 20)} GROUP BY user_id) AS t WHERE n BETWEEN 1 "
        "AND 20 GROUP BY n"
    ),
    "first_day": lambda d: (
        "SELECT first, count(*) AS people FROM (SELECT user_id, min(day) AS "
        f"first FROM events WHERE amount > {d.amount(1, 20)} GROUP BY user_id) "
        f"AS t WHERE first BETWEEN DATE '{FIRST}' AND "
        f"DATE '{FIRST + dt.timedelta(DAYS - 1)}' GROUP BY first"
    ),
    "self_join": lambda d: (
        "SELECT count(DISTINCT a.user_id) AS n FROM events AS a JOIN events AS "
        "b ON a.user_id = b.user_id AND b.day > a.day + 30 WHERE a.day = "
        f"DATE '{d.day(DAYS - 60)}' AND b.amount > {d.amount(0, 2)}"
    ),
    "text_filter": lambda d: (
        "SELECT count(*) AS n FROM events WHERE activity LIKE "
        f"'%{d.randrange(10)}' AND amount > {d.amount(0, 20)}"
    ),
    "two_tables": lambda d: (
        "SELECT k.kind, count(*) AS n FROM events AS e JOIN kinds AS k ON "
        f"k.activity = e.activity WHERE e.amount > {d.amount(1, 20)} "
        "GROUP BY k.kind"
    ),
}
SHAPES: dict[str, Callable[[Draw], tuple[str, str]]] = {
    **{name: _same(text) for name, text in _PLAIN.items()},
    "third_event": _same(_third),
    "median": _median,
}
"""Each draws (asked of a store, asked of plain DuckDB)."""


class Spent:
    """Seconds that repetitions take: on the wall, and of all processors together."""

    def __init__(self) -> None:
        self._begun = (0.0, 0.0)
        self._seconds: list[tuple[float, float]] = []

    def begin(self) -> None:
        self._begun = time.perf_counter(), time.process_time()

    def end(self) -> None:
        wall, cpu = self._begun
        self._seconds.append((time.perf_counter() - wall, time.process_time() - cpu))

    @property
    def wall_s(self) -> float:
        """The median on the wall."""
        return statistics.median(wall for wall, _ in self._seconds)

    @property
    def cpu_s(self) -> float:
        """The median of all processors together."""
        return statistics.median(cpu for _, cpu in self._seconds)


class Clock:
    """Seconds that parts of a step take, added up."""

    def __init__(self, con: sparseq.Store) -> None:
        self.seconds: Counter[str] = Counter()
        stream = con.stream
        stream.engine.contributions = self._timed("rows", stream.engine.contributions)  # type: ignore[method-assign]
        stream.ledger.commit = self._timed("commit", stream.ledger.commit)  # type: ignore[method-assign]
        step.admit = self._timed("admit", step.admit)

    def _timed(self, part: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def done(*given: Any) -> Any:
            started = time.perf_counter()
            try:
                return do(*given)
            finally:
                self.seconds[part] += time.perf_counter() - started

        return done


class Bench:
    """A store and a plain database with the same rows; those in the folder, if it has them.

    Attributes:
        create: How many times as long making the store took; None: it was there.
    """

    def __init__(self, folder: Path, rows: int, users: int, way: Way) -> None:
        self.create: float | None = None
        self.way = way
        if not (folder / way.file).exists():
            self.create = self._make(folder, rows, users)
        self.plain = duckdb.connect(str(folder / "plain.duckdb"))
        self.store = sparseq.connect(folder / way.file)
        self.clock = Clock(self.store)

    def _make(self, folder: Path, rows: int, users: int) -> float:
        events, kinds = folder / "events.parquet", folder / "kinds.parquet"
        if not kinds.exists():
            _generate(events, kinds, rows, users)
        plain = duckdb.connect(str(folder / "plain.duckdb"))
        started = time.perf_counter()
        plain.execute(f"CREATE OR REPLACE TABLE events AS SELECT * FROM '{events}'; CHECKPOINT")
        loaded = time.perf_counter()
        plain.execute(f"CREATE OR REPLACE TABLE kinds AS SELECT * FROM '{kinds}'")
        plain.close()
        before = time.perf_counter()
        keys = {"activity": [f"activity_{i:02d}" for i in range(1, ACTIVITIES + 1)]}
        store = sparseq.create(
            folder / self.way.file,
            {"events": events},
            user="user_id",
            kappa=0.5,
            bounds={"amount": (0, 500)},
            keys=keys,
            time="day",
            public={"kinds": kinds},
            purposes=[sparseq.Questions(in_or_out="sigma" in self.way.options, counts=10**6)],
        )
        ended = time.perf_counter()
        store.close()
        return (ended - before) / (loaded - started)

    def shape(self, name: str, seed: int, times: int) -> dict[str, Any]:
        """Return the figures of one shape."""
        draw, way = Draw(f"{seed} {name}"), self.way
        theirs, ours = Spent(), Spent()
        for i in range(times + 1):
            asked, plain = SHAPES[name](draw)
            theirs.begin()
            self.plain.execute(plain).fetchall()
            theirs.end()
            ours.begin()
            self.store.sql(asked, fresh=True, **self.way.options)
            ours.end()
            if i == 0:  # columns are read, loops loaded
                first = ours
                theirs, ours = Spent(), Spent()
                self.clock.seconds.clear()
        if not self._everybody_pays():
            raise AssertionError(f"{name}: somebody could not pay: nothing was measured")
        plain_s, our_s = theirs.wall_s, ours.wall_s
        shares = {p: round(1e3 * s / times, 2) for p, s in sorted(self.clock.seconds.items())}
        return {
            "name": f"shapes.{name}",
            "figure": our_s / plain_s,
            "unit": "x plain",
            "limit": f"<= {way.times + way.slack / plain_s:.3g} "
            f"({way.times:g}x + {way.slack * 1e3:g} ms)",
            "ok": our_s <= way.times * plain_s + way.slack,
            "cpu": round(ours.cpu_s / theirs.cpu_s, 2),
            "plain_cpu_ms": round(theirs.cpu_s * 1e3, 1),
            "ours_cpu_ms": round(ours.cpu_s * 1e3, 1),
            "plain_ms": round(plain_s * 1e3, 2),
            "ours_ms": round(our_s * 1e3, 2),
            "first_ms": round(first.wall_s * 1e3, 1),
            "first_cpu_ms": round(first.cpu_s * 1e3, 1),
            "parts_ms": shares,
        }

    def _everybody_pays(self) -> bool:
        """Nobody has dropped out, or counts for less because little is left."""
        stream = self.store.stream
        if stream.course is None:
            return not stream.departures.first.any()
        left = stream.accounts.left(np.arange(stream.people.inside(), dtype=np.int32))
        return int(left.min()) >= stream.course.cautious(1.0) * UNITS_PER_NORM


def run(
    rows: int = ROWS,
    users: int = USERS,
    seed: int = 1,
    times: int = TIMES,
    only: str = "",
    kept: Path | None = None,
    people: str = "in-or-out",
) -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    ratios, cpu, way = list[float](), list[float](), WAYS[people]
    with tempfile.TemporaryDirectory(prefix="sparseq-shapes-") as folder:
        bench = Bench(kept or Path(folder), rows, users, way)
        if bench.create is not None:
            yield {
                "name": "shapes.create",
                "figure": bench.create,
                "unit": "x plain table",
                "limit": "<= 2.5",
                "ok": bench.create <= 2.5,
            }
        with contextlib.closing(bench.store):
            for name in SHAPES:
                if only in name:
                    figure = bench.shape(name, seed, times)
                    ratios.append(figure["figure"])
                    cpu.append(figure["cpu"])
                    yield figure
    median = statistics.median(ratios)
    yield {
        "name": "shapes.median",
        "figure": median,
        "unit": "x plain",
        "limit": f"<= {way.median}",
        "ok": median <= way.median,
        "cpu": round(statistics.median(cpu), 2),
    }


def _generate(events: Path, kinds: Path, rows: int, users: int) -> None:
    """Write the events, with a time of day, and the kinds of activities."""
    sizes = ["--rows", str(rows), "--users", str(users), "--days", str(DAYS)]
    command = [sys.executable, "data/events.py", f"{events}.raw", *sizes]
    command += ["--activities", str(ACTIVITIES)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    con = duckdb.connect()
    con.execute(
        "COPY (SELECT *, day + to_seconds(hash(user_id, amount) % 86400) AS moment FROM "
        f"read_parquet('{events}.raw')) TO '{events}' (FORMAT parquet)"
    )
    Path(f"{events}.raw").unlink()
    con.execute(
        "COPY (SELECT format('activity_{:02d}', i) AS activity, "
        f"chr((97 + i % 4)::INTEGER) AS kind FROM range(1, {ACTIVITIES + 1}) AS t(i)) "
        f"TO '{kinds}' (FORMAT parquet)"
    )


@click.command()
@click.option("--rows", default=ROWS)
@click.option("--users", default=USERS)
@click.option("--seed", default=1, help="Of the constants.")
@click.option("--times", default=TIMES, help="Repetitions of each shape.")
@click.option("--only", default="", help="Shapes with this in their names.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where store and table are kept.")
@click.option(
    "--people", type=click.Choice(list(WAYS)), default="in-or-out", help="How they count."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def main(
    rows: int,
    users: int,
    seed: int,
    times: int,
    only: str,
    folder: Path | None,
    people: str,
    as_json: bool,
) -> None:
    """Measure, print, and compare with the promised figures."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    missed = False
    for figure in run(rows, users, seed, times, only, folder, people):
        missed |= not figure["ok"]
        if as_json:
            print(json.dumps(figure), flush=True)
        else:
            own = " ".join(f"{k} {v}" for k, v in figure.items() if k == "cpu" or k.endswith("_ms"))
            verdict = "ok" if figure["ok"] else "MISSED"
            print(f"{figure['name']:28} {figure['figure']:6.2f} {verdict:6} {own}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
