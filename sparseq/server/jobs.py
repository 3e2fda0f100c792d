"""Jobs: what a server does by itself, step by step, each step in its turn like a question.

How far a job is, only the store and the job's own files know. So one that was stopped, killed or
has failed begins anew and goes on where it was: what it asks has names of its own, and is asked
once.
What a job says is for the curator.

The kinds of jobs, and the file that says which there are: a table of TOML for each.

    [buyers]
    kind = "monitor"
    queries = ["daily_buyers.sql"]
    from = 1997-01-01
    follow = "incoming"
    output = "buyers.parquet"

    [nightly]
    kind = "backup"
    folder = "/backups"
    keep = 7

Paths are taken from the folder that the file is in.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import logging
import re
import tomllib
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from sparseq.base.errors import ParameterError, SparseqError, StoreError, did_you_mean
from sparseq.ledger.purposes import Purpose
from sparseq.replay.log import Log
from sparseq.replay.run import AnswerFile, results
from sparseq.series.companions import Beside
from sparseq.series.folder import Arrival, Folder, Inbox
from sparseq.series.loop import Monitor, TickResult
from sparseq.series.query_series import QuerySeries, RowSource, purpose_of
from sparseq.series.series_outlook import (
    SeriesOutlook,
    outlook_with,
    outlooks,
    refuse_what_ends_badly,
)
from sparseq.series.ticks import Ticks, length_of, moment
from sparseq.server.quota_desk import Desk
from sparseq.server.tokens import SideFile
from sparseq.sql.parameters import QueryText
from sparseq.store._duckdb.backup import backup
from sparseq.store.store import Store
from sparseq.stream.new_purpose import add_purpose

# -- jobs: what a server does by itself, step by step, each step in its turn like a question -------

LOG = logging.getLogger("sparseq.server")
PAUSE, AGAIN = 1.0, 60.0
"""Seconds until a job looks again for something to do, and until one that failed begins anew."""


class Job(Protocol):
    """A job to be done."""

    @property
    def name(self) -> str:
        """Of the job."""

    @property
    def kind(self) -> str:
        """The kind of work."""

    def steps(self, store: Store) -> Generator[str, None, None]:
        """Do one step after the other, and say what was done; "": there is nothing to do now."""


@dataclass
class JobState:
    """The state of a job.

    Attributes:
        name, kind: Which.
        state: working, waiting, done or failed.
        said: What was done last, or why it failed.
        at: Since when, in UTC.
        steps: How many were done since the server began.
        ran: When something was done, or failed, the last time, in UTC.
        failed: It failed that time.
        ended: Nobody wants it any more.
    """

    name: str
    kind: str
    state: str = "waiting"
    said: str = ""
    at: str = ""
    steps: int = 0
    ran: str = ""
    failed: bool = False
    ended: bool = False

    def tell(self, state: str, said: str) -> None:
        """Say how it is now; `said`: what was done, "" if nothing was."""
        self.state, self.said = state, said or self.said
        self.at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        if said:
            self.ran, self.failed = self.at, state == "failed"


class Jobs:
    """Runs jobs until the server stops.

    Args:
        jobs: Which.
        operate: Returns what a call on the store does, in its turn.
        stopping: Set when the server stops.
        desk: Is told of each answer.
        kept: Series that were begun on a page, and how each job's last run was; by default kept
            nowhere that stays.

    Attributes:
        states: How they are.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        operate: Callable[[Callable[[Store], Any]], Awaitable[Any]],
        stopping: asyncio.Event,
        desk: Desk,
        kept: KeptJobs | None = None,
    ) -> None:
        self._operate, self._stopping, self._desk = operate, stopping, desk
        self._kept = kept or KeptJobs(None)
        self._first: list[Job] = [*jobs, *self._kept.series()]
        self._tasks: list[asyncio.Task[None]] = []
        self.states = [self._kept.state(job) for job in self._first]

    async def run(self) -> None:
        """Run all of them, and those that begin later; a step that has begun is ended."""
        self._tasks += map(asyncio.create_task, map(self._run, self._first, self.states))
        await self._stopping.wait()
        await asyncio.gather(*self._tasks)

    async def begin(self, series: SeriesJob) -> None:
        """Run a series from now on, also after the server has stopped and begun again.

        Raises:
            ParameterError: There is a job of its name.
        """
        if series.name in [state.name for state in self.states]:
            raise ParameterError(f"there is a job {series.name!r}", "take another name")
        await asyncio.to_thread(self._kept.add, series)
        state = JobState(series.name, series.kind)
        self.states.append(state)
        self._tasks.append(asyncio.create_task(self._run(series, state)))

    async def end(self, name: str) -> bool:
        """Do no further step of such a series, and forget it; tell whether it was there."""
        found = await asyncio.to_thread(self._kept.end, name)
        for state in [state for state in self.states if found and state.name == name]:
            state.ended = True
            self.states.remove(state)
        return found

    async def _run(self, job: Job, state: JobState) -> None:
        while not self._over(state):
            try:
                if await self._run_steps(job, state):
                    return
            except Exception as error:
                if self._over(state):
                    return
                known = isinstance(error, SparseqError)
                if not known:
                    LOG.exception("the job %s failed", job.name)
                state.tell("failed", str(error) if known else type(error).__name__)
                failed = partial(self._desk.tell, "job failed", "", source=f"job {job.name}")
                await asyncio.to_thread(failed)
                await asyncio.to_thread(self._kept.ran, state)
            await self._pause(AGAIN)

    async def _run_steps(self, job: Job, state: JobState) -> bool:
        """Do steps until there are none left, or the server stops."""
        steps, before = list[Generator[str, None, None]](), state.steps

        def step(store: Store) -> str | None:
            before = store.released
            try:
                if not steps:
                    steps.append(job.steps(store))
                return next(steps[0], None)
            finally:
                self._note(job, store, store.released - before)

        try:
            while not self._over(state):
                said = await self._operate(step)
                if said is None:
                    state.tell("done", "")
                    return True
                state.steps += bool(said)
                state.tell("working" if said else "waiting", said)
                if not said:
                    if state.steps > before:
                        await asyncio.to_thread(self._kept.ran, state)
                        before = state.steps
                    await self._pause(PAUSE)
            return True
        finally:
            if state.steps > before:
                await asyncio.to_thread(self._kept.ran, state)
            for begun in steps:
                begun.close()

    def _over(self, state: JobState) -> bool:
        return state.ended or self._stopping.is_set()

    def _note(self, job: Job, store: Store, releases: int) -> None:
        for one in store.releases(releases) if releases else ():
            facts = {"release": one.id, "query": one.query}
            self._desk.note("asked", "", source=f"job {job.name}", **facts)
        self._desk.write()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


