"""What goes along with the series of a monitor: forecasts, a strategy, an alarm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.errors import ParameterError
from sparseq.monitor.companions import WATCH, ForecastSeries, StrategySeries, Watch
from sparseq.monitor.correlated import has_strategy
from sparseq.monitor.series import QuerySeries, RowSource
from sparseq.monitor.ticks import Ticks
from sparseq.query.parameters import QueryText
from sparseq.query.plan import Options
from sparseq.store import Store


@dataclass(frozen=True)
class Beside:
    """How all series of a monitor are asked, and what is asked beside them.

    Attributes:
        strategy: Taps of a strategy; "": that of a series which has one.
        left_out: Room for people who are left out, of series with a strategy, see
            `sparseq.monitor.left_out`.
        forecast: Every series has forecasts.
        cap, fade, season: Of the forecasts: see `ForecastSeries`.
        alarm_below: The watch raises an alarm there; None: there is none.
        horizon: Ticks that counters serve.
        options, values: Of each question, and parameters of the queries that no tick gives.
    """

    strategy: str = ""
    left_out: float = 0.0
    forecast: bool = False
    cap: float | None = None
    fade: bool = False
    season: int = 0
    alarm_below: float | None = None
    horizon: int | None = None
    options: Options = field(default_factory=Options)
    values: Mapping[str, Any] = field(default_factory=dict)

    def sources(
        self, store: Store, queries: list[tuple[str, QueryText]], ticks: Ticks
    ) -> list[RowSource]:
        """Return a series for each query, by its name, and what goes along with them.

        Raises:
            ParameterError: Two have one name, or what is wanted does not go together.
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
        if self.forecast and self.strategy:
            raise ParameterError("a series has forecasts or a strategy", "leave out one of them")
        found: list[RowSource] = [
            self._series(store, name, text, ticks, len(names)) for name, text in queries
        ]
        if self.alarm_below is not None:
            found.append(Watch(store, ticks, self.alarm_below, self.horizon))
        return found

    def _series(
        self, store: Store, name: str, text: QueryText, ticks: Ticks, series: int
    ) -> QuerySeries:
        asked = store, name, text, ticks, dict(self.values), self.options
        if self.strategy not in ("", "none") or has_strategy(store, name):
            return StrategySeries(*asked, self.strategy, self.left_out)
        if self.left_out:
            raise ParameterError(
                f"--left-out is for a series with a strategy; {name!r} has none",
                "leave it out, or give --strategy",
            )
        if self.forecast:
            return ForecastSeries(
                *asked, self.horizon, self.cap, share=1 / series, fade=self.fade, period=self.season
            )
        return QuerySeries(*asked)
