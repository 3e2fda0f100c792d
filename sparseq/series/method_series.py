"""A series by the method of its part: plain answers, forecasts or a strategy.

The methods are releases of the store: see `sparseq.series.methods.forecast` and
`sparseq.series.methods.strategy_series`. This module turns them into rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparseq.accounting import corollary_bound
from sparseq.base.errors import ParameterError
from sparseq.ledger.forecast_notes import ForecastNotes
from sparseq.question.plan import Kind, Options
from sparseq.series.left_out import allowance
from sparseq.series.methods.forecast import Forecast
from sparseq.series.methods.strategy_series import CorrelatedSeries, has_strategy
from sparseq.series.query_series import QuerySeries, tick_request
from sparseq.series.series_part import SeriesPart
from sparseq.series.series_rows import Row
from sparseq.series.ticks import Tick, Ticks
from sparseq.sql.parameters import QueryText
from sparseq.store.store import Store

WATCH, CORRECTED = "watch", "corrected"


@dataclass
class ForecastSeries(QuerySeries):
    """A series about all users: each answer has a second row, corrected for users left out."""

    _forecast: Forecast = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._forecast = Forecast(
            self.store, self.name, query_of=lambda number: self.lowered(self.ticks[number])
        )

    def rows(self, tick: Tick) -> list[Row]:
        """See `RowSource`."""
        query = self.lowered(tick)
        done = self._forecast.ask(
            tick.number, query, self.options, tick_request(self.name, tick, query)
        )
        answers = self.rows_of(tick, query, done.active)
        corrected = [
            Row(
                row.series,
                row.tick,
                row.column,
                value,
                error,
                forecast_error=None if math.isnan(off) else off,
                release=row.release,
                estimate=CORRECTED,
                keys=row.keys,
            )
            for row, value, error, off in zip(
                answers,
                done.corrected.tolist(),
                done.error.tolist(),
                done.forecast_error.tolist(),
                strict=True,
            )
        ]
        return [row for pair in zip(answers, corrected, strict=True) for row in pair]


@dataclass
class StrategySeries(QuerySeries):
    """A series under a strategy: the measurement is the release, and the series is its rows.

    Args:
        taps: See `Strategy.of`; "" for a series that continues.
        lacking: `left_out` of `sparseq.series.left_out`: the intervals have this allowance.

    Raises:
        ParameterError: An allowance is set, but the values may be negative.
    """

    taps: str = ""
    lacking: float = 0.0
    _series: CorrelatedSeries = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._series = CorrelatedSeries(self.store, self.name, self.taps or None)
        self.strategy, self.left_out = self._series.strategy.text, self.lacking
        one = self.lowered(self.ticks[0]).measures[0]
        if self.left_out and one.kind is Kind.SUM and (one.bounds is None or one.bounds[0] < 0):
            raise ParameterError(
                f"{self.name} sums values that may be negative: the missing part has no bound",
                "leave left-out out, or declare bounds (create --bounds x=0..100)",
            )

    def rows(self, tick: Tick) -> list[Row]:
        """See `RowSource`."""
        query = self.lowered(tick)
        request = tick_request(self.name, tick, query)
        done = self._series.ask(tick.number, query, self.options, request)
        label = tick.start.date() if self.ticks.whole_days else tick.start
        values = done.values.tolist()
        facts, keys = done.answer.facts, [name for name, _ in self.group_keys()]
        bound = float(corollary_bound(done.sigma, len(done.values), 1 - facts.confidence))
        return [
            Row(
                self.name,
                label,
                self._series.column,
                value,
                done.error + lacks,
                done.sigma,
                bound,
                release=facts.release,
                keys={key: row[key] for key in keys},
                strategy=self.strategy,
                left_out=lacks if self.left_out else None,
            )
            for value, row in zip(values, done.answer.arrow().to_pylist(), strict=True)
            for lacks in [allowance(value, tick.number, self.left_out)]
        ]


def series_of(
    store: Store,
    name: str,
    text: QueryText,
    ticks: Ticks,
    values: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> QuerySeries:
    """Return a series with the method of its part of the budget, or with the method it began with.

    Args:
        store: The store to ask.
        name: Name of the series, and of its part.
        text: Text of the query.
        ticks: Its ticks.
        values: Values of the parameters that the tick does not set.
        options: Options of each question.
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
