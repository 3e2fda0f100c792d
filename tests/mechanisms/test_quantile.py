"""Quantiles by noised ranks: exact without noise, within the bound with it, charged by node."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled import one_in

from sparseq.base.errors import ParameterError
from sparseq.mechanisms import Quantiles, Ranks, SeededEntropy, tree_counter

EDGES = [2.0**k for k in range(-5, 26)]


def test_without_noise_quantiles_are_the_empirical_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = lambda sigma, size, entropy: np.zeros(size, np.int64)  # noqa: E731
    monkeypatch.setattr(tree_counter, "rounded_gaussian", zeros)
    values = np.random.default_rng(1).lognormal(3, 2, 999)
    query = Quantiles(EDGES, 1.0)
    ranks = query.release(query.place(values))
    for q in (0.0, 0.01, 0.5, 0.9, 1.0):
        needed = math.ceil(Fraction(q) * 999)
        expected = next(e for e in EDGES if np.sum(values <= e) >= needed)
        assert ranks.quantile(q) == expected


def off(query: Quantiles, values: np.ndarray, ranks: Ranks, q: float, w: float) -> bool:
    """Whether the module's statement about the edge returned is wrong."""
    edge, n = ranks.quantile(q), len(values)
    at_or_below = np.sum(values <= edge)
    before = max([e for e in query.edges if e < edge], default=-math.inf)
    at_or_before = np.sum(values <= before)
    return bool(at_or_below < q * n - (1 + q) * w or at_or_before > q * n + (1 + q) * w)


def test_the_error_bound_holds_at_its_rate() -> None:
    """beta 0.2, 300 runs: more than 82 failures would have a chance below 1e-3, were it just met.

    And the bound is of use: with an eighth of it, more fail than beta.
    """
    rng, entropy = np.random.default_rng(2), SeededEntropy(71)
    query = Quantiles(np.linspace(1, 60, 60).tolist(), sigma=20.0)
    w, failures, tighter = query.rank_error(0.2), 0, 0
    for _ in range(300):
        values = rng.exponential(10.0, 2000)
        ranks = query.release(query.place(values), entropy)
        failures += any(off(query, values, ranks, q, w) for q in (0.1, 0.5, 0.95))
        tighter += any(off(query, values, ranks, q, w / 8) for q in (0.1, 0.5, 0.95))
    assert failures <= 82
    assert tighter > 100


@pytest.mark.parametrize("factor", one_in(3, [0.9, 1.0, 1.1]))
def test_ten_percent_of_noise_shows(factor: float) -> None:
    """Variance of the rank at the first edge, one node: 2,000 releases, false alarms 2e-5."""
    query, bins = Quantiles([1.0, 2.0], sigma=50.0 * factor), np.repeat([0, 1, 2], 500)
    entropy = SeededEntropy(72)
    first = [query.release(bins, entropy).cumulative[0] - 500 for _ in range(2000)]
    z = (np.mean(np.square(first)) / 50.0**2 - 1) / math.sqrt(2 / 2000)
    assert (abs(z) < 4.3) == (factor == 1.0)


@given(bins=st.lists(st.integers(-1, 31), max_size=50))
def test_charges_are_the_nodes_of_each_bin(bins: list[int]) -> None:
    query = Quantiles(EDGES, sigma=7.0)
    norms = query.norms(np.array(bins, np.int64)).tolist()
    for k, norm in zip(bins, norms, strict=True):
        held = sum(tree_counter.window(n)[0] <= k + 1 <= n for n in range(1, query.bins + 1))
        assert norm == (held if k >= 0 else 0)
        assert Fraction(norm) / (2 * Fraction(7) ** 2) <= query.rho
    assert query.rho == Fraction(6, 98)


def test_values_go_to_their_bins() -> None:
    query = Quantiles([1.0, 2.0], sigma=1.0)
    values = np.array([-math.inf, 0.0, 1.0, 1.5, 2.0, 2.1, math.inf, math.nan])
    assert query.place(values).tolist() == [0, 0, 0, 1, 1, 2, 2, -1]


def test_what_lies_beyond_the_last_edge_is_infinite() -> None:
    query = Quantiles([1.0, 2.0], sigma=1.0)
    ranks = query.release(np.full(10_000, 2), SeededEntropy(1))
    assert ranks.quantile(0.9) == math.inf


def test_ranks_never_fall() -> None:
    query = Quantiles(EDGES, sigma=100.0)
    ranks = query.release(np.zeros(0, np.int64), SeededEntropy(3))
    assert list(ranks.cumulative) == sorted(ranks.cumulative)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Quantiles([], 1.0), "edges is "),
        (lambda: Quantiles([1.0, math.nan], 1.0), r"edges is \[1.0, nan\]"),
        (lambda: Quantiles([1.0, 1.0], 1.0), "edges has 1 before 1; it must ascend"),
        (lambda: Quantiles([1.0], 0.0), "sigma is 0.0"),
        (lambda: Quantiles([1.0], 1.0).norms(np.array([2])), r"a bin is 2; .* \[-1, 1\]"),
        (lambda: Ranks(Quantiles([1.0], 1.0), (1, 2)).quantile(1.5), r"q is 1.5; .* \[0, 1\]"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
