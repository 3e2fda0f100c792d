"""The kinds of jobs: series, replays and backups."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sparseq.base.errors import ParameterError
from sparseq.replay.answer_file import AnswerFile
from sparseq.replay.log import Log
from sparseq.replay.run import results
from sparseq.series.arrivals import Arrival, Inbox
from sparseq.series.folder import Folder
from sparseq.series.loop import Monitor, TickResult
from sparseq.series.monitor_series import MonitorSeries
from sparseq.series.series_outlook import outlooks, refuse_bad_series
from sparseq.series.ticks import Ticks, length_of, moment
from sparseq.sql.parameters import QueryText
from sparseq.store._duckdb.backup import backup
from sparseq.store.store import Store

_LINES = 64  # of a log, in a step: it keeps others waiting for this time
_STAMP = "%Y-%m-%dT%H%M%S"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class _NotReady(Exception):
    """A file is not complete yet, so later files must wait."""


@dataclass(frozen=True)
class MonitorJob:
    """Ask the same queries tick after tick: see `sparseq monitor`, which has these options."""

    name: str
    queries: list[Path]
    start: str
    output: Path
    last: str = ""
    every: str = "1d"
    follow: Path | None = None
    table: str = ""
    lateness: str = "0d"
    settle: float = 2.0
    horizon: int = 0
    alarm_below: float = 0.0
    anyway: bool = False
    kind: str = "monitor"

    def steps(self, store: Store) -> Generator[str, None, None]:
        """See `Job`: one tick per step."""
        ticks = Ticks(moment(self.start), self.every, moment(self.last) if self.last else None)
        beside = MonitorSeries(self.alarm_below or None, self.horizon or None)
        texts = [(path.stem, QueryText.of(read_text(path))) for path in self.queries]
        sources = beside.sources(store, texts, ticks)
        if not self.anyway:
            refuse_bad_series(outlooks(store, sources, ticks))
        monitor = Monitor(store, ticks, sources, self.output)
        if self.follow is not None:
            return tick_by_tick(monitor, self._files(store, monitor))
        return tick_by_tick(monitor, ticks_by_clock(monitor, None if self.last else dt.timedelta()))

    def _files(self, store: Store, monitor: Monitor) -> Iterator[Iterator[TickResult]]:
        """The same, by the files in the folder."""
        assert self.follow is not None
        target = store.catalog.table(self.table) if self.table else store.catalog.only_private()
        inbox, lateness = Inbox(store, target.name), length_of(self.lateness, "lateness")
        hours = not monitor.ticks.whole_days
        folder = Folder(self.follow, inbox, hours=hours, settle=self.settle, wait=lambda _: True)
        yield monitor.resume()
        while True:
            yield monitor.take_in(_arrivals(folder), inbox, lateness)


def tick_by_tick(
    monitor: Monitor, looks: Iterator[Iterator[TickResult]]
) -> Generator[str, None, None]:
    """Answer one tick per step, in each round those that can be answered."""
    try:
        for done in looks:
            with contextlib.suppress(_NotReady):
                for ticked in done:
                    again = " (read back)" * ticked.again
                    yield "; ".join([f"{ticked.tick.label}{again}", *ticked.unlike])
            monitor.flush()
            if monitor.finished:
                return
            yield ""
    finally:
        monitor.flush()


def ticks_by_clock(monitor: Monitor, wait: dt.timedelta | None) -> Iterator[Iterator[TickResult]]:
    """Yield the last tick that ended long enough ago, in each round; None: all ticks."""
    while True:
        past = None if wait is None else monitor.ticks.ended_by(dt.datetime.now() - wait)
        yield monitor.run(past)


def _arrivals(folder: Folder) -> Iterator[Arrival | None]:
    """Yield the present files; the iteration ends once the folder stops waiting."""
    last: Arrival | None = None
    ready = False
    for last in folder:
        ready = last is None
        yield last
    if not ready:
        raise _NotReady


@dataclass(frozen=True)
class ReplayJob:
    """Answer a log of queries, once: see `sparseq replay`. It is done when its output exists."""

    name: str
    log: Path
    output: Path
    kind: str = "replay"

    def steps(self, store: Store) -> Generator[str, None, None]:
        """See `Job`: some lines per step."""
        if self.output.exists():
            return
        log = Log(self.log)
        facts = {"log": str(log.path.resolve()), "bytes": log.bytes, "name": log.name}
        answers = AnswerFile(self.output, facts, resume=True)
        lines = log.lines(answers.done)
        try:
            while some := list(islice(lines, _LINES)):
                for result in results(store, some, log.name):
                    answers.add(result)
                yield f"{answers.lines:,} lines"
        finally:
            answers.flush()
        answers.finish()


@dataclass(frozen=True)
class BackupJob:
    """Make a backup at regular intervals; keep the latest ones, by default all."""

    name: str
    folder: Path
    every: str = "1d"
    keep: int = 0
    kind: str = "backup"

    def steps(self, store: Store) -> Generator[str, None, None]:
        """See `Job`: one backup per step."""
        every = length_of(self.every, "every")
        while True:
            now, made = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0), self._made()
            if not made or now - max(made) >= every:
                path = self._path(now)
                backup(store, path)
                for old in sorted([*made, now])[: -self.keep] if self.keep else ():
                    self._path(old).unlink(missing_ok=True)
                yield path.name
            yield ""

    def _path(self, at: dt.datetime) -> Path:
        return self.folder / f"{self.name}-{at.strftime(_STAMP)}.sparseq"

    def _made(self) -> list[dt.datetime]:
        """Return the times of the existing backups, from their names."""
        found = []
        for path in self.folder.glob(f"{self.name}-*.sparseq"):
            with contextlib.suppress(ValueError):
                found.append(dt.datetime.strptime(path.stem[len(self.name) + 1 :], _STAMP))
        return found


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise ParameterError(f"{name!r} can't be the name of a job", "letters, digits, _ and -")


def read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip().rstrip(";")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"{path} can't be read") from None
