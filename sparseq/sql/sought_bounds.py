"""Bounds of values that nobody declared, in one question: known from an earlier search, or sought.

A value is a stored column, or an expression over a question's rows: a person's count or total, a
difference of times. Columns are searched for all questions at once (`sparseq.store.found_bounds`).
Of an expression the search is over the rows of the question's FROM: its WHERE counts only where it
joins several tables, so that one search serves questions with other conditions. A search is a
question like any other: each person is in one cell, that of the own largest |value|. What it is
about is told from the text of the question and public facts alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from sparseq.language.column_id import ColumnId
from sparseq.language.ends import Interval
from sparseq.language.expression_tree import all_of
from sparseq.language.types import Family
from sparseq.question.bound_cells import EDGES
from sparseq.question.catalog import Column
from sparseq.question.plan import (
    BoundGaps,
    Cell,
    Domain,
    Kind,
    Measure,
    Query,
    Relation,
    ValueSearch,
)
from sparseq.released import outputs as out
from sparseq.released.outputs import LeastPeople
from sparseq.sql.bins import as_double, bin_of
from sparseq.sql.parse import RELEASED, said
from sparseq.sql.scope import Scope

MOST_NUMBERS = 1_000
"""Of a count that rows are grouped by: rows with larger ones are in no group."""
ASSUMED = (-1.0, 1.0)
"""Bounds that stand in until a search has found some: their size changes no price."""
WRITTEN = "before it was cut"
"""The name, in a cut tree's notes, of the tree as it was."""


