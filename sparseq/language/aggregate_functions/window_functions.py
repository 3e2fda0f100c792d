"""Functions of a window: ranks, and the values of neighbouring rows."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.aggregate_functions.aggregate_function import (
    AggregateTable,
    Takes,
    Use,
)
from sparseq.language.aggregate_functions.prepared_values import type_of_first

_COUNT = T.integer(0, T.INT64[1])
_ANY, _NUMBER, _TRUTH, _CONSTANT = Takes.ANY, Takes.NUMBER, Takes.TRUTH, Takes.CONSTANT
FUNCTIONS = AggregateTable()
_add = FUNCTIONS.add


for _name, _what in (("rank", "with gaps after ties"), ("dense_rank", "without gaps")):
    _add(
        _name,
        f"{_name}()",
        (),
        _COUNT,
        f"{_name}()",
        f"the rank, {_what}",
        Use.WINDOW,
        counts=True,
    )
_add(
    "row_number",
    "row_number()",
    (),
    _COUNT,
    "row_number()",
    "the number of the row in the order",
    Use.WINDOW,
    one_by_one=True,
    counts=True,
)
_add(
    "ntile",
    "ntile({0})",
    (_CONSTANT,),
    _COUNT,
    "ntile({0})",
    "the number of the part, of this number of parts of nearly equal size",
    Use.WINDOW,
    one_by_one=True,
    counts=True,
)
for _name, _what in (("lag", "before"), ("lead", "after")):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (_ANY, _CONSTANT),
        type_of_first,
        f"{_name}({{0}}, {{1}})",
        f"the value of the row this number of rows {_what}; by default 1",
        Use.WINDOW,
        one_by_one=True,
        chooses=True,
    )
for _name in ("first_value", "last_value"):
    _add(
        _name,
        f"{_name}({{0}})",
        (_ANY,),
        type_of_first,
        f"{_name}({{0}})",
        f"the value of the {_name.removesuffix('_value')} row of the frame",
        Use.WINDOW,
        one_by_one=True,
        chooses=True,
    )
_add(
    "nth_value",
    "nth_value({0}, {1})",
    (_ANY, _CONSTANT),
    type_of_first,
    "nth_value({0}, {1})",
    "the value of the row with this number in the frame",
    Use.WINDOW,
    one_by_one=True,
    chooses=True,
)
