"""Rewritten queries of one kind of hint, by the rules of one subject alone."""

from __future__ import annotations

from collections.abc import Sequence

from sparseq.question.catalog import Catalog, Column, Table
from sparseq.sql.suggestion_rules.rule import HintRule, Refusal

CATALOG = Catalog(
    (
        Table("t", (Column("who", "BIGINT"), Column("x", "DOUBLE"), Column("k", "VARCHAR")), "who"),
        Table("u", (Column("who", "BIGINT"), Column("y", "DOUBLE")), "who"),
    )
)


def rewritten(
    rules: Sequence[HintRule], text: str, hint: str, message: str = ""
) -> list[tuple[str, bool]]:
    """Return the queries that the rules for a hint yield, and whether they mean the same."""
    found = []
    for rule in rules:
        if match := rule.pattern.search(hint):
            refusal = Refusal(text, message, match, CATALOG)
            same = rule.same if isinstance(rule.same, bool) else rule.same(refusal)
            found += [(query, same) for query in rule.queries(refusal)]
    return found
