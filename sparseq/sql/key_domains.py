"""Public domains of group keys: the groups of an answer must not depend on the private rows.

`sparseq.sql.public_values` finds the values of these domains. The strings that occur in a column
are private data and never form a domain.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sqlglot import exp

from sparseq.language.calendar import UNITS
from sparseq.language.expression_tree import Term, call, constant
from sparseq.language.types import BOOLEAN, integer
from sparseq.question.catalog import OTHER, FoundTuples
from sparseq.question.plan import (
    Cell,
    Domain,
)
from sparseq.sql.constants import constants
from sparseq.sql.parse import said
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.public_values import MAX_VALUES, PublicValues
from sparseq.sql.scope import Scope, integral, refuse
from sparseq.sql.sought_bounds import SoughtBounds

_INLINE, _INLINE_TEXTS = 32, 8
"""Up to this number of values, a row's place is found in an inline list; above it, by a join."""


class Domains:
    """Finds the domain of each key of one query.

    Args:
        scope, public: The scope and the public facts of the query.
        sought: The bounds that nobody declared.
    """

    def __init__(self, scope: Scope, public: PublicFacts, sought: SoughtBounds) -> None:
        self._scope, self._sought = scope, sought
        self._values = PublicValues(scope, public)
        self._over_found = PublicValues(scope, public, found=True)
        self.joins = ""

    def of_tuples(
        self,
        columns: Sequence[exp.Expr],
        names: Sequence[tuple[str, int]],
        types: Sequence[str],
        found: FoundTuples,
    ) -> Domain:
        """Return the domain of several keys that were found together: their tuples, and the rest.

        Args:
            columns: The keys.
            names: Their names, and their positions among all keys.
            types: Their DuckDB types.
            found: The tuples found, in the order of the columns.
        """
        passing = [self._values.of(c, t) for c, t in zip(columns, types, strict=True)]
        kept = [
            some
            for some in found.values
            if all(p is None or v in p for v, p in zip(some, passing, strict=True))
        ]
        alias = f'"#key{self.joins.count("LEFT JOIN")}"'
        lists = [
            f"unnest({constants([some[i] for some in kept], t) if kept else f'[]::{t}[]'})"
            for i, t in enumerate(types)
        ]
        fields = [f"v{i}" for i in range(len(types))]
        same = " AND ".join(
            f"{alias}.{field} = ({self._scope.term(c).sql})"
            for field, c in zip(fields, columns, strict=True)
        )
        places = f"SELECT {', '.join(lists)}, unnest(range({len(kept)})::INTEGER[])"
        self.joins += f" LEFT JOIN ({places}) AS {alias}({', '.join(fields)}, i) ON {same}"
        rest = tuple(_of_the_rest(type) for type in types)
        cell = Cell(f"coalesce({alias}.i, {len(kept)})")
        name = ", ".join(name for name, _ in names)
        return Domain(name, (*kept, rest), cell, rest=True, keys=tuple(names))

    def is_public(self, key: exp.Expr, type: str) -> bool:
        """Tell whether a key itself has public values."""
        return self._values.of(key, type) is not None or self._found(key, type) is not None

    def of(self, key: exp.Expr, name: str, type: str) -> Domain:
        """Return a key's domain, with the expression that gives a row's place in it.

        Args:
            key: The expression grouped by.
            name: Its name in the answer.
            type: Its DuckDB type.

        Raises:
            QueryRefused: No public fact gives the key's values.
        """
        values = self._values.of(key, type)
        found = self._found(key, type) if values is None else None
        null = self._values.may_be_null(key)
        if found is not None:
            return self._with_rest(key, name, type, found, null)
        if values is None and (numbers := self._sought.whole_numbers(key)) is not None:
            values = list(numbers)
        if values is None:
            refuse(f"the values of {said(key)} are not public", self._ways(key, type))
        if not values and not null:
            refuse(
                f"no value of {said(key)} can pass the WHERE",
                "ask within what is declared of it, or the curator for wider bounds or more keys",
            )
        if len(values) > MAX_VALUES:
            refuse(
                f"{said(key)} has {len(values):,} public values; the limit is {MAX_VALUES:,}",
                "narrow it in the WHERE, or group by something coarser",
            )
        return self._place(key, name, type, (*values, None) if null else tuple(values))

    def _ways(self, key: exp.Expr, type: str) -> str:
        columns = {said(c): c for c in key.find_all(exp.Column)}
        text, is_time = said(key), type == "DATE" or type.startswith("TIMESTAMP")
        if len(columns) == 1:
            (name, one), *_ = columns.items()
            is_time = is_time or self._scope.term(one).type.is_time
            text = name if is_time else text
            if is_time and self._values.is_ranged(one):
                return (
                    f"group by longer stretches, as date_trunc('day', {name}), or a shorter range"
                )
        if is_time:
            return f"give a range: WHERE {text} BETWEEN DATE '…' AND DATE '…'"
        column = text if isinstance(key, exp.Column) else "column"
        if column.lower() in {t.user.lower() for t in self._scope.public.catalog.private}:
            return f"count people: SELECT count(DISTINCT {column}), in groups that many share"
        place = self._scope.facts(key).place if isinstance(key, exp.Column) else None
        search = ""
        if place is not None:
            column = self._scope.public.catalog.written(place)
            if self._scope.public.finds_keys:
                search = f'sparseq keys discover STORE "SELECT {place.name} FROM {place.table}"'
        return (
            f"list them: WHERE {text} IN (…); or ask the curator to declare them: "
            f"create --keys {column}=a,b,c{search and f', or to find them: {search}'}; or group "
            "by a column of a public table"
        )

    def _found(self, key: exp.Expr, type: str) -> tuple[Any, ...] | None:
        """Return the privately found keys of a stored column, or the values computed from them.

        All other rows share one more value, even where the function gives them the value of a found
        key.
        """
        if isinstance(key, exp.Column):
            stored = self._scope.facts(key).stored
            return None if stored is None else stored.found
        values = self._over_found.of(key, type)
        return None if values is None else tuple(v for v in values if v != OTHER)

    def _with_rest(
        self, key: exp.Expr, name: str, type: str, found: tuple[Any, ...], null: bool
    ) -> Domain:
        """Return found keys as a domain, with one more value for all other rows.

        NULL is a separate key if the type is text; otherwise it belongs to the other rows.
        """
        term, rest = self._scope.term(key), _of_the_rest(type)
        known = (*found, *([None] if null and rest is not None else []))
        place = f"coalesce({self._join(term, known, type)}, {len(known)})"
        return Domain(name, (*known, rest), Cell(place), key=term, rest=True)

    def _place(self, key: exp.Expr, name: str, type: str, values: tuple[Any, ...]) -> Domain:
        term = self._scope.term(key)
        known = [v for v in values if v is not None]
        if (steps := _steps(self._scope, key, known, type)) is not None:
            cell = Cell.of(steps if None not in values else _or_null(term, steps, len(known)))
        elif len(known) <= (_INLINE_TEXTS if term.column and type == "VARCHAR" else _INLINE):
            cell = _place_among(term, values)
        elif (steps := _steps_of_time(self._scope, key, known)) is not None:
            cell = Cell.of(steps if None not in values else _or_null(term, steps, len(known)))
        else:
            cell = Cell(self._join(term, values, type))
        return Domain(name, values, cell, key=term)

    def _join(self, term: Term, values: Sequence[Any], type: str) -> str:
        """Join the values and return the SQL of a row's place among them, NULL if it has none."""
        alias = f'"#key{self.joins.count("LEFT JOIN")}"'
        known = [v for v in values if v is not None]
        listed = constants(known, type) if known else f"[]::{type}[]"
        places = f"SELECT unnest({listed}), unnest(range({len(known)})::INTEGER[])"
        self.joins += f" LEFT JOIN ({places}) AS {alias}(v, i) ON {alias}.v = ({term.sql})"
        if len(known) == len(values):
            return f"{alias}.i"
        return f"CASE WHEN ({term.sql}) IS NULL THEN {len(known)} ELSE {alias}.i END"


