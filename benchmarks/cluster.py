"""A lake by Spark's executors, and by processes, against plain Spark SQL: same rows, same session.

    python -m benchmarks cluster --json               10 million rows
    SPARSEQ_ROWS=1000000 python -m benchmarks cluster

Plain Spark reads the rows as they came (`source`), and as Spark wrote them by person in as many
files as the lake has buckets (`laid out`). Ours and plain take turns, after one warm-up of each.
Our time is everything from the text to the durable answer. Ratios are of medians of seconds; on a
busy machine they are more reliable than seconds. It needs pyspark, a Java runtime and deltalake.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import sparseq
from benchmarks.shapes import ACTIVITIES, DAYS, SIGMA
from sparseq.lake.spark_fleet import SparkFleet
from sparseq.question.plan import Options
from sparseq.store.store import Store
from sparseq.stream.batches import Request

ROWS, BUCKETS, TIMES = 10_000_000, 8, 5
KEYS = [f"activity_{i:02d}" for i in range(1, ACTIVITIES + 1)]
DAY = "SELECT count(DISTINCT user_id) AS n FROM events WHERE day = DATE '2024-{:02d}-{:02d}'"
SUMS = "SELECT activity, sum(amount) AS s FROM events GROUP BY activity"
OPTIONS = Options(sigma=SIGMA)  # so coarse that everybody can pay for everything


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    rows = int(os.environ.get("SPARSEQ_ROWS", ROWS))
    with tempfile.TemporaryDirectory(prefix="sparseq-cluster-") as name:
        yield from measured(Path(name), rows)


def measured(folder: Path, rows: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of one size."""
    source = folder / "events.parquet"
    subprocess.run(
        [
            sys.executable,
            "data/events.py",
            str(source),
            "--rows",
            str(rows),
            "--users",
            str(rows // 10),
            "--days",
            str(DAYS),
            "--activities",
            str(ACTIVITIES),
        ],
        check=True,
        capture_output=True,
    )
    spark = session()
    events = spark.read.parquet(str(source))
    events.createOrReplaceTempView("source")
    events.count()  # the session is warm
    laid_out = str(folder / "laid_out")

    def plainly() -> None:
        by_person = events.repartition(BUCKETS, "user_id").sortWithinPartitions("user_id", "day")
        by_person.write.parquet(laid_out)

    plain, ours = seconds(plainly), seconds(lambda: create(folder, source))
    yield figure("cluster.create", ours / plain, 3.0, ours)
    spark.read.parquet(laid_out).createOrReplaceTempView("laid_out")
    for fleet, kind in ((SparkFleet(spark), ""), (None, ".processes")):
        with sparseq.connect(f"lake://{folder / 'lake'}", fleet=fleet) as con:
            yield from compared(con, spark, kind)
    spark.stop()


def compared(con: Store, spark: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Yield what questions take, against plain Spark SQL on both layouts."""
    days = [DAY.format(1 + i // 28, 1 + i % 28) for i in range(336)]
    number = iter(range(336))

    def one_day(plain: str) -> Mapping[str, Callable[[], Any]]:
        text = days[next(number)]
        return {
            "ours": lambda: con.sql(text, sigma=SIGMA, fresh=True),
            "plain": lambda: spark.sql(text.replace("events", plain)).collect(),
        }

    def sums(plain: str) -> Mapping[str, Callable[[], Any]]:
        return {
            "ours": lambda: con.sql(SUMS, sigma=SIGMA, fresh=True),
            "plain": lambda: spark.sql(SUMS.replace("events", plain)).collect(),
        }

    def batch(plain: str) -> Mapping[str, Callable[[], Any]]:
        by_day = f"SELECT day, count(DISTINCT user_id) FROM {plain} GROUP BY day"
        return {
            "ours": lambda: list(con.ask_many(Request(con.lower(d), OPTIONS) for d in days)),
            "plain": lambda: spark.sql(by_day).collect(),
        }

    yield ratio(f"cluster.sum_by_activity{kind}", lambda: sums("laid_out"), 1.5)
    yield ratio(f"cluster.sum_by_activity.source{kind}", lambda: sums("source"), None)
    yield ratio(f"cluster.one_day{kind}", lambda: one_day("laid_out"), None)
    yield ratio(f"cluster.one_day.source{kind}", lambda: one_day("source"), 2.0)
    yield ratio(f"cluster.batch_336_days{kind}", lambda: batch("laid_out"), 4.0, times=2)


def ratio(
    name: str,
    turn: Callable[[], Mapping[str, Callable[[], Any]]],
    limit: float | None,
    times: int = TIMES,
) -> dict[str, Any]:
    """Return how many times as long ours takes, taking turns."""
    taken: dict[str, list[float]] = {"ours": [], "plain": []}
    for k in range(times + 1):
        for who, work in turn().items():
            spent = seconds(work)
            if k:
                taken[who].append(spent)
    ours, plain = (statistics.median(taken[who]) for who in ("ours", "plain"))
    return figure(name, ours / plain, limit, ours)


def figure(name: str, value: float, limit: float | None, ours: float) -> dict[str, Any]:
    """Return a ratio as a figure, with our seconds."""
    said = {"name": name, "figure": value, "unit": f"x plain Spark ({ours:.2f} s)", "limit": limit}
    return said | {"ok": limit is None or value <= limit}


def seconds(work: Callable[[], Any]) -> float:
    """Return how long something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def create(folder: Path, source: Path) -> None:
    """Make the lake."""
    sparseq.create(
        f"lake://{folder / 'lake'}",
        {"events": source},
        user="user_id",
        kappa=0.5,
        bounds={"amount": (0, 500)},
        keys={"activity": KEYS},
        time="day",
        buckets=BUCKETS,
        purposes=[sparseq.Questions(in_or_out=True, counts=10**6)],
    ).close()


def session() -> Any:
    """Return a Spark session of this machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    made = import_module("pyspark.sql").SparkSession.builder.master("local[2]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "8",
    }.items():
        made = made.config(key, value)
    return made.getOrCreate()