# -- the kinds of jobs, and the file that says which there are: a table of TOML for each -----------

_LINES = 64  # of a log, in a step: so long can it keep others waiting
_STAMP = "%Y-%m-%dT%H%M%S"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class _NotReady(Exception):
    """A file is not whole yet: nothing is known of what comes after it."""


@dataclass(frozen=True)
class MonitorJob:
    """Ask the same queries tick after tick: see `sparseq monitor`, whose options these are."""

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
        """See `Job`: a tick a step."""
        ticks = Ticks(moment(self.start), self.every, moment(self.last) if self.last else None)
        beside = Beside(self.alarm_below or None, self.horizon or None)
        texts = [(path.stem, QueryText.of(_text(path))) for path in self.queries]
        sources = beside.sources(store, texts, ticks)
        if not self.anyway:
            refuse_what_ends_badly(outlooks(store, sources, ticks))
        monitor = Monitor(store, ticks, sources, self.output)
        if self.follow is not None:
            return _tick_by_tick(monitor, self._files(store, monitor))
        return _tick_by_tick(monitor, _clock(monitor, None if self.last else dt.timedelta()))

    def _files(self, store: Store, monitor: Monitor) -> Iterator[Iterator[TickResult]]:
        """Likewise: by the files that are in the folder."""
        assert self.follow is not None
        target = store.catalog.table(self.table) if self.table else store.catalog.only_private()
        inbox, lateness = Inbox(store, target.name), length_of(self.lateness, "lateness")
        hours = not monitor.ticks.whole_days
        folder = Folder(self.follow, inbox, hours=hours, settle=self.settle, wait=lambda _: True)
        yield monitor.resume()
        while True:
            yield monitor.take_in(_arrivals(folder), inbox, lateness)


def _tick_by_tick(
    monitor: Monitor, looks: Iterator[Iterator[TickResult]]
) -> Generator[str, None, None]:
    """Answer a tick a step, each time those that can be answered."""
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


