"""Subqueries about people in expressions: joined to the rows of the same person.

EXISTS, IN and a subquery that gives one number become a LEFT JOIN with that subquery, grouped by
the user and by whatever else its rows must equal in the outer row. So there is at most one row to
join, nothing is multiplied, and the join on the user is checked as every other
(`sparseq.sql.scope`): a subquery that looks at other people's rows stays refused.

Subqueries over public tables in the expressions of a SELECT: answered while it is lowered.

They stand in the query as constants then. What is about people was joined before, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.sql.catalog import Catalog
from sparseq.sql.from_clause import FromItem
from sparseq.sql.parse import said
from sparseq.sql.parsed_expressions import constant_sql as constant
from sparseq.sql.public_database import PublicFacts

# -- subqueries about people in expressions: joined to the rows of the same person -----------------

_EXTREMES: dict[type, type] = {exp.GT: exp.Max, exp.GTE: exp.Max, exp.LT: exp.Min, exp.LTE: exp.Min}
_FLIPPED: dict[type, type] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


@dataclass
class _Correlation:
    """Conditions of a subquery on the outer row.

    Attributes:
        pairs: (inner, outer) that must be equal.
        limit: An inner expression, how it compares, and with what; at most one.
        rest: Conditions on the inner rows alone.
    """

    pairs: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    limit: tuple[exp.Expr, type, exp.Expr] | None = None
    rest: list[exp.Expr] = field(default_factory=list)


def unnest(select: exp.Select, is_private: Callable[[exp.Select], bool]) -> None:
    """Join the subqueries about people that the expressions of a SELECT hold, in place.

    Args:
        select: One SELECT, its columns qualified.
        is_private: Tells whether a subquery's rows are about people.

    Raises:
        QueryRefused: A subquery compares its rows with the outer one in a way that has no join.
    """
    joined: dict[str, exp.Expr] = {}  # the same subquery in SELECT and GROUP BY is one
    for part in _parts(select):
        for found in _subqueries(part):
            if is_private(found):
                target = _replaced(found)
                text = target.sql("duckdb")
                if text not in joined:
                    joined[text] = _join(select, found, f"#{len(joined)}")
                target.replace(joined[text].copy())


def _parts(select: exp.Select) -> list[exp.Expr]:
    parts: list[exp.Expr | None] = list(select.expressions)
    parts += [select.args.get(k) for k in ("where", "group")]
    return [p for p in parts if p is not None]


def _subqueries(e: exp.Expr) -> list[exp.Select]:
    """Return the outermost subqueries in an expression."""
    if isinstance(e, exp.Select):
        return [e]
    return [found for child in e.iter_expressions() for found in _subqueries(child)]


def _replaced(found: exp.Select) -> exp.Expr:
    """Return the expression that a subquery stands in: IN, EXISTS, or itself."""
    holder = found.parent if isinstance(found.parent, exp.Subquery) else found
    around = holder.parent
    is_in = isinstance(around, exp.In) and around.args.get("query") is holder
    return around if around is not None and (is_in or isinstance(around, exp.Exists)) else holder


def _join(select: exp.Select, found: exp.Select, alias: str) -> exp.Expr:
    """Join a subquery, and return what stands for it."""
    holder = found.parent if isinstance(found.parent, exp.Subquery) else found
    around = holder.parent
    inside = {s.alias_or_name for s in _sources(found)}
    if isinstance(around, exp.In) and around.args.get("query") is holder:
        correlation = _correlation(found, inside)
        if correlation.pairs:
            return _among(select, found, around, correlation, alias)
        rows, pairs = _rows_of_list(found, around.this, correlation)
        there = _there(alias, correlation)
    elif isinstance(around, exp.Exists):
        correlation = _correlation(found, inside)
        rows, pairs = _group(found, correlation, [])
        there = _there(alias, correlation)
    else:
        correlation = _correlation(found, inside)
        if correlation.limit is not None or len(found.expressions) != 1:
            raise _join_refusal(found)
        if not correlation.pairs:
            raise QueryRefused(
                f"the subquery {said(found)[:60]} is about everybody",
                "ask it first, by itself, and write its answer as a number; or say that its user "
                "is the outer row's: WHERE inner.user = outer.user",
            )
        value = exp.alias_(found.expressions[0].unalias().copy(), "v", quoted=True)
        rows, pairs = _group(found, correlation, [value])
        column = exp.column("v", alias, quoted=True)
        what = value.this.this if isinstance(value.this, exp.Filter) else value.this
        counts = isinstance(what, exp.Count)  # countif of nothing is NULL
        there = exp.Coalesce(this=column, expressions=[exp.Literal.number(0)]) if counts else column
        if isinstance(holder, exp.Subquery) and holder.alias:
            there = exp.alias_(there, holder.alias, quoted=True)
    _left_join(select, rows, pairs, alias)
    return there


def _left_join(
    select: exp.Select, rows: exp.Select, pairs: list[tuple[str, exp.Expr]], alias: str
) -> None:
    """Join rows by the columns of `pairs`, each with what it has to equal."""
    on = exp.and_(
        *(
            exp.EQ(this=outer.copy(), expression=exp.column(name, alias, quoted=True))
            for name, outer in pairs
        )
    )
    source = exp.Subquery(
        this=rows, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )
    select.append("joins", exp.Join(this=source, side="LEFT", on=on))


def _among(
    select: exp.Select, found: exp.Select, around: exp.In, correlation: _Correlation, alias: str
) -> exp.Expr:
    """Return what stands for x IN (SELECT y … of the outer row): that a row with y = x was joined.

    Where NULL and false are not the same, as under NOT, all rows of the outer one are joined too:
    without any it is false, and else NULL where x is, or one of the y.
    """
    found = found.copy()
    found.set("distinct", None)
    if len(found.expressions) != 1:
        raise QueryRefused(f"the subquery {said(found)[:60]} has several columns", "select one")
    inner, value = found.expressions[0].unalias(), around.this
    if inner.find(exp.AggFunc, exp.Window):
        raise _join_refusal(found)
    equal = replace(correlation, pairs=[*correlation.pairs, (inner, value)])
    _left_join(select, *_group(found, equal, []), alias)
    there = _there(alias, equal)
    if _is_filter(around):
        return there
    if correlation.limit is not None:
        raise _join_refusal(found)
    known, every = exp.alias_(exp.Count(this=inner.copy()), "v", quoted=True), f"{alias} all"
    _left_join(select, *_group(found, correlation, [known]), every)
    n, v = (exp.column(name, every, quoted=True) for name in "nv")
    unknown = exp.or_(
        exp.Is(this=value.copy(), expression=exp.Null()), exp.GT(this=n, expression=v)
    )
    nobody = exp.Is(this=n.copy(), expression=exp.Null())
    return exp.paren(
        exp.Case()
        .when(there, exp.true())
        .when(nobody, exp.false())
        .when(unknown, exp.cast(exp.Null(), "BOOLEAN"))
        .else_(exp.false())
    )


def _is_filter(condition: exp.Expr) -> bool:
    """Tell whether only rows for which a condition is true are taken, so that NULL is false."""
    above = condition.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where)


def _sources(select: exp.Select) -> list[exp.Expr]:
    origin = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    return [*([origin.this] if origin is not None else []), *(j.this for j in joins)]


def _correlation(found: exp.Select, inside: set[str]) -> _Correlation:
    """Take apart what a subquery's WHERE says about its own rows and about the outer one."""
    where, made = found.args.get("where"), _Correlation()
    parts = (
        where.this.flatten()
        if where is not None and isinstance(where.this, exp.And)
        else ([where.this] if where is not None else [])
    )
    for part in parts:
        part = part.unnest()
        sides = [part.this, part.args.get("expression")] if isinstance(part, exp.Binary) else []
        tables = [{c.table for c in s.find_all(exp.Column)} for s in sides]
        outer = [bool(t) and not t & inside for t in tables]
        if {c.table for c in part.find_all(exp.Column)} <= inside:
            made.rest.append(part)
        elif len(sides) == 2 and sum(outer) == 1 and tables[outer.index(False)] <= inside:
            inner, other = (sides[0], sides[1]) if outer[1] else (sides[1], sides[0])
            kind = type(part) if outer[1] else _FLIPPED.get(type(part), type(part))
            if kind is exp.EQ:
                made.pairs.append((inner, other))
            elif kind in _EXTREMES and made.limit is None:
                made.limit = (inner, kind, other)
            else:
                raise _join_refusal(found)
        else:
            raise _join_refusal(found)
    return made


