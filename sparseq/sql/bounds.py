"""Public bounds of an expression's values, by interval arithmetic (the rules of the table).

They set the scale of the noise. Privacy does not depend on them: wrong bounds cost accuracy, and
the charge is computed from the users' actual contributions.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable

import numpy as np
from sqlglot import exp

from sparseq.language.interval_arithmetic import lies_in
from sparseq.language.interval_rules import rule_of
from sparseq.sql.aggregate_calls import chooses, counts
from sparseq.sql.spellings import call_of

Interval = tuple[float, float]
_LONGEST = {"YEAR": 366, "QUARTER": 92, "MONTH": 31, "WEEK": 7}
_SHORTEST = {"YEAR": 365, "QUARTER": 90, "MONTH": 28, "WEEK": 7, "DAY": 1}
EPOCH = dt.date(1970, 1, 1)
Lookup = Callable[[exp.Expr], Interval | None]


def interval(e: exp.Expr, lookup: Lookup) -> Interval | None:
    """Return an interval that holds every value of `e`, or None.

    Args:
        e: A numeric expression.
        lookup: Returns the known bounds of a column or a subexpression: declared, or from a WHERE.

    Example:
        >>> from sqlglot import parse_one
        >>> interval(parse_one("least(greatest(x, 0), 100) * -2"), lambda c: None)
        (-200.0, -0.0)
    """
    low, high = ends(e, lookup)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def ends(e: exp.Expr, lookup: Lookup) -> Interval:
    """Return an interval that holds every value of `e`; an unknown end is infinite."""
    low, high = _ends(e, lookup)
    known = None if isinstance(e, exp.Column | exp.Literal | exp.Paren) else lookup(e)
    if known is not None and max(low, known[0]) <= min(high, known[1]):
        return max(low, known[0]), min(high, known[1])
    return low, high


def _ends(e: exp.Expr, lookup: Lookup) -> Interval:
    nothing = (-math.inf, math.inf)
    if isinstance(e, exp.Paren):
        return ends(e.this, lookup)
    if isinstance(e, exp.Cast | exp.TryCast):
        return _cast(e, ends(e.this, lookup))
    if isinstance(e, exp.Literal):
        return _literal(e)
    if isinstance(e, exp.Column):
        return lookup(e) or nothing
    if isinstance(e, exp.Window | exp.Filter) and isinstance(e.this, exp.Ntile):
        return ends(e.this, lookup)
    if isinstance(e, exp.Ntile) and isinstance(e.this, exp.Literal) and e.this.this.isdecimal():
        return (1.0, max(float(e.this.this), 1.0))
    if counts(e):
        return (0.0, math.inf)
    if isinstance(e, exp.Length | exp.ArraySize | exp.StrPosition):
        return (0.0, math.inf)
    if isinstance(e, exp.Anonymous) and e.name.lower() == "json_array_length":
        return (0.0, math.inf)
    if isinstance(e, exp.Sub) and _counts_signs(e):
        return (0.0, math.inf)
    if isinstance(e, exp.Sum):
        low, high = ends(e.this, lookup)
        return (0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
    if isinstance(e, exp.Lag | exp.Lead) and e.args.get("default") is not None:
        return nothing
    if isinstance(e, exp.Avg) or chooses(e):
        return ends(e.this, lookup)
    if isinstance(e, exp.Extract) and e.this.name.upper() == "YEAR":
        return _of_days(exp.Year(this=e.expression), lookup)
    if isinstance(e, exp.DateTrunc | exp.TimestampTrunc | exp.DateDiff | exp.Year):
        return _of_days(e, lookup)
    if isinstance(e, exp.Boolean | exp.Predicate | exp.And | exp.Or | exp.Not):
        return (0.0, 1.0)
    if isinstance(e, exp.Least | exp.Greatest):
        return _extreme(e, lookup)
    if (called := call_of(e)) is not None and (rule := rule_of(called[0], len(called[1]))):
        found = lies_in(rule, *(ends(part, lookup) for part in called[1]))
        low, high = (float(end) for end in found)
        if math.isnan(low) or math.isnan(high):
            return nothing
        return _outward((low, high)) if isinstance(e, exp.IntDiv) else (low, high)
    if isinstance(e, exp.Coalesce):
        return _hull([ends(p, lookup) for p in [e.this, *e.expressions]])
    if isinstance(e, exp.Case):
        met = [i for i in e.args["ifs"] if e.this is not None or ends(i.this, lookup) != (0.0, 0.0)]
        branches = [i.args["true"] for i in met]
        default = e.args.get("default")
        return _branches([*branches, *([default] if default else [])], lookup)
    if isinstance(e, exp.If):
        default = e.args.get("false")
        return _branches([e.args["true"], *([default] if default else [])], lookup)
    return nothing


def of_rows(e: exp.Expr, most: int | None, lookup: Lookup) -> Interval | None:
    """Return the bounds of a count or a sum over at most `most` rows, or None if they are unknown.

    Example:
        >>> from sqlglot import parse_one
        >>> of_rows(parse_one("sum(least(greatest(x, 0), 100))"), 5, lambda c: None)
        (0.0, 500.0)
    """
    if most is not None and isinstance(e, exp.Count | exp.CountIf):
        return (0.0, float(most))
    if most is not None and isinstance(e, exp.Sum):
        low, high = ends(e.this, lookup)
        return (min(low, 0.0) * most, max(high, 0.0) * most)
    return None


def _outward(x: Interval, step: float = 1.0) -> Interval:
    """Return the interval widened to multiples of a step, so that rounded values stay inside."""
    low, high = (v / step if math.isfinite(v) else v for v in x)
    return (
        math.floor(low) * step if math.isfinite(low) else low,
        math.ceil(high) * step if math.isfinite(high) else high,
    )


def _of_days(e: exp.Expr, lookup: Lookup) -> Interval:
    """Return the bounds of a function of times, whose own bounds are in days since 1970."""
    if isinstance(e, exp.DateDiff):
        a, b = ends(e.expression, lookup), ends(e.this, lookup)
        low, high = _difference((b[0] - a[1], b[1] - a[0]), _unit(e))
        return (max(low, 0.0), max(high, 0.0)) if _in_order(e.expression, e.this) else (low, high)
    low, high = ends(e.this, lookup)
    if isinstance(e, exp.Year):
        if not -700_000 < low <= high < 2_900_000:
            return (-math.inf, math.inf)
        years = (EPOCH + dt.timedelta(days=math.floor(day)) for day in (low, high))
        first, last = (day.year for day in years)
        return (first, last)
    return (low - _LONGEST.get(_unit(e), 1), high)


def _counts_signs(e: exp.Sub) -> bool:
    """Tell whether an expression is length(x) - length(replace(x, 'a', '')): never negative."""
    sides = [s.this if isinstance(s, exp.Length) else None for s in (e.this, e.expression)]
    cut = sides[1]
    if not isinstance(cut, exp.Replace) or sides[0] != cut.this:
        return False
    old, new = cut.expression, cut.args["replacement"]
    written = all(isinstance(x, exp.Literal) and x.is_string for x in (old, new))
    return written and len(new.name) <= len(old.name)


def _in_order(a: exp.Expr, b: exp.Expr) -> bool:
    """Tell whether a <= b by definition: min(t) and max(t)."""
    return isinstance(a, exp.Min) and isinstance(b, exp.Max) and bool(a.this == b.this)


def _difference(days: Interval, unit: str) -> Interval:
    """Return the bounds of the number of unit boundaries between two times `days` apart."""
    low, high = days
    if unit not in _SHORTEST or not (math.isfinite(low) and math.isfinite(high)):
        return (-math.inf, math.inf)  # in hours the noise scale would be far too large
    if unit == "DAY":
        return days
    length = _SHORTEST[unit]
    return (min(low / length - 1, 0) // 1, -(-max(high / length + 1, 0) // 1))


def _unit(e: exp.Expr) -> str:
    unit = e.args.get("unit")
    return unit.name.upper() if unit is not None else "DAY"


def _cast(e: exp.Cast | exp.TryCast, x: Interval) -> Interval:
    if e.to.is_type(*exp.DataType.TEMPORAL_TYPES) and isinstance(e.this, exp.Literal):
        return _day(e.this)
    if e.to.is_type(exp.DataType.Type.BOOLEAN):
        return (0.0, 1.0)
    if e.to.is_type(exp.DataType.Type.FLOAT):  # rounding is monotone
        with np.errstate(over="ignore"):
            return float(np.float32(x[0])), float(np.float32(x[1]))
    return x if e.to.is_type(*exp.DataType.FLOAT_TYPES) else _outward(x)


def _day(e: exp.Literal) -> Interval:
    """Return the bounds of a literal date or timestamp, in days since 1970."""
    try:
        day = dt.datetime.fromisoformat(e.this.strip()).date()
    except ValueError:
        return (-math.inf, math.inf)
    return (float((day - EPOCH).days),) * 2


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
    """Return the bounds of LEAST or GREATEST; a part that may be NULL does not limit them."""
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