def _clock(monitor: Monitor, wait: dt.timedelta | None) -> Iterator[Iterator[TickResult]]:
    """Yield the ticks that ended so long ago, each time that is asked; None: all ticks."""
    while True:
        past = None if wait is None else monitor.ticks.ended_by(dt.datetime.now() - wait)
        yield monitor.run(past)


def _arrivals(folder: Folder) -> Iterator[Arrival | None]:
    """Yield what is there now; a folder that is told to stop waiting comes to its end."""
    last: Arrival | None = None
    ready = False
    for last in folder:
        ready = last is None
        yield last
    if not ready:
        raise _NotReady


@dataclass(frozen=True)
class ReplayJob:
    """Answer a log of queries, once: see `sparseq replay`. It is done when its output is there."""

    name: str
    log: Path
    output: Path
    kind: str = "replay"

    def steps(self, store: Store) -> Generator[str, None, None]:
        """See `Job`: some lines a step."""
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
    """Make a backup every so often; keep so many of them, by default all."""

    name: str
    folder: Path
    every: str = "1d"
    keep: int = 0
    kind: str = "backup"

    def steps(self, store: Store) -> Generator[str, None, None]:
        """See `Job`: a backup a step."""
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
        """Return when the backups were made that are there, by their names."""
        found = []
        for path in self.folder.glob(f"{self.name}-*.sparseq"):
            with contextlib.suppress(ValueError):
                found.append(dt.datetime.strptime(path.stem[len(self.name) + 1 :], _STAMP))
        return found


# -- series that curators begin on a page, and how each job's last run was -------------------------

_TABLES = """
CREATE TABLE IF NOT EXISTS series (name TEXT PRIMARY KEY, job TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    name TEXT, kind TEXT, at TEXT NOT NULL, said TEXT NOT NULL, failed INTEGER NOT NULL,
    PRIMARY KEY (name, kind));
"""


@dataclass(frozen=True)
class SeriesJob:
    """One query tick after tick, by the clock; its answers are in the store, and in no file.

    Attributes:
        name: Of the series, and of its part of the budget.
        sql: The query; it has parameters of the tick, such as :day and :next_day.
        start, last: The first tick and the last one; "": it goes on.
        every: How long a tick is.
        wait: How long after its end a tick is asked, so that its rows are there.
        share: Of what everybody has left for questions when it begins, what is for it alone; 0: it
            is paid from what is for questions.
    """

    name: str
    sql: str
    start: str
    every: str = "1d"
    last: str = ""
    wait: str = "0d"
    share: float = 0.0
    kind: str = "series"

    def __post_init__(self) -> None:
        _check_name(self.name)

    def steps(self, store: Store) -> Generator[str, None, None]:
        """See `Job`: a tick a step."""
        if self.share and purpose_of(store, self.name) is None:
            add_purpose(store.stream, self._purpose())
        ticks, sources = self._ticks(), self._sources(store)
        refuse_what_ends_badly(outlooks(store, sources, ticks))
        monitor = Monitor(store, ticks, sources)
        return _tick_by_tick(monitor, _clock(monitor, length_of(self.wait, "wait")))

    def expected(self, store: Store) -> SeriesOutlook:
        """Return what it is going to be like, before it is begun; nothing is asked.

        Raises:
            ParameterError: It can't be asked so.
            QueryRefused: Nor at all; or it would end badly.
        """
        ticks, sources = self._ticks(), self._sources(store)
        length_of(self.wait, "wait")
        if self.share and purpose_of(store, self.name) is not None:
            raise ParameterError(
                f"{self.name} has a part of the budget already", "leave its share empty"
            )
        if self.share:
            (series,) = (one for one in sources if isinstance(one, QuerySeries))
            found = outlook_with(series, ticks, self._purpose())
        else:
            (found,) = outlooks(store, sources, ticks)
        refuse_what_ends_badly([found])
        return found

    def _ticks(self) -> Ticks:
        return Ticks(moment(self.start), self.every, moment(self.last) if self.last else None)

    def _sources(self, store: Store) -> list[RowSource]:
        text = QueryText.of(self.sql.strip().rstrip(";"))
        return Beside().sources(store, [(self.name, text)], self._ticks())

    def _purpose(self) -> Purpose:
        if not self.last:
            raise ParameterError(
                f"{self.name} is to have a part of the budget, and has no last tick",
                "say when it ends: a part is for so many ticks",
            )
        return Purpose(self.name, self.share, len(self._ticks()))