def _rows_of_list(
    found: exp.Select, value: exp.Expr, correlation: _Correlation
) -> tuple[exp.Select, list[tuple[str, exp.Expr]]]:
    """Return the rows of x IN (SELECT y …): those of the subquery, by y."""
    if len(found.expressions) != 1:
        raise QueryRefused(f"the subquery {said(found)[:60]} has several columns", "select one")
    if correlation.pairs or correlation.limit is not None:
        raise _join_refusal(found)
    name = found.expressions[0].alias_or_name
    column = exp.column(name, "#in", quoted=True)
    rows = exp.Select(
        expressions=[exp.alias_(column, "k0", quoted=True), _number()],
        group=exp.Group(expressions=[column.copy()]),
    )
    inner = exp.Subquery(
        this=found.copy(), alias=exp.TableAlias(this=exp.to_identifier("#in", quoted=True))
    )
    rows.set("from_", exp.From(this=inner))
    return rows, [("k0", value)]


def _group(
    found: exp.Select, correlation: _Correlation, more: list[exp.Expr]
) -> tuple[exp.Select, list[tuple[str, exp.Expr]]]:
    """Return a subquery's rows, one for each of the values that the outer row is held against."""
    if any(found.args.get(k) for k in ("group", "having", "distinct", "limit", "qualify")):
        raise _join_refusal(found)
    if not correlation.pairs:
        raise QueryRefused(
            f"the subquery {said(found)[:60]} looks at other people's rows",
            "say that its user is the outer row's: WHERE inner.user = outer.user",
        )
    rows = found.copy()
    keys = [inner.copy() for inner, _ in correlation.pairs]
    named = [exp.alias_(k.copy(), f"k{i}", quoted=True) for i, k in enumerate(keys)]
    if correlation.limit is not None:
        inner, kind, _ = correlation.limit
        more = [*more, exp.alias_(_EXTREMES[kind](this=inner.copy()), "m", quoted=True)]
    rows.set("expressions", [*named, _number(), *more])
    rows.set("where", None)
    if correlation.rest:
        rows.set("where", exp.Where(this=exp.and_(*(r.copy() for r in correlation.rest))))
    rows.set("group", exp.Group(expressions=keys))
    rows.set("order", None)
    return rows, [(f"k{i}", outer) for i, (_, outer) in enumerate(correlation.pairs)]


