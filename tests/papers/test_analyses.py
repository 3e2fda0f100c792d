"""Lipschitz analyses: the constants proven are true, charges are theirs, the store keeps them.

The oracles: Fractions for charges, mpmath for the median, the lattice points themselves with and
without a user.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy import stats

import sparseq
from sparseq import ParameterError
from sparseq.accounting import Price
from sparseq.engine.contribution_tables import triplet_query
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.papers.analyses import SmoothedMedian, WeightedMean, ask_lipschitz
from sparseq.papers.lipschitz import Analysis, lipschitz_contributions, mover
from sparseq.question.plan import Options, calibrate
from sparseq.store.store import Store

MEDIAN = SmoothedMedian(2, population=20, near=0.5, smoothing=0.25, pull=0.5)
STEP = 2.0**-10
Vector = tuple[int, ...]

vectors = st.lists(
    st.tuples(st.integers(-5000, 5000), st.integers(-5000, 5000)).filter(any),
    min_size=1,
    max_size=12,
)
one_vector = st.tuples(st.integers(-5000, 5000), st.integers(-5000, 5000))


def g(analysis: Analysis, x: list[Vector], weights: list[int] | None = None) -> np.ndarray:
    """The analysis at vectors in units of STEP; origins are left out, as they are by the store."""
    chosen = [i for i, v in enumerate(x) if any(v)]
    table = np.array([x[i] for i in chosen], np.int64).reshape(-1, analysis.inputs)
    own = np.array([weights[i] if weights else 1 for i in chosen], np.int64)
    return np.array([float(y) for y in analysis.evaluate(table, STEP, own)])


def distance(a: Any, b: Any) -> float:
    return float(np.linalg.norm(np.asarray(a, float) - np.asarray(b, float)))


# Constants --------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(x=vectors, other=one_vector, seed=st.integers(0, 11))
def test_the_median_moves_no_further_than_proven(x: list[Vector], other: Vector, seed: int) -> None:
    """Replacement of one vector by any other: Lipschitz; by the origin: Lipschitz and reach."""
    i = seed % len(x)
    rounding = 2 * float(MEDIAN.error)
    constant = float(MEDIAN.lipschitz(1))
    moved = distance(g(MEDIAN, x), g(MEDIAN, [*x[:i], other, *x[i + 1 :]]))
    assert moved <= constant * distance(x[i], other) * STEP + rounding
    left = distance(g(MEDIAN, x), g(MEDIAN, [*x[:i], (0, 0), *x[i + 1 :]]))
    assert left <= min(constant * distance(x[i], (0, 0)) * STEP, float(MEDIAN.reach(1))) + rounding


@given(x=vectors, other=one_vector, weights=st.lists(st.integers(1, 9), min_size=12, max_size=12))
def test_the_mean_moves_by_exactly_its_constant(
    x: list[Vector], other: Vector, weights: list[int]
) -> None:
    mean = WeightedMean(2, total=50)
    moved = distance(g(mean, x, weights), g(mean, [other, *x[1:]], weights))
    expected = float(mean.lipschitz(weights[0])) * distance(x[0], other) * STEP
    assert math.isclose(moved, expected, rel_tol=1e-9, abs_tol=1e-12)


def test_the_medians_constants_are_not_slack() -> None:
    """Finite differences reach a third of L, and a departure nine tenths of the reach.

    Symmetric pairs hold the median at the origin; one more user, alone, moves it.
    """
    lone = SmoothedMedian(2, population=20, near=0.5, smoothing=0.25, pull=20.0)
    nearby = [g(lone, [(x, 0)]) for x in range(200, 520, 2)]
    slopes = [distance(a, b) / (2 * STEP) for a, b in pairwise(nearby)]
    assert max(slopes) > float(lone.lipschitz(1)) / 3
    assert distance(g(lone, [(50_000, 0)]), (0, 0)) > 0.9 * float(lone.reach(1))


def exact_median(median: SmoothedMedian, x: list[Vector]) -> list[float]:
    """Newton's method at 200 bits on the objective as the docstring writes it."""
    mp.prec = 200
    points = [[mp.mpf(c) * STEP for c in v] for v in x]
    near, s, pull = (mp.mpf(v) for v in (median.near, median.smoothing, median.pull))

    def force(*v: Any) -> list[Any]:
        out = [pull * c for c in v]
        for p in points:
            r = min(mp.mpf(1), mp.sqrt(sum(c * c for c in p)) / near)
            u = [a - b for a, b in zip(v, p, strict=True)]
            f = mp.sqrt(sum(c * c for c in u) + s * s)
            out = [o + r * c / f / median.population for o, c in zip(out, u, strict=True)]
        return out

    found = mp.findroot(force, g(median, x).tolist(), tol=1e-40)
    return [found[i] for i in range(2)]


