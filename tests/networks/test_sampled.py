"""One sampled step: the sample is Poisson's, what is priced is what is drawn and summed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseq.networks.sgd.sampled_steps as sampled
from sparseq.accounting import rdp
from sparseq.base.errors import ParameterError
from sparseq.mechanisms import SeededEntropy
from sparseq.networks.sgd.sampled_steps import CHANCES, SampledGaussian, all_users
from sparseq.training import ClosedForm, WeightedSum, charged_squares, family
from sparseq.training.protocol import Floats

USERS, DRAWS, RATE = 200, 4000, 0.05


def draws(sampling: float = RATE) -> Any:
    step, entropy = SampledGaussian.of(sampling, 1.0), SeededEntropy(3)
    return np.array([step.drawn(USERS, entropy) for _ in range(DRAWS)])


def z_of_rate(got: Any, rate: float) -> float:
    return float((got.mean() - rate) / np.sqrt(rate * (1 - rate) / got.size))


def test_everybody_is_drawn_at_the_priced_rate() -> None:
    """800,000 coins: a rate that is 3 % off is 6 deviations away."""
    assert abs(z_of_rate(draws(), RATE)) < 4
    assert abs(z_of_rate(draws(RATE * 1.03), RATE)) > 4
    by_user = draws().sum(axis=0)  # nobody is drawn more often than others
    spread = by_user.var() / (DRAWS * RATE * (1 - RATE))
    assert 0.6 < spread < 1.5  # 4 deviations of a variance over 200


def test_coins_are_independent_between_users_and_steps() -> None:
    """Fixed-size batches have no spread of sizes; shuffled epochs draw everybody once in each."""
    got = draws()
    binomial = USERS * RATE * (1 - RATE)
    assert got.sum(axis=1).var() == pytest.approx(binomial, rel=0.1)  # 4.5 deviations
    epochs = got.reshape(-1, round(1 / RATE), USERS).sum(axis=1)
    assert epochs.var() == pytest.approx(1 - RATE, rel=0.04)  # 40,000 of them: 5 deviations
    fixed = np.tile(np.arange(USERS) < USERS * RATE, (DRAWS, 1))
    assert fixed.sum(axis=1).var() < 0.9 * binomial
    neighbours = np.mean(got[:, 1:] & got[:, :-1])
    later = np.mean(got[1:] & got[:-1])
    for both in (neighbours, later):
        assert both == pytest.approx(RATE**2, rel=0.09)  # 4 deviations


def test_the_coin_is_exact() -> None:
    step = SampledGaussian(chance=7, noise=1.0)
    words = np.array([0, 6, 7, 2**32 - 1], "<u4").tobytes()
    entropy: Any = lambda size: words[:size]  # noqa: E731
    assert step.drawn(4, entropy).tolist() == [True, True, False, False]
    assert step.sampling == 7 / 2**32
    assert SampledGaussian(CHANCES, 1.0).drawn(4, entropy).all()
    assert SampledGaussian.of(1.0, 1.0).chance == CHANCES


@dataclass(frozen=True)
class Batch:
    users: Any
    vectors: Floats
    told: Floats


class Made:
    """An engine of given vectors, which may lie about norms; `of` can be taken from it."""

    def __init__(self, vectors: Any, told: Any = None, users: Any = None, slack: float = 0) -> None:
        self.vectors = np.asarray(vectors, np.float64)
        users = np.arange(len(self.vectors)) if users is None else users
        self.users = np.asarray(users, np.int32)
        with np.errstate(all="ignore"):
            norms = np.linalg.norm(self.vectors, axis=1)
        self.told = norms if told is None else np.asarray(told, np.float64)
        self.slack, self.asked = slack, []  # type: ignore[var-annotated]

    @property
    def coordinates(self) -> int:
        return self.vectors.shape[1]

    def _batch(self, rows: Any) -> Batch:
        return Batch(self.users[rows], self.vectors[rows], self.told[rows])

    def batches(self) -> Iterable[Batch]:
        return [self._batch(slice(None))]

    def of(self, users: Any) -> Iterable[Batch]:
        self.asked.append(users)
        return [self._batch(np.isin(self.users, users))]

    def query(self, params: Floats, batch: Batch) -> tuple[Floats, Callable[..., WeightedSum]]:
        vectors = np.where(np.isfinite(batch.vectors).all(axis=1)[:, None], batch.vectors, 0.0)

        def pull(weights: Floats, step: float) -> WeightedSum:
            part = vectors * weights[:, None]
            lengths = np.linalg.norm(part, axis=1)
            integers = np.trunc(np.clip(part / step, -(2.0**62), 2.0**62)).astype(np.int64)
            return WeightedSum(charged_squares(lengths, step, self.slack), integers.sum(axis=0))

        return batch.told, pull


class Whole(Made):
    of = None  # type: ignore[assignment]


def silent(sigma: float, size: int, entropy: Any = None) -> Any:
    return np.zeros(size, np.int64)


def released(step: SampledGaussian, engine: Any, limits: Any = None, seed: int = 1) -> Floats:
    users = all_users(engine)
    return step.release(engine, np.zeros(0), users, SeededEntropy(seed), limits)


def test_a_release_has_the_priced_rate_and_the_priced_noise() -> None:
    """Variance of the sum: n q (1-q) of the sample and sigma² of the noise, within 4 deviations."""
    n, step = 500, SampledGaussian.of(0.2, noise=10.0, clip=2.0)
    engine = Made(np.full((n, 1), 9.0))  # everybody is scaled down to 2
    users, entropy = all_users(engine), SeededEntropy(5)
    got = np.array([step.release(engine, np.zeros(0), users, entropy)[0] for _ in range(3000)])
    sample, noise = 4 * n * 0.2 * 0.8, 20.0**2
    deviation = np.sqrt(sample + noise)
    assert got.mean() == pytest.approx(2 * n * 0.2 * sampled._AIM, abs=4 * deviation / 3000**0.5)
    assert got.var() == pytest.approx(sample + noise, rel=0.105)
    # Each part alone would be missed: neither noise 10 % off nor a fixed sample passes
    assert abs(sample + 1.21 * noise - sample - noise) / (sample + noise) > 0.105
    assert sample / (sample + noise) > 0.105


def test_the_price_is_that_of_the_sampled_gaussian() -> None:
    step, orders = SampledGaussian.of(0.01, noise=1.1, clip=3.0), np.array([2.0, 8.0, 64.0])
    exact = rdp.subsampled_gaussian(step.sampling, 1.1, orders)
    assert (step.curve(orders) >= exact).all()
    assert step.curve(orders) == pytest.approx(exact, rel=1e-11)
    half = rdp.subsampled_gaussian(step.sampling, 2.2, orders)
    assert step.curve(orders, share=0.5) == pytest.approx(half, rel=1e-11)
    assert not step.curve(orders, share=0).any()


def test_only_the_drawn_are_computed_and_only_they_are_summed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampled, "rounded_gaussian", silent)
    step = SampledGaussian.of(0.3, 1.0)
    vectors = np.eye(40) * 0.5  # coordinate i tells whether i is in
    one, all_of_them = Made(vectors), Whole(vectors)
    for seed in range(5):
        drawn = step.drawn(40, SeededEntropy(seed))
        for engine in (one, all_of_them):
            sums = released(step, engine, seed=seed)
            assert np.allclose(sums, 0.5 * drawn, atol=1e-9)
        assert np.array_equal(one.asked[-1], np.flatnonzero(drawn))


HOSTILE = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-310, 5e-324, 0.0, 1.0, 3.0, -0.25]
rows = st.lists(st.lists(st.sampled_from(HOSTILE), min_size=2, max_size=2), min_size=1, max_size=5)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    rows,
    st.lists(st.sampled_from([*HOSTILE, None]), min_size=5, max_size=5),
    st.sampled_from([2.0**-60, 0.01, 1.0, 1e6]),
    st.lists(st.sampled_from([0.0, 0.01, 0.5, 1.0]), min_size=5, max_size=5),
)
def test_nobody_adds_more_than_is_priced_whatever_the_gradients_and_norms_told(
    vectors: Any, told: Any, clip: float, shares: Any
) -> None:
    """One user at a time, no noise: the released vector is the user's own."""
    step, real = SampledGaussian(CHANCES, 1.0, clip), sampled.rounded_gaussian
    sampled.rounded_gaussian = silent  # type: ignore[assignment]
    try:
        for vector, says, share in zip(vectors, told, shares, strict=False):
            engine = Made([vector], None if says is None else [says])
            for limit in (clip, share * clip):
                sums = released(step, engine, np.array([limit]))
                assert np.isfinite(sums).all()
                assert np.linalg.norm(sums) <= limit
    finally:
        sampled.rounded_gaussian = real


