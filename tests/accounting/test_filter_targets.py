"""Filters set to an (epsilon, delta) target: safe, tight, and never behind the papers' formulas."""

from __future__ import annotations

import itertools
import math
from functools import partial

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import rdp_privacy_accountant
from exact_formulas import deltas, deterministic, gdp_delta, zcdp_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from sparseq.accounting import gdp, rdp, zcdp
from sparseq.accounting.filters import (
    ApproxZcdpRule,
    Filter,
    GdpRule,
    PureDpRule,
    RdpOrdersRule,
    RdpRule,
    RenyiCurveRule,
    RogersRule,
    ZcdpRule,
    capacity,
    compare,
)
from sparseq.errors import ParameterError

TARGETS = list(itertools.product([0.01, 0.1, 1.0, 4.0, 16.0, 50.0], [1e-12, 1e-6, 1e-3, 0.1]))
few = settings(deterministic, max_examples=40)


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_ours_admit_never_fewer_than_the_papers_formulas(epsilon, delta):
    for rho in (0.3, 0.01, 1e-4):
        budget = zcdp.rho(epsilon, delta)
        sigma, query = 1 / math.sqrt(2 * rho * budget), math.sqrt(2 * rho * budget)
        for row in compare(epsilon, delta, sigma, query):
            if row.paper_gaussian is not None:
                assert row.gaussian >= row.paper_gaussian, row
            if row.paper_pure is not None:
                assert row.pure >= row.paper_pure, row


def test_the_comparison_in_the_docs():
    rows = {row.rule: row for row in compare(1.0, 1e-6, sigma=100.0, query_epsilon=0.01)}
    pure = ["Rogers et al.", "Theorem 4.8, simple B*", "Theorem 4.8, best B*", "RDP, one order"]
    assert [rows[name].pure for name in pure] == [154, 349, 487, 490]
    assert rows["mu-GDP"].gaussian == 560
    assert rows["zCDP"].gaussian == 487
    assert rows["Lécuyer, one shape"].gaussian == 487
    assert rows["Lécuyer, one shape"].paper_gaussian == 346


@few
@given(st.floats(0.01, 30.0), deltas)
def test_every_target_is_met(epsilon, delta):
    rules = [
        ZcdpRule.for_target(epsilon, delta),
        GdpRule.for_target(epsilon, delta),
        RdpRule.for_target(epsilon, delta),
        RdpOrdersRule.for_target(epsilon, delta),
        RenyiCurveRule.for_target(epsilon, delta),
        RenyiCurveRule.for_target(epsilon, delta, adaptive=False),
        ApproxZcdpRule.for_target(epsilon, delta),
        PureDpRule(epsilon, delta),
        PureDpRule(epsilon, delta, simple=True),
        RogersRule(epsilon, delta),
    ]
    for rule in rules:
        assert rule.epsilon(delta) <= epsilon, rule


@few
@given(st.floats(0.01, 30.0), deltas)
def test_the_budgets_are_those_of_the_exact_conversions(epsilon, delta):
    best, simple = PureDpRule(epsilon, delta).rho, PureDpRule(epsilon, delta, simple=True).rho
    assert simple <= best
    assert zcdp_delta(epsilon, best) <= delta < zcdp_delta(epsilon, best * (1 + 1e-9))
    log = -math.log(delta)
    assert simple == pytest.approx((math.sqrt(log + epsilon) - math.sqrt(log)) ** 2, rel=1e-6)
    assert simple + 2 * math.sqrt(simple * log) <= epsilon
    assert gdp_delta(epsilon, GdpRule.for_target(epsilon, delta).mu) <= delta
    one = RdpRule.for_target(epsilon, delta)
    theirs = rdp_privacy_accountant.compute_delta([max(one.order, 1.011)], [one.rho], epsilon)[0]
    if one.order > 1.011:
        assert theirs == pytest.approx(delta, rel=1e-9)
    assert one.rho / one.order == pytest.approx(best, rel=1e-3)  # the best order is that of zCDP


@pytest.mark.parametrize("step", [0.05, 0.3])
def test_pure_filters_stay_within_what_is_possible(step):
    """k admitted steps of the worst pure mechanism, composed exactly: below the target."""
    epsilon, delta = 2.0, 1e-5
    rules = [PureDpRule(epsilon, delta), RogersRule(epsilon, delta)]
    counts = [capacity(rule, step) for rule in rules]
    for adaptive in (True, False):
        curve = RenyiCurveRule.for_target(epsilon, delta, adaptive=adaptive)
        counts.append(capacity(curve, partial(rdp.pure, step)))
    p = 2 / (1 + math.exp(step))
    event = dp_accounting.RandomizedResponseDpEvent(p, 2)
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    assert accountant.compose(event, max(counts)).get_epsilon(delta) <= epsilon


def test_gaussian_filters_admit_what_the_exact_accountant_does():
    count = capacity(GdpRule.for_target(1.0, 1e-6), 1 / 30.0)
    assert gdp.epsilon(1e-6, math.sqrt(count) / 30) <= 1.0
    assert gdp.epsilon(1e-6, math.sqrt(count + 1) / 30) > 1.0


