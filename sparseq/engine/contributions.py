"""Contributions of everybody to a query: rows of users, reduced to squared norms and sums."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.columns import combine_positions
from sparseq.engine.reduce import (
    CELL_LIMIT,
    NORM_LIMIT,
    Index,
    Reduction,
    Runs,
    reduce,
)
from sparseq.engine.row_weights import Weigh, Weights, weight_losses
from sparseq.sql.plan import Kind, Measure, Plan


@dataclass(frozen=True)
class RowBatch:
    """All rows of some users, in order of user.

    Attributes:
        runs: Where each user's rows lie.
        groups: Place in the groups, by row, -1 for none; None if there is one group.
        measures: (bin or None, lattice values or None) by row, one pair a measure; -1 is no bin.
    """

    runs: Runs
    groups: NDArray[Any] | None
    measures: list[tuple[Any, Any]]


class Contributions:
    """What a query asks of everybody: squared norms, and the sums as a function of who is in.

    Args:
        measures: Norms by user and sums over all users, one a measure; or what makes them, when
            they are first asked for.
        pull: Sums over some users (ascending), one array a measure.
        weigh: What weights take from the sums; None: who contributes is in or out.
        rereads: `pull` reads the rows of everybody again.

    Attributes:
        priced: What it costs whom, by the prices of the measures; kept by `pricing.price`.
    """

    def __init__(
        self,
        measures: list[Reduction] | Callable[[], list[Reduction]],
        pull: Callable[[Index], list[NDArray[np.int64]]],
        weigh: Weigh | None = None,
        rereads: bool = False,
    ) -> None:
        self.rereads = rereads
        self._measures = measures
        self._weigh = weigh
        self.pull = pull
        self.priced: dict[Hashable, tuple[Index, NDArray[np.int64]]] = {}

    @property
    def measures(self) -> list[Reduction]:
        """Norms by user and sums over all users, one a measure."""
        if callable(self._measures):
            self._measures = self._measures()
        return self._measures

    def without(self, dropped: Index) -> list[NDArray[np.int64]]:
        """Return the sums over everybody but `dropped`: exact, as all numbers are integers."""
        totals = [m.totals for m in self.measures]
        if len(dropped) == 0:
            return totals
        return [all_ - some for all_, some in zip(totals, self.pull(dropped), strict=True)]

    def weighted(self, weights: Weights) -> list[NDArray[np.int64]]:
        """Return the sums with everybody's vector times a weight, each on its finer lattice.

        Args:
            weights: Of those whose weight is not 1.
        """
        whole = [m.totals << shift for m, shift in zip(self.measures, weights.shifts, strict=True)]
        if len(weights.users) == 0:
            return whole
        assert self._weigh is not None, "these contributions are in or out"
        return [all_ - lost for all_, lost in zip(whole, self._weigh(weights), strict=True)]


def of_batch(plan: Plan, batch: RowBatch) -> Contributions:
    """Return the contributions of rows that are all at hand."""

    def measures() -> list[Reduction]:
        return [reduce_measure(plan, batch, i) for i in range(len(batch.measures))]

    return Contributions(
        measures,
        lambda only: pulled(plan, batch, only),
        lambda weights: losses(plan, batch, weights),
    )


def pulled(plan: Plan, batch: RowBatch, only: Index) -> list[NDArray[np.int64]]:
    """Return the sums over some users' rows, one array a measure."""
    part = replace(batch, runs=batch.runs.only(only))
    return [reduce_measure(plan, part, i).totals for i in range(len(batch.measures))]


def losses(plan: Plan, batch: RowBatch, weights: Weights) -> list[NDArray[np.int64]]:
    """Return what weights take from the sums, one array a measure."""
    runs = batch.runs.only(weights.users)
    return [
        weight_losses(
            runs,
            _coordinates(plan, batch, i),
            values,
            plan.query.groups * measure.bins,
            measure.kind is Kind.USERS,
            weights.of(runs.owners),
            shift,
        )
        for i, (measure, (_, values), shift) in enumerate(
            zip(plan.query.measures, batch.measures, weights.shifts, strict=True)
        )
    ]


def _coordinates(plan: Plan, batch: RowBatch, i: int) -> NDArray[Any] | None:
    """Return each row's coordinate of one measure; None if there is but one."""
    bins = batch.measures[i][0]
    if bins is None or batch.groups is None:
        return batch.groups if bins is None else bins
    return combine_positions([batch.groups, bins], [plan.query.groups, plan.query.measures[i].bins])


def lattice(measure: Measure, granularity: float) -> float:
    """USERS is counted in ones first; everything else goes on its lattice at once."""
    return 1.0 if measure.kind is Kind.USERS else granularity


def reduce_measure(
    plan: Plan, batch: RowBatch, i: int, norms: NDArray[np.int64] | None = None
) -> Reduction:
    """Reduce one measure of a batch; `norms`: see `reduce`."""
    measure, values = plan.query.measures[i], batch.measures[i][1]
    size, distinct = plan.query.groups * measure.bins, measure.kind is Kind.USERS
    reduced = reduce(batch.runs, _coordinates(plan, batch, i), values, size, distinct, norms)
    steps = round(1 / plan.noise[i].granularity) if plan.noise[i].granularity < 1 else 1
    if distinct and steps > 1:  # 1 user is that many lattice steps
        steps = min(steps, CELL_LIMIT + 1)  # beyond, nobody can pay, and the sums are of nobody
        most = NORM_LIMIT // steps**2
        norms = np.where(
            reduced.norms > most, NORM_LIMIT, np.minimum(reduced.norms, most) * steps**2
        )
        return Reduction(reduced.users, norms, reduced.totals * steps)
    return reduced