def test_a_user_beyond_the_limit_is_left_out_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampled, "rounded_gaussian", silent)
    step = SampledGaussian(CHANCES, 1.0)
    engine = Made([[0.5, 0.0], [0.0, 7.0], [0.25, 0.0]], told=[0.5, 0.001, 0.25])
    assert np.allclose(released(step, engine), [0.75, 0.0], atol=1e-9)
    assert [len(users) for users in engine.asked] == [3, 2]


def test_what_rounding_may_add_counts() -> None:
    """An engine with slack: fine where there is room for it, and only among the drawn."""
    step = SampledGaussian.of(0.5, 1.0)
    vectors = np.full((20, 1), 3.0)
    assert np.isfinite(released(step, Made(vectors, slack=1e-4))).all()
    with pytest.raises(ParameterError, match="not drawn"):
        released(step, Whole(vectors, slack=1e-4))


def test_a_user_who_is_there_twice_is_refused() -> None:
    with pytest.raises(ParameterError, match="twice"):
        all_users(Made(np.ones((2, 1)), users=[3, 3]))
    engine = Made(np.ones((2, 1)), users=[3, 3])
    with pytest.raises(ParameterError, match="twice"):
        SampledGaussian(CHANCES, 1.0).release(
            engine, np.zeros(0), np.array([3], np.int32), SeededEntropy(1)
        )


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.1, np.nan])
def test_rates_out_of_range_are_refused(bad: float) -> None:
    with pytest.raises(ParameterError, match="sampling"):
        SampledGaussian.of(bad, 1.0)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_closed_forms_give_some_users_as_they_are_among_all(several: bool, dense: bool) -> None:
    from scipy import sparse

    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(30), rng.integers(1, 4, 30)) if several else np.arange(30)
    x = rng.uniform(-1, 1, (len(users), 4)) * (rng.random((len(users), 4)) < 0.7)
    x[3, 1] = np.nan if dense else 0.0
    y = rng.integers(0, 3, len(users)).astype(float)
    engine = ClosedForm(
        family("softmax", 3), users, x if dense else sparse.csr_array(x), y, bound=1.0
    )
    params = rng.normal(size=engine.coordinates)
    chosen = np.array([0, 3, 4, 11, 29], np.int32)
    sums, squares = np.zeros(engine.coordinates, np.int64), {}
    for batch in engine.batches():
        _, pull = engine.query(params, batch)
        pulled = pull(np.isin(batch.users, chosen) * 0.5, 2.0**-30)
        sums += pulled.sums
        squares |= dict(zip(batch.users.tolist(), pulled.squares.tolist(), strict=True))
    for batch in engine.of(chosen):
        _, pull = engine.query(params, batch)
        pulled = pull(np.full(len(batch.users), 0.5), 2.0**-30)
        sums -= pulled.sums
        for user, square in zip(batch.users.tolist(), pulled.squares.tolist(), strict=True):
            assert squares[user] == square
        assert np.isin(batch.users, chosen).all()
    assert not sums.any()