class KeptJobs:
    """The series that curators have begun, and how each job's last run was.

    They are in the file of what is saved beside the store.

    Args:
        path: Of the file; None: in memory.

    Example:
        >>> kept = KeptJobs(None)
        >>> kept.add(SeriesJob("visits", "SELECT …", "2026-01-01"))
        >>> kept.end("visits"), kept.end("visits")
        (True, False)
    """

    def __init__(self, path: Path | None) -> None:
        self._file = SideFile(path, "how jobs are", _TABLES)

    @classmethod
    def beside(cls, store: Path) -> KeptJobs:
        """Return those of the store whose file it is."""
        return cls(store.with_name(store.name + ".saved"))

    def series(self) -> list[SeriesJob]:
        """Return the series, those first that were begun first."""
        rows = self._file.rows("SELECT job FROM series ORDER BY rowid")
        return [SeriesJob(**json.loads(job)) for (job,) in rows]

    def add(self, job: SeriesJob) -> None:
        """Keep one; raises `ParameterError` if there is one of its name."""
        with self._file.writes() as db:
            if job.name in [one.name for one in self.series()]:
                raise ParameterError(f"there is a series {job.name!r}", "take another name")
            db.execute("INSERT INTO series VALUES (?, ?)", [job.name, json.dumps(asdict(job))])

    def end(self, name: str) -> bool:
        """Forget one; tell whether it was there."""
        with self._file.writes() as db:
            db.execute("DELETE FROM runs WHERE name = ? AND kind = ?", [name, SeriesJob.kind])
            return bool(db.execute("DELETE FROM series WHERE name = ?", [name]).rowcount)

    def ran(self, state: JobState) -> None:
        """Keep how a job's last run was, as far as the disk lets it."""
        facts = [state.name, state.kind, state.ran, state.said, state.failed]
        try:
            with self._file.writes() as db:
                db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", facts)
        except StoreError:
            LOG.exception("how the job %s is could not be written", state.name)

    def state(self, job: Job) -> JobState:
        """Return how a job is that has not begun yet, with its last run."""
        found = JobState(job.name, job.kind)
        sql = "SELECT at, said, failed FROM runs WHERE name = ? AND kind = ?"
        for at, said, failed in self._file.rows(sql, [job.name, job.kind]):
            found.ran, found.said, found.failed = at, said, bool(failed)
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


# -- the kinds of jobs in a file -------------------------------------------------------------------

KINDS = {"monitor": MonitorJob, "replay": ReplayJob, "backup": BackupJob}
_SPELT = {"start": "from", "last": "to"}


def read_jobs(path: Path) -> list[Job]:
    """Read a file of jobs.

    Raises:
        ParameterError: It can't be read, or says something that no job knows.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ParameterError(f"can't read {path}: {why}", "write it in TOML") from None
    return [_job(name, given, path.parent.resolve()) for name, given in content.items()]


def _job(name: str, given: Any, folder: Path) -> Job:
    if not isinstance(given, dict) or given.get("kind") not in KINDS:
        raise ParameterError(f"job {name!r} has no kind", f"kind = one of {', '.join(KINDS)}")
    _check_name(name)
    made = KINDS[given["kind"]]
    known = {_SPELT.get(f.name, f.name): f for f in fields(made) if f.name not in ("name", "kind")}
    values = {}
    for key in (key for key in given if key != "kind"):
        if key not in known:
            raise ParameterError(f"job {name!r}: there is no {key!r}", did_you_mean(key, known))
        values[known[key].name] = _value(name, key, given[key], str(known[key].type), folder)
    missing = [key for key, f in known.items() if f.default is MISSING and key not in given]
    if missing:
        raise ParameterError(f"job {name!r} needs {', '.join(missing)}")
    job: Job = made(name, **values)
    return job


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ParameterError(f"job {name!r} can't be called so", "letters, digits, _ and -")


def _value(job: str, key: str, value: Any, kind: str, folder: Path) -> Any:
    """Return a value as a job has it.

    Raises:
        ParameterError: It is of another kind.
    """
    texts = value if kind.startswith("list") else [value]
    if "Path" in kind and isinstance(texts, list) and all(isinstance(t, str) for t in texts):
        paths = [folder / text for text in texts]
        return paths if kind.startswith("list") else paths[0]
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str | dt.date):
        return str(value)
    number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if number and kind in ("int", "float") and (kind == "float" or isinstance(value, int)):
        return value
    raise ParameterError(f"job {job!r}: {key} is {value!r}, which it can't be")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip().rstrip(";")
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"{path} can't be read") from None
