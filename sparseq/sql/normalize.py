"""Ways to write a thing, brought to one, before anything is looked up.

Each rule gives a query that means the same in SQL, so that the rest needs to know one form only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import combinations, product

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.sql.allowed_words import BINNED

# -- rOLLUP, CUBE, GROUPING SETS and PIVOT, written as SELECTs that have one GROUP BY each ---------

MAX_SETS = 32
Keys = tuple[exp.Expr, ...]


def without_sets(select: exp.Select) -> exp.Expr:
    """Return a SELECT with grouping sets as a UNION ALL of SELECTs, one for each set.

    A key that a set leaves out is NULL in its rows, and GROUPING(key) is 1.

    Example:
        >>> from sqlglot import parse_one
        >>> q = parse_one("SELECT a, count(*) FROM t GROUP BY ROLLUP (a)", dialect="duckdb")
        >>> without_sets(q).sql("duckdb")
        'SELECT a, COUNT(*) FROM t GROUP BY a UNION ALL SELECT NULL AS a, COUNT(*) FROM t'
    """
    group = select.args.get("group")
    parts = list(group.expressions) if group is not None else []
    if not any(isinstance(p, exp.Rollup | exp.Cube | exp.GroupingSets) for p in parts):
        return select
    sets = [tuple(k for s in some for k in s) for some in product(*(_sets(p) for p in parts))]
    if len(sets) > MAX_SETS:
        raise QueryRefused(f"there are {len(sets)} grouping sets; the limit is {MAX_SETS}")
    meant = _meant(select)
    every = {meant(k).sql("duckdb"): meant(k) for s in sets for k in s}
    branches = [_branch(select, [meant(k) for k in s], every) for s in sets]
    whole: exp.Expr = branches[0]
    for branch in branches[1:]:
        whole = exp.Union(this=whole, expression=branch, distinct=False)
    if isinstance(whole, exp.SetOperation):
        for clause in ("with_", "order", "limit", "offset"):
            whole.set(clause, select.args.get(clause))
    return whole


def _sets(part: exp.Expr) -> list[Keys]:
    """Return the sets of keys that an item of GROUP BY stands for."""
    if isinstance(part, exp.Rollup):
        keys = [_keys(k) for k in part.expressions]
        return [_flat(keys[:n]) for n in range(len(keys), -1, -1)]
    if isinstance(part, exp.Cube):
        keys = [_keys(k) for k in part.expressions]
        return [_flat(some) for n in range(len(keys), -1, -1) for some in combinations(keys, n)]
    if isinstance(part, exp.GroupingSets):
        return [s for inner in part.expressions for s in _inner_sets(inner)]
    return [(part,)]


def _inner_sets(part: exp.Expr) -> list[Keys]:
    return _sets(part) if isinstance(part, exp.Rollup | exp.Cube) else [_keys(part)]


def _keys(e: exp.Expr) -> Keys:
    return tuple(e.expressions) if isinstance(e, exp.Tuple) else (e.unnest(),)


def _flat(parts: list[Keys] | tuple[Keys, ...]) -> Keys:
    return tuple(k for part in parts for k in part)


def _meant(select: exp.Select) -> Callable[[exp.Expr], exp.Expr]:
    """Return what says which expression a key means: a place or a name of the SELECT list."""
    shown: list[exp.Expr] = [e.unalias() for e in select.expressions]
    names: dict[str, exp.Expr] = {
        e.alias: e.unalias() for e in select.expressions if isinstance(e, exp.Alias)
    }

    def meant(key: exp.Expr) -> exp.Expr:
        if isinstance(key, exp.Literal) and key.name.isdecimal():
            place = int(key.name) - 1
            if 0 <= place < len(shown):
                return shown[place]
        if isinstance(key, exp.Column) and not key.table and key.name in names:
            return names[key.name]
        return key

    return meant


def _branch(select: exp.Select, keys: list[exp.Expr], every: dict[str, exp.Expr]) -> exp.Select:
    """Return the SELECT of one set of keys."""
    kept = {k.sql("duckdb") for k in keys}
    missing = every.keys() - kept
    branch = select.copy()
    for clause in ("with_", "order", "limit", "offset"):
        branch.set(clause, None)
    group = exp.Group(expressions=[k.copy() for k in keys]) if keys else None
    branch.set("group", group)
    for e in branch.expressions:
        if e.unalias().sql("duckdb") in missing:
            e.replace(exp.alias_(exp.null(), e.alias_or_name))
    for call in list(branch.find_all(exp.Grouping, exp.Anonymous)):
        if isinstance(call, exp.Grouping) or call.name.lower() == "grouping":
            bits = "".join("01"[a.sql("duckdb") in missing] for a in call.expressions)
            call.replace(exp.Literal.number(int(bits, 2)))
    return branch


def without_pivot(pivot: exp.Pivot) -> exp.Select:
    """Return PIVOT … ON x IN (…) USING aggregate GROUP BY keys as one SELECT with FILTERs.

    Raises:
        QueryRefused: The values are not listed, or there are several columns or aggregates.
    """
    ons, using, group = pivot.expressions, pivot.args.get("using") or [], pivot.args.get("group")
    listed = len(ons) == 1 and isinstance(ons[0], exp.In) and bool(ons[0].expressions)
    if not listed or len(using) != 1 or group is None:
        raise QueryRefused(
            "PIVOT is answered with one column, its values, one aggregate and its keys",
            "PIVOT t ON x IN (1, 2) USING count(*) GROUP BY k",
        )
    shown = [k.copy() for k in group.expressions]
    for value in ons[0].expressions:
        same = exp.EQ(this=ons[0].this.copy(), expression=value.copy())
        counted = exp.Filter(this=using[0].unalias().copy(), expression=exp.Where(this=same))
        shown.append(exp.alias_(counted, value.name, quoted=True))
    source = pivot.this.copy()
    if isinstance(source, exp.Subquery) and not source.alias:
        source.set("alias", exp.TableAlias(this=exp.to_identifier("pivoted")))
    select = exp.Select(
        expressions=shown, group=exp.Group(expressions=list(group.copy().expressions))
    )
    select.set("from_", exp.From(this=source))
    return select


# -- lATERAL subqueries as joins: what they say of the outer row becomes what is joined by ---------


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


# -- ways to write a thing, brought to one, before anything is looked up ---------------------------


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
