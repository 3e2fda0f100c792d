"""Weights of people: allowances, cells of a pilot, and what they cost, person by person.

Every step is integer arithmetic or one correctly rounded + - × ÷ √, comparisons with public edges
and frexp, which is exact, one person at a time: what a person adds to a sum, and pays for it, is
the same in a crowd and alone, on every machine. docs/theorems/pilots.md has the theorem: vectors
that depend on one's own rows, one's own account and past releases are what Algorithm 2 of Feldman
& Zrnic (2021) is about, with the weights of its Algorithm 3.

Participants of a question: counted by pilots, weighted in the answer, billed for both.

`Contributors` says it in NumPy, a step at a time; `Loops` does the same, to the last bit, in one
pass over the people for each part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Price, add_charges
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS, UNITS_PER_NORM
from sparseq.compiled import compiled, halves, worthwhile
from sparseq.engine.contributions import WEIGHT_BITS
from sparseq.engine.reduce import NORM_LIMIT, Index, Ints
from sparseq.stream.release_charges import Dues, charges_of, fit_for_compiled, limbs, rounded_up

# -- weights of people: allowances, cells of a pilot, and what they cost, person by person ---------

Floats = NDArray[np.float64]

PILOT_BITS = 16
"""One person is 2**16 lattice steps of a pilot."""
LEAST_LEFT = 64
"""Ledger units below which nobody takes part: room for the roundings of charges."""
LEAST_SHARE = 4096
"""The same of what a window has of what its person has for life: room for roots of charges, too."""
_FINEST = 58  # bits of a squared norm that is priced


def allowances(left: Ints, cautious: float, least: int = LEAST_LEFT) -> Floats:
    """Return a_i = sqrt(min(1, left_i / cautious)): 1 until that little is left.

    Args:
        left: Of each person's budget, in ledger units.
        cautious: tau_t · p of the design, in squared norm; public.
        least: Whoever has less left takes no part.

    Example:
        >>> allowances(np.array([2**28, 2**24, 0]), 4.0).tolist()
        [1.0, 0.5, 0.0]
    """
    units = cautious * UNITS_PER_NORM
    share = np.minimum(1.0, left / units)
    return np.where(left < least, 0.0, np.sqrt(share))


def joint_norms(norms: Sequence[Ints], exponents: Sequence[int]) -> Floats:
    """Return everybody's r_i, the norm over all measures in their joint unit.

    Args:
        norms: Squared norms in lattice steps, one array a measure, of the same people.
        exponents: 2**k joint units are a measure's lattice step, one k a measure. With several
            measures the order of addition is theirs.

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
    """What each person adds to a pilot: two neighbouring cells, in 2**-PILOT_BITS of a person.

    `low` goes to `cell` - 1, `high` to `cell`.
    """

    cell: Ints
    low: Ints
    high: Ints

    def histogram(self, cells: int) -> Ints:
        """Return the sums over everybody, a cell each."""
        total = np.zeros(cells, np.int64)
        np.add.at(total, self.cell, self.high)
        np.add.at(total, np.maximum(self.cell - 1, 0), self.low)
        return total

    @property
    def norms(self) -> Ints:
        """Squared norms, in lattice steps of the pilot."""
        return self.low * self.low + self.high * self.high

    def only(self, active: NDArray[np.bool_]) -> Hats:
        """Return the same with nothing from whoever is not active."""
        if active.all():
            return self
        return Hats(self.cell, self.low * active, self.high * active)


def hats(r: Floats, a: Floats, edges: Floats, start: int = 0) -> Hats:
    """Return everybody's two cells on the ladder of r/a: a(1-t) and a t.

    For C on an edge, sum_k h_k (e_k - C)+ is then sum_i (r_i - C a_i)+ up to the rounding, the
    mass that C would cut; between edges it is more.

    Args:
        r, a: Norms and allowances.
        edges: Ascending; the last one is at least the greatest norm that anybody can have.
        start: Cells below are left out, and cost nothing.

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
    """Return ceil(w² S 4**finer): squared norms of what is summed, in finer steps, from above.

    In 64-bit words: m² S is kept as a product of at most 63 bits times 2**31, and one below 2**31.

    Args:
        norms: S, in lattice steps squared; one that has saturated must have no weight.
        mantissa, exponent: Of the weights.
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
    found = np.where(gone, (top | bottom) != 0, np.where(shift >= 31, far, near))
    return np.asarray(found, np.int64)


