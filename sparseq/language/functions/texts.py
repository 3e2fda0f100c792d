"""Functions of text: case, length, parts by position, concatenation and search."""

from __future__ import annotations

from collections.abc import Callable

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable, Types
from sparseq.language.types import Family, Type

MAX_PLACE = 1_000_000
"""Positions and lengths in a text are clamped to this."""
MAX_TEXT = 1000
"""The most characters of a text that a query builds by joining; longer texts are truncated."""
Z, X = Family.INTEGER, Family.TEXT
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


for _name in ("lower", "upper"):
    _add(_name, f"{_name}({{0}})", (X,), T.TEXT, f"{_name}({{0}})", "by the rules of Unicode")
for _name in ("trim", "ltrim", "rtrim"):
    _add(_name, f"{_name}({{0}})", (X,), T.TEXT, f"{_name}({{0}})", "without spaces at the ends")
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (X, X),
        T.TEXT,
        f"{_name}({{0}}, {{1}})",
        "without any of these characters at the ends",
    )
_add("length", "length({0})", (X,), T.integer(0, 2**32), "length({0})", "in characters")


def _of_places(name: str) -> Callable[[Types], str]:
    """Return SQL of a function of a text and positions; large positions are clamped."""

    def place(i: int, type: Type) -> str:
        if type.low >= -MAX_PLACE and type.high <= MAX_PLACE:
            return f"CAST({{{i}}} AS BIGINT)"
        near = f"greatest(least({{{i}}}, {MAX_PLACE}), -{MAX_PLACE})"  # also a number for NULL
        return f"CASE WHEN {{{i}}} IS NOT NULL THEN CAST({near} AS BIGINT) END"

    def sql(t: Types) -> str:
        return f"{name}({', '.join(['{0}', *(place(i, t[i]) for i in range(1, len(t)))])})"

    return sql


_add(
    "substring",
    "substring({0}, {1})",
    (X, Z),
    T.TEXT,
    _of_places("substring"),
    "from a position on; 1 is the first, a negative position counts from the end",
)
_add(
    "substring",
    "substring({0}, {1}, {2})",
    (X, Z, Z),
    T.TEXT,
    _of_places("substring"),
    "this number of characters, from a position on",
)
for _name in ("left", "right"):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (X, Z),
        T.TEXT,
        _of_places(_name),
        "this number of characters; negative: all but this number",
    )
_add(
    "||",
    "({0} || {1})",
    (X, X),
    T.TEXT,
    f"left({{0}} || {{1}}, {MAX_TEXT})",
    f"joined, and cut to {MAX_TEXT:,} characters; NULL if one is NULL",
)
for _name in ("starts_with", "ends_with", "contains"):
    _add(_name, f"{_name}({{0}}, {{1}})", (X, X), T.BOOLEAN, f"{_name}({{0}}, {{1}})", "exact")
_add(
    "strpos",
    "strpos({0}, {1})",
    (X, X),
    T.integer(0, 2**32),
    "strpos({0}, {1})",
    "the first position of the second; 0 if there is none",
)
