"""Questions of one row inside others, which rows are held against: they are asked first.

    SELECT count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders)

The inner question is answered like any other, with noise and a charge of its own. Its noised number
is public from then on, and stands in the outer question as a constant.

**Claim.** This is what an analyst does who asks the inner question, reads its answer, and writes it
into the outer one: two steps of Algorithm 2, the second chosen by the answer to the first. Theorem
4.5 of Feldman & Zrnic (2021) is about queries that are chosen so (its proof, in short, is in
docs/theorems/individual-filter.md): what a person is charged is a function of the person's own rows
and of earlier answers, and each step asks the filter anew. No true value goes from one question to
the other. An inner question that was drawn is charged, and durable before the outer one looks at a
row, whatever becomes of that (`sparseq.stream.step.Stream`): a number is never drawn again because
of what it leads to.

Which questions these are follows from the text and from which tables are private. Until their
numbers are known, others stand in for them, so that whatever is wrong with the outer question is
told before anybody is charged. What it costs does not depend on them, but where its scale does and
`sigma` or `accuracy` says the noise.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from sparseq.base.defaults import BETA
from sparseq.released.outputs import Measurements
from sparseq.released.render import ERROR_SUFFIX, columns_of, key_columns, render
from sparseq.sql.catalog import Catalog
from sparseq.sql.parse import RELEASED, STANDS_IN, written
from sparseq.sql.parsed_expressions import conjuncts, constant_sql, is_aggregate
from sparseq.sql.plan import ASKED_FIRST, FirstAnswer, Plan, Query
from sparseq.sql.split_question import (
    PLAIN_JOINS,
    KnownRows,
    RowKind,
    Separator,
    has_one_row,
    is_correlated,
    items_of,
    leave_out_unread,
    named_for,
    outermost,
)

Number = Callable[[bool], exp.Expr]
"""A value as a constant, by whether it limits others from below; else it does from above."""
SIZES = (1.0, 100.0, 10_000.0, 1e9)
"""Of numbers that stand in for those that are not known: one of them has to pass."""


# -- the numbers: those that were released, and what stands in for others --------------------------


def released(values: Sequence[Any]) -> list[Number]:
    """Return the values of an answer's row."""
    return [_constant(value, value) for value in values]


def standing_in(query: Query, size: float) -> list[Number]:
    """Return what stands in for the values of the answer to a question, of their types.

    Args:
        query: The question.
        size: Of numbers: those that limit others from below are -size.
    """
    zeros = [np.zeros((query.groups, m.bins)) for m in query.measures]
    keys = key_columns(query.domains)
    nothing = Measurements(zeros, [0.0] * len(zeros), keys, query.groups)
    table = render(Plan(query, (), BETA), nothing)
    found = list[Number]()
    for name in columns_of(table):
        value = next(iter(table[name].to_pylist()), None)
        noised = name + ERROR_SUFFIX in table.column_names
        low, high = (-size, size) if noised else (value, value)
        found.append(_constant(low, high, stands_in=True))
    return found


def _constant(low: Any, high: Any, stands_in: bool = False) -> Number:
    """Return a value as a constant: one that limits others from below, or else."""

    def constant(from_below: bool) -> exp.Expr:
        value = low if from_below else high
        kind = "DOUBLE"
        if isinstance(value, dt.date):
            kind = "TIMESTAMP" if isinstance(value, dt.datetime) else "DATE"
        found = constant_sql(value, kind)
        if isinstance(value, float):
            found.meta[RELEASED] = True
        if stands_in:
            found.meta[STANDS_IN] = True
        return found

    return constant


def _limits_from_below(e: exp.Expr) -> bool:
    """Tell whether an expression limits what it is compared with from below."""
    at, above = e, e.parent
    while above is not None and not isinstance(above, exp.Select):
        right = at is above.args.get("expression")
        if isinstance(above, exp.GT | exp.GTE | exp.LT | exp.LTE):
            return right == isinstance(above, exp.GT | exp.GTE)
        if isinstance(above, exp.Between | exp.Greatest):
            return at is above.args.get("low") or isinstance(above, exp.Greatest)
        if isinstance(above, exp.Least):
            return False
        at, above = above, above.parent
    return False


