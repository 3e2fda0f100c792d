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

The one pass: rows of lattice values, ordered by user, become squared norms and sums.

`reduce` is given one measure's rows (coordinate, value) in runs, one run a user, and returns for
every user that has rows the squared norm of the user's vector, and for every coordinate the sum
over all users. All of it is integer arithmetic, so the result does not depend on the order of a
user's rows, on threads or on the machine.

Two versions, one meaning: NumPy, and a compiled loop (Numba, the extra `sparseq[fast]`) that large
inputs go to where it is installed. A value beyond 2**31 - 1 in one coordinate saturates its user's
squared norm, which is then dearer than any budget.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting._numbers import in_range
from sparseq.base.errors import DataError, ParameterError
from sparseq.compiled import SHARED, THREADS, compiled, pool, worthwhile
from sparseq.released.outputs import OutputColumn, Outputs, key, measure
from sparseq.sql.plan import MAX_COORDINATES, Cell, Domain, Kind, Measure, Plan, Query, Relation

# -- the one pass: rows of lattice values, ordered by user, become squared norms and sums ----------

Ints = NDArray[np.int64]
Index = NDArray[np.int32]

CELL_LIMIT = 2**31 - 1
NORM_LIMIT = 2**62


@dataclass(frozen=True)
class Runs:
    """The places of each user's rows: run r is rows first[r] to stop[r] of user owners[r].

    Attributes:
        owners: int32, ascending, distinct.
        first, stop: int64, ascending; runs don't overlap, and there may be rows between them.
    """

    owners: Index
    first: Ints
    stop: Ints

    @classmethod
    def of(cls, users: Index) -> Runs:
        """Return the runs of an ascending array of users, one a row.

        Example:
            >>> Runs.of(np.array([3, 3, 7], np.int32)).first.tolist()
            [0, 2]
        """
        if len(users) == 0:
            return cls(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
        if worthwhile(len(users)):
            starts = np.empty(len(users) + 1, np.int64)
            count = compiled().starts(users, starts)
            starts = np.append(starts[:count], len(users))
        else:
            changes = np.flatnonzero(users[1:] != users[:-1]) + 1
            starts = np.concatenate(([0], changes, [len(users)])).astype(np.int64)
        return cls(users[starts[:-1]], starts[:-1], starts[1:])

    def only(self, users: Index) -> Runs:
        """Return the runs of some users (ascending); those without rows have none."""
        if len(self.owners) == 0:
            return self
        low, high = int(self.owners[0]), int(self.owners[-1])
        if high - low + 1 == len(self.owners):  # without gaps, a user's place is the user's number
            place = users[np.searchsorted(users, low) : np.searchsorted(users, high + 1)] - low
            return Runs(self.owners[place], self.first[place], self.stop[place])
        if worthwhile(len(self.owners)):
            found = np.empty(len(users), np.int64)
            found = found[: compiled().places(users, self.owners, found)]
            return Runs(self.owners[found], self.first[found], self.stop[found])
        place = np.minimum(np.searchsorted(self.owners, users), len(self.owners) - 1)
        place = place[self.owners[place] == users]
        return Runs(self.owners[place], self.first[place], self.stop[place])

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.stop.sum() - self.first.sum())

    def row_numbers(self) -> Ints:
        """Return the number of each row, run by run."""
        lengths = self.stop - self.first
        before = np.cumsum(lengths) - lengths
        rows: Ints = np.arange(int(lengths.sum())) + np.repeat(self.first - before, lengths)
        return rows


@dataclass(frozen=True)
class Reduction:
    """Squared norms of the users that have rows, and sums by coordinate.

    Attributes:
        users: int32, ascending, distinct.
        norms: int64, one a user, 0 for one whose rows count for nothing; saturated at 2**62.
        totals: int64, one a coordinate.
    """

    users: Index
    norms: Ints
    totals: Ints

    def norm_of(self, user: int) -> int:
        """Return one user's squared norm, 0 of who has no rows."""
        place = int(np.searchsorted(self.users, user))
        there = place < len(self.users) and self.users[place] == user
        return int(self.norms[place]) if there else 0


def reduce(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: Index | None,
    size: int,
    distinct: bool,
) -> Reduction:
    """Return squared norms by user and sums by coordinate.

    Args:
        runs: Whose rows they are.
        coordinates: Integers (rows,), in -1..size-1; -1: the row counts for nothing. None: all 0.
        values: int32 (rows,), lattice values. None: all 1.
        size: Number of coordinates.
        distinct: A user's value at a coordinate is 1 if any row there has a value other than 0.

    Example:
        >>> runs = Runs.of(np.array([3, 3, 7], np.int32))
        >>> r = reduce(runs, None, None, 1, distinct=False)
        >>> r.users.tolist(), r.norms.tolist(), r.totals.tolist()
        ([3, 7], [4, 1], [3])
    """
    every_row_is_one = coordinates is None and values is None
    if not every_row_is_one and worthwhile(runs.rows):
        return reduce_compiled(runs, coordinates, values, size, distinct)
    return reduce_numpy(runs, coordinates, values, size, distinct)


