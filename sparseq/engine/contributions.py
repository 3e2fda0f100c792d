"""All users' contributions to a query: rows of users, reduced to squared norms and sums."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.positions import combine_positions
from sparseq.engine.reduction import CELL_LIMIT, NORM_LIMIT, Index, Reduction, Runs, reduce
from sparseq.engine.row_mask import RowMask
from sparseq.engine.weighted_reduction import Weigh, Weights, weight_losses
from sparseq.question.plan import Kind, Measure, Plan


@dataclass(frozen=True)
class RowBatch:
    """All rows of some users, in order of user.

    Attributes:
        runs: The rows of each user.
        measures: (coordinate or None, values or None) by row, one pair per measure; see `reduce`.
        mask: The rows that count; every run has at least one. None: all rows count.
        factors: The factor from values of each measure to lattice steps (see `reduce`); empty: the
            values are lattice steps.
    """

    runs: Runs
    measures: list[tuple[Any, Any]]
    mask: RowMask | None = None
    factors: tuple[float, ...] = ()

    def factor(self, i: int) -> float:
        """Return the factor from values of a measure to lattice steps."""
        return self.factors[i] if self.factors else 1


class Contributions:
    """All users' contributions to a query: squared norms, and the sums as a function of the active
    users.

    Args:
        measures: Norms by user and sums over all users, one per measure; or a function that
            computes them at first use.
        pull: Returns sums over some users (ascending), one array per measure.
        weigh: Returns the amounts that weights subtract from the sums; None: users are in or out.
        rereads: True if `pull` reads the rows of all users again.

    Attributes:
        priced: Cache of (users, charges) for the prices of the measures; filled by
            `stream.release_charges`.
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
        """Norms by user and sums over all users, one per measure."""
        if callable(self._measures):
            self._measures = self._measures()
        return self._measures

    def without(self, dropped: Index) -> list[NDArray[np.int64]]:
        """Return the sums over all users except `dropped`: exact, in integers."""
        totals = [m.totals for m in self.measures]
        if len(dropped) == 0:
            return totals
        return [all_ - some for all_, some in zip(totals, self.pull(dropped), strict=True)]

    def weighted(self, weights: Weights) -> list[NDArray[np.int64]]:
        """Return the sums with every user's vector times a weight, each on its finer lattice.

        Args:
            weights: The weights of users whose weight is not 1.
        """
        whole = [m.totals << shift for m, shift in zip(self.measures, weights.shifts, strict=True)]
        if len(weights.users) == 0:
            return whole
        assert self._weigh is not None, "these contributions can't be weighted: users are in or out"
        return [all_ - lost for all_, lost in zip(whole, self._weigh(weights), strict=True)]


def of_batch(plan: Plan, batch: RowBatch) -> Contributions:
    """Return the contributions of rows that are all in memory."""

    def measures() -> list[Reduction]:
        return [reduce_measure(plan, batch, i) for i in range(len(batch.measures))]

    return Contributions(
        measures,
        lambda only: pulled(plan, batch, only),
        lambda weights: losses(plan, batch, weights),
    )


def pulled(plan: Plan, batch: RowBatch, only: Index) -> list[NDArray[np.int64]]:
    """Return the sums over some users' rows, one array per measure."""
    part = replace(batch, runs=batch.runs.only(only))
    return [reduce_measure(plan, part, i).totals for i in range(len(batch.measures))]


def losses(plan: Plan, batch: RowBatch, weights: Weights) -> list[NDArray[np.int64]]:
    """Return the amounts that weights subtract from the sums, one array per measure."""
    runs = batch.runs.only(weights.users)
    return [
        weight_losses(
            runs,
            coordinates,
            values,
            plan.query.groups * measure.bins,
            measure.kind is Kind.USERS,
            weights.of(runs.owners),
            shift,
            batch.mask,
            batch.factor(i),
        )
        for i, (measure, (coordinates, values), shift) in enumerate(
            zip(plan.query.measures, batch.measures, weights.shifts, strict=True)
        )
    ]


def coordinates_of(
    plan: Plan, i: int, groups: NDArray[Any] | None, bins: NDArray[Any] | None
) -> NDArray[Any] | None:
    """Return each row's coordinate of one measure; None if there is only one.

    Args:
        i: The place of the measure.
        groups, bins: The place of each row's group, and bin; -1: none; None: all rows have one.
    """
    if bins is None or groups is None:
        return groups if bins is None else bins
    return combine_positions([groups, bins], [plan.query.groups, plan.query.measures[i].bins])


def lattice(measure: Measure, granularity: float) -> float:
    """Return the lattice step for reading a measure: 1 for USERS, otherwise the granularity."""
    return 1.0 if measure.kind is Kind.USERS else granularity


def reduce_measure(plan: Plan, batch: RowBatch, i: int) -> Reduction:
    """Reduce one measure of a batch."""
    measure, (coordinates, values) = plan.query.measures[i], batch.measures[i]
    size, distinct = plan.query.groups * measure.bins, measure.kind is Kind.USERS
    factor = batch.factor(i)
    reduced = reduce(batch.runs, coordinates, values, size, distinct, batch.mask, factor)
    steps = round(1 / plan.noise[i].granularity) if plan.noise[i].granularity < 1 else 1
    if distinct and steps > 1:  # the number of lattice steps of 1 user
        # beyond the limit, no user can pay, and the sums are empty
        steps = min(steps, CELL_LIMIT + 1)
        most = NORM_LIMIT // steps**2
        norms = np.where(
            reduced.norms > most, NORM_LIMIT, np.minimum(reduced.norms, most) * steps**2
        )
        return Reduction(reduced.users, norms, reduced.totals * steps)
    return reduced