def finer_steps(lattice_scale: float) -> int:
    """Return the `finer` of `weighted_norms` for weights that bring norms down to a scale.

    Args:
        lattice_scale: C, in lattice steps.
    """
    fraction, power = math.frexp(lattice_scale)
    return _FINEST // 2 - (power - (fraction == 0.5))


def countable(norms: Ints) -> NDArray[np.bool_]:
    """Tell whose squared norm has not saturated: nobody else can be weighted."""
    return norms < NORM_LIMIT


# -- participants of a question: counted by pilots, weighted in the answer, billed for both --------


@dataclass(frozen=True)
class Lighter:
    """Who counts less than wholly: private.

    Attributes:
        users, mantissa, exponent: Whose weight is not 1, and the weight.
        faint: Whose weight is below one half.
    """

    users: Index
    mantissa: Ints
    exponent: Ints
    faint: Index


class Contributors:
    """Norms and allowances of whoever takes part in a question: private.

    Args:
        dues: What they owe for the release so far; grows with each part.
        norms: Squared norms in lattice steps, by measure.
        exponents: See `sparseq.stream.weights.joint_norms`.
        cautious: See `sparseq.stream.weights.allowances`.
        for_life: The same over all windows of a person, where these have a cap.

    Attributes:
        r, a: Joint norms, and allowances from the account before the question.
    """

    def __init__(
        self,
        dues: Dues,
        norms: list[Ints],
        exponents: Sequence[int],
        cautious: float,
        for_life: float = 1.0,
    ) -> None:
        self.dues, self.norms = dues, norms
        self.r, self.a = self._measured(exponents, cautious)
        if dues.life is not None:
            whole = allowances(dues.life.shares(self.r > 0), for_life, LEAST_SHARE)
            self.a = np.minimum(self.a, whole)

    def _measured(self, exponents: Sequence[int], cautious: float) -> tuple[Floats, Floats]:
        left = self.dues.left - rounded_up(self.dues.owed)
        return joint_norms(self.norms, exponents), allowances(left, cautious)

    def tally(self, edges: Floats, start: int, price: Price) -> Ints:
        """Bill everybody's two cells of a pilot, and return the sums over those who can pay."""
        found = hats(self.r, self.a, edges, start)
        active = self.dues.admit(price.charge(found.norms))
        return found.only(active).histogram(len(edges))

    def weigh(
        self, scale: float, measures: Sequence[tuple[Price, int]], apart: bool = False
    ) -> Lighter:
        """Bill everybody's weighted vector, and return the weights; who can't pay has none.

        Args:
            scale: C, in joint units.
            measures: Price of each, and how much finer its norms are priced, see
                `sparseq.stream.weights.weighted_norms`.
            apart: No value adds up two windows of a person.
        """
        mantissa, exponent = weights(self.r, self.a, scale)
        there = np.logical_and.reduce([countable(n) for n in self.norms])
        mantissa = mantissa * there
        due = np.zeros(len(mantissa), np.int64)
        for norms, (price, finer) in zip(self.norms, measures, strict=True):
            counted = weighted_norms(norms * there, mantissa, exponent, finer)
            due = add_charges(due, charges_of(price, counted))
        mantissa = mantissa * self.dues.admit(due, apart)
        less = (mantissa != 1 << (WEIGHT_BITS - 1)) | (exponent != WEIGHT_BITS - 1)
        faint = (mantissa == 0) | (exponent > WEIGHT_BITS)
        users = self.dues.users
        return Lighter(users[less], mantissa[less], exponent[less], users[faint])