def test_a_target_that_no_budget_reaches_is_refused():
    for rule in (RdpOrdersRule, RenyiCurveRule):
        with pytest.raises(ParameterError, match=r"epsilon is 1\.0; .* must be in \(12\."):
            rule.for_target(1.0, 1e-6, orders=[2.0])
    with pytest.raises(ParameterError, match=r"epsilon is 1\.0"):
        RdpRule.for_target(1.0, 1e-6, order=2.0)
    for wrong in (-1.0, math.nan, math.inf, 0.0):
        for rule in (RdpRule, RdpOrdersRule, RenyiCurveRule):
            with pytest.raises(ParameterError, match="epsilon is"):
                rule.for_target(wrong, 1e-6)
    for wrong in (0.0, 1.0, math.nan):
        for rule in (ZcdpRule, GdpRule, RdpRule, RenyiCurveRule, ApproxZcdpRule):
            with pytest.raises(ParameterError, match="delta is"):
                rule.for_target(1.0, wrong)
        with pytest.raises(ParameterError, match="steps_part is"):
            ApproxZcdpRule.for_target(1.0, 1e-6, wrong)
    with pytest.raises(ParameterError, match="add up"):
        RenyiCurveRule.for_target(1.0, 1e-6, orders=[20.0, 30.0], weights=[0.6, 0.6])
    with pytest.raises(ParameterError, match="weights"):
        RenyiCurveRule.for_target(1.0, 1e-6, orders=[20.0, 30.0], weights=[1.0])


@few
@given(st.floats(0.1, 20.0), deltas)
def test_mironovs_budgets_hold_for_any_shapes_where_the_constants_add_up_to_one(epsilon, delta):
    """Lécuyer's section 3.4 as it stands, by weights c: see RenyiCurveRule."""
    lowest = max(8.0, 1 - 2 * math.log(delta) / epsilon)
    orders = lowest * np.array([1.0, 1.5, 2.0, 3.0, 4.0])
    c = np.exp((orders - 1) * np.log1p(-1 / orders)) / orders
    assert c.sum() <= 1
    rule = RenyiCurveRule.for_target(epsilon, delta, orders, weights=c)
    wanted = epsilon + math.log(delta) / (orders - 1)
    assert list(rule.rhos) == pytest.approx(wanted.tolist(), rel=1e-9, abs=1e-12)


def test_a_public_coin_refutes_one_order_for_all_outcomes():
    """Lécuyer's Corollary 1 with shapes that depend on what was released; see RenyiCurveRule.

    The coin picks a sampled Gaussian, cheap at order 2, or a plain one, cheap at order 32. Each
    is admitted for one order's sake; the two together keep neither order's budget.
    """
    orders, budgets = np.array([2.0, 32.0]), np.array([0.1, 5.0])
    steps = [rdp.subsampled_gaussian(0.01, 0.5, orders), rdp.gaussian(2.0, orders)]
    rule = RenyiCurveRule(tuple(orders), tuple(budgets))
    assert all(Filter(rule).would_admit(step) for step in steps)
    total = np.logaddexp(*((orders - 1) * step for step in steps)) - math.log(2)
    assert (total / (orders - 1) > budgets).all()


def test_choosing_the_shape_adaptively_breaks_budgets_that_have_all_of_delta_each():
    """Two steps that each order's own budget admits, and a delta 1.4 times the target's.

    The first is randomised response; after the likely outcome comes a step that spends order
    10's budget, after the other one that spends order 1.25's.
    """
    epsilon, delta, first, orders = 40.0, 0.01, 0.2, (1.25, 10.0)
    loose = RenyiCurveRule.for_target(epsilon, delta, orders, adaptive=False)
    safe = RenyiCurveRule.for_target(epsilon, delta, orders)
    assert _delta_of_attack(loose, epsilon, first) > 1.3 * delta
    assert loose.epsilon(delta) == pytest.approx(epsilon, rel=1e-9)
    assert RenyiCurveRule(orders, loose.rhos).epsilon(delta) > epsilon * 1.001
    assert _delta_of_attack(safe, epsilon, first) <= delta


def _delta_of_attack(rule, epsilon, first):
    likely = 1 / (1 + math.exp(-first))
    branches = [(likely, first, 1), (1 - likely, -first, 0)]
    total = 0.0
    for probability, loss, j in branches:
        order = rule.orders[j]
        left = rule.rhos[j] - float(rdp.pure(first, order))
        jump = epsilon + math.log(order / (order - 1)) - loss
        log_chance = brentq(_excess, -200, -1e-9, args=(jump, order, left))
        step = [_rdp_of_jump(log_chance, jump, one) for one in rule.orders]
        filter = Filter(rule)
        assert filter.admit(partial(rdp.pure, first))
        assert filter.admit((np.array(step) * (1 - 1e-9)).tolist())
        total += probability * math.exp(log_chance) * -math.expm1(epsilon - loss - jump)
    return total


def _excess(log_chance, jump, order, budget):
    return _rdp_of_jump(log_chance, jump, order) - budget


def _rdp_of_jump(log_chance, jump, order):
    """RDP, the larger direction, of two outcomes: one has probability e^log and loss `jump`."""
    p, q = math.exp(log_chance), math.exp(log_chance - jump)
    up = p * math.exp((order - 1) * jump) + (1 - p) * ((1 - p) / (1 - q)) ** (order - 1)
    down = q * math.exp((1 - order) * jump) + (1 - q) * ((1 - q) / (1 - p)) ** (order - 1)
    return math.log(max(up, down)) / (order - 1)
