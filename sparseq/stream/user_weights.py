"""Weights of users: allowances, cells of a pilot, and their cost, user by user.

Every step treats one user at a time and is integer arithmetic, one correctly rounded + - × ÷ √, a
comparison with public edges, or frexp, which is exact. So a user's summands and charges are the
same with other users and alone, on every machine. Vectors that depend on the user's own rows, own
account and past releases are covered by Algorithm 2 of Feldman & Zrnic (2021), with the weights of
its Algorithm 3; docs/theorems/pilots.md has the theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.engine.weighted_reduction import WEIGHT_BITS
from sparseq.ledger.accounts import Ints

Floats = NDArray[np.float64]

PILOT_BITS = 16
"""One user is 2**16 lattice steps of a pilot."""
LEAST_LEFT = 64
"""Ledger units below which a user does not take part: room for the rounding of charges."""
LEAST_SHARE = 4096
"""The same for a window's share of its user's lifetime budget: room for roots of charges, too."""
_FINEST = 58  # bits of a priced squared norm


def allowances(left: Ints, cautious: float, least: int = LEAST_LEFT) -> Floats:
    """Return a_i = sqrt(min(1, left_i / cautious)), which is 1 until less than `cautious` is left.

    Args:
        left: The remainder of each user's budget, in ledger units.
        cautious: tau_t · p of the design, in squared norm; public.
        least: Users with less left take no part.

    Example:
        >>> allowances(np.array([2**28, 2**24, 0]), 4.0).tolist()
        [1.0, 0.5, 0.0]
    """
    units = cautious * UNITS_PER_NORM
    share = np.minimum(1.0, left / units)
    return np.where(left < least, 0.0, np.sqrt(share))


def joint_norms(norms: Sequence[Ints], exponents: Sequence[int]) -> Floats:
    """Return every user's r_i, the norm over all measures in their joint unit.

    Args:
        norms: Squared norms in lattice steps, one array per measure, for the same users.
        exponents: One k per measure, whose lattice step is 2**k joint units. The squares are added
            in the order of the measures.

    Example:
        >>> joint_norms([np.array([9]), np.array([64])], [0, -1]).tolist()
        [5.0]
    """
    total = np.zeros(len(norms[0]))
    for squares, k in zip(norms, exponents, strict=True):
        total += squares.astype(np.float64) * 4.0**k
    return np.sqrt(total)


@dataclass(frozen=True)
class Hats:
    """Each user's contribution to a pilot: two adjacent cells, in 2**-PILOT_BITS of a user.

    `low` is added to `cell` - 1, `high` to `cell`.
    """

    cell: Ints
    low: Ints
    high: Ints

    def histogram(self, cells: int) -> Ints:
        """Return the sums over all users, one per cell."""
        total = np.zeros(cells, np.int64)
        np.add.at(total, self.cell, self.high)
        np.add.at(total, np.maximum(self.cell - 1, 0), self.low)
        return total

    @property
    def norms(self) -> Ints:
        """Squared norms, in lattice steps of the pilot."""
        return self.low * self.low + self.high * self.high

    def only(self, active: NDArray[np.bool_]) -> Hats:
        """Return the same without contributions of users who are not active."""
        if active.all():
            return self
        return Hats(self.cell, self.low * active, self.high * active)


def hats(r: Floats, a: Floats, edges: Floats, start: int = 0) -> Hats:
    """Return every user's two cells on the ladder of r/a: a(1-t) and a t.

    For C on an edge, sum_k h_k (e_k - C)+ then equals, up to rounding, sum_i (r_i - C a_i)+, the
    mass that C would cut; between edges it is larger.

    Args:
        r, a: Norms and allowances.
        edges: Ascending; the last one is at least the greatest norm that a user can have.
        start: Cells below it are left out, and cost nothing.

    Example:
        >>> h = hats(np.array([3.0]), np.array([1.0]), np.array([1.0, 2.0, 4.0]))
        >>> h.histogram(3).tolist()
        [0, 32768, 32768]
    """
    last = len(edges) - 1
    rho = np.divide(r, a, out=np.full_like(r, edges[-1]), where=a > 0)
    cell = np.minimum(np.searchsorted(edges, rho, side="left"), last)
    below = np.where(cell > 0, edges[np.maximum(cell - 1, 0)], 0.0)
    t = np.clip((rho - below) / (edges[cell] - below), 0.0, 1.0)
    step = float(1 << PILOT_BITS)
    high = np.floor(a * t * step).astype(np.int64)
    low = np.floor(a * (1.0 - t) * step).astype(np.int64)
    there = r > 0
    return Hats(
        cell.astype(np.int64),
        np.where(there & (cell > start), low, 0),
        np.where(there & (cell >= start), high, 0),
    )


def weights(r: Floats, a: Floats, scale: float) -> tuple[Ints, Ints]:
    """Return w_i = min(1, C a_i / r_i) as mantissas and exponents, rounded down to 16 bits.

    Example:
        >>> weights(np.array([1.0, 8.0]), np.array([1.0, 1.0]), 1.0)
        (array([32768, 32768]), array([15, 18]))
    """
    w = np.minimum(1.0, np.divide(scale * a, r, out=np.ones_like(r), where=r > 0))
    fraction, exponent = np.frexp(w)
    mantissa = np.floor(fraction * (1 << WEIGHT_BITS)).astype(np.int64)
    return mantissa, WEIGHT_BITS - exponent.astype(np.int64)


def weighted_norms(norms: Ints, mantissa: Ints, exponent: Ints, finer: int) -> Ints:
    """Return ceil(w² S 4**finer): upper bounds of summed vectors' squared norms, in finer steps.

    It uses 64-bit words: m² S is kept as a number of at most 63 bits times 2**31, plus a number
    below 2**31.

    Args:
        norms: S, in lattice steps squared; a saturated norm must have weight 0.
        mantissa, exponent: Mantissas and exponents of the weights.
        finer: Such that w² S 4**finer < 2**62; may be negative.

    Example:
        >>> weighted_norms(np.array([9]), np.array([2**15]), np.array([16]), 0).tolist()
        [3]
    """
    limb = np.uint64(31)
    mask = np.uint64(2**31 - 1)
    square = (mantissa * mantissa).astype(np.uint64)
    s = norms.astype(np.uint64)
    bottom = (s & mask) * square
    top = (s >> limb) * square + (bottom >> limb)
    bottom = bottom & mask
    shift = 2 * exponent - 2 * finer  # of top · 2**31 + bottom, to the right
    right = np.clip(shift - 31, 0, 63).astype(np.uint64)
    one = np.uint64(1)
    far = (top >> right) + (((top & ((one << right) - one)) | bottom) != 0)
    left = np.clip(31 - shift, 0, 63).astype(np.uint64)
    spare = np.clip(shift, 0, 31).astype(np.uint64)
    up = np.clip(-shift, 0, 63).astype(np.uint64)
    near = (top << left) + ((bottom >> spare) << up) + ((bottom & ((one << spare) - one)) != 0)
    gone = shift - 31 > 63
    squares = np.where(gone, (top | bottom) != 0, np.where(shift >= 31, far, near))
    return np.asarray(squares, np.int64)


def finer_steps(lattice_scale: float) -> int:
    """Return `finer` for `weighted_norms` with weights that reduce norms to a scale.

    Args:
        lattice_scale: The scale C, in lattice steps.
    """
    fraction, power = math.frexp(lattice_scale)
    return _FINEST // 2 - (power - (fraction == 0.5))


def countable(norms: Ints) -> NDArray[np.bool_]:
    """Return a mask of the users whose squared norm has not saturated; others get no weight."""
    return norms < NORM_LIMIT
