"""The bin of a value, as a cell of a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparseq.language.expression_tree import Term, call, constant
from sparseq.language.types import DOUBLE, integer
from sparseq.question.plan import Cell

DEFAULT_BINS = 64


def even_bins(low: float, high: float) -> tuple[float, ...]:
    """Return the edges of even bins, for a query that gives no edges."""
    return tuple(np.linspace(low, high, DEFAULT_BINS + 1).tolist())


def as_double(term: Term) -> Term:
    """Return a term as a DOUBLE."""
    return call("cast to DOUBLE", "TRY_CAST({0} AS DOUBLE)", DOUBLE, term)


def bin_of(value: Cell, edges: Sequence[float], nearest: bool) -> Cell:
    """Return the index of the bin [edge, next edge) that holds a value; the last bin is closed.

    The index is -1 if no bin holds the value, or the value is missing.

    Args:
        value: A number.
        edges: Ascending.
        nearest: Put a value outside all bins into the nearest bin.
    """
    number = None if value.term is None else as_double(value.term)
    x = f"TRY_CAST({value.sql} AS DOUBLE)" if number is None else number.sql
    known = f"isfinite({x})" if nearest else f"{x} BETWEEN {edges[0]!r} AND {edges[-1]!r}"
    place = f"CASE WHEN {known} THEN {_bin_sql(x, edges, 0, len(edges) - 1)} ELSE -1 END"
    if number is None:
        return Cell(place)
    arguments = (number, *(constant(edge, DOUBLE) for edge in edges))
    name = "nearest bin" if nearest else "bin"
    return Cell.of(Term(integer(-1, len(edges) - 2), place, function=name, arguments=arguments))


def _bin_sql(x: str, edges: Sequence[float], first: int, last: int) -> str:
    """Return the SQL of the bin that holds x, from edge `first` to edge `last`."""
    if last - first == 1:
        return str(first)
    middle = (first + last) // 2
    below, above = _bin_sql(x, edges, first, middle), _bin_sql(x, edges, middle, last)
    return f"CASE WHEN {x} < {edges[middle]!r} THEN {below} ELSE {above} END"


def less(value: Cell, amount: float) -> Cell:
    """Return a number minus a constant, as a DOUBLE.

    Example:
        >>> less(Cell("v0"), 2.5).sql
        "(TRY_CAST(v0 AS DOUBLE) - CAST('2.5' AS DOUBLE))"
    """
    taken = constant(amount, DOUBLE)
    if value.term is None:
        return Cell(f"(TRY_CAST({value.sql} AS DOUBLE) - {taken.sql})")
    return Cell.of(call("-", "({0} - {1})", DOUBLE, as_double(value.term), taken))


def times(one: Cell, other: Cell) -> Cell:
    """Return the product of two DOUBLEs."""
    if one.term is None or other.term is None:
        return Cell(f"({one.sql} * {other.sql})")
    return Cell.of(call("*", "({0} * {1})", DOUBLE, one.term, other.term))
