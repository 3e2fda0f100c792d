"""A series: one query, asked once a tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from sparseq.accounting import Budget
from sparseq.base.errors import ParameterError
from sparseq.ledger.notes import Asker, RequestId
from sparseq.ledger.purposes import Pot, Purpose
from sparseq.released.outputs import KeyNode, MeasureNode, Outputs
from sparseq.released.render import ERROR_SUFFIX
from sparseq.series.series_file import Row
from sparseq.series.ticks import Tick, Ticks, of_tick
from sparseq.sql.parameters import QueryText, Value
from sparseq.sql.plan import Kind, Options, Plan, Query, calibrate, values_of_keys
from sparseq.store.answer import Answer
from sparseq.store.store import Store
from sparseq.stream.stream_progress import QUESTION

# -- the part that a series is paid from: one of every budget, or that of questions ----------------


@dataclass(frozen=True)
class SeriesPart:
    """Public.

    Attributes:
        budget: Level of all that is paid from the part, and how far a person reaches in it.
        answers, forecasts: What is paid from.
        aside: Share of the part that is for forecasts.
        purpose: That the part is for; None: questions.
    """

    budget: Budget
    answers: Pot
    forecasts: Pot
    aside: float
    purpose: Purpose | None

    @classmethod
    def of(cls, store: Store, series: str) -> SeriesPart:
        """Return what a series of this name is paid from."""
        purpose = purpose_of(store, series)
        if purpose is None:
            aside = store.reserves.get(Pot.FORECAST, 0.0)
            return cls(store.guarantee, Pot.QUERIES, Pot.FORECAST, aside, None)
        answers, forecasts = Pot(purpose.answers), Pot(purpose.forecasts)
        budget = store.stream.part(answers).budget
        return cls(budget, answers, forecasts, purpose.forecast, purpose)

    def plan(self, query: Query, options: Options | None = None) -> Plan:
        """Return the plan of a question that is paid from here; nothing is asked."""
        return calibrate(query, self.budget, options or Options())


def purpose_of(store: Store, series: str) -> Purpose | None:
    """Return the purpose that is a series' own; None: it is paid from what is for questions."""
    return next((p for p in store.stream.pots.purposes if p.name == series), None)


# -- a series: one query, asked once a tick --------------------------------------------------------


class RowSource(Protocol):
    """A source of rows at every tick: a series, or a companion of them.

    A source is asked about the ticks in their order; after a restart, first about those whose rows
    the file lacks. What it released before, it gives again: the same rows, from the journal.
    """

    @property
    def name(self) -> str:
        """The name of its rows, in `Row.series`."""

    @property
    def strategy(self) -> str:
        """The strategy that its noise is correlated by; "": there is none."""

    @property
    def left_out(self) -> float:
        """Share of contributions that its intervals allow to be missing after 365 ticks."""

    def group_keys(self) -> Sequence[tuple[str, pa.DataType]]:
        """Return the group keys of its rows."""

    def request(self, tick: Tick) -> RequestId | None:
        """Return what its question at a tick is called; None: it is not in the monitor's names."""

    def rows(self, tick: Tick) -> Sequence[Row]:
        """Release what is to be released at a tick, and return it."""


