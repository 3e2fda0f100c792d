"""An alarm for runs with few active people: a sparse vector after every step, which stops a run.

Feldman & Zrnic (2021), section 5: "if one only wants to ensure that the size of the active set
exceeds a fixed threshold, one can use the sparse vector technique". The count includes the users
whose account has run out in the run; each enters it once and for good, at a step that follows from
the user's own gradients and past releases. So each user is charged 1/(2b²) of zCDP on entry, and a
user who stays active is charged nothing, whatever the number of steps (docs/theorems/watch.md).

The noise is not Gaussian. Only a store that claims zCDP alone may use it: a store with a watch.

z, the count and its members are private: z and the count are in `ledger.stop`, written with their
    release; the members are the users who were charged. A restart does not draw z again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sparseq.accounting.charge import round_up
from sparseq.base.errors import ParameterError
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import Index, Reduction
from sparseq.ledger.notes import NoteRows, NoteTable
from sparseq.question.plan import Kind, Measure, Options, Plan, Query, Relation
from sparseq.released.outputs import OutputColumn, Outputs
from sparseq.store.store import Store
from sparseq.stream.comparison import Comparison
from sparseq.stream.participation import Participation
from sparseq.training.query import step_request
from sparseq.training.training_cost import Spending

_STOP = NoteTable(
    "stop", {"release_id": "BIGINT", "run": "VARCHAR", "noise": "BIGINT", "counted": "BIGINT"}
)


@dataclass
class FewActive:
    """One run of the sparse vector.

    Attributes:
        spending: Accounts of the training run.
        run: Name of the run.
        label: Prefix of its texts in the history.
        users: Users who could be in the count: the engine's, ascending.
        threshold: Share of people below which the alarm fires.
        people: Number of people, public.
        cost: Charge to a user who enters, as a share of the training run.
        comparisons: Largest number of comparisons; the stated error covers all comparisons.
        active: Mask of the users able to pay. Private.
    """

    spending: Spending
    run: str
    label: str
    users: Index
    threshold: float
    people: float
    cost: float
    comparisons: int
    active: Callable[[Index], np.typing.NDArray[np.bool_]]
    _entered: np.typing.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        check_zcdp(self.spending.store)
        self._entered = np.zeros(self.spending.store.stream.people.inside(), np.bool_)

    @property
    def limit(self) -> int:
        """Number of people who must have run out for the alarm: public."""
        return max(math.floor((1 - Fraction(self.threshold)) * Fraction(self.people)) + 1, 1)

    def fired(self, step: int) -> bool:
        """Compare after a step of the training run, or read the comparison from the journal."""
        store, before = self.spending.store, self._state()
        compare = Comparison(self.limit, *before)

        def state(gated: Participation) -> list[NoteRows]:
            after = {"noise": compare.noise, "counted": compare.counted}
            return [_STOP.rows(release_id=gated.release, run=self.run, **after)]

        answer = store.step(
            self._query(step),
            lambda plan: self._entering(plan),
            Options(sigma=self.spending.sigma(1.0, self.cost)),
            step_request(self.run, f"{step} few"),
            pot=self.spending.pot,
            gated=state,
            mechanism=compare,
        )
        payers, charges = store.stream.ledger.charges(answer.facts.release)
        self._entered[payers[charges > 0]] = True
        self.spending.paid(answer.facts.release)
        (row,) = answer.rows()
        return bool(row["few"])

    def _entering(self, plan: Plan) -> Contributions:
        """Return a 1 for each user without budget who is not counted yet, and can pay for it."""
        one = round(1 / plan.noise[0].granularity)
        price = int(round_up(plan.noise[0].price.charge(np.array([one**2])))[0])
        out = self.users[~self._entered[self.users]]
        out = out[~self.active(out)]
        out = out[self.spending.left(out) >= price]
        ones = Reduction(out, np.full(len(out), one**2, np.int64), np.array([one * len(out)]))
        return Contributions([ones], lambda only: [np.array([one * np.isin(out, only).sum()])])

    def _query(self, step: int) -> Query:
        compared = Measure(Kind.USERS, None, "few")
        few = OutputColumn("few", lambda noised: noised.measures[0][:, 0] > 0)
        text = f"{self.label}: {step} few: are fewer than {100 * self.threshold:g} % active?"
        return Query(
            text,
            Relation("FROM ledger"),
            (),
            (compared,),
            Outputs((few,)),
            comparisons=self.comparisons,
        )

    def _state(self) -> tuple[int | None, int]:
        """Return z and the count of this run so far: private."""
        store = self.spending.store
        with store.stream.held():
            rows = store.stream.ledger.notes(_STOP, run=self.run).sort_by("release_id").to_pylist()
        return (rows[-1]["noise"], rows[-1]["counted"]) if rows else (None, 0)


def check_zcdp(store: Store) -> None:
    """Refuse a store that claims more than zCDP.

    Raises:
        ParameterError: Its promise holds for Gaussian noise alone.
    """
    if store.guarantee.gaussian:
        raise ParameterError(
            "this store promises epsilon for Gaussian noise; a sparse vector has Laplace noise",
            "make the store with a watch (sparseq create … --for questions,watch=5%), which claims "
            "zCDP only; or ask with checks and least_active",
        )
