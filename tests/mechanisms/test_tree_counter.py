"""The binary-tree counter: nodes, charges, sums, noise and its bounds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.mechanisms import SeededEntropy, TreeCounter, tree_counter
from sparseq.mechanisms.tree_counter import count_nodes, squared_norms, window


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = lambda sigma, size, entropy: np.zeros(size, np.int64)  # noqa: E731
    monkeypatch.setattr(tree_counter, "rounded_gaussian", zeros)


# Nodes and charges ------------------------------------------------------------------------------


def decomposition(tick: int) -> list[int]:
    """The nodes that a prefix is made of, from the module's recursion."""
    return [] if tick == 0 else [tick, *decomposition(tick - (tick & -tick))]


@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 100])
def test_every_prefix_is_disjoint_nodes(horizon: int) -> None:
    for t in range(1, horizon + 1):
        covered = sorted(s for n in decomposition(t) for s in range(window(n)[0], window(n)[1] + 1))
        assert covered == list(range(1, t + 1))


@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 100, 300])
def test_nodes_touched_are_the_windows_that_hold_the_tick(horizon: int) -> None:
    ticks = np.arange(1, horizon + 1)
    held = [sum(window(n)[0] <= s <= n for n in range(1, horizon + 1)) for s in ticks]
    assert count_nodes(ticks, horizon).tolist() == held
    assert max(held) == math.floor(math.log2(horizon)) + 1
    assert TreeCounter(horizon, 1.0).max_nodes == max(held)


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12), st.integers(-50, 50)), max_size=30)


@given(rows=rows, spare=st.integers(0, 10))
def test_charges_are_those_of_algorithm_2_tick_by_tick(
    rows: list[tuple[int, int, int]], spare: int
) -> None:
    """Tick t is a linear query; a user's vector is its sum over the window, a Python integer."""
    horizon = 12 + spare
    expected: dict[int, int] = defaultdict(int)
    for t in range(1, horizon + 1):
        first, last = window(t)
        for user in {u for u, _, _ in rows}:
            expected[user] += sum(v for u, s, v in rows if u == user and first <= s <= last) ** 2
    table = np.array(rows, np.int64).reshape(-1, 3).T
    users, norms = squared_norms(*table, horizon)
    assert dict(zip(users.tolist(), norms.tolist(), strict=True)) == dict(expected)


@given(tick=st.integers(1, 500), value=st.integers(-(2**20), 2**20))
def test_a_single_contribution_is_charged_by_node(tick: int, value: int) -> None:
    one = np.ones(1, np.int64)
    (touched,) = count_nodes(tick * one, 500)
    assert squared_norms(one, tick * one, value * one, 500)[1].tolist() == [touched * value**2]


def test_a_huge_contribution_saturates_and_never_wraps() -> None:
    one = np.ones(1, np.int64)
    for value in (2**31, 2**62, -(2**63)):
        norms = squared_norms(np.repeat(one, 2), np.repeat(one, 2), np.repeat(value * one, 2), 8)[1]
        assert norms.tolist() == [2**62]


# Sums -------------------------------------------------------------------------------------------


@given(increments=st.lists(st.integers(-100, 100), min_size=1, max_size=70))
def test_prefixes_are_exact_but_for_the_noise(increments: list[int]) -> None:
    """The same entropy with and without data: the difference is the exact prefix sum."""
    horizon = len(increments)
    counter = TreeCounter(horizon, 3.0, entropy=SeededEntropy(1))
    silent = TreeCounter(horizon, 3.0, entropy=SeededEntropy(1))
    total = 0
    for x in increments:
        total += x
        assert counter.add(np.array([x]))[0] - silent.add(np.array([0]))[0] == total
        assert len(counter._exact) <= horizon.bit_length() >= len(counter._prefix)


def test_nodes_computed_by_the_caller_give_the_same_answers() -> None:
    x = np.random.default_rng(3).integers(-9, 9, (37, 2))
    added = TreeCounter(37, 2.0, 2, SeededEntropy(4))
    released = TreeCounter(37, 2.0, 2, SeededEntropy(4))
    for t in range(1, 38):
        first, last = window(t)
        node = x[first - 1 : last].sum(axis=0)
        np.testing.assert_array_equal(added.add(x[t - 1]), released.release(node))


@pytest.mark.usefixtures("no_noise")
def test_without_noise_a_long_stream_is_its_cumulative_sum() -> None:
    x = np.random.default_rng(5).integers(-9, 9, 1000)
    counter = TreeCounter(1000, 1.0)
    assert [int(counter.add(x[t : t + 1])[0]) for t in range(1000)] == np.cumsum(x).tolist()


# Noise ------------------------------------------------------------------------------------------


