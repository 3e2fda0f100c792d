"""Functions of lists: positions count from 1, or backwards from the end."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.types import Family

B, Z, N, X, D, L = (
    Family.BOOLEAN,
    Family.INTEGER,
    Family.DOUBLE,
    Family.TEXT,
    Family.DATE,
    Family.LIST,
)
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


for _kind in (X, Z, N, B, D):
    _add(
        "contains",
        "list_contains({0}, {1})",
        (L, _kind),
        lambda t: T.BOOLEAN if t[0].inside.family is t[1].family else None,
        "list_contains({0}, {1})",
        "whether one of its values is the second",
    )
for _name in ("length", "cardinality"):
    _form = f"{'len' if _name == 'length' else _name}({{0}})"
    _add(_name, _form, (L,), T.integer(0, T.MOST_LISTED), "len({0})", "the number of values")
for _name in ("list_extract", "array_extract", "list_element"):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (L, Z),
        lambda t: t[0].inside,
        "list_extract({0}, CAST({1} AS BIGINT))",
        "the value at a position, like a[1]; NULL if there is none",
    )
