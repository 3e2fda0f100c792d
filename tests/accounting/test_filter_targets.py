"""Filters set to an (epsilon, delta) target: safe, tight, and never behind the papers' formulas."""

from __future__ import annotations

import itertools
import math
from functools import partial
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import rdp_privacy_accountant
from exact_formulas import deltas, deterministic, gdp_delta, zcdp_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import one_in

from sparseq.accounting import gdp, rdp, zcdp
from sparseq.accounting.filters import (
    ApproxZcdpRule,
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
from sparseq.base.errors import ParameterError

TARGETS = list(itertools.product([0.01, 0.1, 1.0, 4.0, 16.0, 50.0], [1e-12, 1e-6, 1e-3, 0.1]))
few = settings(deterministic, max_examples=40)


@pytest.mark.parametrize(("epsilon", "delta"), one_in(3, TARGETS))
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
    """Every number of the table, in its order: ours, and the papers' in brackets."""
    page = (Path(__file__).parents[2] / "docs" / "theorems" / "rogers-filter.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    table = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]

    def cell(ours, papers):
        return "–" if ours is None else f"{ours}" if papers is None else f"{ours} ({papers})"

    fine, coarse = compare(1.0, 1e-6, 100.0, 0.01), compare(1.0, 1e-6, 30.0, 0.1)
    assert table == [
        [
            cell(one.gaussian, one.paper_gaussian),
            cell(one.pure, one.paper_pure),
            cell(two.gaussian, two.paper_gaussian),
            cell(two.pure, two.paper_pure),
        ]
        for one, two in zip(fine, coarse, strict=True)
    ]


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
