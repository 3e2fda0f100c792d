"""The tables of docs/tpch.md: python -m benchmarks.tpch --scale 1; … sqlstorm FOLDER"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.tpch import HEAD, data, session, sqlstorm, store


@click.group(invoke_without_command=True)
@click.option("--scale", type=float, default=0.1, show_default=True, help="TPC-H's scale factor.")
@click.pass_context
def main(context: click.Context, scale: float) -> None:
    """Print what becomes of each question, as a table in Markdown."""
    if context.invoked_subcommand is not None:
        return
    folder = data(scale)
    with store(folder) as con:
        rows = [one.row() for one in session(con, folder)]
    for cells in (HEAD, ["---:", ":---", *["---:"] * 4], *rows):
        click.echo(f"| {' | '.join(cells)} |")


@main.command("sqlstorm")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--scale", type=float, default=0.01, show_default=True, help="TPC-H's scale factor.")
@click.option("--size", default=300, show_default=True, help="Queries in the sample.")
@click.option("--seed", default=1, show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="That plain DuckDB may take.")
@click.option("--show", is_flag=True, help="What is said of each query that is not answered.")
def storm(folder: Path, scale: float, size: int, seed: int, seconds: float, show: bool) -> None:
    """Ask a sample of SQLStorm's queries over TPC-H; FOLDER has them as NUMBER.sql."""
    tables, found = data(scale), []
    truth = sqlstorm.plain(tables)
    with store(tables, **sqlstorm.DECLARED) as con:
        for number, sql in sqlstorm.sample(folder, size, seed).items():
            found.append(sqlstorm.ask(con, truth, number, sql, seconds))
            if show and found[-1].said:
                click.echo(f"{number}: {found[-1].kind}: {found[-1].said}", err=True)
    for line in sqlstorm.table(found):
        click.echo(line)


if __name__ == "__main__":
    main()
