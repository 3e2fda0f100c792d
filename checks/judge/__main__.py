"""python -m checks.judge: see `checks.judge`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from checks.judge.check import Finding, History, judged


@click.group()
def main() -> None:
    """Judge from outside whether what clients saw fits the promise."""


@main.command()
@click.option("--runs", type=click.IntRange(min=1), default=20, show_default=True)
def live(runs: int) -> None:
    """Live some lives, and judge them; exit code 1 on a finding. A folder with findings is kept."""
    from checks.judge.workload import lives  # needs psycopg, which the judge does not

    folder = Path(tempfile.mkdtemp(prefix="sparseq-judge-"))
    totals = dict.fromkeys(("answers", "lost", "kills", "put back", "findings"), 0)
    for history, export in lives(folder, runs):
        lines = history.read_text("utf-8").splitlines()
        read = History.read(lines)
        totals["answers"] += sum(op.end == "answer" for op in read.asked)
        totals["lost"] += sum(op.end in ("", "lost") for op in read.asked)
        totals["kills"] += sum('"kill -9"' in line for line in lines)
        totals["put back"] += sum("in the store's place" in line for line in lines)
        found = judged(history, export)
        totals["findings"] += len(found)
        for finding in found:
            click.echo(f"{history.parent}: {finding}")
        if not found:
            shutil.rmtree(history.parent)
    for name, total in totals.items():
        click.echo(f"{name}: {total:,} in {runs} runs")
    sys.exit(bool(totals["findings"]))


@main.command()
@click.argument("history", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("export", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(history: Path, export: Path) -> None:
    """Judge HISTORY, JSON Lines, against EXPORT, the curator's; exit code 1 on a finding."""
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
    from checks.judge.planted import FAULTS, found_in

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
