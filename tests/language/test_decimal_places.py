"""Rounding to a constant number of decimals."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.decimal_places import decimals_of, to_decimals


def constant(number: int) -> list[T.Type]:
    return [T.decimal(10, 2), T.integer(number, number)]


def test_the_number_of_decimals_is_clamped_to_38() -> None:
    assert [decimals_of(constant(n)) for n in (-400, -38, 2, 38, 400)] == [-38, -38, 2, 38, 38]


def test_what_rounds_to_nothing_is_0_except_for_null() -> None:
    """DuckDB 2.0 gives 0 even for NULL, so its function is not used there."""
    zero = "CASE WHEN x IS NOT NULL THEN 0 END"
    assert to_decimals("round", "x", 8, constant(-8)) == "round(x, -8)"  # 5·10⁷ rounds to 10⁸
    assert to_decimals("round", "x", 8, constant(-9)) == zero
    assert to_decimals("trunc", "x", 8, constant(-8)) == zero
    assert to_decimals("trunc", "x", 8, constant(-7)) == "trunc(x, -7)"
