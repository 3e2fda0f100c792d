"""What every rule must keep, for one account and for many users; totals redone in rationals."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from exact_formulas import deterministic
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import one_in

from sparseq.accounting import rdp
from sparseq.accounting.filters import (
    ApproxZcdpRule,
    Filter,
    GdpRule,
    IndividualFilter,
    PureDpRule,
    RdpOrdersRule,
    RdpRule,
    RenyiCurveRule,
    RogersRule,
    Rule,
    ZcdpRule,
    capacity,
)
from sparseq.accounting.filters._fixed_point import square_up
from sparseq.base.errors import ParameterError

CURVE = (2.0, 8.0, 32.0)
SHAPE = np.array([1.0, 1.5, 3.0])

# Each rule, and how a step of size u >= 0 (numbers or an array) looks to it.
RULES = {
    "zcdp": (ZcdpRule(0.75), lambda u: (u,)),
    "gdp": (GdpRule(1.25), lambda u: (u,)),
    "rdp": (RdpRule(8.0, 0.3), lambda u: (u,)),
    "pure": (PureDpRule(1.0, 1e-6), lambda u: (u,)),
    "pure simple": (PureDpRule(3.0, 1e-3, simple=True), lambda u: (u,)),
    "rogers": (RogersRule(1.0, 1e-6), lambda u: (u,)),
    "approximate": (ApproxZcdpRule(0.75, 1e-6), lambda u: (u, np.multiply(u, 1e-6))),
    "orders": (RdpOrdersRule(CURVE, (0.5, 0.9, 2.0)), lambda u: (np.multiply.outer(u, SHAPE),)),
    "curve": (RenyiCurveRule(CURVE, (0.1, 0.9, 0.6)), lambda u: (np.multiply.outer(u, SHAPE),)),
}
rules = pytest.mark.parametrize(("rule", "step"), RULES.values(), ids=RULES)
some_rules = pytest.mark.parametrize(("rule", "step"), one_in(2, RULES.values()), ids=RULES)
"""For what is the same code whatever the rule: the other rules are deep."""
sizes = st.one_of(st.floats(0.0, 2.0), st.floats(0.0, 0.1), st.sampled_from([0.0, 5e-324, 0.125]))
few = settings(deterministic, max_examples=40)
streams = st.lists(sizes, max_size=30)


def exact_totals(rule, steps):
    """What the steps spend, column by column, in rationals."""
    flat = [np.concatenate([np.ravel(part) for part in step]).tolist() for step in steps]
    rows = [[Fraction(value) for value in row] for row in flat]
    if isinstance(rule, GdpRule | PureDpRule):
        rows = [[one**2] for (one,) in rows]
    elif isinstance(rule, RogersRule):
        rows = [[e**2, e * Fraction(math.expm1(e)) / 2] for (e,) in rows]
    return [sum(row[j] for row in rows) for j in range(len(rule.limits))]


def is_allowed(rule, steps):
    totals = exact_totals(rule, steps)
    within = [total <= limit for total, limit in zip(totals, rule.limits, strict=True)]
    if isinstance(rule, RogersRule):
        squares, drift = (float(total) for total in totals)
        log = -math.log(rule.delta_budget)
        c = rule.epsilon_budget**2 / (28.04 * log)
        spread = 2 * (squares + c) * (1 + 0.5 * math.log1p(squares / c)) * log
        within.append(drift + math.sqrt(spread) <= rule.epsilon_budget)
    return any(within) if isinstance(rule, RenyiCurveRule) else all(within)


@rules
@few
@given(stream=streams)
def test_never_admits_beyond_the_budget_and_refuses_only_what_would_not_fit(rule, step, stream):
    filter, admitted = Filter(rule), []
    for size in stream:
        taken = [*admitted, step(size)]
        if filter.admit(*step(size)):
            admitted = taken
            assert is_allowed(rule, admitted)
        else:  # nothing that fits with a trillionth to spare is refused
            assert not is_allowed(rule, [step(size * (1 + 1e-12)), *taken[:-1]])


@some_rules
@few
@given(stream=streams, seed=st.integers(0, 9))
def test_the_order_of_a_fixed_set_does_not_matter(rule, step, stream, seed):
    small = [size / 1e4 for size in stream]
    shuffled = np.random.default_rng(seed).permutation(small).tolist()
    spent = []
    for sizes in (small, shuffled):
        filter = Filter(rule)
        for size in sizes:
            assert filter.admit(*step(size))
        spent.append(filter.state()["spent"])
    assert spent[0] == spent[1]


@some_rules
@few
@given(stream=streams)
def test_a_dry_run_changes_nothing_and_foretells_the_answer(rule, step, stream):
    filter = Filter(rule)
    for size in stream:
        before = filter.state()
        foretold = filter.would_admit(*step(size))
        assert filter.state() == before
        assert filter.admit(*step(size)) == foretold
        assert foretold or filter.state() == before


@some_rules
@few
@given(stream=streams, later=streams)
def test_state_survives_save_and_load_exactly(rule, step, stream, later):
    filter = Filter(rule)
    for size in stream:
        filter.admit(*step(size))
    loaded = Filter.from_state(json.loads(json.dumps(filter.state())))
    assert loaded.rule == rule
    assert loaded.state() == filter.state()
    decisions = [[one.admit(*step(size)) for size in later] for one in (filter, loaded)]
    assert decisions[0] == decisions[1]
    assert loaded.spent() == filter.spent()


@some_rules
@few
@given(small=st.floats(1e-3, 1.0), large=st.floats(1e-3, 1.0))
def test_less_noise_never_costs_less(rule, step, small, large):
    small, large = sorted((small, large))
    assert capacity(rule, *step(large)) <= capacity(rule, *step(small))


@some_rules
@few
@given(table=st.lists(st.lists(sizes, min_size=4, max_size=4), max_size=12))
def test_many_users_are_as_many_filters(rule, step, table):
    together, alone = IndividualFilter(rule, 4), [Filter(rule) for _ in range(4)]
    for row in table:
        before = together.spent()
        foretold = together.would_admit(*step(np.array(row)))
        assert all((a == b).all() for a, b in zip(before, together.spent(), strict=True))
        mask = together.admit(*step(np.array(row)))
        assert (mask == foretold).all()
        assert mask.tolist() == [one.admit(*step(u)) for one, u in zip(alone, row, strict=True)]
    for j, column in enumerate(together.spent()):
        assert column.tolist() == [one.spent()[j] for one in alone]


@rules
def test_more_users_than_a_block_save_and_load(rule, step):
    users = 70_001
    rng = np.random.default_rng(1)
    filter = IndividualFilter(rule, users, shares=rng.random(users).round(3))
    for _ in range(3):
        mask = filter.admit(*step(rng.exponential(0.05, users)))
    assert 0 < mask.sum() < users
    loaded = IndividualFilter.from_state(filter.state())
    charges = step(rng.exponential(0.05, users))
    assert (loaded.admit(*charges) == filter.admit(*charges)).all()
    assert all((a == b).all() for a, b in zip(loaded.spent(), filter.spent(), strict=True))


@rules
def test_a_share_is_a_budget_of_ones_own(rule, step):
    size = 1.0
    while capacity(rule, *step(size)) < 40:
        size /= 1.25
    whole = capacity(rule, *step(size))
    filter = IndividualFilter(rule, 5, shares=np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    counts = np.zeros(5, int)
    for _ in range(whole + 1):
        counts += filter.admit(*step(np.full(5, size)))
    assert counts[0] == 0
    assert counts[-1] == whole
    assert (np.diff(counts) > 0)[-2:].all()
    if not isinstance(rule, RogersRule):  # the only one that is not linear in its budget
        assert (np.abs(counts - whole * np.array([0, 0.25, 0.5, 0.75, 1])) <= 1).all()
    assert filter.would_admit(*step(np.zeros(5))).all()


@rules
def test_a_bad_charge_is_refused_with_its_value_and_nobody_is_charged(rule, step):
    filter = IndividualFilter(rule, 50_000)
    filter.admit(*step(np.full(50_000, 1e-3)))
    before = filter.state()
    for bad in (-1.5, math.nan, math.inf):
        charges = np.full(50_000, 1e-3)
        charges[-1] = bad
        if bad == math.inf and np.ndim(step(1.0)[0]):
            continue  # Rényi values may be infinite: no budget admits them
        with pytest.raises(ParameterError) as caught:
            filter.admit(*step(charges))
        assert str(bad) in caught.value.message
    assert all(
        (a == b).all() for a, b in zip(before["spent"], filter.state()["spent"], strict=True)
    )


def test_an_order_without_a_bound_never_fits():
    every = Filter(RdpOrdersRule(CURVE, (0.5, 0.9, 2.0)))
    some = Filter(RenyiCurveRule(CURVE, (0.5, 0.9, 2.0)))
    step = [0.1, 0.1, math.inf]
    assert not every.would_admit(step)
    assert some.admit(step)
    assert not some.would_admit([0.6, 0.9, 0.0])
    assert some.would_admit([0.3, 2.0, 0.0])


def test_curves_are_steps_too():
    filter = Filter(RdpOrdersRule(CURVE, (0.5, 0.9, 2.0)))
    assert filter.admit(lambda orders: orders / 32)
    assert filter.spent() == (2 / 32, 8 / 32, 1.0)
    users = IndividualFilter(RdpOrdersRule(CURVE, (0.5, 0.9, 2.0)), 2)
    assert users.admit(lambda orders: orders / 32).tolist() == [True, True]
    with pytest.raises(ParameterError, match="rdp is"):
        filter.admit(lambda orders: -orders)


@pytest.mark.parametrize("budget", [2.0**-500, 1e-30, 1.0, 0.1, 2.0**60])
def test_a_tiny_charge_is_never_free_and_a_huge_one_never_wraps(budget):
    filter = Filter(ZcdpRule(budget))
    assert filter.admit(5e-324)
    assert filter.spent()[0] > 0
    assert not filter.would_admit(1.7e308)
    assert not filter.would_admit(budget)
    assert filter.admit(budget / 2)
    assert Filter(ZcdpRule(budget)).admit(budget)
    gdp = Filter(GdpRule(2.0**-240))
    assert gdp.admit(5e-324)
    assert gdp.spent()[0] > 0


def test_a_float_is_the_number_that_it_is():
    """0.1 is a hair above a tenth: ten of them don't fit into 1, eight of 0.125 do."""
    assert Fraction(0.1) > Fraction(1, 10)
    assert capacity(ZcdpRule(1.0), 0.1) == 9
    assert capacity(ZcdpRule(1.0), 0.125) == 8
    assert capacity(ZcdpRule(1.0), 2.0**-50) == 2**50


