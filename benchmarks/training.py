"""The cost of a private gradient against the same gradient without privacy: `make bench`.

    python -m benchmarks.training

Logistic regression on 32,561 records of 100 features (99 and the intercept), one per person, in
float64, NumPy's default. *Plain* is mean minus target at X @ w, and its product with X: two passes
over the features. *Private* is the whole computation of a step: norms, weights from everybody's
account, the clipped sum on the lattice, everybody's charge, the filter, exact noise; it is one
pass, its rows are integers, half as long in memory as a float64, and it uses as many threads as
BLAS has on two cores. *Read* is a lower bound: the same rows added up by the same two threads, and
no more. *On a store* is the step with its release and charges committed: in memory, and durably on
disk.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sparseq
from sparseq.compiled import compiled, halves
from sparseq.mechanisms import rounded_gaussian
from sparseq.question.plan import Options, calibrate
from sparseq.stream.release_charges import Bill, admit
from sparseq.training import ClosedForm, family, noised_gradient
from sparseq.training.query import Gradients, gradient_query

PEOPLE, FEATURES = 32_561, 100
TURNS, CALLS, SETTLED = 9, 5, 0.05
MOST_RATIO = 1.3


def run() -> list[dict[str, Any]]:
    """The ratio, which is a gate, and times, which are information."""
    x, y, engine, params = problem()
    with tempfile.TemporaryDirectory() as folder:
        stores = [store(None), store(Path(folder) / "s.sparseq")]
        steps = [plain_step(x, y, params), private_step(stores[0], engine, params), read(engine)]
        plain, private, floor = medians(steps)
        committed = medians([store_step(s, engine, params) for s in stores], TURNS // 4)
        for one in stores:
            one.close()
    ratio = private / plain
    return [
        {
            "name": "training.logistic_vs_numpy",
            "figure": round(ratio, 2),
            "unit": "times the plain gradient's time",
            "limit": f"<= {MOST_RATIO}",
            "ok": ratio <= MOST_RATIO,
        },
        *(
            {
                "name": f"training.{name}",
                "figure": round(1e3 * t, 2),
                "unit": "ms a step",
                "limit": None,
                "ok": True,
            }
            for name, t in [
                ("plain", plain),
                ("private", private),
                ("read", floor),
                ("on_a_store_in_memory", committed[0]),
                ("on_a_store_on_disk", committed[1]),
            ]
        ),
    ]


def problem() -> tuple[Any, Any, ClosedForm, Any]:
    """Return features, targets, the engine that has them, and parameters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (PEOPLE, FEATURES - 1))
    y = (rng.random(PEOPLE) < 0.5).astype(np.float64)
    params = rng.normal(size=FEATURES) / 10
    compiled()  # as `PrivateGD` has it, for so many people and steps
    return x, y, ClosedForm(family("logistic"), np.arange(PEOPLE), x, y, bound=1.0), params


def store(path: Path | None) -> sparseq.Store:
    people = pa.table({"who": np.arange(PEOPLE)})
    return sparseq.create(
        path,
        {"t": people},
        user="who",
        kappa=0.5,
        purposes=[sparseq.Questions(in_or_out=True, counts=1000)],
    )


def plain_step(x: Any, y: Any, params: Any) -> Callable[[], Any]:
    """The gradient step as one would write it."""
    full = np.hstack([x, np.ones((PEOPLE, 1))])

    def step() -> Any:
        residual = 1 / (1 + np.exp(-(full @ params))) - y
        return params - 0.1 * (full.T @ residual) / PEOPLE

    return step


def private_step(con: sparseq.Store, engine: ClosedForm, params: Any) -> Callable[[], Any]:
    """Everything but the commit."""
    plan = calibrate(gradient_query(FEATURES, "step", 1.0), con.guarantee, Options())
    accounts = con.stream.accounts

    def step() -> Any:
        contributions = Gradients(engine, params, 1.0, accounts.left).contributions(plan)
        bill = Bill(accounts)
        (sums,) = admit(plan, contributions, bill).sums
        bill.paid()
        noise = rounded_gaussian(plan.noise[0].lattice_sigma, FEATURES)
        gradient = (sums + noise) * plan.noise[0].granularity
        return params - 0.1 * gradient / PEOPLE

    return step


def store_step(con: sparseq.Store, engine: ClosedForm, params: Any) -> Callable[[], Any]:
    """One step of the stream."""
    return lambda: noised_gradient(con, engine, params, label="step", clip=1.0)


def read(engine: ClosedForm) -> Callable[[], Any]:
    """Read the features once, in two threads."""
    (batch,) = engine.batches()
    cells = batch.x.reshape(-1).view(np.int64)
    return lambda: halves(len(cells), lambda part: cells[part].sum())


def medians(steps: list[Callable[[], Any]], turns: int = TURNS) -> list[float]:
    """Return the median seconds of each, measured in turns of a few calls.

    Earlier calls leave threads (of BLAS, of OpenMP) that spin for a while, waiting for work: a turn
    starts with calls that do not count, until they sleep, and each step is alone.
    """
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(turns):
        for step, taken in zip(steps, times, strict=True):
            _repeat(step, SETTLED)
            taken += [_seconds(step) for _ in range(CALLS)]
    return [statistics.median(taken) for taken in times]


def _repeat(step: Callable[[], Any], seconds: float) -> None:
    stop = time.perf_counter() + seconds
    step()
    while time.perf_counter() < stop:
        step()


def _seconds(step: Callable[[], Any]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


if __name__ == "__main__":
    for figure in run():
        print(
            f"{figure['name']:<32} {figure['figure']:>8} {figure['unit']} {figure['limit'] or ''}"
        )
