"""Print how many questions are answered, of those that can be, by set of rows."""

from __future__ import annotations

import click

from benchmarks.styles import questions
from benchmarks.styles.worlds import WORLDS
from benchmarks.written.tally import Tally


@click.command()
@click.option("--missing", is_flag=True, help="Show those that are not answered.")
@click.option("--only", type=click.Choice([*WORLDS]), help="One set of rows.")
def main(missing: bool, only: str | None) -> None:
    """Ask every question of the store of its rows, and plain DuckDB."""
    tally = Tally(missing)
    for name in [only] if only else WORLDS:
        world = WORLDS[name]
        tally.ask(world.store(), world.plain(), [q for q in questions() if q.category == name])
    tally.show()


if __name__ == "__main__":
    main()
