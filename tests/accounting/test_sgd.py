"""Individual accounting of gradient descent against one curve at a time, and what it may claim."""

from __future__ import annotations

import io
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from exact_formulas import deterministic
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sparseq.accounting import _rdp_integers as rdp_integers
from sparseq.accounting import rdp
from sparseq.base.errors import ParameterError
from sparseq.networks.sgd_account import SGD_ORDERS, TrajectoryAccount

fewer = settings(deterministic, max_examples=30)
ORDERS = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
norms = arrays(np.float64, 4, elements=st.floats(0.0, 2.0))
runs = st.lists(st.tuples(norms, st.integers(1, 50)), max_size=5)


def account(examples=4, levels=8, **changes):
    return TrajectoryAccount(
        **{"examples": examples, "rate": 0.02, "noise": 0.9, "levels": levels, "orders": ORDERS}
        | changes
    )


def after(run, **changes):
    ours = account(**changes)
    for one, times in run:
        ours.refresh(one)
        ours.step(times)
    return ours


def curve(norm, rate=0.02, noise=0.9, orders=ORDERS):
    return rdp.subsampled_gaussian(rate, noise / norm, orders) if norm > 1e-150 else 0 * orders


@fewer
@given(runs)
def test_charges_are_those_of_the_rounded_norms(run):
    expected = np.zeros((4, len(ORDERS)))
    for values, times in run:
        rounded = np.minimum(np.ceil(values * 8) / 8, 1.0)
        expected += [times * curve(norm) for norm in rounded]
    losses = after(run).losses()
    assert losses == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert (losses >= expected).all()


@fewer
@given(runs)
def test_charges_bound_those_of_the_exact_norms_and_never_pass_the_worst_case(run):
    ours = after(run)
    exact = np.zeros((4, len(ORDERS)))
    for values, times in run:
        exact += [times * curve(norm) for norm in np.minimum(values, 1.0)]
    assert (ours.losses() >= exact * (1 - 1e-12)).all()
    assert (ours.epsilons(1e-5) <= ours.worst_case(1e-5)).all()


def test_rounding_to_nearest_would_not_be_a_bound():
    norm, grid = 0.31, np.arange(9) / 8
    nearest = grid[np.abs(grid - norm).argmin()]
    exact = curve(norm)
    assert (curve(nearest) < 0.7 * exact).all()
    assert (after([(np.full(4, norm), 1)]).losses() >= exact).all()


@deterministic
@given(arrays(np.float64, 50, elements=st.floats(0.0, 3.0)), st.integers(1, 500))
def test_norms_are_rounded_up_to_the_grid_exactly(values, levels):
    ours = account(50, levels, clip=2.0, rate=1.0)
    ours.refresh(values)
    grid = ours.thresholds
    assert (grid >= np.minimum(values, 2.0)).all()
    assert (grid - np.minimum(values, 2.0) <= 2.0 / levels * (1 + 1e-12)).all()


@fewer
@given(runs, st.integers(0, 5))
def test_more_steps_or_larger_norms_never_cost_less(run, k):
    larger = [(v * 1.3 if j == k else v, n) for j, (v, n) in enumerate(run)]
    base = after(run).epsilons(1e-5)
    assert (after(larger).epsilons(1e-5) >= base).all()
    longer = after(run)
    longer.step()
    assert (longer.epsilons(1e-5) >= base).all()


@fewer
@given(runs, st.randoms(use_true_random=False))
def test_the_order_of_epochs_does_not_matter_nor_when_one_looks(run, random):
    watched = account()
    for values, times in random.sample(run, len(run)):
        watched.refresh(values)
        for part in (1, times - 1):
            if part:
                watched.step(part)
                watched.epsilons(1e-5)
    assert np.array_equal(watched.losses(), after(run).losses())


def test_the_worst_case_agrees_with_dp_accounting():
    ours = account(levels=1, orders=np.arange(2.0, 33.0))
    accountant = RdpAccountant(ours.orders)
    event = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(0.9))
    accountant.compose(event, 700)
    ours.step(700)
    assert ours.losses()[0] == pytest.approx(accountant._rdp, rel=1e-9)
    assert ours.worst_case(1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    assert ours.epsilons(1e-5).tolist() == [ours.worst_case(1e-5)] * 4


def test_an_example_agrees_with_dp_accounting_along_its_own_trajectory():
    ours = account(1, levels=4, orders=np.arange(2.0, 33.0))
    accountant = RdpAccountant(ours.orders)
    for norm, times in [(0.75, 100), (0.5, 300), (0.25, 300)]:
        ours.refresh([norm])
        ours.step(times)
        gaussian = dp_accounting.GaussianDpEvent(0.9 / norm)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(0.02, gaussian), times)
    assert ours.epsilons(1e-5)[0] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)


