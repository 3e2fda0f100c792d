"""Exact facts about a training run, for the curator only: active users by step, and spending.

Figure 1 of Feldman & Zrnic (2021) for a run in a store's journal. Nothing here is noised and
nothing is charged: never show it to an analyst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import StoreError
from sparseq.store.store import Store
from sparseq.training.descent import EXHAUSTED, PrivateGD, TrainingResult
from sparseq.training.protocol import Floats
from sparseq.training.query import step_request
from sparseq.training.training_cost import Spending


@dataclass(frozen=True)
class Report:
    """Exact facts about one run. Private.

    Attributes:
        active: After each step, the number of people able to pay for more than a hundredth of
            a full gradient.
        spent: Spending of each person in the run, as a share of the run's budget.
        steps: k, until which nobody can run out.
        checks: (step, noised training accuracy or loss) of the checks; these are public.
        checked: Kind of the checks.
        check_error: 95 % half-width of each, from the noise alone.
    """

    active: NDArray[np.int64]
    spent: Floats
    steps: int
    checks: tuple[tuple[int, float], ...]
    checked: Literal["accuracy", "loss"]
    check_error: float


def report_of(store: Store, how: PrivateGD, run: str, trained: TrainingResult) -> Report:
    """Return the exact facts about a run. Private.

    Raises:
        StoreError: The store has no such run.
    """
    released = store.requests_of(range(1, store.released + 1))
    ids = {request: number for number, request in released.items()}

    def paid(what: str) -> bool:
        number = ids.get(step_request(run, what))
        if number is not None:
            spending.paid(number)
        return number is not None

    if step_request(run, "1") not in ids:
        raise StoreError(f"there is no run {run!r}", "`sparseq history` lists the releases")
    spending = Spending(store, trained.kappa)
    everybody = np.arange(store.stream.people.for_curator(), dtype=np.int32)
    full = (1 - how.questions) / how.steps
    active, kept_back = [], how.checks * how.check_cost * (2 if how.least_active > 0 else 1)
    kept_back += how.stop_cost if how.stop_active else 0.0
    paid("people")
    for step in (s.step for s in trained.log):
        paid(f"{step}")
        left = spending.left_in_run(everybody, kept_back + EXHAUSTED * full)
        active.append(int(np.count_nonzero(left > 0)))
        for what in ("active", "right", "loss"):
            if paid(f"{step} {what}"):
                kept_back = max(kept_back - how.check_cost, 0.0)
        paid(f"{step} few")
    return Report(
        np.array(active),
        spending.share(),
        how.steps,
        tuple((s.step, v) for s in trained.log for v in (s.accuracy, s.loss) if v is not None),
        "loss" if how.loss else "accuracy",
        trained.check_error,
    )
