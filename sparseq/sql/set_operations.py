"""UNION, INTERSECT and EXCEPT of private subqueries, computed separately for each person.

Every row carries its user's index, which is one of the compared columns. So the result rows with a
user's index depend only on that user's rows on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.base.sql_text import quote
from sparseq.language import types as T
from sparseq.language.casts import cast
from sparseq.language.expression_tree import Term, call
from sparseq.language.types import Family, find_type
from sparseq.sql.from_clause import USER, ColumnFacts, FromItem
from sparseq.sql.parse import said

_WORDS: dict[type, str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def combine(
    tree: exp.SetOperation, alias: str, lower: Callable[[exp.Expr, str], FromItem]
) -> FromItem:
    """Return both sides of a set operation as one source.

    Raises:
        QueryRefused: The columns differ, or only one side is private.
    """
    left, right = lower(tree.this, alias), lower(tree.expression, alias)
    word = _WORDS[type(tree)]
    every = not tree.args.get("distinct")
    if every and word != "UNION":
        raise QueryRefused(f"{word} ALL is not answered", f"use {word}")
    if left.private != right.private:
        raise QueryRefused(
            f"{word} puts rows about people and public rows together",
            "name a private table in both",
        )
    names, others = list(left.columns), list(right.columns)
    if len(names) != len(others):
        raise QueryRefused(f"{word}: the sides have {len(names)} and {len(others)} columns")
    users = {n for n, o in zip(names, others, strict=True) if n in left.users and o in right.users}
    mixed = [
        n for n, o in zip(names, others, strict=True) if (n in left.users) != (o in right.users)
    ]
    if mixed:
        raise QueryRefused(
            f"{word}: {mixed[0]} is the user on one side only", "select the user in the same place"
        )
    if left.private and not every and not users:
        raise QueryRefused(
            f"{word} keeps one of equal rows, also if they are about different people",
            "select the user on both sides: each row once a person"
            + (", or write UNION ALL" if word == "UNION" else ""),
        )
    columns: dict[str, ColumnFacts] = {}
    sides: tuple[list[str], list[str]] = ([], [])
    for name, other in zip(names, others, strict=True):
        columns[name] = _facts(left.columns[name], right.columns[other])
        if name not in users:
            for side, source, own in ((0, left, name), (1, right, other)):
                sides[side].append(
                    _column(source.columns[own], own, columns[name].type, name, tree)
                )
    operation = f"{word} ALL" if every else word
    user = [USER] if left.private else []
    texts = [
        f"SELECT {', '.join([*user, *side])} FROM {source.derived} AS s"
        for source, side in zip((left, right), sides, strict=True)
    ]
    return FromItem(
        alias,
        left.private,
        users,
        columns,
        derived=f"({f' {operation} '.join(texts)})",
        caps=tuple(dict.fromkeys([*left.caps, *right.caps])),
        most=left.most + right.most,
        people=max(left.people, right.people),
    )


def _facts(a: ColumnFacts, b: ColumnFacts) -> ColumnFacts:
    types = [f.held for f in (a, b)]
    common = T.common(t for t in types if t is not None) if all(types) else None
    common = types[0] if types[0] == types[1] else common
    bounds = None
    if a.bounds is not None and b.bounds is not None:
        bounds = min(a.bounds[0], b.bounds[0]), max(a.bounds[1], b.bounds[1])

    def values() -> list[Any] | None:
        found = [f.values() if f.values is not None else None for f in (a, b)]
        if found[0] is None or found[1] is None:
            return None
        return list(dict.fromkeys([*found[0], *found[1]]))

    def null() -> bool:
        return any(f.null is None or f.null() for f in (a, b))

    type = common.sql if common is not None else ""
    zoned = common is not None and common.zoned
    return ColumnFacts(type, bounds, values=cache(values), null=cache(null), zoned=zoned)


def _column(facts: ColumnFacts, own: str, type: str, name: str, tree: exp.Expr) -> str:
    """Return a side's column in the common type, with one form of zero and one form of NaN."""
    have, wanted = find_type(facts.type), find_type(type)
    done = None if have is None or wanted is None else cast(Term(have, quote(own)), wanted)
    if done is None:
        raise QueryRefused(
            f"{said(tree)[:60]}: {name} is of different types", "write CAST(x AS type)"
        )
    if done.type.family is Family.DOUBLE:
        kind = done.type.sql
        plain = f"CASE WHEN isnan({{0}}) THEN CAST('nan' AS {kind}) ELSE {{0}} + 0 END"
        done = call("plain", plain, done.type, done)
    return f"{done.sql} AS {quote(name)}"
