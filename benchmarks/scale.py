"""How loading and asking grow with the rows: seconds, memory and disk.

    python -m benchmarks.scale                         1, 10 and 30 million rows, a table
    python -m benchmarks.scale --millions 100 --json   needs 24 GiB of memory

Events with a tenth as many users as rows, in a Parquet file. Each step runs in a separate process,
whose peak of memory is the operating system's figure. The first answer includes opening the store
and reading the columns; the next ones have new constants.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import sparseq
from benchmarks.shapes import ACTIVITIES, DAYS, SHAPES, SIGMA, Draw
from sparseq.pictures.tables import format_table

MILLIONS = (1, 10, 30)
ASKED = ("one_day", "sum_by_key_filter", "average_clamped", "month_by_key")
TIMES = 5


def load(folder: Path, store: Path) -> dict[str, float]:
    """Make the store."""
    started = time.perf_counter()
    keys = {"activity": [f"activity_{i:02d}" for i in range(1, ACTIVITIES + 1)]}
    sparseq.create(
        store,
        {"events": folder / "events.parquet"},
        user="user_id",
        kappa=0.5,
        bounds={"amount": (0, 500)},
        keys=keys,
        time="day",
        purposes=[sparseq.Questions(in_or_out=True, counts=10**6)],
    ).close()
    return {"load_s": time.perf_counter() - started, "load_cpu_s": time.process_time()}


def ask(folder: Path, store: Path) -> dict[str, float]:
    """Ask questions of several shapes."""
    draw = Draw(1)
    started = time.perf_counter()
    first, rest = 0.0, []
    with sparseq.connect(store) as con:
        for name in ASKED:
            for _ in range(TIMES):
                before = time.perf_counter()
                con.sql(SHAPES[name](draw)[0], sigma=SIGMA, fresh=True)
                rest.append(time.perf_counter() - before)
                first = first or time.perf_counter() - started
    return {"first_s": first, "next_s": statistics.median(rest[1:]), "most_s": max(rest[1:])}


STEPS = {"load": load, "ask": ask}


def measured(step: str, folder: Path, store: Path) -> dict[str, float]:
    """Return the figures of a step in a separate process, with its peak of memory."""
    command = [sys.executable, "-m", "benchmarks.scale", "--step", step, str(folder), str(store)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def run(millions: tuple[int, ...] = MILLIONS) -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    for size in millions:
        with tempfile.TemporaryDirectory(prefix="sparseq-scale-") as name:
            folder = Path(name)
            subprocess.run(
                [
                    sys.executable,
                    "data/events.py",
                    f"{folder}/events.parquet",
                    "--rows",
                    str(size * 10**6),
                    "--users",
                    str(size * 10**5),
                    "--days",
                    str(DAYS),
                    "--activities",
                    str(ACTIVITIES),
                ],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            store = folder / "events.sparseq"
            found = {
                f"load_{k}" if k == "peak_gib" else k: v
                for k, v in measured("load", folder, store).items()
            }
            found |= measured("ask", folder, store)
            gib = 1 << 30
            found["disk_gib"] = store.stat().st_size / gib
            found["parquet_gib"] = (folder / "events.parquet").stat().st_size / gib
            yield {
                "name": f"scale.{size}_million",
                "figure": found["load_s"],
                "unit": "s to load",
                "limit": None,
                "ok": True,
                **{k: round(v, 3) for k, v in found.items()},
            }


@click.command()
@click.argument("where", nargs=-1, type=Path)
@click.option("--millions", multiple=True, type=int, help="Rows, in millions.")
@click.option("--step", type=click.Choice(list(STEPS)), hidden=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def main(where: tuple[Path, ...], millions: tuple[int, ...], step: str, as_json: bool) -> None:
    """Measure and print."""
    if step:
        found = STEPS[step](*where)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        print(json.dumps(found | {"peak_gib": peak}))
        return
    rows = []
    for figure in run(millions or MILLIONS):
        if as_json:
            print(json.dumps(figure), flush=True)
        columns = [k for k in figure if k.endswith(("_s", "_gib"))]
        rows.append([figure["name"], *(f"{figure[k]:,.2f}" for k in columns)])
    if not as_json:
        print(format_table(["rows", *columns], rows, ["l", *"." * len(columns)]))


if __name__ == "__main__":
    main()