def _steps(scope: Scope, key: exp.Expr, values: Sequence[Any], type: str) -> Term | None:
    """Return the place among consecutive days or whole numbers; None: they are no such values."""
    whole = type == "DATE" or (integral(type) and type != "BOOLEAN")
    if not values or not whole or not _consecutive(values):
        return None
    first: exp.Expr = exp.Literal.number(str(values[0]))
    if type == "DATE":
        first = exp.cast(exp.Literal.string(str(values[0])), "DATE")
    return scope.term(exp.Sub(this=exp.paren(key.copy()), expression=first))


def _steps_of_time(scope: Scope, key: exp.Expr, values: Sequence[Any]) -> Term | None:
    """Return the place of a truncated time among consecutive units; None: it is no such key.

    A list of all units of a long range would take longer to parse than to group by.
    """
    term = scope.term(key)
    name, _, unit = term.function.partition(" ")
    length = UNITS[unit].length if name == "date_trunc" and unit in UNITS else 0
    if not length or unit == "week" or term.type.zoned:  # date_diff counts Mondays otherwise
        return None
    if any(b - a != dt.timedelta(microseconds=length) for a, b in pairwise(values)):
        return None
    first = exp.cast(exp.Literal.string(str(values[0])), "TIMESTAMP")
    unit_of_time = exp.Var(this=unit.upper())
    steps = scope.term(exp.DateDiff(this=key.copy(), expression=first, unit=unit_of_time))
    last = integer(0, len(values) - 1)
    ends = constant(0, last), constant(last.high, last)
    listed = call("between", "({0} BETWEEN {1} AND {2})", BOOLEAN, steps, *ends)
    return call("case", "CASE WHEN {0} THEN {1} END", last, listed, steps)


