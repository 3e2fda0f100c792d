"""The reduction in one pass: lattice values, ordered by user, become squared norms and sums.

`reduce` takes one measure's rows (coordinate, value) in runs, one run per user. It returns the
squared norm of the vector of every user with rows, and the sum over all users for every
coordinate. All arithmetic is in integers, so the result does not depend on the order of a user's
rows, on threads or on the machine. There are two equivalent versions: NumPy, and a compiled loop
(Numba, the extra `sparseq[fast]`), which large inputs use if it is installed. A value beyond
2**31 - 1 in one coordinate saturates its user's squared norm, which then exceeds any budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import SHARED, THREADS, compiled, pool, worthwhile
from sparseq.engine.bin_table import BinTable
from sparseq.engine.kept_numbers import ClampedNumbers, Numbers, parts_of
from sparseq.engine.row_mask import RowMask

Ints = NDArray[np.int64]
Index = NDArray[np.int32]

CELL_LIMIT = 2**31 - 1
NORM_LIMIT = 2**62


@dataclass(frozen=True)
class Runs:
    """The places of each user's rows: run r is rows first[r] to stop[r] of user owners[r].

    Attributes:
        owners: int32, ascending, distinct.
        first, stop: int64, ascending; runs do not overlap, and there may be rows between them.
    """

    owners: Index
    first: Ints
    stop: Ints

    @classmethod
    def of(cls, users: Index) -> Runs:
        """Return the runs of an ascending array of users, one per row.

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
        """Return the runs of some users (ascending); users without rows have none."""
        if len(self.owners) == 0:
            return self
        low, high = int(self.owners[0]), int(self.owners[-1])
        # without gaps, a user's position is the user's number
        if high - low + 1 == len(self.owners):
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
        """Return the number of each row, in order of runs."""
        lengths = self.stop - self.first
        before = np.cumsum(lengths) - lengths
        rows: Ints = np.arange(int(lengths.sum())) + np.repeat(self.first - before, lengths)
        return rows


@dataclass(frozen=True)
class Reduction:
    """Squared norms of the users that have rows, and sums by coordinate.

    Attributes:
        users: int32, ascending, distinct.
        norms: int64, one per user, 0 if the user's rows contribute nothing; saturated at 2**62.
        totals: int64, one per coordinate.
    """

    users: Index
    norms: Ints
    totals: Ints

    def norm_of(self, user: int) -> int:
        """Return one user's squared norm, 0 without rows."""
        place = int(np.searchsorted(self.users, user))
        there = place < len(self.users) and self.users[place] == user
        return int(self.norms[place]) if there else 0


def reduce(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: NDArray[Any] | ClampedNumbers | None,
    size: int,
    distinct: bool,
    mask: RowMask | None = None,
    factor: float = 1,
) -> Reduction:
    """Return squared norms by user and sums by coordinate.

    Args:
        runs: The rows of each user.
        coordinates: Integers (rows,), in -1..size-1; -1: the row is ignored. None: all are 0.
        values: (rows,) lattice values, integers; or float64 before the lattice, clamped or not.
            None: all are 1.
        size: Number of coordinates.
        distinct: A user's value at a coordinate is 1 if any row there has a value other than 0.
        mask: The rows that count; every run has at least one. None: all rows count.
        factor: For integers and rows without values, the lattice steps of 1, an int; for float64
            1 / granularity.

    Example:
        >>> runs = Runs.of(np.array([3, 3, 7], np.int32))
        >>> r = reduce(runs, None, None, 1, distinct=False)
        >>> r.users.tolist(), r.norms.tolist(), r.totals.tolist()
        ([3, 7], [4, 1], [3])
    """
    every_row_is_one = coordinates is None and values is None
    if not every_row_is_one and worthwhile(runs.rows):
        return reduce_compiled(runs, coordinates, values, size, distinct, mask, factor)
    return reduce_numpy(runs, coordinates, values, size, distinct, mask, factor)


def reduce_numpy(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: NDArray[Any] | ClampedNumbers | None,
    size: int,
    distinct: bool,
    mask: RowMask | None = None,
    factor: float = 1,
) -> Reduction:
    """Compute `reduce` in NumPy: sort the cells, add up, square, add up."""
    if coordinates is None and values is None:
        return _reduce_row_counts(runs, size, distinct, mask, int(factor))
    run, k, v = listed_rows(runs, coordinates, values, mask, factor)
    counts = (k >= 0) & (v != 0)
    key = runs.owners.astype(np.int64)[run] * size + k
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


def listed_rows(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: NDArray[Any] | ClampedNumbers | None,
    mask: RowMask | None,
    factor: float,
) -> tuple[Ints, Ints, Ints]:
    """Return the run, the coordinate and the lattice value of each row that counts."""
    rows = runs.row_numbers()
    run = np.repeat(np.arange(len(runs.owners)), runs.stop - runs.first)
    if mask is not None:
        those = mask.of(rows)
        rows, run = rows[those], run[those]
    k = np.zeros(len(rows), np.int64) if coordinates is None else coordinates[rows].astype(np.int64)
    if values is None:
        v = np.full(len(rows), int(factor), np.int64)
    elif isinstance(values, ClampedNumbers) or values.dtype.kind == "f":
        v = quantise_numpy(values[rows], 1 / factor).astype(np.int64)
    else:
        v = values[rows].astype(np.int64) * int(factor)
    return run, k, v


