"""Randomised response: exact chances, price against the definition, an unbiased estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy import stats

from sparseq.base.errors import ParameterError
from sparseq.mechanisms import RandomizedResponse, SeededEntropy
from sparseq.mechanisms.randomized_response import uniform_below

ratios = st.fractions(1, 1000, max_denominator=1000)


class Words:
    """Entropy that plays the given 64-bit words."""

    seeded = True

    def __init__(self, *words: int) -> None:
        self._bytes = b"".join(w.to_bytes(8, "little") for w in words)

    def __call__(self, n_bytes: int) -> bytes:
        out, self._bytes = self._bytes[:n_bytes], self._bytes[n_bytes:]
        return out


# Draws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 1000])
def test_uniform_below_is_uniform(limit: int) -> None:
    """50,000 draws, false-alarm rate 1e-6."""
    counts = np.bincount(uniform_below(limit, 50_000, SeededEntropy(81)), minlength=limit)
    assert len(counts) == limit
    assert limit == 1 or stats.chisquare(counts).pvalue > 1e-6


def test_words_that_would_bias_are_rejected() -> None:
    assert uniform_below(3, 1, Words(2**64 - 1, 5)).tolist() == [2]  # 2^64 - 1 of 3 * k
    assert uniform_below(3, 1, Words(2**64 - 2)).tolist() == [2]
    assert uniform_below(2**62, 1, Words(2**64 - 1)).tolist() == [2**62 - 1]
    assert uniform_below(2**62 - 1, 2, Words(2**64 - 1, 7, 2**64 - 4, 9)).tolist() == [9, 7]


CASES = [(Fraction(3), 2), (Fraction(1), 3), (Fraction(7, 5), 4), (Fraction(40), 10)]


def answer_fit(ratio: Fraction, design: RandomizedResponse, value: int) -> float:
    """p-value of 40,000 answers of one category against the chances at `ratio`."""
    k = design.categories
    answers = design.respond(np.full(40_000, value), SeededEntropy(82))
    chances = np.full(k, float(1 / (ratio + k - 1)))
    chances[value] *= float(ratio)
    return float(stats.chisquare(np.bincount(answers, minlength=k), 40_000 * chances).pvalue)


@pytest.mark.parametrize(("ratio", "k"), CASES)
def test_answers_have_their_chances_and_ten_percent_off_fails(ratio: Fraction, k: int) -> None:
    """False-alarm rate 1e-6 a case and category; a ratio 10 % off is rejected at 1e-6."""
    for value in range(min(k, 4)):
        assert answer_fit(ratio, RandomizedResponse(ratio, k), value) > 1e-6
    off = RandomizedResponse(ratio * Fraction(11, 10), k)
    assert answer_fit(ratio, off, 0) < 1e-4 if ratio == 40 else answer_fit(ratio, off, 0) < 1e-6


def test_a_user_who_is_not_there_answers_uniformly() -> None:
    answers = RandomizedResponse(Fraction(50), 5).respond(np.full(20_000, -1), SeededEntropy(83))
    assert stats.chisquare(np.bincount(answers, minlength=5)).pvalue > 1e-6


# Price ------------------------------------------------------------------------------------------


@given(ratio=ratios, k=st.integers(2, 50))
def test_chances_are_exact_and_differ_by_the_ratio(ratio: Fraction, k: int) -> None:
    design = RandomizedResponse(ratio, k)
    assert design.truth + (k - 1) * design.lie == 1
    assert design.truth / design.lie == ratio
    assert design.lie <= Fraction(1, k) <= design.truth  # the absent user is in between
    mp.prec = 200
    exact = mp.log(mp.mpf(ratio.numerator) / ratio.denominator)
    assert exact <= design.epsilon <= exact * (1 + 1e-14)


@given(ratio=ratios.filter(lambda r: r > 1), k=st.integers(2, 9), order=st.floats(1.01, 200))
def test_the_curve_is_the_definition(ratio: Fraction, k: int, order: float) -> None:
    """Mpmath at 200 bits: between two categories; an absent user is no further from either."""
    design, a = RandomizedResponse(ratio, k), mpmath.mpf(order)
    mp.prec = 200

    def answers(j: int | None) -> list[mpmath.mpf]:
        if j is None:
            return [mp.mpf(1) / k] * k
        t, o = (mp.mpf(x.numerator) / x.denominator for x in (design.truth, design.lie))
        return [t if i == j else o for i in range(k)]

    def divergence(i: int | None, j: int | None) -> mpmath.mpf:
        pairs = zip(answers(i), answers(j), strict=True)
        return mp.log(mp.fsum(p**a * q ** (1 - a) for p, q in pairs)) / (a - 1)

    price, exact = design.rdp(order), divergence(0, 1)
    tiny = 2.0**-40 * (1 + order) / (order - 1)
    assert exact <= price <= exact + tiny * (1 + design.epsilon)
    assert price <= min(design.epsilon, order * design.rho) * (1 + 1e-12)
    assert max(divergence(0, None), divergence(None, 0)) <= price


@given(epsilon=st.floats(0, 20), k=st.integers(2, 5))
def test_of_epsilon_is_as_large_as_it_may_be(epsilon: float, k: int) -> None:
    ratio = RandomizedResponse.of_epsilon(epsilon, k).ratio
    mp.prec = 200
    target = mp.exp(mp.mpf(epsilon))
    exact = mp.mpf(ratio.numerator) / ratio.denominator
    assert exact <= target < exact + mp.mpf(2) ** -31


# Estimate ---------------------------------------------------------------------------------------


def estimates(design: RandomizedResponse, values: np.ndarray, runs: int, seed: int) -> np.ndarray:
    entropy = SeededEntropy(seed)
    return np.array([design.estimate(design.respond(values, entropy)) for _ in range(runs)])


def test_the_estimate_is_unbiased_with_the_variance_stated() -> None:
    """2,000 runs of 300 users; mean |z| < 4.5, variance within its 1e-5 interval, each category."""
    design, true = RandomizedResponse(Fraction(5, 2), 3), [150, 100, 50]
    found = estimates(design, np.repeat([0, 1, 2], true), 2000, 84)
    for j, n in enumerate(true):
        variance = float(design.variance(300, n))
        assert abs(found[:, j].mean() - n) < 4.5 * math.sqrt(variance / 2000)
        assert abs(found[:, j].var() / variance - 1) < 4.5 * math.sqrt(2 / 2000)


def test_absent_users_add_one_kth_to_each() -> None:
    design = RandomizedResponse(Fraction(4), 4)
    found = estimates(design, np.repeat([0, -1], [100, 200]), 2000, 85).mean(axis=0)
    assert np.abs(found - [150, 50, 50, 50]).max() < 3


def test_the_bound_holds_at_its_rate() -> None:
    """beta 0.1 over 1,000 runs: at most 137 failures, chance below 1e-4 were it just met."""
    design, true = RandomizedResponse(Fraction(3), 3), [200, 100, 100]
    found = estimates(design, np.repeat([0, 1, 2], true), 1000, 86)
    failures = (np.abs(found - true).max(axis=1) > design.bound(400, 0.1)).sum()
    assert failures <= 137


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RandomizedResponse(Fraction(1, 2)), r"ratio is Fraction\(1, 2\); .* \[1, 2\^29\]"),
        (lambda: RandomizedResponse(2.5), "ratio is 2.5"),  # type: ignore[arg-type]
        (lambda: RandomizedResponse(Fraction(2**30)), "ratio is Fraction"),
        (lambda: RandomizedResponse(Fraction(2), 1), "categories is 1"),
        (lambda: RandomizedResponse.of_epsilon(-1.0), r"epsilon is -1.0; it must be in \[0, 20\]"),
        (lambda: RandomizedResponse.of_epsilon(math.nan), "epsilon is nan"),
        (lambda: RandomizedResponse(Fraction(2)).respond(np.array([2])), "a value is 2"),
        (lambda: RandomizedResponse(Fraction(2)).rdp(1.0), "order is 1.0"),
        (lambda: RandomizedResponse(Fraction(1)).estimate(np.array([0])), "ratio is 1"),
        (lambda: RandomizedResponse(Fraction(2)).bound(0, 0.1), "users is 0"),
        (lambda: RandomizedResponse(Fraction(2)).variance(5, 6), "of_category is 6"),
        (lambda: uniform_below(0, 1), "limit is 0"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
