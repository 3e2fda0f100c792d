"""Functions of decimals: exact where 38 digits hold the result."""

from __future__ import annotations

from decimal import Decimal

import pytest
from language.one_value import value

from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.functions import overloads
from sparseq.language.types import Family


def of(text: str, width: int, scale: int) -> tuple[T.Type, str]:
    return T.decimal(width, scale), f"CAST('{text}' AS DECIMAL({width}, {scale}))"


@pytest.mark.parametrize(
    ("name", "first", "second", "expected"),
    [
        ("+", ("0.1", 3, 1), ("0.25", 4, 2), "0.35"),
        ("-", ("0.1", 3, 1), ("0.25", 4, 2), "-0.15"),
        ("*", ("0.1", 3, 1), ("0.25", 4, 2), "0.025"),
        ("%", ("-7.5", 4, 1), ("2.0", 4, 1), "-1.5"),
        ("%", ("7.5", 4, 1), ("0.0", 4, 1), None),
    ],
)
def test_values_of_two(
    name: str, first: tuple[str, int, int], second: tuple[str, int, int], expected: str | None
) -> None:
    found = value(name, of(*first), of(*second))
    assert found == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("floor", "-3"), ("ceil", "-2"), ("trunc", "-2"), ("round", "-3"), ("abs", "2.50")],
)
def test_values_of_one(name: str, expected: str) -> None:
    assert value(name, of("-2.50", 5, 2)) == Decimal(expected)


def test_a_number_of_decimals_is_a_constant() -> None:
    two, ten = ((T.integer(n, n), str(n)) for n in (1, -10))
    assert value("round", of("2.25", 5, 2), two) == Decimal("2.3")
    assert value("round", of("2.25", 5, 2), ten) == 0


def test_a_product_of_more_than_38_digits_is_not_a_decimal() -> None:
    (times,) = [f for f in overloads("*") if f.takes == (Family.DECIMAL,) * 2]
    assert times.gives([T.decimal(20, 5), T.decimal(18, 5)]) == T.decimal(38, 10)
    assert times.gives([T.decimal(20, 5), T.decimal(19, 5)]) is None


def test_a_sum_needs_a_digit_before_the_point() -> None:
    (plus,) = [f for f in overloads("+") if f.takes == (Family.DECIMAL,) * 2]
    with pytest.raises(QueryRefused, match="no digit left before the point"):
        plus.gives([T.decimal(38, 38), T.decimal(3, 1)])
