"""mu-GDP against 60-digit arithmetic and dp-accounting, and on the safe side of both."""

from __future__ import annotations

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from exact_formulas import deltas, deterministic, gdp_delta, kappas
from hypothesis import given
from hypothesis import strategies as st

from sparseq.accounting import gdp
from sparseq.accounting.gdp import _minus_erfcx_slope
from sparseq.base.errors import ParameterError

MUS = [math.sqrt(2 * kappa) for kappa in np.geomspace(1e-4, 50, 12)]
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 0.5]


@pytest.mark.parametrize("mu", MUS)
def test_delta_is_the_formula_over_the_whole_grid(mu):
    epsilons = np.linspace(0, 50, 23)
    for epsilon, delta in zip(epsilons, gdp.delta(epsilons, mu), strict=True):
        exact = gdp_delta(epsilon, mu)
        if exact > 1e-300:
            assert abs(delta / exact - 1) < 1e-12
        else:
            assert delta < 2e-300


@deterministic
@given(st.floats(1e-5, 45.0), st.floats(-4.0, 36.0))
def test_delta_keeps_its_digits_from_one_down_to_1e_300(mu, deviations):
    epsilon = max(0.0, mu * (mu / 2 + deviations))
    exact = gdp_delta(epsilon, mu)
    if exact > 1e-300:
        assert abs(gdp.delta(epsilon, mu) / exact - 1) < gdp.SLACK / 4


@pytest.mark.parametrize("mu", [1e-300, 1e-120, 1e-9, 1e3, 1e9, 1e150])
def test_extreme_mu_neither_warns_nor_loses_the_limits(mu):
    assert gdp.delta(0.0, mu) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-14)
    assert gdp.delta(1e308, mu) == 0.0


def test_the_slope_of_erfcx_keeps_its_digits_where_its_terms_cancel():
    points = [-0.3, 0.0, 0.5, 2.0, 3.999, 4.0, 4.001, 7.0, 15.0, 26.0, 40.0]
    for point, slope in zip(points, _minus_erfcx_slope(np.array(points)), strict=True):
        with mpmath.workdps(1000):  # exp(t²) erfc(t) to 60 digits and more
            t = mpmath.mpf(point)
            exact = 2 / mpmath.sqrt(mpmath.pi) - 2 * t * mpmath.exp(t * t) * mpmath.erfc(t)
            assert abs(slope / exact - 1) < 2e-14


@pytest.mark.parametrize("mu", [1e3 / 3, 1e6 / 3, 1e9 / 3])
@pytest.mark.parametrize("deviations", [-2.0, 0.0, 3.0, 25.0])
def test_large_mu_keeps_the_digits_that_its_square_loses(mu, deviations):
    epsilon = mu * (mu / 2 + deviations)
    assert gdp.delta(epsilon, mu) == pytest.approx(float(gdp_delta(epsilon, mu)), rel=1e-12)


@pytest.mark.parametrize("mu", MUS)
def test_epsilon_agrees_with_dp_accounting(mu):
    for delta in DELTAS:
        theirs = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
        assert gdp.epsilon(delta, mu) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 1.0, 8.0, 50.0])
def test_mu_agrees_with_dp_accounting(epsilon):
    for delta in DELTAS:
        theirs = 1 / dp_accounting.get_sigma_gaussian(epsilon, delta, tol=1e-14)
        if epsilon == 0 and delta < 1e-6:  # theirs is off, by up to 5 %: it subtracts 1/2 from 1/2
            theirs = float(math.sqrt(8) * mpmath.erfinv(delta))
        assert gdp.mu(epsilon, delta) == pytest.approx(theirs, rel=1e-9)


def test_delta_agrees_with_the_privacy_loss_distribution_of_dp_accounting():
    loss = GaussianPrivacyLoss(standard_deviation=0.8)
    accountant = PLDAccountant().compose(dp_accounting.GaussianDpEvent(0.8))
    for epsilon in (0.1, 1.0, 3.0, 6.0):
        ours = gdp.delta(epsilon, 1 / 0.8)
        assert ours == pytest.approx(loss.get_delta_for_epsilon(epsilon), rel=1e-9)
        assert ours == pytest.approx(accountant.get_delta(epsilon), rel=1e-4)


@deterministic
@given(kappas, deltas)
def test_epsilon_is_safe_and_tight(kappa, delta):
    mu = math.sqrt(2 * kappa)
    epsilon = gdp.epsilon(delta, mu)
    assert gdp_delta(epsilon, mu) <= delta
    assert epsilon == 0 or gdp_delta(max(0.0, epsilon - 1e-9 * max(1.0, epsilon)), mu) > delta


@deterministic
@given(st.floats(0.0, 50.0), deltas)
def test_mu_is_safe_and_tight_and_the_way_back_never_exceeds_what_was_asked(epsilon, delta):
    mu = gdp.mu(epsilon, delta)
    assert gdp_delta(epsilon, mu) <= delta
    assert gdp_delta(epsilon, mu * (1 + 1e-9)) > delta
    back = gdp.epsilon(delta, mu)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-9)


@deterministic
@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.floats(1e-2, 10.0), st.floats(1e-2, 10.0))
def test_delta_falls_with_epsilon_and_grows_with_mu(eps_a, eps_b, mu_a, mu_b):
    (eps_a, eps_b), (mu_a, mu_b) = sorted((eps_a, eps_b)), sorted((mu_a, mu_b))
    assert gdp.delta(eps_b, mu_a) <= gdp.delta(eps_a, mu_a) * (1 + gdp.SLACK)
    assert gdp.delta(eps_a, mu_a) <= gdp.delta(eps_a, mu_b) * (1 + gdp.SLACK)


def test_arrays_keep_their_shape_and_equal_the_scalars():
    epsilons = np.arange(6.0).reshape(2, 3)
    deltas = gdp.delta(epsilons, 1.3)
    assert deltas.shape == (2, 3)
    assert deltas.ravel().tolist() == [gdp.delta(float(eps), 1.3) for eps in range(6)]
    assert isinstance(gdp.delta(1, 1), float)
    assert gdp.delta(np.zeros(0), 1.0).shape == (0,)


def test_a_delta_large_enough_needs_no_epsilon():
    assert gdp.epsilon(0.5, 0.1) == 0.0


@pytest.mark.parametrize("bad", [-1.5, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: gdp.delta(bad, 1.0),
        lambda bad: gdp.delta(1.0, bad),
        lambda bad: gdp.epsilon(bad, 1.0),
        lambda bad: gdp.epsilon(1e-6, bad),
        lambda bad: gdp.mu(bad, 1e-6),
        lambda bad: gdp.mu(1.0, bad),
    ],
)
def test_bad_input_is_refused_with_its_value(call, bad):
    with pytest.raises(ParameterError) as caught:
        call(bad)
    assert repr(bad) in caught.value.message


def test_a_bad_epsilon_in_an_array_is_named():
    with pytest.raises(ParameterError, match=r"epsilon is -2\.5"):
        gdp.delta(np.array([1.0, -2.5]), 1.0)


@pytest.mark.parametrize("delta", [0.0, 1.0, 1e-200])
def test_delta_at_the_ends_is_refused(delta):
    with pytest.raises(ParameterError, match="delta is"):
        gdp.epsilon(delta, 1.0)
