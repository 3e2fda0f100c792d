"""Aggregates that choose one of the values: the same one in every order of the rows."""

from __future__ import annotations

import itertools
import math

import pytest
from language.one_value import aggregate

from sparseq.language import types as T
from sparseq.language.aggregate_functions.chosen_values import FUNCTIONS


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("min", ["3", "NULL", "2"], 2),
        ("max", ["3", "NULL", "2"], 3),
        ("any_value", ["3", "NULL", "2"], 2),
        ("mode", ["3", "2", "3", "2", "7"], 2),
        ("first", ["3", "2", "NULL"], 2),
        ("last", ["3", "2"], 3),
    ],
)
def test_values(name: str, values: list[str], expected: int) -> None:
    order = ["1"] if name in ("first", "last") else []
    found = {
        aggregate(name, T.BIGINT, rows, order=order) for rows in itertools.permutations(values)
    }
    assert found == {expected}


def test_minus_0_and_0_have_one_form() -> None:
    for rows in (["0.0", "-0.0"], ["-0.0", "0.0"]):
        assert math.copysign(1, aggregate("min", T.DOUBLE, rows)) == 1


def test_each_chooses_a_value_of_its_first_argument() -> None:
    assert all(f.chooses for f in FUNCTIONS)
