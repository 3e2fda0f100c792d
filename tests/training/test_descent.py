"""Algorithm 3 on a store: against a plain copy of it, killed and continued, never beyond budget."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparseq
import sparseq.stream.step
from checks.stores import made_store
from sparseq.accounting import Budget, gdp
from sparseq.training import ClosedForm, PrivateGD, family
from sparseq.training.protocol import Floats

N = 400


def data() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(4)
    x = np.rint(rng.uniform(-1, 1, (N, 3)) * 2**10) / 2**10
    y = (x @ np.array([2.0, -1.0, 0.5]) + 0.3 * rng.normal(size=N) > 0.2).astype(float)
    return x, y


def engine() -> ClosedForm:
    x, y = data()
    return ClosedForm(family("logistic"), np.arange(N), x, y, bound=1.0)


def store(path: Path | None = None, **more: Any) -> sparseq.Store:
    people = pa.table({"who": np.arange(N)})
    settings = {"table": "t", "user": "who", "kappa": 2.0, "norm_budget": 10, "seed": 3}
    return made_store(path, people, **settings | more)


def silent(sigma: float, size: int, entropy: Any = None) -> Any:
    return np.zeros(size, np.int64)


def algorithm_3(steps: int, most: int, clip: float, rate: float, momentum: float) -> Any:
    """The paper's pseudocode, without noise, in floats."""
    x, y = data()
    full = np.column_stack([x, np.ones(N)])
    params, velocity, spent = np.zeros(4), np.zeros(4), np.zeros(N)
    for _ in range(most):
        gradients = full * (1 / (1 + np.exp(-full @ params)) - y)[:, None]
        norms = np.linalg.norm(gradients, axis=1)
        left = np.sqrt(np.maximum(steps * clip**2 - spent, 0))
        clipped = np.minimum(np.minimum(norms, clip), left)
        spent += clipped**2
        mean = ((clipped / norms)[:, None] * gradients).sum(axis=0) / N
        velocity = momentum * velocity + mean
        params = params - rate * velocity
    return params, spent / clip**2


def test_without_noise_it_is_algorithm_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
    con = store(norm_budget=10)
    how = PrivateGD(steps=10, most=25, clip=0.5, rate=2.0, momentum=0.8, people=N)
    trained = how.fit(con, engine(), run="a")
    params, spent = algorithm_3(10, 25, 0.5, 2.0, 0.8)
    assert np.allclose(trained.params, params, rtol=2e-3, atol=1e-3)
    assert np.allclose(con.stream.accounts.spent / 2**24, spent, rtol=2e-3, atol=1e-3)
    assert (spent > 9.999).any()  # somebody has run out
    assert (spent < 9).any()
    assert np.all(con.stream.accounts.spent <= con.stream.accounts.budgets)
    plain, _ = algorithm_3(10, 10, 0.5, 2.0, 0.8)
    assert np.allclose(trained.plain, plain, rtol=2e-3, atol=1e-3)
    assert trained.taken == len(trained.log) == 25


def test_for_the_first_steps_nobody_is_scaled_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """k full gradients fit into the budget, whatever else was kept back."""
    monkeypatch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
    con = store(norm_budget=20)
    constant = ClosedForm(
        family("linear"), np.arange(N), np.zeros((N, 1)), np.full(N, 9.0), bound=1
    )
    how = PrivateGD(steps=13, most=15, clip=1.0, rate=0.0, people=N, checks=0)
    trained = how.fit(con, constant, run="a")
    norms = [s.norm for s in trained.log]
    assert norms[:12] == pytest.approx([1.0] * 12, rel=1e-4)
    assert norms[12] > 0.99  # charges are rounded up to 11 bits
    assert norms[13:] == pytest.approx([0, 0], abs=0.2)


def test_a_run_with_an_epsilon_spends_no_more_than_that_of_anybody() -> None:
    con = store(kappa=1.0, norm_budget=10, seed=None)
    how = PrivateGD(steps=5, most=30, clip=0.1, rate=1.0)
    trained = how.fit(con, engine(), run="a", epsilon=1.0, delta=1e-5)
    share = con.stream.accounts.spent.max() / 2**24 / 10
    assert trained.kappa == Budget.from_epsilon_delta(1.0, 1e-5, 1).kappa
    assert 0.95 * trained.kappa < share * con.guarantee.kappa <= trained.kappa
    assert gdp.epsilon(1e-5, (2 * share * con.guarantee.kappa) ** 0.5) <= 1.0
    again = how.fit(con, engine(), run="b", epsilon=1.0, delta=1e-5)
    assert again.kappa == trained.kappa
    assert con.stream.accounts.spent.max() / 2**24 / 10 <= 2 * trained.kappa / con.guarantee.kappa


def test_questions_are_paid_from_what_was_kept_back() -> None:
    """After all gradients, everybody can still answer: the count is of all 400."""
    con = store(kappa=30.0, norm_budget=10)
    how = PrivateGD(
        steps=5, most=40, clip=0.05, rate=1.0, checks=3, check_cost=0.05, least_active=0.01
    )
    trained = how.fit(con, engine(), run="a")
    sigma = (1 / (2 * 30 * 0.05)) ** 0.5
    asked = [s for s in trained.log if s.accuracy is not None]
    assert [s.step for s in asked] == [5, 22, 40][: len(asked)]
    x, y = data()
    right = float(np.mean((x @ trained.plain[:3] + trained.plain[3] > 0) == (y > 0.5)))
    assert asked[0].accuracy == pytest.approx(right, abs=6 * sigma / N)
    assert asked[0].active == pytest.approx(0, abs=0.5)  # gradients were full: all have run out
    assert np.all(con.stream.accounts.spent <= con.stream.accounts.budgets)


