"""Keys of which each value belongs to one person: joins and groups by them stay within people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from sqlglot import exp

from sparseq.question.catalog import Catalog, Table


def prefer_own(tree: exp.Select, catalog: Catalog) -> None:
    """Qualify a column with its own table, where another table has it only through its link."""
    linked = {t.name.lower(): t for t in catalog.private if t.link is not None}
    users = {t.user.lower() for t in linked.values()}
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for column in list(tree.find_all(exp.Column)):
        select = column.parent_select
        if column.table or column.name.lower() not in users or not isinstance(select, exp.Select):
            continue
        start = select.args.get("from_") or select.args.get("from")
        items = [j.this for j in select.args.get("joins") or []] + ([start.this] if start else [])
        having = {
            item.alias_or_name: item.name.lower() not in linked
            for item in items
            if isinstance(item, exp.Table)
            and item.name.lower() not in ctes
            and column.name.lower() in (c.name.lower() for c in catalog.table(item.name).columns)
        }
        own = [alias for alias, itself in having.items() if itself]
        if len(own) == 1 and len(having) > 1:
            column.set("table", exp.to_identifier(own[0]))


def join_people(tree: exp.Select, catalog: Catalog) -> None:
    """Add the condition "same person" to tables that are joined on a key which identifies people.

    Each value of a link's key belongs to one person (`sparseq.load._duckdb.linked_rows`), so the
    condition removes no rows, except those of a person who arrived later with another person's key.
    A column of one name, declared to belong to one person in both tables (`@own`), is such a key.
    """
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    stored = {t.name.lower(): t for t in catalog.private if t.name.lower() not in ctes}
    for select in list(tree.find_all(exp.Select)):
        known = _aliases(select, stored)
        _correlate(select, stored, catalog)
        for holder, conditions in _conditions(select):
            for pair in _same_people(conditions, known, catalog):
                left, right = _users(pair, known)
                same = exp.EQ(this=left, expression=right)
                name = "this" if isinstance(holder, exp.Where) else "on"
                holder.set(name, exp.and_(*conditions_in(holder), same, copy=False))


def group_people(tree: exp.Select, catalog: Catalog) -> None:
    """Add the user to the groups of subqueries by what is one person's, such as a session.

    Unless the WHERE looks at it: its values may then be listed, and the groups public.
    """
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    stored = {t.name.lower(): t for t in catalog.private if t.name.lower() not in ctes}
    for select in list(tree.find_all(exp.Select)):
        group, where = select.args.get("group"), select.args.get("where")
        if group is None or select is tree or group.args.get("rollup") or group.args.get("cube"):
            continue
        known = _aliases_inside(select, stored)
        columns = [k for k in group.expressions if isinstance(k, exp.Column) and k.table in known]
        users = {(k.table, known[k.table].user.lower()) for k in columns}
        if any((k.table, k.name) in users for k in columns):
            continue
        seen = set() if where is None else {(c.table, c.name) for c in where.find_all(exp.Column)}
        own = [
            k
            for k in columns
            if (k.table, k.name) not in seen and (k.name,) in _owned(known[k.table])
        ]
        if own:
            (user,) = _users((own[0].table,), known)
            group.append("expressions", user)


def _correlate(select: exp.Select, stored: Mapping[str, Table], catalog: Catalog) -> None:
    """Rewrite `key IN (SELECT key …)` so that it compares both the keys and the people."""
    around = select.parent.parent if isinstance(select.parent, exp.Subquery) else select.parent
    if not isinstance(around, exp.In) or len(select.expressions) != 1:
        return
    own, outer, known = select.expressions[0].unalias(), around.this, _aliases(select, stored)
    held = exp.EQ(this=own.copy(), expression=outer.copy())
    pairs = _same_people([held], known, catalog)
    if not pairs:
        return
    mine, theirs = sorted(_users(pairs[0], known), key=lambda c: c.table != own.table)
    group = select.args.get("group")
    if group is None:
        select.where(exp.EQ(this=mine, expression=theirs), copy=False)
    elif isinstance(around.find_ancestor(exp.Where, exp.Not, exp.Or, exp.Select), exp.Where):
        inside = select.copy()  # EXISTS equals IN where NULL filters the row
        inside.set(
            "expressions", [exp.alias_(own.copy(), "key"), exp.alias_(mine.copy(), "person")]
        )
        inside.set("group", exp.Group(expressions=[*group.expressions, mine.copy()]))
        there = exp.select("1").from_(inside.subquery("#grouped"))
        for name, column in (("key", outer), ("person", theirs)):
            inner = exp.column(name, "#grouped", quoted=True)
            there.where(exp.EQ(this=inner, expression=column.copy()), copy=False)
        around.replace(exp.Exists(this=there))


def _aliases(select: exp.Select, stored: Mapping[str, Table]) -> dict[str, Table]:
    """Return the private tables that a SELECT can name, also those of SELECTs around it."""
    found: dict[str, Table] = {}
    at: exp.Expr | None = select
    while at is not None:
        outer = _aliases_inside(at, stored)
        found |= {alias: table for alias, table in outer.items() if alias not in found}
        at = at.parent_select
    return found


def _aliases_inside(select: exp.Expr, stored: Mapping[str, Table]) -> dict[str, Table]:
    items = [j.this for j in select.args.get("joins") or []]
    start = select.args.get("from_") or select.args.get("from")
    return {
        item.alias_or_name: stored[item.name]
        for item in ([*items, start.this] if start is not None else items)
        if isinstance(item, exp.Table) and item.name in stored
    }


def _owned(table: Table) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of which no value is of two people, each as a key of one column."""
    if table.window is not None:  # an account is of one window, and a value may be of several
        return {}
    return {(c.name.lower(),): (c.name,) for c in table.columns if c.owned}


