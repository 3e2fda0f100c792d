"""Public bounds of an expression's values, by interval arithmetic on its text.

They set the scale that noise is measured against. They are not trusted for privacy: a wrong one
costs accuracy, and the charge is computed from what users really contribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sqlglot import exp

Interval = tuple[float, float]
Lookup = Callable[[exp.Column], Interval | None]


def interval(e: exp.Expr, lookup: Lookup) -> Interval | None:
    """Return an interval that holds every value of `e`, or None.

    Args:
        e: A numeric expression.
        lookup: Declared bounds of a column.

    Example:
        >>> from sqlglot import parse_one
        >>> interval(parse_one("least(greatest(x, 0), 100) * -2"), lambda c: None)
        (-200.0, -0.0)
    """
    low, high = ends(e, lookup)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def ends(e: exp.Expr, lookup: Lookup) -> Interval:
    """Return an interval that holds every value of `e`, infinite where nothing is known."""
    nothing = (-math.inf, math.inf)
    if isinstance(e, exp.Paren):
        return ends(e.this, lookup)
    if isinstance(e, exp.Cast | exp.TryCast):
        return _cast(e, ends(e.this, lookup))
    if isinstance(e, exp.Literal):
        return _literal(e)
    if isinstance(e, exp.Column):
        return lookup(e) or nothing
    if isinstance(e, exp.Count | exp.CountIf | exp.RowNumber | exp.Rank | exp.DenseRank):
        return (0.0, math.inf)
    if isinstance(e, exp.Sum):
        low, high = ends(e.this, lookup)
        return (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
    if isinstance(e, exp.Lag | exp.Lead) and e.args.get("default") is not None:
        return nothing
    if isinstance(e, exp.Window | exp.Min | exp.Max | exp.Avg | exp.Lag | exp.Lead):
        return ends(e.this, lookup)
    if isinstance(e, exp.Boolean | exp.Predicate | exp.And | exp.Or | exp.Not):
        return (0.0, 1.0)
    if isinstance(e, exp.Neg):
        low, high = ends(e.this, lookup)
        return (-high, -low)
    if isinstance(e, exp.Abs):
        low, high = ends(e.this, lookup)
        return (0.0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))
    if isinstance(e, exp.Round | exp.Trunc) and e.args.get("decimals") is not None:
        return _rounded(e.args["decimals"], ends(e.this, lookup))
    if isinstance(e, exp.Round | exp.Floor | exp.Ceil | exp.Trunc):
        return _outward(ends(e.this, lookup))
    if isinstance(e, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _arithmetic(e, ends(e.left, lookup), ends(e.right, lookup))
    if isinstance(e, exp.Least | exp.Greatest):
        return _extreme(e, lookup)
    if isinstance(e, exp.Coalesce):
        return _hull([ends(p, lookup) for p in [e.this, *e.expressions]])
    if isinstance(e, exp.Case):
        branches = [i.args["true"] for i in e.args["ifs"]]
        default = e.args.get("default")
        return _branches([*branches, *([default] if default else [])], lookup)
    if isinstance(e, exp.If):
        default = e.args.get("false")
        return _branches([e.args["true"], *([default] if default else [])], lookup)
    return nothing


def _outward(x: Interval, step: float = 1.0) -> Interval:
    """Return the interval widened to multiples of a step: rounding stays inside."""
    low, high = (v / step if math.isfinite(v) else v for v in x)
    return (
        math.floor(low) * step if math.isfinite(low) else low,
        math.ceil(high) * step if math.isfinite(high) else high,
    )


def _rounded(decimals: exp.Expr, x: Interval) -> Interval:
    negative = isinstance(decimals, exp.Neg)
    digits = decimals.this if negative else decimals
    if not isinstance(digits, exp.Literal) or not digits.this.isdecimal() or len(digits.this) > 2:
        return (-math.inf, math.inf)
    return _outward(x, 10.0 ** int(digits.this) if negative else 1.0)


def _cast(e: exp.Cast | exp.TryCast, x: Interval) -> Interval:
    if e.to.is_type(exp.DataType.Type.BOOLEAN):
        return (0.0, 1.0)
    return x if e.to.is_type(*exp.DataType.FLOAT_TYPES) else _outward(x)


def _literal(e: exp.Literal) -> Interval:
    try:
        value = float(e.this)
    except ValueError:
        value = math.nan
    return (value, value) if math.isfinite(value) else (-math.inf, math.inf)


def _branches(parts: list[exp.Expr], lookup: Lookup) -> Interval:
    return _hull([ends(p, lookup) for p in parts if not isinstance(p, exp.Null)])


def _hull(parts: list[Interval]) -> Interval:
    return (min(p[0] for p in parts), max(p[1] for p in parts)) if parts else (0.0, 0.0)


def _extreme(e: exp.Least | exp.Greatest, lookup: Lookup) -> Interval:
    """LEAST and GREATEST leave NULLs out, so only what is never NULL is sure to cut."""
    args = [e.this, *e.expressions]
    low, high = _hull([ends(a, lookup) for a in args])
    sure = [ends(a, lookup) for a in args if _never_null(a)]
    if isinstance(e, exp.Least):
        return (low, min([high, *(s[1] for s in sure)]))
    return (max([low, *(s[0] for s in sure)]), high)


def _never_null(e: exp.Expr) -> bool:
    if isinstance(e, exp.Neg | exp.Paren | exp.Cast):
        return _never_null(e.this)
    if isinstance(e, exp.Add | exp.Sub | exp.Mul):
        return _never_null(e.left) and _never_null(e.right)
    return isinstance(e, exp.Literal)


def _arithmetic(e: exp.Binary, a: Interval, b: Interval) -> Interval:
    nothing = (-math.inf, math.inf)
    if isinstance(e, exp.Add):
        return (a[0] + b[0], a[1] + b[1])
    if isinstance(e, exp.Sub):
        return (a[0] - b[1], a[1] - b[0])
    if not all(map(math.isfinite, (*a, *b))):
        return nothing
    if isinstance(e, exp.Mul):
        corners = [x * y for x in a for y in b]
        return (min(corners), max(corners))
    if b[0] <= 0 <= b[1]:
        return nothing
    corners = [x / y for x in a for y in b]
    return (min(corners), max(corners))
