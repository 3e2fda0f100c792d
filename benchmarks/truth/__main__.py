"""Sessions by name, and adversarial sets: see `benchmarks.truth`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from benchmarks.truth import SESSIONS, adversarial, real, repeats
from benchmarks.truth.made import ROWS
from benchmarks.truth.sets import REAL

REPEATS = "repeats"
"""Each kind of question alone, 250 times: `benchmarks.truth.repeats`."""


@click.command()
@click.option("--session", "name", type=click.Choice([*SESSIONS, REPEATS]), default="every60")
@click.option("--adversarial", "hard", is_flag=True, help="60 mixed questions on hard sets.")
@click.option("--declared", is_flag=True, help="The hard sets' most rows of a person are declared.")
@click.option("--sets", default="", help="Names, with commas; all if it is not given.")
@click.option("--seeds", default=5, show_default=True, help="Sessions of each set.")
@click.option("--of", "asked", default="", help="Kinds of repeated questions, with commas.")
@click.option(
    "--kept",
    type=click.Path(path_type=Path),
    help="JSON lines of repeated questions; goes on there.",
)
@click.option(
    "--page", type=click.Path(path_type=Path), help="Write their table here: docs/coverage.md."
)
@click.option("--kinds", is_flag=True, help="Also a line for each kind of question.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def main(
    name: str,
    hard: bool,
    declared: bool,
    sets: str,
    seeds: int,
    asked: str,
    kept: Path | None,
    page: Path | None,
    kinds: bool,
    as_json: bool,
) -> None:
    """Measure, print, and compare with the promised figures."""
    chosen = [one.strip() for one in sets.split(",") if one.strip()]
    again = [one.strip() for one in asked.split(",") if one.strip()]
    found = (
        repeats.figures(chosen or list(repeats.POPULATIONS), again or list(repeats.KINDS), kept)
        if name == REPEATS
        else adversarial(chosen or list(ROWS), seeds, declared)
        if hard
        else real(name, chosen or list(REAL), seeds)
    )
    missed = False
    for figure in found:
        missed |= not figure["ok"]
        if as_json:
            print(json.dumps(figure), flush=True)
            continue
        verdict = "" if figure["limit"] is None else "ok" if figure["ok"] else "MISSED"
        limit = figure["limit"] or ""
        print(
            f"{figure['name']:48} {figure['figure']:9.4f} {limit:9} {verdict:6} {figure['unit']}",
            flush=True,
        )
        for kind, of in figure.get("kinds", {}).items() if kinds else ():
            parts = " ".join(f"{k} {v:.3g}" for k, v in of.items())
            print(f"    {kind:20} {parts}", flush=True)
    if page is not None and kept is not None:
        repeats.write_table(page, repeats.read_kept(kept))
    sys.exit(missed)


if __name__ == "__main__":
    main()
