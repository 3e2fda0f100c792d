"""Contributions to a one-measure plan, cell by cell: (user, coordinate, value), exact integers.

`Engine.contributions` adds rows up immediately and keeps no cell. Use `Engine.cells`, and reduce
its cells, if the contributions of each user must be kept or if users are dropped before they are
charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.contributions import Contributions, RowBatch
from sparseq.engine.reduction import (
    CELL_LIMIT,
    Index,
    Ints,
    Reduction,
    Runs,
    reduce_numpy,
    sum_of_squares,
)
from sparseq.engine.weighted_reduction import Weights, weight_losses
from sparseq.question.plan import Kind, Plan


@dataclass(frozen=True)
class Cells:
    """The nonzero entries of the sparse matrix of contributions, by user and coordinate.

    Attributes:
        users: int32, ascending.
        coordinates: int32, ascending within a user.
        values: int64, in lattice steps; saturated at ±2^31, whose charge exceeds any budget.
    """

    users: Index
    coordinates: Index
    values: Ints

    def where(self, keep: NDArray[np.bool_]) -> Cells:
        """Return some of the cells."""
        return Cells(self.users[keep], self.coordinates[keep], self.values[keep])


def cells_of(plan: Plan, batches: Iterable[RowBatch]) -> Cells:
    """Return the cells of a plan with one measure, from its rows in ascending ranges of users."""
    parts = [_cells(plan, batch) for batch in batches]
    return Cells(
        np.concatenate([p.users for p in parts]),
        np.concatenate([p.coordinates for p in parts]),
        np.concatenate([p.values for p in parts]),
    )


def contributions_from(cells: Cells, size: int) -> Contributions:
    """Return the contributions that cells represent."""
    runs = Runs.of(cells.users)

    def reduced(some: Runs) -> Reduction:
        return reduce_numpy(some, cells.coordinates, cells.values, size, distinct=False)

    def lost(weights: Weights) -> list[Ints]:
        some, (shift,) = runs.only(weights.users), weights.shifts
        own = weights.of(some.owners)
        return [weight_losses(some, cells.coordinates, cells.values, size, False, own, shift)]

    return Contributions([reduced(runs)], lambda only: [reduced(runs.only(only)).totals], lost)


def with_total(cells: Cells, size: int) -> Cells:
    """Return cells with one more coordinate, `size`: the sum of each user's other cells.

    Example:
        >>> some = Cells(*(np.array(x, np.int32) for x in ([0, 0, 2], [0, 1, 1])), np.arange(3) + 5)
        >>> found = with_total(some, 2)
        >>> [part.tolist() for part in (found.users, found.coordinates, found.values)]
        [[0, 0, 0, 2, 2], [0, 1, 2, 1, 2], [5, 6, 11, 7, 7]]
    """
    if not len(cells.users):
        return cells
    first = np.flatnonzero(np.diff(cells.users, prepend=-1))
    totals = np.clip(np.add.reduceat(cells.values, first), -CELL_LIMIT - 1, CELL_LIMIT + 1)
    users = np.concatenate([cells.users, cells.users[first]])
    coordinates = np.concatenate([cells.coordinates, np.full(len(first), size, np.int32)])
    values = np.concatenate([cells.values, totals])
    order = np.lexsort((coordinates, users))
    some = Cells(users[order], coordinates[order], values[order])
    return some.where(some.values != 0)


def contributions_of_distinct(cells: Cells, size: int) -> Contributions:
    """Return the contributions that cells represent, if no user and coordinate occurs twice."""
    if len(cells.users) == 0:
        return contributions_from(cells, size)
    first = np.flatnonzero(np.diff(cells.users, prepend=-1))
    norms = sum_of_squares(cells.values, first)
    whole = Reduction(cells.users[first], norms, _totals(cells, size))

    def pulled(only: Index) -> list[Ints]:
        return [_totals(cells.where(np.isin(cells.users, only)), size)]

    return Contributions([whole], pulled)


def _totals(cells: Cells, size: int) -> Ints:
    if size == 1:
        return np.array([cells.values.sum()], np.int64)
    totals = np.zeros(size, np.int64)
    np.add.at(totals, cells.coordinates, cells.values)
    return totals


def _cells(plan: Plan, batch: RowBatch) -> Cells:
    measure, (coordinates, values) = plan.query.measures[0], batch.measures[0]
    if coordinates is None:
        return _one_cell_each(plan, batch)
    rows = batch.runs.row_numbers()
    owners = np.repeat(batch.runs.owners, batch.runs.stop - batch.runs.first)
    places = coordinates[rows]
    amounts = np.ones(len(rows), np.int64) if values is None else values[rows].astype(np.int64)
    counts = (places >= 0) & (amounts != 0)
    key = owners[counts].astype(np.int64) << 32 | places[counts].astype(np.int64)
    keys, cell = np.unique(key, return_inverse=True)
    sums = np.ones(len(keys), np.int64)
    if measure.kind is not Kind.USERS:
        sums = np.zeros(len(keys), np.int64)
        np.add.at(sums, cell, amounts[counts])
    elif plan.noise[0].granularity < 1:  # the number of steps of one user
        sums *= min(round(1 / plan.noise[0].granularity), CELL_LIMIT + 1)
    sums = np.clip(sums, -CELL_LIMIT - 1, CELL_LIMIT + 1)
    stay = sums != 0
    keys = keys[stay]
    return Cells((keys >> 32).astype(np.int32), keys.astype(np.int32), sums[stay])


def _one_cell_each(plan: Plan, batch: RowBatch) -> Cells:
    """Return the cells if there is one coordinate: each run of rows is one cell."""
    runs, (_, values) = batch.runs, batch.measures[0]
    if not len(runs.owners):
        none = np.zeros(0, np.int32)
        return Cells(none, none, none.astype(np.int64))
    if values is None:
        sums = runs.stop - runs.first
    else:
        whole = len(values) == runs.rows
        rows = values if whole else values[runs.row_numbers()]
        lengths = runs.stop - runs.first
        if plan.query.measures[0].kind is Kind.USERS:
            rows = rows != 0
        sums = np.add.reduceat(rows.astype(np.int64), np.cumsum(lengths) - lengths)
    if plan.query.measures[0].kind is Kind.USERS:
        steps = round(1 / min(plan.noise[0].granularity, 1.0))
        sums = np.where(sums != 0, min(steps, CELL_LIMIT + 1), 0)
    sums = np.clip(sums, -CELL_LIMIT - 1, CELL_LIMIT + 1)
    stay = sums != 0
    users = runs.owners[stay]
    return Cells(users, np.zeros(len(users), np.int32), sums[stay])