@settings(max_examples=30)
@given(x=vectors)
def test_the_solver_keeps_to_its_error(x: list[Vector]) -> None:
    away = [mp.mpf(a) - b for a, b in zip(g(MEDIAN, x).tolist(), exact_median(MEDIAN, x))]  # noqa: B905
    assert mp.sqrt(sum(c * c for c in away)) <= float(MEDIAN.error)


def test_the_solver_does_not_give_up_on_hard_data() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-(2**24), 2**24, (20_000, 3))
    x[:2000] *= 2**30
    for smoothing in (1.0, 1e-3):
        for pull in (1.0, 1e-4):
            median = SmoothedMedian(3, 20_000, 1.0, smoothing, pull)
            assert len(median.evaluate(x, 2.0**-16, np.ones(20_000, np.int64))) == 3


def test_far_away_users_move_the_mean_and_hardly_the_median() -> None:
    x = [(1000, 2000)] * 19
    far = [*x, (10**7, 0)]
    wide = SmoothedMedian(2, population=20, near=0.5, smoothing=0.25, pull=0.01)
    assert distance(g(wide, x), g(wide, far)) < 0.3
    assert distance(g(WeightedMean(2, 20), x), g(WeightedMean(2, 20), far)) > 400


# Charges ----------------------------------------------------------------------------------------


def smallest_square(a: Fraction, e: Fraction, norm: int) -> int:
    """The least integer N with N >= (a sqrt(norm) + e)², by rational comparisons alone."""
    rational, cross = a * a * norm + e * e, 4 * a * a * e * e * norm
    n = math.floor(rational + Fraction(math.isqrt(math.floor(cross)))) - 2
    while n < rational or (n - rational) ** 2 < cross:
        n += 1
    return n


@settings(max_examples=200)
@given(
    norm=st.integers(1, 2**62 - 1),
    weight=st.integers(1, 1000),
    total=st.integers(1, 10**6),
    shift=st.integers(-8, 8),
)
def test_charges_equal_the_fractions(norm: int, weight: int, total: int, shift: int) -> None:
    """The stated bound with its constants rounded up to 2^-40, and hardly above it without."""
    step, granularity = 2.0**-20, Fraction(2) ** (shift - 20)
    mean = WeightedMean(3, total)

    def up(x: Fraction) -> Fraction:
        return Fraction(math.ceil(x * 2**40), 2**40)

    a = Fraction(weight, total) * Fraction(step) / granularity
    root_3 = Fraction(math.isqrt(3 * 2**80) + 1, 2**40)
    move = mover(mean, step, granularity)(norm, weight)
    assert move == min(smallest_square(up(a), root_3, norm), NORM_LIMIT)
    assert move >= min(a * a * norm, NORM_LIMIT)
    if a > 2**-20 and move < NORM_LIMIT:
        assert move <= (math.sqrt(a * a * norm) + 1.74) ** 2 * (1 + 1e-5) + 1


@given(norm=st.integers(1, 2**62))
def test_a_medians_charge_ends_at_its_reach(norm: int) -> None:
    granularity = Fraction(1, 2**20)
    move = mover(MEDIAN, STEP, granularity)
    far = float(MEDIAN.reach(1) / granularity) + 1.4143 + 2 * float(MEDIAN.error / granularity)
    assert move(norm, 1) <= far**2 + 1
    assert move(norm, 1) <= move(norm + 1, 1) <= move(NORM_LIMIT, 1)
    assert mover(WeightedMean(1, 1), 1.0, Fraction(1))(NORM_LIMIT, 1) == NORM_LIMIT


