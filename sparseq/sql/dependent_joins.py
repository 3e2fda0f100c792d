"""The domain of a dependent join: the distinct values that a subquery uses of the outer row.

Neumann and Kemper, "Unnesting arbitrary queries" (BTW 2015): a correlated subquery is joined with
the set D of distinct values that it uses of the outer row. It then refers to D instead of the outer
row, so it is an ordinary subquery, with some rows for each row of D. The outer query joins it by
the columns of D, where NULL equals NULL. D has no duplicate rows, so each outer row meets exactly
the rows that the subquery has for it, whatever its conditions are.

D is a DISTINCT subquery over the outer FROM, or over the only source in it that the subquery uses.
The user is a column of D (otherwise `sparseq.sql.subqueries` refuses), so each row of D belongs to
one person. Of values that are equal and not identical, such as zero and minus zero, D has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sparseq.sql.parsed_expressions import conjuncts

DOMAIN = "domain"
"""Marks a domain in a tree."""


def sources_of(select: exp.Select) -> list[exp.Expr]:
    """Return the items of a SELECT's FROM."""
    origin = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    return [*([origin.this] if origin is not None else []), *(j.this for j in joins)]


def join_domain(
    inner: exp.Select,
    taken: Sequence[exp.Column],
    outer: tuple[exp.Expr, Sequence[exp.Join]],
    alias: str,
    name: Callable[[int], str],
) -> list[tuple[exp.Column, exp.Column]]:
    """Join a subquery with its domain, in place.

    Args:
        inner: The subquery.
        taken: All columns of the outer row that the subquery uses, as nodes of its tree.
        outer: The first item of the outer FROM, and its joins.
        alias: The alias of the domain in the subquery.
        name: Names the domain's columns, numbered from 0.

    Returns:
        Each column of the outer row once, with the domain's column that equals it.

    Example:
        >>> from sqlglot import parse_one
        >>> inner = parse_one("SELECT b.x FROM b WHERE b.i = a.i AND b.x > a.x")
        >>> taken = [c for c in inner.find_all(exp.Column) if c.table == "a"]
        >>> pairs = join_domain(inner, taken, (exp.to_table("a"), []), "d", "c{}".format)
        >>> print(inner.sql())
        SELECT b.x FROM (SELECT DISTINCT a.i AS "c0", a.x AS "c1" FROM a) AS "d" \
JOIN b ON b.i = "d"."c0" AND b.x > "d"."c1"
    """
    found = {column.sql("duckdb"): column.copy() for column in taken}
    own = {text: exp.column(name(i), alias, quoted=True) for i, text in enumerate(found)}
    for column in taken:
        column.replace(own[column.sql("duckdb")].copy())
    where, first = inner.args.get("where"), sources_of(inner)[0]
    every = conjuncts(where.this if where is not None else None)
    here = {alias, first.alias_or_name}
    on = [  # the conditions that involve only these sources
        c
        for c in every
        if not c.find(exp.Select) and here.issuperset(x.table for x in c.find_all(exp.Column))
    ]
    rest = [c for c in every if not any(c is one for one in on)]
    joined = exp.Join(this=first, on=exp.and_(*on) if on else exp.true())
    shown = [exp.alias_(c, own[text].name, quoted=True) for text, c in found.items()]
    domain = exp.Subquery(
        this=_values(shown, {c.table for c in found.values()}, *outer),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )
    domain.meta[DOMAIN] = True
    inner.set("joins", [joined, *(inner.args.get("joins") or [])])
    inner.set("from_", exp.From(this=domain))
    inner.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    return [(column, own[text]) for text, column in found.items()]


def _values(
    shown: list[exp.Expr], tables: set[str], first: exp.Expr, joins: Sequence[exp.Join]
) -> exp.Select:
    """Return a SELECT DISTINCT of columns, from the one source that has them or from all."""
    items = [first, *(join.this for join in joins)]
    alone = [item for item in items if {item.alias_or_name} == tables]
    values = exp.Select(expressions=[e.copy() for e in shown], distinct=exp.Distinct())
    values.set("from_", exp.From(this=(alone or items)[0].copy()))
    if not alone:
        values.set("joins", [join.copy() for join in joins])
    return values
