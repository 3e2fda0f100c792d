"""rho-zCDP against 60-digit arithmetic, OpenDP and dp-accounting, and on the safe side of all."""

from __future__ import annotations

import math

import dp_accounting
import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.rdp import RdpAccountant
from exact_formulas import (
    deltas,
    deterministic,
    gdp_delta,
    kappas,
    zcdp_delta,
    zcdp_delta_at,
)
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

from sparseq.accounting import gdp, zcdp
from sparseq.base.errors import ParameterError

RHOS = np.geomspace(1e-4, 50, 10).tolist()
DELTAS = [1e-15, 1e-9, 1e-6, 1e-3, 0.1, 0.5]


def opendp_curve(rho):
    dp.enable_features("contrib")
    domain, metric = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    gaussian = dp.m.make_gaussian(domain, metric, scale=math.sqrt(1 / (2 * rho)))
    return dp.c.make_zCDP_to_approxDP(gaussian).map(1.0)


@pytest.mark.parametrize("rho", RHOS)
def test_delta_is_the_formula_over_the_whole_grid(rho):
    for epsilon in np.linspace(0, 50, 9).tolist():
        exact = zcdp_delta(epsilon, rho)
        delta = zcdp.delta(epsilon, rho)
        assert delta <= 1
        assert delta < 2e-300 if exact < 1e-300 else abs(delta / exact - 1) < zcdp.SLACK / 4


@deterministic
@given(kappas, st.floats(-3.0, 25.0))
def test_delta_keeps_its_digits_from_one_down_to_1e_270(rho, deviations):
    epsilon = max(0.0, rho + 2 * deviations * math.sqrt(rho))
    assert abs(zcdp.delta(epsilon, rho) / zcdp_delta(epsilon, rho) - 1) < zcdp.SLACK / 4


@deterministic
@given(st.floats(0.0, 50.0), st.floats(1e-4, 50.0), st.floats(-20.0, 20.0))
def test_no_other_order_gives_a_smaller_delta(epsilon, rho, log_t):
    other = zcdp_delta_at(1 + mpf(math.exp(log_t)), mpf(epsilon), mpf(rho))
    assert zcdp.delta(epsilon, rho) <= other * (1 + zcdp.SLACK) + mpf("1e-307")


@pytest.mark.parametrize("rho", RHOS)
def test_agrees_with_opendp(rho):
    curve = opendp_curve(rho)
    for delta in DELTAS:
        theirs = curve.epsilon(delta)
        assert zcdp.epsilon(delta, rho) == pytest.approx(theirs, rel=1e-9)
        assert zcdp.delta(theirs, rho) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("rho", RHOS)
def test_is_never_looser_than_dp_accounting_over_its_grid_of_orders(rho):
    accountant = RdpAccountant().compose(dp_accounting.ZCDpEvent(rho))
    for delta in (1e-9, 1e-6, 1e-3):
        assert zcdp.epsilon(delta, rho) <= accountant.get_epsilon(delta) * (1 + 1e-9)


@deterministic
@given(kappas, deltas)
def test_epsilon_is_safe_tight_and_between_gdp_and_the_classical_conversion(rho, delta):
    epsilon = zcdp.epsilon(delta, rho)
    assert zcdp_delta(epsilon, rho) <= delta
    below = epsilon - 1e-9 * max(1.0, epsilon)
    assert epsilon == 0 or zcdp_delta(max(0.0, below), rho) > delta
    assert gdp.epsilon(delta, math.sqrt(2 * rho)) <= epsilon
    assert epsilon <= zcdp.epsilon_simple(delta, rho)


@deterministic
@given(st.floats(0.0, 50.0), deltas)
def test_rho_is_safe_and_tight_and_the_way_back_never_exceeds_what_was_asked(epsilon, delta):
    rho = zcdp.rho(epsilon, delta)
    assert zcdp_delta(epsilon, rho) <= delta
    assert zcdp_delta(epsilon, rho * (1 + 1e-9)) > delta
    back = zcdp.epsilon(delta, rho)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-9)


@deterministic
@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.floats(1e-4, 50.0), st.floats(1e-4, 50.0))
def test_delta_falls_with_epsilon_and_grows_with_rho(eps_a, eps_b, rho_a, rho_b):
    (eps_a, eps_b), (rho_a, rho_b) = sorted((eps_a, eps_b)), sorted((rho_a, rho_b))
    assert zcdp.delta(eps_b, rho_a) <= zcdp.delta(eps_a, rho_a) * (1 + zcdp.SLACK)
    assert zcdp.delta(eps_a, rho_a) <= zcdp.delta(eps_a, rho_b) * (1 + zcdp.SLACK)


@deterministic
@given(kappas, deltas)
def test_the_classical_conversion_is_bun_and_steinkes_rounded_up(rho, delta):
    exact = mpf(rho) + 2 * mpmath.sqrt(mpf(rho) * -mpmath.log(mpf(delta)))
    assert exact <= zcdp.epsilon_simple(delta, rho) <= exact * (1 + mpf(2) ** -48)


def test_zcdp_of_a_gaussian_never_promises_more_than_gdp():
    for epsilon in (0.1, 1.0, 5.0):
        assert zcdp.delta(epsilon, 0.5) >= gdp_delta(epsilon, 1.0)


@pytest.mark.parametrize("rho", [1e-300, 1e-100, 1e6, 1e100, 1e300])
def test_extreme_rho_stays_a_probability(rho):
    for epsilon in (0.0, 1.0, 1e6, 1e300):
        assert 0 <= zcdp.delta(epsilon, rho) <= 1


def test_arrays_keep_their_shape_and_equal_the_scalars():
    epsilons = np.arange(6.0).reshape(2, 3)
    deltas = zcdp.delta(epsilons, 0.7)
    assert deltas.shape == (2, 3)
    assert deltas.ravel().tolist() == [zcdp.delta(float(eps), 0.7) for eps in range(6)]
    assert isinstance(zcdp.delta(1, 1), float)


@pytest.mark.parametrize("bad", [-1.5, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: zcdp.delta(bad, 1.0),
        lambda bad: zcdp.delta(1.0, bad),
        lambda bad: zcdp.epsilon(bad, 1.0),
        lambda bad: zcdp.epsilon(1e-6, bad),
        lambda bad: zcdp.rho(bad, 1e-6),
        lambda bad: zcdp.rho(1.0, bad),
        lambda bad: zcdp.epsilon_simple(bad, 1.0),
        lambda bad: zcdp.epsilon_simple(1e-6, bad),
    ],
)
def test_bad_input_is_refused_with_its_value(call, bad):
    with pytest.raises(ParameterError) as caught:
        call(bad)
    assert repr(bad) in caught.value.message
