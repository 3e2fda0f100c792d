"""Rewriting of a query to one normal form, before any binding.

Each rule preserves the meaning in SQL, so that later code handles one form only.
"""

from __future__ import annotations

import datetime as dt

from sqlglot import exp

from sparseq.question.catalog import Catalog
from sparseq.sql.aggregate_calls import BINNED
from sparseq.sql.constants import moment_of
from sparseq.sql.grouping_sets import without_sets
from sparseq.sql.select_rewrites import without_pivot
from sparseq.sql.select_rules import RULES, quantile_lists
from sparseq.sql.spellings import (
    respelt,
)
from sparseq.sql.time_lengths import with_plain_lengths


def rewritten(tree: exp.Expr, catalog: Catalog | None = None) -> exp.Expr:
    """Return a query in the normal form that lowering expects.

    Example:
        >>> from sqlglot import parse_one
        >>> rewritten(parse_one("SELECT a, count(*) FROM t GROUP BY ALL")).sql()
        'SELECT a, COUNT(*) FROM t GROUP BY a'
    """
    if isinstance(tree, exp.Pivot):
        tree = without_pivot(tree, catalog)
    for node in reversed(list(tree.walk())):  # inner nodes first
        if (done := with_plain_lengths(respelt(node))) is not node:
            node.replace(done)
    tree = tree.transform(_node, copy=False)
    for select in reversed(_selects_with(tree, exp.Rollup, exp.Cube, exp.GroupingSets)):
        whole = without_sets(select, catalog)
        if select is tree:
            tree = whole
        elif whole is not select:
            select.replace(_select(whole))
    for united in list(tree.find_all(exp.SetOperation)):
        if _is_value(united):
            united.replace(_select(united.copy()))
    for select in _selects_with(tree, exp.Array):
        quantile_lists(select)
    for select in list(tree.find_all(exp.Select)):
        for rule in RULES:
            rule(select)
    return _select(tree)


def _selects_with(tree: exp.Expr, *kinds: type[exp.Expr]) -> list[exp.Select]:
    """Return the SELECTs that contain an expression of one of these kinds."""
    return [s for s in tree.find_all(exp.Select) if s.find(*kinds) is not None]


def _select(tree: exp.Expr) -> exp.Expr:
    """Return a set operation as SELECT * FROM it; its ORDER BY and LIMIT move to the SELECT."""
    if not isinstance(tree, exp.SetOperation):
        return tree
    select = exp.select("*").from_(exp.Subquery(this=tree, alias=_name("united")))
    for clause in ("with_", "order", "limit", "offset"):
        select.set(clause, tree.args.get(clause))
        tree.set(clause, None)
    return select


def _is_value(united: exp.SetOperation) -> bool:
    """Tell whether a set operation is part of an expression: IN, EXISTS, or a scalar subquery."""
    holder = united.parent if isinstance(united.parent, exp.Subquery) else united
    rows = (exp.From, exp.Join, exp.CTE, exp.Lateral, exp.SetOperation)
    return holder.parent is not None and not isinstance(holder.parent, rows)


def _name(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))


def _node(node: exp.Expr) -> exp.Expr:
    """Rewrite one node: quantiles, approximate distinct counts, and the current day and time."""
    if isinstance(node, exp.CurrentDate):
        return exp.cast(exp.Literal.string(dt.date.today().isoformat()), "DATE")
    if _is_now(node):
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
        return exp.cast(exp.Literal.string(now.isoformat(" ")), "TIMESTAMPTZ")
    if isinstance(node, exp.ApproxDistinct):
        return exp.Count(this=exp.Distinct(expressions=[node.this]))
    if isinstance(node, exp.ApproxQuantile):
        return _quantile("quantile", node.this, node.args["quantile"])
    if isinstance(node, exp.PercentileDisc) and node.expression is not None:
        return _quantile("quantile", node.this, node.expression)
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, _PERCENTILES):
        (ordered,) = node.expression.expressions
        if not ordered.args.get("desc"):
            exact = isinstance(node.this, exp.PercentileDisc)
            return _quantile("quantile" if exact else "quantile_cont", ordered.this, node.this.this)
    if isinstance(node, exp.Table | exp.Column) and node.db.lower() == "main" and not node.catalog:
        node.set("db", None)
    if (other := moment_of(node)) is not None:
        return other
    return node


_PERCENTILES = (exp.PercentileCont, exp.PercentileDisc)


def _is_now(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and node.name.lower() in (
        "now",
        "get_current_timestamp",
    )
    return named or isinstance(node, exp.CurrentTimestamp)


def _quantile(name: str, value: exp.Expr, share: exp.Expr) -> exp.Expr:
    assert name in BINNED
    return exp.Anonymous(this=name, expressions=[value, share])
