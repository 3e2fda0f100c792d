"""Public domains of group keys: which groups an answer has must not depend on the rows.

Which values those are is found in `sparseq.language.public_values`. The strings that happen to be
in a column are facts about people and never a domain.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sqlglot import exp

from sparseq.language.expression_tree import Term, call, constant
from sparseq.language.parsed_expressions import constants
from sparseq.language.public_values import MAX_VALUES, PublicValues
from sparseq.language.types import DOUBLE, TEXT, integer
from sparseq.sql.catalog import OTHER
from sparseq.sql.from_clause import code_of
from sparseq.sql.parse import said
from sparseq.sql.plan import Cell, Domain
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.scope import Scope, integral, refuse

# -- public domains of group keys: which groups an answer has must not depend on the rows ----------

_INLINE = 32


class Domains:
    """Finds the domain of each key of one query.

    Args:
        scope, public: Of the query.
        in_sql: Every key's place is in its SQL; none is looked up in a private dictionary.
    """

    def __init__(self, scope: Scope, public: PublicFacts, in_sql: bool = False) -> None:
        self._in_sql = in_sql
        self._scope = scope
        self._values = PublicValues(scope, public)
        self._over_found = PublicValues(scope, public, found=True)
        self.joins = ""

    def of(self, key: exp.Expr, name: str, type: str) -> Domain:
        """Return a key's domain and how a row finds its place in it.

        Args:
            key: The expression grouped by.
            name: Its name in the answer.
            type: Its DuckDB type.

        Raises:
            QueryRefused: Nothing public says which values it has.
        """
        values = self._values.of(key, type)
        found = self._found(key, type) if values is None else None
        if found is not None:
            return self._with_rest(key, name, type, found)
        if values is None:
            refuse(f"the values of {said(key)} are not public", self._ways(key, type))
        if not values:
            refuse(f"no value of {said(key)} can pass the WHERE")
        if len(values) > MAX_VALUES:
            refuse(
                f"{said(key)} has {len(values):,} public values; the limit is {MAX_VALUES:,}",
                "narrow it in the WHERE, or group by something coarser",
            )
        return self._place(key, name, type, values)

    def _ways(self, key: exp.Expr, type: str) -> str:
        columns = {said(c) for c in key.find_all(exp.Column)}
        text = said(key)
        if type == "DATE" or type.startswith("TIMESTAMP"):
            text = columns.pop() if len(columns) == 1 else text
            return f"give a range: WHERE {text} BETWEEN DATE '…' AND DATE '…'"
        column = text if isinstance(key, exp.Column) else "column"
        if column.lower() in {t.user.lower() for t in self._scope.public.catalog.private}:
            return f"count people: SELECT count(DISTINCT {column}), in groups that many share"
        return (
            f"list them: WHERE {text} IN (…); or ask the curator to declare them: "
            f"create --keys {column}=a,b,c; or group by a column of a public table"
        )

    def _found(self, key: exp.Expr, type: str) -> tuple[str, ...] | None:
        """Return the keys that were privately found of a stored column, or what a text of it is.

        All other rows are one more value, though a function of theirs may be that of a found key's.
        """
        if isinstance(key, exp.Column):
            stored = self._scope.facts(key).stored
            return None if stored is None else stored.found
        values = self._over_found.of(key, type) if type == "VARCHAR" else None
        return None if values is None else tuple(v for v in values if v != OTHER)

    def _with_rest(self, key: exp.Expr, name: str, type: str, found: tuple[str, ...]) -> Domain:
        """Return found keys as a domain, with one more value for all other rows."""
        term = self._scope.term(key)
        place = f"coalesce({self._joined(term, list(found), type)}, {len(found)})"
        return Domain(name, (*found, OTHER), Cell(place), key=term, rest=True)

    # -- where a row finds its place -------------------------------------------------------------

    def _place(self, key: exp.Expr, name: str, type: str, values: list[Any]) -> Domain:
        domain = tuple(values)
        if isinstance(key, exp.Column) and not self._in_sql:
            source, stored = self._scope.sources[key.table], self._scope.facts(key).stored
            if source.table is not None and stored is not None and stored.coded:
                column = code_of(key.name) if key.name in source.decoded else key.name
                code = exp.column(column, key.table, quoted=True).sql("duckdb")
                cell = Cell.of(Term(TEXT, code, column=stored.name))
                text = exp.column(key.name, key.table, quoted=True).sql("duckdb")
                column_term = Term(TEXT, text, column=stored.name)
                return Domain(name, domain, cell, (source.table.name, stored.name), column_term)
        term = self._scope.term(key)
        if type == "DATE" and _consecutive(values):
            first = exp.cast(exp.Literal.string(str(values[0])), "DATE")
            return Domain(name, domain, Cell.of(self._minus(key, first)), key=term)
        if integral(type) and type != "BOOLEAN" and _consecutive(values):
            steps = self._minus(key, exp.Literal.number(str(values[0])))
            return Domain(name, domain, Cell.of(steps), key=term)
        listed = constants(values, type)
        if len(values) <= _INLINE:
            place = f"list_position({listed}, {term.sql}) - 1"
            found = (term, *(constant(v, term.type) for v in values))
            found_at = Term(integer(0, _INLINE), place, function="place", arguments=found)
            return Domain(name, domain, Cell.of(found_at), key=term)
        return Domain(name, domain, Cell(self._joined(term, values, type)), key=term)

    def _joined(self, term: Term, values: list[Any], type: str) -> str:
        """Join the values; return SQL of a row's place among them, NULL for none."""
        alias = f'"#key{self.joins.count("LEFT JOIN")}"'
        listed = constants(values, type) if values else f"[]::{type}[]"
        places = f"SELECT unnest({listed}), unnest(range({len(values)})::INTEGER[])"
        self.joins += f" LEFT JOIN ({places}) AS {alias}(v, i) ON {alias}.v = ({term.sql})"
        return f"{alias}.i"

    def _minus(self, key: exp.Expr, first: exp.Expr) -> Term:
        return self._scope.term(exp.Sub(this=exp.paren(key.copy()), expression=first))


