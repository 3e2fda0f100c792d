"""`sparseq monitor`: the same questions at every tick, and the answers in a file."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sparseq.base.defaults import CONFIDENCE
from sparseq.base.errors import DataError, ParameterError, did_you_mean
from sparseq.base.texts import shown
from sparseq.cli.options import (
    FilePath,
    Share,
    command,
    every_option,
    open_store,
    param_option,
    quiet_option,
    series_output_option,
    store_argument,
)
from sparseq.cli.progress import progress_bar
from sparseq.cli.sql import query_text
from sparseq.cli.text import banner, put_out, say
from sparseq.pictures.figures import Rival, monitor_sheet
from sparseq.pictures.image import picture_kind, write_picture
from sparseq.pictures.tables import NOT_PRIVATE, format_bound
from sparseq.pictures.terminal import terminal_chart
from sparseq.series import Monitor, QueryText, Ticks
from sparseq.series.companions import Beside, sounds_alarm
from sparseq.series.folder import Folder, Inbox
from sparseq.series.query_series import QuerySeries
from sparseq.series.series_file import CsvFormat, as_table
from sparseq.series.series_outlook import (
    SeriesOutlook,
    about_everybody,
    outlooks,
    refuse_what_ends_badly,
    worst_case_bound,
)
from sparseq.series.ticks import OF_TICKS, length_of, moment
from sparseq.sql.catalog import TIME_TYPES
from sparseq.sql.parameters import given
from sparseq.sql.plan import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from rich.console import Console

    from sparseq.series import Monitor, Row, TickResult, Ticks
    from sparseq.series.folder import Arrival, Folder
    from sparseq.series.query_series import RowSource
    from sparseq.store.store import Store

# -- the view of a monitor: a chart and a bar on a terminal, a picture in a file -------------------

_MOST_ROWS, _HEIGHT, _NARROW = 2_000, 18, 50


def make_view(monitor: Monitor, out: Path | None) -> Callable[[TickResult], None]:
    """Return what is done with a tick's rows besides the file: without one, they are printed."""
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
    """Show how far the monitor is, on a terminal's standard error; in the end, what was done."""

    done = fresh = 0
    total = len(monitor.ticks) if monitor.ticks.last is not None else None
    bar = progress_bar()
    task = bar.add_task("monitoring", total=total)
    console = bar.console
    chart = Chart(monitor, store, console, rivals)
    charted = out is not None or not sys.stdout.isatty()  # printed rows would run through it
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
        say(f"{done:,} ticks answered, {done - fresh:,} of them read back", err=True)


class Chart:
    """The first number of the first series, as it grows."""

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
        """Return the chart, or nothing where there is no room or nothing to see."""

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
    """The file of `--plot`: drawn anew when there is something new to show."""

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
        """Draw, if ticks were answered since the last time."""
        if self._path is not None and self.stale and (rows := self._rows()).num_rows:
            seeded = self._store.seed is not None
            write_picture(
                monitor_sheet(rows, self._store.guarantee, self._rivals, seeded, self._alarm),
                self._path,
            )
            self.stale = False


# -- `sparseq monitor`: the same questions at every tick, and the answers in a file ----------------

FILES_SET_ASIDE, ALARM = DataError.exit_code, 7
UNLIKE_WORDS = "Its ± may be too small: plan anew, on data as they are now (sparseq plan)"
ALARM_WORDS = "ALARM: too many people have used up their budgets; answers are about the others"


@dataclass(frozen=True)
class MonitorOptions:
    """The options of the command line."""

    queries: tuple[Path, ...]
    over: str | None
    first: str
    last: str | None
    every: str
    params: tuple[str, ...]
    output: Path | None
    follow: Path | None
    table: str | None
    complete: str
    lateness: str
    late: str
    settle: float
    once: bool
    confidence: float | None
    alarm_below: float | None
    horizon: int | None
    anyway: bool
    plot: Path | None
    quiet: bool

    def say(self, text: str) -> None:
        """Say something on standard error."""
        if not self.quiet:
            say(text, err=True)


