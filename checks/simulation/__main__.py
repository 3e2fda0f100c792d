"""`python -m checks.simulation`: see the package."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections import Counter
from pathlib import Path

import click

from checks.simulation.faults import PLANTED
from checks.simulation.runs import SETTINGS, Run, runner, runs_of
from checks.simulation.world import FAULTS


@click.command()
@click.option("--seed", type=int, help="Run this one; by default fresh ones, from a random one on.")
@click.option("--setting", type=click.Choice(list(SETTINGS)), default=None, help="With --seed.")
@click.option("--minutes", default=1.0, show_default=True, help="So long; for each planted fault.")
@click.option("--steps", default=float("inf"), help="At most about so many.")
@click.option(
    "--workers", default=1, show_default=True, help="Processes, each with seeds of its own."
)
@click.option(
    "--findings",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder: a file for each seed that finds something.",
)
@click.option("--plant", help="Have this fault in sparseq, until it is found; or all, in turn.")
@click.option("--covered", is_flag=True, help="Print how often each fault met each kind of step.")
def main(
    seed: int | None,
    setting: str | None,
    minutes: float,
    steps: float,
    workers: int,
    findings: Path | None,
    plant: str | None,
    covered: bool,
) -> None:
    """Simulate lives of stores. It ends with 1 where something was found, or a plant was not."""
    _hash_alike()
    if plant:
        names = list(PLANTED) if plant == "all" else [plant]
        first, limits = 1 if seed is None else seed, (60 * minutes, steps)
        missed = [name for name in names if not _plant(name, workers, first, *limits)]
        click.echo(f"{len(names) - len(missed)} of {len(names)} planted faults found")
        sys.exit(1 if missed else 0)
    if seed is not None:
        with runner() as worlds:
            runs = [worlds.run(seed, setting or "")]
        click.echo(f"{runs[0].steps:,} steps, digest {runs[0].digest}")
        _tell(runs[0], findings)
    else:
        runs = _fresh(workers, minutes, steps, findings)
    if covered:
        _print_covered(runs)
    sys.exit(1 if any(run.found for run in runs) else 0)


def _hash_alike() -> None:
    """Start again with the same hash seed for all: else a seed does not determine a life."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "checks.simulation", *sys.argv[1:]])


def _fresh(workers: int, minutes: float, steps: float, findings: Path | None) -> list[Run]:
    """Run fresh seeds; say in one line how many there were, and which found something."""
    runs, begun, first = [], time.perf_counter(), secrets.randbelow(10**9)
    for run in runs_of(workers, first, 60 * minutes, steps):
        _tell(run, findings)
        runs.append(run)
    done, took = sum(run.steps for run in runs), time.perf_counter() - begun
    found = [f"{run.setting}:{run.seed}" for run in runs if run.found]
    each = f"{done / took * 60:,.0f} a minute, {workers} workers, {took:.0f} s"
    said = f"{len(runs):,} worlds from seed {first}, {done:,} steps, {each}"
    click.echo(f"{said}; {len(found)} found something {' '.join(found)}".rstrip())
    return runs


def _tell(run: Run, findings: Path | None) -> None:
    """Print a run's findings, and write them into a folder."""
    if not run.found:
        return
    again = f"python -m checks.simulation --seed {run.seed} --setting {run.setting}"
    said = f"FOUND {run.found.strip()}\n  again: {again}"
    click.echo(said)
    if findings is not None:
        findings.mkdir(parents=True, exist_ok=True)
        (findings / f"{run.setting}-{run.seed}.txt").write_text(said + "\n", "utf-8")


def _plant(name: str, workers: int, seed: int, seconds: float, steps: float) -> bool:
    """Plant a fault, and say how soon it is found."""
    begun, done = time.perf_counter(), 0
    for run in runs_of(workers, seed, seconds, steps, name):
        done += run.steps
        if run.found:
            took, last = time.perf_counter() - begun, run.found.strip().splitlines()
            said = last[-1 if last[0].startswith("Traceback") else 0][:90]
            where = f"{run.setting:10} seed {run.seed:3}"
            click.echo(f"{name:32} {where} {done:9,} steps {took:6.1f} s  {said}")
            return True
    click.echo(f"{name:32} NOT FOUND in {done:,} steps")
    return False


def _print_covered(runs: list[Run]) -> None:
    """Print kinds of steps by faults."""
    covered: Counter[tuple[str, str]] = Counter()
    for run in runs:
        covered.update(run.covered)
    states = sorted({state for _, state in covered})
    click.echo(f"{'step':28}" + "".join(f"{fault or 'all':>11}" for fault in ("", *FAULTS, "rot")))
    for state in states:
        counts = "".join(f"{covered[fault, state]:11,}" for fault in ("", *FAULTS, "rot"))
        click.echo(f"{state:28}{counts}")


if __name__ == "__main__":
    main()
