"""Rules about clauses that a question has not: samples, limits and HAVING."""

from __future__ import annotations

from sqlglot import exp

from sparseq.sql.suggestion_rules.rule import (
    Refusal,
    RuleTable,
    selects,
)

RULES = RuleTable()
changes = RULES.changes


@changes("leave (TABLESAMPLE|the sampling|FOR UPDATE) out")
def without_sample(refusal: Refusal, tree: exp.Expr) -> bool:
    """Remove sampling and row locks."""
    for node in tree.find_all(exp.Table, exp.Select, exp.Subquery):
        node.set("sample", None)
        node.set("locks", None)
    return True


@changes("^leave it out")
def without_limit(refusal: Refusal, tree: exp.Expr) -> bool:
    """Remove LIMIT: its options, or all of it in subqueries."""
    inner = [s for s in selects(tree) if s is not tree]
    if "inside" not in refusal.message:
        inner, limit = [], tree.args.get("limit")
        if limit is not None:
            limit.set("limit_options", None)
    for select in inner:
        for place in ("limit", "offset", "order"):
            select.set(place, None)
    return True


@changes("^use WHERE")
def where_for_having(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace HAVING without groups by WHERE."""
    for select in selects(tree):
        having = select.args.get("having")
        if having is not None and not select.args.get("group"):
            select.set("having", None)
            select.where(having.this.copy(), copy=False)
    return True
