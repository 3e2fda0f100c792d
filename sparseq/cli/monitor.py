"""`sparseq monitor`: the same questions at every tick, and the answers in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparseq.cli.options import open_store, store_argument
from sparseq.cli.text import NOT_PRIVATE, banner
from sparseq.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparseq.monitor import Monitor, QuerySeries, Ticked, Ticks
    from sparseq.store import Store


@click.command(short_help="Ask the same queries day after day, and keep the series in a file.")
@store_argument
@click.argument("queries", nargs=-1, required=True, type=click.Path(path_type=Path),
                metavar="QUERY.sql...")  # fmt: skip
@click.option("--over", metavar="COL", help="Column that says when a row happened. [default: the "
              "table's time column]")  # fmt: skip
@click.option("--from", "first", required=True, metavar="D", help="First tick: a date, or a time.")
@click.option("--to", "last", metavar="D", help="Last tick. [default: the last one that has ended]")
@click.option("--every", default="1d", show_default=True, metavar="1d|1h|1w",
              help="How long a tick is.")  # fmt: skip
@click.option("--param", "params", multiple=True, metavar="K=V", help="Value of a parameter :K.")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Parquet, CSV or JSON Lines, by its name. [default: CSV on standard output]",
)
@click.option("--confidence", type=float, help="Of every ±. [default: 0.95]")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
def monitor(
    store: Path,
    queries: tuple[Path, ...],
    over: str | None,
    first: str,
    last: str | None,
    every: str,
    params: tuple[str, ...],
    out: Path | None,
    confidence: float | None,
    quiet: bool,
) -> None:
    """Ask every QUERY once a tick, and write the answers to a file: a row a tick, group and number.

    A query has the parameters :day and :next_day (or :tick and :next_tick), and those given with
    --param. Started again, the monitor goes on where it stopped: no tick is asked twice.

    \b
    Examples:
      sparseq monitor shop.sparseq queries/daily_buyers.sql --from 1997-01-01 --to 1998-06-30
          --out buyers.parquet
      sparseq monitor shop.sparseq queries/daily_*.sql --over date --from 1997-01-01 --out shop.csv
    """
    from sparseq.monitor import Monitor
    from sparseq.monitor.parameters import given

    ticks = ticks_of(first, last, every)
    with open_store(store) as opened:
        check_over(opened, over, ticks)
        series = [
            series_of(opened, path, ticks, given(params), confidence)
            for path in distinct_names(queries)
        ]
        running = Monitor(opened, ticks, series, out)
        if opened.seed is not None and not quiet:
            click.echo(banner(NOT_PRIVATE), err=True)
        show = shown(running, out, quiet)
        try:
            with progress(running, quiet) as advance:
                for ticked in running.run():
                    show(ticked)
                    advance(ticked)
        finally:
            running.flush()


def ticks_of(first: str, last: str | None, every: str) -> Ticks:
    """Return the ticks; without a last one, those that have ended by the clock."""
    import datetime as dt

    from sparseq.monitor import Ticks
    from sparseq.monitor.ticks import moment

    start = moment(first)
    if last is not None:
        return Ticks(start, every, moment(last))
    endless = Ticks(start, every)
    ended = endless.ended_by(dt.datetime.now())
    if not ended:
        raise ParameterError(f"the tick of {first} has not ended yet", "say --to, or wait")
    return Ticks(start, every, endless[ended - 1].start)


def check_over(store: Store, over: str | None, ticks: Ticks) -> None:
    """Raise `ParameterError` if no table has the column, or if it can't tell ticks apart."""
    from sparseq.query.catalog import TIME_TYPES, did_you_mean

    columns = [c for table in store.catalog.private for c in table.columns]
    if over is None:
        over = next((table.time for table in store.catalog.private if table.time), "")
        if not over:
            raise ParameterError("no table has a time column", "say --over COL")
    found = next((c for c in columns if c.name.lower() == over.lower()), None)
    if found is None:
        raise ParameterError(
            f"--over {over}: there is no such column", did_you_mean(over, [c.name for c in columns])
        )
    if found.type not in TIME_TYPES:
        raise ParameterError(f"--over {over}: the column is {found.type}", "name a date or time")
    if found.type == "DATE" and not ticks.whole_days:
        raise ParameterError(
            f"--every {ticks.every}: {over} has dates, no times", "ticks of whole days: 1d, 1w"
        )


def distinct_names(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the paths; raises `ParameterError` where two would be one series."""
    stems = [path.stem for path in paths]
    for stem in stems:
        if stems.count(stem) > 1:
            raise ParameterError(
                f"two series would be called {stem!r}", "a series has the name of its file"
            )
    return paths


def series_of(
    store: Store, path: Path, ticks: Ticks, values: dict[str, Any], confidence: float | None
) -> QuerySeries:
    """Return the series of a query file."""
    from sparseq.cli.sql import query_text
    from sparseq.monitor import QuerySeries, QueryText
    from sparseq.query.plan import Options

    text = QueryText.of(query_text(None, str(path)))
    return QuerySeries(store, path.stem, text, ticks, values, Options(confidence=confidence))


def shown(running: Monitor, out: Path | None, quiet: bool) -> Callable[[Ticked], None]:
    """Return what is done with a tick's rows besides the file: without one, they are printed."""
    if out is not None:
        return lambda _: None
    from sparseq.monitor.output import CsvFormat
    from sparseq.monitor.rows import as_table

    text, head = CsvFormat().text, True

    def show(ticked: Ticked) -> None:
        nonlocal head
        click.echo(text(as_table(ticked.rows, running.schema), head), nl=False)
        head = False

    return show


@contextmanager
def progress(running: Monitor, quiet: bool) -> Iterator[Callable[[Ticked], None]]:
    """Show how far the monitor is, on a terminal's standard error; in the end, what was done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    done = fresh = 0
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        console=Console(stderr=True), disable=quiet or not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("monitoring", total=len(running.ticks))

        def advance(ticked: Ticked) -> None:
            nonlocal done, fresh
            done, fresh = done + 1, fresh + (not ticked.again)
            bar.update(task, completed=ticked.tick.number + 1, description=ticked.tick.label)

        yield advance
    if not quiet:
        click.echo(f"{done:,} ticks answered, {done - fresh:,} of them read back", err=True)
