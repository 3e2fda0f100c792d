"""Rules about constants, casts and options: another form of the same, or an example."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from sparseq.sql.parse import Dialect
from sparseq.sql.suggestion_rules.rule import (
    Refusal,
    RuleTable,
    replace_nodes,
)

RULES = RuleTable()
rule, changes = RULES.rule, RULES.changes


@changes(r"^write (TIMESTAMP|TIMESTAMPTZ) '(.*)' for that moment", same=True)
def as_moment(refusal: Refusal, tree: exp.Expr) -> bool:
    """Mark a text as a moment, with the zone that it names."""
    kind, text = refusal.hint[1], refusal.hint[2].replace("''", "'")

    def typed(node: exp.Expr) -> object:
        cast = node.parent if isinstance(node.parent, exp.Cast) else None
        if node.this != text or not node.args.get("is_string"):
            return None
        if cast is not None:
            cast.set("to", exp.DataType.build(kind, dialect="duckdb"))
            return node.copy()
        return exp.cast(node.copy(), kind, dialect="duckdb")

    return replace_nodes(tree, exp.Literal, typed)


@changes("^write x BETWEEN a AND b OR", same=True)
def both_ways(refusal: Refusal, tree: exp.Expr) -> bool:
    """Rewrite BETWEEN SYMMETRIC as BETWEEN, once for each order of its ends."""

    def either(node: exp.Expr) -> object:
        if not node.args.get("symmetric"):
            return None
        node.set("symmetric", None)
        other = node.copy()
        other.set("low", node.args["high"].copy())
        other.set("high", node.args["low"].copy())
        return exp.paren(exp.or_(node.copy(), other))

    return replace_nodes(tree, exp.Between, either)


@changes("^cast to BOOLEAN, ")
def usual_type(refusal: Refusal, tree: exp.Expr) -> bool:
    """Cast to the nearest supported type."""
    bad = refusal.message.partition(" is not a type")[0]
    near = "TIMESTAMP" if bad.startswith("TIMESTAMP_") else "VARCHAR"
    for cast in tree.find_all(exp.Cast):
        if cast.to.sql("duckdb") == bad or not cast.to.this.name.isidentifier():
            cast.set("to", exp.DataType.build(near, dialect="duckdb"))
    return True


@changes("^LIMIT 10$")
def limit_of_ten(refusal: Refusal, tree: exp.Expr) -> bool:
    """Write LIMIT 10."""
    if not isinstance(tree, exp.Select):
        return False
    tree.limit(10, copy=False)
    return True


@changes(r"^ROUND\(x, 2\)$")
def two_decimals(refusal: Refusal, tree: exp.Expr) -> bool:
    """Round to two decimals."""
    for node in tree.find_all(exp.Round):
        node.set("decimals", exp.Literal.number(2))
    return True


@changes("^year, month, week, day, hour")
def months(refusal: Refusal, tree: exp.Expr) -> bool:
    """Count time in months."""
    for node in tree.find_all(exp.TimestampTrunc, exp.DateTrunc):
        node.set("unit", exp.Var(this="MONTH"))
    for node in tree.find_all(exp.Extract):
        node.set("this", exp.Var(this="MONTH"))
    return True


@rule("send each SELECT by itself")
def first_alone(refusal: Refusal) -> Iterator[str]:
    """Ask the first question separately."""
    trees = sqlglot.parse(refusal.text, dialect=Dialect)
    yield from (tree.sql("duckdb", comments=False) for tree in trees[:1] if tree is not None)


@rule(r"^(OPTIONS\(sigma => 10\))$", same=True)
def options_written(refusal: Refusal) -> Iterator[str]:
    """Write options in the form that the hint gives."""
    yield re.sub(
        r"OPTIONS(\s*\((?:[^()]|\([^()]*\))*\)?)?",
        refusal.hint[1],
        refusal.text,
        count=1,
        flags=re.IGNORECASE,
    )


@rule(r"^for example (0\.\d+)$", same=True)
def usual_confidence(refusal: Refusal) -> Iterator[str]:
    """Set the default confidence."""
    yield re.sub(r"(confidence\s*=>?\s*)[^,)\s]+", rf"\g<1>{refusal.hint[1]}", refusal.text)


@rule("^give it once", same=True)
def once(refusal: Refusal) -> Iterator[str]:
    """Remove the second value of an option."""
    name = re.escape(refusal.message.partition(" is given")[0])
    yield re.sub(rf"({name}\s*=>?\s*[^,)\s]+)\s*,\s*{name}\s*=>?\s*[^,)\s]+", r"\1", refusal.text)
