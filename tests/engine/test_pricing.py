"""Charges by the compiled loop are those of `Price.charge`, to the last unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseq.accounting import Budget, Price, round_up
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS
from sparseq.engine import reduction
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.ledger import packed_integers
from sparseq.ledger.packed_integers import pack, unpack
from sparseq.stream import charge_amounts as pricing

EDGES = [0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**61, NORM_LIMIT - 1, NORM_LIMIT]


@pytest.mark.skipif(reduction.compiled() is None, reason="Numba is not installed")
@given(
    st.floats(2.0**-40, 2.0**40),
    st.integers(-60, 40),
    st.floats(2.0**-20, 2.0**9),
    st.floats(2.0**-10, 2.0**20),
    st.lists(st.integers(0, NORM_LIMIT), min_size=1, max_size=50),
)
def test_compiled_charges_are_the_price(
    sigma: float, step: int, kappa: float, norm_budget: float, norms: list[int]
) -> None:
    price = Price.of(sigma, 2.0**step, Budget(kappa, norm_budget))
    if not 1 <= price.shift <= 127:
        return  # such prices are charged by `Price.charge` itself
    squared = np.array(EDGES + norms, np.int64)
    expected = price.charge(squared)
    expected[squared >= NORM_LIMIT] = MAX_CHARGE
    assert pricing._charges_compiled(price, squared).tolist() == expected.tolist()


def test_large_and_small_inputs_are_priced_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    price = Price.of(7.3, 1.0, Budget(0.7, 31))
    norms = np.random.default_rng(1).integers(0, 2**40, 1001)
    few = pricing.charges_of(price, norms)
    monkeypatch.setattr(pricing, "worthwhile", lambda n: reduction.compiled() is not None)
    assert pricing.charges_of(price, norms).tolist() == few.tolist()


@pytest.mark.skipif(reduction.compiled() is None, reason="Numba is not installed")
@given(st.lists(st.integers(0, MAX_CHARGE), min_size=1, max_size=50))
def test_compiled_rounding_is_round_up(charges: list[int]) -> None:
    numbers = np.array(charges, np.int64)
    assert pricing._rounded_compiled(numbers).tolist() == round_up(numbers).tolist()


def test_a_row_of_charges_takes_two_bytes_each() -> None:
    charges = round_up(np.random.default_rng(2).integers(0, 2**44, 10_000))
    charges[:2] = 0, 1
    packed = pack(charges)
    assert len(packed) < 2 * len(charges) + 32
    assert unpack(packed).tolist() == charges.tolist()


@given(st.lists(st.integers(0, 2**62), min_size=2, max_size=30))
def test_numbers_of_any_size_come_back(numbers: list[int]) -> None:
    packed = np.array(numbers, np.int64)
    assert unpack(pack(packed)).tolist() == numbers
    assert unpack(pack(round_up(packed))).tolist() == round_up(packed).tolist()


@pytest.mark.skipif(reduction.compiled() is None, reason="Numba is not installed")
def test_price_and_rounding_in_one_loop_are_the_two_in_turn() -> None:
    price = Price.of(7.3, 2.0**-9, Budget(0.7, 31))
    norms = np.array([*EDGES, *np.random.default_rng(3).integers(0, 2**40, 1000)], np.int64)
    both = pricing._charges_compiled(price, norms, SIGNIFICANT_BITS)
    assert both.tolist() == round_up(pricing._charges_compiled(price, norms)).tolist()


@pytest.mark.skipif(reduction.compiled() is None, reason="Numba is not installed")
@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_compiled_packing_is_that_of_numpy(numbers: list[int]) -> None:
    for values in (np.array(numbers, np.int64), round_up(np.array(numbers, np.int64))):
        out = np.zeros(len(values), "<u2")
        short = packed_integers._shorten(values)
        low, high, whole = reduction.compiled().shorten(values, out)
        assert (low, high, whole) == (values.min(), values.max(), short is not None)
        assert (
            short is None or out.tolist() == short[packed_integers._ALIGNED :].view("<u2").tolist()
        )
