"""A lake that has grown: many commits, the log of a million releases, ten thousand buckets.

    python -m benchmarks lake --json                         all of it, half an hour
    SPARSEQ_LAKE=commits=2000,releases=100000,buckets=1000 python -m benchmarks lake

Commits are real ones, one after another, of a release with charges of 100 of 1,000 people in four
buckets. The log of a million releases is written directly, in files of the size that folding makes,
and is then opened in a separate process and appended to. Buckets are one small store under many
names: each is opened, read and closed like any other. All data are in the page cache.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sparseq
from sparseq.accounting import budget_units
from sparseq.lake import ledger_rows
from sparseq.lake.fenced_log import FencedLog, LogFile
from sparseq.lake.fleets import Processes
from sparseq.lake.lake_ledger import LakeLedger
from sparseq.lake.lake_store import LakeBackend
from sparseq.ledger.accounts import Index
from sparseq.ledger.pots import Pot
from sparseq.ledger.releases import Entry, Release
from sparseq.store.store import Store

SIZES = {"commits": 10_000, "releases": 1_000_000, "buckets": 10_000}
PEOPLE, BUCKETS, FILE = 1_000, 4, 10_000
KEY = b"key"
WHO: Index = np.arange(0, PEOPLE, 10, dtype=np.int32)
CHARGES = np.full(len(WHO), 1 << 20, np.int64)
ANSWER = bytes(range(256)) * 4
QUESTION = "SELECT count(*) AS n FROM t"


def run() -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    said = os.environ.get("SPARSEQ_LAKE", "")
    sizes = SIZES | {k: int(v) for k, v in (one.split("=") for one in said.split(",") if one)}
    for what, measure in (("commits", commits), ("releases", grown), ("buckets", buckets)):
        if sizes[what]:
            with tempfile.TemporaryDirectory(prefix="sparseq-lake-") as name:
                yield from measure(Path(name), sizes[what])


def opened(folder: Path) -> LakeLedger:
    """Open the ledger."""
    budgets = np.full(PEOPLE, budget_units(2.0**20), np.int64)
    return LakeLedger(FencedLog(folder, KEY), BUCKETS, budgets, {}, False, lambda users: {})


def entry(number: int) -> Entry:
    """A release."""
    at = dt.datetime(2026, 1, 1) + dt.timedelta(seconds=number)
    text = f"SELECT count(*) AS n FROM t WHERE day = {number}"
    release = Release(number, None, at, text, 1, (9.0,), (18.0,), 0.95, ANSWER, Pot.QUERIES)
    return Entry(release, WHO, CHARGES)


def take(ledger: LakeLedger) -> tuple[float, float]:
    """Commit one release, as the stream does; return its seconds, and those of the processor."""
    one = entry(ledger.next_id)
    started, busy = time.perf_counter(), time.process_time()
    ledger.pots[Pot.QUERIES].charge(one.users, one.charges)
    ledger.commit([one])
    ledger.fold(16 * PEOPLE)
    return time.perf_counter() - started, time.process_time() - busy


def commits(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    """Commit this number of times."""
    FencedLog.create(folder, KEY, ledger_rows.all_columns())
    ledger = opened(folder)
    spent, busy = zip(*(take(ledger) for _ in range(count)), strict=True)
    some = min(500, count // 4)
    for name, values, unit in (("", spent, "ms"), (".cpu", busy, "ms of CPU")):
        yield figure(f"lake.commit.first{name}", 1e3 * statistics.median(values[:some]), unit)
        yield figure(f"lake.commit.last{name}", 1e3 * statistics.median(values[-some:]), unit)
        yield figure(f"lake.commit.slowest{name}", 1e3 * max(values), unit)
    yield figure("lake.log.entries", bytes_of(folder / "_delta_log") / count, "bytes/commit")
    yield figure("lake.log.files", bytes_of(folder) / count, "bytes/commit, with the entries")
    started = time.perf_counter()
    again = opened(folder)
    yield figure("lake.open.commits", time.perf_counter() - started, f"s after {count:,} commits")
    assert again.pots[Pot.QUERIES].spent.sum() == count * CHARGES.sum()


def grown(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    """Write the log as it is after this number of releases; open it, and append to it."""
    log = FencedLog.create(folder, KEY, ledger_rows.all_columns())
    files = list[LogFile]()
    for first in range(1, count + 1, FILE):
        numbers = range(first, min(first + FILE, count + 1))
        files += [log.put("releases", released(numbers)), log.put("charges", charged(numbers))]
    log.commit(files)
    ledger = opened(folder)
    ledger.fold(1)
    yield figure("lake.releases.files", len(ledger._log.head.files), "files")
    yield figure("lake.releases.bytes", bytes_of(folder) / count, "bytes/release")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lake", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    for name, (value, unit) in json.loads(done.stdout).items():
        yield figure(f"lake.releases.{name}", value, f"{unit} after {count:,} releases")


def released(numbers: range) -> pa.Table:
    """Return the rows of releases, which differ by number and text."""
    row = ledger_rows.table("releases", [ledger_rows.release_row(entry(1).release)])
    many = row.take(pa.array(np.zeros(len(numbers), np.int64)))
    texts = [f"SELECT count(*) AS n FROM t WHERE day = {n}" for n in numbers]
    many = many.set_column(0, many.schema.field(0), pa.array(numbers))
    return many.set_column(3, many.schema.field(3), pa.array(texts))


def charged(numbers: range) -> pa.Table:
    """Return the rows of their charges."""
    one = ledger_rows.table("charges", ledger_rows.charge_rows([entry(1)], BUCKETS))
    many = one.take(pa.array(np.repeat(np.arange(one.num_rows), len(numbers))))
    which = pa.array(np.tile(np.array(numbers), one.num_rows))
    return many.set_column(1, many.schema.field(1), which)


def appended(folder: Path) -> dict[str, tuple[float, str]]:
    """Open a log, append to it, and read the newest releases."""
    started, busy = time.perf_counter(), time.process_time()
    ledger = opened(folder)
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    spent = [take(ledger)[1] for _ in range(50)]
    reading = time.perf_counter()
    assert len(ledger.releases(10)) == 10
    reading = time.perf_counter() - reading
    most = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    return {
        "open": (seconds, "s"),
        "open.cpu": (busy, "s of CPU"),
        "commit": (1e3 * statistics.median(spent), "ms of CPU"),
        "slowest": (1e3 * max(spent), "ms of CPU"),
        "last_10": (1e3 * reading, "ms"),
        "memory": (int(most) / 2**20, "GiB"),
    }


def buckets(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    """Ask a lake with this number of buckets, with one process per core."""
    people = pa.table({"who": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    started = time.perf_counter()
    sparseq.create(
        f"lake://{folder / 'lake'}",
        {"t": people},
        user="who",
        buckets=1,
        bounds={"x": (0, 9)},
        purposes=[sparseq.Questions(in_or_out=True, counts=2.0**20)],
    ).close()
    yield figure("lake.buckets.create", time.perf_counter() - started, "s for one small bucket")
    small = LakeBackend(folder / "lake")
    (row,) = small.ledger.manifest()
    manifest = folder / "lake" / "lake.json"
    said = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(said | {"buckets": count}))
    many = []
    for bucket in range(count):
        name = f"{bucket:05d}{row['file'][5:]}"
        if bucket:
            os.link(folder / "lake" / "buckets" / row["file"], folder / "lake" / "buckets" / name)
        many.append([bucket, name, row["rows"], row["budgets"]])
    log = FencedLog(folder / "lake" / "ledger", bytes.fromhex(said["key"]))
    log.commit([log.put("buckets", ledger_rows.table("buckets", many))], log.head.of("buckets"))
    started = time.perf_counter()
    fleet = Processes(2)
    lake = Store(LakeBackend(folder / "lake", fleet))
    yield figure("lake.buckets.open", time.perf_counter() - started, f"s for {count:,} buckets")
    started = time.perf_counter()
    answer = lake.sql(QUESTION, fresh=True, sigma=100.0)
    yield figure("lake.buckets.question", time.perf_counter() - started, "s, all are opened")
    assert abs(answer.arrow()["n"][0].as_py() - 3 * count) < 800
    lake.close()
    shutil.rmtree(folder / "lake")


def bytes_of(folder: Path) -> int:
    """Return how many bytes lie in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def figure(name: str, value: float, unit: str) -> dict[str, Any]:
    """Return a figure without a limit."""
    return {"name": name, "figure": value, "unit": unit, "limit": None, "ok": True}


if __name__ == "__main__":
    print(json.dumps(appended(Path(sys.argv[1]))))
