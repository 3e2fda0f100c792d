"""Lists of values that one condition of a WHERE sets for a column."""

from __future__ import annotations

from sqlglot import exp


def listed_by(condition: exp.Expr, key: exp.Expr) -> list[exp.Expr] | None:
    """Return the values that a condition lists for an expression; None if it lists none."""
    if isinstance(condition, exp.Paren):
        return listed_by(condition.this, key)
    if isinstance(condition, exp.In) and _same(condition.this, key):
        return list(condition.expressions) if not condition.args.get("query") else None
    if isinstance(condition, exp.EQ):
        if _same(condition.left, key):
            return [condition.right]
        if _same(condition.right, key):
            return [condition.left]
    if isinstance(condition, exp.Or):
        left, right = (listed_by(p, key) for p in (condition.left, condition.right))
        return left + right if left is not None and right is not None else None
    return None


def _same(a: exp.Expr, b: exp.Expr) -> bool:
    while isinstance(a, exp.Paren):
        a = a.this
    return a.sql("duckdb") == b.sql("duckdb")


def sees_only(select: exp.Select, alias: str) -> bool:
    """Tell whether rows without a match in a joined table do not affect the result.

    The SELECT only counts or sums columns of this table, and the WHERE does not use them.
    """
    where = select.args.get("where")
    looks = where is not None and any(c.table == alias for c in where.find_all(exp.Column))
    return not looks and all(_of_column(a, alias) for a in select.find_all(exp.AggFunc))


def _of_column(aggregate: exp.Expr, alias: str) -> bool:
    """Tell whether an aggregate takes a plain column of a table and skips NULL."""
    inside = aggregate.this
    if isinstance(inside, exp.Distinct) and len(inside.expressions) == 1:
        inside = inside.expressions[0]
    plain = isinstance(inside, exp.Column) and inside.table == alias
    return plain and isinstance(aggregate, exp.Count | exp.Sum | exp.Avg)
