"""All series of a monitor: one for each query, and the watch with its alarm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.base.errors import ParameterError
from sparseq.question.plan import Options
from sparseq.series.method_series import WATCH, series_of
from sparseq.series.query_series import RowSource
from sparseq.series.ticks import Ticks
from sparseq.series.watch_rows import Watch
from sparseq.sql.parameters import QueryText
from sparseq.store.store import Store


@dataclass(frozen=True)
class MonitorSeries:
    """Settings that all series of a monitor share, and the alarm of its watch.

    Attributes:
        alarm_below: Share of people below which the watch raises an alarm; None: no alarm.
        horizon: Number of ticks that the watch serves.
        options, values: Options of each question; values of parameters that no tick sets.
    """

    alarm_below: float | None = None
    horizon: int | None = None
    options: Options = field(default_factory=Options)
    values: Mapping[str, Any] = field(default_factory=dict)

    def sources(
        self, store: Store, queries: list[tuple[str, QueryText]], ticks: Ticks
    ) -> list[RowSource]:
        """Return a series for each query, by its name, and the watch if there is an alarm.

        Raises:
            ParameterError: Two series have one name, or the settings contradict each other.
        """
        names = [name for name, _ in queries]
        if WATCH in names and self.alarm_below is not None:
            raise ParameterError(
                f"a series can't be called {WATCH!r} with an alarm", "rename the file"
            )
        for name in names:
            if names.count(name) > 1:
                raise ParameterError(
                    f"two series would be called {name!r}", "a series has the name of its file"
                )
        found: list[RowSource] = [
            series_of(store, name, text, ticks, self.values, self.options) for name, text in queries
        ]
        if self.alarm_below is not None:
            found.append(Watch(store, ticks, self.alarm_below, self.horizon))
        return found
