"""Our noise and our gate before an auditor that we did not write: dp-recorder.

Source: Cebere et al. (2026), "Privacy in Theory, Bugs in Practice", arXiv 2602.17454, and
https://github.com/ObliviousAI/dp-recorder, which is no package of PyPI: put its `src` and what it
needs on PYTHONPATH. It records every addition of noise in one store, replays the outputs in a
neighbouring one, and fails if anything but the exact sums differs, or if these differ by more than
what is declared. Declared is what the one person has been charged for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparseq
from checks.audit.comparison import UNITS
from checks.audit.seams import Ints, Step, Tape, Watching
from sparseq.accounting import Budget
from sparseq.mechanisms import rounded_gaussian

recorder = pytest.importorskip("dp_recorder.auditing", reason="dp-recorder is not installed")
pytestmark = pytest.mark.deep
WHO = 40
QUESTIONS = (
    "SELECT count(*) AS n FROM t",
    "SELECT sum(amount) AS s FROM t",
    "SELECT page, count(*) AS n, avg(amount) AS m FROM t GROUP BY page",
    "SELECT count(DISTINCT user) AS n FROM t WHERE amount > 5",
    "SELECT count(*) AS n FROM t WHERE page = 'pay'",
    "SELECT count(*) AS n FROM t WHERE page = 'pay'",
    "SELECT sum(n) AS s FROM (SELECT user, count(*) AS n FROM t GROUP BY user) AS q",
)


class RecordedTape(Tape):
    """Every noised vector goes over dp-recorder: drawn when it records, replayed afterwards."""

    def output(self, sums: Sequence[Ints], draw: Callable[[], Sequence[Ints]]) -> list[Ints]:
        """Return what is released, an array for each of the sums."""
        given = iter(())

        def noised(exact: Ints, number: int, length: int, declared: float) -> Ints:
            nonlocal given
            if number == 0:
                given = iter(draw())
            return np.array(next(given))

        over = recorder.audit_spec("noise", "exact", "declared", recorder.dist_l2)(noised)
        return [
            over(exact=np.array(exact), number=k, length=len(exact), declared=0.0)
            for k, exact in enumerate(sums)
        ]


def rows(people: range) -> pa.Table:
    """Rows of some people, the same for each whoever else is there; the last of them is odd."""
    users, pages, amounts = [], [], []
    for user in people:
        own = np.random.default_rng(user)
        for _ in range(9 if user == WHO else int(own.integers(1, 4))):
            users.append(user)
            pages.append(str(own.choice(["home", "cart", "pay"])))
            amounts.append(int(own.integers(0, 10)))
    return pa.table({"user": users, "page": pages, "amount": amounts})


def lives(
    folder: Path, questions: sparseq.Questions
) -> tuple[Any, list[list[Step]], list[str], Budget]:
    """Ask a store without the person and one with: what the auditor kept, steps, and answers."""
    watching, auditor = Watching(), recorder.Auditor()
    steps, shown = [], []
    with watching.entered():
        for number, people in enumerate((range(WHO), range(WHO + 1))):
            store = sparseq.create(
                folder / f"{number}.sparseq",
                {"t": rows(people)},
                user="user",
                bounds={"amount": (0, 9)},
                keys={"page": ["home", "cart", "pay"]},
                purposes=[questions],
            )
            if number:
                auditor.set_replay()
            watching.tape, found, seen = RecordedTape(), [], []
            with store, auditor:
                for question in QUESTIONS:
                    one = watching.seen(store, lambda s, q=question: s.sql(q))
                    found += one.steps
                    seen.append(repr(one.public))
            steps.append(found)
            budget = store.guarantee
            shown.append("\n".join(seen))
    return auditor, steps, shown, budget


def declare(auditor: Any, steps: Sequence[Step], budget: Budget, share: float = 1.0) -> None:
    """Declare of every output, in its lattice steps, what a share of the person's charge pays for.

    A charge of `norm_budget` is worth kappa, and a distance of d sigmas costs d²/2.
    """
    said = [(noise, step.charges.get(WHO, 0)) for step in steps for noise in step.noise]
    for entry, ((_, sigma, granularity), units) in zip(auditor.log, said, strict=True):
        worth = share * units / UNITS * budget.kappa / budget.norm_budget
        entry.sensitivity_val = math.sqrt(2 * worth) * sigma / granularity


@pytest.mark.parametrize("in_or_out", [False, True], ids=["weighted", "in or out"])
def test_nothing_but_what_is_charged_for_differs(tmp_path: Path, in_or_out: bool) -> None:
    auditor, (_, with_), shown, budget = lives(tmp_path, sparseq.Questions(in_or_out=in_or_out))
    assert shown[0] == shown[1]
    declare(auditor, with_, budget)
    auditor.validate_records()
    declare(auditor, with_, budget, 0.9)
    with pytest.raises(AssertionError, match="Dist"):  # it would see a tenth too little
        auditor.validate_records()


def epsilon_of(sigma_drawn: float, sigma: float) -> float:
    """Return what its statistical audit bounds epsilon by, from below, at neighbours 0 and 1."""

    def noised(exact: Any, declared: float) -> Any:
        return exact + rounded_gaussian(sigma_drawn, len(exact)) / sigma

    add = recorder.audit_spec("noise", "exact", "declared", recorder.dist_l2)(noised)
    auditor = recorder.Auditor()
    with auditor:
        add(exact=np.zeros(1), declared=1.0)
        auditor.set_replay()
        add(exact=np.ones(1), declared=1.0)
    auditor.validate_records()
    auditor.run_distributional_audit(n_samples=100_000, alpha=1e-6)
    (entry,) = auditor.log
    return float(entry.empirical_epsilon_lb)


def test_the_noise_is_as_large_as_it_is_said_to_be() -> None:
    """One sigma apart: its threshold shows the epsilon at the delta of the best guess, as it must.

    Of two Gaussians at distance 1 a threshold in the middle has false rates of 0.3085, so that
    log((1 - 0.3085) / 0.3085) = 0.807 is what a perfect audit would show. At three times the
    distance, which is noise of a third, it shows 2.63.
    """
    assert 0.6 < epsilon_of(64.0, 64.0) < 0.82
    assert epsilon_of(64.0 / 3, 64.0) > 2
