"""The demo's analyst: a series of daily counts, and two questions that follow from its answers."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from sparseq.ledger.purposes import Purpose
from sparseq.pictures.figure import Floats
from sparseq.series import Monitor, QueryText, Ticks
from sparseq.series.monitor_series import MonitorSeries

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.series.loop import TickResult
    from sparseq.store.store import Store

BUYERS = Purpose(
    "daily_buyers", 0.6, 546, counts=14.74, forecast=0.05, cap=0.1, off=0.34, seen=(58.6, 428.0)
)
"""The purpose that `sparseq plan data/cdnow.parquet` recommends for 60 % of every budget."""
SQL = "SELECT count(DISTINCT customer_id) AS buyers FROM purchases WHERE date = :day"


@dataclass
class Findings:
    """The analyst's findings: a count and its ± for each day, about everybody."""

    days: list[dt.date] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def take(self, done: TickResult) -> None:
        """Add a day."""
        (row,) = [r for r in done.rows if r.estimate == "corrected"]
        self.days.append(done.tick.start.date())
        self.values.append(float(row.value or 0.0))
        self.bounds.append(float(row.error or 0.0))

    @property
    def busiest_month(self) -> dt.date:
        """The first day of the month with the most buyers, by released numbers."""
        months: dict[dt.date, float] = {}
        for day, value in zip(self.days, self.values, strict=True):
            first = day.replace(day=1)
            months[first] = months.get(first, 0.0) + value
        return max(months, key=lambda month: months[month])

    def questions(self) -> list[str]:
        """Return the next question. It is chosen from answers alone, so the choice is free."""
        first = self.busiest_month
        next_one = (first + dt.timedelta(days=31)).replace(day=1)
        when = f"date >= DATE '{first}' AND date < DATE '{next_one}'"
        return [
            "SELECT count(DISTINCT customer_id) AS people, count(*) AS orders FROM purchases "
            f"WHERE {when}",
            "SELECT avg(amount) AS per_order, median(amount) AS typical FROM purchases",
        ]


def monitor(store: Store, days: Sequence[dt.date], tick: Callable[[Findings], None]) -> Findings:
    """Ask for the buyers of each day; call `tick` after each."""
    seen, started = Findings(), time.monotonic()
    first, last = (dt.datetime.combine(day, dt.time()) for day in (days[0], days[-1]))
    ticks = Ticks(first, "1d", last)
    series = MonitorSeries().sources(store, [(BUYERS.name, QueryText.of(SQL))], ticks)
    for done in Monitor(store, ticks, series).run():
        seen.take(done)
        tick(seen)
    seen.seconds = time.monotonic() - started
    return seen


def ask_questions(store: Store, seen: Findings) -> list[tuple[str, Answer]]:
    """Ask the two questions, paid from another part of every budget."""
    return [(sql, store.sql(sql)) for sql in seen.questions()]


def true_buyers(path: str, days: Sequence[dt.date]) -> Floats:
    """Return the exact numbers of buyers, to measure the error; only a demo may do this."""

    rows = pq.read_table(path, columns=["customer_id", "date"])
    counts = rows.group_by("date").aggregate([("customer_id", "count_distinct")])
    by_day = dict(
        zip(
            counts["date"].to_pylist(),
            counts["customer_id_count_distinct"].to_pylist(),
            strict=True,
        )
    )
    return np.array([by_day.get(day, 0) for day in days], dtype=np.float64)


def root_mean_square(errors: Floats) -> float:
    """Return the root of the mean of squares."""
    return float(np.sqrt(np.mean(errors**2)))
