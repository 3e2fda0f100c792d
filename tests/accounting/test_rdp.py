"""Rényi curves and conversions against dp-accounting, OpenDP, and integrals by mpmath."""

from __future__ import annotations

import math
from functools import partial

import dp_accounting
import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from exact_formulas import deltas, deterministic, laplace_rdp, off, rdp_epsilon, response_rdp
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from sampled import one_in

from sparseq.accounting import rdp, zcdp
from sparseq.base.errors import ParameterError

ORDERS = [1.001, 1.1, 1.5, 2.0, 3.7, 8.0, 32.0, 64.5, 256.0, 1024.0]
SIZES = np.geomspace(1e-3, 100, 11).tolist()
SAMPLED = [
    (q, s, a)
    for q in (1e-6, 1e-3, 0.02, 0.3, 0.9, 0.9999)
    for s in (0.3, 0.7, 1.0, 3.0, 40.0)
    for a in (1.05, 1.5, 2.0, 4.3, 8.0, 33.0)
]
replace_one = dp_accounting.NeighboringRelation.REPLACE_ONE
orders = st.floats(1.001, 500.0)
sizes = st.floats(1e-3, 100.0)


def theirs(event, at, relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE):
    return RdpAccountant(at, relation).compose(event)._rdp


@pytest.mark.parametrize("size", SIZES)
def test_gaussian_agrees_with_dp_accounting(size):
    event = dp_accounting.GaussianDpEvent(size)
    assert rdp.gaussian(size, ORDERS) == pytest.approx(theirs(event, ORDERS), rel=1e-12)


def agrees(ours, others, exact):
    """Within 1e-9 of theirs; where it is not, theirs is off, and ours within 1e-12 of 60 digits.

    Returns how many of theirs were off.
    """
    missed = 0
    for own, other, true in zip(ours, others, exact, strict=True):
        if off(own, other) > 1e-9:
            missed += 1
            assert off(float(other), float(true)) > 1e-9
            assert off(own, float(true)) < 1e-12
    return missed


def test_laplace_agrees_with_dp_accounting():
    """Theirs subtracts nearly equal numbers where the noise is large and the order small."""
    missed = 0
    for size in SIZES:
        event = dp_accounting.LaplaceDpEvent(size)
        exact = [laplace_rdp(size, order) for order in ORDERS]
        missed += agrees(rdp.laplace(size, ORDERS).tolist(), theirs(event, ORDERS), exact)
    assert missed <= 0.05 * len(SIZES) * len(ORDERS)


def test_randomized_response_agrees_with_dp_accounting():
    """Theirs subtracts nearly equal numbers where p is next to 1/2."""
    missed = 0
    chances = [0.5001, 0.51, 0.6, 0.75, 0.9, 0.99, 0.9999]
    for p in chances:
        event = dp_accounting.RandomizedResponseDpEvent(2 - 2 * p, 2)
        exact = [response_rdp(p, order) for order in ORDERS]
        ours = rdp.randomized_response(p, ORDERS)
        missed += agrees(ours.tolist(), theirs(event, ORDERS, replace_one), exact)
        assert rdp.randomized_response(1 - p, ORDERS) == pytest.approx(ours, rel=1e-11)
    assert missed <= 0.05 * len(chances) * len(ORDERS)


def integrated(log_p, log_q, order, points):
    """D_alpha(P || Q), integrated."""
    with mpmath.workdps(20):
        inner = mpmath.quad(lambda z: mpmath.exp(order * log_p(z) + (1 - order) * log_q(z)), points)
        return mpmath.log(inner) / (mpf(order) - 1)


@pytest.mark.parametrize("order", [1.1, 3.7, 16.0])
@pytest.mark.parametrize("size", [0.5, 5.0])
def test_gaussian_and_laplace_are_the_integrals(size, order):
    normal = partial(_log_normal, size)
    middle = mpf(order)  # the integrand is a normal density around alpha
    points = [middle + k * size for k in (-40, -12, -4, 0, 4, 12, 40)]
    exact = integrated(lambda z: normal(z - 1), normal, order, points)
    assert rdp.gaussian(size, order) == pytest.approx(float(exact), rel=1e-12)
    exact = integrated(
        lambda z: -abs(z - 1) / size,
        lambda z: -abs(z) / size,
        order,
        [-80 * size, -5 * size, 0, 1, 1 + 5 * size, 1 + 80 * size],
    ) - mpmath.log(2 * size) / (order - 1)
    assert rdp.laplace(size, order) == pytest.approx(float(exact), rel=1e-9)


def _log_normal(sigma, z):
    return -z * z / (2 * mpf(sigma) ** 2) - mpmath.log(sigma * mpmath.sqrt(2 * mpmath.pi))