def reduce_numpy(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: NDArray[np.signedinteger[Any]] | None,
    size: int,
    distinct: bool,
) -> Reduction:
    """`reduce` in NumPy: sort the cells, add up, square, add up."""
    if coordinates is None and values is None:
        return _reduce_row_counts(runs, size, distinct)
    rows = runs.row_numbers()
    k = np.zeros(len(rows), np.int64) if coordinates is None else coordinates[rows].astype(np.int64)
    v = np.ones(len(rows), np.int64) if values is None else values[rows].astype(np.int64)
    counts = (k >= 0) & (v != 0)
    key = np.repeat(runs.owners.astype(np.int64), runs.stop - runs.first) * size + k
    if not counts.all():
        key, v = key[counts], v[counts]
    if len(key) == 0:
        return Reduction(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(size, np.int64))
    if size > 1 and bool(np.any(key[1:] < key[:-1])):
        order = np.argsort(key, kind="stable")
        key, v = key[order], v[order]
    starts = _changes(key)
    cells = np.ones(len(starts), np.int64) if distinct else np.add.reduceat(v, starts)
    owner, place = np.divmod(key[starts], size)
    first = _changes(owner)
    totals = np.zeros(size, np.int64)
    np.add.at(totals, place, cells)
    norms = sum_of_squares(cells, first)
    return Reduction(owner[first].astype(np.int32), norms, totals)


def _reduce_row_counts(runs: Runs, size: int, distinct: bool) -> Reduction:
    """`reduce` where every row counts 1 at coordinate 0: no row need be looked at."""
    totals = np.zeros(size, np.int64)
    if distinct:  # a run has a row
        totals[0] = len(runs.owners)
        return Reduction(runs.owners, np.ones(len(runs.owners), np.int64), totals)
    cells = runs.stop - runs.first
    totals[0] = cells.sum()
    norms = np.where(cells > CELL_LIMIT, NORM_LIMIT, np.minimum(cells, CELL_LIMIT) ** 2)
    return Reduction(runs.owners, norms, totals)


def _changes(key: Ints) -> NDArray[np.intp]:
    """Return where each run of equal keys starts."""
    return np.concatenate(([0], np.flatnonzero(key[1:] != key[:-1]) + 1))


def sum_of_squares(cells: Ints, first: NDArray[np.intp]) -> Ints:
    """Return the sum of squares of each run of cells, saturated at 2**62.

    Squares are split at bit 31, so that the sums of the parts can't overflow.
    """
    magnitude = np.abs(cells)
    over = magnitude > CELL_LIMIT
    squares = np.minimum(magnitude, CELL_LIMIT) ** 2
    if int(squares.max(initial=0)) < NORM_LIMIT // len(cells):
        norms: Ints = np.add.reduceat(squares, first)
    else:
        low_bits = 2**31 - 1
        high = np.add.reduceat(squares >> 31, first)
        low = np.add.reduceat(squares & low_bits, first)
        high += low >> 31
        exact = (np.minimum(high, 2**31) << 31) | (low & low_bits)
        norms = np.where(high >= 2**31, NORM_LIMIT, exact)
    if over.any():
        norms = np.where(np.maximum.reduceat(over, first), NORM_LIMIT, norms)
    return norms


def reduce_compiled(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: Index | None,
    size: int,
    distinct: bool,
) -> Reduction:
    """`reduce` by the compiled loop, one part of the users a thread."""
    norms = np.empty(len(runs.owners), np.int64)
    loop = compiled().reduce_distinct if distinct else compiled().reduce_sums

    def part(users: slice, totals: Ints) -> None:
        loop(runs.first[users], runs.stop[users], coordinates, values, size, norms[users], totals)

    return Reduction(runs.owners, norms, _share(runs, size, part))


def _share(runs: Runs, size: int, part: Callable[[slice, Ints], object]) -> Ints:
    """Return totals that a loop adds to, one part of the users a thread."""

    def totals(users: slice) -> Ints:
        own = np.zeros(size, np.int64)
        part(users, own)
        return own

    if len(runs.owners) == 0 or int(runs.stop[-1]) < SHARED:
        return totals(slice(None))
    return sum(pool().map(totals, even_parts(runs)), np.zeros(size, np.int64))


