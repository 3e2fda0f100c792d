"""Questions in Python: aggregates of Polars expressions, built step by step.

    con.count(pl.col("amount") > 20).by("activity", keys=["gift", "book"]).ask()
    con.sum(pl.col("amount").clip(0, 100)).where(pl.col("date") == day).ask(confidence=0.99)

Each becomes an SQL query (`.sql`), which is lowered, priced and recorded like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from sparseq.accounting._numbers import in_range
from sparseq.base.arguments import check_arguments, needed_polars
from sparseq.base.errors import ParameterError
from sparseq.question.catalog import Catalog
from sparseq.question.plan import Options, Plan, Query

if TYPE_CHECKING:
    import polars

    from sparseq.answers.answer import Answer
from sparseq.sql.polars_expressions import aggregate_sql, to_sql


class Queryable(Protocol):
    """The interface of a store that answers questions."""

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
    """A question that is not yet asked; every method returns a new one.

    Attributes:
        store: The store to ask.
        table: SQL of its source: the private table, or a join.
        aggregates: SQL of each aggregate, with the name of its column in the answer.
        conditions: SQL conditions that all must hold.
        groups: SQL of the group keys.
    """

    store: Queryable
    table: str
    aggregates: tuple[tuple[str, str], ...]
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
            key: The group key.
            keys: Its public values; if omitted, those that the curator declared.
            between: First and last public value, both included (dates, integers).

        Raises:
            ParameterError: Both `keys` and `between` are given, or Polars is not installed.
        """
        if keys is not None and between is not None:
            raise ParameterError("keys and between say the same thing; give one of them")
        pl = needed_polars()
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
        named = (f"{sql} AS {_identifier(name)}" for sql, name in self.aggregates)
        text = f"SELECT {', '.join([*self.groups, *named])} FROM {self.table}"
        if self.conditions:
            text += " WHERE " + " AND ".join(f"({c})" for c in self.conditions)
        if self.groups:
            text += " GROUP BY " + ", ".join(self.groups)
        return text

    @check_arguments
    def ask(self, *, request_id: str | None = None, fresh: bool = False, **options: Any) -> Answer:
        """Ask the question; see `Store.sql` for the options."""
        return self.store.ask(self.store.lower(self.sql), Options(**options), request_id, fresh)

    def explain(self, **options: Any) -> Plan:
        """Return the plan: noise, bounds and worst case. Nothing is charged."""
        return self.store.explain(self.store.lower(self.sql), Options(**options))


