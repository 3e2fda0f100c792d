"""Lécuyer's filter over the Rényi curve, where the shape of a step depends on earlier answers.

Finite mechanisms that the filter admits, step by step, and their exact delta: what the paper's
Corollary 1 and section 3.4 say of them is not true. See docs/theorems/renyi-curve-filter.md.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_formulas import deltas, deterministic
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from sparseq.accounting import rdp
from sparseq.accounting.filters import Filter, RenyiCurveRule
from sparseq.accounting.odometers import TEXT_ORDERS

few = settings(deterministic, max_examples=40)


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


@few
@given(st.floats(0.5, 300.0), st.floats(-30.0, -1.5).map(math.exp))
def test_the_papers_budgets_lose_no_more_than_the_sum_of_the_constants(epsilon, delta):
    """Section 3.4 with all 38 orders is (epsilon, 4.14 delta)-DP, whatever the shapes."""
    rule = papers_rule(epsilon, delta)
    if rule is not None:
        assert rule.epsilon(4.1357 * delta) <= epsilon * (1 + 1e-12)


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
    """Two steps that each order's own budget admits, and a delta 1.4 times the target's."""
    epsilon, delta, orders = 40.0, 0.01, (1.25, 10.0)
    loose = RenyiCurveRule.for_target(epsilon, delta, orders, adaptive=False)
    safe = RenyiCurveRule.for_target(epsilon, delta, orders)
    likely = 1 / (1 + math.exp(-0.2))  # randomised response; each answer, and the order it suits
    answers = [(math.log(1 - likely), -0.2, 0), (math.log(likely), 0.2, 1)]
    assert delta_of_attack(loose, epsilon, answers) > 1.3 * delta
    assert loose.epsilon(delta) == pytest.approx(epsilon, rel=1e-9)
    assert RenyiCurveRule(orders, loose.rhos).epsilon(delta) > epsilon * 1.001
    assert delta_of_attack(safe, epsilon, answers) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "branches", "spread", "factor"),
    [(200.0, 1e-9, 3, 20.0, 1.10), (250.0, 1e-12, 4, 14.0, 1.17), (600.0, 1e-30, 5, 22.0, 1.53)],
)
def test_the_papers_own_budgets_and_orders_can_be_broken(epsilon, delta, branches, spread, factor):
    """Section 3.4 as it stands: two steps, both admitted, and a delta above the one promised.

    The first step is rare answers of ever larger loss: at each order another one rules. After it
    comes a step that spends that order's budget and no more.
    """
    rule = papers_rule(epsilon, delta)
    found = delta_of_attack(rule, epsilon, rare_answers(rule, branches, spread))
    assert factor * delta < found < 4.14 * delta
    assert rule.epsilon(delta) > epsilon
    parts = np.full(len(rule.orders), 1 / len(rule.orders))
    safe = RenyiCurveRule.for_target(epsilon, delta, rule.orders, parts)
    assert delta_of_attack(safe, epsilon, rare_answers(safe, branches, spread)) <= delta


def papers_rule(epsilon, delta):
    """Section 3.4 with the orders of section 4.5; None where no order has a budget."""
    budgets = epsilon + math.log(delta) / (TEXT_ORDERS - 1)
    kept = budgets > 0
    return RenyiCurveRule(tuple(TEXT_ORDERS[kept]), tuple(budgets[kept])) if kept.any() else None


def rare_answers(rule, branches, spread):
    """Answers with log probability, loss, and order: the k-th rules the divergence at order k."""
    log_p, loss = [0.0], [0.0]
    for k in range(1, branches):
        between = (rule.orders[k - 1] + rule.orders[k]) / 2 - 1
        loss.append(loss[-1] + spread)
        log_p.append(log_p[-1] - between * spread)
    log_q = [p - one for p, one in zip(log_p, loss, strict=True)]
    for logs in (log_p, log_q):
        logs[0] = math.log1p(-math.fsum(math.exp(one) for one in logs[1:]))
    return [(p, p - q, k) for k, (p, q) in enumerate(zip(log_p, log_q, strict=True))]


def delta_of_attack(rule, epsilon, answers):
    """The first step, then after each answer a jump that its order just admits: a lower bound.

    delta is the sum of (P - e^epsilon P')_+ over (answer, jump); both steps pass through a Filter.
    """
    log_p = np.array([p for p, _, _ in answers])
    first = [divergence(log_p, log_p - [loss for _, loss, _ in answers], a) for a in rule.orders]
    total = 0.0
    for p, loss, k in answers:
        order = rule.orders[k]
        jump = epsilon + math.log(order / (order - 1)) - loss
        excess = lambda log: jump_rdp(log, jump, order) + first[k] - rule.rhos[k]  # noqa: B023, E731
        chance = brentq(excess, -300, -1e-9)
        filter = Filter(rule)
        assert filter.admit(first)
        assert filter.admit([jump_rdp(chance, jump, one) * (1 - 1e-9) for one in rule.orders])
        total += math.exp(p + chance) * -math.expm1(epsilon - loss - jump)
    return total


def jump_rdp(log_chance, jump, order):
    """Two outcomes: one has probability e^log_chance, and loss `jump`."""
    log_p, log_q = (
        np.array([one, math.log1p(-math.exp(one))]) for one in (log_chance, log_chance - jump)
    )
    return divergence(log_p, log_q, order)


def divergence(log_p, log_q, order):
    """The larger direction of the Rényi divergence of two finite laws."""
    both = [(log_p, log_q), (log_q, log_p)]
    sums = [np.logaddexp.reduce(order * a + (1 - order) * b) for a, b in both]
    return float(max(sums)) / (order - 1)
