"""Rules for suggestions, by subject: each rewrites a refused query as one kind of hint says.

A rule yields queries in the order in which they are tried. Rules that change a tree are written
with `changes`; the others change the text.
"""

from __future__ import annotations

from sparseq.sql.suggestion_rules import aggregates, clauses, constants, groups, names, people
from sparseq.sql.suggestion_rules.rule import HintRule

RULES: list[HintRule] = [
    *names.RULES,
    *people.RULES,
    *groups.RULES,
    *aggregates.RULES,
    *clauses.RULES,
    *constants.RULES,
]
