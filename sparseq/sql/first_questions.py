"""Single-row subqueries whose results the outer query compares with its rows: they run first.

    SELECT count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders)

The inner question is answered like any other, with its own noise and charge. Its noised number is
public from then on, and becomes a constant in the outer question.

**Claim.** An analyst could do the same: ask the inner question, read its answer, and write it into
the outer question. These are two steps of Algorithm 2, and the answer to the first selects the
second. Theorem 4.5 of Feldman & Zrnic (2021) covers queries that are selected adaptively (proof
sketch: docs/theorems/individual-filter.md): a person's charge is a function of the person's own
rows and of earlier answers, and each step passes the filter again. No true value passes from one
question to the other. Once the inner question's noise is drawn, its charge is durable before the
outer question reads a row, whatever happens to the outer question (`sparseq.stream.step.Stream`):
the noise is never drawn again because the outer question failed.

The text and the list of private tables decide which subqueries these are. Until their numbers are
released, placeholders replace them, so that every error in the outer question is reported before
anyone is charged. The price of the outer question does not depend on the placeholders, except where
its scale depends on them and `sigma` or `accuracy` sets the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from sparseq.question.catalog import Catalog
from sparseq.question.plan import BoundGaps, FirstAnswer, Query
from sparseq.sql.aggregate_calls import is_aggregate
from sparseq.sql.parse import written
from sparseq.sql.parsed_expressions import conjuncts
from sparseq.sql.released_numbers import Number, limits_from_below, released, standing_in
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

"""Returns a value as a constant; the argument tells whether it is a lower limit of other values."""
SIZES = (1.0, 100.0, 10_000.0, 1e9)
"""Sizes of placeholder numbers; the outer question must be valid with at least one of them."""


class FirstQuestions:
    """Finds the inner questions of one query, and puts numbers in their places.

    Args:
        catalog: The store's catalog.
        numbers: Returns the values of a question's row; called for each question, innermost first.
    """

    def __init__(self, catalog: Catalog, numbers: Callable[[exp.Select], Sequence[Number]]) -> None:
        self._separator, self._numbers = Separator(catalog), numbers
        self._found = False

    def put(self, tree: exp.Select) -> None:
        """Put numbers into a query, in place.

        Raises:
            QueryRefused: The query uses answers in a way that is not supported.
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
        items = items_of(select)
        for item in items:
            self._query(item, known)
        clauses = [select.args.get(k) for k in ("where", "group", "having", "qualify", "order")]
        clauses += [join.args.get("on") for join in select.args.get("joins") or []]
        parts = [*select.expressions, *(clause for clause in clauses if clause is not None)]
        inside = [inner for part in parts for inner in outermost(part)]
        if len(items) < 2 and not inside:  # no number can occur here: skip the lookup
            return
        rows = {i.alias_or_name: self._separator.item(i.copy(), known).rows for i in items}
        about_people = RowKind.PEOPLE in rows.values()
        if about_people:
            for item in items:
                if rows[item.alias_or_name] is RowKind.RELEASED:
                    self._without(select, item, known)
        of_rows = self._row_parts(select, known) if about_people and inside else lambda inner: False
        for inner in inside:
            self._query(inner, known)
            if of_rows(inner):
                self._put_number(inner, known)

    def _row_parts(
        self, select: exp.Select, known: dict[str, KnownRows]
    ) -> Callable[[exp.Select], bool]:
        """Return a predicate: the subquery is evaluated per row, before the noise is added."""
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
            value = number(limits_from_below(holder))
            alias = holder.alias if isinstance(holder, exp.Subquery) else ""
            holder.replace(exp.alias_(value, alias, quoted=True) if alias else value)

    def _without(self, select: exp.Select, item: exp.Expr, known: dict[str, KnownRows]) -> None:
        """Replace the columns of a joined single-row answer by numbers, in place."""
        tree = known[item.name].tree if isinstance(item, exp.Table) else item.this
        joins = select.args.get("joins") or []
        join = next((j for j in joins if j.this is item), joins[0])  # else the next one's
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
            place.replace(numbers[column.name](limits_from_below(place)))

    def _ask(self, inner: exp.Select, known: dict[str, KnownRows]) -> Sequence[Number]:
        question = inner.copy()
        named_for(question, known)
        self._found = True
        return self._numbers(question)


def _names(column: exp.Column, select: exp.Select, alias: str) -> bool:
    """Tell whether a column belongs to this SELECT's item `alias`, not to a nested item."""
    at = column.parent_select
    while at is not None and at is not select:
        if alias in (item.alias_or_name for item in items_of(at)):
            return False
        at = at.parent_select
    return column.table == alias


class Before:
    """The questions that must be asked before one, and their numbers.

    Args:
        lower: Lowers a question's tree.
        first: The answers that are available, for the first of these questions.
        size: The size of the placeholders for the other answers: see `standing_in`.

    Attributes:
        unbounded: The unbounded columns of all these questions.
    """

    def __init__(
        self,
        lower: Callable[[exp.Select], tuple[Query, BoundGaps]],
        first: Sequence[FirstAnswer],
        size: float,
    ) -> None:
        self._lower, self._first, self._size = lower, first, size
        self._trees: list[exp.Select] = []
        self._queries: list[Query] = []
        self.unbounded = BoundGaps()

    @property
    def stand_in(self) -> tuple[Query, ...]:
        """The questions whose numbers are placeholders."""
        return tuple(self._queries[len(self._first) :])

    @property
    def told(self) -> tuple[str, ...]:
        """The answers that the question contains, in words."""
        return tuple(
            f"{one.text} was asked first: {answer.said}; the intervals are of the question with "
            "this noised answer in it"
            for one, answer in zip(self._queries, self._first, strict=False)
        )

    def numbers(self, tree: exp.Select) -> Sequence[Number]:
        """Return the values of the row that answers a question."""
        if tree not in self._trees:
            query, unbounded = self._lower(tree.copy())
            self._trees.append(tree)
            self._queries.append(replace(query, text=written(tree)))
            self.unbounded |= unbounded
        place = self._trees.index(tree)
        if place < len(self._first):
            return released(self._first[place].values)
        return standing_in(self._queries[place], self._size)
