"""The exact discrete Laplace: probabilities against mpmath, draws against probabilities, price.

Everything is seeded: the false-alarm rate of a statistical test is the chance that it failed when
written.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from numpy.typing import NDArray
from scipy import stats

from sparseq.base.errors import ParameterError
from sparseq.mechanisms import SeededEntropy, discrete_laplace, laplace_rdp
from sparseq.mechanisms.laplace import (
    MAX_SCALE,
    MIN_SCALE,
    _Coin,
    _probability,
    exp_minus,
    laplace_margin,
    laplace_pair_tail,
)

SCALES = [0.25, 0.5, 1.0, 3.7, 50.0, 2.0**20, 2.0**40]
fractions = st.fractions(0, 130, max_denominator=10**6)


def exp(x: Fraction, bits: int) -> mpmath.mpf:
    mp.prec = bits + 200
    return mp.ldexp(mp.exp(-mp.mpf(x.numerator) / x.denominator), bits)


# Probabilities ----------------------------------------------------------------------------------


@settings(max_examples=150)
@given(x=fractions, bits=st.integers(1, 500))
def test_exp_minus_encloses_and_is_narrow(x: Fraction, bits: int) -> None:
    low, high = exp_minus(x, bits)
    assert low <= exp(x, bits) <= high
    assert high - low <= 2


@settings(max_examples=100)
@given(x=fractions.filter(lambda x: x > 0), bits=st.sampled_from([64, 128, 192]))
def test_the_bits_of_a_probability_are_right(x: Fraction, bits: int) -> None:
    e = exp(x, 0)
    assert _probability(x, False, bits) == int(mp.floor(mp.ldexp(e, bits)))
    assert _probability(x, True, bits) == int(mp.floor(mp.ldexp(e / (1 + e), bits)))


class Words:
    """Entropy that plays the given 64-bit words."""

    seeded = True

    def __init__(self, *words: int) -> None:
        self._bytes = b"".join(w.to_bytes(8, "little") for w in words)

    def __call__(self, n_bytes: int) -> bytes:
        out, self._bytes = self._bytes[:n_bytes], self._bytes[n_bytes:]
        assert len(out) == n_bytes
        return out


@pytest.mark.parametrize("ties", [0, 1, 3])
def test_a_uniform_that_follows_the_probability_is_extended(ties: int) -> None:
    """The words are the bits of p for `ties` words, then one unit below or above."""
    x, bits = Fraction(1, 3), 64 * (ties + 1)
    p = _probability(x, True, bits)
    for number, expected in ((p - 1, True), (p + 1, False)):
        words = [number >> at & (2**64 - 1) for at in range(bits - 64, -1, -64)]
        assert _Coin(x, True).flip(1, Words(*words)).tolist() == [expected]


# Distribution -----------------------------------------------------------------------------------


def fit(draws: NDArray[np.int64], scale: float) -> float:
    """p-value of a chi-square test against P(k) = tanh(1/2b) e^(-|k|/b), in up to 40 cells."""
    r = math.exp(-1 / scale)
    cuts = np.unique(np.floor(scale * np.linspace(0, 5, 20)).astype(np.int64))
    upper = r ** (cuts + 1.0) / (1 + r)  # P(L > cut)
    edges = np.concatenate([-cuts[::-1] - 1, cuts])
    below = np.concatenate([upper[::-1], 1 - upper])  # P(L <= edge), as P(L < -cut) = P(L > cut)
    probabilities = np.diff(np.concatenate([[0.0], below, [1.0]]))
    counts = np.bincount(np.searchsorted(edges, draws), minlength=len(probabilities))
    big = probabilities * len(draws) > 5
    cells = [np.append(x[big], x[~big].sum()) for x in (counts, probabilities * len(draws))]
    if cells[1][-1] == 0:
        cells = [x[:-1] for x in cells]
    return float(stats.chisquare(*cells).pvalue)


@pytest.mark.parametrize("scale", SCALES)
def test_the_distribution_is_right(scale: float) -> None:
    """100,000 draws; false-alarm rate 1e-6 per scale."""
    assert fit(discrete_laplace(scale, 100_000, SeededEntropy(41)), scale) > 1e-6


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("scale", SCALES[:-1])
def test_a_tenth_more_or_less_scale_fails(scale: float, factor: float) -> None:
    """The power of the test above."""
    assert fit(discrete_laplace(scale * factor, 100_000, SeededEntropy(42)), scale) < 1e-9


def test_low_bits_are_uniform_and_neighbours_independent() -> None:
    """Modulo 16, at scale 2^20; correlation at lag 1. False-alarm rate 1e-5 in all."""
    draws = discrete_laplace(2.0**20, 100_000, SeededEntropy(43))
    assert stats.chisquare(np.bincount(draws & 15, minlength=16)).pvalue > 1e-6
    z = draws / draws.std()
    assert abs(z[1:] @ z[:-1]) / math.sqrt(len(z)) < 4.5


def test_recorded_draws_never_change() -> None:
    assert discrete_laplace(1000.0, 4, SeededEntropy(2021)).tolist() == [843, -190, -542, -1468]


def test_by_default_the_entropy_is_the_systems() -> None:
    assert (discrete_laplace(2.0**30, 50) != discrete_laplace(2.0**30, 50)).any()
    assert discrete_laplace(1.0, 0).shape == (0,)


# Price ------------------------------------------------------------------------------------------


def summed_rdp(order: float, scale: float, shift: int) -> mpmath.mpf:
    """The divergence by summing over the integers, at 200 bits."""
    mp.prec = 200
    b, a = mp.mpf(scale), mp.mpf(order)
    reach = int(60 * scale) + 2 * shift + 60
    total = mp.fsum(
        mp.exp(-a * abs(k) / b - (1 - a) * abs(k + shift) / b) for k in range(-reach, reach)
    )
    return mp.log(total * mp.tanh(1 / (2 * b))) / (a - 1)


@pytest.mark.parametrize("order", [1.01, 2.0, 8.5, 64.0])
@pytest.mark.parametrize(("scale", "shift"), [(0.5, 1), (3.0, 1), (3.0, 2), (10.0, 7)])
def test_the_price_is_the_sum_over_all_integers(order: float, scale: float, shift: int) -> None:
    exact, price = summed_rdp(order, scale, shift), laplace_rdp(order, scale, shift)
    assert exact <= price <= exact * (1 + 1e-9)


@given(
    order=st.floats(1.001, 1000),
    scale=st.floats(0.05, 1e6),
    shift=st.integers(0, 1000),
    more=st.floats(1, 10),
)
def test_less_noise_or_a_wider_shift_never_costs_less(
    order: float, scale: float, shift: int, more: float
) -> None:
    price = laplace_rdp(order, scale, shift)
    slack = 1 + 1e-9  # the roundings up
    tiny = 2**-44 / (order - 1)
    assert laplace_rdp(order, scale, shift + 1) * slack + tiny >= price
    assert laplace_rdp(order * more, scale, shift) * slack + tiny >= price
    assert laplace_rdp(order, scale * more, shift) <= price * slack + tiny
    epsilon = shift / scale
    assert price <= min(epsilon, order * epsilon**2 / 2) * slack


@pytest.mark.parametrize("scale", [0.5, 3.0, 100.0])
@pytest.mark.parametrize(("beta", "draws"), [(0.5, 1), (0.05, 1), (0.01, 100)])
def test_the_margin_holds_exactly(scale: float, beta: float, draws: int) -> None:
    r = math.exp(-1 / scale)
    beyond = 2 * r ** (laplace_margin(scale, beta, draws) + 1) / (1 + r)
    assert draws * beyond <= beta


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, MIN_SCALE / 2, MAX_SCALE * 2])
def test_scale_out_of_range(bad: float) -> None:
    with pytest.raises(ParameterError, match=r"scale is .*; it must be in \[0.015625, 1.09951e"):
        discrete_laplace(bad, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: discrete_laplace(1.0, -1), "size is -1"),
        (lambda: laplace_rdp(1.0, 1.0, 1), r"order is 1.0; it must be in \(1, "),
        (lambda: laplace_rdp(2.0, 1.0, -1), "shift is -1"),
        (lambda: laplace_margin(1.0, 0.0), "beta is 0.0"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()  # type: ignore[operator]


def test_the_tail_of_a_pair_is_that_of_the_convolution() -> None:
    k = np.arange(-4000, 4001)
    for scale in (0.4, 7.08, 60.0):
        one = np.exp(-np.abs(k) / scale)
        one /= one.sum()
        both, s = np.convolve(one, one), np.arange(-8000, 8001)
        for least in (0, 1, 5, round(12 * scale)):
            exact = both[s >= least].sum()
            assert laplace_pair_tail(scale, np.array([least]))[0] == pytest.approx(exact, rel=1e-9)
    assert laplace_pair_tail(1.0, np.array([-3]))[0] == 1.0