@deterministic
@given(st.floats(1e-6, 1 - 1e-6), orders)
def test_randomized_response_is_the_sum(p, order):
    wanted = max(float(response_rdp(p, order)), 0.0)  # at 1/2 it is 0, and rounded there
    assert off(rdp.randomized_response(p, order), wanted) < 1e-11


@deterministic
@given(st.floats(1e-8, 200.0), orders)
def test_laplace_keeps_its_digits(size, order):
    assert off(rdp.laplace(size, order), float(laplace_rdp(size, order))) < 1e-12


def sampled_exactly(q, sigma, order, digits=22):
    """log(A)/(alpha-1) by mpmath's quadrature of A - 1."""
    with mpmath.workdps(digits):
        q, s, a = mpf(q), mpf(sigma), mpf(order)

        def excess(z):
            x = q * mpmath.expm1((2 * z - 1) / (2 * s * s))
            return mpmath.npdf(z, 0, s) * (mpmath.expm1(a * mpmath.log1p(x)) - a * x)

        steps = (-12, -6, -3, -1, 0, 1, 3, 6, 12)
        points = sorted({centre + k * s for k in steps for centre in (mpf(0), a / 2, a)})
        return float(mpmath.log1p(mpmath.quad(excess, points)) / (a - 1))


def sampled_binomially(q, sigma, order):
    """The same at a whole order: the binomial sum, in 60 digits."""
    with mpmath.workdps(60):
        q, s = mpf(q), mpf(sigma)
        total = sum(
            mpmath.binomial(order, k)
            * (1 - q) ** (order - k)
            * q**k
            * mpmath.exp(mpf(k * (k - 1)) / (2 * s * s))
            for k in range(int(order) + 1)
        )
        return float(mpmath.log(total) / (order - 1))


@pytest.mark.parametrize(("q", "sigma", "order"), [one for one in SAMPLED if one[2] < 5][::13])
def test_subsampled_gaussian_is_the_integral(q, sigma, order):
    exact = sampled_exactly(q, sigma, order)
    assert rdp.subsampled_gaussian(q, sigma, order) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("order", one_in(2, [1 + 1e-9, 1 + 1e-6, 1.0001]))
@pytest.mark.parametrize(("q", "sigma"), [(0.01, 1.0), (0.9, 5.0)])
def test_subsampled_gaussian_keeps_its_digits_next_to_order_one(q, sigma, order):
    exact = sampled_exactly(q, sigma, order, digits=40)
    assert rdp.subsampled_gaussian(q, sigma, order) == pytest.approx(exact, rel=1e-12)


def test_subsampled_gaussian_is_the_binomial_sum_at_whole_orders():
    for q, sigma, order in SAMPLED:
        if order == int(order):
            exact = sampled_binomially(q, sigma, order)
            assert rdp.subsampled_gaussian(q, sigma, order) == pytest.approx(exact, rel=1e-12)


def test_subsampled_gaussian_agrees_with_dp_accounting_at_whole_orders():
    """Theirs adds logarithms: log(A) is off by about 1e-14, which is much where it is small."""
    whole = [one for one in SAMPLED if one[2] == int(one[2])]
    ours = [float(rdp.subsampled_gaussian(*one)) for one in whole]
    others = [sampled_by_dp_accounting(*one) for one in whole]
    missed = agrees(ours, others, [sampled_binomially(*one) for one in whole])
    assert missed <= 0.1 * len(whole)


def test_subsampled_gaussian_is_never_looser_at_other_orders():
    """Theirs takes the series' terms without their signs: a bound, up to 1 % above the truth."""
    for q, sigma, order in SAMPLED[1::5]:
        wanted = sampled_by_dp_accounting(q, sigma, order)
        assert rdp.subsampled_gaussian(q, sigma, order) <= wanted + 1e-9 * wanted + 1e-13


def sampled_by_dp_accounting(q, sigma, order):
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    return theirs(event, [order])[0]


def test_subsampled_gaussian_at_its_ends():
    assert rdp.subsampled_gaussian(0, 1.0, ORDERS).tolist() == [0] * len(ORDERS)
    assert (rdp.subsampled_gaussian(1, 2.0, ORDERS) == rdp.gaussian(2.0, ORDERS)).all()
    assert rdp.subsampled_gaussian(1 - 1e-16, 2.0, ORDERS) == pytest.approx(
        rdp.gaussian(2.0, ORDERS), rel=1e-12
    )
    for sigma in (1e-3, 0.05, 1e9, 1e300):  # a huge grid, no grid at all
        curve = rdp.subsampled_gaussian(0.5, sigma, ORDERS)
        assert ((curve >= 0) & (curve <= rdp.gaussian(sigma, ORDERS))).all()


