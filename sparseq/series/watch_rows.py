"""Rows of the watch, tick by tick: the number of people who were ever left out, and the alarm.

The numbers are releases of the store, paid from the reserve that was set aside for the watch
(`sparseq.series.watch`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from sparseq.base.errors import ParameterError
from sparseq.series.method_series import WATCH
from sparseq.series.series_rows import Row
from sparseq.series.ticks import Tick, Ticks
from sparseq.series.watch import ActiveWatch
from sparseq.store.store import Store

_DAYS = 365
T = TypeVar("T")


def horizon_of(ticks: Ticks) -> int:
    """Return the number of ticks to plan for: a year's, or all known ticks if they are more.

    If the monitor is started every morning, the last known tick is yesterday's.
    """
    year = math.ceil(_DAYS * 86_400 / ticks.length.total_seconds())
    return year if ticks.last is None else max(year, len(ticks))


def _begun_or_new(make: Callable[[int | None], T], horizon: int | None, ticks: Ticks) -> T:
    """Continue a watch that was begun; else begin one, with a horizon that is fixed from then."""
    if horizon is None:
        try:
            return make(None)
        except ParameterError:
            horizon = horizon_of(ticks)
    return make(horizon)


class Watch:
    """The number of people who were ever left out, and the alarm: rows of the series `watch`.

    Args:
        store: A store with a reserve for the watch.
        ticks: The ticks at which it releases.
        threshold: Share of people for the alarm.
        horizon: Number of ticks to serve; later ones have no rows.
    """

    name = WATCH
    strategy, left_out = "", 0.0

    def __init__(
        self, store: Store, ticks: Ticks, threshold: float, horizon: int | None = None
    ) -> None:
        self._ticks = ticks
        self._watch = _begun_or_new(lambda n: ActiveWatch(store, n, threshold), horizon, ticks)

    def group_keys(self) -> Sequence[tuple[str, pa.DataType]]:
        """See `RowSource`."""
        return []

    def request(self, tick: Tick) -> None:
        """See `RowSource`: a watch uses other request ids."""

    def rows(self, tick: Tick) -> list[Row]:
        """See `RowSource`."""
        if tick.number >= self._watch.design.ticks:
            return []
        e = self._watch.tick(tick.number + 1, tick.label)
        alarm = None if e.alarm is None else float(e.alarm)
        found = [
            ("active_share", e.active_share, e.share_error, e.release),
            ("dropped", e.dropped, e.dropped_error, e.release),
            ("people", e.users, e.users_error, e.release),
            ("alarm", alarm, None, e.alarm_release),
        ]
        label = tick.start.date() if self._ticks.whole_days else tick.start
        return [
            Row(WATCH, label, column, value, error, release=release, estimate=WATCH)
            for column, value, error, release in found
        ]


def sounds_alarm(rows: Sequence[Row]) -> bool:
    """Return True if the alarm fires in these rows."""
    return any(r.estimate == WATCH and r.column == "alarm" and r.value == 1 for r in rows)
