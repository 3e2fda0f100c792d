"""The square-root Toeplitz counter: coefficients, charges, sums, noise and its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, stats

from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.mechanisms import SeededEntropy, ToeplitzCounter, toeplitz_counter
from sparseq.mechanisms.toeplitz_counter import (
    BITS,
    MAX_HORIZON,
    coefficients,
    column_norms,
    decoder,
    prefix,
    spread,
)

STEP = 2**BITS


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = lambda sigma, size, entropy: np.zeros(size, np.int64)  # noqa: E731
    monkeypatch.setattr(toeplitz_counter, "rounded_gaussian", zeros)


def matrix(horizon: int) -> np.ndarray:
    """K, as SciPy builds it, in Python integers."""
    return linalg.toeplitz(coefficients(horizon), np.zeros(horizon, np.int64)).astype(object)


# The factors ------------------------------------------------------------------------------------


def test_coefficients_are_the_roundings_of_central_binomials() -> None:
    for k, a in enumerate(coefficients(300).tolist()):
        exact = Fraction(math.comb(2 * k, k), 4**k) * STEP
        assert abs(a - exact) <= Fraction(1, 2)


def test_the_root_squared_is_the_matrix_of_prefix_sums() -> None:
    """SciPy's matrix square root of lower triangular ones is C."""
    c = linalg.sqrtm(np.tril(np.ones((12, 12)))).real
    np.testing.assert_allclose(c[:, 0], coefficients(12) / STEP, atol=0.5 / STEP + 1e-9)


@pytest.mark.parametrize("horizon", [1, 2, 7, 64, 365])
def test_the_decoder_is_prefix_sums_times_the_inverse(horizon: int) -> None:
    k = matrix(horizon).astype(float)
    oracle = linalg.solve_triangular(k.T, np.tril(np.ones((horizon, horizon))).T, lower=False).T
    np.testing.assert_allclose(decoder(horizon), oracle[:, 0], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("horizon", [1, 2, 8, 100, 365])
def test_a_column_costs_its_squared_entries(horizon: int) -> None:
    expected = [sum(int(x) ** 2 for x in column) for column in matrix(horizon).T]
    assert column_norms(horizon).tolist() == expected


@pytest.mark.parametrize("horizon", [1, 10, 365, 4096, MAX_HORIZON])
def test_rounding_the_coefficients_costs_next_to_nothing(horizon: int) -> None:
    """Noise at equal price, against the unrounded root: within 0.1 %, and that is near ln(T)/pi."""
    ours = spread(horizon) * math.sqrt(column_norms(horizon)[0])
    k = np.arange(1, horizon)
    root = np.sum(np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k)))) ** 2)
    assert ours == pytest.approx(root, rel=1e-3)
    assert root <= 1 + (0.5772157 + math.log(horizon)) / math.pi + 0.1


def test_a_year_of_days_against_the_tree() -> None:
    """Variance times worst-case charge, in those of one row: the module's 2.9² against 72."""
    assert spread(365) ** 2 * column_norms(365)[0] == pytest.approx(2.944**2, rel=1e-3)


# Charges ----------------------------------------------------------------------------------------


@given(
    tick=st.integers(1, 40),
    x=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=3),
    spare=st.integers(0, 20),
)
def test_charges_are_those_of_algorithm_2_tick_by_tick(tick: int, x: list[int], spare: int) -> None:
    """Each tick's row is a linear query: the user's entry in it, in Python integers."""
    horizon = tick + spare
    rows = [[int(a) * v for v in x] for a in matrix(horizon)[:, tick - 1]]
    expected = sum(v * v for row in rows for v in row)
    assert int(column_norms(horizon)[tick - 1]) * sum(v * v for v in x) == expected


# Sums -------------------------------------------------------------------------------------------


@given(increments=st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=70))
def test_prefixes_are_exact_but_for_the_noise(increments: list[int]) -> None:
    """The same entropy with and without data: the difference is the prefix sum."""
    horizon = len(increments)
    counter = ToeplitzCounter(horizon, 3.0, entropy=SeededEntropy(1))
    silent = ToeplitzCounter(horizon, 3.0, entropy=SeededEntropy(1))
    total = 0
    for x in increments:
        total += x
        found = counter.add(np.array([x]))[0] - silent.add(np.array([0]))[0]
        assert found == pytest.approx(total, abs=1e-5)


def test_rows_computed_by_the_caller_give_the_same_answers() -> None:
    x = np.random.default_rng(3).integers(-9, 9, (37, 2))
    added = ToeplitzCounter(37, 2.0, 2, SeededEntropy(4))
    released = ToeplitzCounter(37, 2.0, 2, SeededEntropy(4))
    rows = (matrix(37) @ x).astype(np.int64)
    for t in range(37):
        np.testing.assert_array_equal(added.add(x[t]), released.release(rows[t]))