class SoughtBounds:
    """Bounds that nobody declared of one question's values: those known, and those to be found.

    Args:
        scope: Of the question.

    Attributes:
        columns: Columns whose bounds nobody has declared or found.
        binned: Bins or groups depend on bounds that are sought: no scale does without them.
        cut: What is said of values whose bounds were found.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._values: dict[str, exp.Expr] = {}
        self.columns: dict[ColumnId, None] = {}
        self.binned = self._lacks = False
        self.cut: dict[str, None] = {}

    def bound(self, value: exp.Expr, where: str = "sums") -> exp.Expr:
        """Return a value cut to its bounds where they were found, or are assumed; else as it is.

        Args:
            value: Over the columns of the scope.
            where: What takes a value beyond an end as that end, in words.
        """
        if self._scope.bounds(value) is not None:
            return value

        def assumed(e: exp.Expr) -> exp.Expr:
            stored = self._findable(e)
            return e if stored is None else _cut_column(e, ASSUMED, stored)

        if self._scope.bounds(_with_columns(value, assumed)) is None:
            return self._cut_value(value, where)
        return _with_columns(value, partial(self._cut_column, where=where))

    def ends(self, value: exp.Expr, where: str) -> Interval | None:
        """Return the bounds of a value: public, found, or assumed while they are sought."""
        self._lacks = False
        known = self._scope.bounds(self.bound(value, where))
        if not self._lacks:
            return known
        self.binned = True
        return known or ASSUMED

    def whole_numbers(self, value: exp.Expr) -> range | None:
        """Return the numbers that a person's count or whole total may be, within bounds.

        None of values that may be below 0, of stored columns, and where nothing can be found:
        a stored number may be a code, and a code's values are no range.
        """
        stored = any(self._scope.facts(c).stored is not None for c in value.find_all(exp.Column))
        if stored or self._scope.term(value).type.family is not Family.INTEGER:
            return None
        if self._scope.ends(value)[0] < 0:
            return None
        ends = self.ends(value, "groups")
        if ends is None:
            return None
        return range(max(math.ceil(ends[0]), 0), min(math.floor(ends[1]), MOST_NUMBERS) + 1)

    def _findable(self, e: exp.Expr) -> Column | None:
        """Return the stored column of people's numbers that an expression is, if it has no bounds.

        None where nothing was found of it, and nothing is to be found.
        """
        if not isinstance(e, exp.Column):
            return None
        public, source = self._scope.public, self._scope.sources.get(e.table)
        if source is None or source.table is None or not source.private:
            return None
        stored, place = self._scope.facts(e).stored, self._scope.facts(e).place
        if stored is None or place is None or stored.bounds is not None:
            return None
        is_number = stored.integral or stored.type.startswith(("DOUBLE", "FLOAT", "DECIMAL"))
        known = place in public.found_bounds.by_column or public.found_bounds.asks
        return stored if is_number and known else None

    def _cut_column(self, e: exp.Expr, where: str) -> exp.Expr:
        stored = self._findable(e)
        if stored is None or not isinstance(e, exp.Column):
            return e
        place, public = self._scope.facts(e).place, self._scope.public
        assert place is not None
        found = public.found_bounds.by_column.get(place)
        if found is None:
            self.columns[place], self._lacks = None, True
            return _cut_column(e, ASSUMED, stored) if public.assumes_bounds else e
        self.cut[found.said(stored.name, where)] = None
        return _cut_column(e, (found.low, found.high), stored)

    def _cut_value(self, value: exp.Expr, where: str) -> exp.Expr:
        known = self._scope.public.found_bounds
        if not (known.asks or known.by_value) or not self._may_be_sought(value):
            return value
        type = self._scope.term(value).type
        if type.family not in (Family.INTEGER, Family.DECIMAL, Family.DOUBLE):
            return value
        text = _without_names(value, self._rows()).sql("duckdb")
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        found = known.by_value.get(key)
        is_float, whole = type.family is Family.DOUBLE, type.family is Family.INTEGER
        if found is not None:
            self.cut[found.said(said(value), where)] = None
            return _cut(value, (found.low, found.high), is_float, whole)
        if not known.asks:
            return value
        self._values[key], self._lacks = value, True
        assumes = self._scope.public.assumes_bounds
        return _cut(value, ASSUMED, is_float, whole) if assumes else value

    def _may_be_sought(self, value: exp.Expr) -> bool:
        """Tell whether a search for a value's bounds has a meaning: it is no identifier.

        Nor is there one where a released number is a part of it, which is not known yet.
        """
        if any(self._scope.names_user(c) for c in value.find_all(exp.Column)):
            return False
        return not any(RELEASED in e.meta for part in (value, self._rows()) for e in part.walk())

    def _rows(self) -> exp.Select:
        """Return the SELECT of the rows that a search is over, without columns."""
        select = self._scope.select
        clauses = ["with_", "from_", "joins", *(["where"] if self._joins else [])]
        return exp.Select(**{name: select.args.get(name) for name in clauses})

    @property
    def _joins(self) -> bool:
        return len(self._scope.sources) > 1

    def unbounded(self) -> BoundGaps:
        """Return what is to be found; call it when all expressions of the scope are physical."""
        searches = (self._search(key, value) for key, value in self._values.items())
        return BoundGaps((*self.columns, *searches), self.binned)

    def _search(self, key: str, value: exp.Expr) -> ValueSearch:
        scope, number = self._scope, as_double(self._scope.term(value)).sql
        finite = f"CASE WHEN isfinite({number}) THEN {number} END"
        where = f" WHERE {all_of(scope.conditions())}" if self._joins and scope.where else ""
        rows = (
            f"FROM (SELECT {scope.user} AS _user, max({finite}) AS most, min({finite}) AS least "
            f'{scope.from_sql()}{where} GROUP BY {scope.user}) AS "#ends"'
        )
        scope.public.types(f'SELECT "#ends".* {rows}')
        relation = Relation(rows, user='"#ends"._user', caps=scope.caps)
        asked = _SearchQuestions(said(value), relation, scope.public.least_people)
        return ValueSearch(key, said(value), asked.cells(), asked.beyond)


def _without_names(value: exp.Expr, rows: exp.Select) -> exp.Select:
    """Return a SELECT of a value whose text does not depend on the names that a query gives.

    These are the aliases of its tables and subqueries, and of the columns that subqueries select.
    """
    select = rows.copy().select(value.copy(), append=False)
    own = [c for c in select.find_all(exp.Column) if c.find_ancestor(exp.Select) is select]
    origins = [select.args["from_"], *(select.args.get("joins") or [])]
    new: dict[tuple[str, str], str] = {}
    tables: dict[str, str] = {}
    for i, item in enumerate(origin.this for origin in origins):
        tables[item.alias_or_name] = f"_{i}"
        inner = item.this if isinstance(item, exp.Subquery) else None
        if isinstance(inner, exp.Select) and inner.args.get("order") is None:
            for j, one in enumerate(list(inner.expressions)):
                new[item.alias_or_name, one.alias_or_name] = f"_{j}"
                one.replace(exp.alias_(one.unalias(), f"_{j}"))
        item.set("alias", exp.TableAlias(this=exp.to_identifier(f"_{i}")))
    for column in own:
        name = new.get((column.table, column.name), column.name)
        column.replace(exp.column(name, tables.get(column.table, column.table), quoted=True))
    return select


@dataclass(frozen=True)
class _SearchQuestions:
    """The two questions of a search.

    Attributes:
        name: The value, in words.
        relation: Of each person the greatest value, `most`, and the least one, `least`.
        people: The fewest that a shown value may be about.
    """

    name: str
    relation: Relation
    people: int

    def cells(self) -> Query:
        """Return the question how many people have their largest |value| in which cell."""
        below = Domain("below_0", (False, True), Cell("CASE WHEN least < 0 THEN 1 ELSE 0 END"))
        place = bin_of(Cell("greatest(abs(most), abs(least))"), EDGES, nearest=False)
        people = Measure(Kind.ROWS, None, "people", edges=EDGES, bin=place)
        return self._query(f"where {self.name} lies", (below,), people, histogram=0)

    def beyond(self, low: float, high: float) -> Query:
        """Return the question how many people have a value beyond bounds: only they pay."""
        people = Measure(Kind.USERS, Cell(f"(least < {low:.17g} OR most > {high:.17g})"), "people")
        return self._query(f"people with {self.name} below {low:g} or above {high:g}", (), people)

    def _query(
        self, text: str, keys: tuple[Domain, ...], people: Measure, histogram: int | None = None
    ) -> Query:
        columns = [out.OutputColumn(key.name, out.key(i)) for i, key in enumerate(keys)]
        columns.append(out.OutputColumn("people", out.measure(0), True))
        least = LeastPeople(self.people, (0,), (people.bins,)) if self.people else None
        shown = out.Outputs(tuple(columns), histogram=histogram, least=least)
        return Query(text, self.relation, keys, (people,), shown, single=True)


def _with_columns(value: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Return a copy of a value with other columns where they are a part of it as a number.

    A condition decides by the columns as they are: no row has x = 500 where x is cut at 100.
    """

    def changed(e: exp.Expr) -> exp.Expr:
        return change(e) if _is_part(e) else e

    return value.copy().transform(changed)


