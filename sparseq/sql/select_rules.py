"""Rules that rewrite one SELECT before binding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.sql.aggregate_calls import aggregates_in
from sparseq.sql.parsed_expressions import conjuncts
from sparseq.sql.select_rewrites import order_by_names, without_laterals
from sparseq.sql.spellings import (
    without_parentheses,
)


def _name_windows(select: exp.Select) -> None:
    """Replace references to WINDOW w AS (…) by the window's definition."""
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
    """Expand GROUP BY ALL to the items without aggregates, and ORDER BY ALL to all items."""
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None and group.args.get("all"):
        plain = [e.unalias() for e in select.expressions if not _of_rows(e)]
        select.set("group", exp.Group(expressions=[e.copy() for e in plain]) if plain else None)
    if order is not None and len(order.expressions) == 1:
        (ordered,) = order.expressions
        if isinstance(ordered.this, exp.Var | exp.Column) and ordered.this.name.upper() == "ALL":
            places = [str(i + 1) for i in range(len(select.expressions))]
            by = [_order(ordered, exp.Literal.number(place)) for place in places]
            select.set("order", exp.Order(expressions=by))


def _order(like: exp.Expr, this: exp.Expr) -> exp.Ordered:
    copy = like.copy()
    copy.set("this", this)
    assert isinstance(copy, exp.Ordered)
    return copy


def _of_rows(e: exp.Expr) -> bool:
    """Tell whether an expression depends on several rows."""
    return bool(aggregates_in(e)) or e.find(exp.Window) is not None


_SHARES = ("quantile", "quantile_cont")


def quantile_lists(select: exp.Select) -> None:
    """Split quantile_cont(x, [0.25, 0.5]) AS q into columns q_25 and q_50."""
    shown = []
    for e in select.expressions:
        call = e.unalias()
        named = isinstance(call, exp.Anonymous) and call.name.lower() in _SHARES
        listed = call.expressions[1:2] if named else []
        if not listed or not isinstance(listed[0], exp.Array):
            shown.append(e)
            continue
        value, shares, *edges = call.expressions
        for share in shares.expressions:
            percent = f"{round(100 * float(share.name), 6):g}" if share.is_number else "?"
            parts = [value.copy(), share.copy(), *(edge.copy() for edge in edges)]
            one = exp.Anonymous(this=call.this, expressions=parts)
            name = f"{e.alias or call.name.lower()}_{percent.replace('.', '_')}"
            shown.append(exp.alias_(one, name, quoted=True))
    select.set("expressions", shown)


def _semi_joins(select: exp.Select) -> None:
    """Rewrite SEMI and ANTI JOIN as conditions EXISTS and NOT EXISTS."""
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
    """Rewrite a RIGHT JOIN b as b LEFT JOIN a."""
    joins = select.args.get("joins") or []
    if joins and (joins[0].side or "").upper() == "RIGHT" and not select.is_star:
        first, join = select.args["from_"], joins[0]
        other = first.this
        first.set("this", join.this)
        join.set("this", other)
        join.set("side", "LEFT")


def _common_conditions(select: exp.Select) -> None:
    """Rewrite WHERE a AND b OR a AND c as a AND (b OR c), to expose a join's equalities."""
    for clause in [select.args.get("where"), *(select.args.get("joins") or [])]:
        place = "on" if isinstance(clause, exp.Join) else "this"
        for condition in conjuncts(clause and clause.args.get(place)):
            if isinstance(condition, exp.Or):
                condition.replace(exp.paren(_factor(condition), copy=False))


def _factor(either: exp.Or) -> exp.Expr:
    branches = [conjuncts(b) for b in either.flatten()]
    first, *others = branches
    common = [c for c in first if all(c in branch for branch in others)]
    rest = [[c for c in branch if c not in common] for branch in branches]
    if not common or not all(rest):  # one branch is only the common part
        return exp.and_(*common) if common else either
    return exp.and_(*common, exp.or_(*(exp.and_(*branch) for branch in rest)))


def _qualify(select: exp.Select) -> None:
    """Refuse QUALIFY without a window, as SQL does."""
    qualify = select.args.get("qualify")
    if qualify and not any(e.find(exp.Window) for e in [qualify, *select.expressions]):
        raise QueryRefused(
            "QUALIFY is about a window function, and there is none",
            "write HAVING, or WHERE outside",
        )


