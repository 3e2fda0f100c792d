"""The sparse vector that stops a run: its price, its rate of wrong alarms, its secret kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.accounting import Budget
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.training import ClosedForm, PrivateGD, family
from sparseq.training.alarm import FewActive
from sparseq.training.training_cost import Spending

N = 400
FULL = 0.4  # of the people: as many have full gradients


def store(path: Path | None = None, seed: int | None = 3, n: int = N) -> sparseq.Store:
    return sparseq.create(
        path,
        {"t": pa.table({"who": np.arange(n)})},
        user="who",
        kappa=30.0,
        seed=seed,
        purposes=[sparseq.Questions(counts=10, watch=0.05)],
    )


def engine() -> ClosedForm:
    """FULL of the people have gradients of norm C at every step, the others a tenth of that."""
    y = np.where(np.arange(N) < FULL * N, 9.0, 0.1)
    return ClosedForm(family("linear"), np.arange(N), np.zeros((N, 1)), y, bound=1.0)


HOW = PrivateGD(steps=5, most=9, rate=0.0, people=N, stop_active=0.8, stop_cost=0.05)


def test_a_run_stops_when_people_have_run_out_and_only_they_pay_once() -> None:
    con = store(seed=None)
    trained = HOW.fit(con, engine(), run="a")
    assert trained.stopped == "few are active"
    assert len(trained.log) in (5, 6)
    alarms = [r for r in con.releases() if " few: " in r.query]
    paid = np.zeros(N, np.int64)
    for release in alarms:
        users, charges = con.stream.ledger.charges(release.id)
        paid[users] += charges
    some = paid[: int(FULL * N)]
    assert not paid[int(FULL * N) :].any()
    assert set(some.tolist()) <= {0, int(some.max())}  # once
    assert np.count_nonzero(some) > 0.9 * FULL * N
    budget = 10 * UNITS_PER_NORM * 0.95  # the part that is not the watch's
    assert some.max() == pytest.approx(0.05 * budget, rel=2e-3)  # the price, to 11 bits
    scale = alarms[0].sigma[0]
    assert some.max() / UNITS_PER_NORM / 10 * 30.0 >= 1 / (2 * scale**2)
    assert np.all(con.stream.accounts.spent <= con.stream.accounts.budgets)


def test_a_run_goes_on_while_enough_are_active() -> None:
    how = PrivateGD(steps=5, most=9, rate=0.0, people=N, stop_active=0.3, stop_cost=0.05)
    trained = how.fit(store(), engine(), run="a")
    assert (trained.stopped, len(trained.log)) == ("all steps are done", 9)


def few(con: sparseq.Store, run: int, out: int) -> FewActive:
    """An alarm of scale b = 11.6 about half of N people, of whom the last `out` have run out."""
    return FewActive(
        Spending(con, 28.0),
        f"r{run}",
        "train r",
        np.arange(N, dtype=np.int32),
        0.5,
        float(N),
        0.000133,
        3,
        lambda users: users < N - out,
    )


@pytest.mark.parametrize(("away", "low", "high"), one_in(2, [(0, 0.35, 0.67), (12, 0.13, 0.41)]))
def test_its_noise_is_that_of_the_price(away: int, low: float, high: float) -> None:
    """One comparison, x scales below the limit, fires with chance (2 + x) e^-x / 4: .51, .27.

    150 runs: a rate of sd 0.041 and 0.036; the bounds are 4 of them.
    """
    with store() as con:
        alarms = [few(con, run, N // 2 + 1 - away) for run in range(150)]
        assert alarms[0].limit == N // 2 + 1
        assert alarms[0].spending.sigma(1.0, 0.000133) == pytest.approx(11.6, abs=0.05)
        assert low < np.mean([alarm.fired(1) for alarm in alarms]) < high


def test_wrong_alarms_are_as_rare_as_stated() -> None:
    """Of 75 runs of 3 comparisons, farther from the limit than the ± in the history: 5 % wrong.

    At that rate 12 are 4 standard deviations above the mean.
    """
    wrong = 0
    with store() as con:
        few(con, 999, 0).fired(1)
        away = int(np.ceil(con.releases()[0].bound[0]))
        assert away < N // 2
        for run in range(75):
            above = run % 2 == 1
            alarm = few(con, run, N // 2 + 1 + (away if above else -away))
            wrong += not alarm.fired(1) if above else any(alarm.fired(t) for t in (1, 2, 3))
    assert wrong <= 12


def test_a_restart_neither_draws_anew_nor_pays_twice(tmp_path: Path) -> None:
    """Stopped after two comparisons; in the end there is one z, and nobody has paid it twice."""
    how = PrivateGD(steps=5, most=9, rate=0.0, people=N, stop_active=0.3, stop_cost=0.05)

    class Killed(Exception):
        pass

    def watch(step: Any) -> None:
        if step.step == 7:
            raise Killed

    path = tmp_path / "s.sparseq"
    with store(path, seed=None) as con, pytest.raises(Killed):
        how.fit(con, engine(), run="a", watch=watch)
    with sparseq.connect(path) as con:
        spent = con.stream.accounts.spent.copy()
        trained = how.fit(con, engine(), run="a")
        rows = con.backend.database.execute(
            "SELECT noise, counted FROM ledger.stop ORDER BY 1"
        ).fetchall()
        assert len({noise for noise, _ in rows}) == 1
        assert len(rows) == 4
        assert np.all(con.stream.accounts.spent >= spent)
        assert [s.step for s in trained.log] == list(range(1, 10))
        alarms = [r.id for r in con.releases() if " few: " in r.query]
        paid = np.zeros(N, np.int64)
        for release in alarms:
            users, charges = con.stream.ledger.charges(release)
            paid[users] += charges > 0
        assert set(paid.tolist()) == {0, 1}
        after, again = con.stream.accounts.spent.tolist(), how.fit(con, engine(), run="a")
        assert again.log == trained.log
        assert con.stream.accounts.spent.tolist() == after


def test_only_zcdp_is_claimed() -> None:
    """A store that claims mu-GDP refuses; a run's epsilon is that of zCDP, and larger."""
    people = pa.table({"who": np.arange(N)})
    con = sparseq.create(
        None,
        {"t": people},
        user="who",
        kappa=30.0,
        purposes=[sparseq.Questions(counts=10)],
    )
    with pytest.raises(sparseq.ParameterError, match="watch"):
        HOW.fit(con, engine(), run="a")
    assert len(con.releases()) == 0
    trained = HOW.fit(store(), engine(), run="a", epsilon=3.0, delta=1e-5)
    assert not trained.gaussian
    assert trained.kappa == Budget.from_epsilon_delta(3.0, 1e-5, 1.0, gaussian=False).kappa
    assert trained.kappa < Budget.from_epsilon_delta(3.0, 1e-5, 1.0).kappa


@pytest.mark.parametrize(
    "bad", [{"stop_active": 1.0}, {"stop_active": -0.1}, {"stop_cost": 0.0}, {"most": None}]
)
def test_settings_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(sparseq.ParameterError):
        PrivateGD(**{"steps": 5, "most": 9, "stop_active": 0.5} | bad)
