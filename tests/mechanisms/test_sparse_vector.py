"""AboveThreshold: prices against the exact distribution of the answers, and the answers themselves.

The oracle knows nothing of the proof: it sums the probability of every sequence of answers over the
threshold's noise, from the closed forms of the noise, for given values with and without a user.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from numpy.typing import NDArray
from sampled import one_in
from scipy import stats
from scipy.special import log_ndtr, ndtr

from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.mechanisms import (
    AboveThreshold,
    GaussianSparseVector,
    LaplaceSparseVector,
    SeededEntropy,
)
from sparseq.mechanisms.sparse_vector import _log_game

Floats = NDArray[np.float64]
Design = LaplaceSparseVector | GaussianSparseVector


# The oracle -------------------------------------------------------------------------------------


def noise(design: Design) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
    """Support and masses of z, and P(nu >= s) for integers s."""
    if isinstance(design, LaplaceSparseVector):
        z = np.arange(-int(45 * design.threshold_scale), int(45 * design.threshold_scale) + 1.0)
        r = math.exp(-1 / design.query_scale)
        masses = math.tanh(0.5 / design.threshold_scale) * np.exp(-abs(z) / design.threshold_scale)

        def tail(s: Floats) -> Floats:
            far = r ** np.abs(np.where(s > 0, s, 1 - s)) / (1 + r)
            return np.where(s > 0, far, 1 - far)

        return z, masses, tail
    sigma = design.threshold_sigma
    z = np.arange(-int(14 * sigma), int(14 * sigma) + 1.0)
    masses = ndtr((z + 0.5) / sigma) - ndtr((z - 0.5) / sigma)
    upper = z > 0
    masses[upper] = (ndtr(-(z - 0.5) / sigma) - ndtr(-(z + 0.5) / sigma))[upper]
    return z, masses, lambda s: ndtr(-(s - 0.5) / design.query_sigma)


def distribution(design: Design, values: list[int]) -> dict[tuple[int, ...], float]:
    """The chance of every sequence of answers, threshold 0; it ends with the last allowed 1."""
    z, masses, tail = noise(design)
    ones = [tail(z - f) for f in values]
    zeros = [tail(f - z + 1) for f in values]  # nu < z - f, as the noise is symmetric
    out = {}
    for answers in itertools.product((0, 1), repeat=len(values)):
        *_, last = itertools.accumulate(answers)
        if last == design.positives and not answers[-1]:
            continue  # it had halted before
        if last > design.positives:
            continue
        chances = [ones[t] if a else zeros[t] for t, a in enumerate(answers)]
        out[answers] = float(np.sum(masses * np.prod(chances, axis=0)))
    for stop in range(1, len(values)):  # halted early
        for answers in itertools.product((0, 1), repeat=stop):
            if sum(answers) == design.positives and answers[-1]:
                chances = [ones[t] if a else zeros[t] for t, a in enumerate(answers)]
                out[answers] = float(np.sum(masses * np.prod(chances, axis=0)))
    return out


def divergence(p: dict[tuple[int, ...], float], q: dict[tuple[int, ...], float], a: float) -> float:
    terms = [math.exp(a * math.log(p[o]) + (1 - a) * math.log(q[o])) for o in p if p[o] > 1e-290]
    return math.log(math.fsum(terms)) / (a - 1)


def test_the_oracle_is_a_distribution() -> None:
    for design in (LaplaceSparseVector(1, 2.0, 3.0, 2), GaussianSparseVector(1, 2.0, 3.0, 9, 2)):
        assert math.isclose(sum(distribution(design, [3, -2, 0, 5]).values()), 1, rel_tol=1e-9)


# Prices -----------------------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, bool, list[int], list[int]]:
    """Sensitivity, one_sided, values without a user and what the user adds."""
    sensitivity, one_sided = draw(st.integers(1, 3)), draw(st.booleans())
    size = draw(st.integers(1, 4))
    values = draw(st.lists(st.integers(-8, 8), min_size=size, max_size=size))
    low = 0 if one_sided else -sensitivity
    added = draw(st.lists(st.integers(low, sensitivity), min_size=size, max_size=size))
    return sensitivity, one_sided, values, added


@settings(max_examples=60)
@given(run=runs(), scales=st.tuples(*[st.sampled_from([0.7, 2.0, 5.0])] * 2), c=st.integers(1, 2))
def test_laplace_never_loses_more_than_its_price(
    run: tuple[int, bool, list[int], list[int]], scales: tuple[float, float], c: int
) -> None:
    sensitivity, one_sided, values, added = run
    design = LaplaceSparseVector(sensitivity, *scales, positives=c, one_sided=one_sided)
    without = distribution(design, values)
    having = distribution(design, [f + x for f, x in zip(values, added, strict=True)])
    losses = [math.log(having[o] / without[o]) for o in without if without[o] > 1e-12]
    assert max(map(abs, losses)) <= float(design.epsilon) + 1e-6
    for a in (1.1, 2.0, 16.0):
        for p, q in ((without, having), (having, without)):
            assert divergence(p, q, a) <= design.rdp(a) * (1 + 1e-6) + 1e-9


@settings(max_examples=100)
@given(
    values=st.lists(st.integers(-8, 8), min_size=1, max_size=5),
    enters=st.integers(0, 5),
    scales=st.tuples(*[st.sampled_from([0.7, 2.0, 5.0])] * 2),
    most=st.integers(1, 3),
)
def test_a_user_who_enters_and_stays_never_loses_more_than_its_price(
    values: list[int], enters: int, scales: tuple[float, float], most: int
) -> None:
    design = LaplaceSparseVector(most, *scales, entering=True)
    without = distribution(design, values)
    having = distribution(design, [f + most * (t >= enters) for t, f in enumerate(values)])
    losses = [math.log(having[o] / without[o]) for o in without if without[o] > 1e-12]
    assert max(map(abs, losses)) <= float(design.epsilon) + 1e-6
    for a in (1.1, 2.0, 16.0):
        for p, q in ((without, having), (having, without)):
            assert divergence(p, q, a) <= design.rdp(a) * (1 + 1e-6) + 1e-9


def test_what_enters_may_not_leave_again() -> None:
    """The lower price is for those who stay: a user who comes and goes loses more."""
    design = LaplaceSparseVector(1, 1.0, 1.0, entering=True)
    low, high = [8] * 11 + [-8], [9] * 11 + [-8]  # in for eleven queries, out in the last
    answer = (0,) * 11 + (1,)
    loss = math.log(distribution(design, low)[answer] / distribution(design, high)[answer])
    stays = math.log(
        distribution(design, low)[answer] / distribution(design, [f + 1 for f in low])[answer]
    )
    assert stays <= float(design.epsilon) + 1e-9 < 1.5 < loss
    with pytest.raises(ParameterError, match="one answer of 1 only"):
        LaplaceSparseVector(1, 1.0, 1.0, positives=2, entering=True)


def test_the_price_of_entering_is_nearly_reached() -> None:
    """Both ways: by a threshold that must have been high, and by a 1 that should not have been."""
    early = LaplaceSparseVector(1, 1.0, 3.0, entering=True)
    p, q = (distribution(early, [12 + x] * 11)[(0,) * 11] for x in (0, 1))
    assert 0.9 * float(early.epsilon) < math.log(p / q) <= float(early.epsilon) + 1e-9
    late = LaplaceSparseVector(1, 3.0, 1.0, entering=True)
    p, q = (distribution(late, [12] * 11 + [-8 + x])[(0,) * 11 + (1,)] for x in (1, 0))
    assert 0.9 * float(late.epsilon) < math.log(p / q) <= float(late.epsilon) + 1e-9


def test_a_run_goes_on_with_the_threshold_that_was_drawn() -> None:
    design = LaplaceSparseVector(1, 50.0, 1e-1, entering=True)
    for seed in range(20):
        run = AboveThreshold(design, 0, SeededEntropy(seed))
        again = AboveThreshold(design, 0, SeededEntropy(99), noise=run.noise)
        assert [again.above(f) for f in (run.noise - 5, run.noise + 5)] == [False, True]


@settings(max_examples=60)
@given(run=runs(), sigmas=st.tuples(*[st.sampled_from([0.7, 2.0, 5.0])] * 2), c=st.integers(1, 2))
def test_gaussian_never_diverges_more_than_its_price(
    run: tuple[int, bool, list[int], list[int]], sigmas: tuple[float, float], c: int
) -> None:
    sensitivity, one_sided, values, added = run
    design = GaussianSparseVector(
        sensitivity, *sigmas, queries=len(values), positives=c, one_sided=one_sided
    )
    without = distribution(design, values)
    having = distribution(design, [f + x for f, x in zip(values, added, strict=True)])
    for a in (1.1, 2.0, 5.0):
        for p, q in ((without, having), (having, without)):
            assert divergence(p, q, a) <= design.rdp(a) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("one_sided", [False, True])
def test_the_laplace_price_is_nearly_reached(one_sided: bool) -> None:
    """Many values just below with the user, then one above: 90 % of epsilon is really lost."""
    design = LaplaceSparseVector(1, 1.0, 1.0, one_sided=one_sided)
    low, high = (0, 1) if one_sided else (-1, 1)
    calm, last = 11, 8
    p = distribution(design, [calm] * 11 + [-last])[(0,) * 11 + (1,)]
    q = distribution(design, [calm + high] * 11 + [-last + low])[(0,) * 11 + (1,)]
    assert 0.9 * float(design.epsilon) < math.log(p / q) <= float(design.epsilon)


def plain_game(order: float, shift: float, queries: int) -> float:
    """The game's value on a fine grid, from below: no cells, no chunks of steps."""
    s = np.linspace(-10, 12 + order * shift, 40_001)
    c = np.exp(order * log_ndtr(s) + (1 - order) * log_ndtr(s + shift))
    b = np.exp(order * log_ndtr(-s) + (1 - order) * log_ndtr(-s - shift))
    value = 1.0
    for _ in range(queries):
        value = max(value, float(np.max(c * value + b)))
    return math.log(value)