@deterministic
@given(st.one_of(st.floats(0.0, 4.0), st.floats(0.0, 1e300), st.integers(0, 2**26).map(float)))
def test_a_square_is_rounded_up_and_a_short_number_s_is_exact(value):
    up, exact = square_up(np.array([value]))[0], Fraction(value) ** 2
    assert up == math.inf or Fraction(up) >= exact
    assert (up == 0) == (value == 0)
    if 2.0**-500 <= value <= 2.0**500:
        assert Fraction(up) <= exact * (1 + Fraction(1, 2**50))
    if value == int(value) <= 2**26:
        assert Fraction(up) == exact


def test_a_budget_of_squares_can_be_spent_to_its_last_unit():
    """The sum of mu_t² may be mu² itself: the formula says <=."""
    assert capacity(GdpRule(1.0), 1.0) == 1
    assert capacity(GdpRule(1.0), 0.25) == 16
    assert capacity(GdpRule(1.5), 1.5) == 1
    assert capacity(GdpRule(3.0), 0.1) == 899  # 0.1 is a hair above a tenth


@pytest.mark.parametrize("bad", [-1.0, 0.0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    "make",
    [
        ZcdpRule,
        GdpRule,
        lambda bad: RdpRule(2.0, bad),
        lambda bad: PureDpRule(bad, 1e-6),
        lambda bad: PureDpRule(1.0, bad),
        lambda bad: RogersRule(bad, 1e-6),
        lambda bad: RogersRule(1.0, bad),
        lambda bad: ApproxZcdpRule(bad, 1e-6),
        lambda bad: ApproxZcdpRule(1.0, bad),
        lambda bad: RdpOrdersRule((2.0,), (bad,)),
        lambda bad: RenyiCurveRule((2.0,), (bad,)),
    ],
)
def test_bad_budgets_are_refused(make, bad):
    with pytest.raises(ParameterError, match=r"must be"):
        make(bad)


def test_budgets_and_orders_must_fit():
    for rule in (RdpOrdersRule, RenyiCurveRule):
        with pytest.raises(ParameterError, match="2 orders and 1 budgets"):
            rule((2.0, 3.0), (1.0,))
        with pytest.raises(ParameterError, match=r"order is 1\.0"):
            rule((1.0,), (1.0,))
        with pytest.raises(ParameterError, match="shape"):
            Filter(rule((2.0, 3.0), (1.0, 1.0))).admit([0.1])
        with pytest.raises(ParameterError, match="shape"):
            IndividualFilter(rule((2.0, 3.0), (1.0, 1.0)), 3).admit(np.zeros((4, 2)))


def test_shares_and_users_must_fit():
    with pytest.raises(ParameterError, match="shape"):
        IndividualFilter(ZcdpRule(1.0), 3).admit(np.zeros(4))
    with pytest.raises(ParameterError, match=r"shares have shape \(2,\)"):
        IndividualFilter(ZcdpRule(1.0), 3, np.zeros(2))
    with pytest.raises(ParameterError, match=r"share is 1\.5"):
        IndividualFilter(ZcdpRule(1.0), 1, np.array([1.5]))
    with pytest.raises(ParameterError, match="users is -1"):
        IndividualFilter(ZcdpRule(1.0), -1)
    assert IndividualFilter(ZcdpRule(1.0), 0).admit(np.zeros(0)).shape == (0,)
    with pytest.raises(ParameterError, match="free"):
        capacity(ZcdpRule(1.0), 0.0)


def test_a_damaged_state_is_refused():
    filter = Filter(ZcdpRule(1.0))
    filter.admit(0.5)
    state = filter.state()
    for change in (
        {"spent": [2**61]},
        {"spent": [-1]},
        {"spent": [0.5]},
        {"spent": [2**63]},
        {"spent": [2**64]},
        {"spent": [True]},
        {"spent": [1, 2]},
        {"rule": {"rule": "NoSuchRule"}},
        {"rule": {"rule": "ZcdpRule", "kappa": 1.0}},
        {"rule": {"rule": "ZcdpRule", "rho": -1.0}},
    ):
        with pytest.raises(ParameterError):
            Filter.from_state({**state, **change})
    for key in state:
        with pytest.raises(ParameterError, match=f"lacks {key}"):
            Filter.from_state({k: v for k, v in state.items() if k != key})


def test_every_rule_is_tested_here():
    assert {type(rule).__name__ for rule, _ in RULES.values()} == set(Rule.known)


@rules
def test_what_is_promised_is_finite_and_falls_with_delta(rule, step):
    low, high = rule.epsilon(1e-3), rule.epsilon(1e-5)
    assert 0 < low <= high < math.inf


def test_default_orders_serve_as_a_rule():
    orders = rdp.DEFAULT_ORDERS
    rule = RdpOrdersRule.for_target(1.0, 1e-6, orders)
    assert rule.epsilon(1e-6) <= 1.0
