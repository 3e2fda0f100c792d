"""Products a few rows at a time are those of BLAS."""

from __future__ import annotations

import numpy as np
import pytest

from sparseq.accounting.pilots.matrix_product import product


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (600, 32, 40), (600, 32, 4000), (7, 200, 5000), (0, 3, 2), (5, 0, 2)]
)
def test_it_is_the_product(shape: tuple[int, int, int]) -> None:
    rows, between, columns = shape
    draw = np.random.default_rng(1)
    left, right = draw.random((rows, between)), draw.random((between, columns))
    assert np.allclose(product(left, right), left @ right, rtol=1e-12)
    assert product(left, right).shape == (rows, columns)