def store(users: int, norm_budget: float = 1000.0, seed: int = 1) -> Store:
    people = pa.table({"who": list(range(users))})
    return sparseq.create(
        None,
        {"t": people},
        user="who",
        seed=seed,
        purposes=[sparseq.Questions(counts=norm_budget)],
    )


def table(x: list[Vector], unit: float = STEP) -> pa.Table:
    rows = [(i, j, c * unit) for i, v in enumerate(x) for j, c in enumerate(v)]
    return pa.table(dict(zip(("user", "coordinate", "value"), map(list, zip(*rows)))))  # noqa: B905


@pytest.fixture(scope="module")
def shared() -> Iterator[Store]:
    with store(12) as con:
        yield con


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=vectors, weight=st.integers(1, 5), sigma=st.sampled_from([0.01, 0.1, 5.0]))
def test_released_lattice_points_differ_by_no_more_than_is_charged(
    shared: Store, x: list[Vector], weight: int, sigma: float
) -> None:
    """Integers against integers: the point with everybody, and without each user in turn."""
    for analysis in (MEDIAN, WeightedMean(2, 20, {0: weight})):
        plan = calibrate(triplet_query(2, "x", 1.0), shared.guarantee, Options(sigma=sigma))
        moved = lipschitz_contributions(shared.backend, table(x), analysis, plan)
        (everybody,) = moved.without(np.zeros(0, np.int32))
        (reduced,) = moved.measures
        assert reduced.users.tolist() == list(range(len(x)))
        for user, norm in zip(reduced.users, reduced.norms.tolist(), strict=True):
            (rest,) = moved.without(np.array([user], np.int32))
            steps = zip(everybody.tolist(), rest.tolist(), strict=True)
            squared = sum((a - b) ** 2 for a, b in steps)
            assert squared <= norm or norm == NORM_LIMIT  # the latter is dearer than any budget


# In the store -----------------------------------------------------------------------------------


def test_the_ledger_holds_the_price_of_the_moves() -> None:
    x = [(1000, 0), (300, 400), (0, 0), (2000, 0)]
    with store(5) as con:
        mean = WeightedMean(2, total=4, weights={3: 2, 99: 7})
        answer = ask_lipschitz(con, table(x), mean, label="mean", scale=2.0)
        sigma, g = answer.facts.sigma[0], answer.facts.granularity[0]
        assert answer.facts.scale == (3.5,)  # the heaviest public weight, whoever has it
        price = Price.of(sigma, g, con.guarantee)
        spent = con.stream.accounts.spent.tolist()
        for user, weight in ((0, 1), (1, 1), (3, 2)):
            nominal = Fraction(weight, 4) ** 2 * sum(Fraction(c) ** 2 for c in x[user])
            nominal = nominal * Fraction(STEP) ** 2 / Fraction(g) ** 2 * price.exact
            assert nominal <= spent[user] <= nominal * (1 + Fraction(1, 2**9)) + 2
        assert spent[2] == spent[4] == 0  # the origin, and a user without rows


def test_dropped_users_are_at_the_origin_and_nobody_overdraws() -> None:
    """Everybody can pay twice; a heavy user never; answers are of the others."""
    x = [(1000, 0)] * 9 + [(9000, 0)]
    mean = WeightedMean(2, total=10)
    with store(10, norm_budget=2.5) as con:
        for t in range(4):
            answer = ask_lipschitz(con, table(x), mean, label=f"{t}", scale=1000 * STEP)
            value = answer.rows()[0]["value"] / STEP
            expected = 900.0 if t < 2 else 0.0
            bound = answer.bound(1e-6)
            assert isinstance(bound, float)
            assert abs(value - expected) < bound / STEP
        accounts = con.stream.accounts
        assert (accounts.spent <= accounts.budgets).all()
        assert accounts.spent[9] == 0
        assert (accounts.spent[:9] >= 2 * 2**24).all()