def even_parts(runs: Runs) -> list[slice]:
    """Split the users into as many slices as threads, of about as many rows each."""
    span = int(runs.stop[-1]) if len(runs.stop) else 0
    targets = [span * i // THREADS for i in range(1, THREADS)]
    cuts = [0, *np.searchsorted(runs.first, targets).tolist(), len(runs.owners)]
    return [slice(a, b) for a, b in pairwise(cuts)]


def join_parts(parts: list[Reduction]) -> Reduction:
    """Join reductions over disjoint, ascending ranges of users."""
    if len(parts) == 1:
        return parts[0]
    return Reduction(
        np.concatenate([p.users for p in parts]),
        np.concatenate([p.norms for p in parts]),
        np.sum([p.totals for p in parts], axis=0, dtype=np.int64),
    )


def quantise(values: NDArray[Any], granularity: float, out: Index | None = None) -> Index:
    """Return values / granularity, rounded to the nearest integer (halves to even), int32.

    Args:
        values: Numbers, any NumPy type.
        granularity: The lattice step, a power of two, so that the division is exact.
        out: What is filled, if there is something already.

    Returns:
        NaN and infinities give 0: they contribute nothing. What is beyond ±(2**31 - 1) saturates.
    """
    out = np.empty(len(values), np.int32) if out is None else out
    if values.dtype == np.float64 and worthwhile(len(values)):
        compiled().quantise(values, 1.0 / granularity, out)
    else:
        out[:] = quantise_numpy(values, granularity)
    return out


def quantise_numpy(values: NDArray[Any], granularity: float) -> Index:
    """`quantise` in NumPy."""
    if granularity == 1.0 and values.dtype.kind in "biu" and values.dtype.itemsize < 4:
        return values.astype(np.int32)
    numbers = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.clip(np.rint(numbers / granularity), -CELL_LIMIT, CELL_LIMIT)
    return np.where(np.isfinite(numbers), steps, 0.0).astype(np.int32)


def find_bins(
    inner: NDArray[np.float64], ends: tuple[float, float], values: NDArray[Any], out: NDArray[Any]
) -> None:
    """Fill out with how many of the ascending inner edges are at most a value; -1 beyond the ends.

    Example:
        >>> places = np.empty(4, np.int8)
        >>> find_bins(np.array([5.0]), (0.0, 9.0), np.array([4.9, 5.0, 9.1, np.nan]), places)
        >>> places.tolist()
        [0, 1, -1, -1]
    """
    low, high = ends
    if worthwhile(len(values)):
        compiled().bins(values, inner, low, high, out)
        return
    places = np.searchsorted(inner, values, "right")
    out[:] = np.where((values >= low) & (values <= high), places, -1)


# -- several keys, one place -----------------------------------------------------------------------


def combine_positions(
    positions: list[NDArray[np.signedinteger[Any]]], sizes: list[int]
) -> NDArray[np.signedinteger[Any]] | None:
    """Return one index for several keys, last key fastest; -1 where a row is in no group.

    Args:
        positions: Place in each key's domain, by row; out of range: in none.
        sizes: Number of values of each key.

    Example:
        >>> combine_positions([np.array([0, 1], np.int32), np.array([2, 9], np.int32)], [2, 3])
        array([ 2, -1], dtype=int32)
    """
    if not positions:
        return None
    index = np.zeros(len(positions[0]), np.int32)
    inside = np.ones(len(positions[0]), bool)
    for position, size in zip(positions, sizes, strict=True):
        inside &= (position >= 0) & (position < size)
        index *= size
        index += position
    if not inside.all():
        index[~inside] = -1
    return index


# -- giving memory back to the operating system, which allocators keep when it is freed ------------


def release_freed() -> None:
    """Give back what is free: between parts of what is too large to be held at once."""
    pa.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Return the C library's own way, where it is glibc."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


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


Weigh = Callable[[Weights], list[Ints]]
"""The parts of the sums that weights take, one array a measure, each on its finer lattice."""


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
        runs, coordinates, values, size, distinct: See `sparseq.engine.contributions.reduce`.
        weights: Mantissas and exponents, one a run; so small that no weighted sum overflows.
        shift: Of the lattice, 0 to 46.

    Example:
        >>> runs = Runs.of(np.array([3, 3, 7], np.int32))
        >>> half, one = (2**15, 16), (2**16, 16)
        >>> weight_losses(runs, None, None, 1, False, (np.array([half[0], one[0]]),
        ...               np.array([half[1], one[1]])), 4).tolist()
        [16]
    """
    if not worthwhile(runs.rows):
        return weight_losses_numpy(runs, coordinates, values, size, distinct, weights, shift)
    loop, (mantissa, exponent) = compiled().weight_losses, weights

    def part(users: slice, totals: Ints) -> None:
        ends = runs.first[users], runs.stop[users]
        own = mantissa[users], exponent[users]
        loop(*ends, coordinates, values, distinct, *own, shift, totals)

    return _share(runs, size, part)


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
    """Everybody's contributions to a query: squared norms, and the sums as a function of who is in.

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


def reduce_measure(plan: Plan, batch: RowBatch, i: int) -> Reduction:
    """Reduce one measure of a batch."""
    measure, values = plan.query.measures[i], batch.measures[i][1]
    size, distinct = plan.query.groups * measure.bins, measure.kind is Kind.USERS
    reduced = reduce(batch.runs, _coordinates(plan, batch, i), values, size, distinct)
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
            f"coordinates is beyond the limit, {MAX_COORDINATES:,}", "ask for some at a time"
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
