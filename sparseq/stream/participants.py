"""Participants of a question: counted by pilots, weighted in the answer, billed for both.

`Contributors` says it in NumPy, a step at a time; `Loops` does the same, to the last bit, in one
pass over the people for each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparseq.accounting import Price, add_charges
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS, UNITS_PER_NORM
from sparseq.compiled import compiled, halves, worthwhile
from sparseq.engine.contributions import WEIGHT_BITS
from sparseq.engine.reduce import Index, Ints
from sparseq.stream.prices import charges_of, fit_for_compiled, limbs, rounded_up
from sparseq.stream.release_charges import Dues
from sparseq.stream.weights import (
    LEAST_LEFT,
    LEAST_SHARE,
    PILOT_BITS,
    Floats,
    allowances,
    countable,
    hats,
    joint_norms,
    weighted_norms,
    weights,
)


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
