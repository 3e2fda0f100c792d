"""The demo's analyst: one query a day, each made from the answers before it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sparseq.store import Store

Floats = NDArray[np.float64]
WEEK = 7


@dataclass
class Findings:
    """What the monitor has learned: a noised count and its ± for each day, and busy days.

    `alarms` has the days whose answer was above the level that the query itself named.
    """

    days: list[dt.date] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    alarms: list[dt.date] = field(default_factory=list)
    seconds: float = 0.0

    def alarm_level(self) -> int:
        """Return what the next day must exceed to be busy: the mean of a week's answers, and ±.

        It depends on nothing but answers, so choosing the next query by it is free, and the stream
        is adaptive: the guarantee holds all the same.
        """
        if not self.values:
            return 0
        return round(float(np.mean(self.values[-WEEK:])) + self.bounds[-1])

    def next_query(self, day: dt.date) -> str:
        """Return the query for a day."""
        count = "count(DISTINCT customer_id)"
        busy = f", {count} > {self.alarm_level()} AS busy" if self.values else ""
        return f"SELECT {count} AS buyers{busy} FROM purchases WHERE date = DATE '{day}'"


def monitor(store: Store, days: Sequence[dt.date], tick: Callable[[Findings], None]) -> Findings:
    """Ask one query a day, each after the last answer; call `tick` after each."""
    seen = Findings()
    started = time.monotonic()
    for day in days:
        answer = store.sql(seen.next_query(day), request_id=f"buyers {day}")
        (row,) = answer.rows()
        seen.days.append(day)
        seen.values.append(float(row["buyers"]))
        seen.bounds.append(float(row["buyers_error"]))
        if row.get("busy"):
            seen.alarms.append(day)
        tick(seen)
    seen.seconds = time.monotonic() - started
    return seen


def true_buyers(path: str, days: Sequence[dt.date]) -> Floats:
    """Return the exact numbers of buyers: for measuring the error, which only a demo may do."""

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
