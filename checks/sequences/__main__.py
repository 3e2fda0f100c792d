"""python -m checks.sequences: see `checks.sequences`."""

from __future__ import annotations

import sys
import time

import click

from checks.sequences.life import Tally, found_in, shortest


@click.command()
@click.option("--minutes", type=float, default=30.0, help="How long to search.")
@click.option("--seed", type=int, default=1, help="Of the first life; the next has the next one.")
@click.option("--lives", type=int, default=0, help="End after so many; 0: by time alone.")
@click.option("--only", default="", help="Ways in, with commas between: python,cli,http,wire,mcp.")
def main(minutes: float, seed: int, lives: int, only: str) -> None:
    """Run random lives; exit code 1 if one ends with an unexpected exception."""
    end, tally, seen = time.monotonic() + 60 * minutes, Tally(), dict[str, int]()
    number = seed
    while time.monotonic() < end and (not lives or number < seed + lives):
        finding = found_in(number, tally, only=tuple(filter(None, only.split(","))))
        number += 1
        if finding is None:
            continue
        seen[finding.kind] = seen.get(finding.kind, 0) + 1
        if seen[finding.kind] == 1:
            least = shortest(finding, min(12.0, max(end - time.monotonic(), 5.0)))
            click.echo(f"{least}\n{'-' * 80}")
    click.echo(
        f"{number - seed} lives, {tally.steps:,} steps, {tally.refused:,} refused, "
        f"{sum(seen.values())} findings of {len(seen)} kinds; ways: "
        + ", ".join(f"{way} {n:,}" for way, n in sorted(tally.ways.items()))
    )
    for kind, n in seen.items():
        click.echo(f"{n:4} {kind}")
    sys.exit(bool(seen))


if __name__ == "__main__":
    main()
