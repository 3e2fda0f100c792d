"""Aggregates whose value is one of the values: the least, the most frequent, the first."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.aggregate_functions.aggregate_function import (
    AggregateTable,
    Takes,
    Use,
)
from sparseq.language.aggregate_functions.prepared_values import plain, type_of_first

_COUNT = T.integer(0, T.INT64[1])
_ANY, _NUMBER, _TRUTH, _CONSTANT = Takes.ANY, Takes.NUMBER, Takes.TRUTH, Takes.CONSTANT
FUNCTIONS = AggregateTable()
_add = FUNCTIONS.add


for _name, _which in (("min", "least"), ("max", "greatest")):
    _add(
        _name,
        f"{_name}({{0}})",
        (_ANY,),
        type_of_first,
        f"{_name}({{0}})",
        f"the {_which}",
        prepare=plain,
        distinct=True,
        chooses=True,
        keeps=True,
    )
    _pair = "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN {{'y': {1}, 'x': {0}}} END"
    _add(
        f"arg_{_name}",
        f"arg_{_name}({{0}}, {{1}})",
        (_ANY, _ANY),
        type_of_first,
        f"{_name}({_pair})",
        f"the first where the second is {_which}; of several, the {_which}",
        prepare=plain,
        after="({0}).x",
        chooses=True,
    )
_add(
    "any_value",
    "any_value({0})",
    (_ANY,),
    type_of_first,
    "min({0})",
    "the least",
    prepare=plain,
    chooses=True,
)
_add(
    "mode",
    "mode({0})",
    (_ANY,),
    type_of_first,
    "mode({0} ORDER BY {0})",
    "the most frequent; of several, the least",
    Use.AGGREGATE,  # a window sorts every frame again: too slow for a person with many rows
    prepare=plain,
    chooses=True,
)
for _name, _which in (("first", "least"), ("last", "greatest")):
    _add(
        _name,
        f"{_name}({{0}} ORDER BY …)",
        (_ANY,),
        type_of_first,
        f"{_name}({{0}} ORDER BY {{order}}, {{0}})",
        f"the {_name} in an order; of several, the {_which}",
        Use.AGGREGATE,
        prepare=plain,
        ordered=True,
        chooses=True,
    )
