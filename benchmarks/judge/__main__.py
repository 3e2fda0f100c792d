"""python -m benchmarks.judge: see `benchmarks.judge`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from benchmarks.judge.check import Finding, judged


@click.group()
def main() -> None:
    """Judge from outside whether what clients saw fits the promise."""


@main.command()
@click.argument("history", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("export", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(history: Path, export: Path) -> None:
    """Judge HISTORY, JSON Lines, beside EXPORT, the curator's; exit code 1 on a finding."""
    found = judged(history, export)
    for finding in found:
        click.echo(str(finding))
    click.echo(f"{len(found)} findings")
    sys.exit(bool(found))


@main.command()
@click.argument("names", nargs=-1)
@click.option("--seed", type=int, default=1, show_default=True)
def planted(names: tuple[str, ...], seed: int) -> None:
    """Live a life with each planted fault, or with NAMES; exit code 1 if one is not found."""
    from benchmarks.judge.planted import FAULTS, found_in

    missed = 0
    for fault in [fault for fault in FAULTS if not names or fault.name in names]:
        with tempfile.TemporaryDirectory(prefix="judge") as folder:
            found = found_in(fault, Path(folder), seed)
        missed += not found
        click.echo(f"{fault.name}: {_shown(found)}")
    sys.exit(bool(missed))


def _shown(found: list[Finding]) -> str:
    return f"found, {len(found)} times: {found[0]}" if found else "MISSED"


if __name__ == "__main__":
    main()
