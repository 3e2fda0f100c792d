"""Subqueries over public tables in the expressions of a SELECT, answered during lowering.

Constants replace them in the query. Subqueries over private tables were turned into joins before
(`sparseq.sql.subquery_expressions`), or are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.sql.constants import constant_sql as constant
from sparseq.sql.from_clause import FromItem
from sparseq.sql.parse import said
from sparseq.sql.public_database import PublicFacts

MAX_SUBQUERY_VALUES = 10_000
MAX_SUBQUERIES = 256
Lower = Callable[[exp.Select, str, PublicFacts, dict[str, FromItem]], FromItem]


class PublicSubqueries:
    """Answers the public subqueries of one SELECT.

    Args:
        select: A SELECT; it is changed in place.
        facts: The facts about tables and constants.
        lower: Lowers a subquery.
        ctes: The named subqueries.
    """

    def __init__(
        self, select: exp.Select, facts: PublicFacts, lower: Lower, ctes: dict[str, FromItem]
    ) -> None:
        self._select = select
        self._facts = facts
        self._lower = lower
        self._ctes = ctes

    def answer(self) -> None:
        """Replace subqueries in expressions, which may use public tables only, by constants.

        The loop ends: each turn removes one of finitely many subqueries and adds none.
        """
        answered: list[exp.Select] = []
        while (found := self._next_subquery()) is not None:
            if len(answered) >= MAX_SUBQUERIES or any(found is done for done in answered):
                _refuse(
                    f"the query has more than {MAX_SUBQUERIES} subqueries in expressions",
                    "name their values once, in a subquery in FROM",
                )
            answered.append(found)
            self._replace(found)

    def _next_subquery(self) -> exp.Select | None:
        """Return a remaining subquery; the search restarts, as any part may have been replaced."""
        parts: list[exp.Expr | None] = list(self._select.expressions)
        parts += [self._select.args.get(k) for k in ("where", "group", "having", "order")]
        parts += [join.args.get("on") for join in self._select.args.get("joins") or []]
        found = (part.find(exp.Select) for part in parts if part is not None)
        return next((select for select in found if select is not None), None)

    def _replace(self, found: exp.Select) -> None:
        holder = found.parent if isinstance(found.parent, exp.Subquery) else found
        outer = holder.parent
        if isinstance(outer, exp.In) and outer.args.get("query") is holder:
            listed = self._values(found, MAX_SUBQUERY_VALUES)
            outer.set("expressions", listed)
            outer.set("query", None)
            if not listed:  # even NULL is not in an empty list
                outer.replace(exp.false())
        elif isinstance(outer, exp.Exists):
            rows = f"SELECT 1 FROM {self._source(found).derived} LIMIT 1"
            outer.replace(exp.true() if self._facts.values(rows) else exp.false())
        else:
            (value,) = self._values(found, 1) or [exp.Null()]
            name = holder.alias if isinstance(holder, exp.Subquery) else ""  # the name of an item
            holder.replace(exp.alias_(value, name, quoted=True) if name else value)

    def _source(self, select: exp.Select) -> FromItem:
        self._facts.subqueries += 1
        source = self._lower(select, "", self._facts, self._ctes)
        if source.private:
            _refuse(
                f"the subquery {said(select)[:60]} looks at other people's rows",
                "join it on the user column instead",
            )
        return source

    def _values(self, select: exp.Select, most: int) -> list[exp.Expr]:
        """Return the values of a subquery over public tables, as constants."""
        source = self._source(select)
        if len(source.columns) != 1:
            _refuse(f"the subquery {said(select)[:60]} has several columns", "select one")
        rows = self._facts.values(f"SELECT * FROM {source.derived} LIMIT {most + 1}")
        if len(rows) > most:
            _refuse(
                f"the subquery {said(select)[:60]} has more than {most:,} rows",
                "join the public table instead",
            )
        (facts,) = source.columns.values()
        type = "TIMESTAMPTZ" if facts.zoned else facts.type
        return [constant(value, type) for (value,) in rows]


def _refuse(message: str, hint: str) -> NoReturn:
    raise QueryRefused(message, hint)
