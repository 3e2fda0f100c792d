"""Rounding to a constant number of decimals, for integers and decimals."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import Types


def decimals_of(t: Types) -> int:
    """Return the number of decimals that the second argument, a constant, asks for."""
    return min(max(t[1].low, -T.MAX_DIGITS), T.MAX_DIGITS)


def to_decimals(name: str, value: str, digits: int, t: Types) -> str:
    """Return SQL for a decimal with `digits` digits before its point, rounded.

    If every number rounds to nothing, DuckDB 2.0 gives 0 even for NULL, so DuckDB is not used
    there.
    """
    places = decimals_of(t)
    if -places > digits or (name == "trunc" and -places == digits):
        return f"CASE WHEN {value} IS NOT NULL THEN 0 END"
    return f"{name}({value}, {places})"
