"""Accuracy bounds against 60-digit arithmetic and against the rounded Gaussian itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_formulas import deterministic, simultaneous_quantile
from hypothesis import given
from hypothesis import strategies as st

from sparseq.accounting import Budget, corollary_bound, sigma_for_accuracy, simultaneous_bound
from sparseq.base.errors import ParameterError

BETAS = [1e-15, 1e-9, 1e-3, 0.05, 0.5, 0.999, 1 - 2**-53]
COORDINATES = [1, 2, 3, 10, 10**3, 10**6, 10**9, 2**63]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_the_simultaneous_bound_is_the_exact_quantile_and_the_corollarys_is_larger(
    coordinates, beta
):
    exact = simultaneous_quantile(coordinates, beta)
    bound = simultaneous_bound(1.0, coordinates, beta)
    assert abs(bound / exact - 1) < 4e-15
    assert bound < corollary_bound(1.0, coordinates, beta)


def test_the_corollary_at_scale_one_is_its_own_formula():
    budget = Budget(kappa=0.3, norm_budget=40.0)
    for coordinates, beta in ((1, 0.05), (7, 1e-6)):
        formula = math.sqrt(40.0 * math.log(coordinates / beta) / 0.3)
        ours = corollary_bound(budget.sigma_0, coordinates, beta)
        assert ours == pytest.approx(formula, rel=1e-14)


@pytest.mark.parametrize("sigma", [0.3, 2.0, 50.0])
def test_rounded_noise_exceeds_the_bound_with_probability_at_most_beta(sigma):
    """Exactly: |floor(Z + 1/2)| > bound iff |Z| passes the next half-integer."""
    for beta in (0.5, 0.05, 1e-6):
        bound = simultaneous_bound(sigma, 1, beta, lattice_step=1.0)
        first_outside = math.floor(bound) + 1
        outside = math.erfc((first_outside - 0.5) / sigma / math.sqrt(2))
        assert outside <= beta * (1 + 1e-12)
        if sigma == 50.0:
            assert outside > 0.5 * beta  # the half step is not a licence for looseness


def test_half_a_lattice_step_is_added_once():
    for bound in (corollary_bound, simultaneous_bound):
        assert bound(3.0, 5, 0.1, 0.25) == bound(3.0, 5, 0.1) + 0.125


def test_bounds_are_vectorised_over_sigma():
    sigmas = np.array([[1.0, 2.0], [3.0, 4.0]])
    for bound in (corollary_bound, simultaneous_bound):
        bounds = bound(sigmas, 4, 0.05, 0.5)
        assert bounds.shape == (2, 2)
        assert bounds.ravel().tolist() == [bound(float(s), 4, 0.05, 0.5) for s in sigmas.ravel()]
        assert isinstance(bound(1, 4, 0.05), float)


@deterministic
@given(
    st.floats(1e-6, 1e9),
    st.integers(1, 10**9),
    st.floats(1e-15, 0.99),
    st.floats(0.0, 1.9),
)
def test_sigma_for_accuracy_keeps_the_accuracy_asked_for(accuracy, coordinates, beta, steps):
    sigma = sigma_for_accuracy(accuracy, coordinates, beta, steps * accuracy)
    bound = simultaneous_bound(sigma, coordinates, beta, steps * accuracy)
    assert bound <= accuracy
    assert bound == pytest.approx(accuracy, rel=1e-12)


@deterministic
@given(st.integers(1, 10**9), st.integers(1, 10**9), st.floats(1e-15, 0.99), st.floats(1e-15, 0.99))
def test_bounds_grow_with_coordinates_and_fall_with_beta(d_a, d_b, beta_a, beta_b):
    (d_a, d_b), (beta_a, beta_b) = sorted((d_a, d_b)), sorted((beta_a, beta_b))
    for bound in (corollary_bound, simultaneous_bound):
        assert bound(1.0, d_a, beta_b) <= bound(1.0, d_b, beta_a) * (1 + 1e-14)


@pytest.mark.parametrize("step", [2.0, 3.0])
def test_an_accuracy_within_half_a_step_is_refused(step):
    with pytest.raises(ParameterError, match=r"accuracy is 1\.0"):
        sigma_for_accuracy(1.0, 1, 0.05, step)


@pytest.mark.parametrize("bad", [0, -1.5, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("bound", [corollary_bound, simultaneous_bound, sigma_for_accuracy])
def test_bad_input_is_refused_with_its_value(bound, bad):
    calls = [lambda: bound(bad, 2, 0.05), lambda: bound(1.0, 2, bad)]
    if bad is not True:
        calls.append(lambda: bound(1.0, bad, 0.05))
    if bad != 0:
        calls.append(lambda: bound(1.0, 2, 0.05, bad))
    for call in calls:
        with pytest.raises(ParameterError) as caught:
            call()
        assert repr(bad) in caught.value.message


def test_a_bad_sigma_in_an_array_is_named():
    with pytest.raises(ParameterError, match=r"sigma is -2\.5"):
        corollary_bound(np.array([1.0, -2.5]), 1, 0.05)
