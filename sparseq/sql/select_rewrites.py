"""Forms of SELECT written as plainer ones: ROLLUP, CUBE, GROUPING SETS, PIVOT, and LATERAL."""

from __future__ import annotations

from collections.abc import Callable, Container
from itertools import combinations, product

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.sql.catalog import Catalog

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
    """Return what says which expression a key means: a place or a name of the SELECT list.

    A column that is there comes before a name.
    """
    shown: list[exp.Expr] = [e.unalias() for e in select.expressions]
    names: dict[str, exp.Expr] = {
        e.alias: e.unalias()
        for e in select.expressions
        if isinstance(e, exp.Alias) and all(c.name != e.alias for c in e.find_all(exp.Column))
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
        _put_null(e, missing)
    for call in list(branch.find_all(exp.Grouping, exp.Anonymous)):
        if isinstance(call, exp.Grouping) or call.name.lower() == "grouping":
            bits = "".join("01"[a.sql("duckdb") in missing] for a in call.expressions)
            call.replace(exp.Literal.number(int(bits, 2)))
    return branch


def _declared_keys(source: exp.Expr, name: str, catalog: Catalog) -> list[exp.Expr]:
    """Return the declared keys of a column of a table, or of a SELECT of its columns."""
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
        select = source.this
        origin = select.args.get("from_")
        named = (e.unalias() for e in select.expressions if e.alias_or_name == name)
        column = next(named, None)
        if origin is None or select.args.get("joins") or not isinstance(column, exp.Column):
            return []
        return _declared_keys(origin.this, column.name, catalog)
    if not isinstance(source, exp.Table):
        return []
    keys = catalog.table(source.name).column(name).keys or ()
    return [exp.convert(key) for key in sorted(keys)]


def _put_null(shown: exp.Expr, missing: Container[str]) -> None:
    """Put NULL for the keys that a set leaves out, but in aggregates, in place."""
    if shown.unalias().sql("duckdb") in missing:
        shown.replace(exp.alias_(exp.null(), shown.alias_or_name))
        return
    for node in list(shown.find_all(exp.Expr)):
        inside = node.find_ancestor(exp.AggFunc, exp.Filter, exp.Grouping, exp.Select)
        if isinstance(inside, exp.Select) and node.sql("duckdb") in missing:
            node.replace(exp.null())


def without_pivot(pivot: exp.Pivot, catalog: Catalog | None = None) -> exp.Select:
    """Return PIVOT … ON x IN (…) USING aggregate GROUP BY keys as one SELECT with FILTERs.

    Without a list, of a column's declared keys: in their order, as DuckDB has those that occur.

    Raises:
        QueryRefused: The values are not listed, or there are several columns or aggregates.
    """
    ons, using, group = pivot.expressions, pivot.args.get("using") or [], pivot.args.get("group")
    if len(ons) == 1 and isinstance(ons[0], exp.Column) and catalog is not None:
        keys = _declared_keys(pivot.this, ons[0].name, catalog)
        ons = [exp.In(this=ons[0].copy(), expressions=keys)] if keys else ons
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


# -- LATERAL subqueries as joins: what they say of the outer row becomes what is joined by ---------


def without_laterals(select: exp.Select) -> exp.Select:
    """Return a SELECT whose LATERAL subqueries are joined, in place; those that can't be are left.

    Such a subquery's rows are those that agree with the outer row in some columns, of which LIMIT
    takes the first in its order: they are numbered within what they agree in.

    Example:
        >>> from sqlglot import parse_one
        >>> select = parse_one(
        ...     "SELECT 1 FROM a, LATERAL (SELECT x FROM b WHERE b.i = a.i ORDER BY x LIMIT 1) AS t"
        ... )
        >>> print(without_laterals(select).sql("duckdb", pretty=True))
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
    return select


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
