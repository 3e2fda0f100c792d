"""Questions in words: SQL, or expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, overload

from sparseq.accounting import Budget
from sparseq.base.arguments import check_arguments
from sparseq.base.cancellation import Cancellation, checked_seconds
from sparseq.base.errors import ParameterError
from sparseq.question.catalog import Catalog, KnownBounds
from sparseq.question.plan import Options, OptionWords, Plan, Query, calibrate

if TYPE_CHECKING:
    import polars

    from sparseq.answers.answer import Answer
    from sparseq.ledger.request_id import RequestId
    from sparseq.sql.polars_question import Aggregation, Events
    from sparseq.store.explain import Explanation
    from sparseq.stream.step import Stream

Params = Sequence[Any] | Mapping[str, Any]
"""Values of a query's parameters, by place or by name."""


class AnyStore(Protocol):
    """The query interface that a file, a lake and a server share: a script for one runs on all.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> def people(con: sparseq.AnyStore) -> float:
        ...     return con.sql("SELECT count(DISTINCT who) AS people FROM t").value()
        >>> con = sparseq.create(None, {"t": pa.table({"who": ["a", "b"]})}, user="who", seed=1)
        >>> people(con) == con.sql("SELECT count(DISTINCT who) AS people FROM t").value()
        True
    """

    @property
    def guarantee(self) -> Budget:
        """The promise about all answers together."""

    @property
    def catalog(self) -> Catalog:
        """Its tables: public."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables: public."""

    @property
    def released(self) -> int:
        """Number of answers that were released: public."""

    def sql(
        self,
        sql: str,
        params: Params | None = None,
        *,
        request_id: str | None = None,
        fresh: bool = False,
        timeout: float | None = None,
        **options: Unpack[OptionWords],
    ) -> Answer:
        """Answer an SQL query."""

    def explain(
        self,
        query: str,
        options: Options | None = None,
        params: Params | None = None,
        **words: Unpack[OptionWords],
    ) -> Explanation:
        """Explain a query without asking or charging it."""

    def budget(self) -> dict[str, Any]:
        """Return the promise and the progress of the stream as public plain data."""

    def release(self, number: int) -> Answer:
        """Return a recorded answer; free."""

    def close(self) -> None:
        """Close the store and its connections."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Asking(ABC):
    """Questions in SQL or as expressions, for classes that answer lowered queries."""

    guarantee: Budget
    catalog: Catalog
    stream: Stream
    found_bounds: KnownBounds

    @abstractmethod
    def lower(self, sql: str) -> Query:
        """Lower SQL to a query."""

    @abstractmethod
    def ask(
        self,
        query: Query,
        options: Options | None = None,
        request_id: RequestId | str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a lowered query."""

    @abstractmethod
    def relearn(self) -> None:
        """Read the facts that the ledger has learned; later queries are lowered with them."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables: public. `catalog` has their columns."""
        return tuple(table.name for table in self.catalog.tables)

    @check_arguments
    def sql(
        self,
        sql: str,
        params: Params | None = None,
        *,
        request_id: str | None = None,
        fresh: bool = False,
        timeout: float | None = None,
        **options: Unpack[OptionWords],
    ) -> Answer:
        """Answer an SQL query.

        Args:
            sql: One SELECT that aggregates; docs/sql.md describes the dialect.
            params: Values of its `?` parameters, or of its `$name` parameters by name. They are
                bound as literals, so the release is the same as for the query with the literals
                written out.
            request_id, fresh: See `Store.ask`.
            timeout: The most seconds until the answer is committed; unlimited by default. A
                cancelled question reveals how long it took, which depends on rows.
            options: At most one of `sigma`, `accuracy`, `precision` and `price`; `scale`,
                `confidence`, `interval`, `at_least_useful`, `columns`: docs/options.md.

        Raises:
            TimedOut: The query took longer than `timeout`; nothing was charged.
            QueryRefused: The query can't be answered privately; the message suggests another query.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> events = pa.table({"who": ["a", "b"], "amount": [3.0, 4.0]})
            >>> con = sparseq.create(None, {"t": events}, user="who", seed=1)
            >>> con.sql("SELECT count(DISTINCT who) AS people FROM t").arrow().num_rows
            1
        """
        wanted = Options.of(**options)
        with Cancellation(checked_seconds(timeout)):
            query = self.lower(self._bound(sql, params))
            return self.ask(query, wanted, request_id, fresh)

    def _bound(self, sql: str, params: Params | None) -> str:
        if params is None:
            return sql
        from sparseq.sql.parameters import bound

        return bound(sql, params)

    @check_arguments
    def table(self, name: str) -> Events:
        """Return a private table to ask about in Python (see `sparseq.sql.polars_question`)."""
        from sparseq.sql.polars_question import Events

        return Events(self, name)

    def count(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count rows of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().count(condition)

    def users(self, condition: polars.Expr | None = None) -> Aggregation:
        """Count users of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().users(condition)

    def sum(self, value: polars.Expr | str) -> Aggregation:
        """Add up a number of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().sum(value)

    def mean(self, value: polars.Expr | str) -> Aggregation:
        """Average a number of the private table; `.by(…)`, `.where(…)`, then `.ask()`."""
        return self._only_table().mean(value)

    def _only_table(self) -> Events:
        return self.table(self.catalog.only_private().name)

    @overload
    def explain(self, query: Query, options: Options | None = None) -> Plan: ...

    @overload
    def explain(
        self,
        query: str,
        options: Options | None = None,
        params: Params | None = None,
        **words: Unpack[OptionWords],
    ) -> Explanation: ...

    def explain(
        self,
        query: Query | str,
        options: Options | None = None,
        params: Params | None = None,
        **words: Unpack[OptionWords],
    ) -> Plan | Explanation:
        """Explain a query in words and as `.facts`, without asking or charging it.

        For a lowered query the result is the plan (noise, bounds and worst case) if queries do not
        weigh users.

        Args:
            query: SQL, or a lowered query.
            options: Options of the question, as an object.
            words: The same by name, as `sql` takes them.
            params: See `sql`.

        Raises:
            QueryRefused: The query can't be answered, or its sigma, accuracy or precision can't be
                reached.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> con = sparseq.create(None, {"t": pa.table({"who": [1, 2]})}, user="who", seed=1)
            >>> con.explain("SELECT count(DISTINCT who) FROM t", price=2).facts["charge"]
            2.0
        """
        options = given_options(options, words)
        if isinstance(query, Query):
            for one in query.first:
                calibrate(one, self.guarantee, options.over(query.options).of_first)
            return calibrate(query, self.guarantee, options)
        from sparseq.store.explain import explained

        lowered = self.lower(self._bound(query, params))
        with self.stream.held():
            known = self.stream.known(lowered, options, anyhow=True)
            return explained(self, lowered, options, known)


def given_options(options: Options | None, words: OptionWords) -> Options:
    """Return the options, given as an object or by name.

    Raises:
        ParameterError: Both were given.
    """
    if options is not None and words:
        raise ParameterError("options are given twice", "give them by name: price=2")
    return Options.of(**words) if words else options or Options()