@dataclass
class QuerySeries:
    """A query with parameters, asked once a tick under a name that no analyst can take.

    The name holds the text that is asked: where a series' query or a parameter of it changes, its
    ticks are new questions with answers of their own, and what was answered before stays as it is.
    The noise is no part of it: a tick that was answered is read back with the noise that it had.

    Args:
        store: Whom to ask.
        name: Of the series.
        query: Its text.
        ticks: When it is asked.
        values: Of the parameters that are not the tick's.
        options: Noise and confidence.

    Raises:
        ParameterError: The query has no parameter of the tick, or a parameter no value.
        QueryRefused: It can't be answered privately.
    """

    store: Store
    name: str
    query: QueryText
    ticks: Ticks
    values: Mapping[str, Value] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    strategy: str = field(default="", init=False)
    left_out: float = field(default=0.0, init=False)

    @property
    def part(self) -> SeriesPart:
        """The part that it is paid from."""
        return SeriesPart.of(self.store, self.name)

    def __post_init__(self) -> None:
        if not any(name in of_tick(self.ticks[0], True) for name in self.query.names):
            raise ParameterError(
                f"{self.name} has no parameter :day, so every tick would have the same answer",
                "WHERE date >= :day AND date < :next_day",
            )
        lowered = self.lowered(self.ticks[0])
        if lowered.first:
            raise ParameterError(
                f"{self.name} needs the answer to another question at every tick: "
                f"{lowered.first[0].text}",
                "ask that once, and write its number into the query, or set it as a value",
            )
        self.store.explain(lowered, self.options)
        self._check_numbers(lowered)

    def lowered(self, tick: Tick) -> Query:
        """Return the query of a tick; nothing is asked."""
        values = {**self.values, **of_tick(tick, self.ticks.whole_days)}
        return self.store.lower(self.query.with_values(values))

    def request(self, tick: Tick) -> RequestId:
        """See `RowSource`."""
        return tick_request(self.name, tick, self.lowered(tick))

    def rows(self, tick: Tick) -> list[Row]:
        """Ask, or read back what was answered when the same was asked before."""
        query = self.lowered(tick)
        request, options = tick_request(self.name, tick, query), self.priced(query)
        answer = self.store.ask(query, options, request, pot=self.part.answers)
        return self.rows_of(tick, query, answer)

    def priced(self, query: Query) -> Options:
        """Return the options of a tick: pilots and all, it costs a person at most one count."""
        return self.options if self.part.purpose is None else priced(self.options, query)

    def rows_of(self, tick: Tick, query: Query, answer: Answer) -> list[Row]:
        """Return the answer of a tick as rows."""
        label = tick.start.date() if self.ticks.whole_days else tick.start
        columns = _numbers(query)
        table = answer.arrow()
        of_keys = {o.name for o in query.outputs.columns if isinstance(o.node, KeyNode)}
        bins = ("bin_low", "bin_high") if query.outputs.histogram is not None else ()
        keys = [name for name in table.column_names if name in of_keys.union(bins)]
        facts = {name: _noise(answer, node) for name, node in columns}
        return [
            Row(
                self.name,
                label,
                name,
                _number(row[name]),
                row.get(name + ERROR_SUFFIX),
                *facts[name],
                release=answer.facts.release,
                keys={key: row[key] for key in keys},
            )
            for row in table.to_pylist()
            for name, _ in columns
        ]

    def group_keys(self) -> list[tuple[str, pa.DataType]]:
        """Return the group keys and their types: those of their public values."""
        query = self.lowered(self.ticks[0])
        found = [
            (o.name, pa.array(values_of_keys(query.domains)[o.node.i][2]).type)
            for o in query.outputs.columns
            if isinstance(o.node, KeyNode)
        ]
        if query.outputs.histogram is not None:
            found += [("bin_low", pa.float64()), ("bin_high", pa.float64())]
        return found

    def _check_numbers(self, query: Query) -> None:
        if not isinstance(query.outputs, Outputs):
            raise ParameterError(
                f"{self.name} is computed from noised answers",
                "follow the counts and sums themselves: SELECT key, count(*) AS n … GROUP BY key",
            )
        shown = [o.name for o in query.outputs.columns if isinstance(o.node, KeyNode)]
        if len(shown) < len(values_of_keys(query.domains)):
            raise ParameterError(
                f"{self.name} groups by a key that it does not select",
                "a series needs every key, to tell the groups apart",
            )
        if not _numbers(query):
            raise ParameterError(f"{self.name} selects no number", "SELECT count(*) AS n, …")


def tick_cost(query: Query) -> float:
    """Return what a tick costs a person at most, pilots and all: public."""
    once = [query.groups <= 1 and m.kind is Kind.USERS for m in query.measures]
    return sum(1.0 if alone else QUESTION for alone in once)


def priced(given: Options, query: Query) -> Options:
    """Return the options of a tick of a series that has a part: one count a person at most."""
    if given.sigma or given.accuracy or given.precision:
        return given
    cost = tick_cost(query)
    return given if cost <= 1 else replace(given, price=1 / cost)


def tick_request(series: str, tick: Tick, query: Query) -> RequestId:
    """Return what a series' question at a tick is called in the journal."""
    return RequestId.of(Asker.MONITOR, series, tick.label, question=query.text)


def is_of(request: RequestId | None, series: str, label: str) -> bool:
    """Tell whether a request was a series' question at a tick, of this text or another."""
    ours = RequestId.of(Asker.MONITOR, series, label)
    return request is not None and (request.asker, request.text) == (ours.asker, ours.text)


def _numbers(query: Query) -> list[tuple[str, Any]]:
    """Return the columns of the answer that are noised, and how each is computed."""
    return [(o.name, o.node) for o in query.outputs.columns if not isinstance(o.node, KeyNode)]


def _noise(answer: Answer, node: Any) -> tuple[float | None, float | None]:
    """Return sigma and Corollary 4.7's bound of a column, where it is one measure."""
    if not isinstance(node, MeasureNode):
        return None, None
    bounds = answer.corollary_bound(1 - answer.facts.confidence)
    bound = bounds if isinstance(bounds, float) else bounds[node.i]
    factor = abs(node.scale)
    return answer.facts.sigma[node.i] * factor, bound * factor


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        raise ParameterError(
            "a series is made of numbers, and the query selects text", "leave that column out"
        )
    return None if value is None else float(value)
