"""Questions that find the bounds of columns and other values: see `found_bounds`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from sparseq.base.sql_text import quote
from sparseq.question.bound_cells import EDGES
from sparseq.question.catalog import Catalog, Column, Table
from sparseq.question.plan import BoundSearch, Options, Query, Sought, ValueSearch

if TYPE_CHECKING:
    from sparseq.stream.public_stream import PublicStream

FAILURE = 1e-3
FLOATS = ("DOUBLE", "FLOAT")


class Lowers(Protocol):
    """The parts of a store that prices need: its public facts and its lowering of SQL."""

    @property
    def catalog(self) -> Catalog:
        """Its tables."""

    @property
    def stream(self) -> PublicStream:
        """The public part of its stream."""

    def lower(self, sql: str) -> Query:
        """Lower SQL to a query."""


def question(table: Table, column: Column) -> str:
    """Return the question about a column, in SQL."""
    name, user = quote(column.name), quote(table.user)
    value = f"CASE WHEN isfinite({name}) THEN {name} END" if column.type in FLOATS else name
    edges = ", ".join(f"{e:.17g}" if e > 1e18 else f"{e:g}" for e in EDGES)
    return (
        f"SELECT below_0, histogram(largest, [{edges}]) AS people FROM (SELECT {user}, "
        f"max(abs({value})) AS largest, min({value}) < 0 AS below_0 FROM {quote(table.name)} "
        f"GROUP BY {user}) GROUP BY below_0"
    )


def outside(table: Table, column: Column, low: float, high: float) -> str:
    """Return the SQL question that counts people with a value beyond bounds; only they pay."""
    name, user = quote(column.name), quote(table.user)
    value = f"CASE WHEN isfinite({name}) THEN {name} END" if column.type in FLOATS else name
    return (
        f"SELECT count(DISTINCT {user}) AS people FROM {quote(table.name)} "
        f"WHERE {value} < {low:.17g} OR {value} > {high:.17g}"
    )


def bound_questions(store: Lowers, search: BoundSearch) -> Iterator[tuple[Query, Options]]:
    """Yield the questions that find bounds, in order, with their options.

    The last question counts users beyond the bounds; its price does not depend on the bounds.
    """
    for sought in search.columns:
        cells, beyond = questions_about(store, sought)
        yield cells, Options(confidence=1 - FAILURE)
        yield beyond(-1.0, 1.0), Options()


def questions_about(store: Lowers, sought: Sought) -> tuple[Query, Callable[[float, float], Query]]:
    """Return the question where a value lies, and what makes the one about users beyond bounds."""
    if isinstance(sought, ValueSearch):
        return sought.cells, sought.beyond
    of = store.catalog.table(sought.table)
    one = of.column(sought.name)
    return store.lower(question(of, one)), lambda *ends: store.lower(outside(of, one, *ends))


def needs_bounds(store: Lowers, query: Query, options: Options) -> bool:
    """Tell whether a question needs found bounds first; a scale or a sigma may replace them."""
    told = options.over(query.options)
    if query.unbounded is not None and query.unbounded.binned:
        return True
    if told.scale is not None or told.sigma is not None:
        return False
    return store.stream.course is not None or told.accuracy is None
