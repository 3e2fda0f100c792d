"""A refused query, rewritten as its hint says.

    refusal → the rule whose pattern its hint has → rewritten queries → the first that is answered

A hint is taken literally, on the query as it was written; where the rewritten query is refused for
something else, that hint is taken too, a few times. What is offered has been lowered, on public
facts alone, so that it is answered as it stands. Edges, ranges and lists, which only the asker can
know, are examples in it. The rules are in `sparseq.sql.suggestions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sparseq.base.errors import QueryRefused
from sparseq.sql.catalog import Catalog
from sparseq.sql.parse import Dialect, split_options

MAX_TEXT, MAX_ROUNDS, MAX_TRIED = 2_000, 5, 8


@dataclass(frozen=True)
class Refusal:
    """A query, and what was said of it.

    Attributes:
        text: The query as it was written.
        message: What was wrong.
        hint: What the rule's pattern has found in the hint.
        catalog: What is public about the tables.
    """

    text: str
    message: str
    hint: re.Match[str]
    catalog: Catalog

    @property
    def name(self) -> str:
        """What the message quotes, or which function it names."""
        found = re.search(r"(?:^|\s)'([^']+)'|function (\S+)\(\)", self.message)
        return (found[1] or found[2]) if found else ""

    @cached_property
    def options(self) -> str:
        """What is written of options, to be put back."""
        without, _ = split_options(self.text)
        differ = [i for i, (a, b) in enumerate(zip(self.text, without, strict=True)) if a != b]
        return self.text[differ[0] : differ[-1] + 1] + " " if differ else ""

    def tree(self) -> exp.Expr:
        """Return the query's tree, to be changed."""
        return sqlglot.parse_one(split_options(self.text)[0], dialect=Dialect)

    def written(self, tree: exp.Expr) -> str:
        """Return a tree as a query, with the options."""
        sql = tree.sql("duckdb", comments=False)
        sql = re.sub(r"CAST\(('[\d-]+') AS DATE\)", r"DATE \1", sql)
        return re.sub("^SELECT ", lambda _: f"SELECT {self.options}", sql)


Rule = Callable[[Refusal], Iterator[str]]
Change = Callable[[Refusal, exp.Expr], bool]


RULES: list[tuple[re.Pattern[str], Rule]] = []
"""Each with the hints that it is for."""


def rule(pattern: str) -> Callable[[Rule], Rule]:
    """Return what makes a function the rule for hints that a pattern is found in."""

    def known(function: Rule) -> Rule:
        RULES.append((re.compile(pattern), function))
        return function

    return known


def changes(pattern: str) -> Callable[[Change], Change]:
    """Return what makes a function that changes a tree, and says whether, the rule for hints."""

    def known(function: Change) -> Change:
        RULES.append((re.compile(pattern), partial(_changed, function)))
        return function

    return known


def _changed(change: Change, refusal: Refusal) -> Iterator[str]:
    tree = refusal.tree()
    if change(refusal, tree):
        yield refusal.written(tree)


def parsed(text: str) -> exp.Expr:
    """Return the tree of SQL."""
    return sqlglot.parse_one(text, dialect=Dialect)


def selects(tree: exp.Expr) -> list[exp.Select]:
    """Return all SELECTs of a query."""
    return list(tree.find_all(exp.Select))


def replaced(tree: exp.Expr, kind: type[exp.Expr], new: Callable[[exp.Expr], object]) -> bool:
    """Put something in the place of all nodes of a kind, where `new` returns it."""
    done = False
    for node in list(tree.find_all(kind)):
        made = new(node)
        if isinstance(made, exp.Expr):
            node.replace(made)
            done = True
    return done


def mended(
    text: str,
    refused: QueryRefused,
    catalog: Catalog,
    lower: Callable[[str], Any],
    rules: list[tuple[re.Pattern[str], Rule]],
) -> str:
    """Return the query that a refusal's hint, taken literally, leads to; empty: none is answered.

    Args:
        text: The query.
        refused: Why it is not answered.
        catalog: What is public about the tables.
        lower: Refuses what is not answered.
        rules: What each hint asks for.
    """
    tried = {text}
    waiting = [(text, refused)]
    for _ in range(MAX_ROUNDS):
        after = list[tuple[str, QueryRefused]]()
        for query, why in waiting:
            for candidate in _candidates(query, why, catalog, rules):
                if candidate in tried or len(tried) > MAX_TRIED:
                    continue
                tried.add(candidate)
                try:
                    lower(candidate)
                except QueryRefused as again:
                    after.append((candidate, again))
                else:
                    return candidate
        waiting = after
    return ""


def _candidates(
    text: str, why: QueryRefused, catalog: Catalog, rules: list[tuple[re.Pattern[str], Rule]]
) -> Iterator[str]:
    if len(text) > MAX_TEXT:
        return
    for pattern, rule in rules:
        if found := pattern.search(why.hint):
            try:
                yield from rule(Refusal(text, why.message, found, catalog))
            except (SqlglotError, QueryRefused):  # what can't be read can't be rewritten
                continue
