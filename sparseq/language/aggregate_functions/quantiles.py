"""Variances, deviations and quantiles of one person's values, in their order."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.aggregate_functions.aggregate_function import (
    AggregateTable,
    Takes,
    Use,
)
from sparseq.language.aggregate_functions.prepared_values import plain, type_of_first
from sparseq.language.casts import cast
from sparseq.language.expression_tree import call

_COUNT = T.integer(0, T.INT64[1])
_ANY, _NUMBER, _TRUTH, _CONSTANT = Takes.ANY, Takes.NUMBER, Takes.TRUTH, Takes.CONSTANT
FUNCTIONS = AggregateTable()
_add = FUNCTIONS.add
_SQUARED = "CASE WHEN abs({0}) < 1e100 THEN {0} + 0 END"
"""A number that can be squared without overflow of a double."""


for _name in ("stddev_samp", "stddev_pop", "var_samp", "var_pop"):
    _what = "the standard deviation" if _name.startswith("stddev") else "the variance"
    _of = "of a sample" if _name.endswith("samp") else "of a population"
    _add(
        _name,
        f"{_name}({{0}})",
        (_NUMBER,),
        T.DOUBLE,
        f"{_name}({{0}} ORDER BY {{0}})",
        f"{_what} {_of}; values outside -10^100 to 10^100 are left out",
        Use.AGGREGATE,
        prepare=lambda term: call("near", _SQUARED, T.DOUBLE, cast(term, T.DOUBLE) or term),
    )
_add(
    "quantile_cont",
    "quantile_cont({0}, {1})",
    (_NUMBER, _CONSTANT),
    type_of_first,
    "quantile_cont({0}, {1})",
    "interpolated between two values; `median(a)` is the quantile 0.5",
    prepare=lambda term: (Takes.WHOLE.allows(term.type) and cast(term, T.DOUBLE)) or plain(term),
)
_add(
    "quantile",
    "quantile({0}, {1})",
    (_NUMBER, _CONSTANT),
    type_of_first,
    "quantile_disc({0}, {1})",
    "the value with this share of the values below it",
    Use.AGGREGATE,  # a window of truth values takes time quadratic in the rows
    prepare=plain,
)
