"""Counts and sums of one person's rows, in every order of the rows."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from language.one_value import aggregate, over_rows

from sparseq.language import types as T


@pytest.mark.parametrize(
    ("name", "type", "values", "expected"),
    [
        ("count", T.TEXT, ["'a'", "NULL", "'a'"], 2),
        ("countif", T.BOOLEAN, ["true", "NULL", "false"], 1),
        ("sum", T.BIGINT, ["1", "NULL", "-3"], -2),
        ("sum", T.BIGINT, [str(2**63 - 1), "1"], None),
        ("sum", T.BIGINT, [str(2**63 - 1), "1", "-1"], 2**63 - 1),
        ("sum", T.DOUBLE, ["0.1", "0.2", "1e17", "'nan'"], 0.3),
        ("avg", T.BIGINT, ["1", "2"], 1.5),
        ("bool_and", T.BOOLEAN, ["true", "NULL"], True),
        ("bool_or", T.BOOLEAN, ["false", "false"], False),
    ],
)
def test_values(name: str, type: T.Type, values: list[str], expected: object) -> None:
    assert {aggregate(name, type, order) for order in itertools.permutations(values)} == {expected}


def test_distinct_values_count_once() -> None:
    assert aggregate("sum", T.BIGINT, ["4", "4", "1"], distinct=True) == 5
    assert aggregate("count", T.BIGINT, ["4", "4", "NULL"], distinct=True) == 1


def test_no_rows() -> None:
    assert aggregate("count", T.BIGINT, []) == 0
    assert aggregate("sum", T.BIGINT, []) is None


def test_rows_that_a_filter_keeps() -> None:
    assert over_rows("sum(x) FILTER (WHERE x > 1)", T.BIGINT, ["1", "2", "3"]) == Decimal(5)
