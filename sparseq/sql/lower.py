"""From the text of a query to the query, for one store: what was lowered before is remembered."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

import pyarrow as pa

from sparseq.sql.catalog import Catalog
from sparseq.sql.date_templates import Templates
from sparseq.sql.plan import Query
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.select import lower_sql

_REMEMBERED = 1024  # queries
_NOW = re.compile(r"now\s*\(|current_timestamp", re.IGNORECASE)


class Lowering:
    """Lowers the queries of one store: public facts only, no data touched, nothing charged.

    Args:
        catalog, schema, rows, most, weighted: See `PublicFacts`.

    Attributes:
        public: The twin of the store without its private rows.
    """

    def __init__(
        self,
        catalog: Catalog,
        schema: str,
        rows: Mapping[str, pa.Table],
        most: Mapping[str, int],
        weighted: bool,
    ) -> None:
        self.public = PublicFacts(catalog, schema, rows, most, weighted)
        self._templates = Templates()
        self._known: dict[str, Query] = {}  # by text; what lowering reads changes with the day
        self._known_on = dt.date.today()

    def lower(self, sql: str) -> Query:
        """Lower SQL: see `sparseq.store.store.Store.lower`."""
        if self._known_on != (today := dt.date.today()):  # CURRENT_DATE, today()
            self._known, self._known_on = {}, today
        known = self._known.get(sql) or self._templates.lowered(sql)
        if known is not None:
            return known
        before = self.public.subqueries
        query = lower_sql(sql, self.public.catalog, self.public)
        if (
            self.public.subqueries == before
            and not _NOW.search(sql)
            and not any(domain.rest for domain in query.domains)  # keys may look like dates
            and self.public.catalog.window is None  # whether it is about one, dates decide
        ):  # their answers could change with the dates
            self._templates.learn(sql, query)
        if len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        if not _NOW.search(sql):  # a query that asks for the time is another one each time
            self._known[sql] = query
        return query

    def close(self) -> None:
        """Let go of the twin."""
        self.public.close()
