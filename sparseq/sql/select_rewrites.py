"""Rewriting of SELECTs to simpler forms: PIVOT, LATERAL, and the order of SELECT DISTINCT."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.question.catalog import Catalog
from sparseq.sql.aggregate_calls import aggregates_in
from sparseq.sql.dependent_joins import join_domain, sources_of


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


def order_by_names(select: exp.Select) -> None:
    """Order the rows of SELECT DISTINCT by the names of the selected items, in place.

    After DISTINCT no other columns exist.

    Example:
        >>> from sqlglot import parse_one
        >>> select = parse_one("SELECT DISTINCT count(*) AS n FROM t GROUP BY k ORDER BY count(*)")
        >>> order_by_names(select)
        >>> select.args["order"].sql()
        'ORDER BY "n"'
    """
    distinct, order = select.args.get("distinct"), select.args.get("order")
    if distinct is None or distinct.args.get("on") or order is None:
        return
    names = {e.unalias().sql("duckdb"): e.alias_or_name for e in reversed(select.expressions)}
    for ordered in order.expressions:
        by = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        name = names.get(by.sql("duckdb"))
        if name:
            by.replace(exp.column(name, quoted=True))


def without_pivot(pivot: exp.Pivot, catalog: Catalog | None = None) -> exp.Select:
    """Return PIVOT … ON x IN (…) USING aggregate GROUP BY keys as one SELECT with FILTERs.

    Without a list, use the column's declared keys, in their order; DuckDB uses the values that
    occur.

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


def without_laterals(select: exp.Select) -> exp.Select:
    """Return a SELECT with its LATERAL subqueries as joins, in place, where that is possible.

    Such a subquery's rows are those that it has for the outer row (`sparseq.sql.dependent_joins`);
    LIMIT takes the first of these in its order. If its only correlated conditions are equalities of
    columns, its own columns replace the domain's. A subquery of aggregates only has one row: each
    of its columns becomes a subquery in an expression.

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
    kept = list[exp.Join]()
    for join in select.args.get("joins") or []:
        on, inner = join.args.get("on"), _inner(join.this)
        if inner is None or start is None or not (on is None or _is_true(on)):
            kept.append(join)
        elif _is_one_row(inner):
            kept += [] if _as_values(select, join.this, inner) else [join]
        else:
            _join(join, inner, (start.this, kept))
            kept.append(join)
    if start is not None:
        select.set("joins", kept or None)
    return select


def _inner(item: exp.Expr) -> exp.Select | None:
    """Return the SELECT of a LATERAL subquery; None for other items of FROM."""
    inner = item.this.this if isinstance(item, exp.Lateral) else None
    held = isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery)
    return inner if held and isinstance(inner, exp.Select) else None


def _is_one_row(inner: exp.Select) -> bool:
    clauses = ("group", "having", "qualify", "limit", "offset", "distinct", "order")
    return all(map(aggregates_in, inner.expressions)) and not any(map(inner.args.get, clauses))


def _as_values(select: exp.Select, lateral: exp.Expr, inner: exp.Select) -> bool:
    """Replace the columns of a single-row subquery by subqueries, in place; False if unsafe.

    A name without its table may belong to another source.
    """
    called = lateral.alias_or_name.lower()
    listed = lateral.args["alias"].columns if lateral.args.get("alias") else []
    names = [e.alias_or_name.lower() for e in inner.expressions]
    names[: len(listed)] = [column.name.lower() for column in listed]
    values = dict(zip(names, inner.expressions, strict=True))
    found = [c for c in select.find_all(exp.Column) if c.find_ancestor(exp.Lateral) is not lateral]
    mine = [c for c in found if c.table.lower() == called]
    bare = any(not c.table and c.name.lower() in values for c in found)
    if bare or select.is_star or any(c.name.lower() not in values for c in mine):
        return False
    for column in mine:
        value = inner.copy()
        value.set("expressions", [values[column.name.lower()].unalias().copy()])
        shown: exp.Expr = exp.Subquery(this=value)
        if column.parent is select and column.arg_key == "expressions":
            shown = exp.alias_(shown, column.name)
        column.replace(shown)
    return True


def _join(join: exp.Join, inner: exp.Select, outer: tuple[exp.Expr, Sequence[exp.Join]]) -> None:
    """Join a LATERAL subquery's rows, in place; keep a subquery that cannot be joined."""
    first, joins = outer
    before = {item.alias_or_name for item in (first, *(j.this for j in joins))}
    own = {s.alias_or_name for s in inner.find_all(exp.Table, exp.Subquery)}
    taken = [c for c in inner.find_all(exp.Column) if c.table in before - own]
    limit, order = inner.args.get("limit"), inner.args.get("order")
    if not taken or not sources_of(inner) or inner.args.get("offset"):
        return
    if limit is not None and order is None:
        return
    if not inner.args.get("group") and any(map(aggregates_in, inner.expressions)):
        return
    pairs, rest = _agreements(inner, before - own)
    grouped = any(inner.args.get(k) for k in ("group", "having", "qualify", "distinct"))
    equal = {outer.sql("duckdb") for _, outer in pairs}
    if grouped or len(pairs) != len(taken):
        named = join_domain(inner, taken, outer, "lateral outer", "lateral_{}".format)
        pairs = [(own, outer) for outer, own in named]
    else:
        inner.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    keys = [own for own, _ in pairs]
    for window in inner.find_all(exp.Window):
        if window.parent_select is inner:  # it covers the rows of one outer row
            parts = [*(window.args.get("partition_by") or []), *(key.copy() for key in keys)]
            window.set("partition_by", parts)
    for key in keys if inner.args.get("group") else []:
        inner.args["group"].append("expressions", key.copy())
    inner.set("limit", None)
    inner.set("order", None)
    if limit is not None:
        number = exp.Window(
            this=exp.RowNumber(), partition_by=[key.copy() for key in keys], order=order
        )
        first_rows = exp.LTE(this=number, expression=limit.expression)
        held = inner.args.get("qualify")
        both = exp.and_(held.this, first_rows) if held is not None else first_rows
        inner.set("qualify", exp.Qualify(this=both))
    lateral = join.this
    alias = lateral.args.get("alias") or exp.TableAlias(this=exp.to_identifier("lateral"))
    for i, key in enumerate(keys):
        inner.select(exp.alias_(key.copy(), f"lateral_{i}"), copy=False)
        if alias.columns:
            alias.append("columns", exp.to_identifier(f"lateral_{i}"))
    same = (
        (exp.EQ if outer.sql("duckdb") in equal else exp.NullSafeEQ)(
            this=exp.column(f"lateral_{i}", alias.name), expression=outer.copy()
        )
        for i, (_, outer) in enumerate(pairs)
    )
    join.set("on", exp.and_(*same))
    join.set("kind", None)
    join.set("this", exp.Subquery(this=inner, alias=alias))


def _agreements(
    inner: exp.Select, outer: set[str]
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[exp.Expr]]:
    """Return the inner and outer sides that must be equal, and the other conditions."""
    pairs, rest = list[tuple[exp.Expr, exp.Expr]](), list[exp.Expr]()
    where = inner.args.get("where")
    whole = where.this if where is not None else None
    parts = whole.flatten() if isinstance(whole, exp.And) else [whole] if whole else []
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
