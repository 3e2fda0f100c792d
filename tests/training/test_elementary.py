"""The sigmoid against mpmath's, and the two versions of it to the bit."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseq.compiled import compiled
from sparseq.compiled.logistic import sigmoid

numbers = st.floats(-70, 70) | st.floats()


@given(z=st.floats(-64, 64))
def test_the_sigmoid_is_right_to_42_bits(z: float) -> None:
    (got,) = sigmoid(np.array([z]))
    with mpmath.workprec(200):
        exact = 1 / (1 + mpmath.exp(-mpmath.mpf(z)))
        assert abs(mpmath.mpf(float(got)) / exact - 1) < mpmath.mpf(2) ** -42


def test_beyond_64_it_is_as_at_64_and_nan_stays() -> None:
    z = np.array([64.0, 65.0, 1e300, np.inf, -64.0, -1e300, -np.inf, np.nan])
    got = sigmoid(z)
    assert got[:4].tolist() == [1.0] * 4
    assert np.all(got[4:7] == got[4])
    assert 0 < got[4] < 2.0**-92
    assert np.isnan(got[7])
    assert z[1] == 65.0


@pytest.mark.skipif(compiled() is None, reason="Numba is not installed")
@given(z=st.lists(numbers, min_size=1, max_size=70))
def test_both_versions_give_the_same_bits_wherever_a_number_stands(z: list[float]) -> None:
    one, other = np.array(z), np.array(z)
    compiled().dense.residuals(other, np.zeros(len(z)), 1.0, True)
    assert np.array_equal(sigmoid(one), other, equal_nan=True)
    alone = [sigmoid(one[i : i + 1])[0] for i in range(len(z))]
    assert np.array_equal(alone, other, equal_nan=True)