def narrowed(domain: Domain, values: Sequence[Any]) -> Domain | None:
    """Return a domain of some of its values alone; None: a row's place among them can't be told."""
    if domain.dictionary is not None:
        return replace(domain, values=tuple(values))
    term = domain.key
    if term is None or len(values) > _INLINE or None in values:
        return None
    listed = constants(values, term.type.sql)
    found = (term, *(constant(v, term.type) for v in values))
    place = f"list_position({listed}, {term.sql}) - 1"
    cell = Cell.of(Term(integer(0, _INLINE), place, function="place", arguments=found))
    return replace(domain, values=tuple(values), position=cell)


def _consecutive(values: list[Any]) -> bool:
    step = dt.timedelta(days=1) if isinstance(values[0], dt.date) else 1
    return all(b - a == step for a, b in pairwise(values))


# -- the bin of a value, as a cell of a row --------------------------------------------------------

DEFAULT_BINS = 64


def even_bins(low: float, high: float) -> tuple[float, ...]:
    """Return the edges of bins that nobody has given."""
    return tuple(np.linspace(low, high, DEFAULT_BINS + 1).tolist())


def as_double(term: Term) -> Term:
    """Return a term as a DOUBLE."""
    return call("cast to DOUBLE", "TRY_CAST({0} AS DOUBLE)", DOUBLE, term)


def bin_of(value: Cell, edges: Sequence[float], nearest: bool) -> Cell:
    """Return the place of the bin [edge, next edge) that a value lies in; the last one is closed.

    -1 where it lies in none, or has no value.

    Args:
        value: A number.
        edges: Ascending.
        nearest: Of what lies outside, the bin that is nearest.
    """
    number = None if value.term is None else as_double(value.term)
    x = f"TRY_CAST({value.sql} AS DOUBLE)" if number is None else number.sql
    known = f"isfinite({x})" if nearest else f"{x} BETWEEN {edges[0]!r} AND {edges[-1]!r}"
    place = f"CASE WHEN {known} THEN {_bin_sql(x, edges, 0, len(edges) - 1)} ELSE -1 END"
    if number is None:
        return Cell(place)
    arguments = (number, *(constant(edge, DOUBLE) for edge in edges))
    name = "nearest bin" if nearest else "bin"
    return Cell.of(Term(integer(-1, len(edges) - 2), place, function=name, arguments=arguments))


def _bin_sql(x: str, edges: Sequence[float], first: int, last: int) -> str:
    """Return SQL of the bin that x lies in, among those from edge `first` to edge `last`."""
    if last - first == 1:
        return str(first)
    middle = (first + last) // 2
    below, above = _bin_sql(x, edges, first, middle), _bin_sql(x, edges, middle, last)
    return f"CASE WHEN {x} < {edges[middle]!r} THEN {below} ELSE {above} END"


def less(value: Cell, amount: float) -> Cell:
    """Return a number less a constant, as a DOUBLE.

    Example:
        >>> less(Cell("v0"), 2.5).sql
        "(TRY_CAST(v0 AS DOUBLE) - CAST('2.5' AS DOUBLE))"
    """
    taken = constant(amount, DOUBLE)
    if value.term is None:
        return Cell(f"(TRY_CAST({value.sql} AS DOUBLE) - {taken.sql})")
    return Cell.of(call("-", "({0} - {1})", DOUBLE, as_double(value.term), taken))


def times(one: Cell, other: Cell) -> Cell:
    """Return the product of two DOUBLEs."""
    if one.term is None or other.term is None:
        return Cell(f"({one.sql} * {other.sql})")
    return Cell.of(call("*", "({0} * {1})", DOUBLE, one.term, other.term))