class Events:
    """One private table, as a source of questions in Python.

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
        self._from = _identifier(self._table.name)
        self._conditions: tuple[str, ...] = ()

    def _aggregation(self, aggregate: str, name: str) -> Aggregation:
        return Aggregation(self._store, self._from, ((aggregate, name),), self._conditions)

    def where(self, condition: polars.Expr) -> Events:
        """Return the source restricted to rows for which `condition` is true."""
        return self._like(self._from, (*self._conditions, to_sql(condition)))

    def join(self, other: Events | str, on: str | None = None, how: str = "inner") -> Events:
        """Return the source joined with another table.

        Args:
            other: Another private table, joined on the user; or the name of a public table.
            on: The join column of both tables; for private tables the user by default.
            how: "inner", or "left" to keep rows without a match in the other table.

        Raises:
            ParameterError: `how` has another value, or `on` is missing.

        Example:
            >>> import pyarrow as pa, sparseq
            >>> sizes = pa.table({"quantity": [1, 2], "size": ["one", "two"]})
            >>> rows = pa.table({"who": [1, 2], "quantity": [1, 2]})
            >>> con = sparseq.create(None, {"t": rows}, user="who", public={"sizes": sizes}, seed=1)
            >>> con.table("t").join("sizes", on="quantity").count().by("size").sql
            'SELECT size, COUNT(*) AS count FROM t JOIN sizes USING (quantity) GROUP BY size'
        """
        if how not in ("inner", "left"):
            raise ParameterError(f"how is {how!r}", "inner or left")
        if isinstance(other, str):
            other = Events(self._store, other)
        if on is None and not other._table.private:
            raise ParameterError(
                f"{other._table.name} is joined on no column", "name one that both have: on=…"
            )
        source = other._from
        if other._conditions:
            only = " AND ".join(f"({c})" for c in other._conditions)
            name = _identifier(other._table.name)
            source = f"(SELECT * FROM {source} WHERE {only}) AS {name}"
        word = "JOIN" if how == "inner" else "LEFT JOIN"
        column = _identifier(on or self._table.user)
        return self._like(f"{self._from} {word} {source} USING ({column})", self._conditions)

    def agg(self, *expressions: polars.Expr, **named: polars.Expr) -> Aggregation:
        """Ask for several Polars aggregates at once, each under its name.

        Raises:
            QueryRefused: An aggregate is not supported (see `aggregate_sql`).
            ParameterError: No aggregate is given.

        Example:
            >>> import polars as pl, pyarrow as pa, sparseq
            >>> rows = pa.table({"who": [1, 2], "spent": [1.0, 2.0]})
            >>> con = sparseq.create(None, {"t": rows}, user="who", seed=1)
            >>> con.table("t").agg(n=pl.len(), sd=pl.col("spent").std()).sql
            'SELECT COUNT(*) AS n, STDDEV(spent) AS sd FROM t'
        """
        every = [(e.meta.output_name(), e) for e in expressions] + list(named.items())
        if not every:
            raise ParameterError("there is no aggregate", "agg(n=pl.len())")
        user = self._table.user
        made = tuple((aggregate_sql(e, user), name) for name, e in every)
        return Aggregation(self._store, self._from, made, self._conditions)

    def _like(self, origin: str, conditions: tuple[str, ...]) -> Events:
        made = Events(self._store, self._table.name)
        made._from, made._conditions = origin, conditions
        return made

    def count(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count rows, or those for which `condition` is true."""
        sql = "COUNT(*)" if condition is None else f"COUNTIF({to_sql(condition)})"
        return self._aggregation(sql, "count")

    def users(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count users with a row, or with a row for which `condition` is true."""
        only = "" if condition is None else f" FILTER (WHERE {to_sql(condition)})"
        return self._aggregation(f"COUNT(DISTINCT {to_sql(self._table.user)}){only}", "users")

    def sum(self, value: polars.Expr | str) -> Aggregation:
        """Sum a number; its scale comes from clips, declared bounds, or `ask(scale=…)`."""
        return self._aggregation(f"SUM({to_sql(value)})", "sum")

    def mean(self, value: polars.Expr | str) -> Aggregation:
        """Average a number."""
        return self._aggregation(f"AVG({to_sql(value)})", "mean")

    def std(self, value: polars.Expr | str) -> Aggregation:
        """Return the sample standard deviation of a number over rows."""
        return self._aggregation(f"STDDEV({to_sql(value)})", "std")

    def quantile(
        self, value: polars.Expr | str, q: float, edges: Sequence[float] | None = None
    ) -> Aggregation:
        """Compute a quantile from a noised histogram; by default with 64 bins of the bounds."""
        bins = "" if edges is None else f", {_edges(edges)}"
        share = in_range("q", q, 0.0, 1.0)
        return self._aggregation(f"QUANTILE({to_sql(value)}, {share}{bins})", "quantile")

    def histogram(self, value: polars.Expr | str, edges: Sequence[float]) -> Aggregation:
        """Count rows by bin."""
        return self._aggregation(f"HISTOGRAM({to_sql(value)}, {_edges(edges)})", "count")


def _identifier(name: str) -> str:
    return exp.to_identifier(name).sql("duckdb")


def _edges(edges: Sequence[float]) -> list[float]:
    if not isinstance(edges, Sequence) or isinstance(edges, str):
        raise ParameterError("edges are no list of numbers", "for example [0, 10, 100]")
    return [in_range("an edge", edge, -math.inf, math.inf) for edge in edges]
