"""Choice of an overload: whether terms fit a function, how well, and the type to compare in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlglot import exp

from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.functions import Function
from sparseq.language.types import Family, Type
from sparseq.sql.parse import said


def is_text_constant(t: Term) -> bool:
    """Tell whether a term is a text literal."""
    return t.is_written and t.type.family is Family.TEXT


def cost_of(term: Term, family: Family) -> int | None:
    """Return the distance between a term and the family of an argument; None if it does not fit."""
    have = term.type.family
    if have is family:
        return 0
    if have is Family.NULL:
        return 1
    if is_text_constant(term):
        return 4
    numbers = (Family.INTEGER, Family.DECIMAL, Family.DOUBLE)
    if have in numbers and family in numbers[numbers.index(have) :]:
        return numbers.index(family) - numbers.index(have)
    if have is Family.DATE and family is Family.TIMESTAMP:
        return 1
    if family is Family.BOOLEAN and (have in numbers or have is Family.TEXT):
        return 3
    return None


def distance(terms: Sequence[Term], f: Function) -> int | None:
    """Return the distance between terms and the arguments of a function, or None."""
    if len(terms) != len(f.takes):
        return None
    total = 0
    for term, family in zip(terms, f.takes, strict=True):
        cost = cost_of(term, family)
        if cost is None:
            return None
        total += cost
    return total


def comparison_type(a: Term, b: Term) -> Type | None:
    """Return the type in which two terms are compared; None if they are not comparable."""
    for one, other in ((a, b), (b, a)):
        if is_text_constant(one) and other.type.family is not Family.TEXT:
            return T.TEXT if other.type.family is Family.NULL else other.type
    for one, other in ((a, b), (b, a)):
        if one.type.family is Family.TEXT and other.type.family is not Family.TEXT:
            return T.TEXT if other.type.family is Family.NULL else other.type
    for one, other in ((a, b), (b, a)):
        if one.type.family is Family.DATE and _is_midnight(other):
            return T.DATE
    return T.common([a.type, b.type])


def _is_midnight(term: Term) -> bool:
    """Tell whether a term is a literal midnight."""
    at = term.value
    return isinstance(at, dt.datetime) and at.time() == dt.time(0)


def hint_of(name: str, e: exp.Expr, terms: Sequence[Term]) -> str:
    """Return a hint for terms of an expression that no function of this name accepts."""
    families = {t.type.family for t in terms}
    if isinstance(e, exp.Sub) and name == "-" and families <= {Family.DATE, Family.TIMESTAMP}:
        return f"write date_diff('hour', {said(e.right)}, {said(e.left)}) for {said(e)}"
    return "write CAST(x AS type) where the types differ"
