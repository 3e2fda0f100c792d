"""Time a search for keys of two columns among many: python -m benchmarks.found_keys --rows 2000000

Of ten rows four are of some keys that many have, and six of keys that hardly anybody shares.
"""

from __future__ import annotations

import resource
import time

import click
import numpy as np
import pyarrow as pa

import sparseq
from sparseq.store.found_keys import Keys

ROWS_OF_A_PERSON, SHARED = 4, 100_000


def rows_of(rows: int, seed: int = 0) -> pa.Table:
    """Return rows of people: a text and a whole number, which together are a key."""
    rng = np.random.default_rng(seed)
    common = (rng.pareto(0.6, rows) * 20).astype(np.int64) % SHARED
    word = np.where(rng.random(rows) < 0.4, common, rng.integers(0, 5 * rows, rows))
    return pa.table(
        {
            "who": rng.integers(0, max(rows // ROWS_OF_A_PERSON, 1), rows),
            "query": [f"query {i}" for i in word.tolist()],
            "shop": rng.integers(0, 3, rows),
        }
    )


@click.command()
@click.option("--rows", default=2_000_000, show_default=True)
def main(rows: int) -> None:
    """Search once, and print how many keys there are, how long it took and the most memory."""
    table = rows_of(rows)
    keys = table.group_by(["query", "shop"]).aggregate([]).num_rows
    said = sparseq.Questions(keys_delta=1e-6)
    with sparseq.create(None, {"t": table}, user="who", purposes=[said]) as con:
        began = time.monotonic()
        found = len(Keys(con).discover("SELECT query, shop FROM t"))
        seconds = time.monotonic() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    click.echo(f"{rows:,} rows, {keys:,} keys, {found:,} found: {seconds:.0f} s, {most:.1f} GB")


if __name__ == "__main__":
    main()
