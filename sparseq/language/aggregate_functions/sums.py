"""Counts, sums and averages of one person's rows, and AND and OR over them."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.aggregate_functions.aggregate_function import (
    AggregateTable,
    Takes,
)
from sparseq.language.aggregate_functions.prepared_values import exact
from sparseq.language.types import Family

_COUNT = T.integer(0, T.INT64[1])
_ANY, _NUMBER, _TRUTH, _CONSTANT = Takes.ANY, Takes.NUMBER, Takes.TRUTH, Takes.CONSTANT
FUNCTIONS = AggregateTable()
_add = FUNCTIONS.add


_IN_64_BITS = "TRY_CAST({0} AS BIGINT)"

_add("count", "count(*)", (), _COUNT, "count(*)", "rows", counts=True, over_no_rows=0)
_add(
    "count",
    "count([DISTINCT] {0})",
    (_ANY,),
    _COUNT,
    "count({0})",
    "rows with a value; DISTINCT: distinct values",
    distinct=True,
    counts=True,
    over_no_rows=0,
)
_add(
    "countif",
    "countif({0})",
    (_TRUTH,),
    _COUNT,
    "count_if({0})",
    "rows for which it is true",
    after=_IN_64_BITS,
    distinct=True,
    counts=True,
)
_add(
    "sum",
    "sum([DISTINCT] {0})",
    (Takes.WHOLE,),
    T.BIGINT,
    "sum({0})",
    "exact; NULL beyond 64 bits",
    after=_IN_64_BITS,
    distinct=True,
    keeps=True,
)
_add(
    "sum",
    "sum([DISTINCT] {0})",
    (_NUMBER,),
    T.DOUBLE,
    "sum({0})",
    "the exact sum of values rounded to 10 decimals; values from ±10^17 on are left out",
    prepare=exact,
    after="TRY_CAST({0} AS DOUBLE)",
    distinct=True,
    keeps=True,
)
_add(
    "avg",
    "avg([DISTINCT] {0})",
    (_NUMBER,),
    T.DOUBLE,
    "avg({0})",
    "the sum divided by the number of values",
    prepare=lambda term: term if term.type.family is Family.INTEGER else exact(term),
    distinct=True,
    keeps=True,
)
for _name in ("bool_and", "bool_or"):
    _which = "all" if _name == "bool_and" else "any"
    _add(
        _name,
        f"{_name}({{0}})",
        (_TRUTH,),
        T.BOOLEAN,
        f"{_name}({{0}})",
        f"whether {_which} values that are not NULL are true",
        distinct=True,
    )