@deterministic
@given(sizes, sizes, st.floats(0, 1), st.floats(0, 1), orders, orders)
def test_less_noise_never_costs_less_and_higher_orders_never_cost_less(s, t, q, r, a, b):
    (s, t), (q, r), (a, b) = sorted((s, t)), sorted((q, r)), sorted((a, b))
    slack = 1 + 1e-12
    for curve in (rdp.gaussian, rdp.laplace):
        assert curve(t, a) <= curve(s, a) * slack
        assert curve(s, a) <= curve(s, b) * slack
    assert rdp.pure(s, a) <= rdp.pure(t, a) * slack
    assert rdp.pure(s, a) <= rdp.pure(s, b) * slack
    sampled = rdp.subsampled_gaussian
    s, t = max(s, 0.1), max(t, 0.1)
    assert sampled(q, t, a) <= sampled(q, s, a) * slack
    assert sampled(q, t, a) <= sampled(r, t, a) * slack
    assert sampled(q, t, a) <= sampled(q, t, b) * slack


@deterministic
@given(st.floats(0.0, 50.0), orders)
def test_no_pure_mechanism_exceeds_the_pure_curve_nor_it_the_classical_bounds(epsilon, order):
    bound = float(rdp.pure(epsilon, order))
    assert bound <= min(epsilon, order * epsilon**2 / 2) * (1 + 1e-12)
    if epsilon > 1e-6:
        assert rdp.laplace(1 / epsilon, order) <= bound * (1 + 1e-11)


@deterministic
@given(st.lists(st.tuples(orders, st.floats(1e-6, 50.0)), min_size=1, max_size=9), deltas)
def test_conversions_agree_with_dp_accounting(curve, delta):
    alphas, rhos = (list(column) for column in zip(*curve, strict=True))
    alphas = [max(a, 1.011) for a in alphas]  # theirs ignores the lower ones
    wanted = rdp_privacy_accountant.compute_epsilon(alphas, rhos, delta)[0]
    ours = rdp.epsilon(rhos, alphas, delta)
    agrees([ours], [wanted], [rdp_epsilon(rhos, alphas, delta)])
    assert rdp.epsilon_mironov(rhos, alphas, delta) >= ours
    epsilon = wanted * 0.7
    wanted = rdp_privacy_accountant.compute_delta(alphas, rhos, epsilon)[0]
    assert rdp.delta(rhos, alphas, epsilon) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


@deterministic
@given(st.floats(1e-4, 20.0), deltas)
def test_epsilon_is_the_best_over_all_orders_for_a_fine_grid(rho, delta):
    alphas = 1 + np.geomspace(1e-3, 1e7, 40_001)
    wanted = zcdp.epsilon(delta, rho)
    ours = rdp.epsilon(rho * alphas, alphas, delta)
    assert ours == pytest.approx(wanted, rel=1e-6, abs=1e-9) or (ours == 0 and wanted < 2)
    assert rdp.delta(rho * alphas, alphas, wanted) <= delta * (1 + 1e-5)


