"""Functions of doubles: IEEE 754, and an interval for each function of noised numbers."""

from __future__ import annotations

import math

import pytest
from language.one_value import number, value

from sparseq.language.functions import overloads
from sparseq.language.functions.doubles import FUNCTIONS
from sparseq.language.types import Family


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("/", ("1", "0"), math.inf),
        ("/", ("-1", "0"), -math.inf),
        ("//", ("7", "0"), None),
        ("//", ("7", "2"), 3.5),  # of doubles the quotient, as in DuckDB
        ("sqrt", ("2.25",), 1.5),
        ("exp", ("inf",), math.inf),
        ("log", ("2", "8"), 3.0),
        ("pow", ("2", "-1"), 0.5),
        ("atan2", ("0", "-1"), math.pi),
        ("sign", ("nan",), 0),
        ("trunc", ("-2.5",), -2.0),
        ("round", ("-2.5",), -3.0),
        ("isnan", ("nan",), True),
        ("isfinite", ("inf",), False),
    ],
)
def test_values(name: str, numbers: tuple[str, ...], expected: object) -> None:
    assert value(name, *map(number, numbers)) == expected


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("/", ("0", "0")), ("sqrt", ("-1",)), ("ln", ("-1",)), ("%", ("1", "0")), ("sin", ("inf",))],
)
def test_a_result_that_is_no_number_is_nan(name: str, numbers: tuple[str, ...]) -> None:
    assert math.isnan(value(name, *map(number, numbers)))


def test_every_function_with_a_number_as_result_has_an_interval() -> None:
    assert {f.name for f in FUNCTIONS if f.rule is None} == {"isnan", "isinf", "isfinite"}


def test_only_these_stay_in_32_bits() -> None:
    short = {f.name for f in FUNCTIONS if f.short}
    assert short == {*"+-*/%", "//", "neg", "abs", "floor", "ceil", "trunc", "round"}
    assert all(Family.DOUBLE in f.takes for name in short for f in overloads(name) if f.short)
