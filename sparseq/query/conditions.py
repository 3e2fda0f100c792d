"""What one condition of a WHERE says about an expression: which values, or which limits."""

from __future__ import annotations

from sqlglot import exp

from sparseq.query.constants import is_constant

_OPERATORS: dict[type, str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
Limit = tuple[str, exp.Expr]


def listed_by(condition: exp.Expr, key: exp.Expr) -> list[exp.Expr] | None:
    """Return the values that a condition lists for an expression; None: it doesn't."""
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


def limits_of(condition: exp.Expr, key: exp.Expr) -> list[Limit]:
    """Return what a condition says about an expression: (operator, limit)."""
    if isinstance(condition, exp.Between) and _same(condition.this, key):
        return [(">=", condition.args["low"]), ("<=", condition.args["high"])]
    if isinstance(condition, exp.EQ) and _same(condition.left, key):
        return [(">=", condition.right), ("<=", condition.right)]
    if not isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return []
    operator = _OPERATORS[type(condition)]
    if _same(condition.left, key):
        return [(operator, condition.right)]
    if _same(condition.right, key):
        return [(_FLIPPED[operator], condition.left)]
    return []


def time_limits(condition: exp.Expr, column: exp.Column) -> list[tuple[str, str]]:
    """Return the first and last moment that a condition lets a time be, as SQL.

    It may be about the column's day, its year, or the start of its month.

    Returns:
        (">=" or "<=", SQL of a TIMESTAMP); an open end is a microsecond before.
    """
    found = []
    for part in condition.find_all(*_STARTS):
        unit = _unit(part, column)
        if unit:
            for operator, bound in limits_of(condition, part):
                found += _moment(operator, bound, unit, isinstance(part, exp.Year | exp.Extract))
    for operator, bound in limits_of(condition, column):
        found += _moment(operator, bound, "", False)
    return found


_STARTS = (
    exp.Cast, exp.TryCast, exp.Date, exp.TsOrDsToDate, exp.DateTrunc, exp.TimestampTrunc, exp.Year,
    exp.Extract,
)  # fmt: skip


def _unit(part: exp.Expr, column: exp.Column) -> str:
    """Return the unit that a part cuts a column's time to, "" if it is something else."""
    of = part.expression if isinstance(part, exp.Extract) else part.this
    if not isinstance(of, exp.Expr) or not _same(of, column):
        return ""
    if isinstance(part, exp.Year):
        return "YEAR"
    if isinstance(part, exp.Extract):
        return "YEAR" if part.this.name.upper() == "YEAR" else ""
    if isinstance(part, exp.DateTrunc | exp.TimestampTrunc):
        unit = part.args["unit"].name.upper()
        return unit if unit in _UNITS else ""
    target = part.args.get("to")
    return "DAY" if target is None or target.sql("duckdb") == "DATE" else ""


def _moment(operator: str, bound: exp.Expr, unit: str, is_year: bool) -> list[tuple[str, str]]:
    if not is_constant(bound):
        return []
    sql = bound.sql("duckdb")
    if is_year:
        sql = f"TRY_CAST(TRY_CAST(({sql}) AS DECIMAL(4, 0)) || '-01-01' AS DATE)"
    moment = f"TRY_CAST(({sql}) AS TIMESTAMP)"
    if operator in (">", ">="):
        return [(">=", moment)]
    if operator == "<":
        return [("<=", f"{moment} - INTERVAL 1 MICROSECOND")]
    return [("<=", f"{moment} + INTERVAL 1 {unit} - INTERVAL 1 MICROSECOND" if unit else moment)]


def _same(a: exp.Expr, b: exp.Expr) -> bool:
    while isinstance(a, exp.Paren):
        a = a.this
    return a.sql("duckdb") == b.sql("duckdb")


def sees_only(select: exp.Select, alias: str) -> bool:
    """Tell whether rows that lack a joined table count for nothing.

    Only columns of it are counted or added up, and the WHERE doesn't look at them.
    """
    where = select.args.get("where")
    looks = where is not None and any(c.table == alias for c in where.find_all(exp.Column))
    return not looks and all(_of_column(a, alias) for a in select.find_all(exp.AggFunc))


def _of_column(aggregate: exp.Expr, alias: str) -> bool:
    """Tell whether an aggregate is of a column of a table, and skips NULL."""
    inside = aggregate.this
    if isinstance(inside, exp.Distinct) and len(inside.expressions) == 1:
        inside = inside.expressions[0]
    plain = isinstance(inside, exp.Column) and inside.table == alias
    return plain and isinstance(aggregate, exp.Count | exp.Sum | exp.Avg)
