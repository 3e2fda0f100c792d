"""Private SGD: its promise against other libraries, killed and continued, policies, filters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from sgd_runs import ASKING, DELTA, OWN, PLAIN, N, data, engine

import sparseq.networks.sgd.sampled_steps as sampled
from sparseq.accounting import rdp
from sparseq.accounting.odometers import LecuyerOdometer
from sparseq.base.errors import DataError, ParameterError, QueryRefused, StoreError, StoreInUse
from sparseq.networks.sgd import PrivateSGD, SpendMore
from sparseq.networks.sgd.promise import Promise, noise_for, rule_for
from sparseq.networks.sgd.run_file import RunFile
from sparseq.networks.sgd.sampled_steps import SampledGaussian
from sparseq.training import ClosedForm, family
from sparseq.training.protocol import Floats


def silent(sigma: float, size: int, entropy: Any = None) -> Any:
    return np.zeros(size, np.int64)


def test_without_noise_and_with_everybody_it_is_gradient_descent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampled, "rounded_gaussian", silent)
    how = PrivateSGD(steps=25, sampling=1.0, clip=0.5, rate=1.5, momentum=0.8, people=N, noise=1.0)
    trained = how.fit(engine(), delta=DELTA, seed=1)
    x, y = data()
    full, params, velocity = np.column_stack([x, np.ones(N)]), np.zeros(4), np.zeros(4)
    for _ in range(25):
        gradients = full * (1 / (1 + np.exp(-full @ params)) - y)[:, None]
        norms = np.linalg.norm(gradients, axis=1)
        clipped = gradients * np.minimum(1, 0.5 / norms)[:, None]
        velocity = 0.8 * velocity + clipped.sum(axis=0) / N
        params = params - 1.5 * velocity
    assert trained.params == pytest.approx(params, rel=5e-3, abs=1e-3)
    assert trained.steps == 25


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.01, 1.2, 500), (0.1, 3.0, 60)])
def test_the_promise_is_that_of_dp_accounting(rate: float, noise: float, steps: int) -> None:
    """Above the truth (a privacy loss distribution), and within 1 % of its RDP accountant."""
    how = PrivateSGD(steps=steps, sampling=rate, noise=noise, people=N)
    small = ClosedForm(family("logistic"), [0], np.zeros((1, 1)), np.zeros(1), bound=1.0)
    trained = how.fit(small, delta=DELTA, seed=1)
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)), steps
    )
    truth, theirs = PLDAccountant(), RdpAccountant(range(2, 200))
    truth.compose(event)
    theirs.compose(event)
    assert trained.epsilon is not None
    assert truth.get_epsilon(DELTA) < trained.epsilon < 1.01 * theirs.get_epsilon(DELTA)
    assert trained.epsilon <= trained.odometer


def test_noise_is_what_epsilon_needs_by_dp_accounting() -> None:
    noise = noise_for(rule_for(1.0, DELTA), 0.02, 400)

    def epsilon(of: float) -> float:
        accountant = RdpAccountant(range(2, 200))
        sampled = dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(of))
        accountant.compose(dp_accounting.SelfComposedDpEvent(sampled, 400))
        return float(accountant.get_epsilon(DELTA))

    assert epsilon(noise) == pytest.approx(1.0, abs=2e-3)
    trained = replace(PLAIN, steps=400, sampling=0.02).fit(
        engine(), epsilon=1.0, delta=DELTA, seed=2
    )
    assert (trained.steps, trained.epsilon) == (400, 1.0)
    assert trained.log[0].noise == noise


def test_a_run_stops_before_its_budget_is_passed() -> None:
    how = replace(PLAIN, steps=500, noise=1.0)
    trained = how.fit(engine(), epsilon=1.0, delta=DELTA, seed=1)
    assert trained.stopped == "the budget is spent"
    step, rule = SampledGaussian.of(0.1, 1.0), rule_for(1.0, DELTA)
    costs = rdp.subsampled_gaussian(step.sampling, 1.0, rdp.DEFAULT_ORDERS)
    spent = [
        rdp.epsilon(costs * k, rdp.DEFAULT_ORDERS, DELTA)
        for k in (trained.steps, trained.steps + 1)
    ]
    assert spent[0] <= 1.0 < spent[1]
    assert Promise(rule, DELTA).left(step) == trained.steps


def test_a_policy_trains_for_longer_under_the_same_epsilon() -> None:
    trained = ASKING.fit(engine(), epsilon=2.0, delta=DELTA, seed=1)
    asked = [c for c in trained.log if c.accuracy is not None]
    assert trained.stopped == "the budget is spent"
    assert trained.steps > 62  # 60 were planned
    assert max(c.noise for c in asked) > min(
        c.noise for c in asked
    )  # more noise while accuracy grew
    assert all(0.4 < c.accuracy < 1.1 for c in asked if c.accuracy is not None)
    # Everything released, at the noise that the log has, is within a plain sum's epsilon of 2
    total, before = np.zeros(len(rdp.DEFAULT_ORDERS)), 0
    for c in trained.log:
        step = SampledGaussian.of(c.sampling, c.noise)
        total += (c.step - before) * step.curve(rdp.DEFAULT_ORDERS)
        before = c.step
    total += (len(asked) + 1) * rdp.gaussian(30.0, rdp.DEFAULT_ORDERS)
    assert 1.5 < rdp.epsilon(total, rdp.DEFAULT_ORDERS, DELTA) < 2.0


def test_stopping_early_costs_what_the_odometer_says() -> None:
    how = replace(
        ASKING,
        noise=3.0,
        steps=200,
        most=None,
        policy=SpendMore(noise=0.5, every=2.0),
        target=0.7,
    )
    trained = how.fit(engine(), delta=DELTA, seed=1)
    assert trained.stopped == "the target is reached"
    assert trained.log[-1].accuracy is not None
    assert trained.log[-1].accuracy >= 0.7
    assert trained.steps < 200
    assert trained.epsilon is None  # nothing was promised
    odometer, before = LecuyerOdometer(DELTA), 0
    for c in trained.log:
        step = SampledGaussian.of(c.sampling, c.noise)
        if c.step > before:
            odometer.step(step.curve(odometer.orders), times=c.step - before)
        before = c.step
    asked = 1 + sum(c.accuracy is not None for c in trained.log)
    odometer.step(how.question.curve(odometer.orders), times=asked)
    assert trained.odometer == pytest.approx(odometer.epsilon(), rel=1e-6)


def test_patience_stops_a_run_that_gets_no_better() -> None:
    how = replace(PLAIN, rate=0.0, ask_every=0.5, patience=3, question_noise=10.0, noise=2.0)
    trained = how.fit(engine(), delta=DELTA, seed=1)
    assert trained.stopped == "training accuracy no longer grows"
    assert sum(c.accuracy is not None for c in trained.log) == 4  # the first one counts as growth


# Accounts of each user


class Spy:
    """What every release was allowed to have of everybody."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limits: list[Floats] = []
        release = SampledGaussian.release

        def seen(step: Any, engine: Any, params: Any, users: Any, entropy: Any, limits: Any) -> Any:
            self.limits.append(np.full(len(users), step.clip) if limits is None else limits.copy())
            return release(step, engine, params, users, entropy, limits)

        monkeypatch.setattr(SampledGaussian, "release", seen)


