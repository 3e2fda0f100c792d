"""Calls of aggregates and window functions in a parsed expression."""

from __future__ import annotations

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language import aggregate_functions
from sparseq.sql.dialect import sql_of

WINDOWED = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.Lag,
    exp.Lead,
    exp.FirstValue,
    exp.LastValue,
    exp.NthValue,
    exp.Ntile,
)
"""Functions that are allowed only in a window."""
BINNED = frozenset(["histogram", "median", "quantile", "quantile_cont"])
"""Aggregates over declared bins; `sparseq.sql.parse.Dialect` parses them with all arguments."""


_AGGREGATE_NAMES: dict[type, str] = {
    exp.CountIf: "countif",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Stddev: "stddev_samp",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}
"""Names in the table of aggregates that differ from sqlglot's."""


def aggregate_name(e: exp.Expr) -> str:
    """Return the name of an aggregate or window function in the table; "" if it is neither.

    Example:
        >>> from sqlglot import parse_one
        >>> aggregate_name(parse_one("count_if(x)")), aggregate_name(parse_one("x + 1"))
        ('countif', '')
    """
    if not isinstance(e, exp.Func) or isinstance(e, exp.Anonymous):
        return ""
    name = _AGGREGATE_NAMES.get(type(e)) or e.sql_name().lower()
    return name if aggregate_functions.overloads(name) else ""


def chooses(e: exp.Expr) -> bool:
    """Tell whether the value of an expression is a value of its `this`, or NULL."""
    if isinstance(e, exp.Window | exp.Filter | exp.IgnoreNulls):
        return True
    return any(f.chooses for f in aggregate_functions.overloads(aggregate_name(e)))


def counts(e: exp.Expr) -> bool:
    """Tell whether an expression is never negative, and not NULL over at least one row: a count."""
    return any(f.counts for f in aggregate_functions.overloads(aggregate_name(e)))


def value_over_no_rows(e: exp.Expr) -> int | None:
    """Return the value of an aggregate over no rows; None means NULL.

    Example:
        >>> from sqlglot import parse_one
        >>> [value_over_no_rows(parse_one(e)) for e in ("count(x)", "sum(x)")]
        [0, None]
    """
    of = e.this if isinstance(e, exp.Filter) else e
    return next((f.over_no_rows for f in aggregate_functions.overloads(aggregate_name(of))), None)


def is_binned(e: exp.Expr) -> bool:
    """Tell whether an expression is a binned aggregate, which is found by its name."""
    return isinstance(e, exp.Anonymous) and e.name.lower() in BINNED


def is_aggregate(e: exp.Expr) -> bool:
    """Tell whether an expression is an aggregate and not a window-only function."""
    around = e.parent if isinstance(e.parent, exp.Filter) and e.parent.this is e else e
    if isinstance(around.parent, exp.Window) and around.parent.this is around:
        return False
    known = isinstance(e, exp.AggFunc | exp.Filter) and not isinstance(e, WINDOWED)
    return known or is_binned(e)


def aggregates_in(e: exp.Expr) -> list[exp.Expr]:
    """Return the outermost aggregates in an expression, except those in subqueries.

    Example:
        >>> from sqlglot import parse_one
        >>> [a.sql() for a in aggregates_in(parse_one("1 + sum(a) - sum(max(b)) OVER ()"))]
        ['SUM(a)', 'MAX(b)']
    """
    if isinstance(e, exp.Select | exp.Subquery):
        return []
    if is_aggregate(e):
        return [e]
    return [a for child in e.iter_expressions() for a in aggregates_in(child)]


def check_distinct_order(select: exp.Select) -> None:
    """Refuse SELECT DISTINCT in the order of an aggregate that it does not select.

    Equal rows of its list may have different aggregates: SQL's standard has no such order.

    Raises:
        QueryRefused: There is such an aggregate.
    """
    order = select.args.get("order") if select.args.get("distinct") else None
    shown = {sql_of(e.unalias()) for e in select.expressions}
    for ordered in order.expressions if order is not None else []:
        by = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        if aggregates_in(by) and sql_of(by) not in shown:
            raise QueryRefused(
                f"SELECT DISTINCT does not select {sql_of(by)[:60]}, by which it is ordered",
                "select it too, or leave out DISTINCT",
            )
