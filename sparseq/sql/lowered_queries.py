"""The lowered queries of a store, cached by their text."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

import pyarrow as pa

from sparseq.question.catalog import Catalog, KnownBounds
from sparseq.question.plan import FirstAnswer, Query
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.query_templates import Templates
from sparseq.sql.select import lower_sql

_REMEMBERED = 1024  # queries
_Asked = tuple[str, tuple[FirstAnswer, ...]]
_NOW = re.compile(r"now\s*\(|current_timestamp", re.IGNORECASE)


class Lowering:
    """Lowers one store's queries from public facts: it uses no private data, and charges nothing.

    Args:
        catalog, schema, rows, most, weighted, least_people, found_bounds, finds_keys: See
            `PublicFacts`.

    Attributes:
        public: A copy of the store without its private rows.
    """

    def __init__(
        self,
        catalog: Catalog,
        schema: str,
        rows: Mapping[str, pa.Table],
        most: Mapping[str, int],
        weighted: bool,
        least_people: int = 0,
        found_bounds: KnownBounds | None = None,
        finds_keys: bool = False,
    ) -> None:
        self.public = PublicFacts(
            catalog, schema, rows, most, weighted, least_people, found_bounds, finds_keys
        )
        self._templates = Templates()
        self._known: dict[_Asked, Query] = {}  # cleared daily: some facts change with the date
        self._known_on = dt.date.today()

    def lower(self, sql: str, first: tuple[FirstAnswer, ...] = ()) -> Query:
        """Lower SQL: see `sparseq.store.store.Store.lower`.

        Args:
            sql: The text.
            first: The available answers to the questions that precede it.
        """
        if self._known_on != (today := dt.date.today()):  # CURRENT_DATE, today()
            self._known, self._known_on = {}, today
        known = self._known.get((sql, first)) or (None if first else self._templates.lowered(sql))
        if known is not None:
            return known
        before = self.public.subqueries
        query = lower_sql(sql, self.public.catalog, self.public, first)
        if (
            self.public.subqueries == before
            and not _NOW.search(sql)
            and not any(domain.rest for domain in query.domains)  # keys may look like dates
            and self.public.catalog.window is None  # dates decide which window applies
            and query.unbounded is None
            and not first
            and not query.first
        ):  # their answers could change with the dates
            self._templates.learn(sql, query)
        if len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        if query.unbounded is None and not _NOW.search(
            sql
        ):  # a query that uses the current time is never the same twice
            self._known[sql, first] = query
        return query

    def close(self) -> None:
        """Close the copy of the store."""
        self.public.close()
