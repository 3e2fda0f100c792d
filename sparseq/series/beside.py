"""Companions of the series of a monitor: their methods, and an alarm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.base.errors import ParameterError
from sparseq.series.companions import WATCH, ForecastSeries, StrategySeries, Watch
from sparseq.series.methods.forecast_notes import ForecastNotes
from sparseq.series.methods.strategy_series import has_strategy
from sparseq.series.query_series import QuerySeries, RowSource
from sparseq.series.series_part import SeriesPart
from sparseq.series.ticks import Ticks
from sparseq.sql.parameters import QueryText
from sparseq.sql.plan import Options
from sparseq.store.store import Store


@dataclass(frozen=True)
class Beside:
    """How all series of a monitor are asked, and what is asked beside them.

    Attributes:
        alarm_below: The watch raises an alarm there; None: there is none.
        horizon: Ticks that the watch serves.
        options, values: Of each question, and parameters of the queries that no tick gives.
    """

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
        found: list[RowSource] = [
            series_of(store, name, text, ticks, self.values, self.options) for name, text in queries
        ]
        if self.alarm_below is not None:
            found.append(Watch(store, ticks, self.alarm_below, self.horizon))
        return found


def series_of(
    store: Store,
    name: str,
    text: QueryText,
    ticks: Ticks,
    values: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> QuerySeries:
    """Return a series by the method of its part of the budget, or that it was begun with.

    Args:
        store: Whom to ask.
        name: Of the series, and of its part.
        text: Of the query.
        ticks: When it is asked.
        values: Of the parameters that are not the tick's.
        options: Of each question.
    """
    asked = store, name, text, ticks, dict(values or {}), options or Options()
    purpose = SeriesPart.of(store, name).purpose
    if purpose is None:
        strategy, room = has_strategy(store, name), 0.0
        forecasts = ForecastNotes(store.stream.ledger, name).settings() is not None
    else:
        strategy, forecasts = bool(purpose.strategy), purpose.forecast > 0
        room = purpose.left_out
    if strategy:
        return StrategySeries(*asked, "" if purpose is None else purpose.strategy, room)
    return ForecastSeries(*asked) if forecasts else QuerySeries(*asked)
