"""A series: one query, asked once at each tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from sparseq.answers.answer import Answer
from sparseq.base.errors import ParameterError
from sparseq.ledger.request_id import Asker, RequestId
from sparseq.question.plan import Kind, Options, Query, values_of_keys
from sparseq.released.outputs import KeyNode, MeasureNode, Outputs
from sparseq.released.result_columns import BIN_ENDS, ColumnRole, column_parts, unique_names
from sparseq.series.series_part import SeriesPart
from sparseq.series.series_rows import Row
from sparseq.series.ticks import Tick, Ticks, tick_parameters
from sparseq.sql.parameters import QueryText, Value
from sparseq.store.store import Store
from sparseq.stream.full_weight import QUESTION


class RowSource(Protocol):
    """A source of rows at every tick: a series, or the watch.

    A source is asked about the ticks in order; after a restart, first about those whose rows the
    file lacks. For ticks that it released before, it returns the same rows, from the journal.
    """

    @property
    def name(self) -> str:
        """Name of its rows, in `Row.series`."""

    @property
    def strategy(self) -> str:
        """The strategy that correlates its noise, or ""."""

    @property
    def left_out(self) -> float:
        """Share of contributions that its intervals allow to be missing after 365 ticks."""

    def group_keys(self) -> Sequence[tuple[str, pa.DataType]]:
        """Return the group keys of its rows."""

    def request(self, tick: Tick) -> RequestId | None:
        """Return the id of its request at a tick; None: its requests have other ids."""

    def rows(self, tick: Tick) -> Sequence[Row]:
        """Release the numbers of a tick, and return them."""


@dataclass
class QuerySeries:
    """A query with parameters, asked once a tick under a request id that no analyst can take.

    The id includes the text of the query. If the query of a series or one of its parameters
    changes, its ticks are new questions with new answers, and earlier answers stay as they are. The
    noise is not part of the id: an answered tick is read back with the noise that it had.

    Args:
        store: The store to ask.
        name: Name of the series.
        query: Text of the query.
        ticks: Its ticks.
        values: Values of the parameters that the tick does not set.
        options: Noise and confidence.

    Raises:
        ParameterError: The query has no parameter of the tick, or a parameter has no value.
        ParameterError: The query has no parameter of the tick, or a parameter no value.
        QueryRefused: The query can't be answered privately.
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
        """The part of the budget that pays for it."""
        return SeriesPart.of(self.store, self.name)

    def __post_init__(self) -> None:
        if not any(name in tick_parameters(self.ticks[0], True) for name in self.query.names):
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
        """Return the query of a tick, without asking it."""
        values = {**self.values, **tick_parameters(tick, self.ticks.whole_days)}
        query = self.store.lower(self.query.with_values(values))
        if not isinstance(query.outputs, Outputs):
            return query
        return replace(query, outputs=query.outputs.of_every_group())

    def request(self, tick: Tick) -> RequestId:
        """See `RowSource`."""
        return tick_request(self.name, tick, self.lowered(tick))

    def rows(self, tick: Tick) -> list[Row]:
        """Ask the query, or read the recorded answer of the same query."""
        query = self.lowered(tick)
        request, options = tick_request(self.name, tick, query), self.priced(query)
        answer = self.store.ask(query, options, request, pot=self.part.answers)
        return self.rows_of(tick, query, answer)

    def priced(self, query: Query) -> Options:
        """Return the options of a tick: with its pilots it costs a user at most one count."""
        return self.options if self.part.purpose is None else priced(self.options, query)

    def rows_of(self, tick: Tick, query: Query, answer: Answer) -> list[Row]:
        """Return the answer of a tick as rows."""
        label = tick.start.date() if self.ticks.whole_days else tick.start
        columns = _numbers(query)
        table = answer.arrow()
        parts = column_parts(table)
        keys = [name for name, _ in _keys(query)]
        facts = {name: _noise(answer, node) for name, node in columns}
        errors = {name: parts[name].get(ColumnRole.ERROR, "") for name, _ in columns}
        return [
            Row(
                self.name,
                label,
                name,
                _number(row[name]),
                row.get(errors[name]),
                *facts[name],
                release=answer.facts.release,
                keys={key: row[key] for key in keys},
            )
            for row in table.to_pylist()
            for name, _ in columns
        ]

    def group_keys(self) -> list[tuple[str, pa.DataType]]:
        """Return the group keys and the types of their public values."""
        query = self.lowered(self.ticks[0])
        values = values_of_keys(query.domains)
        return [
            (name, pa.float64() if i is None else pa.array(values[i][2]).type)
            for name, i in _keys(query)
        ]

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
    """Return the most that a tick charges a user, including its pilots: public."""
    once = [query.groups <= 1 and m.kind is Kind.USERS for m in query.measures]
    return sum(1.0 if alone else QUESTION for alone in once)


def priced(given: Options, query: Query) -> Options:
    """Return the options of a tick of a series that has a part: at most one count per user."""
    if given.sigma or given.accuracy or given.precision:
        return given
    cost = tick_cost(query)
    return given if cost <= 1 else replace(given, price=1 / cost)


def tick_request(series: str, tick: Tick, query: Query) -> RequestId:
    """Return the id in the journal of a series' request at a tick."""
    return RequestId.of(Asker.MONITOR, series, tick.label, question=query.text)


def is_of(request: RequestId | None, series: str, label: str) -> bool:
    """Return True if a request was a series' question at a tick, with this text or another."""
    ours = RequestId.of(Asker.MONITOR, series, label)
    return request is not None and (request.asker, request.text) == (ours.asker, ours.text)


def _numbers(query: Query) -> list[tuple[str, Any]]:
    """Return the noised columns of the answer, and how each is computed."""
    return [
        (name, node) for name, node in _columns(query) if node and not isinstance(node, KeyNode)
    ]


def _keys(query: Query) -> list[tuple[str, int | None]]:
    """Return the keys of the answer, each with its place among the query's; None: a bin's end."""
    return [
        (name, None if node is None else node.i)
        for name, node in _columns(query)
        if node is None or isinstance(node, KeyNode)
    ]


def _columns(query: Query) -> list[tuple[str, Any]]:
    """Return the names of the answer's columns, and how each is computed.

    The ends of a histogram's bins, which are not computed, stand left of its counts.
    """
    found: list[tuple[str, Any]] = []
    for output in query.outputs.columns:
        counts = query.outputs.histogram is not None and not isinstance(output.node, KeyNode)
        found += [(name, None) for name in BIN_ENDS if counts]
        found.append((output.name, output.node))
    names = unique_names([name for name, _ in found])
    return [(name, node) for name, (_, node) in zip(names, found, strict=True)]


def _noise(answer: Answer, node: Any) -> tuple[float | None, float | None]:
    """Return sigma and Corollary 4.7's bound of a column that is one measure; else None."""
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