_UNNEST = "unnest"
"""The default name of the column of a list's values."""


def _unnest_beside(select: exp.Select) -> None:
    """Rewrite FROM t, unnest(t.tags) AS u(tag) as FROM (SELECT *, unnest(tags) AS tag FROM t) AS t.

    SELECT unnest(tags) AS tag, count(*) FROM t GROUP BY tag is rewritten in the same way.
    """
    if select.find(exp.Unnest, exp.Explode) is None:
        return
    start = select.args.get("from_")
    for join in list(select.args.get("joins") or []):
        lists, name = _lists_of(join.this)
        if not lists:
            continue
        on = join.args.get("on")
        plain = (
            join.side == "" and join.kind in ("", "CROSS", "INNER") and not join.args.get("using")
        )
        always = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
        if len(lists) > 1 or not plain or not always or join.this.args.get("offset"):
            raise QueryRefused(
                "a list is unnested beside its own table", "FROM t, unnest(t.tags) AS u(tag)"
            )
        assert start is not None
        called = join.this.alias_or_name
        before = [start.this, *(j.this for j in select.args["joins"] if j is not join)]
        table = _with_values(before, lists[0], name)
        for column in select.find_all(exp.Column):
            if column.name.lower() == name.lower() and column.table in ("", called):
                column.set("table", exp.to_identifier(table))
        select.args["joins"].remove(join)
    found = [x for e in select.expressions for x in e.find_all(exp.Explode)]
    grouped = select.args.get("group") or any(map(_of_rows, select.expressions))
    for explode in found if start is not None and grouped and len(found) == 1 else []:
        name = explode.parent.alias if isinstance(explode.parent, exp.Alias) else _UNNEST
        table = _with_values([start.this], explode.this, name) if start is not None else ""
        column = exp.column(name, table)
        explode.replace(column)
        group = select.args.get("group")
        for key in [k for k in group.expressions if k == explode] if group is not None else []:
            key.replace(column.copy())


def _lists_of(item: exp.Expr) -> tuple[list[exp.Expr], str]:
    """Return the lists that an item of FROM unnests, and the name of their values; [] if none."""
    inner, alias = item, item.args.get("alias")
    columns = alias.columns if isinstance(alias, exp.TableAlias) else []
    if isinstance(item, exp.Lateral):
        inner = item.this
    if isinstance(inner, exp.Unnest):
        return list(inner.expressions), columns[0].name if columns else _UNNEST
    shown = inner.this.expressions if isinstance(inner, exp.Subquery) else []
    bare = isinstance(item, exp.Lateral) and len(shown) == 1 and not inner.this.args.get("from_")
    if not bare or not isinstance(shown[0].unalias(), exp.Explode):
        return [], ""
    return [shown[0].unalias().this], (columns[0].name if columns else shown[0].alias) or _UNNEST


def _with_values(items: Sequence[exp.Expr], of: exp.Expr, name: str) -> str:
    """Add a column of the list's values to the item that has the list; return the item's name."""
    column = of.unnest()
    table = column.table.lower() if isinstance(column, exp.Column) else " "
    named = [i for i in items if table in (i.alias_or_name.lower(), "" if not items[1:] else None)]
    if len(named) != 1 or not isinstance(named[0], exp.Table | exp.Subquery):
        raise QueryRefused(
            f"{of.sql('duckdb')[:60]} is not a column of one table here",
            "unnest a list of a table by its name: FROM t, unnest(t.tags) AS u(tag)",
        )
    (item,), called = named, named[0].alias_or_name
    values = exp.alias_(exp.Explode(this=exp.column(column.name)), name)
    inner = exp.select("*", values).from_(item.copy())
    alias = exp.TableAlias(this=exp.to_identifier(called))
    item.replace(exp.Subquery(this=inner, alias=alias))
    return str(called)


RULES: list[Callable[[exp.Select], object]] = [
    without_parentheses,
    _unnest_beside,
    without_laterals,
    _name_windows,
    _group_by_all,
    order_by_names,
    _semi_joins,
    _right_joins,
    _common_conditions,
    _qualify,
]