class Loops(Contributors):
    """`Contributors` by compiled loops."""

    def _measured(self, exponents: Sequence[int], cautious: float) -> tuple[Floats, Floats]:
        size, left, owed, loops = len(self.dues.left), self.dues.left, self.dues.owed, _loops()
        r, a, saturated = np.zeros(size), np.empty(size), []
        for norms, k in zip(self.norms, exponents, strict=True):
            add, factor = loops.add_squares, 4.0**k
            halves(size, lambda p: saturated.append(add(norms[p], factor, r[p])))  # noqa: B023
        self._saturated = any(saturated)
        units, find = cautious * UNITS_PER_NORM, loops.allowances
        halves(size, lambda p: find(left[p], owed[p], SIGNIFICANT_BITS, units, LEAST_LEFT, a[p]))
        return np.sqrt(r, out=r), a

    def tally(self, edges: Floats, start: int, price: Price) -> Ints:
        """See `Contributors`."""
        if not fit_for_compiled(price, self.r):
            return super().tally(edges, start, price)
        r, a, left, owed, loop = self.r, self.a, self.dues.left, self.dues.owed, _loops().pilot
        step, cost, parts = float(1 << PILOT_BITS), (*limbs(price), MAX_CHARGE), list[Ints]()

        def half(p: slice) -> None:
            totals = np.zeros(len(edges), np.int64)
            loop(r[p], a[p], edges, start, step, cost, SIGNIFICANT_BITS, left[p], owed[p], totals)
            parts.append(totals)

        halves(len(r), half)
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64))

    def weigh(
        self, scale: float, measures: Sequence[tuple[Price, int]], apart: bool = False
    ) -> Lighter:
        """See `Contributors`."""
        if not all(fit_for_compiled(price, self.r) for price, _ in measures):
            return super().weigh(scale, measures, apart)
        r, a, left, owed, loops = self.r, self.a, self.dues.left, self.dues.owed, _loops()
        mantissa, exponent, due = (np.zeros(len(r), np.int64) for _ in range(3))

        def half(p: slice) -> None:
            loops.weights(r[p], a[p], scale, float(1 << WEIGHT_BITS), mantissa[p], exponent[p])
            for norms in self.norms if self._saturated else ():
                loops.drop_saturated(norms[p], mantissa[p])
            for norms, (price, finer) in zip(self.norms, measures, strict=True):
                cost = (*limbs(price), MAX_CHARGE)
                loops.add_dues(norms[p], mantissa[p], exponent[p], finer, cost, due[p])
            loops.settle(due[p], MAX_CHARGE, SIGNIFICANT_BITS, left[p], owed[p], mantissa[p])

        halves(len(r), half)
        users = self.dues.users
        less, faint = np.empty(len(r) + 1, np.int64), np.empty(len(r) + 1, np.int32)
        many, few = loops.less_than_one(users, mantissa, exponent, WEIGHT_BITS, less, faint)
        at = less[:many]
        return Lighter(users[at], mantissa[at], exponent[at], faint[:few].copy())


def contributors(
    dues: Dues, norms: list[Ints], exponents: Sequence[int], cautious: float, for_life: float
) -> Contributors:
    """Return whoever takes part, by loops where there are many accounts of one kind."""
    kind = Loops if worthwhile(len(dues.users)) and dues.life is None else Contributors
    return kind(dues, norms, exponents, cautious, for_life)


def together(parts: list[tuple[Index, Ints]]) -> tuple[Index, list[Ints]]:
    """Return the users of several measures, and everybody's squared norm in each."""
    first = parts[0][0]
    if all(np.array_equal(first, users) for users, _ in parts[1:]):
        return first, [norms for _, norms in parts]
    users = np.unique(np.concatenate([u for u, _ in parts]))
    found = []
    for some, norms in parts:
        whole = np.zeros(len(users), np.int64)
        whole[np.searchsorted(users, some)] = norms
        found.append(whole)
    return users, found


def _loops() -> Any:
    return compiled().weights
