"""Run benchmarks and print their figures; exit code 1 if one misses its limit.

    python -m benchmarks                 all, as a table, except those that must be named
python -m benchmarks noise --json    one of them, a JSON object a line
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from sparseq.pictures.tables import format_table

NAMES = ("noise", "startup", "engine", "training", "network", "filters", "replay")

NAMED = (
    "loading",
    "shapes",
    "scale",
    "truth",
    "series",
    "server",
    "cluster",
    "reuse",
    "lake",
    "tpch",
    "tutorial",
    "roots",
    "everybody",
)
"""Those that run when they are named."""


def figures(names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the figures of each benchmark: name, figure, unit, limit, ok."""
    for name in names:
        yield from importlib.import_module(f"benchmarks.{name}").run()


@click.command()
@click.argument("names", nargs=-1, type=click.Choice((*NAMES, *NAMED)))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def main(names: tuple[str, ...], as_json: bool) -> None:
    """Measure, print, and compare with the promised figures."""
    done = []
    for figure in figures(names or NAMES):
        done.append(figure)
        if as_json:
            click.echo(json.dumps(figure))
    if not as_json:
        rows = [
            [f["name"], f"{f['figure']:,.4g}", f["unit"], f["limit"] or "", _verdict(f)]
            for f in done
        ]
        click.echo(format_table(["name", "figure", "unit", "limit", ""], rows, list("l.lll")))
    sys.exit(not all(f["ok"] for f in done))


def _verdict(figure: dict[str, Any]) -> str:
    return "" if figure["limit"] is None else "ok" if figure["ok"] else "MISSED"


if __name__ == "__main__":
    main()
