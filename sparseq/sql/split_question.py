"""Split of a query into a private part and a part after the noise.

A SELECT over private rows that aggregates, and does not group by user, is a question: its answer
gets noise. Everything computed from the answer (HAVING, windows over the answer, joined subqueries,
an outer SELECT) uses released values only: it is free, and runs in a database without private data
(`sparseq.released.sql_over_noise`). The text and the list of private tables determine the split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language.interval_rules import rule_of
from sparseq.question.catalog import Catalog
from sparseq.sql.aggregate_calls import aggregates_in, check_distinct_order, is_aggregate
from sparseq.sql.constants import is_constant
from sparseq.sql.dialect import DUCKDB, sql_of
from sparseq.sql.layers import map_parts, split_groups
from sparseq.sql.parse import said
from sparseq.sql.parsed_expressions import conjuncts
from sparseq.sql.spellings import call_of

_FIRST = "ask the inner question first, and write its answer into this one as a number or a list"
_SHOWN = (
    exp.Paren,
    exp.Alias,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Between,
    exp.In,
    exp.Null,
    exp.Ordered,
    exp.Column,
)
"""Nodes that `sparseq.released.outputs` computes, besides functions with an interval rule."""


class RowKind(Enum):
    """The kinds of rows that a query can have."""

    PEOPLE = "rows about people"
    RELEASED = "made of released answers"
    PUBLIC = "rows of public tables"


@dataclass(frozen=True)
class KnownRows:
    """A subquery: its kind of rows, its user columns, its tree, and the subqueries in scope."""

    rows: RowKind
    users: frozenset[str] = frozenset()
    tree: exp.Expr | None = None
    sees: Mapping[str, KnownRows] = field(default_factory=dict)


@dataclass
class QueryParts:
    """A query split into its parts.

    Attributes:
        after: The SELECT over the answers, which are its tables #q0, #q1 …
        questions: The private SELECTs, with columns k0, k1 … (keys) and a0, a1 … (aggregates).
    """

    after: exp.Select
    questions: list[exp.Select] = field(default_factory=list)


def split(tree: exp.Select, catalog: Catalog) -> QueryParts | None:
    """Return a split query; None if all of it is one question, or it uses no answer.

    Raises:
        QueryRefused: It combines private rows with answers.
    """
    if len(list(tree.find_all(exp.Select))) == 1 and not _needs_more(tree):
        return None  # the usual case
    separator = Separator(catalog)
    after, known = separator.query(tree.copy(), {})
    if known.rows is not RowKind.RELEASED:
        return None
    if separator.asked == 1 and separator.last is after and not _needs_more(tree):
        return None
    assert isinstance(after, exp.Select)
    return _prune(after, separator.questions)


def _prune(after: exp.Select, questions: list[exp.Select]) -> QueryParts:
    """Remove unused named subqueries, and the questions in them."""
    leave_out_unread(after)
    names = {t.name for t in after.find_all(exp.Table) if t.name.startswith("#q")}
    kept = [i for i in range(len(questions)) if f"#q{i}" in names]
    places = {f"#q{i}": f"#q{n}" for n, i in enumerate(kept)}
    for name in after.find_all(exp.Identifier):
        name.set("this", places.get(name.this, name.this))
    return QueryParts(after, [questions[i] for i in kept])


def leave_out_unread(tree: exp.Select) -> None:
    """Remove unused named subqueries, in place."""
    while unread := [cte for cte in tree.find_all(exp.CTE) if not _is_read(tree, cte)]:
        for cte in unread:
            clause = cte.parent
            cte.pop()
            if clause is not None and not clause.expressions:
                clause.pop()


def _is_read(tree: exp.Select, cte: exp.CTE) -> bool:
    inside = set(map(id, cte.find_all(exp.Table)))
    return any(t.name == cte.alias and id(t) not in inside for t in tree.find_all(exp.Table))


def _needs_more(select: exp.Select) -> bool:
    """Tell whether a question selects an item that its outputs cannot compute."""
    if select.args.get("distinct") or select.args.get("qualify") or select.find(exp.Mode):
        return True
    order, having = select.args.get("order"), select.args.get("having")
    ordered = order is not None and having is None and aggregates_in(order)
    if ordered and not any(map(aggregates_in, select.expressions)):
        return True  # the largest groups, without their sizes
    keys = _keys(select)
    kinds = {type(key) for key in keys.values()}

    def computed(e: exp.Expr) -> bool:
        if is_aggregate(e) or is_constant(e) or (type(e) in kinds and sql_of(e) in keys):
            return True
        if isinstance(e, exp.Cast | exp.TryCast):
            return e.to.is_type(*exp.DataType.NUMERIC_TYPES) and computed(e.this)
        if isinstance(e, exp.Subquery | exp.Select):
            return True  # a public subquery, or joined by `subquery_expressions`
        called = None if isinstance(e, exp.IntDiv) else call_of(e)
        ruled = called is not None and rule_of(called[0], len(called[1])) is not None
        return (ruled or isinstance(e, _SHOWN)) and all(map(computed, _operands(e)))

    return not all(computed(part) for part in _shown_parts(select))


def _modes(select: exp.Select) -> list[exp.Mode]:
    """Return the mode(x) calls of a SELECT without group keys."""
    parts = (
        e for part in _shown_parts(select) if aggregates_in(part) for e in part.find_all(exp.Mode)
    )
    return [e for e in parts if isinstance(e, exp.Mode) and not isinstance(e.parent, exp.Window)]


def _with_counts(select: exp.Select) -> exp.Select:
    """Return a SELECT of mode(x) as a SELECT over the row count of each x."""
    modes, keys = _modes(select), _keys(select)
    (value, *others) = {sql_of(e.this): e.this for e in modes}.values()
    aggregates = [a for part in _shown_parts(select) for a in part.find_all(exp.AggFunc)]
    if others or any(not isinstance(a, exp.Mode) for a in aggregates):
        _refuse(
            f"{said(modes[0])} goes with group keys only, and without FILTER",
            "count each value: SELECT x, count(*) … GROUP BY x ORDER BY count(*) DESC LIMIT 1",
        )
    names = {text: f"k{i}" for i, text in enumerate(keys)}
    inner = exp.Select(
        expressions=[
            *(exp.alias_(k.copy(), names[text], quoted=True) for text, k in keys.items()),
            exp.alias_(value.copy(), "x", quoted=True),
            exp.alias_(exp.Count(this=exp.Star()), "n", quoted=True),
        ],
        **{k: select.args.get(k) for k in ("from_", "joins", "where", "with_")},
    )
    by = [*keys.values(), *([value] if sql_of(value) not in keys else [])]
    inner.set("group", exp.Group(expressions=[k.copy() for k in by]))

    def lifted(e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.Mode):
            return exp.ArgMax(this=_of("x"), expression=_of("n"))
        text = sql_of(e) if names else ""
        return _of(names[text]) if text in names else map_parts(e, lifted)

    return _over_counts(select, inner, names, lifted)


def _sum_by_list(select: exp.Select, listed: exp.In) -> exp.Select:
    """Return a SELECT over rows with x IN (an answer) as sums over groups by x.

    Raises:
        QueryRefused: It has aggregates other than counts of rows, sums and averages.
    """
    select = select.copy()
    for average in [a for p in _shown_parts(select) for a in aggregates_in(p)]:
        _as_quotient(average)
    keys, x = _keys(select), listed.this
    found = {sql_of(a): a for p in _shown_parts(select) for a in aggregates_in(p)}
    kinds = {type(a.this if isinstance(a, exp.Filter) else a) for a in found.values()}
    distinct = any(a.find(exp.Distinct) for a in found.values())
    if not kinds <= {exp.Count, exp.CountIf, exp.Sum} or distinct:
        _refuse(
            f"{said(listed)[:60]} holds rows against an answer, and {said(x)} is in no group",
            f"GROUP BY {said(x)} too; counts of rows, sums and averages are answered without",
        )
    names = {text: f"k{i}" for i, text in enumerate(keys)}
    parts = {text: f"a{i}" for i, text in enumerate(found)}
    shown = [*((k, names[text]) for text, k in keys.items()), (x, "x")]
    shown += [(a, parts[text]) for text, a in found.items()]
    inner = exp.Select(
        expressions=[exp.alias_(e.copy(), name, quoted=True) for e, name in shown],
        group=exp.Group(expressions=[k.copy() for k in [*keys.values(), x]]),
        **{k: select.args.get(k) for k in ("from_", "joins", "with_")},
    )
    rest = [c.copy() for c in _conjuncts(select.args["where"].this) if c != listed]
    if rest:
        inner.set("where", exp.Where(this=exp.and_(*rest)))
    _having(inner, listed.copy())

    def lifted(e: exp.Expr) -> exp.Expr:
        text = sql_of(e)
        if text in parts:
            total: exp.Expr = exp.Sum(this=_of(parts[text]))
            counts = not isinstance(e.this if isinstance(e, exp.Filter) else e, exp.Sum)
            return exp.func("coalesce", total, exp.Literal.number(0)) if counts else total
        return _of(names[text]) if text in names else map_parts(e, lifted)

    return _over_counts(select, inner, names, lifted)


def _as_quotient(e: exp.Expr) -> None:
    """Replace avg(x) by a sum divided by a count of rows, in place."""
    average = e.this if isinstance(e, exp.Filter) else e
    if not isinstance(average, exp.Avg) or isinstance(average.this, exp.Distinct):
        return
    parts: list[exp.Expr] = [exp.Sum(this=average.this.copy()), exp.Count(this=average.this.copy())]
    if isinstance(e, exp.Filter):
        parts = [exp.Filter(this=p, expression=e.expression.copy()) for p in parts]
    number = exp.Nullif(this=parts[1], expression=exp.Literal.number(0))
    e.replace(exp.paren(exp.Div(this=parts[0], expression=number)))


def _over_counts(
    select: exp.Select,
    inner: exp.Select,
    names: Mapping[str, str],
    lifted: Callable[[exp.Expr], exp.Expr],
) -> exp.Select:
    """Return a SELECT over another one, with `lifted` parts and the same group keys."""
    shown = [
        exp.alias_(lifted(e.unalias()), e.alias_or_name, quoted=True) for e in select.expressions
    ]
    outer = exp.Select(expressions=shown)
    for clause in ("having", "order", "limit", "offset"):
        if (found := select.args.get(clause)) is not None:
            outer.set(clause, lifted(found))
    if names:
        outer.set("group", exp.Group(expressions=[_of(name) for name in names.values()]))
    alias = exp.TableAlias(this=exp.to_identifier("#counts", quoted=True))
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    return outer


def _of(name: str) -> exp.Column:
    return exp.column(name, "#counts", quoted=True)


PLAIN_JOINS = ("", "INNER", "CROSS")
"""Joins, without a side, that keep only matched rows of both tables."""


def _conjuncts(e: exp.Expr | None) -> list[exp.Expr]:
    return [] if e is None else conjuncts(e)


def _reads(e: exp.Expr, alias: str, but: type | None = None) -> bool:
    """Tell whether an expression names a column of a table, except inside nodes of type `but`."""
    columns = (c for c in e.find_all(exp.Column) if c.table == alias)
    return any(but is None or c.find_ancestor(but) is None for c in columns)


def _key_and_column(
    condition: exp.Expr, select: exp.Select, alias: str
) -> tuple[exp.Expr, exp.Column] | None:
    """Return a group key and the answer's column that it must equal; None for other conditions."""
    condition, keys = _bare(condition), _keys(select)
    sides = [condition.this, condition.expression] if isinstance(condition, exp.EQ) else []
    for key, column in (sides, sides[::-1]) if sides else []:
        named = isinstance(column, exp.Column) and column.table == alias
        if named and sql_of(_bare(key)) in keys:
            return key, column
    return None