def test_an_example_with_no_gradient_pays_nothing():
    ours = after([(np.zeros(4), 1000)])
    assert not ours.losses().any()
    assert not ours.epsilons(1e-5).any()


def test_only_norms_of_the_current_model_or_clipped_gradients_make_a_bound():
    ours = account()
    ours.step(5)
    assert ours.is_bound  # before the first refresh everybody pays for `clip`
    ours.refresh(np.full(4, 0.5))
    ours.step()
    assert ours.is_bound
    ours.step(3, clipped=True)
    assert ours.is_bound
    ours.step()
    assert not ours.is_bound
    ours.refresh(np.full(4, 0.5))
    ours.step()
    assert not ours.is_bound  # what was estimated stays an estimate
    assert not after([(np.full(4, 0.5), 2)]).is_bound
    assert after([(np.full(4, 7.0), 2)]).is_bound


@fewer
@given(runs, st.integers(0, 5))
def test_state_survives_the_disk_exactly(run, cut):
    ours = after(run[:cut])
    file = io.BytesIO()
    np.savez(file, **ours.state())
    file.seek(0)
    loaded = TrajectoryAccount.from_state(dict(np.load(file)))
    for values, times in run[cut:]:
        for one in (ours, loaded):
            one.step(times)
            one.refresh(values)
    assert np.array_equal(ours.losses(), loaded.losses())
    assert ours.is_bound == loaded.is_bound
    assert ours.worst_case(1e-5) == loaded.worst_case(1e-5)


def test_the_table_is_made_once_and_a_step_only_counts(monkeypatch):
    calls = []
    curve_of = rdp.subsampled_gaussian
    monkeypatch.setattr(rdp, "subsampled_gaussian", lambda *a: calls.append(1) or curve_of(*a))
    ours = account(10_000, levels=50)
    gathered = []
    times = rdp_integers.times
    monkeypatch.setattr(rdp_integers, "times", lambda *a: gathered.append(1) or times(*a))
    for values in np.random.default_rng(1).random((6, 10_000)):
        ours.refresh(values)
        for _ in range(100):
            ours.step()
    ours.epsilons(1e-5)
    assert (len(calls), len(gathered)) == (50, 6)


def test_default_orders_lose_little_to_many():
    dense = rdp.DEFAULT_ORDERS
    for norm in (0.1, 0.5, 1.0):
        for steps in (1_000, 10_000):
            few = rdp.epsilon(steps * curve(norm, 0.01, 1.0, SGD_ORDERS), SGD_ORDERS, 1e-5)
            assert few <= 1.01 * rdp.epsilon(steps * curve(norm, 0.01, 1.0, dense), dense, 1e-5)


@pytest.mark.parametrize("bad", [-1.5, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: account(rate=bad),
        lambda bad: account(noise=bad),
        lambda bad: account(clip=bad),
        lambda bad: account(levels=bad),
        lambda bad: account(examples=bad),
        lambda bad: account().step(bad),
        lambda bad: account().epsilons(bad),
        lambda bad: account().worst_case(bad),
    ],
)
def test_bad_input_is_refused_with_its_value(call, bad):
    with pytest.raises(ParameterError) as caught:
        call(bad)
    assert repr(bad) in caught.value.message


@pytest.mark.parametrize("bad", [[0.1] * 3, [0.1, 0.1, 0.1, -1.0], [math.nan] * 4, 0.5, ["a"] * 4])
def test_norms_that_do_not_fit_are_refused_and_change_nothing(bad):
    ours = after([(np.full(4, 0.5), 3)])
    before = ours.losses()
    with pytest.raises(ParameterError):
        ours.refresh(bad)
    assert np.array_equal(before, ours.losses())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("spent", lambda a: -a),
        ("spent", lambda a: a[:-1]),
        ("level", lambda a: a + 100),
        ("spent", lambda a: a.astype(float)),
        ("counters", lambda a: a - [0, 10, 0, 0]),
        ("counters", lambda a: a - [0, 0, -10, 0]),
    ],
)
def test_a_damaged_state_is_refused(name, change):
    state = after([(np.full(4, 0.5), 3)]).state()
    with pytest.raises(ParameterError, match="damaged"):
        TrajectoryAccount.from_state(state | {name: change(state[name])})
