"""Directed rounding and the search between neighbouring floats."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

from exact_formulas import deterministic
from hypothesis import given
from hypothesis import strategies as st

from sparseq.accounting._safe_floats import boundary, round_down, sqrt_up

positive = st.floats(sys.float_info.min, 1e300)


@deterministic
@given(positive, positive)
def test_sqrt_up_is_the_smallest_float_not_below(numerator, denominator):
    square = Fraction(numerator) / Fraction(denominator)
    if Fraction(1, 2**2000) < square < 2**2000:
        root = sqrt_up(square)
        assert Fraction(math.nextafter(root, 0.0)) ** 2 < square <= Fraction(root) ** 2


@deterministic
@given(positive)
def test_sqrt_up_of_a_square_is_its_root(root):
    assert sqrt_up(Fraction(root) ** 2) == root


@deterministic
@given(positive, positive)
def test_round_down_is_the_largest_float_not_above(numerator, denominator):
    exact = Fraction(numerator) / Fraction(denominator)
    if exact < 2**1000:
        rounded = round_down(exact)
        assert rounded <= exact < math.nextafter(rounded, math.inf)


@deterministic
@given(positive, st.booleans())
def test_boundary_ends_at_neighbours_in_few_tests(threshold, rising):
    calls = []

    def holds(x):
        calls.append(x)
        return (x >= threshold) == rising

    assert boundary(holds, 0.0, 2e300) == (math.nextafter(threshold, 0.0), threshold)
    assert len(calls) <= 64
