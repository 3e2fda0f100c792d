"""LATERAL subqueries as joins: what they say of the outer row becomes what is joined by."""

from __future__ import annotations

from sqlglot import exp


def without_laterals(select: exp.Select) -> None:
    """Join the LATERAL subqueries of a SELECT, in place; those that can't be are left.

    Such a subquery's rows are those that agree with the outer row in some columns, of which LIMIT
    takes the first in its order: they are numbered within what they agree in.

    Example:
        >>> from sqlglot import parse_one
        >>> select = parse_one(
        ...     "SELECT 1 FROM a, LATERAL (SELECT x FROM b WHERE b.i = a.i ORDER BY x LIMIT 1) AS t"
        ... )
        >>> without_laterals(select)
        >>> print(select.sql("duckdb", pretty=True))
        SELECT
          1
        FROM a
        JOIN (
          SELECT
            x,
            b.i AS lateral_0
          FROM b
          QUALIFY
            ROW_NUMBER() OVER (PARTITION BY b.i ORDER BY x NULLS FIRST) <= 1
        ) AS t
          ON t.lateral_0 = a.i
    """
    start = select.args.get("from_")
    before = {start.this.alias_or_name} if start is not None else set[str]()
    for join in select.args.get("joins") or []:
        if isinstance(join.this, exp.Lateral):
            _join(join, join.this, before)
        before.add(join.this.alias_or_name)


def _join(join: exp.Join, lateral: exp.Lateral, before: set[str]) -> None:
    on, holder = join.args.get("on"), lateral.this
    inner = holder.this if isinstance(holder, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or not (on is None or _is_true(on)):
        return
    pairs, rest = _agreements(inner, before)
    limit, order = inner.args.get("limit"), inner.args.get("order")
    mixed = any(inner.args.get(k) for k in ("group", "having", "qualify", "offset", "distinct"))
    if not pairs or mixed or (limit is not None and order is None) or _is_aggregated(inner):
        return
    inner.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    inner.set("limit", None)
    inner.set("order", None)
    if limit is not None:
        number = exp.Window(
            this=exp.RowNumber(), partition_by=[own.copy() for own, _ in pairs], order=order
        )
        inner.set("qualify", exp.Qualify(this=exp.LTE(this=number, expression=limit.expression)))
    alias = lateral.args.get("alias") or exp.TableAlias(this=exp.to_identifier("lateral"))
    for i, (own, _) in enumerate(pairs):
        name = f"lateral_{i}"
        inner.select(exp.alias_(own.copy(), name), copy=False)
        if alias.columns:
            alias.append("columns", exp.to_identifier(name))
    equal = (
        exp.EQ(this=exp.column(f"lateral_{i}", alias.name), expression=outer.copy())
        for i, (_, outer) in enumerate(pairs)
    )
    join.set("on", exp.and_(*equal))
    join.set("kind", None)
    join.set("this", exp.Subquery(this=inner, alias=alias))


def _agreements(
    inner: exp.Select, before: set[str]
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[exp.Expr]]:
    """Return what has to be equal, inside and outside, and the conditions on the inside alone."""
    pairs, rest = list[tuple[exp.Expr, exp.Expr]](), list[exp.Expr]()
    where = inner.args.get("where")
    whole = where.this if where is not None else None
    parts = whole.flatten() if isinstance(whole, exp.And) else [whole] if whole else []
    own = {s.alias_or_name for s in inner.find_all(exp.Table, exp.Subquery)}
    outer = before - own
    for part in parts:
        sides = [part.this, part.args.get("expression")] if isinstance(part, exp.EQ) else []
        told = [isinstance(side, exp.Column) and side.table in outer for side in sides]
        if sum(told) == 1 and isinstance(sides[1 - told.index(True)], exp.Column):
            at = told.index(True)
            pairs.append((sides[1 - at], sides[at]))
        else:
            rest.append(part)
    return pairs, rest


def _is_true(e: exp.Expr) -> bool:
    return isinstance(e, exp.Boolean) and bool(e.this)


def _is_aggregated(inner: exp.Select) -> bool:
    return any(e.find(exp.AggFunc) is not None for e in inner.expressions)