def place_of(scope: Scope, value: exp.Expr, values: Sequence[Any]) -> Cell:
    """Return the place of an expression's value among public values, without NULL."""
    term = scope.term(value)
    steps = _steps(scope, value, values, term.type.sql)
    return _place_among(term, values) if steps is None else Cell.of(steps)


def _of_the_rest(type: str) -> str | None:
    """Return the key of all rows without a found key."""
    return OTHER if type == "VARCHAR" else None


def narrow(domain: Domain, values: Sequence[Any]) -> Domain | None:
    """Return a domain with only some of its values; None if a row's place is not computable."""
    term = domain.key
    if term is None or len(values) > _INLINE:
        return None
    return replace(domain, values=tuple(values), position=_place_among(term, values))


def place_without_join(domain: Domain) -> str | None:
    """Return SQL for a row's place among a domain's values, over the row alone; None: there is
    none.

    A question with many values joins them to its rows, which is faster.
    """
    if domain.position.term is not None:
        return domain.position.sql
    alone = domain.key is not None and not domain.rest and not domain.keys
    return _place_among(domain.key, domain.values).sql if alone and domain.key else None


def _place_among(term: Term, values: Sequence[Any]) -> Cell:
    """Return the place of a value in a short list, whose last value may be NULL."""
    known = [v for v in values if v is not None]
    place = f"list_position({constants(known, term.type.sql)}, {term.sql}) - 1" if known else "-1"
    if len(known) < len(values):
        place = f"CASE WHEN {term.sql} IS NULL THEN {len(known)} ELSE {place} END"
    found = (term, *(constant(v, term.type) for v in values))
    return Cell.of(Term(integer(-1, _INLINE), place, function="place", arguments=found))


def _or_null(term: Term, place: Term, last: int) -> Term:
    """Return `place` where a term has a value and `place` < `last`; `last` where it is NULL."""
    end = constant(last, integer(last, last))
    before = call("<", "({0} < {1})", BOOLEAN, place, end)
    missing = call("is null", "({0} IS NULL)", BOOLEAN, term)
    sql = "CASE WHEN {0} THEN {1} WHEN {2} THEN {3} END"
    return call("case", sql, place.type, before, place, missing, end)


def _consecutive(values: Sequence[Any]) -> bool:
    step = dt.timedelta(days=1) if isinstance(values[0], dt.date) else 1
    return all(b - a == step for a, b in pairwise(values))
