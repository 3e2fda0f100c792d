"""`sparseq monitor`: ask the same questions at every tick, and write the answers to a file."""

from __future__ import annotations

import datetime as dt
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

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
from sparseq.cli.sql import query_text
from sparseq.cli.text import banner, say
from sparseq.pictures.bounded_numbers import format_bound
from sparseq.pictures.guarantee_texts import NOT_PRIVATE
from sparseq.question.catalog import TIME_TYPES
from sparseq.question.plan import Options
from sparseq.series import Monitor, QueryText, Ticks
from sparseq.series.arrivals import Inbox
from sparseq.series.folder import Folder, waits
from sparseq.series.monitor_series import MonitorSeries
from sparseq.series.query_series import QuerySeries
from sparseq.series.series_figures import Rival
from sparseq.series.series_outlook import (
    SeriesOutlook,
    about_everybody,
    outlooks,
    refuse_bad_series,
    worst_case_bound,
)
from sparseq.series.ticks import TICK_PARAMETERS, length_of, moment
from sparseq.series.watch_rows import sounds_alarm
from sparseq.sql.parameters import given

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparseq.series import Monitor, TickResult, Ticks
    from sparseq.series.arrivals import Arrival
    from sparseq.series.folder import Folder
    from sparseq.series.query_series import RowSource
    from sparseq.store.store import Store
from sparseq.cli.monitor_view import Picture, make_view, progress

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
    skip: tuple[str, ...]
    settle: float
    once: bool
    confidence: float | None
    alarm_below: float | None
    horizon: int | None
    anyway: bool
    plot: Path | None
    quiet: bool

    def say(self, text: str) -> None:
        """Write a text to standard error."""
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
    "--skip",
    multiple=True,
    metavar="FILE",
    help="Answer ticks without a file that was set aside: its name. Else they wait for it.",
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
    "--anyway",
    is_flag=True,
    help="Ask although it takes most of what the store has for questions, or its ± may be wide.",
)
@click.option(
    "--plot", type=FilePath(), metavar="FILE", help="Draw the series: .html, .png or .svg."
)
@quiet_option
def monitor(store: Path, **options: Any) -> None:
    """Ask every QUERY once a tick, and write a file of answers: one row per tick, group and number.

    A query has the parameters :day and :next_day (or :tick and :next_tick), and those given with
    --param. A series with a part of the budget (`create --for`, `purpose add`) has the method
    declared there; other series are paid from the budget for questions. A restarted monitor
    continues where it stopped and asks no tick twice.

    With --follow the data arrive in files such as 1997-01-01.parquet, and each is ingested once.
    The monitor then runs until the last tick is answered or it is stopped (Ctrl-C, SIGTERM): it
    ends between two steps, with all answers in the file.

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
    return FILES_SET_ASIDE if folder is not None and (folder.set_aside or folder.held) else 0


def ticks_of(wanted: MonitorOptions) -> Ticks:
    """Return the ticks; without a given end, those that have ended by the clock."""

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
    """Raise `ParameterError` if no table has the column, or if it can't distinguish ticks."""

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
    """Return a series for each query file, named after it, and the sources that go with them."""

    beside = MonitorSeries(
        wanted.alarm_below,
        wanted.horizon,
        Options(confidence=wanted.confidence),
        given(wanted.params, TICK_PARAMETERS),
    )
    texts = [(path.stem, QueryText.of(query_text(None, str(path)))) for path in wanted.queries]
    sources = beside.sources(store, texts, ticks)
    expected = outlooks(store, sources, ticks)
    if not wanted.anyway:
        refuse_bad_series(expected)
    for one in expected:
        if one.ticks > 0:
            wanted.say(expected_text(one))
    return sources


def expected_text(told: SeriesOutlook) -> str:
    """Return the expected quality of a series, in words."""
    name = shown(told.name)
    if not told.first:
        return f"{name}: nothing is known of its errors before its first tick"
    width = f"± {format_bound(told.first)} for the next tick"
    if told.last > 1.05 * told.first:
        width += f", about ± {format_bound(told.last)} for the last of {told.ticks:,}"
    taken = f"; {told.share:.0%} of what the store has for questions" if told.share else ""
    return f"{name}: expected {width}{taken}"


def rival_of(series: QuerySeries, ticks: Ticks) -> Rival:
    """Return the comparison to draw with a series."""
    found = worst_case_bound(series, ticks)
    bound, many = (None, 0) if found is None else found
    return Rival(bound, many, about_everybody(series))


def steps_of(
    store: Store, wanted: MonitorOptions, monitor: Monitor, wait: Callable[[float], bool]
) -> tuple[Folder | None, Iterator[TickResult]]:
    """Return the followed folder, if any, and the iterator of answered ticks."""

    if wanted.follow is None:
        return None, monitor.run()
    target = store.catalog.table(wanted.table) if wanted.table else store.catalog.only_private()
    inbox = Inbox(store, target.name)
    for key in wanted.skip:
        inbox.skip(key)
    for key in inbox.held:
        wanted.say(waits(key))
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
    """A flag set by a signal; the monitor checks it between two steps."""

    now: threading.Event = field(default_factory=threading.Event)
    signal: int = 0


@contextmanager
def catch_stop() -> Iterator[Stop]:
    """Turn the first SIGINT or SIGTERM into a request to stop; the second has its usual effect."""
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
