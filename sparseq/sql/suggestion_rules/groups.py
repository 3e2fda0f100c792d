"""Rules about groups: columns beside aggregates, and keys that nobody has listed."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sparseq.sql.parse import Dialect
from sparseq.sql.suggestion_rules.rule import (
    Refusal,
    RuleTable,
    parse_sql,
    selects,
)

RULES = RuleTable()
rule, changes = RULES.rule, RULES.changes
COUNTED = "count(*) AS n"
DAYS = "DATE '2024-01-01' AND DATE '2024-12-31'"


@rule("add it to GROUP BY")
def grouped(refusal: Refusal) -> Iterator[str]:
    """Group by an item that is neither a group key nor aggregated."""
    key = refusal.message.partition(" is neither")[0]
    for i in range(len(selects(refusal.tree()))):
        tree = refusal.tree()
        selects(tree)[i].group_by(key, copy=False, dialect=Dialect)
        yield refusal.written(tree)


@changes("use an aggregate: COUNT")
def counted(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count the rows instead of showing them."""
    if not isinstance(tree, exp.Select):
        return False
    tree.set("expressions", [parse_sql(f"SELECT {COUNTED}").expressions[0]])
    for place in ("group", "order", "limit", "offset", "distinct", "windows"):
        tree.set(place, None)
    return True


@changes("use GROUP BY and COUNT")
def distinct_counted(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count the rows of each value."""
    if not isinstance(tree, exp.Select):
        return False
    keys = [e.unalias().copy() for e in tree.expressions]
    tree.set("distinct", None)
    tree.group_by(*keys, copy=False).select(COUNTED, copy=False, dialect=Dialect)
    return True


@rule(r"^list them: WHERE (.*?) IN \(…\)")
def listed(refusal: Refusal) -> Iterator[str]:
    """List example values of a text or a number."""
    users = {t.user.lower() for t in refusal.catalog.private}
    if refusal.hint[1].lower() in users or not selects(refusal.tree()):  # it is a PIVOT
        return
    for values in ("'a', 'b'", "1, 2"):
        tree = refusal.tree()
        selects(tree)[0].where(f"{refusal.hint[1]} IN ({values})", copy=False, dialect=Dialect)
        yield refusal.written(tree)


@changes(r"^give a range: WHERE (.*) BETWEEN")
def within_days(refusal: Refusal, tree: exp.Expr) -> bool:
    """Add an example range of days."""
    selects(tree)[0].where(f"{refusal.hint[1]} BETWEEN {DAYS}", copy=False, dialect=Dialect)
    return True
