"""Questions in Python: aggregates of Polars expressions, put together step by step.

    con.count(pl.col("amount") > 20).by("activity", keys=["gift", "book"]).ask()
    con.sum(pl.col("amount").clip(0, 100)).where(pl.col("date") == day).ask(confidence=0.99)

Each becomes an SQL query (`.sql`), and is lowered, priced and recorded as that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from sparseq.accounting._numbers import in_range
from sparseq.base.arguments import checked
from sparseq.base.errors import ParameterError
from sparseq.sql.catalog import Catalog
from sparseq.sql.plan import Options, Plan, Query
from sparseq.sql.polars_expressions import to_sql

if TYPE_CHECKING:
    import polars

    from sparseq.store.answer import Answer


class Queryable(Protocol):
    """What can be asked: a store."""

    catalog: Catalog

    def lower(self, sql: str) -> Query:
        """Lower SQL to a query."""

    def explain(self, query: Query, options: Options | None = None) -> Plan:
        """Return the plan of a query."""

    def ask(
        self,
        query: Query,
        options: Options | None = None,
        request_id: str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a query."""


@dataclass(frozen=True)
class Aggregation:
    """A question not yet asked; every method returns a new one.

    Attributes:
        store: Whom to ask.
        table: The private table.
        aggregate: SQL of the aggregate.
        name: Its column in the answer.
        conditions: SQL conditions that all must hold.
        groups: SQL of the group keys.
    """

    store: Queryable
    table: str
    aggregate: str
    name: str
    conditions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def where(self, condition: polars.Expr) -> Aggregation:
        """Count only rows for which `condition` is true."""
        return replace(self, conditions=(*self.conditions, to_sql(condition)))

    def by(
        self,
        key: polars.Expr | str,
        keys: Sequence[Any] | None = None,
        between: tuple[Any, Any] | None = None,
    ) -> Aggregation:
        """Group by a column or expression.

        Args:
            key: What to group by.
            keys: Its public values; without them, those that the curator declared.
            between: First and last of its public values, both included (dates, integers).

        Raises:
            ParameterError: Both `keys` and `between` are given.
        """
        if keys is not None and between is not None:
            raise ParameterError("keys and between say the same thing; give one of them")
        import polars as pl

        sql = to_sql(key)
        column = pl.col(key) if isinstance(key, str) else key
        conditions = self.conditions
        if keys is not None:
            conditions = (*conditions, to_sql(column.is_in(list(keys))))
        if between is not None:
            low, high = between
            conditions = (*conditions, to_sql(column >= low), to_sql(column <= high))
        return replace(self, conditions=conditions, groups=(*self.groups, sql))

    @property
    def sql(self) -> str:
        """The question as SQL."""
        select = ", ".join([*self.groups, f"{self.aggregate} AS {self.name}"])
        text = f"SELECT {select} FROM {exp.to_identifier(self.table).sql('duckdb')}"
        if self.conditions:
            text += " WHERE " + " AND ".join(f"({c})" for c in self.conditions)
        if self.groups:
            text += " GROUP BY " + ", ".join(self.groups)
        return text

    @checked
    def ask(self, *, request_id: str | None = None, fresh: bool = False, **options: Any) -> Answer:
        """Ask it; see `Store.sql` for the options."""
        return self.store.ask(self.store.lower(self.sql), Options(**options), request_id, fresh)

    def explain(self, **options: Any) -> Plan:
        """Return its plan: noise, bounds and worst case. Nothing is charged."""
        return self.store.explain(self.store.lower(self.sql), Options(**options))


class Events:
    """One private table, to ask about in Python.

    Example:
        >>> import polars as pl, sparseq
        >>> events = pl.DataFrame({"who": [1, 1, 2], "amount": [5.0, 30.0, 40.0]})
        >>> con = sparseq.create(None, {"events": events}, user="who", seed=1)
        >>> con.table("events").count(pl.col("amount") > 20).sql
        'SELECT COUNTIF(amount > 20) AS count FROM events'
        >>> con.sum(pl.col("amount").clip(0, 50)).ask().facts.kinds
        ('sum',)
    """

    def __init__(self, store: Queryable, name: str) -> None:
        self._store = store
        self._table = store.catalog.table(name)

    def _aggregation(self, aggregate: str, name: str) -> Aggregation:
        return Aggregation(self._store, self._table.name, aggregate, name)

    def count(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count rows, or those for which `condition` is true."""
        sql = "COUNT(*)" if condition is None else f"COUNTIF({to_sql(condition)})"
        return self._aggregation(sql, "count")

    def users(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count users with a row, or with a row for which `condition` is true."""
        only = "" if condition is None else f" FILTER (WHERE {to_sql(condition)})"
        return self._aggregation(f"COUNT(DISTINCT {to_sql(self._table.user)}){only}", "users")

    def sum(self, value: polars.Expr | str) -> Aggregation:
        """Add up a number; its scale comes from clips, declared bounds, or `ask(scale=…)`."""
        return self._aggregation(f"SUM({to_sql(value)})", "sum")

    def mean(self, value: polars.Expr | str) -> Aggregation:
        """Average a number."""
        return self._aggregation(f"AVG({to_sql(value)})", "mean")

    def quantile(
        self, value: polars.Expr | str, q: float, edges: Sequence[float] | None = None
    ) -> Aggregation:
        """Read a quantile off a noised histogram; without edges, 64 bins of the bounds."""
        bins = "" if edges is None else f", {_edges(edges)}"
        share = in_range("q", q, 0.0, 1.0)
        return self._aggregation(f"QUANTILE({to_sql(value)}, {share}{bins})", "quantile")

    def histogram(self, value: polars.Expr | str, edges: Sequence[float]) -> Aggregation:
        """Count rows by bin."""
        return self._aggregation(f"HISTOGRAM({to_sql(value)}, {_edges(edges)})", "count")


def _edges(edges: Sequence[float]) -> list[float]:
    if not isinstance(edges, Sequence) or isinstance(edges, str):
        raise ParameterError("edges are no list of numbers", "for example [0, 10, 100]")
    return [in_range("an edge", edge, -math.inf, math.inf) for edge in edges]
