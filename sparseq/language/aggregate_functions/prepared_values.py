"""Values of arguments in the form in which they are summed, compared or chosen."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.aggregate_functions.aggregate_function import Terms
from sparseq.language.expression_tree import Term, call
from sparseq.language.types import Family, Type

EXACT = "DECIMAL(27, 10)"
"""The type of sums of non-integers: 10^11 rows of the largest values fit into 38 digits."""


def plain(term: Term) -> Term:
    """Return a term with one representative of equal values, such as 0 and -0, or NaNs of both
    signs.

    Otherwise the order of the rows would decide the form that a group or a minimum shows.
    """
    if term.type.family is not Family.DOUBLE:
        return term
    template = f"CASE WHEN isnan({{0}}) THEN CAST('nan' AS {term.type.sql}) ELSE {{0}} + 0 END"
    return call("plain", template, term.type, term)


def exact(term: Term) -> Term:
    """Return a number that can be summed exactly; NULL if it is not finite, or too large."""
    return call("exact", f"TRY_CAST({{0}} AS {EXACT})", T.DOUBLE, term)


def type_of_first(terms: Terms) -> Type:
    """Return the type of the first argument, for functions that choose one of its values."""
    return terms[0].type
