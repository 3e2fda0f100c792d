"""Deviations and quantiles of one person's values."""

from __future__ import annotations

import itertools

import pytest
from language.one_value import aggregate

from sparseq.language import types as T


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("var_pop", ["1", "2", "3", "NULL"], 2 / 3),
        ("var_samp", ["1", "2", "3"], 1.0),
        ("stddev_samp", ["1", "3"], 2**0.5),
        ("stddev_pop", ["5", "1e101"], 0.0),
        ("var_samp", ["5"], None),
    ],
)
def test_deviations(name: str, values: list[str], expected: float | None) -> None:
    """They are the same bits in every order of the rows."""
    (found,) = {aggregate(name, T.DOUBLE, rows) for rows in itertools.permutations(values)}
    assert found == (expected if expected is None else pytest.approx(expected, rel=1e-15))


def test_a_quantile_between_two_values_and_at_one() -> None:
    rows = ["1", "2", "NULL", "4"]
    assert aggregate("quantile_cont", T.DOUBLE, rows, "0.75") == 3.0
    assert aggregate("quantile_cont", T.BIGINT, ["1", "2"], "0.5") == 1.5
    assert aggregate("quantile", T.BIGINT, ["1", "2", "4"], "0.5") == 2