def _users(pair: Sequence[str], known: Mapping[str, Table]) -> list[exp.Column]:
    return [exp.column(known[alias].user.lower(), alias, quoted=True) for alias in pair]


def _conditions(select: exp.Select) -> Iterator[tuple[exp.Expr, list[exp.Expr]]]:
    """Yield the WHERE and each ON, with all conditions that hold where it does."""
    where = select.args.get("where")
    joins = [j for j in select.args.get("joins") or [] if j.args.get("on") is not None]
    inner = [*([where] if where else []), *(j for j in joins if (j.side or "") == "")]
    everywhere = [part for holder in inner for part in conditions_in(holder)]
    if inner:  # WHERE, or the last ON, which sees all tables
        yield inner[0 if where else -1], everywhere
    for join in joins:
        if join not in inner:
            yield join, conditions_in(join)


def conditions_in(holder: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that a WHERE or a join connects by AND."""
    condition = (holder.this if isinstance(holder, exp.Where) else holder.args["on"]).unnest()
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _same_people(
    conditions: Sequence[exp.Expr], known: Mapping[str, Table], catalog: Catalog
) -> list[tuple[str, str]]:
    """Return the pairs of tables, by alias, for which conditions require one key of one person."""
    equal = set[frozenset[tuple[str, str]]]()
    for part in conditions:
        sides = [part.left, part.right] if isinstance(part, exp.EQ) else []
        columns = [side for side in sides if isinstance(side, exp.Column)]
        if len(columns) == 2:
            equal.add(frozenset((column.table, column.name) for column in columns))
    found = []
    for one, other in combinations(known, 2):
        mine, theirs = (catalog.indexed(known[x]) | _owned(known[x]) for x in (one, other))
        for key in mine.keys() & theirs.keys():
            pairs = zip(mine[key], theirs[key], strict=True)
            if all(frozenset(((one, a.lower()), (other, b.lower()))) in equal for a, b in pairs):
                found.append((one, other))
    return found