def spent_along(limits: list[Floats], step: SampledGaussian, orders: Any) -> Floats:
    """What limits of that size cost each user, at each order, one curve at a time."""
    rounded = np.round(np.array(limits) * 100 / step.clip).astype(int)
    curves = np.array(
        [
            rdp.subsampled_gaussian(step.sampling, step.noise * 100 / k, orders)
            if k
            else 0 * orders
            for k in range(101)
        ]
    )
    return np.asarray(sum(curves[row] for row in rounded))


def test_nobody_passes_their_own_filter_and_training_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spy = Spy(monkeypatch)
    trained = OWN.fit(engine(), epsilon=1.0, delta=DELTA, seed=1)
    assert len(spy.limits) == trained.steps == 120
    step = SampledGaussian.of(0.1, trained.log[0].noise, 0.5)
    rule = rule_for(1.0, DELTA, OWN.planned(noise_for(rule_for(1.0, DELTA), 0.1, 60), 60))
    spent = spent_along(spy.limits, step, np.array(rule.orders))
    assert (spent <= np.array(rule.rhos)).any(axis=1).all()
    # 60 steps at full norm were planned for: nobody is out before, somebody is after, not all are
    first = np.array(spy.limits[:60])
    assert (first > 0).all()
    assert (np.array(spy.limits[-1]) == 0).any()
    assert (np.array(spy.limits[-1]) > 0).mean() > 0.4
    full = spent_along([np.full(N, 0.5)] * 61, step, np.array(rule.orders))
    assert not (full <= np.array(rule.rhos)).any()

    # And limits are the largest that can be paid: one step of the grid more would be too much
    orders, rhos, period = np.array(rule.orders), np.array(rule.rhos), 5
    before = spent_along(spy.limits[:-period], step, orders)
    short = np.flatnonzero(spy.limits[-1] == 0)  # no gradient of theirs is 0
    more = spent_along([spy.limits[-1] + 0.005] * period, step, orders)
    assert len(short) > 10
    assert not ((before + more)[short] <= rhos).any()


