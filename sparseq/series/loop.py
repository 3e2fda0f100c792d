"""The loop of a monitor: it answers one tick after the other, and asks every source once a tick.

The loop makes no decision about privacy: a source asks the store, whose step charges and releases,
and the next question depends only on the clock of the data and on released answers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from sparseq.base.errors import StoreError
from sparseq.ledger.request_id import RequestId
from sparseq.series.arrivals import Arrival, Inbox
from sparseq.series.plan_alarm import PlanAlarm
from sparseq.series.query_series import QuerySeries, RowSource, is_of
from sparseq.series.series_file import SeriesFile
from sparseq.series.series_rows import Row, as_table, schema_of
from sparseq.series.ticks import Tick, Ticks
from sparseq.store.store import Store

_TOGETHER = 1024  # ticks per look-up in the journal


@dataclass(frozen=True)
class TickResult:
    """A finished tick.

    Attributes:
        tick: The tick.
        rows: Rows of all sources.
        again: All of its answers were released before.
        unlike: Messages about series that no longer resemble the data they were planned on.
    """

    tick: Tick
    rows: Sequence[Row]
    again: bool
    unlike: Sequence[str] = ()


class Monitor:
    """Asks every source once a tick, and keeps the series in a file.

    Args:
        store: Its journal is the record of all releases.
        ticks: The ticks to answer.
        sources: The series, asked in this order.
        out: The file, .parquet, .csv or .jsonl; None keeps none.
        stopping: Called between any two steps; the monitor ends once it returns True.

    Raises:
        StoreError: The file has answers that this store did not give.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> from sparseq.series import QuerySeries, QueryText
        >>> day = dt.date(2024, 1, 1)
        >>> con = sparseq.create(None, {"t": pa.table({"who": [1], "day": [day]})}, user="who")
        >>> ticks = Ticks(dt.datetime(2024, 1, 1), "1d", dt.datetime(2024, 1, 3))
        >>> query = QueryText.of("SELECT count(*) AS n FROM t WHERE day = :day")
        >>> monitor = Monitor(con, ticks, [QuerySeries(con, "rows", query, ticks)])
        >>> [ticked.tick.label for ticked in monitor.run()]
        ['2024-01-01', '2024-01-02', '2024-01-03']
    """

    def __init__(
        self,
        store: Store,
        ticks: Ticks,
        sources: Sequence[RowSource],
        out: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ticks, self.sources = ticks, sources
        keys = [key for source in sources for key in source.group_keys()]
        correlated = any(source.strategy for source in sources)
        allowing = any(source.left_out for source in sources)
        self.schema = schema_of(keys, ticks.whole_days, correlated, allowing)
        self._store, self._stopping = store, stopping
        self._file = SeriesFile(out, self.schema) if out is not None else None
        self._known = self._file.known() if self._file is not None else {}
        self._tables = [self.schema.empty_table()]
        self._check_known()
        purposes = (s.part.purpose for s in sources if isinstance(s, QuerySeries))
        planned, before = [p for p in purposes if p is not None and p.seen[1]], None
        if planned and self._known:
            before = self.table()
        self._planned = [PlanAlarm(purpose, before) for purpose in planned]
        self.done = 0
        """Number of finished ticks."""

    def run(self, count: int | None = None) -> Iterator[TickResult]:
        """Answer the first `count` ticks, by default all; yield each when it is done.

        Ticks that the file has are skipped. For the others, released answers are read back from the
        journal, free of charge, and the rest is asked.
        """
        while not self._stopping() and (count is None or self.done < count):
            try:
                tick = self.ticks[self.done]
            except IndexError:
                return
            missing = [s for s in self.sources if (s.name, tick.label) not in self._known]
            if missing:
                before = self._store.released
                rows = [row for source in missing for row in source.rows(tick)]
                table = as_table(rows, self.schema)
                if self._file is not None:
                    self._file.append(table)
                else:
                    self._tables.append(table)
                self.done += 1
                unlike = [said for one in self._planned if (said := one.check(rows))]
                yield TickResult(tick, rows, self._store.released == before, unlike)
            else:
                self.done += 1

    def follow(
        self,
        arrivals: Iterable[Arrival | None],
        inbox: Inbox,
        lateness: dt.timedelta = dt.timedelta(),
        late: Callable[[Arrival], bool] = lambda _: True,
        clock: Callable[[], dt.datetime] | None = None,
    ) -> Iterator[TickResult]:
        """Load what arrives, and answer the ticks that it completes; yield each when it is done.

        A tick is answered when it is complete and the next arrival is of a later tick, or no more
        arrivals are there: then all rows for it are loaded. So the answers do not depend on how
        often the monitor is restarted.

        Args:
            arrivals: In order; None means that nothing more is there yet.
            inbox: Loads them.
            lateness: Time to wait for rows after the end of a tick.
            late: Receives an arrival whose ticks are all finished; returns True to load it.
            clock: If given, all time before its value is complete once no more arrivals are there.
        """
        yield from self.resume()
        yield from self.take_in(arrivals, inbox, lateness, late, clock)

    def resume(self) -> Iterator[TickResult]:
        """Answer the ticks that were answered or begun before; yield each when it is done."""
        yield from self.run(self._begun())

    def take_in(
        self,
        arrivals: Iterable[Arrival | None],
        inbox: Inbox,
        lateness: dt.timedelta = dt.timedelta(),
        late: Callable[[Arrival], bool] = lambda _: True,
        clock: Callable[[], dt.datetime] | None = None,
    ) -> Iterator[TickResult]:
        """Do the rest of `follow`, after `resume`; it may be called repeatedly."""
        for arrival in arrivals:
            if arrival is None:
                if clock is not None:
                    inbox.upto = max(inbox.upto or clock(), clock())
                yield from self._complete(inbox, lateness)
                self.flush()
            elif inbox.upto is not None and (arrival.upto or inbox.upto) > inbox.upto:
                yield from self._complete(inbox, lateness)
            if self._stopping() or self.finished:
                return
            if arrival is not None:
                is_late = self._is_late(arrival)
                if not is_late or late(arrival):
                    inbox.take(arrival, is_late)
        yield from self._complete(inbox, lateness)

    def _begun(self) -> int:
        """Return the number of ticks that were answered or begun before."""
        ticks, count = iter(self.ticks), self.done
        while some := list(islice(ticks, _TOGETHER)):
            asked = {tick: self._requests(tick) for tick in some}
            begun = self._store.releases_of(chain.from_iterable(asked.values()))
            for tick, own in asked.items():
                if begun.keys().isdisjoint(own):
                    return count
                count = tick.number + 1
        return count

    def _requests(self, tick: Tick) -> list[RequestId]:
        requests = (source.request(tick) for source in self.sources)
        return [request for request in requests if request is not None]

    def _complete(self, inbox: Inbox, lateness: dt.timedelta) -> Iterator[TickResult]:
        """Answer the ticks that are complete."""
        complete = inbox.complete
        if complete is not None:
            yield from self.run(self.ticks.ended_by(complete - lateness))

    def _is_late(self, arrival: Arrival) -> bool:
        """Return True if the last tick that an arrival has rows of is finished."""
        if arrival.upto is None or arrival.upto <= self.ticks.first:
            return False
        moment = arrival.upto - dt.timedelta(microseconds=1)
        return (moment - self.ticks.first) // self.ticks.length < self.done

    @property
    def finished(self) -> bool:
        """True if every tick is finished."""
        return self.ticks.last is not None and self.done >= len(self.ticks)

    def table(self) -> pa.Table:
        """Return all rows: the file's and those not yet written; without a file, this run's."""
        return pa.concat_tables(self._tables) if self._file is None else self._file.table()

    def flush(self) -> None:
        """Write all finished ticks to the file."""
        if self._file is not None:
            self._file.flush()

    def _check_known(self) -> None:
        given = self._store.requests_of(chain.from_iterable(self._known.values()))
        for (series, label), releases in self._known.items():
            if not all(is_of(given.get(release), series, label) for release in releases):
                raise StoreError(
                    f"{self._file.path if self._file else ''} has an answer of {series} for "
                    f"{label} that this store did not give",
                    "it belongs to another store, or to an older copy; give another --output",
                )
