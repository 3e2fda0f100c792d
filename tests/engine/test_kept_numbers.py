"""Columns that are made of kept ones have the very values that DuckDB gives."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest

import sparseq.compiled
from sparseq.base._duckdb.connection import scratch
from sparseq.engine._duckdb.wanted_columns import _numbers
from sparseq.engine.kept_numbers import NO_NUMBER, ClampChain, ClampedNumbers, days_from

NUMBERS = [None, math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.5, -2.5, 3.0, 1e308]
loops = pytest.mark.parametrize("loops", [True, False])


def use_loops(monkeypatch: pytest.MonkeyPatch, loops: bool) -> None:
    for name in ("COLD", "WARM"):
        monkeypatch.setattr(sparseq.compiled, name, 1 if loops else 1 << 60)


@loops
@pytest.mark.parametrize("seed", range(30))
def test_least_and_greatest_are_duckdb_s(
    monkeypatch: pytest.MonkeyPatch, loops: bool, seed: int
) -> None:
    use_loops(monkeypatch, loops)
    draw = random.Random(seed)
    sql, clamp = "x", ClampChain()
    for _ in range(draw.choice((1, 1, 2, 3))):
        function, c = draw.choice(("least", "greatest")), draw.choice((-2.5, 0.0, 1.0, 1.5, 7.0))
        sql = f"{function}({sql}, CAST('{c!r}' AS DOUBLE))"
        clamp = clamp.after(function, c)
    with scratch() as con:
        con.register("t", pa.table({"x": pa.array(NUMBERS, pa.float64())}))
        read = con.sql(f"SELECT x, {sql} AS y FROM t").to_arrow_table()
    got, expected = ClampedNumbers(_numbers(read["x"]), clamp)[:], _numbers(read["y"])
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    assert np.array_equal(got[~np.isnan(got)], expected[~np.isnan(got)])


@loops
def test_a_number_that_is_none_stays_none_for_bins(
    monkeypatch: pytest.MonkeyPatch, loops: bool
) -> None:
    """A ClampChain makes NULL a number; without one both NULL and NaN are NaN for a float."""
    use_loops(monkeypatch, loops)
    read = pa.chunked_array([pa.array(NUMBERS, pa.float64())])
    numbers = _numbers(read)
    assert numbers.view(np.uint64)[0] == NO_NUMBER
    assert np.isnan(numbers[:3]).all()
    assert ClampedNumbers(numbers, ClampChain().after("greatest", 1.0))[:1].tolist() == [1.0]


@loops
@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_days_have_their_places(monkeypatch: pytest.MonkeyPatch, loops: bool, kind: type) -> None:
    use_loops(monkeypatch, loops)
    days = np.array([-(2**31), 2**31 - 1, -1, 0, 99, 100, 5000, -5000], np.int32)
    assert days_from(0, 100, kind, days).tolist() == [-1, -1, -1, 0, 99, -1, -1, -1]