@pytest.mark.parametrize("rho", [0.001, 0.1, 2.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_epsilon_agrees_with_opendp_at_the_best_order(rho, delta):
    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    gaussian = dp.m.make_gaussian(*space, scale=math.sqrt(1 / (2 * rho)))
    wanted = dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(delta)
    rough = 1 + np.geomspace(1e-2, 1e5, 20_001)
    best = rough[np.argmin(zcdp_candidates(rho, rough, delta))]
    alphas = best * (1 + np.linspace(-1e-3, 1e-3, 20_001))
    assert rdp.epsilon(rho * alphas, alphas, delta) == pytest.approx(wanted, rel=1e-9)


def zcdp_candidates(rho, alphas, delta):
    return rho * alphas + np.log1p(-1 / alphas) - np.log(alphas * delta) / (alphas - 1)


@pytest.mark.parametrize("scale", [0.5, 2.0])
@pytest.mark.parametrize("times", [1, pytest.param(8, marks=pytest.mark.deep)])
def test_never_promises_more_than_the_privacy_loss_distribution(scale, times):
    """PLD is optimal for fixed compositions: Rényi accounts must stay above it, not far above."""
    events = {
        rdp.gaussian: dp_accounting.GaussianDpEvent(scale),
        rdp.laplace: dp_accounting.LaplaceDpEvent(scale),
    }
    for curve, event in events.items():
        best = PLDAccountant().compose(event, times).get_epsilon(1e-6)
        total = rdp.repeat(partial(curve, scale), times)(rdp.DEFAULT_ORDERS)
        ours = rdp.epsilon(total, rdp.DEFAULT_ORDERS, 1e-6)
        assert best * (1 - 1e-3) <= ours <= 1.25 * best


def test_curves_compose_by_adding():
    both = rdp.compose(partial(rdp.gaussian, 2.0), partial(rdp.laplace, 3.0), lambda a: 0.1 * a)
    alphas = rdp.DEFAULT_ORDERS
    wanted = rdp.gaussian(2.0, alphas) + rdp.laplace(3.0, alphas) + 0.1 * alphas
    assert both(alphas) == pytest.approx(wanted, rel=1e-15)
    assert rdp.compose()(alphas).tolist() == [0] * alphas.size
    assert rdp.repeat(both, 0)(alphas).tolist() == [0] * alphas.size


def test_the_default_orders_hold_dp_accountings():
    assert set(rdp_privacy_accountant.DEFAULT_RDP_ORDERS) <= set(rdp.DEFAULT_ORDERS.tolist())
    with pytest.raises(ValueError, match="read-only"):
        rdp.DEFAULT_ORDERS[0] = 2.0


def test_shapes_are_kept_and_many_curves_convert_at_once():
    alphas = np.array([[1.5, 2.0], [3.0, 4.0]])
    assert rdp.laplace(1.0, alphas).shape == (2, 2)
    assert rdp.subsampled_gaussian(0.1, 1.0, alphas).shape == (2, 2)
    assert rdp.gaussian(1.0, 3).shape == ()
    table = np.stack([rdp.gaussian(s, rdp.DEFAULT_ORDERS) for s in (1.0, 2.0, 5.0)])
    together = rdp.epsilons(table, rdp.DEFAULT_ORDERS, 1e-5).tolist()
    assert together == [rdp.epsilon(row, rdp.DEFAULT_ORDERS, 1e-5) for row in table]


def test_an_order_without_a_bound_is_passed_over():
    assert rdp.epsilon([math.inf, 1.0], [2.0, 3.0], 1e-3) == rdp.epsilon([1.0], [3.0], 1e-3)
    assert rdp.epsilon([math.inf], [2.0], 1e-3) == math.inf
    assert rdp.delta([math.inf], [2.0], 1.0) == 1.0
    assert rdp.epsilon([0.0], [2.0], 1e-3) == 0.0
    assert rdp.delta([0.0], [2.0], 0.0) == 0.0


@pytest.mark.parametrize("bad", [-1.5, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: rdp.gaussian(bad, [2.0]),
        lambda bad: rdp.gaussian(1.0, [bad]),
        lambda bad: rdp.laplace(bad, [2.0]),
        lambda bad: rdp.laplace(1.0, bad),
        lambda bad: rdp.randomized_response(bad, [2.0]),
        lambda bad: rdp.pure(bad, [2.0]),
        lambda bad: rdp.subsampled_gaussian(bad, 1.0, [2.0]),
        lambda bad: rdp.subsampled_gaussian(0.1, bad, [2.0]),
        lambda bad: rdp.epsilon([1.0], [bad], 1e-6),
        lambda bad: rdp.epsilon([1.0], [2.0], bad),
        lambda bad: rdp.epsilon_mironov([1.0], [2.0], bad),
        lambda bad: rdp.delta([1.0], [2.0], bad),
    ],
)
def test_bad_input_is_refused_with_its_value(call, bad):
    with pytest.raises(ParameterError) as caught:
        call(bad)
    assert str(bad) in caught.value.message


@pytest.mark.parametrize("order", [1.0, 0.5, 0.0])
def test_orders_up_to_one_are_refused(order):
    with pytest.raises(ParameterError, match=r"order is .*; it must be in \(1, inf\)"):
        rdp.laplace(1.0, [2.0, order])


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5])
def test_a_probability_of_telling_is_inside(p):
    with pytest.raises(ParameterError, match="p is"):
        rdp.randomized_response(p, [2.0])


def test_curves_and_orders_must_fit():
    with pytest.raises(ParameterError, match="shape"):
        rdp.epsilon([1.0, 2.0], [2.0], 1e-6)
    with pytest.raises(ParameterError, match="shape"):
        rdp.epsilon([[1.0]], [2.0], 1e-6)
    with pytest.raises(ParameterError, match="at least one order"):
        rdp.epsilon([], [], 1e-6)
    for wrong in (-1.0, math.nan):
        with pytest.raises(ParameterError, match=r"rdp is .*; it must be in \[0, inf\]"):
            rdp.delta([wrong], [2.0], 1.0)
    with pytest.raises(ParameterError, match="shape"):
        rdp.evaluate(lambda orders: orders[:1], [2.0, 3.0])
