"""One overload of an aggregate: its SQL with DISTINCT, FILTER and OVER, and when it is NULL."""

from __future__ import annotations

import pytest

from sparseq.language import types as T
from sparseq.language.aggregate_functions import Takes, overloads
from sparseq.language.expression_tree import Nulls, column

X = column("x", T.BIGINT)


def test_filter_and_over_stand_inside_the_final_form() -> None:
    (total,) = [f for f in overloads("sum") if f.takes == (Takes.WHOLE,)]
    made = total.apply([X], distinct=True, condition="y", over="(ORDER BY z)")
    inner = "sum(DISTINCT x) FILTER (WHERE y) OVER (ORDER BY z)"
    assert (made.sql, made.function) == (f"TRY_CAST({inner} AS BIGINT)", "sum distinct")


def test_when_it_is_null() -> None:
    (total,) = [f for f in overloads("sum") if f.takes == (Takes.WHOLE,)]
    (rows,) = [f for f in overloads("count") if not f.takes]
    assert total.apply([X]).nulls is Nulls.STRICT
    assert total.apply([X], condition="y").nulls is Nulls.FREE
    assert rows.apply([], over="()").nulls is Nulls.NEVER


@pytest.mark.parametrize(
    ("takes", "allowed"),
    [
        (Takes.WHOLE, {T.BIGINT, T.BOOLEAN}),
        (Takes.NUMBER, {T.BIGINT, T.BOOLEAN, T.DOUBLE}),
        (Takes.TRUTH, {T.BOOLEAN}),
        (Takes.ANY, {T.BIGINT, T.BOOLEAN, T.DOUBLE, T.TEXT}),
    ],
)
def test_the_kinds_of_arguments(takes: Takes, allowed: set[T.Type]) -> None:
    assert {t for t in (T.BIGINT, T.BOOLEAN, T.DOUBLE, T.TEXT) if takes.allows(t)} == allowed
