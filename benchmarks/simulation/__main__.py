"""`python -m benchmarks.simulation`: see the package."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections import Counter

import click

from benchmarks.simulation.faults import PLANTED
from benchmarks.simulation.runs import SETTINGS, Run, Runner, runner
from benchmarks.simulation.world import FAULTS


@click.command()
@click.option("--seed", type=int, help="Run this one; by default fresh ones.")
@click.option("--setting", type=click.Choice(list(SETTINGS)), default=None, help="With --seed.")
@click.option("--minutes", default=1.0, show_default=True, help="So long; for each planted fault.")
@click.option("--steps", default=float("inf"), help="At most about so many.")
@click.option("--plant", help="Have this fault in sparseq, until it is found; or all, in turn.")
@click.option("--covered", is_flag=True, help="Print how often each fault met each kind of step.")
def main(
    seed: int | None,
    setting: str | None,
    minutes: float,
    steps: float,
    plant: str | None,
    covered: bool,
) -> None:
    """Simulate lives of stores. It ends with 1 where something was found, or a plant was not."""
    _hash_alike()
    with runner() as worlds:
        if plant:
            names = list(PLANTED) if plant == "all" else [plant]
            first = 1 if seed is None else seed
            missed = [name for name in names if not _plant(worlds, name, minutes, steps, first)]
            sys.exit(1 if missed else 0)
        if seed is not None:
            runs = [worlds.run(seed, setting or "")]
            click.echo(f"{runs[0].steps:,} steps, digest {runs[0].digest}")
            _tell(runs[0])
        else:
            runs = _fresh(worlds, minutes, steps)
    if covered:
        _print_covered(runs)
    sys.exit(1 if any(run.found for run in runs) else 0)


def _hash_alike() -> None:
    """Begin anew, with the same order of sets for all: else a seed is no life."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.simulation", *sys.argv[1:]])


def _fresh(worlds: Runner, minutes: float, steps: float) -> list[Run]:
    runs, begun = [], time.perf_counter()
    for run in worlds.runs(secrets.randbelow(10**9), 60 * minutes, steps):
        _tell(run)
        runs.append(run)
    done, took = sum(run.steps for run in runs), time.perf_counter() - begun
    found = sum(bool(run.found) for run in runs)
    click.echo(
        f"{len(runs):,} worlds, {done:,} steps, {done / took * 60:,.0f} a minute; "
        f"{found} of them found something"
    )
    return runs


def _tell(run: Run) -> None:
    if run.found:
        again = f"python -m benchmarks.simulation --seed {run.seed} --setting {run.setting}"
        click.echo(f"FOUND {run.found.strip()}\n  again: {again}")


def _plant(worlds: Runner, name: str, minutes: float, steps: float, seed: int) -> bool:
    """Plant a fault, and say how soon it is found."""
    begun, done = time.perf_counter(), 0
    for run in worlds.runs(seed, 60 * minutes, steps, name):
        done += run.steps
        if run.found:
            took, last = time.perf_counter() - begun, run.found.strip().splitlines()
            said = last[-1 if last[0].startswith("Traceback") else 0][:90]
            click.echo(f"{name:32} seed {run.seed:3} {done:8,} steps {took:6.1f} s  {said}")
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
