"""Rules that keep the rows of each person together: joins, windows, sets and subqueries."""

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


@changes(r"^add ON (\w+)\.(\w+) = (\w+)\.(\w+)")
def joined_by_user(refusal: Refusal, tree: exp.Expr) -> bool:
    """Join two tables on the user."""
    tables = {refusal.hint[1], refusal.hint[3]}
    condition = parse_sql(refusal.hint[0].removeprefix("add ON "))
    joins = [join for join in tree.find_all(exp.Join) if join.this.alias_or_name in tables]
    for join in joins[-1:]:
        if using := join.args.get("using"):
            if refusal.hint[2] == refusal.hint[4]:
                join.set("using", [*using, exp.to_identifier(refusal.hint[2])])
                continue
            join.set("using", None)
            pairs = [f"{refusal.hint[1]}.{u.name} = {refusal.hint[3]}.{u.name}" for u in using]
            join.set("on", parse_sql(" AND ".join(pairs)))
        on = join.args.get("on")
        told = on is None or (isinstance(on, exp.Boolean) and on.this)
        join.set("on", condition if told else exp.and_(condition, on))
        for place in ("kind", "method"):
            join.set(place, None)
    return bool(joins)


@changes("use JOIN or LEFT JOIN")
def left_join(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace another kind of join by a LEFT JOIN."""
    joins = [j for j in tree.find_all(exp.Join) if j.side in ("FULL", "RIGHT") or j.method]
    for join in joins:
        join.set("side", None if join.method == "POSITIONAL" else "LEFT")
        join.set("method", None)
    return bool(joins)


@changes("put the private table first")
def private_first(refusal: Refusal, tree: exp.Expr) -> bool:
    """Swap the two tables of a LEFT JOIN."""
    for select in selects(tree):
        joins = select.args.get("joins") or []
        start = select.args.get("from_")
        if start is not None and len(joins) == 1:
            first, second = start.this, joins[0].this
            start.set("this", second.copy())
            joins[0].set("this", first.copy())
            return True
    return False


@rule("say that its user is the outer row's")
def own_rows_only(refusal: Refusal) -> Iterator[str]:
    """Restrict a subquery to the person's own rows."""
    users = {t.name.lower(): t.user for t in refusal.catalog.tables if t.private}
    for i in range(len(selects(refusal.tree()))):
        tree = refusal.tree()
        select = selects(tree)[i]
        outer = select.parent_select
        inside, outside = (s.find(exp.From) if s is not None else None for s in (select, outer))
        if inside is None or outside is None or outer is None:
            continue
        own, others = inside.this, outside.this
        if not all(isinstance(t, exp.Table) and t.name.lower() in users for t in (own, others)):
            continue
        if own.alias_or_name.lower() == others.alias_or_name.lower():
            own.set("alias", exp.TableAlias(this=exp.to_identifier("own")))
        condition = (
            f"{own.alias_or_name}.{users[own.name.lower()]} = "
            f"{others.alias_or_name}.{users[others.name.lower()]}"
        )
        select.where(condition, copy=False, dialect=Dialect)
        yield refusal.written(tree)


@rule(r"^add PARTITION BY (\w+): each person's own rows")
def windows_by_user(refusal: Refusal) -> Iterator[str]:
    """Partition windows by user: all windows that allow it, or each one separately."""
    user, number = refusal.hint[1], len(list(refusal.tree().find_all(exp.Window)))
    distinct_on = refusal.tree()
    for select in selects(distinct_on):
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            distinct.args["on"].append("expressions", exp.column(user))
            yield refusal.written(distinct_on)
    for chosen in (range(number), *([i] for i in range(number))):
        tree = refusal.tree()
        windows = list(tree.find_all(exp.Window))
        for window in (windows[i] for i in chosen):
            parts = window.args.get("partition_by") or []
            if user not in {p.name for p in parts}:
                window.set("partition_by", [exp.column(user), *parts])
        yield refusal.written(tree)


@changes(r"^select (\w+) too: each value once a person")
def distinct_by_user(refusal: Refusal, tree: exp.Expr) -> bool:
    """Select the user in an inner SELECT DISTINCT."""
    inner = [s for s in selects(tree) if s is not tree and s.args.get("distinct")]
    for select in inner:
        if refusal.hint[1] not in {e.alias_or_name for e in select.expressions}:
            select.set("expressions", [exp.column(refusal.hint[1]), *select.expressions])
    return bool(inner)


@changes(r"or write UNION ALL$")
def every_row(refusal: Refusal, tree: exp.Expr) -> bool:
    """Replace UNION by UNION ALL."""
    unions = [u for u in tree.find_all(exp.Union) if u.args.get("distinct")]
    for union in unions:
        union.set("distinct", False)
    return bool(unions)
