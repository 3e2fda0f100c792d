"""Weighted sums: every user's vector times the user's own weight, in integers.

A weight is w = m · 2**-x with m of 16 significant bits. The summed vector is the truncation towards
zero of w · q(X_i) to a lattice 2**shift times as fine as that of q: cell by cell, after the rows of
a user in a cell have been added up. So truncation increases no cell, and the squared norm of the
summed vector is at most w² ‖q(X_i)‖². A shift of x truncates nothing. There are two equivalent
versions: NumPy, and a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import compiled, worthwhile
from sparseq.engine.kept_numbers import ClampedNumbers, parts_of
from sparseq.engine.reduction import Index, Ints, Runs, listed_rows, totals_by_part
from sparseq.engine.row_mask import RowMask

WEIGHT_BITS = 16
"""Significant bits of a weight: 1 is 2**16 · 2**-16."""


@dataclass(frozen=True)
class Weights:
    """Weights of some users: private.

    Attributes:
        users: int32, ascending, distinct.
        mantissa, exponent: int64: w = mantissa · 2**-exponent, mantissa in 0 to 2**16.
        shifts: One per measure: its sums are on a lattice 2**shift times as fine.

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
        """Return mantissas and exponents of some of the users."""
        if len(owners) == len(self.users):
            return self.mantissa, self.exponent
        at = np.searchsorted(self.users, owners)
        return self.mantissa[at], self.exponent[at]


Weigh = Callable[[Weights], list[Ints]]
"""The amounts that weights subtract from the sums, one array per measure, each on its finer
lattice.
"""


def weight_losses(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: NDArray[Any] | ClampedNumbers | None,
    size: int,
    distinct: bool,
    weights: tuple[Ints, Ints],
    shift: int,
    mask: RowMask | None = None,
    factor: float = 1,
) -> Ints:
    """Return the amounts that weights subtract from the sums by coordinate, in steps 2**shift times
    as fine.

    They are exact modulo 2**64, as are the sums: the difference is small.

    Args:
        runs, coordinates, values, size, distinct, mask, factor: See
            `sparseq.engine.reduction.reduce`.
        weights: Mantissas and exponents, one per run; small enough that no weighted sum overflows.
        shift: The shift of the lattice, 0 to 46.

    Example:
        >>> runs = Runs.of(np.array([3, 3, 7], np.int32))
        >>> half, one = (2**15, 16), (2**16, 16)
        >>> weight_losses(runs, None, None, 1, False, (np.array([half[0], one[0]]),
        ...               np.array([half[1], one[1]])), 4).tolist()
        [16]
    """
    if not worthwhile(runs.rows):
        return weight_losses_numpy(
            runs, coordinates, values, size, distinct, weights, shift, mask, factor
        )
    loop, (mantissa, exponent) = compiled().row_loops.weight_losses, weights
    rows = None if mask is None else mask.words, coordinates, parts_of(values), factor

    def part(users: slice, totals: Ints) -> None:
        ends = runs.first[users], runs.stop[users]
        own = mantissa[users], exponent[users]
        loop(*ends, *rows, distinct, *own, shift, totals)

    return totals_by_part(runs, size, part)


def weight_losses_numpy(
    runs: Runs,
    coordinates: NDArray[np.signedinteger[Any]] | None,
    values: NDArray[Any] | ClampedNumbers | None,
    size: int,
    distinct: bool,
    weights: tuple[Ints, Ints],
    shift: int,
    mask: RowMask | None = None,
    factor: float = 1,
) -> Ints:
    """Compute `weight_losses` in NumPy."""
    run, k, v = listed_rows(runs, coordinates, values, mask, factor)
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
