"""Bins that are looked up by leading bits are those of a search, for clamped numbers too."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseq.accounting.pilots.column_values import value_edges
from sparseq.compiled import compiled
from sparseq.engine import reduction
from sparseq.engine.bin_table import BinTable
from sparseq.engine.kept_numbers import NAN, NO_NUMBER, ClampChain, ClampedNumbers, map_each
from sparseq.engine.reduction import find_bins

needs_numba = pytest.mark.skipif(compiled() is None, reason="Numba is not installed")
SIZES = st.sampled_from([5e-324, 1e-300, 1e-3, 1.0, 1e17])
NUMBERS = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, math.inf])


@given(
    edges=st.lists(st.floats(0.25, 8), min_size=1, max_size=60, unique=True).map(sorted),
    size=SIZES,
    sign=st.sampled_from([-1.0, 1.0]),
    numbers=st.lists(NUMBERS, max_size=20),
)
def test_a_place_has_the_edges_below_and_at_most_one(
    edges: list[float], size: float, sign: float, numbers: list[float]
) -> None:
    ordered = np.unique(np.array(edges) * size * sign)
    table = BinTable.of(ordered)
    if table is None:  # two edges are too near to each other
        assert len(ordered) > 1
        assert np.min(np.abs(np.diff(ordered) / ordered[:-1])) < 2**-11 or size < 1e-300
        return
    around = [np.nextafter(ordered, end) for end in (-math.inf, math.inf)]
    values = np.concatenate([ordered, *around, np.array(numbers, np.float64)])
    at = table.places(values)
    found = table.below[at] + (table.edges[at] <= values)
    finite = np.isfinite(values)
    assert found[finite].tolist() == np.searchsorted(ordered, values, "right")[finite].tolist()


def test_tables_of_column_pilots_are_short() -> None:
    for low, high in [(0, 500), (0, 115.56), (-7.3, 0), (2019, 2025), (-4, -1)]:
        table = BinTable.of(value_edges(low, high)[1:-1])
        assert table is not None
        assert len(table.edges) < 2000


@needs_numba
@pytest.mark.parametrize("chain", [None, ("least",), ("greatest", "least"), ("least", "greatest")])
def test_clamped_numbers_have_the_bins_of_their_values(
    monkeypatch: pytest.MonkeyPatch, chain: tuple[str, ...] | None
) -> None:
    numbers = np.random.default_rng(4).lognormal(2, 1.5, 20_000)
    numbers[:3] = 0.0, -0.0, math.inf
    numbers.view(np.uint64)[::7], numbers.view(np.uint64)[::11] = NAN, NO_NUMBER
    clamp = ClampChain()
    for function in chain or ():
        clamp = clamp.after(function, {"least": 115.56, "greatest": 0.25}[function])
    values = numbers if chain is None else ClampedNumbers(numbers, clamp)
    inner = value_edges(0, 115.56)[1:-1]
    found = []
    for ends in [(0.0, 115.56), (-1e308, 1e308)]:
        for loops in (True, False):
            monkeypatch.setattr(reduction, "worthwhile", lambda _, loops=loops: loops)
            found.append(
                map_each(values, np.int8, lambda n, out, e=ends: find_bins(inner, e, n, out))
            )
        assert found[-1].tobytes() == found[-2].tobytes()
        assert len(set(found[-1].tolist())) > 15