# -- which questions they are, and where their numbers stand ---------------------------------------


class FirstQuestions:
    """Those of one query; numbers are put in their place.

    Args:
        catalog: Of the store.
        numbers: Gives the values of a question's row; called with each, those inside others first.
    """

    def __init__(self, catalog: Catalog, numbers: Callable[[exp.Select], Sequence[Number]]) -> None:
        self._separator, self._numbers = Separator(catalog), numbers
        self._found = False

    def put(self, tree: exp.Select) -> None:
        """Put numbers into a query, in place.

        Raises:
            QueryRefused: Answers are used otherwise, and not as they can be.
        """
        self._query(tree, {})
        if self._found:
            leave_out_unread(tree)

    def _query(self, node: exp.Expr | None, known: dict[str, KnownRows]) -> None:
        if isinstance(node, exp.Subquery):
            self._query(node.this, known)
        elif isinstance(node, exp.SetOperation):
            self._query(node.this, known)
            self._query(node.expression, known)
        elif isinstance(node, exp.Select):
            self._select(node, known | self._name(node, known))

    def _name(self, node: exp.Select, known: dict[str, KnownRows]) -> dict[str, KnownRows]:
        found: dict[str, KnownRows] = {}
        clause = node.args.get("with_")
        for cte in clause.expressions if clause is not None else []:
            seen = known | found
            self._query(cte.this, seen)
            what = self._separator.query(cte.this.copy(), seen)[1]
            found[cte.alias] = KnownRows(what.rows, what.users, cte.this.copy(), seen)
        return found

    def _select(self, select: exp.Select, known: dict[str, KnownRows]) -> None:
        rows = {}
        for item in items_of(select):
            self._query(item, known)
            rows[item.alias_or_name] = self._separator.item(item.copy(), known).rows
        about_people = RowKind.PEOPLE in rows.values()
        if about_people:
            for item in items_of(select):
                if rows[item.alias_or_name] is RowKind.RELEASED:
                    self._without(select, item, known)
        of_rows = self._row_parts(select, known) if about_people else lambda inner: False
        clauses = [select.args.get(k) for k in ("where", "group", "having", "qualify", "order")]
        clauses += [join.args.get("on") for join in select.args.get("joins") or []]
        for part in [*select.expressions, *(clause for clause in clauses if clause is not None)]:
            for inner in outermost(part):
                self._query(inner, known)
                if of_rows(inner):
                    self._put_number(inner, known)

    def _row_parts(
        self, select: exp.Select, known: dict[str, KnownRows]
    ) -> Callable[[exp.Select], bool]:
        """Return what tells whether a subquery is looked at row by row, not after the noise."""
        what = self._separator.query(select.copy(), known)[1]
        group = select.args.get("group")
        keys = {k.unnest().sql("duckdb") for k in group.expressions} if group is not None else set()
        rows = [select.args.get(k) for k in ("where", "group")]
        rows += [join.args.get("on") for join in select.args.get("joins") or []]

        def of_rows(inner: exp.Select) -> bool:
            at: exp.Expr | None = inner
            while at is not None and at is not select:
                is_key = bool(keys) and at.sql("duckdb") in keys
                if is_aggregate(at) or is_key or any(at is part for part in rows):
                    return True
                at = at.parent
            return what.rows is RowKind.PEOPLE

        return of_rows

    def _put_number(self, inner: exp.Select, known: dict[str, KnownRows]) -> None:
        holder = inner.parent if isinstance(inner.parent, exp.Subquery) else inner
        listed = isinstance(holder.parent, exp.In) and holder.parent.args.get("query") is holder
        around = holder.parent
        if listed or isinstance(around, exp.Exists | exp.Any | exp.All) or is_correlated(inner):
            return
        if len(inner.expressions) != 1 or not has_one_row(inner, known | self._name(inner, known)):
            return
        if self._separator.query(inner.copy(), known)[1].rows is RowKind.RELEASED:
            (number,) = self._ask(inner, known)
            value = number(_limits_from_below(holder))
            alias = holder.alias if isinstance(holder, exp.Subquery) else ""
            holder.replace(exp.alias_(value, alias, quoted=True) if alias else value)

    def _without(self, select: exp.Select, item: exp.Expr, known: dict[str, KnownRows]) -> None:
        """Put numbers for the columns of an answer of one row that a SELECT joins, in place."""
        tree = known[item.name].tree if isinstance(item, exp.Table) else item.this
        joins = select.args.get("joins") or []
        join = next((j for j in joins if j.this is item), joins[0])  # of the first item: the next's
        if join.side or (join.kind or "") not in PLAIN_JOINS:
            return
        if not isinstance(tree, exp.Select) or not has_one_row(tree, known):
            return
        sees = known[item.name].sees if isinstance(item, exp.Table) else known
        alias, names = item.alias_or_name, [e.alias_or_name for e in tree.expressions]
        numbers = dict(zip(names, self._ask(tree, dict(sees)), strict=True))
        joins.remove(join)
        if join.this is not item:
            select.set("from_", exp.From(this=join.this))
        for condition in conjuncts(join.args.get("on")):
            select.where(condition, copy=False)
        columns = [c for c in select.find_all(exp.Column) if _names(c, select, alias)]
        group = select.args.get("group")
        if group is not None:
            kept = [k for k in group.expressions if not any(k.unnest() is c for c in columns)]
            select.set("group", exp.Group(expressions=kept) if kept else None)
        for column in columns:
            same = isinstance(column.parent, exp.AnyValue | exp.Min | exp.Max)  # as for all rows
            place = column.parent if same and column.parent is not None else column
            place.replace(numbers[column.name](_limits_from_below(place)))

    def _ask(self, inner: exp.Select, known: dict[str, KnownRows]) -> Sequence[Number]:
        question = inner.copy()
        named_for(question, known)
        self._found = True
        return self._numbers(question)