def _number() -> exp.Expr:
    return exp.alias_(exp.Count(this=exp.Star()), "n", quoted=True)


def _there(alias: str, correlation: _Correlation) -> exp.Expr:
    """Return the condition that a row was joined."""
    found: exp.Expr = exp.Not(
        this=exp.Is(this=exp.column("n", alias, quoted=True), expression=exp.Null())
    )
    if correlation.limit is not None:
        _, kind, outer = correlation.limit
        beyond = kind(this=exp.column("m", alias, quoted=True), expression=outer.copy())
        found = exp.Coalesce(this=exp.and_(found, beyond), expressions=[exp.false()])
    return exp.paren(found)


def _join_refusal(found: exp.Select) -> QueryRefused:
    return QueryRefused(
        f"the subquery {said(found)[:60]} is held against the outer row in a way that has no join",
        "join the tables on the user, and count people: count(DISTINCT user)",
    )


def reads_people(select: exp.Select, named: Mapping[str, FromItem], catalog: Catalog) -> bool:
    """Tell whether a subquery reads a table about people.

    Args:
        select: The subquery.
        named: Subqueries outside of it that have a name.
        catalog: The store's tables.
    """
    own = {cte.alias for cte in select.find_all(exp.CTE)}
    for table in select.find_all(exp.Table):
        if table.name in named:
            if named[table.name].private:
                return True
        elif table.name not in own and catalog.table(table.name).private:
            return True
    return False


# -- subqueries over public tables in the expressions of a SELECT ----------------------------------

MAX_SUBQUERY_VALUES = 10_000
MAX_SUBQUERIES = 256
Lower = Callable[[exp.Select, str, PublicFacts, dict[str, FromItem]], FromItem]


class PublicSubqueries:
    """Those of one SELECT.

    Args:
        select: Changed in place.
        facts: What is known of tables and constants.
        lower: Lowers a subquery.
        ctes: Subqueries that have a name.
    """

    def __init__(
        self, select: exp.Select, facts: PublicFacts, lower: Lower, ctes: dict[str, FromItem]
    ) -> None:
        self._select = select
        self._facts = facts
        self._lower = lower
        self._ctes = ctes

    def answer(self) -> None:
        """Put constants for the subqueries of expressions, which see public tables only.

        Every turn answers one of a finite number: what was answered once is never found again.
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
        """Return a subquery that is still there; looked up anew, as any part may be replaced."""
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
            name = holder.alias if isinstance(holder, exp.Subquery) else ""  # a SELECT item's
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
