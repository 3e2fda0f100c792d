"""Companions of a series, tick by tick: the watch over the active set, and forecasts.

Both are releases of the store, paid for from what was set aside when it was made; here they are
turned into rows. See `sparseq.series.watch` and `sparseq.series.methods.forecast` for what they
are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from sparseq.accounting import corollary_bound
from sparseq.base.errors import ParameterError
from sparseq.series.left_out import allowance
from sparseq.series.methods.forecast import Forecast
from sparseq.series.methods.forecast_series import ForecastNotes
from sparseq.series.methods.strategy_series import CorrelatedSeries, has_strategy
from sparseq.series.query_series import QuerySeries, RowSource, SeriesPart, tick_request
from sparseq.series.series_file import Row
from sparseq.series.ticks import Tick, Ticks
from sparseq.series.watch import ActiveWatch
from sparseq.sql.parameters import QueryText
from sparseq.sql.plan import Kind, Options
from sparseq.store.store import Store

# -- companions of a series, tick by tick: the watch over the active set, and forecasts ------------

WATCH, CORRECTED = "watch", "corrected"
_DAYS = 365
T = TypeVar("T")


def horizon_of(ticks: Ticks) -> int:
    """Return for how many ticks to plan: those of a year, or all that are known if more.

    Where the monitor is started every morning, the last tick known is yesterday's.
    """
    year = math.ceil(_DAYS * 86_400 / ticks.length.total_seconds())
    return year if ticks.last is None else max(year, len(ticks))


def _begun_or_new(make: Callable[[int | None], T], horizon: int | None, ticks: Ticks) -> T:
    """Go on with what was begun, else begin: the horizon is fixed by then."""
    if horizon is None:
        try:
            return make(None)
        except ParameterError:
            horizon = horizon_of(ticks)
    return make(horizon)


class Watch:
    """The number of people who were ever left out, and the alarm: rows of the series `watch`.

    Args:
        store: Made with a reserve for it.
        ticks: When.
        threshold: Of the alarm, a share of people.
        horizon: How many ticks it will serve; later ones have no rows.
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
        """See `RowSource`: a watch has names of its own."""

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


@dataclass
class ForecastSeries(QuerySeries):
    """A series about everybody: beside every answer, one corrected for those who are left out."""

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
    """A series under a strategy: what was measured is the release, and the series is its rows.

    Args:
        taps: See `Strategy.of`; "" for a series that goes on.
        lacking: `left_out` of `sparseq.series.left_out`: intervals have room for so much more.

    Raises:
        ParameterError: There is to be room for what is missing of values that may be negative.
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
                f"{self.name} sums values that may be negative: what is missing has no bound",
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


def sounds_alarm(rows: Sequence[Row]) -> bool:
    """Tell whether the alarm goes off in these rows."""
    return any(r.estimate == WATCH and r.column == "alarm" and r.value == 1 for r in rows)


# -- companions of the series of a monitor: their methods, and an alarm ----------------------------


@dataclass(frozen=True)
class Beside:
    """The method of all series of a monitor, and what is asked beside them.

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
