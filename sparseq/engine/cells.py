"""A one-measure plan's contributions cell by cell: (user, coordinate, value), exact integers.

`Engine.contributions` adds rows up at once and keeps no cell; who has to remember what each user
contributed, or leaves users out before the gate, takes the cells and reduces those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.columns import combine_positions
from sparseq.engine.contributions import Contributions, RowBatch
from sparseq.engine.protocol import Engine
from sparseq.engine.reduce import CELL_LIMIT, Index, Ints, Reduction, Runs, reduce_numpy
from sparseq.query.plan import Kind, Plan


@dataclass(frozen=True)
class Cells:
    """The entries of the sparse matrix of contributions that are not 0, by user and coordinate.

    Attributes:
        users: int32, ascending.
        coordinates: int32, ascending within a user.
        values: int64, in lattice steps; saturated at ±2^31, which is dearer than any budget.
    """

    users: Index
    coordinates: Index
    values: Ints

    def where(self, keep: NDArray[np.bool_]) -> Cells:
        """Return some of the cells."""
        return Cells(self.users[keep], self.coordinates[keep], self.values[keep])


def cells_of(engine: Engine, plan: Plan, users: int) -> Cells:
    """Return the cells of a plan with one measure over everybody; `users`: how many there are."""
    parts = [_cells(plan, batch) for batch in engine.batches(plan, users)]
    return Cells(
        np.concatenate([p.users for p in parts]),
        np.concatenate([p.coordinates for p in parts]),
        np.concatenate([p.values for p in parts]),
    )


def contributions_from(cells: Cells, size: int) -> Contributions:
    """Return the contributions that cells are."""
    runs = Runs.of(cells.users)

    def reduced(some: Runs) -> Reduction:
        return reduce_numpy(some, cells.coordinates, cells.values, size, distinct=False)

    return Contributions([reduced(runs)], lambda only: [reduced(runs.only(only)).totals])


def _cells(plan: Plan, batch: RowBatch) -> Cells:
    measure, (bins, values) = plan.query.measures[0], batch.measures[0]
    rows = batch.runs.row_numbers()
    owners = np.repeat(batch.runs.owners, batch.runs.stop - batch.runs.first)
    places = np.zeros(len(rows), np.int32) if batch.groups is None else batch.groups[rows]
    if bins is not None:
        combined = combine_positions([places, bins[rows]], [plan.query.groups, measure.bins])
        assert combined is not None
        places = combined
    amounts = np.ones(len(rows), np.int64) if values is None else values[rows].astype(np.int64)
    counts = (places >= 0) & (amounts != 0)
    key = owners[counts].astype(np.int64) << 32 | places[counts].astype(np.int64)
    keys, cell = np.unique(key, return_inverse=True)
    sums = np.ones(len(keys), np.int64)
    if measure.kind is not Kind.USERS:
        sums = np.zeros(len(keys), np.int64)
        np.add.at(sums, cell, amounts[counts])
    elif plan.noise[0].granularity < 1:  # one user is that many steps
        sums *= min(round(1 / plan.noise[0].granularity), CELL_LIMIT + 1)
    sums = np.clip(sums, -CELL_LIMIT - 1, CELL_LIMIT + 1)
    stay = sums != 0
    keys = keys[stay]
    return Cells((keys >> 32).astype(np.int32), keys.astype(np.int32), sums[stay])
