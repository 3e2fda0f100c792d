"""Statements that cost much: each is refused or ended, and other users hardly notice.

    python -m checks.hostile [--only WORDS] [--short] [--large] [--json]

A store is served with a time-out of 8 s (`--statement-timeout`), and may open 1,024 files; with
`--large` it has a million people. Eve sends the statements, one after another, by PostgreSQL's
protocol, HTTP, MCP, and at the command line over a copy of the store; they are about private
tables, about answers, and about public data. She also opens 2,000 sockets and says nothing. Each
must be refused, answered or ended within 10 s, with at most 500 MB more than the idle process.
Meanwhile Bob asks, explains, looks up and reads back: the median of each of his actions may at most
double. The exit code is 1 if that does not hold.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import psycopg

from checks.hostile_roads import resident, send
from checks.hostile_statements import (
    ALL,
    EACH,
    EVERY,
    LARGE,
    MOST_MB,
    MOST_RATIO,
    MOST_SECONDS,
    OTHER,
    PEOPLE,
    Result,
    Shop,
    Statement,
    large,
    short,
    statements,
)
from sparseq.pictures.tables import format_table


@dataclass
class Prober:
    """Bob's repeated actions, each in a thread, and their times."""

    shop: Shop
    times: dict[str, list[float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def __enter__(self) -> Prober:
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._again, args=one) for one in self._things().items()
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _things(self) -> dict[str, Callable[[], Any]]:
        shop, con = self.shop, psycopg.connect(self.shop.url("bob"), autocommit=True)
        number = iter(range(10**9))

        def post(path: str, body: Any) -> None:
            status, found = shop.post("bob", path, body)
            assert status == 200, found

        return {
            "catalog": lambda: post("/v1/catalog", None),
            "repeat": lambda: post("/v1/query", {"sql": ALL}),
            "explain": lambda: post("/v1/explain", {"sql": f"{ALL} WHERE x > {next(number)}"}),
            "question": lambda: post("/v1/query", {"sql": OTHER, "fresh": True}),
            "look-up": lambda: con.execute("SELECT relname FROM pg_class LIMIT 1").fetchall(),
        }

    def _again(self, name: str, do: Callable[[], Any]) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                do()
            except Exception as error:
                self.failed.append(f"{name}: {error!r}"[:200])
            self.times.setdefault(name, []).append(time.monotonic() - began)
            self._over.wait(EVERY)

    def medians(self) -> dict[str, float]:
        """Return the median of each thing, in seconds."""
        return {name: statistics.median(times) for name, times in self.times.items()}


def run(
    shop: Shop, sent: list[Statement], alone: float, tell: Callable[[Result], None]
) -> tuple[list[Result], dict[str, tuple[float, float]], list[str]]:
    """Send statements; return their results, Bob's medians alone and meanwhile, and failures.

    Args:
        shop: The served store.
        sent: The statements.
        alone: Seconds that Bob is alone.
        tell: Called with each result.
    """
    for sql in (ALL, OTHER):  # what is done once, such as reading from the disk, is not compared
        shop.post("bob", "/v1/query", {"sql": sql})
    with Prober(shop) as before:
        time.sleep(alone)
    idle, results = resident(shop.process.pid), []
    with Prober(shop) as beside:
        for one in sent:
            results.append(send(shop, one, idle))
            tell(results[-1])
    both = {name: (m, beside.medians()[name]) for name, m in before.medians().items()}
    return results, both, before.failed + beside.failed


@click.command(help=__doc__)
@click.option("--only", default="", help="Of statements whose roads and names have these words.")
@click.option("--short", "few", is_flag=True, help="Ten of them.")
@click.option("--large", "million", is_flag=True, help="A million people, and fewer statements.")
@click.option("--json", "as_json", is_flag=True)
def main(only: str, few: bool, million: bool, as_json: bool) -> None:
    listed = large() if million else short() if few else statements()
    sent = [one for one in listed if only in f"{one.road} {one.name}"]
    people, each = LARGE if million else (PEOPLE, EACH)

    def tell(one: Result) -> None:
        mark = " " if one.good else "!"
        used = f"{one.seconds:6.1f} s {one.mb:6.0f} MB"
        click.echo(f"{mark} {used}  {one.road:12} {one.statement}: {one.said}", err=True)

    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder), people=people, each=each)
        try:
            results, medians, failed = run(shop, sent, 10.0, tell)
        finally:
            stopped = shop.stop()
    bad = [one for one in results if not one.good]
    slow = [name for name, (a, b) in medians.items() if b > MOST_RATIO * a]
    if as_json:
        facts = {"medians": medians, "failed": failed, "stopped": stopped}
        click.echo(json.dumps({"results": [asdict(one) for one in results]} | facts))
    else:
        rows = [
            [name, f"{a * 1e3:.1f}", f"{b * 1e3:.1f}", f"{b / a:.2f}"]
            for name, (a, b) in medians.items()
        ]
        heads = ["others", "alone, ms", "beside, ms", "times"]
        click.echo(format_table(heads, rows, list("lrrr")))
        click.echo(
            f"{len(results) - len(bad)} of {len(results)} statements within "
            f"{MOST_SECONDS:g} s and {MOST_MB:g} MB; others failed {len(failed)} times; "
            f"stopped in {stopped:.1f} s"
        )
        for one in failed[:5]:
            click.echo(f"  {one}", err=True)
    sys.exit(bool(bad or slow or failed or stopped > MOST_SECONDS))


if __name__ == "__main__":
    main()