@pytest.mark.usefixtures("no_noise")
def test_without_noise_a_long_stream_is_its_cumulative_sum() -> None:
    x = np.random.default_rng(5).integers(-9, 9, 1000)
    counter = ToeplitzCounter(1000, 1.0)
    found = [float(counter.add(x[t : t + 1])[0]) for t in range(1000)]
    np.testing.assert_allclose(found, np.cumsum(x), atol=1e-8)


@pytest.mark.usefixtures("no_noise")
def test_a_huge_increment_saturates_and_never_wraps() -> None:
    counter = ToeplitzCounter(MAX_HORIZON, 1.0)
    for _ in range(3):
        prefix_sum = counter.add(np.array([2**62]))[0]
    assert prefix_sum == pytest.approx(3 * 2**32)


# Noise ------------------------------------------------------------------------------------------


def noises(sigma: float, horizon: int, runs: int, seed: int) -> np.ndarray:
    """Noise of every prefix, (horizon, runs): each coordinate is a run of its own."""
    counter = ToeplitzCounter(horizon, sigma, runs, SeededEntropy(seed))
    return np.array([counter.add(np.zeros(runs, np.int64)) for _ in range(horizon)])


def variance_fits(found: np.ndarray, sigma: float) -> bool:
    """Chi-square of 20,000 prefixes of one tick, two-sided 1e-6."""
    statistic = float((found**2).sum() / sigma**2)
    return 1e-6 < stats.chi2.cdf(statistic, found.size) < 1 - 1e-6


@pytest.mark.parametrize("tick", [1, 2, 7, 15])
def test_the_variance_is_that_of_the_root(tick: int) -> None:
    """False-alarm rate 2e-6 a tick; 10 % more or less noise fails."""
    found = noises(50.0, 15, 20_000, 61)[tick - 1] * STEP
    root = math.sqrt(sum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(tick)))
    assert variance_fits(found, 50.0 * root)
    assert not variance_fits(found, 45.0 * root)
    assert not variance_fits(found, 55.0 * root)
    variance = ToeplitzCounter(15, 50.0).variance(tick)
    assert (50.0 * root / STEP) ** 2 < variance < (51.0 * root / STEP) ** 2


@pytest.mark.parametrize("sigma", [0.5, 20.0])
def test_the_bounds_hold_at_their_rate(sigma: float) -> None:
    """Over 4,000 runs; a bound that is just met fails its test with probability below 1e-4."""
    counter, beta = ToeplitzCounter(31, sigma), 0.1
    found = np.abs(noises(sigma, 31, 4000, 63))
    limit = 4000 * beta + 3.8 * math.sqrt(4000 * beta * (1 - beta))
    assert (found > counter.bound(beta)).any(axis=0).sum() <= limit
    for t in (1, 16, 31):
        assert (found[t - 1] > counter.bound(beta, tick=t)).sum() <= limit


def test_the_bound_of_one_prefix_is_not_slack() -> None:
    found = np.abs(noises(200.0, 31, 4000, 64))[30]
    exceeded = (found > ToeplitzCounter(31, 200.0).bound(0.1, tick=31)).sum()
    assert exceeded > 300  # 4,000 · 0.1 less a quarter


# The interface ----------------------------------------------------------------------------------


def test_the_horizon_ends() -> None:
    counter = ToeplitzCounter(2, 1.0, entropy=SeededEntropy(1))
    counter.add(np.array([1]))
    counter.add(np.array([1]))
    with pytest.raises(QueryRefused, match="used its 2 ticks"):
        counter.add(np.array([1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ToeplitzCounter(0, 1.0), r"horizon is 0; it must be a whole number in \[1, "),
        (lambda: ToeplitzCounter(MAX_HORIZON + 1, 1.0), "horizon is 16385"),
        (lambda: ToeplitzCounter(5, 0.1), "sigma is 0.1"),
        (lambda: ToeplitzCounter(5, 1.0, 0), "coordinates is 0"),
        (lambda: ToeplitzCounter(5, 1.0).add(np.array([1, 2])), r"shape \(2,\); it must be"),
        (lambda: ToeplitzCounter(5, 1.0).add(np.array([1.0])), "the vector is float64"),
        (lambda: ToeplitzCounter(5, 1.0).bound(0.0), "beta is 0.0"),
        (lambda: ToeplitzCounter(5, 1.0).variance(6), "tick is 6"),
        (lambda: coefficients(0), "horizon is 0"),
        (lambda: decoder(MAX_HORIZON + 1), "horizon is 16385"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_add_and_release_do_not_mix() -> None:
    counter = ToeplitzCounter(8, 1.0, entropy=SeededEntropy(1))
    counter.release(np.array([1]))
    with pytest.raises(ParameterError, match="0 of 1 ticks were added"):
        counter.add(np.array([1]))


def test_released_rows_are_decoded_again_to_the_same_prefixes() -> None:
    counter = ToeplitzCounter(20, 9.0, 2, SeededEntropy(8))
    found = [counter.add(np.array([t, -t])) for t in range(20)]
    for t in range(1, 21):
        np.testing.assert_array_equal(prefix(np.array(counter._rows[:t]), 20), found[t - 1])
