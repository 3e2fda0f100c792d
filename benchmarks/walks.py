"""The files and functions that one question enters: python -m benchmarks.walks [--list NAME]

    count     SELECT count(*) … WHERE, of a store of the default kind that was asked before
    group     two measures by a key
    repeat    the first one again

The fewer there are, the less somebody must read to follow one question. It ends with code 1 where a
limit is passed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np
import pyarrow as pa

import sparseq
from sparseq.pictures.tables import format_table

PACKAGE = str(Path(sparseq.__file__).parent) + "/"
FIRST = "SELECT sum(x) AS s FROM t WHERE x > 50", "SELECT count(*) AS n FROM t WHERE x > 11"
COUNT = "SELECT count(*) AS n FROM t WHERE x > 30"
WALKS = {
    "count": COUNT,
    "group": "SELECT kind, sum(x) AS s, avg(x) AS a FROM t WHERE x > 20 GROUP BY kind",
    "repeat": COUNT,
}
LIMITS = {"count": (65, 780), "group": (69, 885), "repeat": (24, 145)}
"""Most files and functions: what was reached; whoever makes it less writes it here."""
Walk = dict[str, set[str]]
"""The functions that were entered, by file."""


@contextmanager
def traced() -> Iterator[Walk]:
    """Note every function of the package that is entered in the block."""
    walk: Walk = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            walk.setdefault(file.removeprefix(PACKAGE), set()).add(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(before)


def walks() -> dict[str, Walk]:
    """Return the walk of each question, on a store on disk."""
    draw = np.random.default_rng(1)
    number = 20_000
    day = np.datetime64("2024-01-01") + draw.integers(0, 300, number)
    rows = pa.table(
        {
            "who": draw.integers(0, 3_000, number),
            "x": draw.uniform(0, 100, number),
            "kind": draw.choice(["a", "b", "c"], number),
            "day": pa.array(day.astype("datetime64[D]")),
        }
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        sparseq.create(
            f"{folder}/s.sparseq",
            {"t": rows},
            user="who",
            time="day",
            seed=1,
            bounds={"x": (0, 100)},
            keys={"kind": ["a", "b", "c"]},
        ) as con,
    ):
        for sql in FIRST:
            con.sql(sql)
        found = {}
        for name, sql in WALKS.items():
            with traced() as found[name]:
                con.sql(sql)
        return found


def sizes(walk: Walk) -> tuple[int, int]:
    """Return how many files and functions a walk enters."""
    return len(walk), sum(map(len, walk.values()))


@click.command()
@click.option("--list", "name", type=click.Choice(list(WALKS)), help="Show the files of one.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def main(name: str | None, as_json: bool) -> None:
    """Count the files and functions that questions enter."""
    found = walks()
    for file, functions in sorted(found[name].items()) if name else ():
        click.echo(f"{file:44} {len(functions):4}")
    rows = [
        [one, *(f"{n}" for n in sizes(walk)), *(f"{n}" for n in LIMITS[one])]
        for one, walk in found.items()
    ]
    head = ["", "files", "functions", "at most", "at most"]
    click.echo(format_table(head, rows, list("lrrrr")))
    if as_json:
        click.echo(json.dumps({one: sizes(walk) for one, walk in found.items()}))
    passed = [one for one, walk in found.items() if any(map(int.__gt__, sizes(walk), LIMITS[one]))]
    sys.exit(bool(passed))


if __name__ == "__main__":
    main()
