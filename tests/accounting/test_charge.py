"""Prices in exact rationals: nobody is undercharged, and rounding never costs a last query."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_formulas import deterministic, kappas, norm_budgets
from hypothesis import example, given
from hypothesis import strategies as st

from sparseq.accounting import (
    MAX_CHARGE,
    MAX_SQUARED_NORM,
    UNITS_PER_NORM,
    Budget,
    Price,
    add_charges,
    budget_units,
    round_up,
    sigma_for_scale,
)
from sparseq.accounting.charge import SIGNIFICANT_BITS
from sparseq.base.errors import ParameterError

budgets = st.builds(Budget, kappas, norm_budgets)
squared_norms = st.one_of(
    st.integers(0, MAX_SQUARED_NORM),
    st.integers(0, 1000),
    st.integers(0, 62).map(lambda bits: 2**bits),
    st.integers(1, 63).map(lambda bits: 2**bits - 1),
)
granularities = st.integers(-40, 40).map(lambda power: 2.0**power)
prices = st.builds(
    Price.of,
    st.integers(-300, 300).flatmap(lambda power: st.floats(2.0**power, 2.0 ** (power + 1))),
    granularities,
    budgets,
)
common_prices = st.builds(Price.of, st.floats(2.0**-10, 2.0**30), granularities, budgets)


def as_array(values):
    return np.array(values, dtype=np.int64)


def ceil_product(squared_norm, price):
    return math.ceil(squared_norm * Fraction(price.multiplier, 2**price.shift))


@deterministic
@given(st.floats(2.0**-300, 2.0**300), granularities, budgets)
def test_the_exact_price_is_the_definition(sigma, granularity, budget):
    g, kappa, norm_budget = map(Fraction, (granularity, budget.kappa, budget.norm_budget))
    definition = g**2 * norm_budget / (2 * kappa) / Fraction(sigma) ** 2 * UNITS_PER_NORM
    assert Price.of(sigma, granularity, budget).exact == definition


@deterministic
@given(st.one_of(prices, common_prices))
def test_the_multiplier_is_above_the_exact_price_by_a_relative_2_to_the_minus_60_at_most(price):
    multiplied = Fraction(price.multiplier, 2**price.shift)
    assert price.exact <= multiplied <= price.exact * (1 + Fraction(1, 2**60))


@deterministic
@given(st.one_of(prices, common_prices), st.lists(squared_norms, min_size=1, max_size=20))
def test_charges_are_the_exact_ceiling_and_never_below_the_truth(price, norms):
    charges = price.charge(as_array(norms))
    assert charges.dtype == np.int64
    for norm, charge in zip(norms, charges.tolist(), strict=True):
        assert charge == price.charge_one(norm) == min(ceil_product(norm, price), MAX_CHARGE)
        assert charge >= min(norm * price.exact, MAX_CHARGE)
        assert (charge > 0) == (norm > 0)


@deterministic
@given(st.integers(55, 64), st.floats(1.0, 2.0), st.lists(squared_norms, min_size=1))
def test_prices_around_saturation_are_exact_too(power, mantissa, norms):
    """R from 2**54 to 2**64: both sides of the switch between multiplying and saturating."""
    budget = Budget(0.5, 1.0)
    price = Price.of(2.0 ** ((32 - power) / 2) / mantissa, 1.0, budget)
    norms = [*norms, 0, 1, 2, 3, 4, 5]
    expected = [min(ceil_product(norm, price), MAX_CHARGE) for norm in norms]
    assert price.charge(as_array(norms)).tolist() == expected


@pytest.mark.parametrize("shift_sigma", [0, 5, 14, 15, 16, 17, 18, 22, 31, 40, 60])
@pytest.mark.parametrize("peak", [1, 200, 2**14, 2**31, 2**40, 2**62, MAX_SQUARED_NORM])
def test_long_arrays_take_every_path_to_the_same_charges(shift_sigma, peak):
    """Longer than a block; prices that fit 64 bits and that do not; shifts below and above 64."""
    rng = np.random.default_rng(shift_sigma)
    norms = rng.integers(0, peak, 20_000, endpoint=True)
    norms[:3] = 0, 1, peak
    sample = [*range(50), *rng.integers(0, norms.size, 200).tolist(), -1, -2]
    for budget in (Budget(0.5, 1.0), Budget(0.3, 30.0)):
        price = Price.of(2.0**shift_sigma, 1.0, budget)
        charges = price.charge(norms)
        for place in sample:
            assert charges[place] == price.charge_one(int(norms[place]))


def test_the_order_and_the_company_of_entries_never_change_a_charge():
    price = Price.of(3.7, 0.25, Budget(0.3, 30.0))
    norms = np.random.default_rng(1).integers(0, 2**50, 40_000)
    charges = price.charge(norms)
    assert (price.charge(norms[::-1]) == charges[::-1]).all()
    assert (np.concatenate([price.charge(part) for part in np.split(norms, 8)]) == charges).all()
    assert price.charge(norms[::2].reshape(100, 200)).shape == (100, 200)


def test_empty_arrays_cost_nothing_and_the_input_is_left_alone():
    price = Price.of(3.7, 1.0, Budget(0.3, 30.0))
    assert price.charge(as_array([])).shape == (0,)
    norms = as_array([1, 2, 2**60])
    price.charge(norms)
    assert norms.tolist() == [1, 2, 2**60]


def test_a_price_too_small_for_a_unit_still_costs_one():
    price = Price.of(2.0**1000, 2.0**-1000, Budget(2.0**10, 2.0**-20))
    assert price.charge(as_array([0, 1, MAX_SQUARED_NORM])).tolist() == [0, 1, 1]


def test_a_wrapped_sum_is_charged_the_most_there_is():
    price = Price.of(1e9, 1.0, Budget(0.5, 1.0))
    charges = price.charge(as_array([-1, 0, 5, -(2**63)]))
    assert charges.tolist() == [MAX_CHARGE, 0, price.charge_one(5), MAX_CHARGE]


@deterministic
@given(common_prices, squared_norms, squared_norms)
def test_more_norm_never_costs_less(price, norm_a, norm_b):
    charges = price.charge(as_array(sorted((norm_a, norm_b))))
    assert charges[0] <= charges[1]


@deterministic
@given(budgets, granularities, st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), squared_norms)
def test_less_noise_never_costs_less(budget, granularity, sigma_a, sigma_b, norm):
    quiet, loud = sorted((sigma_a, sigma_b))
    charge = Price.of(quiet, granularity, budget).charge_one(norm)
    assert charge >= Price.of(loud, granularity, budget).charge_one(norm)


@pytest.mark.parametrize("budget", [Budget(0.5, 100), Budget(0.3, 30), Budget(1e-4, 7.7)])
def test_full_scale_costs_exactly_one_norm_for_every_whole_scale(budget):
    for scale in range(1, 1001):
        sigma = sigma_for_scale(float(scale), budget)
        for k in (0, 1, 10):
            price = Price.of(sigma, 2.0**-k, budget)
            assert price.charge(as_array([(scale << k) ** 2]))[0] == UNITS_PER_NORM


@deterministic
@given(budgets, st.integers(1, 2**31 - 1), st.integers(-400, 400))
@example(Budget(0.5, 1.0), 1, 0)
def test_full_scale_costs_exactly_one_norm_so_that_k0_queries_fit(budget, lattice_scale, power):
    """Any scale that is on its lattice: scale = lattice_scale · g, g a power of two."""
    scale, granularity = math.ldexp(lattice_scale, power), math.ldexp(1.0, power)
    price = Price.of(sigma_for_scale(scale, budget), granularity, budget)
    charge = price.charge_one(lattice_scale**2)
    assert charge == UNITS_PER_NORM
    assert budget.worst_case_queries(scale) * charge <= budget_units(budget.norm_budget)
    assert (budget.worst_case_queries(scale) + 1) * charge > budget_units(budget.norm_budget)


@deterministic
@given(budgets, st.floats(2.0**-100, 2.0**100), st.integers(-120, 120), squared_norms)
def test_a_scaled_query_never_costs_above_nominal_and_exactly_that_where_it_is_whole(
    budget, scale, power, norm
):
    sigma = sigma_for_scale(scale, budget)
    nominal = norm * Fraction(2) ** (2 * power) / Fraction(scale) ** 2 * UNITS_PER_NORM
    charge = Price.of(sigma, 2.0**power, budget).charge_one(norm)
    assert charge <= math.ceil(nominal)
    if nominal.denominator == 1 and nominal <= 2**50:
        assert charge == nominal


@deterministic
@given(budgets, st.integers(0, 25), st.integers(0, 2**25))
def test_whole_nominal_costs_are_met_exactly(budget, log_scale, entry):
    """Scale a power of two: nominal costs are whole, from one unit to 2**50 of them."""
    norm = min(entry, 2 ** (9 + log_scale)) ** 2
    nominal = Fraction(norm, 4**log_scale) * UNITS_PER_NORM
    price = Price.of(sigma_for_scale(2.0**log_scale, budget), 1.0, budget)
    assert price.charge_one(norm) == math.ceil(nominal)


@deterministic
@given(budgets, st.floats(2.0**-100, 2.0**100))
def test_the_noise_of_a_scale_is_not_below_the_corollary_and_two_ulps_above_it_at_most(
    budget, scale
):
    sigma = sigma_for_scale(scale, budget)
    square = Fraction(scale) ** 2 * budget.unit_variance
    two_below = math.nextafter(math.nextafter(sigma, 0.0), 0.0)
    assert Fraction(two_below) ** 2 < square <= Fraction(sigma) ** 2


@deterministic
@given(st.floats(0.0, 2.0**20))
def test_budget_units_are_the_exact_floor(norm_budget):
    units = budget_units(norm_budget)
    assert isinstance(units, int)
    assert units <= Fraction(norm_budget) * UNITS_PER_NORM < units + 1


@deterministic
@given(st.lists(st.tuples(st.integers(0, MAX_CHARGE), st.integers(0, MAX_CHARGE)), min_size=1))
@example([(MAX_CHARGE, MAX_CHARGE), (MAX_CHARGE, 0), (0, 0), (MAX_CHARGE - 1, 1)])
def test_added_charges_saturate(pairs):
    left, right = (as_array(side) for side in zip(*pairs, strict=True))
    assert add_charges(left, right).tolist() == [min(a + b, MAX_CHARGE) for a, b in pairs]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 10**400, "1", None, True])
def test_bad_numbers_are_refused_with_their_value(bad):
    budget = Budget(0.5, 1.0)
    calls = [
        lambda: Price.of(bad, 1.0, budget),
        lambda: Price.of(1.0, bad, budget),
        lambda: sigma_for_scale(bad, budget),
    ]
    if bad != 0.0:  # a user may have no budget at all
        calls.append(lambda: budget_units(bad))
    for call in calls:
        with pytest.raises(ParameterError) as caught:
            call()
        assert repr(bad) in caught.value.message


@pytest.mark.parametrize("granularity", [3.0, 0.1, 1.0 + 2**-52])
def test_a_granularity_off_the_powers_of_two_is_refused(granularity):
    with pytest.raises(ParameterError, match="power of two"):
        Price.of(1.0, granularity, Budget(0.5, 1.0))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint64])
def test_norms_that_are_not_int64_are_refused(dtype):
    with pytest.raises(ParameterError, match=np.dtype(dtype).name):
        Price.of(1.0, 1.0, Budget(0.5, 1.0)).charge(np.zeros(3, dtype))


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=30))
def test_round_up_is_the_next_number_with_few_significant_bits(charges: list[int]) -> None:
    rounded = round_up(np.array(charges, np.int64)).tolist()
    for charge, result in zip(charges, rounded, strict=True):
        if charge > 2**52:
            assert result == charge
            continue
        step = 2 ** max(charge.bit_length() - SIGNIFICANT_BITS, 0)
        assert result == -(-charge // step) * step
        assert charge <= result <= charge * (1 + Fraction(1, 2 ** (SIGNIFICANT_BITS - 1)))


@given(st.integers(0, 2**52), st.integers(0, 2**52))
def test_round_up_is_monotone(a: int, b: int) -> None:
    low, high = round_up(np.sort(np.array([a, b], np.int64))).tolist()
    assert low <= high


def test_full_contributions_are_charged_exactly() -> None:
    full = np.arange(2**SIGNIFICANT_BITS + 1, dtype=np.int64) * UNITS_PER_NORM
    assert np.array_equal(round_up(full), full)
