"""The view of a monitor: a chart and a progress bar on a terminal, a picture in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sparseq.cli.progress import progress_bar
from sparseq.cli.text import put_out, say
from sparseq.pictures.image import picture_kind, write_picture
from sparseq.pictures.terminal import terminal_chart
from sparseq.series import Monitor
from sparseq.series.series_figures import Rival, monitor_sheet
from sparseq.series.series_file import CsvFormat
from sparseq.series.series_rows import as_table

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from rich.console import Console

    from sparseq.series import Monitor, Row, TickResult
    from sparseq.store.store import Store


_MOST_ROWS, _HEIGHT, _NARROW = 2_000, 18, 50


def make_view(monitor: Monitor, out: Path | None) -> Callable[[TickResult], None]:
    """Return the function that shows a tick's rows; without an output file it prints them."""
    if out is not None:
        return lambda _: None

    text, head = CsvFormat().text, True

    def show(ticked: TickResult) -> None:
        nonlocal head
        put_out(text(as_table(ticked.rows, monitor.schema), head), nl=False)
        head = False

    return show


@contextmanager
def progress(
    monitor: Monitor, store: Store, quiet: bool, out: Path | None, rivals: Mapping[str, Rival]
) -> Iterator[Callable[[TickResult], None]]:
    """Show the progress of the monitor on a terminal's standard error, and a summary at the end."""

    done = fresh = 0
    total = len(monitor.ticks) if monitor.ticks.last is not None else None
    bar = progress_bar()
    task = bar.add_task("monitoring", total=total)
    console = bar.console
    chart = Chart(monitor, store, console, rivals)
    charted = out is not None or not sys.stdout.isatty()  # printed rows would break the bar
    live = Live(
        get_renderable=lambda: Group(*([chart.drawn()] if charted else []), bar),
        console=console,
        refresh_per_second=4,
        transient=True,
    )

    def advance(ticked: TickResult) -> None:
        nonlocal done, fresh
        done, fresh = done + 1, fresh + (not ticked.again)
        chart.add(ticked.rows)
        bar.update(task, completed=ticked.tick.number + 1, description=ticked.tick.label)

    if quiet or not sys.stderr.isatty():
        yield advance
    else:
        with live:
            yield advance
    if not quiet:
        say(
            f"{done:,} tick{'s' * (done != 1)} answered, {done - fresh:,} of them read back",
            err=True,
        )


class Chart:
    """The chart of the first number of the first series, updated as it grows."""

    def __init__(
        self, monitor: Monitor, store: Store, console: Console, rivals: Mapping[str, Rival]
    ) -> None:
        self._schema, self._store, self._console = monitor.schema, store, console
        self._rivals = rivals
        self._rows: list[Row] = []

    def add(self, rows: Any) -> None:
        """Add the rows of a tick."""
        first = next(iter([*self._rows[:1], *rows]), None)
        if first is not None:
            place = (first.series, first.column, first.keys)
            self._rows += [r for r in rows if (r.series, r.column, r.keys) == place]
            del self._rows[:-_MOST_ROWS]

    def drawn(self) -> Any:
        """Return the chart, or nothing if there is no room or no data."""

        width, height = self._console.size
        if len(self._rows) < 2 or width < _NARROW or height < _HEIGHT + 8:
            return Text("")
        rows = as_table(self._rows, self._schema)
        budget = self._store.guarantee
        figure = monitor_sheet(rows, budget, self._rivals, False, None).figures[0]
        figure = replace(figure, notes=[])
        color = not os.environ.get("NO_COLOR")
        return Text.from_ansi(terminal_chart(figure, min(width - 1, 110), _HEIGHT, color=color))


class Picture:
    """The file of `--plot`, drawn again when there are new answers."""

    def __init__(
        self,
        path: Path | None,
        rows: Callable[[], pa.Table],
        store: Store,
        alarm: float | None,
        rivals: Mapping[str, Rival],
    ) -> None:
        if path is not None:
            picture_kind(path)
        self._path, self._rows, self._store, self._alarm = path, rows, store, alarm
        self._rivals = rivals
        self.stale = False

    def refresh(self) -> None:
        """Draw the picture if ticks were answered since the last time."""
        if self._path is not None and self.stale and (rows := self._rows()).num_rows:
            seeded = self._store.seed is not None
            write_picture(
                monitor_sheet(rows, self._store.guarantee, self._rivals, seeded, self._alarm),
                self._path,
            )
            self.stale = False