def _is_part(e: exp.Expr) -> bool:
    """Tell whether an expression is outside of all conditions of the tree that it is in."""
    around = e.parent
    if isinstance(around, exp.Predicate | exp.Connector | exp.Not | exp.Nullif):
        return False
    if isinstance(around, exp.If | exp.Case) and around.this is e:
        return False
    return around is None or _is_part(around)


def _cut_column(e: exp.Expr, ends: Interval, stored: Column) -> exp.Expr:
    cut = _cut(e, ends, stored.type in ("DOUBLE", "FLOAT"), stored.integral)
    cut.meta["column"] = e
    return cut


def _cut(value: exp.Expr, ends: Interval, is_float: bool, whole: bool) -> exp.Expr:
    """Return a value cut to ends, where it is a number; else NULL."""
    low, high = (
        exp.Literal.number(math.ceil(end))
        if whole
        else exp.cast(exp.Literal.number(repr(end)), "DOUBLE")
        for end in (abs(ends[0]), ends[1])
    )
    least = exp.Neg(this=low) if ends[0] < 0 else low
    inner = exp.Greatest(this=exp.paren(value.copy()), expressions=[least])
    there = exp.Not(this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
    finite = exp.Anonymous(this="isfinite", expressions=[value.copy()]) if is_float else there
    cut = exp.Case(ifs=[exp.If(this=finite, true=exp.Least(this=inner, expressions=[high]))])
    cut.meta[WRITTEN] = value
    return cut
