"""Public tables that say something of a coded column: joined by a key that they have but once.

Such a join leaves each row of the private table as it is, or out: what the public table's columns
are follows from the row's string. So it is worked out once for each string, as a function of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

from sqlglot import exp

from sparseq.language.expression_tree import Term
from sparseq.sql.from_clause import FromItem, quoted, source_sql
from sparseq.sql.plan import Lookup
from sparseq.sql.public_database import PublicFacts


def lookups_of(
    sources: Mapping[str, FromItem],
    joins: Sequence[tuple[FromItem, Sequence[exp.Expr]]],
    public: PublicFacts,
    truth: Callable[[exp.Expr], Term],
) -> tuple[Lookup, ...] | None:
    """Return all sources but one as lookups; None: one of them is more than that.

    Args:
        sources: Of a join, by alias.
        joins: All but the first, and the conditions that each is joined on.
        public: What is known of public tables.
        truth: Reads a condition.
    """
    on = [c for source, conditions in joins if not source.optional for c in conditions]
    found = [_lookup(sources, condition, public, truth) for condition in on]
    lookups = [lookup for lookup in found if lookup is not None]
    named = {lookup.alias for lookup in lookups}
    if len(lookups) < len(found) or len(lookups) != len(named) or len(named) + 1 != len(sources):
        return None
    return tuple(lookups)


def _lookup(
    sources: Mapping[str, FromItem],
    condition: exp.Expr,
    public: PublicFacts,
    truth: Callable[[exp.Expr], Term],
) -> Lookup | None:
    if not isinstance(condition, exp.EQ):
        return None
    for key, own in permutations((condition.left, condition.right)):
        if not (isinstance(key, exp.Column) and isinstance(own, exp.Column)):
            continue
        table, private = sources[key.table], sources[own.table]
        there, here = table.columns.get(key.name), private.columns.get(own.name)
        if table.private or table.table is None or private.table is None or not (there and here):
            continue
        coded = here.stored is not None and here.stored.coded
        if coded and there.type == here.type == "VARCHAR":
            rows = source_sql(table)
            if public.most_rows(rows, [key.sql("duckdb")]) <= 1:
                on = truth(condition)
                column = next((t for t in on.arguments if t.sql == own.sql("duckdb")), None)
                return None if column is None else Lookup(quoted(table.alias), rows, on, column)
    return None