def test_a_heavy_user_stays_in_the_median() -> None:
    """Its reach is affordable where its norm is not: it pays the reach, hardly more."""
    x = [(1000, 0), (2_000_000_000, 0)]
    median = SmoothedMedian(2, population=20, near=0.5, smoothing=0.25, pull=0.5)
    with store(2, norm_budget=3.0) as con:
        answer = ask_lipschitz(con, table(x), median, label="m", scale=1e6)
        assert math.isclose(answer.facts.scale[0], 0.1)
        spent = con.stream.accounts.spent
        assert 2**24 <= spent[1] <= 2**24 * 1.002


def test_less_noise_never_costs_less() -> None:
    x = [(1000, 7), (1, 0), (20_000, 5)]
    for analysis in (MEDIAN, WeightedMean(2, 20)):
        before = np.zeros(3, np.int64)
        for sigma in (50.0, 5.0, 4.0, 1.0):
            with store(3, norm_budget=1e6) as con:
                ask_lipschitz(con, table(x), analysis, label="m", sigma=sigma)
                assert (con.stream.accounts.spent >= before).all()
                assert (con.stream.accounts.spent > 0).all()
                before = con.stream.accounts.spent.copy()


def test_the_noise_is_sigma() -> None:
    """40 answers of 64 coordinates: chi-square at 2e-6, and 10 % more or less sigma fails."""
    rows = table([tuple(range(64)), tuple(range(0, 128, 2))])
    with store(2, norm_budget=1e6) as con:
        mean = WeightedMean(64, total=3)
        answers = [ask_lipschitz(con, rows, mean, label="m", sigma=20.0) for _ in range(40)]
    errors = np.array([[r["value"] for r in a.rows()] for a in answers])
    errors -= np.arange(64) * STEP
    total = float((errors**2).sum())
    for sigma, fits in ((20.0, True), (18.0, False), (22.0, False)):
        p = stats.chi2.cdf(total / sigma**2, errors.size)
        assert (1e-6 < p < 1 - 1e-6) == fits


def test_a_request_id_returns_the_recorded_answer_for_nothing() -> None:
    with store(2) as con:
        ask: Callable[[], Any] = lambda: ask_lipschitz(  # noqa: E731
            con, table([(1, 2)]), MEDIAN, label="m", request_id="r"
        )
        first, spent = ask().rows(), con.stream.accounts.spent.copy()
        assert ask().rows() == first
        assert (con.stream.accounts.spent == spent).all()
        assert len(con.releases()) == 1


def test_values_that_are_not_finite_count_for_nothing() -> None:
    rows = pa.table(
        {"user": [0, 0, 1], "coordinate": [0, 1, 0], "value": [math.nan, math.inf, None]}
    )
    for analysis in (MEDIAN, WeightedMean(2, 20)):
        with store(2) as con:
            ask_lipschitz(con, rows, analysis, label="m")
            assert con.stream.accounts.spent.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WeightedMean(0, 1), "dimension is 0"),
        (lambda: WeightedMean(1, 0), "total is 0"),
        (lambda: WeightedMean(1, 5, {"a": 0}), r"the weight of 'a' is 0; .* \[1, 1048576\]"),
        (lambda: WeightedMean(1, 5, {"a": 1.5}), "the weight of 'a' is 1.5"),  # type: ignore[dict-item]
        (lambda: SmoothedMedian(49, 5, 1.0, 1.0, 1.0), r"dimension is 49; .* \[1, 48\]"),
        (lambda: SmoothedMedian(2, 5, 0.0, 1.0, 1.0), "near is 0.0"),
        (lambda: SmoothedMedian(2, 5, 1.0, math.nan, 1.0), "smoothing is nan"),
        (lambda: SmoothedMedian(2, 5, 1.0, 1.0, math.inf), "pull is inf"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_scale(scale: float) -> None:
    with store(1) as con, pytest.raises(ParameterError, match="scale is"):
        ask_lipschitz(con, table([(1, 2)]), MEDIAN, label="m", scale=scale)
