"""Ways to write a thing, brought to one, before anything is looked up.

Each rule gives a query that means the same in SQL, so that the rest needs to know one form only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.sql.allowed_words import BINNED
from sparseq.sql.grouping_sets import without_pivot, without_sets
from sparseq.sql.laterals import without_laterals


def rewritten(tree: exp.Expr) -> exp.Expr:
    """Return a query in the forms that lowering reads.

    Example:
        >>> from sqlglot import parse_one
        >>> rewritten(parse_one("SELECT a, count(*) FROM t GROUP BY ALL")).sql()
        'SELECT a, COUNT(*) FROM t GROUP BY a'
    """
    if isinstance(tree, exp.Pivot):
        tree = without_pivot(tree)
    tree = tree.transform(_node, copy=False)
    for select in list(tree.find_all(exp.Select)):
        whole = without_sets(select)
        if select is tree:
            tree = whole
        elif whole is not select:
            select.replace(_selected(whole))
    for select in list(tree.find_all(exp.Select)):
        for rule in _RULES:
            rule(select)
    return _selected(tree)


def _selected(tree: exp.Expr) -> exp.Expr:
    """Return a set operation as SELECT * FROM it; its ORDER BY and LIMIT are the SELECT's."""
    if not isinstance(tree, exp.SetOperation):
        return tree
    select = exp.select("*").from_(exp.Subquery(this=tree, alias=_named("united")))
    for clause in ("with_", "order", "limit", "offset"):
        select.set(clause, tree.args.get(clause))
        tree.set(clause, None)
    return select


def _named(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))


def _node(node: exp.Expr) -> exp.Expr:
    """Rewrite one node: quantiles, people counted roughly, and the day and time of the query."""
    if isinstance(node, exp.CurrentDate):
        return exp.cast(exp.Literal.string(dt.date.today().isoformat()), "DATE")
    if _is_now(node):
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
        return exp.cast(exp.Literal.string(now.isoformat(" ")), "TIMESTAMP")
    if isinstance(node, exp.ApproxDistinct):
        return exp.Count(this=exp.Distinct(expressions=[node.this]))
    if isinstance(node, exp.ApproxQuantile):
        return _quantile(node.this, node.args["quantile"])
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileCont):
        (ordered,) = node.expression.expressions
        if not ordered.args.get("desc"):
            return _quantile(ordered.this, node.this.this)
    if isinstance(node, exp.Table) and node.db.lower() == "main" and not node.catalog:
        node.set("db", None)
    if type(node) in _COMPARED:
        return _without_interval(node)
    return node


def _is_now(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and node.name.lower() in (
        "now",
        "get_current_timestamp",
    )
    return named or isinstance(node, exp.CurrentTimestamp)


def _quantile(value: exp.Expr, share: exp.Expr) -> exp.Expr:
    assert "quantile" in BINNED
    return exp.Anonymous(this="quantile", expressions=[value, share])


_COMPARED: dict[type, type] = {
    exp.GT: exp.GT, exp.GTE: exp.GTE, exp.LT: exp.LT, exp.LTE: exp.LTE,
}  # fmt: skip
_FLIPPED: dict[type, type] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE,
}  # fmt: skip


def _without_interval(e: exp.Expr) -> exp.Expr:
    """Write a - b > INTERVAL 3 HOUR as a > b + INTERVAL 3 HOUR."""
    kind, difference, interval = type(e), _bare(e.this), _bare(e.expression)
    if isinstance(difference, exp.Interval):
        kind, difference, interval = _FLIPPED[kind], interval, difference
    if not isinstance(interval, exp.Interval) or not isinstance(difference, exp.Sub):
        return e
    later = exp.Add(this=difference.expression, expression=interval)
    return kind(this=difference.this, expression=later)


def _bare(e: exp.Expr) -> exp.Expr:
    return _bare(e.this) if isinstance(e, exp.Paren) else e


# -- rules for one SELECT --------------------------------------------------------------------------


def _name_windows(select: exp.Select) -> None:
    """WINDOW w AS (…): put where it is named."""
    named = {w.this.name.lower(): w for w in select.args.get("windows") or []}
    if not named:
        return
    for window in list(select.find_all(exp.Window)):
        alias = window.args.get("alias")
        known = named.get(alias.name.lower()) if alias is not None else None
        if alias is not None and known is not None:
            for part in ("partition_by", "order", "spec"):
                value, own = known.args.get(part), window.args.get(part)
                if own and value:
                    raise QueryRefused(f"window {alias.name} has {part} already", "leave it out")
                if own:
                    continue
                copied = [v.copy() for v in value] if isinstance(value, list) else value
                window.set(part, copied.copy() if isinstance(copied, exp.Expr) else copied)
            window.set("alias", None)
    select.set("windows", None)


def _group_by_all(select: exp.Select) -> None:
    """GROUP BY ALL, ORDER BY ALL: by what is selected and not aggregated; by every column."""
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None and group.args.get("all"):
        plain = [e.unalias() for e in select.expressions if not _aggregated(e)]
        select.set("group", exp.Group(expressions=[e.copy() for e in plain]) if plain else None)
    if order is not None and len(order.expressions) == 1:
        (ordered,) = order.expressions
        if isinstance(ordered.this, exp.Var | exp.Column) and ordered.this.name.upper() == "ALL":
            places = [str(i + 1) for i in range(len(select.expressions))]
            by = [_ordered(ordered, exp.Literal.number(place)) for place in places]
            select.set("order", exp.Order(expressions=by))


def _ordered(like: exp.Expr, this: exp.Expr) -> exp.Ordered:
    copy = like.copy()
    copy.set("this", this)
    assert isinstance(copy, exp.Ordered)
    return copy


def _aggregated(e: exp.Expr) -> bool:
    if isinstance(e, exp.Select | exp.Subquery):
        return False
    binned = isinstance(e, exp.Anonymous) and e.name.lower() in BINNED
    return binned or isinstance(e, exp.AggFunc) or any(map(_aggregated, e.iter_expressions()))


def _semi_joins(select: exp.Select) -> None:
    """SEMI and ANTI JOIN: a condition, EXISTS or NOT EXISTS."""
    kept = []
    for join in select.args.get("joins") or []:
        kind = (join.kind or join.side or "").upper()
        if kind not in ("SEMI", "ANTI") or join.method:
            kept.append(join)
            continue
        on, using = join.args.get("on"), join.args.get("using")
        if using:
            first = select.args["from_"].this.alias_or_name
            pairs = [
                exp.EQ(
                    this=exp.column(u.name, first),
                    expression=exp.column(u.name, join.alias_or_name),
                )
                for u in using
            ]
            on = exp.and_(*pairs)
        if on is None:
            raise QueryRefused(f"{kind} JOIN has no condition", "write ON a.x = b.x")
        inside = exp.select("1").from_(join.this.copy()).where(on.copy())
        exists = exp.Exists(this=inside)
        select.where(exists if kind == "SEMI" else exp.Not(this=exists), copy=False)
    select.set("joins", kept or None)


def _right_joins(select: exp.Select) -> None:
    """a RIGHT JOIN b: b LEFT JOIN a."""
    joins = select.args.get("joins") or []
    if joins and (joins[0].side or "").upper() == "RIGHT" and not select.is_star:
        first, join = select.args["from_"], joins[0]
        other = first.this
        first.set("this", join.this)
        join.set("this", other)
        join.set("side", "LEFT")


_RULES: list[Callable[[exp.Select], None]] = [
    without_laterals, _name_windows, _group_by_all, _semi_joins, _right_joins,
]  # fmt: skip
