"""Sums under weights: everybody's vector times the person's own weight, in integers.

A weight is w = m · 2**-x with m of 16 significant bits. The vector that is summed is the truncation
towards zero of w · q(X_i) to a lattice 2**shift times as fine as that of q: cell by cell, after the
rows of a person in a cell have been added up, so that no cell grows by it and the squared norm of
what is summed is at most w² ‖q(X_i)‖². With the shift at x nothing is truncated.

Two versions, one meaning: NumPy, and a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import compiled, worthwhile
from sparseq.engine.reduce import Index, Ints, Runs

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
