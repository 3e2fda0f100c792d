"""The one pass: rows of lattice values, ordered by user, become squared norms and sums.

`reduce` is given one measure's rows (coordinate, value) in runs, one run a user, and returns for
every user that has rows the squared norm of the user's vector, and for every coordinate the sum
over all users. All of it is integer arithmetic, so the result does not depend on the order of a
user's rows, on threads or on the machine.

Two versions, one meaning: NumPy, and a compiled loop (Numba, the extra `sparseq[fast]`) that large
inputs go to where it is installed. A value beyond 2**31 - 1 in one coordinate saturates its user's
squared norm, which is then dearer than any budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import SHARED, THREADS, compiled, halves, pool, worthwhile

Ints = NDArray[np.int64]
Index = NDArray[np.int32]

CELL_LIMIT = 2**31 - 1
NORM_LIMIT = 2**62


@dataclass(frozen=True)
class Runs:
    """Where each user's rows lie: run r is rows first[r] to stop[r] of user owners[r].

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
    norms: Ints | None = None,
) -> Reduction:
    """Return squared norms by user and sums by coordinate.

    Args:
        runs: Whose rows they are.
        coordinates: Integers (rows,), in -1..size-1; -1: the row counts for nothing. None: all 0.
        values: int32 (rows,), lattice values. None: all 1.
        size: Number of coordinates.
        distinct: A user's value at a coordinate is 1 if any row there has a value other than 0.
        norms: One a run, to be filled where that saves a copy; those of the result count.

    Example:
        >>> runs = Runs.of(np.array([3, 3, 7], np.int32))
        >>> r = reduce(runs, None, None, 1, distinct=False)
        >>> r.users.tolist(), r.norms.tolist(), r.totals.tolist()
        ([3, 7], [4, 1], [3])
    """
    every_row_is_one = coordinates is None and values is None
    if not every_row_is_one and worthwhile(runs.rows):
        return reduce_compiled(runs, coordinates, values, size, distinct, norms)
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
    norms: Ints | None = None,
) -> Reduction:
    """`reduce` by the compiled loop, one part of the users a thread."""
    if norms is None:
        norms = np.empty(len(runs.owners), np.int64)
    loop = compiled().reduce_distinct if distinct else compiled().reduce_sums

    def part(users: slice) -> Ints:
        totals = np.zeros(size, np.int64)
        loop(runs.first[users], runs.stop[users], coordinates, values, size, norms[users], totals)
        return totals

    if len(runs.owners) == 0 or int(runs.stop[-1]) < SHARED:
        return Reduction(runs.owners, norms, part(slice(None)))
    totals = sum(pool().map(part, even_parts(runs)), np.zeros(size, np.int64))
    return Reduction(runs.owners, norms, totals)


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
        _end_to_end([p.users for p in parts]),
        _end_to_end([p.norms for p in parts]),
        np.sum([p.totals for p in parts], axis=0, dtype=np.int64),
    )


def _end_to_end(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays one after the other: where they are all of one array, that itself."""
    base = parts[0].base
    if isinstance(base, np.ndarray) and base.shape == (sum(map(len, parts)),):
        places = np.cumsum([0, *map(len, parts)]) * base.itemsize + base.ctypes.data
        if all(
            p.base is base and p.ctypes.data == at for p, at in zip(parts, places, strict=False)
        ):
            return base
    return np.concatenate(parts)


def quantise(values: NDArray[Any], granularity: float) -> Index:
    """Return values / granularity, rounded to the nearest integer (halves to even), int32.

    Args:
        values: Numbers, any NumPy type.
        granularity: The lattice step, a power of two, so that the division is exact.

    Returns:
        NaN and infinities give 0: they contribute nothing. What is beyond ±(2**31 - 1) saturates.
    """
    if values.dtype == np.float64 and worthwhile(len(values)):
        out = np.empty(len(values), np.int32)
        loop = compiled().quantise
        halves(len(values), lambda p: loop(values[p], 1.0 / granularity, out[p]))
        return out
    return quantise_numpy(values, granularity)


def quantise_numpy(values: NDArray[Any], granularity: float) -> Index:
    """`quantise` in NumPy."""
    if granularity == 1.0 and values.dtype.kind in "biu" and values.dtype.itemsize < 4:
        return values.astype(np.int32)
    numbers = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.clip(np.rint(numbers / granularity), -CELL_LIMIT, CELL_LIMIT)
    return np.where(np.isfinite(numbers), steps, 0.0).astype(np.int32)
