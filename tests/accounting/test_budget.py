"""Budget: its roundings in exact rationals, its promises against dp-accounting."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import dp_accounting
import pytest
from exact_formulas import deltas, deterministic, gdp_delta, kappas, norm_budgets, zcdp_delta
from hypothesis import given
from hypothesis import strategies as st

from sparseq.accounting import Budget, gdp
from sparseq.base.errors import ParameterError

budgets = st.builds(Budget, kappas, norm_budgets)


def is_smallest_float_at_least_root(root, square):
    below = math.nextafter(root, 0.0)
    return Fraction(root) ** 2 >= square > Fraction(below) ** 2


@deterministic
@given(budgets)
def test_sigma_0_and_mu_are_the_smallest_floats_not_below_the_real_numbers(budget):
    kappa, norm_budget = Fraction(budget.kappa), Fraction(budget.norm_budget)
    assert is_smallest_float_at_least_root(budget.sigma_0, norm_budget / (2 * kappa))
    assert is_smallest_float_at_least_root(budget.mu, 2 * kappa)
    assert budget.unit_variance == norm_budget / (2 * kappa)


def test_exact_roots_stay_exact():
    assert (Budget(0.5, 100).sigma_0, Budget(2, 1).mu, Budget(0.125, 4).sigma_0) == (10, 2, 4)


@deterministic
@given(budgets, deltas)
def test_the_promises_hold_in_60_digits(budget, delta):
    assert gdp_delta(budget.epsilon(delta), budget.mu) <= delta
    assert zcdp_delta(budget.epsilon_zcdp(delta), budget.kappa) <= delta
    assert budget.epsilon(delta) <= budget.epsilon_zcdp(delta)


def test_a_full_norm_budget_at_sigma_0_is_one_gaussian_of_dp_accounting():
    budget = Budget(kappa=0.3, norm_budget=12.0)
    multiplier = budget.sigma_0 / math.sqrt(budget.norm_budget)
    theirs = dp_accounting.get_epsilon_gaussian(multiplier, 1e-7)
    assert budget.epsilon(1e-7) == pytest.approx(theirs, rel=1e-9)


@deterministic
@given(st.floats(0.01, 50.0), deltas, norm_budgets)
def test_a_budget_made_from_epsilon_never_exceeds_it(epsilon, delta, norm_budget):
    budget = Budget.from_epsilon_delta(epsilon, delta, norm_budget)
    mu = gdp.mu(epsilon, delta)
    assert 2 * Fraction(budget.kappa) <= Fraction(mu) ** 2
    assert 2 * Fraction(math.nextafter(budget.kappa, 1e9)) > Fraction(mu) ** 2
    assert budget.mu <= mu
    assert budget.epsilon(delta) <= epsilon
    assert budget.epsilon(delta) == pytest.approx(epsilon, rel=1e-8)


@deterministic
@given(budgets, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_worst_case_queries_is_k0_of_section_4_2(budget, scale, sigma):
    cost = Fraction(scale) ** 2 / (2 * Fraction(sigma) ** 2)
    k0 = budget.worst_case_queries(scale, sigma)
    assert k0 * cost <= Fraction(budget.kappa) < (k0 + 1) * cost
    assert budget.worst_case_queries(scale) == math.floor(budget.norm_budget)


@deterministic
@given(budgets, st.integers(1, 2**63), st.floats(1e-100, 1e100))
def test_worst_case_sigma_affords_exactly_the_queries_asked_for(budget, queries, scale):
    sigma = budget.worst_case_sigma(queries, scale)
    square = Fraction(scale) ** 2 * queries / (2 * Fraction(budget.kappa))
    assert is_smallest_float_at_least_root(sigma, square)
    assert budget.worst_case_queries(scale, sigma) >= queries


def test_is_frozen_and_compares_by_value():
    budget = Budget(1, 2)
    assert budget == Budget(1.0, 2.0)
    assert type(budget.kappa) is type(budget.norm_budget) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.kappa = 2.0


@pytest.mark.parametrize(
    "bad", [0, -1.0, math.nan, math.inf, 2.0**21, 2.0**-31, "1", None, True, Fraction(10**400)]
)
@pytest.mark.parametrize("field", ["kappa", "norm_budget"])
def test_a_bad_field_is_refused_by_name_with_its_value(field, bad):
    with pytest.raises(ParameterError) as caught:
        Budget(**{"kappa": 1.0, "norm_budget": 1.0, field: bad})
    assert f"{field} is {bad!r}" in caught.value.message
    assert caught.value.hint


def test_the_ends_of_the_ranges_are_allowed():
    assert Budget(2.0**-30, 2.0**20).sigma_0 == pytest.approx(2.0**24.5, rel=1e-15)
    assert Budget(2.0**10, 2.0**-20).sigma_0 == pytest.approx(2.0**-15.5, rel=1e-15)


@pytest.mark.parametrize(("epsilon", "word"), [(0.0, "larger"), (1e5, "smaller")])
def test_an_epsilon_out_of_reach_says_which_way_to_go(epsilon, word):
    with pytest.raises(ParameterError, match=f"epsilon {epsilon}") as caught:
        Budget.from_epsilon_delta(epsilon, 1e-9, 1.0)
    assert word in caught.value.hint


@pytest.mark.parametrize("bad", [0, -3, 1.5, "2", True, 2**64])
def test_bad_queries_are_refused(bad):
    with pytest.raises(ParameterError, match="queries is"):
        Budget(1, 1).worst_case_sigma(bad)


@pytest.mark.parametrize("bad", [0.0, -3.0, math.inf, "2"])
def test_a_bad_scale_is_refused(bad):
    with pytest.raises(ParameterError, match="scale is"):
        Budget(1, 1).worst_case_sigma(1, bad)
    with pytest.raises(ParameterError, match="scale is"):
        Budget(1, 1).worst_case_queries(bad)