def _reduce_row_counts(
    runs: Runs, size: int, distinct: bool, mask: RowMask | None, factor: int
) -> Reduction:
    """Compute `reduce` without reading rows, if all rows count equally at coordinate 0."""
    totals = np.zeros(size, np.int64)
    if distinct:  # every run has a row
        totals[0] = len(runs.owners)
        return Reduction(runs.owners, np.ones(len(runs.owners), np.int64), totals)
    cells = runs.stop - runs.first if mask is None else mask.counts(runs.first, runs.stop)
    cells = cells if factor == 1 else cells * factor
    totals[0] = cells.sum()
    if int(cells.max(initial=0)) <= CELL_LIMIT:
        return Reduction(runs.owners, cells * cells, totals)
    norms = np.where(cells > CELL_LIMIT, NORM_LIMIT, np.minimum(cells, CELL_LIMIT) ** 2)
    return Reduction(runs.owners, norms, totals)


def _changes(key: Ints) -> NDArray[np.intp]:
    """Return the start of each run of equal keys."""
    return np.concatenate(([0], np.flatnonzero(key[1:] != key[:-1]) + 1))


def sum_of_squares(cells: Ints, first: NDArray[np.intp]) -> Ints:
    """Return the sum of squares of each run of cells, saturated at 2**62.

    Squares are split at bit 31, so that the sums of the parts cannot overflow.
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
    values: NDArray[Any] | ClampedNumbers | None,
    size: int,
    distinct: bool,
    mask: RowMask | None = None,
    factor: float = 1,
) -> Reduction:
    """Compute `reduce` by the compiled loop, with one part of the users per thread."""
    norms = np.empty(len(runs.owners), np.int64)
    loops = compiled().row_loops
    loop = loops.reduce_distinct if distinct else loops.reduce_sums
    rows = None if mask is None else mask.words, coordinates, parts_of(values), factor

    def part(users: slice, totals: Ints) -> None:
        loop(runs.first[users], runs.stop[users], *rows, size, norms[users], totals)

    return Reduction(runs.owners, norms, totals_by_part(runs, size, part))


def totals_by_part(runs: Runs, size: int, part: Callable[[slice, Ints], object]) -> Ints:
    """Return the totals of a loop, with one part of the users per thread."""

    def totals(users: slice) -> Ints:
        own = np.zeros(size, np.int64)
        part(users, own)
        return own

    if len(runs.owners) == 0 or int(runs.stop[-1]) < SHARED:
        return totals(slice(None))
    return sum(pool().map(totals, even_parts(runs)), np.zeros(size, np.int64))


def even_parts(runs: Runs) -> list[slice]:
    """Split the users into one slice per thread, with about the same number of rows each."""
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
        out: The array to fill, if any.

    Returns:
        The lattice values; 0 for NaN and infinities. Values beyond ±(2**31 - 1) saturate.
    """
    out = np.empty(len(values), np.int32) if out is None else out
    if values.dtype == np.float64 and worthwhile(len(values)):
        compiled().quantise(values, 1.0 / granularity, out)
    else:
        out[:] = quantise_numpy(values, granularity)
    return out


def quantise_numpy(values: NDArray[Any], granularity: float) -> Index:
    """Compute `quantise` in NumPy."""
    if granularity == 1.0 and values.dtype.kind in "biu" and values.dtype.itemsize < 4:
        return values.astype(np.int32)
    numbers = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.clip(np.rint(numbers / granularity), -CELL_LIMIT, CELL_LIMIT)
    return np.where(np.isfinite(numbers), steps, 0.0).astype(np.int32)


def find_bins(
    inner: NDArray[np.float64], ends: tuple[float, float], values: Numbers, out: NDArray[Any]
) -> None:
    """Fill `out` with the number of ascending inner edges that are at most a value; -1 beyond the
    ends, and for NaN.

    Example:
        >>> places = np.empty(4, np.int8)
        >>> find_bins(np.array([5.0]), (0.0, 9.0), np.array([4.9, 5.0, 9.1, np.nan]), places)
        >>> places.tolist()
        [0, 1, -1, -1]
    """
    low, high = ends
    table = BinTable.of(inner) if worthwhile(len(values)) else None
    if table is not None:
        where = table.shift, table.first, table.below, table.edges
        compiled().row_loops.bins_by_bits(parts_of(values), *where, low, high, out)
        return
    numbers = values[:]
    if worthwhile(len(values)):
        compiled().bins(numbers, inner, low, high, out)
        return
    places = np.searchsorted(inner, numbers, "right")
    out[:] = np.where((numbers >= low) & (numbers <= high), places, -1)