@pytest.mark.parametrize("order", [1.5, 4.0, 32.0])
@pytest.mark.parametrize("shift", [1.0, 0.2, 0.05])
@pytest.mark.parametrize("queries", [1, 10, 300])
def test_the_game_is_bounded_from_above_and_tightly(
    order: float, shift: float, queries: int
) -> None:
    below, price = plain_game(order, shift, queries), _log_game(order, shift, queries)
    composed = queries * order * (order - 1) * shift**2 / 2
    assert below <= price <= composed
    if composed < 300:
        assert price <= below * 1.08 + 1e-5


def test_log_ndtr_is_as_good_as_is_trusted() -> None:
    """Against mpmath at 200 bits, relative or absolute 2^-42, from -60 to 30."""
    mp.prec = 200
    for x in np.linspace(-60, 30, 361).tolist():
        exact = mp.log(mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2)
        assert abs(mp.mpf(float(log_ndtr(x))) - exact) <= 2**-42 * (1 + abs(exact))


def test_a_million_queries_cost_a_hundredth_of_composition_and_less() -> None:
    design = GaussianSparseVector(1, 20.0, 20.0, queries=10**6, one_sided=True)
    assert design.rdp(4.0) < 0.1
    assert 4.0 * 10**6 / (2 * 20.0**2) == 5000.0


