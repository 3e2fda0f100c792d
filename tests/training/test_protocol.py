"""Norms and squares that are never below the truth, on hostile inputs; weights that always fit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseq.accounting import Budget, Price, round_up
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.question.plan import DENSE_NORM_STEPS, Noise
from sparseq.training.accountant import Accountant
from sparseq.training.accountant import weights as weights_of
from sparseq.training.protocol import charged_squares, upper_norms

SPECIAL = [0.0, 5e-324, 1e-310, 1e-160, 1e-45, 1.0, 1 + 2**-52, 1e18, 1e150]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
def test_norms_from_rounded_sums_are_not_below_the_truth(dtype: type, data: st.DataObject) -> None:
    width = 32 if dtype is np.float32 else 64
    number = st.floats(width=width, allow_nan=False, allow_infinity=False)
    values = data.draw(st.lists(number | st.sampled_from([0.0, 1.0, 1e-30, 1e-45, 1e-23])))
    x = np.array(values, dtype)
    total = dtype(0)
    with np.errstate(over="ignore"):
        for one in data.draw(st.permutations(list(x))):
            total = dtype(total + dtype(one * one))
        (norm,) = upper_norms(np.array([total], dtype), max(len(x), 1))
    exact = sum((Fraction(float(v)) ** 2 for v in x), Fraction(0))
    assert norm == np.inf or Fraction(float(norm)) ** 2 >= exact
    if 1e-10 < exact < 1e30:  # and not far above it
        assert float(norm) <= float(exact) ** 0.5 * (
            1 + 4 * len(x) * np.finfo(dtype).eps + 2.0**-48
        )


def test_many_terms_that_all_round_down_are_made_good() -> None:
    """1 + u + u + …: each addition of the half unit is lost."""
    unit = np.float32(2.0**-12.5)  # its square is just below half the spacing at 1
    total = np.float32(1)
    for _ in range(4096):
        total = np.float32(total + np.float32(unit * unit))
    assert total == 1
    truth = 1 + 4096 * Fraction(float(unit)) ** 2
    assert Fraction(float(upper_norms(np.array([total]), 4097)[0])) ** 2 >= truth


def test_too_many_terms_are_refused() -> None:
    with pytest.raises(ValueError, match="terms"):
        upper_norms(np.ones(1, np.float32), 2**22)


@given(
    norm=st.floats(0, 1e300) | st.sampled_from(SPECIAL),
    slack=st.sampled_from([0.0, 1e-9, 5e-324]),
    exponent=st.integers(-60, 20),
)
def test_squares_are_not_below_the_truth(norm: float, slack: float, exponent: int) -> None:
    step = 2.0**exponent
    (square,) = charged_squares(np.array([norm]), step, slack).tolist()
    exact = (Fraction(norm) + Fraction(slack)) ** 2 / (Fraction(step) * DENSE_NORM_STEPS) ** 2
    assert square >= exact or square == NORM_LIMIT
    assert (square == 0) == (exact == 0)


@given(
    left=st.lists(st.integers(0, 2**44), min_size=1, max_size=20),
    norm=st.floats(2**-30, 2**60),
    clip=st.floats(2**-20, 2**20),
    sigma_0=st.sampled_from([0.3, 1.0, 37.5, 1000.0]),
    seed=st.integers(0, 99),
)
def test_what_the_weights_let_through_can_be_paid_for(
    left: list[int], norm: float, clip: float, sigma_0: float, seed: int
) -> None:
    budget = Budget.from_epsilon_delta(1.0, 1e-6, 2.0**10)
    sigma = clip * sigma_0
    step = 2.0 ** (np.frexp(sigma)[1] - 44)
    price = Price.of(sigma, step * DENSE_NORM_STEPS, budget)
    noise = Noise(sigma, step, clip, step * DENSE_NORM_STEPS, price)
    accounts = np.array(left)
    norms = norm * np.random.default_rng(seed).uniform(0.1, 2, len(left))
    accountant = Accountant(clip, noise, lambda u: accounts[u])
    weights = weights_of(accountant.limits(np.arange(len(left), dtype=np.int32)), norms)
    assert np.all((weights >= 0) & (weights <= 1))
    assert np.all(weights[accounts == 0] == 0)
    charges = round_up(price.charge(charged_squares(norms * weights, step)))
    assert np.all(charges <= accounts)
    with np.errstate(divide="ignore"):
        wanted = np.minimum(
            1, np.minimum(clip, np.sqrt(accounts / float(price.exact)) * noise.norm_step) / norms
        )
    large = wanted * norms > 2.0**10 * noise.norm_step  # below it, rounding shows
    assert np.allclose(weights[large], wanted[large], rtol=2e-3)


def test_a_gradient_that_is_nothing_has_a_weight_and_no_warning() -> None:
    for limits in (1.0, np.ones(3)):
        assert weights_of(limits, np.array([0.0, np.nan, np.inf])).tolist() == [0, 0, 0]