@command(short_help="Ask the same queries day after day, and keep the series in a file.")
@store_argument
@click.argument("queries", nargs=-1, required=True, type=FilePath(), metavar="QUERY.sql...")
@click.option(
    "--over",
    metavar="COL",
    help="Column that says when a row happened. [default: the table's time column]",
)
@click.option("--from", "first", required=True, metavar="D", help="First tick: a date, or a time.")
@click.option(
    "--to",
    "last",
    metavar="D",
    help="Last tick. [default: the last one that has ended; with --follow, none]",
)
@every_option
@param_option
@series_output_option
@click.option(
    "--follow",
    type=FilePath(),
    metavar="DIR",
    help="Take in the files that appear in DIR, and answer the ticks they complete.",
)
@click.option("--table", metavar="NAME", help="Where their rows go, if there are several tables.")
@click.option(
    "--complete",
    type=click.Choice(["names", "clock"]),
    default="names",
    show_default=True,
    help="What says that a tick is complete: the dates in the names of files, or the clock.",
)
@click.option(
    "--lateness",
    default="0d",
    show_default=True,
    metavar="1d|1h|…",
    help="How long to wait for files after the end of a tick.",
)
@click.option(
    "--late",
    type=click.Choice(["keep", "reject"]),
    default="keep",
    show_default=True,
    help="Files for ticks that have answers: taken in, or set aside.",
)
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Take in a file when it has not changed for this long.",
)
@click.option(
    "--once", is_flag=True, help="With --follow: end when all files are taken in or set aside."
)
@click.option("--confidence", type=Share(), help=f"Confidence of every ±. [default: {CONFIDENCE}]")
@click.option(
    "--alarm-below",
    type=Share(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Estimate how many people have ever been left out; an alarm goes off when fewer "
    "than SHARE (such as 90%) have not. The part that is for the watch pays.",
)
@click.option(
    "--horizon",
    type=click.IntRange(min=1),
    metavar="TICKS",
    help="With --alarm-below: number of ticks that it is planned for. [default: a year, "
    "or to --to]",
)
@click.option(
    "--anyway", is_flag=True, help="Ask although it takes most of what the store has for questions."
)
@click.option(
    "--plot", type=FilePath(), metavar="FILE", help="Draw the series: .html, .png or .svg."
)
@quiet_option
def monitor(store: Path, **options: Any) -> None:
    """Ask every QUERY once a tick, and write the answers to a file: a row a tick, group and number.

    A query has the parameters :day and :next_day (or :tick and :next_tick), and those given with
    --param. How it is asked was said where it got its part of the budget (`create --for`, `purpose
    add`); one without is paid from what is for questions. Started again, the monitor goes on where
    it stopped: no tick is asked twice.

    With --follow the data arrive in files such as 1997-01-01.parquet, and each is taken in once.
    The monitor then runs until the last tick is answered or it is stopped (Ctrl-C, SIGTERM): it
    ends between two steps, with all that was answered in the file.

    \b
    Examples:
      sparseq monitor shop.sparseq queries/daily_buyers.sql --from 1997-01-01 --to 1998-06-30
          --output buyers.parquet
      sparseq monitor shop.sparseq queries/daily_buyers.sql queries/daily_orders.sql
          --over date --from 1997-01-01 --output shop.csv
      sparseq monitor shop.sparseq queries/daily_buyers.sql --from 1997-01-01 --follow incoming
          --output buyers.parquet --plot buyers.html
    """
    wanted = MonitorOptions(**options)
    with open_store(store) as opened, catch_stop() as stop:
        code = run(opened, wanted, stop)
    if stop.signal:
        wanted.say("stopped; the next run goes on from here")
        code = 128 + stop.signal
    raise click.exceptions.Exit(code)


def run(store: Store, wanted: MonitorOptions, stop: Stop) -> int:
    """Run the monitor; return the exit code of a run that was not stopped."""

    ticks = ticks_of(wanted)
    check_over(store, wanted.over, ticks)
    sources = sources_of(store, wanted, ticks)
    monitor = Monitor(store, ticks, sources, wanted.output, stop.now.is_set)
    alarm = False
    if store.seed is not None:
        wanted.say(banner(NOT_PRIVATE))
    rivals = {s.name: rival_of(s, ticks) for s in sources if isinstance(s, QuerySeries)}
    picture = Picture(wanted.plot, monitor.table, store, wanted.alarm_below, rivals)

    def wait(seconds: float) -> bool:
        picture.refresh()
        return stop.now.wait(seconds)

    folder, steps = steps_of(store, wanted, monitor, wait)
    show = make_view(monitor, wanted.output)
    try:
        with progress(monitor, store, wanted.quiet, wanted.output, rivals) as advance:
            for ticked in steps:
                show(ticked)
                advance(ticked)
                if sounds_alarm(ticked.rows):
                    alarm = True
                    wanted.say(banner(f"{ticked.tick.label}: {ALARM_WORDS}"))
                for said in ticked.unlike:
                    alarm = True
                    wanted.say(banner(f"{ticked.tick.label}: ALARM: {shown(said)}. {UNLIKE_WORDS}"))
                picture.stale = True
    finally:
        monitor.flush()
    picture.stale = monitor.done > 0
    picture.refresh()
    if alarm:
        return ALARM
    return FILES_SET_ASIDE if folder is not None and folder.set_aside else 0


def ticks_of(wanted: MonitorOptions) -> Ticks:
    """Return the ticks: those that have ended by the clock, if nothing else says where they end."""

    start = moment(wanted.first)
    if wanted.last is not None:
        return Ticks(start, wanted.every, moment(wanted.last))
    endless = Ticks(start, wanted.every)
    if wanted.follow is not None:
        return endless
    ended = endless.ended_by(dt.datetime.now())
    if not ended:
        raise ParameterError(f"the tick of {wanted.first} has not ended yet", "give --to, or wait")
    return Ticks(start, wanted.every, endless[ended - 1].start)


def check_over(store: Store, over: str | None, ticks: Ticks) -> None:
    """Raise `ParameterError` if no table has the column, or if it can't tell ticks apart."""

    columns = [c for table in store.catalog.private for c in table.columns]
    if over is None:
        over = next((table.time for table in store.catalog.private if table.time), "")
        if not over:
            raise ParameterError("no table has a time column", "give --over COL")
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


def sources_of(store: Store, wanted: MonitorOptions, ticks: Ticks) -> list[RowSource]:
    """Return a series for each query file, of its name, and what goes along with them."""

    beside = Beside(
        wanted.alarm_below,
        wanted.horizon,
        Options(confidence=wanted.confidence),
        given(wanted.params, OF_TICKS),
    )
    texts = [(path.stem, QueryText.of(query_text(None, str(path)))) for path in wanted.queries]
    sources = beside.sources(store, texts, ticks)
    expected = outlooks(store, sources, ticks)
    if not wanted.anyway:
        refuse_what_ends_badly(expected)
    for one in expected:
        if one.ticks > 0:
            wanted.say(expected_text(one))
    return sources


def expected_text(told: SeriesOutlook) -> str:
    """Return what a series is going to be like, in words."""
    name = shown(told.name)
    if not told.first:
        return f"{name}: nothing is known of its errors before its first tick"
    width = f"± {format_bound(told.first)} for the next tick"
    if told.last > 1.05 * told.first:
        width += f", about ± {format_bound(told.last)} for the last of {told.ticks:,}"
    taken = f"; {told.share:.0%} of what the store has for questions" if told.share else ""
    return f"{name}: expected {width}{taken}"


def rival_of(series: QuerySeries, ticks: Ticks) -> Rival:
    """Return what a series is drawn beside."""
    found = worst_case_bound(series, ticks)
    bound, many = (None, 0) if found is None else found
    return Rival(bound, many, about_everybody(series))


def steps_of(
    store: Store, wanted: MonitorOptions, monitor: Monitor, wait: Callable[[float], bool]
) -> tuple[Folder | None, Iterator[TickResult]]:
    """Return the folder that is followed, if any, and the ticks as they are answered."""

    if wanted.follow is None:
        return None, monitor.run()
    target = store.catalog.table(wanted.table) if wanted.table else store.catalog.only_private()
    inbox = Inbox(store, target.name)
    folder = Folder(
        wanted.follow,
        inbox,
        hours=not monitor.ticks.whole_days,
        settle=wanted.settle,
        once=wanted.once,
        by_name=wanted.complete == "names",
        say=wanted.say,
        wait=wait,
    )

    def late(arrival: Arrival) -> bool:
        if wanted.late == "reject":
            folder.reject(arrival.key, "Its ticks are answered, and --late reject was said.")
            return False
        wanted.say(f"{shown(arrival.key)} is late: its ticks are answered; only later ones see it")
        return True

    clock = dt.datetime.now if wanted.complete == "clock" else None
    lateness = length_of(wanted.lateness, "--lateness")
    return folder, monitor.follow(folder, inbox, lateness, late, clock)


@dataclass
class Stop:
    """Set by a signal; the monitor looks at it between two steps."""

    now: threading.Event = field(default_factory=threading.Event)
    signal: int = 0


@contextmanager
def catch_stop() -> Iterator[Stop]:
    """Turn the first SIGINT or SIGTERM into a wish to stop; the second is as ever."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def wish(number: int, _: FrameType | None) -> None:
        stop.signal = number
        stop.now.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, wish)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
