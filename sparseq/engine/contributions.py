"""Contributions of everybody to a query: rows of users, reduced to squared norms and sums.

Sums under weights: everybody's vector times the person's own weight, in integers.

A weight is w = m · 2**-x with m of 16 significant bits. The vector that is summed is the truncation
towards zero of w · q(X_i) to a lattice 2**shift times as fine as that of q: cell by cell, after the
rows of a person in a cell have been added up, so that no cell grows by it and the squared norm of
what is summed is at most w² ‖q(X_i)‖². With the shift at x nothing is truncated.

Two versions, one meaning: NumPy, and a compiled loop.

A one-measure plan's contributions cell by cell: (user, coordinate, value), exact integers.

`Engine.contributions` adds rows up at once and keeps no cell; who has to remember what each user
contributed, or leaves users out before it is billed, takes `Engine.cells` and reduces those.

Contributions handed over as a table (user, coordinate, value), by whoever computed them.

The guarantee holds if each row was computed from its own user's data and from public facts alone;
that is the caller's promise. Charges come from the values themselves, as always.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting._numbers import in_range
from sparseq.base.errors import DataError, ParameterError
from sparseq.compiled import compiled, worthwhile
from sparseq.engine.columns import combine_positions
from sparseq.engine.reduce import (
    CELL_LIMIT,
    NORM_LIMIT,
    Index,
    Ints,
    Reduction,
    Runs,
    quantise,
    reduce,
    reduce_numpy,
    sum_of_squares,
)
from sparseq.released.outputs import OutputColumn, Outputs, key, measure
from sparseq.sql.plan import MAX_COORDINATES, Cell, Domain, Kind, Measure, Plan, Query, Relation

# -- sums under weights: everybody's vector times the person's own weight, in integers -------------

WEIGHT_BITS = 16
"""Significant bits of a weight: 1 is 2**16 · 2**-16."""


@dataclass(frozen=True)
class Weights:
    """Of some people, one each: private.

    Attributes:
        users: int32, ascending, distinct.
        mantissa, exponent: int64: w = mantissa · 2**-exponent, mantissa in 0 to 2**16.
        shifts: One a measure: its sums are on a lattice 2**shift times as fine.

    Example:
        >>> half = Weights(np.array([4], np.int32), np.array([2**15]), np.array([16]), (16,))
        >>> half.of(np.array([4], np.int32))[0].tolist()
        [32768]
    """

    users: Index
    mantissa: Ints
    exponent: Ints
    shifts: tuple[int, ...]

    def of(self, owners: Index) -> tuple[Ints, Ints]:
        """Return mantissas and exponents of some of the people."""
        if len(owners) == len(self.users):
            return self.mantissa, self.exponent
        at = np.searchsorted(self.users, owners)
        return self.mantissa[at], self.exponent[at]

    def between(self, first: int, last: int) -> Weights:
        """Return the weights of users `first` to `last`."""
        part = slice(*np.searchsorted(self.users, [first, last + 1]))
        return replace(
            self,
            users=self.users[part],
            mantissa=self.mantissa[part],
            exponent=self.exponent[part],
        )


Weigh = Callable[[Weights], list[Ints]]
"""What weights take from the sums, one array a measure, each on its finer lattice."""


def weight_losses(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: Index | None,
    size: int,
    distinct: bool,
    weights: tuple[Ints, Ints],
    shift: int,
) -> Ints:
    """Return what weights take from the sums by coordinate, in steps 2**shift times as fine.

    It is exact modulo 2**64, as are the sums that it is taken from: their difference is small.

    Args:
        runs, coordinates, values, size, distinct: See `sparseq.engine.reduce.reduce`.
        weights: Mantissas and exponents, one a run; so small that no weighted sum overflows.
        shift: Of the lattice, 0 to 46.

    Example:
        >>> runs = Runs.of(np.array([3, 3, 7], np.int32))
        >>> half, one = (2**15, 16), (2**16, 16)
        >>> weight_losses(runs, None, None, 1, False, (np.array([half[0], one[0]]),
        ...               np.array([half[1], one[1]])), 4).tolist()
        [16]
    """
    mantissa, exponent = weights
    if worthwhile(runs.rows):
        totals = np.zeros(size, np.int64)
        compiled().weight_losses(
            runs.first, runs.stop, coordinates, values, distinct, mantissa, exponent, shift, totals
        )
        return totals
    return weight_losses_numpy(
        runs, coordinates, values, size, distinct, (mantissa, exponent), shift
    )


def weight_losses_numpy(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: NDArray[np.signedinteger[Any]] | None,
    size: int,
    distinct: bool,
    weights: tuple[Ints, Ints],
    shift: int,
) -> Ints:
    """`weight_losses` in NumPy."""
    rows = runs.row_numbers()
    run = np.repeat(np.arange(len(runs.owners)), runs.stop - runs.first)
    k = np.zeros(len(rows), np.int64) if coordinates is None else coordinates[rows].astype(np.int64)
    v = np.ones(len(rows), np.int64) if values is None else values[rows].astype(np.int64)
    counts = (k >= 0) & (v != 0)
    key, where = np.unique(run[counts] * size + k[counts], return_inverse=True)
    cells = np.zeros(len(key), np.int64)
    np.add.at(cells, where, v[counts])
    if distinct:
        cells[:] = 1
    owner, place = np.divmod(key, size)
    mantissa, back = weights[0][owner], weights[1][owner] - shift
    product = mantissa * np.abs(cells)
    part = np.where(back >= 0, product >> np.clip(back, 0, 63), product << np.clip(-back, 0, 63))
    totals = np.zeros(size, np.int64)
    np.add.at(totals, place, ((np.abs(cells) << shift) - part) * np.sign(cells))
    return totals


# -- contributions of everybody to a query: rows of users, reduced to squared norms and sums -------


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


# -- a one-measure plan's contributions cell by cell -----------------------------------------------


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


def cells_of(plan: Plan, batches: Iterable[RowBatch]) -> Cells:
    """Return the cells of a plan with one measure, of its rows in ascending ranges of users."""
    parts = [_cells(plan, batch) for batch in batches]
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


def contributions_of_distinct(cells: Cells, size: int) -> Contributions:
    """Return the contributions that cells are, where no two are of one person and coordinate."""
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
    measure, (bins, values) = plan.query.measures[0], batch.measures[0]
    if bins is None and batch.groups is None:
        return _one_cell_each(plan, batch)
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


def _one_cell_each(plan: Plan, batch: RowBatch) -> Cells:
    """Return the cells where there is one coordinate: a run of rows is one."""
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


# -- contributions handed over as a table (user, coordinate, value), by whoever computed them ------


def contributions_of(
    plan: Plan, users: Index, coordinates: Index, values: NDArray[Any]
) -> Contributions:
    """Return the contributions of users to a plan with one measure, from triplets."""
    order = np.argsort(users, kind="stable")
    runs = Runs.of(users[order])
    steps = quantise(values[order], plan.noise[0].granularity)
    places = coordinates[order]
    size = plan.query.groups

    def pull(only: Index) -> list[NDArray[np.int64]]:
        return [reduce(runs.only(only), places, steps, size, distinct=False).totals]

    return Contributions([reduce(runs, places, steps, size, distinct=False)], pull)


def triplet_query(coordinates: int, label: str, scale: float) -> Query:
    """Return the query that a table of contributions answers."""
    if coordinates < 1 or not label.strip():
        raise ParameterError("a query has a label, and at least one coordinate")
    if coordinates > MAX_COORDINATES:
        raise ParameterError(
            f"coordinates is beyond the limit, {MAX_COORDINATES:,}",
            "ask for some at a time",
        )
    scale = in_range("scale", scale, 0.0, math.inf, open_low=True)
    domain = Domain("coordinate", tuple(range(coordinates)), Cell("coordinate"))
    one = Measure(Kind.SUM, Cell("value"), label, integral=False, scale=scale)
    shown = (OutputColumn("coordinate", key(0)), OutputColumn("value", measure(0)))
    return Query(label, Relation("FROM contributions"), (domain,), (one,), Outputs(shown))


def as_arrow(table: Any) -> pa.Table:
    """Return an Arrow table made from what is one, or gives one.

    Raises:
        DataError: It is nothing of the kind.
    """
    try:
        return table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError, pa.ArrowException):
        raise DataError(
            f"rows are a {type(table).__name__}", "give paths of files, or an Arrow table"
        ) from None
