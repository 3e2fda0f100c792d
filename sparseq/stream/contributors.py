"""Contributors to a question: counted by pilots, weighted in the answer, billed for both.

`Contributors` computes in NumPy, step by step; `Loops` computes the same bits in one compiled pass
over the users per part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparseq.accounting import Price, add_charges
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS, UNITS_PER_NORM
from sparseq.compiled import compiled, halves, merged, worthwhile
from sparseq.engine.weighted_reduction import WEIGHT_BITS
from sparseq.ledger.accounts import Index, Ints
from sparseq.stream.charge_amounts import can_compile, charges_of, limbs, rounded_up
from sparseq.stream.release_charges import Dues
from sparseq.stream.user_weights import (
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
    """The users with a weight below 1: private.

    Attributes:
        users, mantissa, exponent: The users whose weight is not 1, and their weights.
        faint: The users whose weight is below one half.
    """

    users: Index
    mantissa: Ints
    exponent: Ints
    faint: Index


class Contributors:
    """Norms and allowances of the contributors to a question: private.

    Args:
        dues: Their debts for the release so far; each part adds to them.
        norms: Squared norms in lattice steps, by measure.
        exponents: See `sparseq.stream.user_weights.joint_norms`.
        cautious: See `sparseq.stream.user_weights.allowances`.
        for_life: The same for all windows of a user, where these have a cap.

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
        self.r, self.a = self._measure(exponents, cautious)
        if dues.life is not None:
            whole = allowances(dues.life.shares(self.r > 0), for_life, LEAST_SHARE)
            self.a = np.minimum(self.a, whole)

    def _measure(self, exponents: Sequence[int], cautious: float) -> tuple[Floats, Floats]:
        left = self.dues.left - rounded_up(self.dues.owed)
        return joint_norms(self.norms, exponents), allowances(left, cautious)

    def tally(self, edges: Floats, start: int, price: Price) -> Ints:
        """Bill every user's two cells of a pilot; return the sums over the admitted users."""
        all_hats = hats(self.r, self.a, edges, start)
        active = self.dues.admit(price.charge(all_hats.norms))
        return all_hats.only(active).histogram(len(edges))

    def weigh(
        self, scale: float, measures: Sequence[tuple[Price, int]], apart: bool = False
    ) -> Lighter:
        """Bill every user's weighted vector; return the weights, 0 for users who cannot pay.

        Args:
            scale: C, in joint units.
            measures: The price of each measure, and `finer` for its norms (see
                `sparseq.stream.user_weights.weighted_norms`).
            apart: No released number adds up two windows of one user.
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
    """An implementation of `Contributors` with compiled loops."""

    def _measure(self, exponents: Sequence[int], cautious: float) -> tuple[Floats, Floats]:
        size, left, owed, loops = len(self.dues.left), self.dues.left, self.dues.owed, _loops()
        r, a = np.zeros(size), np.empty(size)
        for norms, k in zip(self.norms, exponents, strict=True):
            add, factor = loops.add_squares, 4.0**k
            halves(size, lambda p: add(norms[p], factor, r[p]))  # noqa: B023
        units, find = cautious * UNITS_PER_NORM, loops.allowances
        halves(size, lambda p: find(left[p], owed[p], SIGNIFICANT_BITS, units, LEAST_LEFT, a[p]))
        return np.sqrt(r, out=r), a

    def tally(self, edges: Floats, start: int, price: Price) -> Ints:
        """See `Contributors`."""
        if not can_compile(price, self.r):
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
        if not all(can_compile(price, self.r) for price, _ in measures):
            return super().weigh(scale, measures, apart)
        size, dues, loop = len(self.r), self.dues, _loops().weigh
        norms = np.stack(self.norms) if len(self.norms) > 1 else self.norms[0].reshape(1, -1)
        costs = [(*limbs(price), finer) for price, finer in measures]
        kinds = np.uint64, np.uint64, np.int64, np.int64
        prices = tuple(
            np.array(x, kind) for x, kind in zip(zip(*costs, strict=True), kinds, strict=True)
        )
        users, faint = np.empty(size, np.int32), np.empty(size, np.int32)
        lighter = users, np.empty(size, np.int64), np.empty(size, np.int64)
        account = MAX_CHARGE, SIGNIFICANT_BITS, dues.left, dues.owed, dues.users
        given = self.r, self.a, scale, norms, prices, *account, WEIGHT_BITS
        counts = list[tuple[int, int, int]]()

        def half(p: slice) -> None:
            counts.append((p.start, *loop(p.start, p.stop, *given, lighter, faint)))

        halves(size, half)
        counts.sort()
        of_all = [np.concatenate([x[at : at + many] for at, many, _ in counts]) for x in lighter]
        few_of = np.concatenate([faint[at : at + few] for at, _, few in counts])
        return Lighter(of_all[0], of_all[1], of_all[2], few_of)


def contributors(
    dues: Dues, norms: list[Ints], exponents: Sequence[int], cautious: float, for_life: float
) -> Contributors:
    """Return the contributors: `Loops` if they are many and have accounts of one kind."""
    kind = Loops if worthwhile(len(dues.users)) and dues.life is None else Contributors
    return kind(dues, norms, exponents, cautious, for_life)


def together(parts: list[tuple[Index, Ints]]) -> tuple[Index, list[Ints]]:
    """Return the users of several measures, and every user's squared norm in each."""
    first = parts[0][0]
    if all(users is first or np.array_equal(first, users) for users, _ in parts[1:]):
        return first, [norms for _, norms in parts]
    users, places = first, [np.arange(len(first))]
    for some, _ in parts[1:]:
        users, before, now = merged(users, some)
        places = [*(before[at] for at in places), now]
    aligned = []
    for at, (_, norms) in zip(places, parts, strict=True):
        whole = np.zeros(len(users), np.int64)
        whole[at] = norms
        aligned.append(whole)
    return users, aligned


def _loops() -> Any:
    return compiled().weights
