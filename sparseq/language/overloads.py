"""The choice of an overload: which terms fit a function, how far off, and compared as what."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.functions import Function
from sparseq.language.types import Family, Type


def is_text_constant(t: Term) -> bool:
    """Tell whether a term is a text that was written out."""
    return t.is_written and t.type.family is Family.TEXT


def cost_of(term: Term, family: Family) -> int | None:
    """Return how far a term is from what an argument must be; None: it can't be."""
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
    """Return how far terms are from what a function takes; None: it can't take them."""
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
    """Return the type in which two terms are compared; None: they can't be."""
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
    """Tell whether a term is the first moment of a day, written out."""
    at = term.value
    return isinstance(at, dt.datetime) and at.time() == dt.time(0)


def hint_of(name: str, terms: Sequence[Term]) -> str:
    """Return what to do where no function of a name takes some terms."""
    families = {t.type.family for t in terms}
    if name == "-" and families <= {Family.DATE, Family.TIMESTAMP}:
        return "use date_diff('hour', a, b)"
    return "write CAST(x AS type) where the types differ"