def test_prices_are_exact_rationals() -> None:
    design = LaplaceSparseVector(3, 0.7, 5.3, positives=4)
    epsilon = Fraction(3) / Fraction(0.7) + 4 * Fraction(6) / Fraction(5.3)
    assert design.epsilon == epsilon
    assert design.rho == epsilon**2 / 2
    half = LaplaceSparseVector(3, 0.7, 5.3, positives=4, one_sided=True).epsilon
    assert half == Fraction(3) / Fraction(0.7) + 4 * Fraction(3) / Fraction(5.3)


@settings(max_examples=40)
@given(
    sensitivity=st.integers(1, 20),
    noise=st.floats(1.0, 300.0),
    order=st.floats(1.05, 100.0),
    queries=st.integers(1, 10**6),
    positives=st.integers(1, 5),
)
def test_more_noise_and_fewer_answers_never_cost_more(
    sensitivity: int, noise: float, order: float, queries: int, positives: int
) -> None:
    """Within the 2 % (and 1e-5) to which the game is bounded."""
    gaussian = GaussianSparseVector(sensitivity, noise, noise, queries, positives)
    laplace = LaplaceSparseVector(sensitivity, noise, noise, positives)
    for design, cheaper in (
        (gaussian, GaussianSparseVector(sensitivity, 2 * noise, 2 * noise, queries, positives)),
        (
            gaussian,
            GaussianSparseVector(sensitivity, noise, noise, max(1, queries // 2), positives),
        ),
        (gaussian, gaussian.for_user(sensitivity // 2)),
        (laplace, LaplaceSparseVector(sensitivity, 2 * noise, 2 * noise, positives)),
        (laplace, laplace.for_user(sensitivity // 2)),
        (laplace, LaplaceSparseVector(sensitivity, noise, noise, positives, one_sided=True)),
    ):
        tolerance = 1e-5 * positives / (order - 1)
        assert cheaper.rdp(order) <= design.rdp(order) * 1.02 + tolerance


def test_an_untouched_user_pays_nothing() -> None:
    assert LaplaceSparseVector(5, 2.0, 2.0).for_user(0).epsilon == 0
    assert LaplaceSparseVector(5, 2.0, 2.0).for_user(0).rdp(2.0) == 0
    assert GaussianSparseVector(5, 2.0, 2.0, 10).for_user(0).rdp(2.0) == 0


# Answers ----------------------------------------------------------------------------------------

RUNS = 9_000
DESIGNS = [GaussianSparseVector(1, 6.0, 8.0, 9), LaplaceSparseVector(1, 6.0, 8.0)]


def positives(design: Design, value: int, seed: int) -> int:
    entropy = SeededEntropy(seed)
    return sum(AboveThreshold(design, 0, entropy).above(value) for _ in range(RUNS))


@pytest.mark.parametrize("design", one_in(2, DESIGNS), ids=["gaussian", "laplace"])
def test_the_chance_of_an_answer_is_right_and_ten_percent_more_noise_shows(design: Design) -> None:
    """9,000 runs with a value 18 below the threshold; false-alarm rate 4e-5 each."""
    p = distribution(design, [-18])[(1,)]
    z = (positives(design, -18, 51) - RUNS * p) / math.sqrt(RUNS * p * (1 - p))
    assert abs(z) < 4.1
    wrong: Design = (
        GaussianSparseVector(1, 6.6, 8.8, 9)
        if isinstance(design, GaussianSparseVector)
        else LaplaceSparseVector(1, 6.6, 8.8)
    )
    found = positives(wrong, -18, 52)
    assert abs(found - RUNS * p) / math.sqrt(RUNS * p * (1 - p)) > 4.1


@pytest.mark.parametrize("design", DESIGNS, ids=["gaussian", "laplace"])
def test_the_threshold_is_drawn_once(design: Design) -> None:
    """Sequences of three answers have the oracle's chances (chi-square, false alarms 1e-6)."""
    chances = distribution(design, [-3, -4, -2])
    entropy = SeededEntropy(53)
    counts = dict.fromkeys(chances, 0)
    for _ in range(RUNS // 3):
        run = AboveThreshold(design, 0, entropy)
        answers: list[int] = []
        for value in (-3, -4, -2):
            if not run.halted:
                answers.append(int(run.above(value)))
        counts[tuple(answers)] += 1
    expected = [chances[o] * RUNS / 3 for o in chances]
    assert stats.chisquare(list(counts.values()), expected).pvalue > 1e-6


@pytest.mark.parametrize("design", DESIGNS, ids=["gaussian", "laplace"])
def test_no_answer_is_wrong_by_more_than_the_margin(design: Design) -> None:
    """beta 0.2, 300 runs of 8 queries one step outside the margin: more than 82 failures would have
    a chance below 1e-3 if the bound were just met."""
    if isinstance(design, GaussianSparseVector):
        margin = math.ceil(design.margin(0.2))
    else:
        margin = design.margin(0.2, queries=8)
    entropy, failures = SeededEntropy(54), 0
    for _ in range(300):
        run = AboveThreshold(design, 0, entropy)
        failures += any(run.above(-margin - 1) for _ in range(8) if not run.halted)
    assert failures <= 82


def test_it_halts_after_its_positives_and_its_queries() -> None:
    run = AboveThreshold(LaplaceSparseVector(1, 1.0, 1.0, positives=2), 0, SeededEntropy(1))
    assert [run.above(v) for v in (1000, -1000, 1000)] == [True, False, True]
    assert run.halted
    with pytest.raises(QueryRefused, match="halted after 3 queries, 2 above"):
        run.above(0)
    few = AboveThreshold(GaussianSparseVector(1, 1.0, 1.0, queries=2), 0, SeededEntropy(1))
    assert [few.above(-1000), few.above(-1000), few.halted] == [False, False, True]
    with pytest.raises(QueryRefused, match="halted after 2 queries, 0 above"):
        few.above(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LaplaceSparseVector(-1, 1.0, 1.0), "sensitivity is -1"),
        (lambda: LaplaceSparseVector(1.5, 1.0, 1.0), "sensitivity is 1.5"),
        (lambda: LaplaceSparseVector(1, math.nan, 1.0), "threshold_scale is nan"),
        (lambda: LaplaceSparseVector(1, 1.0, 0.0), "query_scale is 0.0"),
        (lambda: LaplaceSparseVector(1, 1.0, 1.0, positives=0), "positives is 0"),
        (lambda: GaussianSparseVector(1, 0.1, 1.0, 5), "threshold_sigma is 0.1"),
        (lambda: GaussianSparseVector(1, 1.0, math.inf, 5), "query_sigma is inf"),
        (lambda: GaussianSparseVector(1, 1.0, 1.0, 0), "queries is 0"),
        (lambda: GaussianSparseVector(1, 1.0, 1.0, 5).rdp(1.0), r"order is 1.0; .* \(1, 1024\]"),
        (lambda: LaplaceSparseVector(1, 1.0, 1.0).rdp(0.5), "order is 0.5"),
        (lambda: LaplaceSparseVector(1, 1.0, 1.0).for_user(2), "largest is 2"),
        (lambda: LaplaceSparseVector(1, 1.0, 1.0).margin(0.0, 1), "beta is 0.0"),
        (lambda: AboveThreshold(DESIGNS[1], 2**63), "threshold is 9223372036854775808"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
