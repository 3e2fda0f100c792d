"""What a person sees of a monitor while it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sparseq.monitor import Monitor, Ticked


def shown(monitor: Monitor, out: Path | None) -> Callable[[Ticked], None]:
    """Return what is done with a tick's rows besides the file: without one, they are printed."""
    if out is not None:
        return lambda _: None
    from sparseq.monitor.output import CsvFormat
    from sparseq.monitor.rows import as_table

    text, head = CsvFormat().text, True

    def show(ticked: Ticked) -> None:
        nonlocal head
        click.echo(text(as_table(ticked.rows, monitor.schema), head), nl=False)
        head = False

    return show


@contextmanager
def progress(monitor: Monitor, quiet: bool) -> Iterator[Callable[[Ticked], None]]:
    """Show how far the monitor is, on a terminal's standard error; in the end, what was done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    done = fresh = 0
    total = len(monitor.ticks) if monitor.ticks.last is not None else None
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        console=Console(stderr=True), disable=quiet or not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("monitoring", total=total)

        def advance(ticked: Ticked) -> None:
            nonlocal done, fresh
            done, fresh = done + 1, fresh + (not ticked.again)
            bar.update(task, completed=ticked.tick.number + 1, description=ticked.tick.label)

        yield advance
    if not quiet:
        click.echo(f"{done:,} ticks answered, {done - fresh:,} of them read back", err=True)
