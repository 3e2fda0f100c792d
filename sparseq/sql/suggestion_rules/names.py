"""Rules about names: spelling, columns of the same name, schemas, and the table of a column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

import sqlglot
from sqlglot import exp

from sparseq.sql.parse import Dialect
from sparseq.sql.suggestion_rules.rule import (
    OTHER,
    Refusal,
    RuleTable,
    selects,
)

RULES = RuleTable()
rule, changes = RULES.rule, RULES.changes
_MOST_SLIPS = 2
_FUNCTIONS = frozenset(exp.FUNCTION_BY_NAME)
"""Names of functions in any SQL dialect; such a name is never a misspelling of another."""


def _rename(refusal: Refusal, old: str, new: str) -> Iterator[str]:
    """Replace a word by another, wherever it occurs."""
    text, done = refusal.text, False
    for token in reversed(list(sqlglot.tokenize(text, dialect=Dialect))):
        if token.text.lower() == old.lower():
            text, done = text[: token.start] + new + text[token.end + 1 :], True
    if done:
        yield text


def _is_slip(refusal: Refusal) -> bool:
    """Tell whether a name is a known one with few typing errors, and is not another function."""
    meant, written = refusal.hint[1].lower(), refusal.name.lower()
    tables = refusal.catalog.tables
    columns = {c.name.lower() for t in tables for c in t.columns}
    known = {"table": {t.name.lower() for t in tables}, "column": columns}
    others = next((names for kind, names in known.items() if kind in refusal.message), set())
    digits = [re.findall(r"\d", name) for name in (meant, written)]
    slips = _slips(written, meant)
    nearest = all(slips < _slips(written, other) for other in others - {meant})
    few = slips <= _MOST_SLIPS and digits[0] == digits[1]
    return few and nearest and written.upper() not in _FUNCTIONS


def _slips(written: str, meant: str) -> int:
    left = SequenceMatcher(None, written, meant).get_matching_blocks()
    return max(len(written), len(meant)) - sum(block.size for block in left)


@rule(r"did you mean '([^']+)'\?", same=_is_slip)
def nearest(refusal: Refusal) -> Iterator[str]:
    """Replace a name by the nearest known name."""
    yield from _rename(refusal, refusal.name, refusal.hint[1])


@rule(r"did you mean (SELECT|WITH)\?", same=True)
def nearest_word(refusal: Refusal) -> Iterator[str]:
    """Correct the spelling of the first word."""
    yield re.sub(r"^\s*\w+", refusal.hint[1], refusal.text, count=1)


@rule("give it another name", same=True)
def other_name(refusal: Refusal) -> Iterator[str]:
    """Rename a column whose name is not allowed."""
    yield from _rename(refusal, refusal.name, OTHER)


@changes(r"rename one: … AS other", same=True)
def told_apart(refusal: Refusal, tree: exp.Expr) -> bool:
    """Rename the second of two columns with the same name."""
    for select in selects(tree):
        same = [e for e in select.expressions if e.alias_or_name.lower() == refusal.name.lower()]
        if len(same) > 1 and isinstance(same[1], exp.Alias):
            same[1].set("alias", exp.to_identifier(OTHER))
            return True
    return False


@changes(r"^write \w+$", same=True)
def without_schema(refusal: Refusal, tree: exp.Expr) -> bool:
    """Remove the qualifiers of table names."""
    for table in tree.find_all(exp.Table):
        table.set("db", None)
        table.set("catalog", None)
    return True


def _is_there(refusal: Refusal, tree: exp.Expr, column: exp.Column) -> bool:
    """Tell whether a column's table qualifier is consistent with the catalog."""
    if not column.table or column.args.get("db"):
        return False
    columns = {t.name.lower(): {c.name.lower() for c in t.columns} for t in refusal.catalog.tables}
    return any(
        column.name.lower() in columns.get(t.name.lower(), {column.name.lower()})
        for t in tree.find_all(exp.Table, exp.Subquery, exp.Values)
        if t.alias_or_name.lower() == column.table.lower()
    )


def _is_of_one_table(refusal: Refusal) -> bool:
    """Tell whether exactly one table of a query without subqueries has the column."""
    if refusal.tree().find(exp.Subquery, exp.CTE, exp.Values):
        return False
    columns = {t.name.lower(): {c.name.lower() for c in t.columns} for t in refusal.catalog.tables}
    tables = {t.alias_or_name: t.name.lower() for t in refusal.tree().find_all(exp.Table)}
    return sum(refusal.name.lower() in columns.get(t, ()) for t in tables.values()) == 1


@rule(r"write table\.column", same=_is_of_one_table)
def of_a_table(refusal: Refusal) -> Iterator[str]:
    """Qualify a column with its table: with each table that has it, in turn."""
    for table in refusal.tree().find_all(exp.Table):
        tree, found = refusal.tree(), False
        for column in tree.find_all(exp.Column):
            if refusal.name.lower() in (column.name.lower(), "") and not _is_there(
                refusal, tree, column
            ):
                for place in ("db", "catalog"):
                    column.set(place, None)
                column.set("table", exp.to_identifier(table.alias_or_name))
                found = True
        if found:
            yield refusal.written(tree)