def test_the_active_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the people have full gradients throughout, the others none."""
    monkeypatch.setattr(sparseq.stream.step, "rounded_gaussian", silent)
    x, y = np.zeros((N, 1)), np.where(np.arange(N) % 4 == 0, 9.0, 0.0)
    linear = ClosedForm(family("linear"), np.arange(N), x, y, bound=1.0)
    linear.right = lambda params, batch: np.ones(len(batch.users))  # type: ignore[attr-defined]
    how = PrivateGD(steps=5, most=9, rate=0.0, checks=2, least_active=0.1, people=N)
    trained = how.fit(store(), linear, run="a")
    asked = [(s.accuracy, s.active) for s in trained.log if s.active is not None]
    assert asked == [(pytest.approx(1), pytest.approx(0.75))] * 2


def test_few_active_people_stop_a_run() -> None:
    how = PrivateGD(steps=5, most=60, clip=0.02, checks=4, least_active=0.5, people=N)
    trained = how.fit(store(kappa=30.0), engine(), run="a")
    assert trained.stopped == "few are active"
    assert len(trained.log) < 60


def test_accuracy_that_does_not_grow_stops_a_run() -> None:
    how = PrivateGD(steps=5, most=50, rate=0.0, checks=6, patience=2, people=N)
    trained = how.fit(store(kappa=30.0), engine(), run="a")
    assert trained.stopped == "training accuracy gets no better"
    assert trained.taken == 5


def test_a_run_is_read_back_free_and_is_the_same() -> None:
    con = store()
    how = PrivateGD(steps=6, most=9, clip=0.5, checks=2, rate=2.0, averaging=0.5)
    first = how.fit(con, engine(), run="a", about="b", epsilon=0.5, delta=1e-5)
    spent, releases = con.stream.accounts.spent.copy(), len(con.releases())
    again = how.fit(con, engine(), run="a", about="b", epsilon=0.5, delta=1e-5)
    assert again.params.tolist() == first.params.tolist()
    assert again.log == first.log
    assert con.stream.accounts.spent.tolist() == spent.tolist()
    assert len(con.releases()) == releases


@pytest.mark.parametrize(
    "other", [{"rate": 1.5}, {"clip": 0.7}, {"momentum": 0.5}, {"steps": 8}, {"rate": lambda t: 2}]
)
def test_another_run_cannot_take_the_name(other: dict[str, Any]) -> None:
    con = store()
    settings: dict[str, Any] = {"steps": 6, "clip": 0.5, "rate": 2.5, "people": N}
    PrivateGD(**settings).fit(con, engine(), run="a")
    with pytest.raises(sparseq.QueryRefused, match=f"'a' was begun with {next(iter(other))} "):
        PrivateGD(**settings | other).fit(con, engine(), run="a")


def test_more_than_the_store_has_is_refused_and_nothing_is_charged() -> None:
    con = store(kappa=0.01)
    with pytest.raises(sparseq.ParameterError, match="kappa"):
        PrivateGD().fit(con, engine(), run="a", epsilon=8.0, delta=1e-5)
    with pytest.raises(sparseq.ParameterError, match="epsilon and delta"):
        PrivateGD().fit(con, engine(), run="a", epsilon=8.0)
    assert len(con.releases()) == 0


def test_reserves_are_not_the_runs() -> None:
    con = store(kappa=1.0, reserves={"forecast": 0.25}, seed=None)
    trained = PrivateGD(steps=4, most=12, clip=0.1).fit(con, engine(), run="a")
    assert trained.kappa == 0.75
    assert con.stream.accounts.spent.max() > 0.98 * con.stream.accounts.budgets[0]


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": 0},
        {"most": 3},
        {"momentum": 1.0},
        {"people": 0.0},
        {"checks": 99},
        {"averaging": -0.1},
        {"clip": 0.0},
        {"clip": 5e-324},
        {"rate": float("nan")},
        {"check_cost": 0.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(sparseq.ParameterError):
        PrivateGD(**bad)


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import test_descent as t, sparseq
con = sparseq.connect({path!r})
def watch(step):
    print(step.step, flush=True)
    if step.step == {last}:
        sys.stdin.read()
t.HOW.fit(con, t.engine(), run="a", watch=watch)
"""
HOW = PrivateGD(steps=12, most=15, clip=0.5, rate=2.0, checks=2, check_cost=0.02)


def test_a_killed_run_goes_on_without_paying_twice(tmp_path: Path) -> None:
    """kill -9 after steps 3 and 9; in the end, what an undisturbed run has, to the last unit."""
    path = tmp_path / "s.sparseq"
    store(path).close()
    for last in (3, 9):
        script = KILLED.format(here=str(Path(__file__).parent), path=str(path), last=last)
        environment = {**os.environ, "PYTHONPATH": str(Path(sparseq.__file__).parents[1])}
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            seen = int(line)
            if seen == last:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert seen == last
        with sparseq.connect(path) as con:
            assert len(con.releases()) == 1 + last  # the count of people, and the steps
    with sparseq.connect(path) as con:
        killed = HOW.fit(con, engine(), run="a")
        spent = con.stream.accounts.spent.tolist()
    undisturbed = store()
    whole = HOW.fit(undisturbed, engine(), run="a")
    assert killed.params.tolist() == whole.params.tolist()
    assert killed.log == whole.log
    assert spent == undisturbed.stream.accounts.spent.tolist()
