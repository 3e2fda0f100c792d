"""Series that curators begin on a page, and the state of each job's last run."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path

from sparseq.base.errors import ParameterError, StoreError
from sparseq.ledger.purposes import Purpose
from sparseq.series.loop import Monitor
from sparseq.series.monitor_series import MonitorSeries
from sparseq.series.query_series import QuerySeries, RowSource
from sparseq.series.series_outlook import (
    SeriesOutlook,
    outlooks,
    planned_outlook,
    refuse_bad_series,
)
from sparseq.series.series_part import purpose_of
from sparseq.series.ticks import Ticks, length_of, moment
from sparseq.server.job import LOG, Job, JobState
from sparseq.server.job_kinds import check_name, tick_by_tick, ticks_by_clock
from sparseq.server.side_file import SideFile
from sparseq.sql.parameters import QueryText
from sparseq.store.store import Store
from sparseq.stream.new_purpose import add_purpose

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
        name: The name of the series, and of its part of the budget.
        sql: The query; it has parameters of the tick, such as :day and :next_day.
        start, last: The first tick and the last one; "": it continues.
        every: The length of a tick.
        wait: The time after its end at which a tick is asked, so that its rows are loaded.
        share: Its own share of what all users have left for questions when it begins; 0: it is paid
            from the part for questions.
        anyway: True if it is asked although it is expected to be of little use.
    """

    name: str
    sql: str
    start: str
    every: str = "1d"
    last: str = ""
    wait: str = "0d"
    share: float = 0.0
    kind: str = "series"
    anyway: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)

    def steps(self, store: Store) -> Generator[str, None, None]:
        """See `Job`: one tick per step."""
        if self.share and purpose_of(store, self.name) is None:
            add_purpose(store.stream, self._purpose())
        ticks, sources = self._ticks(), self._sources(store)
        if not self.anyway:
            refuse_bad_series(outlooks(store, sources, ticks))
        monitor = Monitor(store, ticks, sources)
        return tick_by_tick(monitor, ticks_by_clock(monitor, length_of(self.wait, "wait")))

    def expected(self, store: Store) -> SeriesOutlook:
        """Return the forecast of the series, before it is begun; no question is answered.

        Raises:
            ParameterError: It can't be asked in this form.
            QueryRefused: It can't be asked, or would fail later.
        """
        ticks, sources = self._ticks(), self._sources(store)
        length_of(self.wait, "wait")
        if self.share and purpose_of(store, self.name) is not None:
            raise ParameterError(
                f"{self.name} has a part of the budget already", "leave its share empty"
            )
        if self.share:
            (series,) = (one for one in sources if isinstance(one, QuerySeries))
            found = planned_outlook(series, ticks, self._purpose())
        else:
            (found,) = outlooks(store, sources, ticks)
        if not self.anyway:
            refuse_bad_series([found])
        return found

    def _ticks(self) -> Ticks:
        return Ticks(moment(self.start), self.every, moment(self.last) if self.last else None)

    def _sources(self, store: Store) -> list[RowSource]:
        text = QueryText.of(self.sql.strip().rstrip(";"))
        return MonitorSeries().sources(store, [(self.name, text)], self._ticks())

    def _purpose(self) -> Purpose:
        if not self.last:
            raise ParameterError(
                f"{self.name} gets a part of the budget, and has no last tick",
                "give its last tick: a part is for a fixed number of ticks",
            )
        return Purpose(self.name, self.share, len(self._ticks()))


class KeptJobs:
    """The series that curators have begun, and the state of each job's last run.

    They are in the file of saved data in the store's folder.

    Args:
        path: The path of the file; None: in memory.

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
        """Return those of the store with this file."""
        return cls(store.with_name(store.name + ".saved"))

    def series(self) -> list[SeriesJob]:
        """Return the series, in the order of their beginning."""
        rows = self._file.rows("SELECT job FROM series ORDER BY rowid")
        return [SeriesJob(**json.loads(job)) for (job,) in rows]

    def add(self, job: SeriesJob) -> None:
        """Add one; raise `ParameterError` if the name exists."""
        with self._file.writes() as db:
            if job.name in [one.name for one in self.series()]:
                raise ParameterError(f"there is a series {job.name!r}", "take another name")
            db.execute("INSERT INTO series VALUES (?, ?)", [job.name, json.dumps(asdict(job))])

    def end(self, name: str) -> bool:
        """Delete one; tell whether it existed."""
        with self._file.writes() as db:
            db.execute("DELETE FROM runs WHERE name = ? AND kind = ?", [name, SeriesJob.kind])
            return bool(db.execute("DELETE FROM series WHERE name = ?", [name]).rowcount)

    def ran(self, state: JobState) -> None:
        """Store the state of a job's last run, if the disk permits."""
        facts = [state.name, state.kind, state.ran, state.said, state.failed]
        try:
            with self._file.writes() as db:
                db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", facts)
        except StoreError:
            LOG.exception("how the job %s is could not be written", state.name)

    def state(self, job: Job) -> JobState:
        """Return the state of a job that has not begun yet, with its last run."""
        found = JobState(job.name, job.kind)
        sql = "SELECT at, said, failed FROM runs WHERE name = ? AND kind = ?"
        for at, said, failed in self._file.rows(sql, [job.name, job.kind]):
            found.ran, found.said, found.failed = at, said, bool(failed)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()
