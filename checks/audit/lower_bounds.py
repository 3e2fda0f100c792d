"""Lower bounds on epsilon from answers: counts, group-bys, quantiles, watch and training steps.

Each run is an answer of a store without the person, or with; real noise, no seed. The promise is
the person's charge for an answer: rho = charge / norm_budget · kappa, mu = sqrt(2 rho). A store
admits some 2,000 answers of mu = 1 (kappa is at most 1,024), so there are several stores a side.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import sparseq
from checks.audit import planted
from checks.audit.betting import Bet, Floats, LowerBound, bet, lower_bound
from sparseq.accounting import gdp
from sparseq.ledger.pots import Pot
from sparseq.question.plan import Options
from sparseq.series.watch_design import WatchDesign
from sparseq.series.watch_state import WatchState
from sparseq.store.curator import account
from sparseq.store.store import Store
from sparseq.stream.batches import Request
from sparseq.training import ClosedForm, family, noised_gradient

RUNS = 20_000
A_STORE = 1_800
DELTA = 1e-5
PERSON = 5
_KAPPA, _NORM = 1024.0, 2.0**20


@dataclass(frozen=True)
class AuditResult:
    """One kind of answer, promised and shown."""

    name: str
    promise_mu: float
    promise_epsilon: float
    shown: LowerBound
    bet: Bet

    @property
    def kept(self) -> bool:
        """Nothing shows that the promise is broken."""
        return self.shown.mu <= self.promise_mu and self.bet.pairs is None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "promise_mu": round(self.promise_mu, 4),
            "promise_epsilon": round(self.promise_epsilon, 4),
            "delta": DELTA,
            "lower_bound": {k: round(v, 4) for k, v in asdict(self.shown).items()},
            "confidence": 0.99,
            "e_value": round(self.bet.wealth, 3),
            "found_after": self.bet.pairs,
            "kept": self.kept,
        }


def _store(with_: bool, reserves: dict[str, float] | None = None) -> Store:
    """Return a small crowd, with the person or without; the person's norm is 1 in each question."""
    who = [*range(PERSON), *[PERSON] * with_]
    x = [0.5, 3.5, 0.5, 3.5, 0.5, *[3.5] * with_]
    rows = pa.table({"who": pa.array(who, pa.int64()), "x": pa.array(x, pa.float64())})
    return sparseq.create(
        None,
        {"t": rows},
        user="who",
        kappa=_KAPPA,
        purposes=[sparseq.Questions(in_or_out=True, counts=_NORM, **reserves or {})],
    )


def _sql(text: str, sigma: float = 1.0) -> Callable[[bool, int], tuple[Floats, float]]:
    def run(with_: bool, runs: int) -> tuple[Floats, float]:
        with _store(with_) as store:
            query = store.lower(text)
            asked = [Request(query, Options(sigma=sigma), fresh=True)] * runs
            rows = []
            for outcome in store.ask_many(asked):
                assert outcome.answer is not None
                table = outcome.answer.arrow()
                rows.append(
                    [
                        v
                        for c in table.column_names
                        if c[0] == "a" and "_" not in c
                        for v in table[c].to_pylist()
                    ]
                )
            return np.array(rows, np.float64), _paid(store, runs) if with_ else 0.0

    return run


def _paid(store: Store, runs: int) -> float:
    """Return the squared norm that the person has paid for an answer."""
    return account(store, str(PERSON)).spent / runs


def _watch(with_: bool, runs: int) -> tuple[Floats, float]:
    """The watch's node, in which the person is first left out, at the noise of mu = 1."""
    with _store(with_, {"watch": 0.9}) as store:
        units = int(store.stream.pots[Pot.WATCH].budgets[0])
        design = WatchDesign.fitting(store.guarantee, 31, [], units)
        left_out = np.arange(3, 5 + with_, dtype=np.int32)
        nobody = np.zeros(0, np.int32)
        answers = [
            store.step(
                design.node_query(1, str(i)),
                lambda plan: WatchState.ones(plan, left_out, nobody),
                Options(sigma=1.0),
                pot=Pot.WATCH,
            )
            for i in range(runs)
        ]
        values = np.array([[a.rows()[0]["left_out"]] for a in answers])
        return values, _paid(store, runs) if with_ else 0.0


def _training(with_: bool, runs: int) -> tuple[Floats, float]:
    """A step of training, in which the person's gradient has the norm that gradients are cut to."""
    with _store(with_) as store:
        people = store.stream.people.inside()
        users = np.arange(people, dtype=np.int32)
        features = np.tile([[0.25, -0.5]], (people, 1))
        features[5:] = [[0.9, 0.4]]
        target = np.where(users < 5, 0.1, 50.0)
        engine = ClosedForm(family("linear", 2), users, features, target, bound=1.0)
        steps = [
            noised_gradient(
                store, engine, np.zeros(engine.coordinates), label=f"step {i}", clip=1.0, sigma=1.0
            )
            for i in range(runs)
        ]
        return np.array(steps), _paid(store, runs) if with_ else 0.0


QUESTIONS: dict[str, Callable[[bool, int], tuple[Floats, float]]] = {
    "count": _sql("SELECT count(*) AS a0 FROM t"),
    "group by": _sql(
        "SELECT CASE WHEN x < 1 THEN 'low' WHEN x < 2 THEN 'mid' ELSE 'high' END AS g, "
        "count(*) AS a0 FROM t GROUP BY g"
    ),
    "quantile": _sql("SELECT quantile(x, 0.5, [0, 1, 2, 3, 4]) AS a0 FROM t"),
    "watch": _watch,
    "training": _training,
}


def answers(name: str, runs: int) -> tuple[Floats, Floats, float]:
    """Return answers without and with the person, (runs, values), and mu promised of each."""
    sides: list[list[Floats]] = [[], []]
    paid = 0.0
    for start in range(0, runs, A_STORE):
        for side in (0, 1):
            values, spent = QUESTIONS[name](bool(side), min(A_STORE, runs - start))
            sides[side].append(values)
            paid = max(paid, spent)
        if sys.stderr.isatty():
            print(f"\r{name}: {start:,} of {runs:,} runs a side ", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    without, with_ = (np.concatenate(side) for side in sides)
    return without, with_, math.sqrt(2 * paid / _NORM * _KAPPA)


def audited(name: str, runs: int = RUNS) -> AuditResult:
    """Return the bounds from answers of one kind, and the promise."""
    without, with_, mu = answers(name, runs)
    epsilon = gdp.epsilon(DELTA, mu)
    return AuditResult(
        name, mu, epsilon, lower_bound(without, with_, DELTA), bet(without, with_, mu)
    )


FAULTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "none": nullcontext,
    "noise 10 % too small": planted.noise_too_small,
    "charges 10 % too small": planted.charges_too_small,
    "a factor 2 in a charge": planted.factor_two,
}


def found_after(fault: str, runs: int = RUNS) -> Bet:
    """Return after how many pairs of counts the sequential test finds a planted fault."""
    with FAULTS[fault]():
        without, with_, mu = answers("count", runs)
    return bet(without, with_, mu)


def every(runs: int = RUNS) -> Iterator[AuditResult]:
    """Yield what each kind of answer shows."""
    return (audited(name, runs) for name in QUESTIONS)
