"""A rule that rewrites a refused query as its hint says, and the refusal that it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import sqlglot
from sqlglot import exp

from sparseq.question.catalog import Catalog
from sparseq.sql.parse import Dialect, split_options

OTHER = "other"
"""The name of a column that a rule renames."""


@dataclass(frozen=True)
class Refusal:
    """A refused query, with its error.

    Attributes:
        text: The query as it was written.
        message: The error message.
        hint: The match of the rule's pattern in the hint.
        catalog: The public facts of the tables.
    """

    text: str
    message: str
    hint: re.Match[str]
    catalog: Catalog

    @property
    def name(self) -> str:
        """The word that the message quotes, or the function that it names."""
        found = re.search(r"(?:^|\s)'([^']+)'|function (\S+)\(\)", self.message)
        return (found[1] or found[2]) if found else ""

    @cached_property
    def options(self) -> str:
        """The options as they are written, for the rewritten query."""
        without, _ = split_options(self.text)
        differ = [i for i, (a, b) in enumerate(zip(self.text, without, strict=True)) if a != b]
        return self.text[differ[0] : differ[-1] + 1] + " " if differ else ""

    def tree(self) -> exp.Expr:
        """Return the query's tree, for a rule to change."""
        return sqlglot.parse_one(split_options(self.text)[0], dialect=Dialect)

    def written(self, tree: exp.Expr) -> str:
        """Return a tree as a query, with the options."""
        sql = tree.sql("duckdb", comments=False)
        sql = re.sub(r"CAST\(('[\d-]+') AS DATE\)", r"DATE \1", sql)
        return re.sub("^SELECT ", lambda _: f"SELECT {self.options}", sql)


Rule = Callable[[Refusal], Iterator[str]]
Change = Callable[[Refusal, exp.Expr], bool]
Same = bool | Callable[[Refusal], bool]


@dataclass(frozen=True)
class HintRule:
    """A rule for one kind of hint.

    Attributes:
        pattern: The pattern of the hints that it handles.
        queries: Returns the rewritten queries of a refused query.
        same: Its queries have the same meaning; or a function that decides this for a refusal.
    """

    pattern: re.Pattern[str]
    queries: Rule
    same: Same


class RuleTable(list[HintRule]):
    """Rules, in the order in which they are tried."""

    def rule(self, pattern: str, same: Same = False) -> Callable[[Rule], Rule]:
        """Return a decorator that adds a function as the rule for hints with a pattern."""

        def known(function: Rule) -> Rule:
            self.append(HintRule(re.compile(pattern), function, same))
            return function

        return known

    def changes(self, pattern: str, same: Same = False) -> Callable[[Change], Change]:
        """Return such a decorator for a function that changes a tree and tells whether it did."""

        def known(function: Change) -> Change:
            self.append(HintRule(re.compile(pattern), partial(_change, function), same))
            return function

        return known


def _change(change: Change, refusal: Refusal) -> Iterator[str]:
    tree = refusal.tree()
    if change(refusal, tree):
        yield refusal.written(tree)


def parse_sql(text: str) -> exp.Expr:
    """Return the tree of SQL."""
    return sqlglot.parse_one(text, dialect=Dialect)


def selects(tree: exp.Expr) -> list[exp.Select]:
    """Return all SELECTs of a query."""
    return list(tree.find_all(exp.Select))


def replace_nodes(tree: exp.Expr, kind: type[exp.Expr], new: Callable[[exp.Expr], object]) -> bool:
    """Replace all nodes of a kind for which `new` returns a replacement."""
    done = False
    for node in list(tree.find_all(kind)):
        made = new(node)
        if isinstance(made, exp.Expr):
            node.replace(made)
            done = True
    return done
