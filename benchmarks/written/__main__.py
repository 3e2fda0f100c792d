"""Print how many questions are answered, of those that can be, by category."""

from __future__ import annotations

import click

from benchmarks.written import questions
from benchmarks.written.tally import Tally
from benchmarks.written.town import plain, store


@click.command()
@click.option("--missing", is_flag=True, help="Show those that are not answered.")
@click.option("--only", default="", help="One category.")
def main(missing: bool, only: str) -> None:
    """Ask every question of the town's store, and plain DuckDB."""
    tally = Tally(missing)
    tally.ask(store(found=True), plain(), [q for q in questions() if only in q.category])
    tally.show()


if __name__ == "__main__":
    main()