def test_the_report_is_what_everybodys_limits_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    how = replace(OWN, filtering=False, most=None)
    trained = how.fit(engine(), epsilon=1.0, delta=DELTA, seed=1)
    report = trained.individual
    assert report is not None
    assert report.is_bound
    step = SampledGaussian.of(0.1, trained.log[0].noise, 0.5)
    expected = spent_along(spy.limits, step, report.orders)
    assert report.losses() == pytest.approx(expected, rel=1e-6)
    epsilons = report.epsilons(DELTA)
    small, large = epsilons[: N // 2], epsilons[N // 2 :]
    assert small.mean() < 0.9 * large.mean()
    assert epsilons.max() <= report.worst_case(DELTA)
    assert 1.0 <= report.worst_case(DELTA) < 1.03  # fewer orders than the promise has
    loose = replace(how, cut=False).fit(engine(), epsilon=1.0, delta=DELTA, seed=1)
    assert loose.individual is not None
    assert not loose.individual.is_bound


def test_the_same_run_with_and_without_a_report_has_the_same_guarantee() -> None:
    plain = PLAIN.fit(engine(), epsilon=1.0, delta=DELTA, seed=1)
    report = replace(PLAIN, refreshes=1.0, cut=False)
    assert np.array_equal(
        plain.params, report.fit(engine(), epsilon=1.0, delta=DELTA, seed=1).params
    )
    assert plain.individual is None


# On disk


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from sgd_runs import ASKING, DELTA, OWN, PLAIN, N, data, engine

import sparseq.networks.sgd.sampled_steps as sampled
from sgd_runs import ASKING, DELTA, OWN, engine
how, left = {{"own": OWN, "asking": ASKING}}[sys.argv[1]], int(sys.argv[3])
release = sampled.SampledGaussian.release
def dying(*args):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return release(*args)
sampled.SampledGaussian.release = dying
def told(checkpoint):
    print(checkpoint.step, flush=True)
    if checkpoint.step == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
how.fit(engine(), epsilon=2.0, delta=DELTA, path=sys.argv[2], seed=9, watch=told)
"""


@pytest.mark.parametrize("kind", [pytest.param("own", marks=pytest.mark.deep), "asking"])
def test_a_killed_run_goes_on_as_if_nothing_had_been(kind: str, tmp_path: Path) -> None:
    how, path = {"own": OWN, "asking": ASKING}[kind], tmp_path / "run"
    program = KILLED.format(here=str(Path(__file__).parents[1]))
    told: list[int] = []
    for after, at in ((17, -1), (1000, 42)):  # amid steps, and just after a checkpoint
        done = subprocess.run(
            [sys.executable, "-c", program, kind, str(path), str(after), str(at)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        told += [int(line) for line in done.stdout.split()]
    assert told[-1] == 42
    assert told == sorted(set(told))  # nothing is told twice
    whole = how.fit(engine(), epsilon=2.0, delta=DELTA, seed=9)
    again = how.fit(engine(), epsilon=2.0, delta=DELTA, seed=9, path=path)
    assert np.array_equal(again.params, whole.params)
    assert (again.steps, again.odometer, again.stopped) == (
        whole.steps,
        whole.odometer,
        whole.stopped,
    )
    assert again.log == whole.log
    if kind == "own":
        assert again.individual is not None
        assert whole.individual is not None
        assert np.array_equal(again.individual.losses(), whole.individual.losses())
        assert again.individual.is_bound


def test_a_finished_run_is_read_back_and_draws_nothing(tmp_path: Path) -> None:
    first = PLAIN.fit(engine(), epsilon=1.0, delta=DELTA, path=tmp_path / "run")
    again = PLAIN.fit(engine(), epsilon=1.0, delta=DELTA, path=tmp_path / "run")
    assert np.array_equal(first.params, again.params)  # not seeded: new noise would show
    assert first.log == again.log
    assert not first.seeded
    assert os.stat(tmp_path / "run").st_mode & 0o077 == 0


def test_another_run_other_data_and_another_process_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    PLAIN.fit(engine(), epsilon=1.0, delta=DELTA, path=path)
    with pytest.raises(QueryRefused, match="other settings"):
        replace(PLAIN, rate=1.0).fit(engine(), epsilon=1.0, delta=DELTA, path=path)
    with pytest.raises(QueryRefused, match="other settings"):
        PLAIN.fit(engine(), epsilon=1.0, delta=DELTA, path=path, seed=1)
    x, y = data()
    fewer = ClosedForm(family("logistic"), np.arange(9), x[:9], y[:9], bound=1.0)
    with pytest.raises(DataError, match="other data"):
        PLAIN.fit(fewer, epsilon=1.0, delta=DELTA, path=path)
    with RunFile(path.with_name("other"), "x"), pytest.raises(StoreInUse):
        RunFile(path.with_name("other"), "x")


@pytest.mark.parametrize("content", [b"hello, I am a letter" * 100, None])
def test_a_file_that_is_no_run_is_refused_and_left_alone(
    content: bytes | None, tmp_path: Path
) -> None:
    import sqlite3

    path = tmp_path / "file"
    if content is None:
        with sqlite3.connect(path) as con:
            con.execute("CREATE TABLE t (a)")
        con.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not the file of a run"):
        RunFile(path, "x")
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="can't be opened"):
        RunFile(tmp_path, "x")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"most": 10}, "most 10"),
        ({"noise": 0.1}, "gives no privacy"),
        ({"clip": 0.0}, "clip"),
        ({"momentum": 1.0}, "momentum"),
        ({"people": 0}, "people"),
        ({"rate": -1.0}, "rate"),
        ({"filtering": True}, "refreshes"),
        ({"refreshes": 1.0, "ask_every": 1.0}, "asks questions"),
        ({"refreshes": 1.0, "people": None}, "asks questions"),
        ({"target": 0.9}, "nobody asks"),
        ({"question_noise": 0.5}, "question_noise"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        replace(PLAIN, **changes)


def test_a_run_says_what_it_lacks() -> None:
    with pytest.raises(ParameterError, match="neither noise nor epsilon"):
        PLAIN.fit(engine(), delta=DELTA)
    with pytest.raises(ParameterError, match="an epsilon"):
        replace(OWN, noise=1.0).fit(engine(), delta=DELTA)
    with pytest.raises(ParameterError, match="start has shape"):
        PLAIN.fit(engine(), delta=DELTA, epsilon=1.0, start=np.zeros(3))
    x, y = data()
    linear = ClosedForm(family("linear"), np.arange(N), x, y, bound=1.0)
    with pytest.raises(ParameterError, match="no accuracy"):
        ASKING.fit(linear, delta=DELTA, epsilon=2.0, seed=1)
