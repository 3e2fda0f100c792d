"""Loading tables that lead to a person by a key, against the same rows with their person.

    python -m benchmarks.chains                  1 million lines of 250,000 orders, in memory
    python -m benchmarks.chains --millions 10

Both are created in turn, some times; the smaller processor time of each is compared. The exit code
is 1 if a link takes more than `LIMIT` times as long.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

import sparseq

LIMIT, TIMES = 2.0, 3


def tables(lines: int) -> dict[str, dict[str, pa.Table]]:
    """Return orders and lines; the plain ones have a column with the user."""
    draw, many = np.random.default_rng(0), lines // 4
    keys, people = draw.permutation(many), draw.integers(0, many // 5, many)
    whose = np.empty(many, np.int64)
    whose[keys] = people
    order = draw.integers(0, many, lines)
    orders = pa.table(
        {"o_orderkey": keys, "o_custkey": people, "total": draw.integers(0, 999, many)}
    )
    made = pa.table(
        {
            "l_orderkey": order,
            "line": draw.integers(1, 8, lines),
            "quantity": draw.integers(1, 50, lines),
            "price": draw.random(lines),
            "day": np.datetime64("2024-01-01") + draw.integers(0, 365, lines),
            "mode": draw.choice(["AIR", "SHIP", "RAIL", "TRUCK"], lines),
        }
    )
    whole = made.append_column("o_custkey", pa.array(whose[order]))
    return {
        "linked": {"lineitem": made, "orders": orders},
        "plain": {"lineitem": whole, "orders": orders},
    }


@click.command()
@click.option("--millions", default=1.0)
def main(millions: float) -> None:
    """Print seconds of processor time, the better of some, and how they compare."""
    rows, best = tables(int(millions * 1e6)), dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(TIMES):
            for name, some in rows.items():
                links = {"lineitem.l_orderkey": "orders.o_orderkey"} if name == "linked" else None
                begun = time.process_time()
                path = Path(folder) / f"{name}{number}.sparseq"
                sparseq.create(path, some, user="o_custkey", links=links).close()
                took = time.process_time() - begun
                best[name] = min(best.get(name, took), took)
    ratio = best["linked"] / best["plain"]
    click.echo(f"linked {best['linked']:.2f} s, plain {best['plain']:.2f} s: {ratio:.2f} times")
    sys.exit(int(ratio > LIMIT))


if __name__ == "__main__":
    main()
