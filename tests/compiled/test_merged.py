"""Two ascending lists become one: in NumPy, and by the compiled loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseq.compiled
from sparseq.compiled import compiled, merged

lists = st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 9), unique=True, max_size=30).map(
    sorted
)
LOOPS = [
    pytest.param(False, id="numpy"),
    pytest.param(
        True,
        id="compiled",
        marks=pytest.mark.skipif(compiled() is None, reason="Numba is not installed"),
    ),
]


@pytest.mark.parametrize("loops", LOOPS)
@settings(derandomize=True, deadline=None, max_examples=150)
@given(left=lists, right=lists)
def test_it_is_the_union_with_the_places_of_both(
    loops: bool, left: list[int], right: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparseq.compiled, "worthwhile", lambda length, loads=True: loops)
        values, at_left, at_right = merged(np.array(left, np.int32), np.array(right, np.int32))
    assert values.dtype == np.int32
    assert values.tolist() == sorted({*left, *right})
    assert values[at_left].tolist() == left
    assert values[at_right].tolist() == right
