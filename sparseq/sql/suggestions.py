"""Suggestions for refused queries: rules rewrite a query as its hint says, and the result is tried.

A refused query is rewritten as its hint says:

    refusal → the rule whose pattern matches its hint → rewritten queries → the first that is
    answered

A hint is applied literally, to the query as it was written; if the rewritten query is refused for
another reason, that hint is applied too, a few times. A rule declares whether the rewritten query
has the same meaning. If it has not, the query is offered as another question, and its output
columns get other names, so that nobody mistakes its numbers for the requested ones. Every offered
query has been lowered, from public facts alone, so that it is answered as it stands. Edges, ranges
and lists, which only the analyst can know, are examples in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sparseq.base.errors import QueryRefused
from sparseq.question.catalog import Catalog
from sparseq.question.plan import Query
from sparseq.released.render import schema_of
from sparseq.released.result_columns import noised_of
from sparseq.sql.parse import Dialect, split_options
from sparseq.sql.suggestion_rules import RULES
from sparseq.sql.suggestion_rules.rule import OTHER, Refusal, parse_sql

MAX_TEXT, MAX_ROUNDS, MAX_TRIED = 2_000, 5, 8


@dataclass(frozen=True)
class Suggestion:
    """A query that would be answered.

    Attributes:
        query: The query; "" if there is none.
        same: It has the same meaning as the refused query.
    """

    query: str = ""
    same: bool = True


def suggest(
    text: str, refused: QueryRefused, catalog: Catalog, lower: Callable[[str], Query]
) -> Suggestion:
    """Return the query that results from applying a refusal's hints literally.

    Args:
        text: The query.
        refused: The refusal.
        catalog: The public facts of the tables.
        lower: Lowers a query, or raises a refusal.
    """
    tried = {text}
    waiting = [(Suggestion(text), refused)]
    for _ in range(MAX_ROUNDS):
        after = list[tuple[Suggestion, QueryRefused]]()
        for made, why in waiting:
            for candidate in _candidates(made, why, catalog):
                if candidate.query in tried or len(tried) > MAX_TRIED:
                    continue
                tried.add(candidate.query)
                try:
                    lowered = lower(candidate.query)
                except QueryRefused as again:
                    after.append((candidate, again))
                else:
                    return (
                        candidate
                        if candidate.same
                        else _with_other_names(candidate, lowered, catalog)
                    )
        waiting = after
    return Suggestion()


def _candidates(made: Suggestion, why: QueryRefused, catalog: Catalog) -> Iterator[Suggestion]:
    if len(made.query) > MAX_TEXT:
        return
    for rule in RULES:
        if found := rule.pattern.search(why.hint):
            refusal = Refusal(made.query, why.message, found, catalog)
            try:
                for query in rule.queries(refusal):
                    same = rule.same if isinstance(rule.same, bool) else rule.same(refusal)
                    yield Suggestion(query, made.same and same)
            except (SqlglotError, QueryRefused):  # unreadable text cannot be rewritten
                continue


_NAMES_A_TABLE = ((exp.Table, "this"), (exp.TableAlias, "this"), (exp.Column, "table"))


def _with_other_names(made: Suggestion, lowered: Query, catalog: Catalog) -> Suggestion:
    """Return a different question, whose noised columns have other names than the original's."""
    refusal = Refusal(made.query, "", next(re.finditer("", "")), catalog)
    noised = [name.lower() for name in noised_of(schema_of(lowered, False))]
    tree, text = refusal.tree(), made.query
    first = next(tree.find_all(exp.Select))
    shown = {e.alias_or_name.lower(): e for e in first.expressions if e.alias_or_name}
    if not any(isinstance(e, exp.Star) for e in first.expressions):
        columns = [e for e in first.expressions if isinstance(e, exp.Column)]
        bare = [e for e in columns if e.name.lower() in noised]
        others = (e for e in first.expressions if not isinstance(e, exp.Alias))
        bare += [e for e in others if e.find(exp.AggFunc, exp.Anonymous) is not None]
        for i, e in enumerate(bare):
            name = f"{OTHER}_{i}" if i else OTHER
            name = f"{e.name}_{OTHER}" if isinstance(e, exp.Column) else name
            e.replace(exp.alias_(e.copy(), name))
        text = refusal.written(tree) if bare else text
        noised = [name for name in noised if isinstance(shown.get(name), exp.Alias)]
    tables = {
        name.meta["start"]
        for name in parse_sql(split_options(text)[0]).find_all(exp.Identifier)
        if (type(name.parent), name.arg_key) in _NAMES_A_TABLE
    }
    tokens = sqlglot.tokenize(text, dialect=Dialect)
    called = {a.start for a, b in pairwise(tokens) if b.token_type is TokenType.L_PAREN}
    for token in reversed(tokens):
        quote = text[token.start]
        if token.text.lower() in noised and quote != "'" and token.start not in tables | called:
            new = f"{token.text}_{OTHER}"
            new = f'"{new}"' if quote == '"' else new
            text = text[: token.start] + new + text[token.end + 1 :]
    return Suggestion(text, False)
