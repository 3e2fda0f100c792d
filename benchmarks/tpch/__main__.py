"""The table of docs/tpch.md: python -m benchmarks.tpch --scale 1"""

from __future__ import annotations

import click

from benchmarks.tpch import HEAD, data, session, store


@click.command()
@click.option("--scale", type=float, default=0.1, show_default=True, help="TPC-H's scale factor.")
def main(scale: float) -> None:
    """Print what becomes of each question, as a table in Markdown."""
    folder = data(scale)
    with store(folder) as con:
        rows = [one.row() for one in session(con, folder)]
    for cells in (HEAD, ["---:", ":---", *["---:"] * 4], *rows):
        click.echo(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