def noises(sigma: float, horizon: int, runs: int, seed: int) -> np.ndarray:
    """Noise of every prefix, (horizon, runs): each coordinate is a run of its own."""
    counter = TreeCounter(horizon, sigma, runs, SeededEntropy(seed))
    return np.array([counter.add(np.zeros(runs, np.int64)) for _ in range(horizon)])


def variance_fits(found: np.ndarray, sigma: float) -> bool:
    """Chi-square of 20,000 prefixes of one tick, two-sided 1e-6."""
    statistic = float((found.astype(float) ** 2).sum() / sigma**2)
    return 1e-6 < stats.chi2.cdf(statistic, found.size) < 1 - 1e-6


@pytest.mark.parametrize("tick", [1, 4, 7, 8, 15])
def test_the_variance_is_sigma_squared_for_each_one_bit(tick: int) -> None:
    """False-alarm rate 2e-6 a tick; 10 % more or less noise fails."""
    found = noises(50.0, 15, 20_000, 61)[tick - 1]
    ones = math.sqrt(tick.bit_count())
    assert variance_fits(found, 50.0 * ones)
    assert not variance_fits(found, 45.0 * ones)
    assert not variance_fits(found, 55.0 * ones)
    assert found.var() <= TreeCounter(15, 50.0).variance(tick) * 1.05


def test_noises_are_shared_exactly_where_prefixes_share_nodes() -> None:
    """Covariance of prefixes s, t is sigma² times their common nodes (|z| < 4.5 each of 28)."""
    found = noises(50.0, 7, 20_000, 62) / 50.0
    for s in range(1, 8):
        for t in range(s + 1, 8):
            common = len(set(decomposition(s)) & set(decomposition(t)))
            deviation = math.sqrt((s.bit_count() * t.bit_count() + common**2) / 20_000)
            assert abs(np.mean(found[s - 1] * found[t - 1]) - common) < 4.5 * deviation


@pytest.mark.parametrize("sigma", [0.5, 20.0])
def test_the_bounds_hold_at_their_rate(sigma: float) -> None:
    """Over 4,000 runs; a bound that is just met fails its test with probability below 1e-4."""
    counter, beta = TreeCounter(31, sigma), 0.1
    found = np.abs(noises(sigma, 31, 4000, 63))
    limit = 4000 * beta + 3.8 * math.sqrt(4000 * beta * (1 - beta))
    assert (found > counter.bound(beta)).any(axis=0).sum() <= limit
    for t in (1, 16, 31):
        assert (found[t - 1] > counter.bound(beta, tick=t)).sum() <= limit


def test_the_bound_of_one_prefix_is_not_slack() -> None:
    found = np.abs(noises(20.0, 31, 4000, 64))[30]
    assert (found > TreeCounter(31, 20.0).bound(0.1, tick=31)).sum() > 200  # 4,000 · 0.1 less half


def test_it_costs_logarithms_where_separate_prefixes_cost_the_horizon() -> None:
    """At equal worst-case charge, a year of days: the tree's worst prefix against plain noise."""
    counter = TreeCounter(365, 1.0)
    assert counter.max_nodes == 9  # charges: 9 nodes against 365 prefixes
    tree = 9 * counter._ones(255)
    assert tree == 72 < 365


# The interface ----------------------------------------------------------------------------------


def test_the_horizon_ends() -> None:
    counter = TreeCounter(2, 1.0, entropy=SeededEntropy(1))
    counter.add(np.array([1]))
    counter.add(np.array([1]))
    with pytest.raises(QueryRefused, match="used its 2 ticks"):
        counter.add(np.array([1]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TreeCounter(0, 1.0), r"horizon is 0; it must be a whole number in \[1, "),
        (lambda: TreeCounter(2.5, 1.0), "horizon is 2.5"),
        (lambda: TreeCounter(5, 0.1), "sigma is 0.1"),
        (lambda: TreeCounter(5, math.nan), "sigma is nan"),
        (lambda: TreeCounter(5, 1.0, 0), "coordinates is 0"),
        (lambda: TreeCounter(5, 1.0).add(np.array([1, 2])), r"shape \(2,\); it must be .* \(1,\)"),
        (lambda: TreeCounter(5, 1.0).add(np.array([1.0])), "the vector is float64"),
        (lambda: TreeCounter(5, 1.0).bound(0.0), "beta is 0.0"),
        (lambda: TreeCounter(5, 1.0).variance(6), "tick is 6"),
        (lambda: window(0), "tick is 0"),
        (lambda: count_nodes(np.array([1, 9]), 8), r"a tick is 9; it must be in \[1, 8\]"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_add_and_release_do_not_mix() -> None:
    counter = TreeCounter(8, 1.0, entropy=SeededEntropy(1))
    counter.release(np.array([1]))
    with pytest.raises(ParameterError, match="0 of 1 ticks were added"):
        counter.add(np.array([1]))