def _names(column: exp.Column, select: exp.Select, alias: str) -> bool:
    """Tell whether a column is of an item of a SELECT's FROM, and not of one inside that has its
    name."""
    at = column.parent_select
    while at is not None and at is not select:
        if alias in (item.alias_or_name for item in items_of(at)):
            return False
        at = at.parent_select
    return column.table == alias


# -- what is known of them -------------------------------------------------------------------------

Unbounded = tuple[tuple[str, str], ...]
"""Columns of sums whose bounds nobody knows, each with its table."""


class Before:
    """The questions that are asked before one, and their numbers.

    Args:
        lower: Lowers a question's tree.
        first: The answers to the first of them.
        size: Of numbers that stand in for those of the others: see `standing_in`.

    Attributes:
        unbounded: Of all of them.
    """

    def __init__(
        self,
        lower: Callable[[exp.Select], tuple[Query, Unbounded]],
        first: Sequence[FirstAnswer],
        size: float,
    ) -> None:
        self._lower, self._first, self._size = lower, first, size
        self._trees: list[exp.Select] = []
        self._queries: list[Query] = []
        self.unbounded: dict[tuple[str, str], None] = {}

    @property
    def stand_in(self) -> tuple[Query, ...]:
        """Those whose numbers are not known."""
        return tuple(self._queries[len(self._first) :])

    @property
    def told(self) -> tuple[str, ...]:
        """The answers that stand in the question, in words."""
        return tuple(
            f"{one.text}{ASKED_FIRST}{answer.said}; the intervals are of the question with this "
            "noised answer in it"
            for one, answer in zip(self._queries, self._first, strict=False)
        )

    def numbers(self, tree: exp.Select) -> Sequence[Number]:
        """Return the values of the row that answers a question."""
        if tree not in self._trees:
            query, unbounded = self._lower(tree.copy())
            self._trees.append(tree)
            self._queries.append(replace(query, text=written(tree)))
            self.unbounded |= dict.fromkeys(unbounded)
        place = self._trees.index(tree)
        if place < len(self._first):
            return released(self._first[place].values)
        return standing_in(self._queries[place], self._size)