def _has_keys(item: exp.Expr, names: Sequence[str], known: Mapping[str, KnownRows]) -> bool:
    """Tell whether an answer is grouped by exactly these columns."""
    tree = known[item.name].tree if isinstance(item, exp.Table) else item
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if not isinstance(tree, exp.Select) or not names:
        return False
    shown = {e.alias_or_name: _bare(e.unalias()).sql(DUCKDB) for e in tree.expressions}
    return _keys(tree).keys() == {shown.get(name) for name in names}


def _having(select: exp.Select, condition: exp.Expr) -> None:
    having = select.args.get("having")
    both = exp.and_(having.this, condition) if having is not None else condition
    select.set("having", exp.Having(this=both))


def _operands(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the operands of an expression, including the conditions of CASE."""
    for child in e.iter_expressions():
        if isinstance(child, exp.If) and isinstance(e, exp.Case):
            yield from child.iter_expressions()
        elif not isinstance(child, exp.Identifier):
            yield child


def _shown_parts(select: exp.Select) -> list[exp.Expr]:
    having, order = select.args.get("having"), select.args.get("order")
    parts = [e.unalias() for e in select.expressions]
    parts += [having.this] if having is not None else []
    return parts + ([o.this for o in order.expressions] if order is not None else [])


def _bare(e: exp.Expr) -> exp.Expr:
    return _bare(e.this) if isinstance(e, exp.Paren) else e


def _keys(select: exp.Select) -> dict[str, exp.Expr]:
    group = select.args.get("group")
    return {sql_of(_bare(k)): _bare(k) for k in group.expressions} if group else {}


def items_of(select: exp.Select) -> list[exp.Expr]:
    """Return the items of FROM."""
    origin = select.args.get("from_")
    return [
        *([origin.this] if origin is not None else []),
        *(j.this for j in select.args.get("joins") or []),
    ]


class Separator:
    """Splits one query.

    Attributes:
        questions: The questions found so far, without duplicates.
        asked: The number of uses of each question.
        last: The SELECT over the answer of the question found last.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.questions: list[exp.Select] = []
        self.asked = 0
        self.last: exp.Select | None = None

    def query(self, node: exp.Expr, known: dict[str, KnownRows]) -> tuple[exp.Expr, KnownRows]:
        """Return a query whose questions are replaced by answers, and the kind of its rows.

        Args:
            node: A SELECT, set operation or subquery; it is changed in place.
            known: The named subqueries.
        """
        if isinstance(node, exp.Subquery):
            inner, found = self.query(node.this, known)
            node.set("this", inner)
            return node, found
        if isinstance(node, exp.SetOperation):
            return self._both(node, known)
        if not isinstance(node, exp.Select):
            return node, KnownRows(RowKind.PUBLIC)
        return self._select(node, dict(known))

    def _both(
        self, node: exp.SetOperation, known: dict[str, KnownRows]
    ) -> tuple[exp.Expr, KnownRows]:
        (left, a), (right, b) = (self.query(side, known) for side in (node.this, node.expression))
        kinds = {a.rows, b.rows}
        if kinds == {RowKind.RELEASED, RowKind.PEOPLE}:
            _refuse("one side is an answer, the other one has rows about people", _FIRST)
        node.set("this", left)
        node.set("expression", right)
        return node, KnownRows(next(k for k in RowKind if k in kinds), a.users)

    def _name(self, node: exp.Expr, known: dict[str, KnownRows]) -> dict[str, KnownRows]:
        """Return the CTEs of a query; the private ones are removed from it."""
        clause = node.args.get("with_")
        if clause is None:
            return {}
        found: dict[str, KnownRows] = {}
        for cte in clause.expressions:
            original = cte.this.copy()
            tree, what = self.query(cte.this, known | found)
            cte.set("this", tree)
            found[cte.alias] = KnownRows(what.rows, what.users, original, known | found)
        return found

    def _select(
        self, select: exp.Select, known: dict[str, KnownRows]
    ) -> tuple[exp.Expr, KnownRows]:
        original = select.copy()
        known |= self._name(select, known)
        users: dict[str, frozenset[str]] = {}
        kinds = set()
        for item in items_of(select):
            what = self.item(item, known)
            kinds.add(what.rows)
            users[item.alias_or_name] = what.users
        if {RowKind.PEOPLE, RowKind.RELEASED} <= kinds:
            return self._select(self._without_answers(original, known), known)
        if RowKind.PEOPLE in kinds:
            grouped = select.args.get("group") is not None or any(
                aggregates_in(e.unalias()) for e in select.expressions
            )
            if grouped and not any(_is_user(k, users) for k in _keys(select).values()):
                check_distinct_order(select)
                self._move_lists(original, known)
                if (listed := self._list_of_another(original, known)) is not None:
                    return self._select(_sum_by_list(original, listed), known)
                if select.find(exp.Mode) and _modes(select):
                    return self._select(_with_counts(original), known)
                return self._question(original, known), KnownRows(RowKind.RELEASED)
            mine = {e.alias_or_name for e in select.expressions if _is_user(e.unalias(), users)}
            return original, KnownRows(RowKind.PEOPLE, frozenset(mine))
        joined = kinds == {RowKind.PUBLIC} and self._join_by_row(select, known)
        if self._subqueries(select, known) or joined or RowKind.RELEASED in kinds:
            _keep_named(select, known)
            return _with_scalars(select), KnownRows(RowKind.RELEASED)
        return original, KnownRows(RowKind.PUBLIC)

    def _join_by_row(self, select: exp.Select, known: dict[str, KnownRows]) -> bool:
        """Join the private numbers that a SELECT computes for each of its public rows, in place.

        An example is the number of people in the week before each day: it becomes one question,
        grouped by the values that it uses of the public row. Return whether there is such a number.
        """
        outer = {item.alias_or_name for item in items_of(select)}
        found = [
            inner
            for e in select.expressions
            for inner in outermost(e)
            if is_correlated(inner) and _is_number(inner, select)
        ]
        for i, inner in enumerate(found):
            columns = {sql_of(c): c for c in inner.find_all(exp.Column) if c.table in outer}
            names = {text: f"k{i}" for i, text in enumerate(columns)}
            question = inner.transform(
                lambda c, names=names: (
                    exp.column(names[sql_of(c)], "#rows", quoted=True)
                    if isinstance(c, exp.Column) and sql_of(c) in names
                    else c
                )
            )
            keys = [exp.column(name, "#rows", quoted=True) for name in names.values()]
            question.append("joins", exp.Join(this=_rows_of(select, columns, names)))
            counts = isinstance(question.expressions[0].unalias(), exp.Count | exp.CountIf)
            value = exp.alias_(question.expressions[0].unalias(), "v", quoted=True)
            named = [exp.alias_(key.copy(), key.name, quoted=True) for key in keys]
            question.set("expressions", [*named, value])
            question.set("group", exp.Group(expressions=[key.copy() for key in keys]))
            alias = f"#by{i}"
            on = exp.and_(
                *(
                    exp.EQ(this=c.copy(), expression=exp.column(names[text], alias, quoted=True))
                    for text, c in columns.items()
                )
            )
            tree, what = self.query(question, known)
            if what.rows is not RowKind.RELEASED:
                return False
            source = exp.Subquery(
                this=tree, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
            )
            select.append("joins", exp.Join(this=source, side="LEFT", on=on))
            holder = inner.parent if isinstance(inner.parent, exp.Subquery) else inner
            column: exp.Expr = exp.column("v", alias, quoted=True)
            if counts:  # there is no row of a key that has no group
                column = exp.Coalesce(this=column, expressions=[exp.Literal.number(0)])
            named_as = holder.alias if isinstance(holder, exp.Subquery) else ""
            holder.replace(exp.alias_(column, named_as, quoted=True) if named_as else column)
        return bool(found)

    def _without_answers(self, select: exp.Select, known: dict[str, KnownRows]) -> exp.Select:
        """Return a SELECT with HAVING key IN (…) for each answer that is joined by its keys.

        The rows are the same: the answer has one row for each value of these keys.
        """
        found = [j for j in select.args.get("joins") or [] if self._is_released(j.this, known)]
        where = select.args.get("where")
        filters = _conjuncts(where.this) if where is not None else []
        for join in found:
            alias, plain = join.alias_or_name, not join.side and (join.kind or "") in PLAIN_JOINS
            parts = [*_conjuncts(join.args.get("on")), *filters]
            pairs = [_key_and_column(c, select, alias) for c in parts if _reads(c, alias)]
            held = [pair for pair in pairs if pair is not None]
            names = [column.name for _, column in held]
            if not plain or len(held) < len(pairs) or not _has_keys(join.this, names, known):
                _refuse("this query joins people's rows with an answer", _FIRST)
            filters = [c.copy() for c in parts if not _reads(c, alias)]
            select.args["joins"].remove(join)
            shown = [exp.alias_(column.copy(), column.name, quoted=True) for _, column in held]
            listed = exp.Select(expressions=shown, from_=exp.From(this=join.this.copy()))
            keys = [key.copy() for key, _ in held]
            of = keys[0] if len(keys) == 1 else exp.Tuple(expressions=keys)
            _having(select, exp.In(this=of, query=exp.Subquery(this=listed)))
        select.set("where", exp.Where(this=exp.and_(*filters)) if filters else None)
        if any(_reads(select, join.alias_or_name, but=exp.In) for join in found) or not found:
            _refuse("this query joins people's rows with an answer", _FIRST)
        return select

    def _move_lists(self, select: exp.Select, known: dict[str, KnownRows]) -> None:
        """Move WHERE key IN (an answer) to HAVING, in place: the rows of a group share one key."""
        where, keys = select.args.get("where"), _keys(select)
        parts = _conjuncts(where.this) if where is not None else []
        moved = []
        for part in parts:
            inner = part.args.get("query") if isinstance(part, exp.In) else None
            held = part.this.expressions if isinstance(part.this, exp.Tuple) else [part.this]
            if inner is None or not {sql_of(_bare(e)) for e in held} <= keys.keys():
                continue
            if not is_correlated(inner.find(exp.Select)) and self._is_released(inner, known):
                moved.append(part)
        if moved:
            kept = [p.copy() for p in parts if not any(p is m for m in moved)]
            select.set("where", exp.Where(this=exp.and_(*kept)) if kept else None)
            for part in moved:
                _having(select, part)

    def _list_of_another(self, select: exp.Select, known: dict[str, KnownRows]) -> exp.In | None:
        """Return a condition x IN (an answer) whose x is no group key."""
        where = select.args.get("where")
        for part in _conjuncts(where.this) if where is not None else []:
            inner = part.args.get("query") if isinstance(part, exp.In) else None
            if isinstance(part, exp.In) and inner is not None:
                correlated = is_correlated(inner.find(exp.Select))
                if not correlated and self._is_released(inner, known):
                    return part
        return None

    def _is_released(self, item: exp.Expr, known: dict[str, KnownRows]) -> bool:
        if isinstance(item, exp.Table):
            return item.name in known and known[item.name].rows is RowKind.RELEASED
        return self.query(item.copy(), known)[1].rows is RowKind.RELEASED

    def item(self, item: exp.Expr, known: dict[str, KnownRows]) -> KnownRows:
        """Return the kind of rows of an item of FROM; a subquery is changed in place."""
        if isinstance(item, exp.Table):
            if item.name in known:
                return known[item.name]
            table = self._catalog.table(item.name)
            if not table.private:
                return KnownRows(RowKind.PUBLIC)
            return KnownRows(RowKind.PEOPLE, frozenset([table.user.lower()]))
        return self.query(item, known)[1]

    def _subqueries(self, select: exp.Select, known: dict[str, KnownRows]) -> bool:
        """Replace the questions in a SELECT's expressions by answers; return whether it has any."""
        found = False
        parts = [select.args.get(k) for k in ("where", "having", "qualify", "order")]
        for part in [*select.expressions, *(p for p in parts if p is not None)]:
            for inner in outermost(part):
                if is_correlated(inner):
                    continue
                tree, what = self.query(inner, known)
                if what.rows is RowKind.PEOPLE:
                    _refuse(f"{said(inner)[:60]} has rows about people", "aggregate them")
                if what.rows is RowKind.RELEASED:
                    inner.replace(tree)
                    tree.set("answered", True)
                    found = True
        return found

    def _question(self, select: exp.Select, known: dict[str, KnownRows]) -> exp.Select:
        """Return the SELECT over a question's answer; the question has its keys and aggregates."""
        keys = _keys(select)
        names = {text: f"k{i}" for i, text in enumerate(keys)}
        asked = [exp.alias_(k.copy(), names[text], quoted=True) for text, k in keys.items()]
        kinds, place = {type(key) for key in keys.values()}, "#q"
        own = {item.alias_or_name for item in items_of(select)}  # not an outer row's

        def lifted(e: exp.Expr) -> exp.Expr:
            text = sql_of(e) if type(e) in kinds or is_aggregate(e) else None
            if text is not None and (text in keys or is_aggregate(e)):
                if text not in names:
                    names[text] = f"a{len(names) - len(keys)}"
                    asked.append(exp.alias_(e.copy(), names[text], quoted=True))
                return exp.column(names[text], place, quoted=True)
            if isinstance(e, exp.Select | exp.Subquery):
                return e.copy()
            if isinstance(e, exp.Column) and e.table in own:
                _refuse(f"{said(e)} is neither in GROUP BY nor aggregated", "add it to GROUP BY")
            return map_parts(e, lifted)

        after = exp.Select(
            expressions=[
                exp.alias_(lifted(e.unalias()), e.alias_or_name, quoted=True)
                for e in select.expressions
            ]
        )
        having = select.args.get("having")
        if having is not None:
            after.set("where", exp.Where(this=lifted(having.this)))
        for clause in ("qualify", "order", "limit", "offset", "distinct"):
            found = select.args.get(clause)
            if found is not None:
                after.set(clause, lifted(found))
        clauses = ("from_", "joins", "where", "group")
        whole = select.copy()
        question = exp.Select(expressions=asked, **{k: whole.args.get(k) for k in clauses})
        named_for(question, known)
        number = self._ask(question)
        for column in after.find_all(exp.Column):
            if column.table == place:
                column.set("table", exp.to_identifier(f"#q{number}", quoted=True))
        table = exp.Table(this=exp.to_identifier(f"#q{number}", quoted=True))
        table.set("single", not keys)
        after.set("from_", exp.From(this=table))
        _write_out(after, known)
        self._subqueries(after, known)
        self.last = _with_scalars(after)
        return self.last

    def _ask(self, question: exp.Select) -> int:
        self.asked += 1
        if question not in self.questions:
            self.questions.append(question)
        return self.questions.index(question)


def named_for(question: exp.Select, known: Mapping[str, KnownRows]) -> None:
    """Give a question the named subqueries that it uses, in place."""
    needed: dict[str, exp.Expr] = {}

    def need(tree: exp.Expr, seen: Mapping[str, KnownRows]) -> None:
        own = {cte.alias for cte in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            what = seen.get(table.name)
            if what is None or what.tree is None or table.name in own:
                continue
            if needed.get(table.name, what.tree) is not what.tree:
                _refuse(f"two subqueries are called {table.name}", "give each a name of its own")
            if table.name not in needed:
                need(what.tree, what.sees)
                needed[table.name] = what.tree

    need(question, known)
    if needed:
        ctes = [
            exp.CTE(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier(n, quoted=True)))
            for n, tree in needed.items()
        ]
        own = question.args.get("with_")
        ctes += own.expressions if own is not None else []
        question.set("with_", exp.With(expressions=ctes))


def _write_out(after: exp.Select, known: Mapping[str, KnownRows]) -> None:
    """Replace references to named subqueries over answers by the subqueries, in place."""
    for table in list(after.find_all(exp.Table)):
        what = known.get(table.name)
        if what is not None and what.tree is not None and what.rows is RowKind.RELEASED:
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
            table.replace(exp.Subquery(this=what.tree.copy(), alias=alias))


def _keep_named(select: exp.Select, known: dict[str, KnownRows]) -> None:
    """Remove the named subqueries that are private."""
    clause = select.args.get("with_")
    if clause is not None:
        kept = [c for c in clause.expressions if known[c.alias].rows is not RowKind.PEOPLE]
        clause.set("expressions", kept)
        if not kept:
            select.set("with_", None)


def _is_user(e: exp.Expr, users: dict[str, frozenset[str]]) -> bool:
    e = _bare(e)
    if isinstance(e, exp.Coalesce):
        return all(_is_user(p, users) for p in [e.this, *e.expressions])
    return isinstance(e, exp.Column) and e.name in users.get(e.table, ())


def is_correlated(select: exp.Select) -> bool:
    """Tell whether a subquery refers to an outer row."""
    own = {i.alias_or_name for s in select.find_all(exp.Select) for i in items_of(s)}
    return any(c.table and c.table not in own for c in select.find_all(exp.Column))


def _is_number(inner: exp.Select, around: exp.Select) -> bool:
    """Tell whether a subquery is one aggregate, in a SELECT that does not aggregate itself."""
    more = any(inner.args.get(k) for k in ("group", "having", "limit", "qualify", "distinct"))
    grouped = around.args.get("group") or any(aggregates_in(e) for e in around.expressions)
    one = len(inner.expressions) == 1 and len(aggregates_in(inner.expressions[0])) > 0
    listed = inner.find_ancestor(exp.In, exp.Exists, exp.Select)
    return one and not more and not grouped and listed is around


def _rows_of(
    select: exp.Select, columns: Mapping[str, exp.Column], names: Mapping[str, str]
) -> exp.Subquery:
    """Return the distinct values of some columns in a SELECT's rows."""
    rows = exp.Select(
        expressions=[exp.alias_(c.copy(), names[text], quoted=True) for text, c in columns.items()],
        distinct=exp.Distinct(),
    )
    for clause in ("from_", "joins", "where"):
        if (found := select.args.get(clause)) is not None:
            rows.set(clause, [f.copy() for f in found] if isinstance(found, list) else found.copy())
    if rows.args.get("joins"):
        rows.set("joins", [j for j in rows.args["joins"] if not j.alias_or_name.startswith("#by")])
    alias = exp.TableAlias(this=exp.to_identifier("#rows", quoted=True))
    return exp.Subquery(this=rows, alias=alias)


def outermost(e: exp.Expr) -> list[exp.Select]:
    """Return the subqueries in an expression, except nested ones."""
    if isinstance(e, exp.Select):
        return [e]
    return [found for child in e.iter_expressions() for found in outermost(child)]


def _with_scalars(select: exp.Select) -> exp.Select:
    """Join the answers in expressions: single rows, and lists for IN."""
    order = select.args.get("order")
    parts = [select.args.get(k) for k in ("where", "qualify")]
    found = [
        s
        for p in [*select.expressions, *(p for p in parts if p is not None)]
        for s in outermost(p)
        if s.args.get("answered")
    ]
    if order is not None and any(s.args.get("answered") for s in outermost(order)):
        _refuse("ORDER BY holds a subquery", "select it, and order by its name")
    if not found:
        return select
    if select.args.get("group") or any(aggregates_in(e) for e in select.expressions):
        return _with_scalars(split_groups(select))
    for i, inner in enumerate(found):
        _join(select, inner, f"#s{i}")
    return select


def _join(select: exp.Select, inner: exp.Select, alias: str) -> None:
    holder = inner.parent if isinstance(inner.parent, exp.Subquery) else inner
    around = holder.parent
    inner.set("answered", None)
    listed = isinstance(around, exp.In) and around.args.get("query") is holder
    held = around.this if listed and around is not None else None
    tied = held.expressions if isinstance(held, exp.Tuple) else [held]
    if len(inner.expressions) != len(tied):
        several = f"{len(inner.expressions)} columns" if len(tied) > 1 else "several columns"
        _refuse(f"the subquery {said(inner)[:60]} has {several}", f"select {len(tied)}")
    columns = [exp.column(e.alias_or_name, alias, quoted=True) for e in inner.expressions]
    join = exp.Join(
        this=exp.Subquery(
            this=inner.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        )
    )
    if listed and around is not None:
        if not isinstance(around.parent, exp.Where | exp.And):
            _refuse(f"{said(around)[:60]} is not answered here", "join the subquery")
        rows = join.this
        if inner.args.get("order") or inner.args.get("limit"):  # these choose rows before DISTINCT
            rows.set("alias", exp.TableAlias(this=exp.to_identifier("#listed", quoted=True)))
            shown = [exp.column(c.name, "#listed", quoted=True) for c in columns]
            rows.set("this", exp.Select(expressions=shown, from_=exp.From(this=rows.copy())))
            rows.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        rows.this.set("distinct", exp.Distinct())
        same = zip(tied, columns, strict=True)
        join.set("on", exp.and_(*(exp.EQ(this=e.copy(), expression=c) for e, c in same)))
        around.replace(exp.true())
    elif isinstance(around, exp.Exists) or not has_one_row(inner):
        _refuse(f"the subquery {said(inner)[:60]} may have several rows", "join it in FROM")
    else:
        join.set("side", "LEFT")
        alias_of = holder.alias if isinstance(holder, exp.Subquery) else ""
        holder.replace(exp.alias_(columns[0], alias_of, quoted=True) if alias_of else columns[0])
    if select.args.get("from_") is None:
        select.set("from_", exp.From(this=join.this))
    else:
        select.append("joins", join)


def has_one_row(select: exp.Select, named: Mapping[str, KnownRows] | None = None) -> bool:
    """Tell whether a SELECT has at most one row, judging by its text.

    Args:
        select: A SELECT over answers, or with aggregates.
        named: The named subqueries.
    """
    limit = select.args.get("limit")
    if limit is not None and limit.expression.name == "1":
        return True
    if select.args.get("group"):
        return False
    if any(aggregates_in(e) for e in select.expressions):
        return True
    item = next(iter(items_of(select)), None)
    if any(select.args.get(c) for c in ("joins", "where", "qualify", "limit", "offset")):
        return False
    if isinstance(item, exp.Table):
        known = (named or {}).get(item.name, KnownRows(RowKind.RELEASED))
        return bool(item.args.get("single")) or _is_one_row(known.tree, known.sees)
    return isinstance(item, exp.Subquery) and _is_one_row(item.this, named)


def _is_one_row(tree: exp.Expr | None, named: Mapping[str, KnownRows] | None) -> bool:
    return isinstance(tree, exp.Select) and has_one_row(tree, named)


def _refuse(message: str, hint: str) -> NoReturn:
    raise QueryRefused(message, hint)
