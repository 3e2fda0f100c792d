"""Joins of a text column with a public table that has each key at most once.

Such a join keeps or drops each row of the private table: the row's string determines the values of
the public columns. So they are computed once for each string, like a function of the string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

from sqlglot import exp

from sparseq.language.expression_tree import Term
from sparseq.sql.from_clause import FromItem, source_sql
from sparseq.sql.public_database import PublicFacts


def joins_once(
    sources: Mapping[str, FromItem],
    joins: Sequence[tuple[FromItem, Sequence[exp.Expr]]],
    public: PublicFacts,
    truth: Callable[[exp.Expr], Term],
) -> bool:
    """Tell whether each row has at most one match in every other source: a public table, by text.

    Args:
        sources: The sources of a join, by alias.
        joins: All sources but the first, with the conditions of each join.
        public: The facts about public tables.
        truth: Returns a condition as a term.
    """
    on = [c for source, conditions in joins if not source.optional for c in conditions]
    found = [_joined_once(sources, condition, public, truth) for condition in on]
    return None not in found and len(found) == len(set(found)) == len(sources) - 1


def _joined_once(
    sources: Mapping[str, FromItem],
    condition: exp.Expr,
    public: PublicFacts,
    truth: Callable[[exp.Expr], Term],
) -> str | None:
    """Return the alias of a public table with at most one row for each string of a column."""
    if not isinstance(condition, exp.EQ):
        return None
    for key, own in permutations((condition.left, condition.right)):
        if not (isinstance(key, exp.Column) and isinstance(own, exp.Column)):
            continue
        table, private = sources[key.table], sources[own.table]
        there, here = table.columns.get(key.name), private.columns.get(own.name)
        if table.private or table.table is None or private.table is None or not (there and here):
            continue
        if here.stored is None or not there.type == here.type == "VARCHAR":
            continue
        if public.most_rows(source_sql(table), [key.sql("duckdb")]) <= 1:
            names = [term.sql for term in truth(condition).arguments]
            return table.alias if own.sql("duckdb") in names else None
    return None
