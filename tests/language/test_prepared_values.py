"""The form in which values are summed, compared or chosen."""

from __future__ import annotations

import math

from language.one_value import over_rows

from sparseq.language import types as T
from sparseq.language.aggregate_functions.prepared_values import exact, plain, type_of_first
from sparseq.language.expression_tree import column

X = column("x", T.DOUBLE)


def test_equal_doubles_have_one_form() -> None:
    zero = over_rows(f"any_value({plain(X).sql})", T.DOUBLE, ["-0.0"])
    assert math.copysign(1, zero) == 1
    bits = f"count(DISTINCT hex(CAST({plain(X).sql} AS VARCHAR)))"
    assert over_rows(bits, T.DOUBLE, ["'nan'", "-CAST('nan' AS DOUBLE)"]) == 1


def test_other_types_stay_as_they_are() -> None:
    whole = column("n", T.BIGINT)
    assert plain(whole) is whole
    assert type_of_first([whole, X]) == T.BIGINT


def test_what_cannot_be_summed_exactly_is_null() -> None:
    values = ["1.5", "1e17", "'nan'", "'inf'"]
    assert over_rows(f"count({exact(X).sql})", T.DOUBLE, values) == 1
    assert float(over_rows(f"sum({exact(X).sql})", T.DOUBLE, values)) == 1.5
