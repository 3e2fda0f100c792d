"""Rules about aggregates: bounds, edges, and another aggregate in place of one without noise."""

from __future__ import annotations

import re

from sqlglot import exp

from sparseq.sql.aggregate_calls import BINNED
from sparseq.sql.parse import said
from sparseq.sql.suggestion_rules.rule import (
    Refusal,
    RuleTable,
    parse_sql,
    replace_nodes,
)

RULES = RuleTable()
changes = RULES.changes
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT|INTEGER|UINTEGER|DECIMAL|DOUBLE|FLOAT")


def _is_name(refusal: Refusal, e: exp.Expr) -> bool:
    """Tell whether an expression is a user column, or a column whose type is not numeric."""
    tables = refusal.catalog.tables
    other = {c.name.lower() for t in tables for c in t.columns if not _NUMBERS.match(c.type)}
    return isinstance(e, exp.Column) and e.name.lower() in other | {t.user.lower() for t in tables}


@changes(r"^clamp it, as in SUM\((.*?\(x.*?\))\);")
def clamped(refusal: Refusal, tree: exp.Expr) -> bool:
    """Clamp the summed value, as the hint suggests."""
    found = re.match(r"\w+\((.*)\) has no public scale|sum of (.*) has no public", refusal.message)
    if found is None:
        return False
    term = parse_sql(found[1] or found[2]).sql()
    form = refusal.hint[1]

    def clamp(node: exp.Expr) -> object:
        if node.this is None or not isinstance(node.this, exp.Expr) or node.this.sql() != term:
            return None
        node.set("this", parse_sql(form.replace("x", node.this.sql("duckdb"), 1)))
        return node.copy()

    return replace_nodes(tree, exp.AggFunc, clamp)


@changes(r"^write (\w+\(.*\)) for (.+?)(?::|;|$)")
def written_for(refusal: Refusal, tree: exp.Expr) -> bool:
    """Write one expression in another's place, both as the hint has them."""
    new, old = refusal.hint[1], refusal.hint[2]
    return replace_nodes(tree, exp.Expr, lambda node: parse_sql(new) if said(node) == old else None)


@changes(r"^list the edges: (\w+\(.*?\]\));")
def with_edges(refusal: Refusal, tree: exp.Expr) -> bool:
    """Add example edges."""
    whole = parse_sql(refusal.hint[1])
    first = whole.expressions[0].sql()

    def binned(node: exp.Expr) -> object:
        called = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        kinds = exp.Median | exp.Quantile | exp.ApproxQuantile | exp.PercentileCont
        if called not in BINNED and not isinstance(node, kinds):
            return None
        argument = node.expressions[0] if called else node.this
        fits = argument.sql() == first and not _is_name(refusal, argument)
        return whole.copy() if fits else None

    return replace_nodes(tree, exp.Func, binned)


@changes(r"^use QUANTILE\(.*\), or COUNTIF|^use COUNTIF")
def as_quantile(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace one person's extreme value by a quantile near it and a count."""

    def instead(node: exp.Expr) -> object:
        if isinstance(node, exp.LogicalOr | exp.LogicalAnd):
            return parse_sql(f"countif({node.this.sql('duckdb')})")
        if isinstance(node, exp.Min | exp.Max) and not _is_name(refusal, node.this):
            share = 0.01 if isinstance(node, exp.Min) else 0.99
            return parse_sql(f"quantile({node.this.sql('duckdb')}, {share})")
        return None

    return replace_nodes(tree, exp.AggFunc, instead)


@changes(r"^(count\(DISTINCT \w+\))|(COUNT\(DISTINCT user\)) counts users")
def users_counted(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count people."""
    user = next(t.user for t in refusal.catalog.private)
    people = refusal.hint[1] or f"count(DISTINCT {user})"
    wanted = refusal.message.partition(")")[0].upper()

    def instead(node: exp.Expr) -> object:
        is_it = node.find(exp.Distinct) if refusal.hint[1] else wanted.startswith("SUM")
        return parse_sql(people) if is_it else None

    return replace_nodes(tree, exp.Count if refusal.hint[1] else exp.Sum, instead)


@changes("^leave DISTINCT out")
def without_distinct(refusal: Refusal, tree: exp.Expr) -> bool:
    """Sum all values instead of the distinct ones."""
    return replace_nodes(
        tree, exp.Distinct, lambda d: d.expressions[0].copy() if d.expressions else None
    )


@changes(r"use (COUNT), SUM or HISTOGRAM|use HISTOGRAM or (MEDIAN)|CAST them, or (count) instead")
def summarised(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace an unsupported aggregate by a supported summary."""
    name = next(filter(None, refusal.hint.groups())).lower()
    kinds = exp.ArrayAgg | exp.GroupConcat | exp.List | exp.First | exp.Last | exp.AnyValue
    numbers = exp.Sum | exp.Avg

    def instead(node: exp.Expr) -> object:
        if not isinstance(node, numbers if refusal.hint[3] else kinds):
            return None
        if refusal.hint[2] and _is_name(refusal, node.this):
            return None
        return parse_sql(f"{name}({node.this.sql('duckdb')})")

    return replace_nodes(tree, exp.Func, instead)
