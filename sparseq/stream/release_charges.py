"""Charges of a release, and who can pay for them: the filter of Algorithm 2.

Source: Feldman & Zrnic (2021), Algorithm 2: user i's charge is the price of i's own contribution,
and i takes part iff it fits into what i has left. People are let in wholly or not at all
(`Bill.admit`), or part by part with what their weights leave (`Dues.admit`). Both are proved by
machine, for all analysts: docs/theorems/machine-checked.md.

Weights of people: allowances, cells of a pilot, and what they cost, person by person.

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

from sparseq.accounting import Price, add_charges, round_up
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS, UNITS_PER_NORM
from sparseq.compiled import compiled, halves, select, worthwhile
from sparseq.engine.contributions import NORM_LIMIT, WEIGHT_BITS, Contributions
from sparseq.ledger.accounts import Accounts, Index, Ints
from sparseq.ledger.lifetimes import LifeBill, LifeDues, LifetimeDues, Lifetimes
from sparseq.sql.plan import Plan

# -- the price of one query of the stream to each user ---------------------------------------------


def price(plan: Plan, contributions: Contributions) -> tuple[Index, Ints]:
    """Return who contributes, and what it costs each, in ledger units.

    The charge is the sum over the measures of the squared norm at its price, each rounded up to a
    unit, and then the whole to `SIGNIFICANT_BITS`. Contributions remember it: where they are asked
    for again at the same prices, it is the same.
    """
    prices = tuple(n.price for n in plan.noise)
    if prices not in contributions.priced:
        contributions.priced[prices] = _price(plan, contributions)
    return contributions.priced[prices]


def _price(plan: Plan, contributions: Contributions) -> tuple[Index, Ints]:
    measures = list(zip(plan.noise, contributions.measures, strict=True))
    if len(measures) == 1:
        noise, measure = measures[0]
        if can_compile(noise.price, measure.norms):
            return measure.users, _charges_compiled(noise.price, measure.norms, SIGNIFICANT_BITS)
        return measure.users, round_up(charges_of(noise.price, measure.norms))
    users = _union([m.users for _, m in measures])
    total = np.zeros(len(users), np.int64)
    for noise, measure in measures:
        charges = charges_of(noise.price, measure.norms)
        if len(measure.users) == len(users):
            total = add_charges(total, charges)
        else:
            at = np.searchsorted(users, measure.users)
            total[at] = add_charges(total[at], charges)
    return users, rounded_up(total)


def _union(parts: list[Index]) -> Index:
    """Return whoever is in one of several ascending lists of distinct people."""
    first, *others = parts
    if all(np.array_equal(first, other) for other in others):
        return first
    some = np.zeros(max(int(p[-1]) for p in parts if len(p)) + 1, np.bool_)
    for part in parts:
        some[part] = True
    return np.flatnonzero(some).astype(np.int32)


def charges_of(price: Price, norms: Ints) -> Ints:
    """Return the price of each squared norm; one that has saturated is beyond every budget."""
    if can_compile(price, norms):
        return _charges_compiled(price, norms)
    charges = price.charge(norms)
    charges[norms >= NORM_LIMIT] = MAX_CHARGE
    return charges


def can_compile(price: Price, norms: NDArray[Any]) -> bool:
    """Tell whether the compiled loop can price so many norms, and pays."""
    return 1 <= price.shift <= 127 and worthwhile(len(norms))


def limbs(price: Price) -> tuple[np.uint64, np.uint64, int]:
    """Return a price as the compiled loop takes it: the multiplier in two halves, and the shift."""
    upper, lower = divmod(price.multiplier, 2**32)
    return np.uint64(upper), np.uint64(lower), price.shift


def rounded_up(charges: Ints) -> Ints:
    """Return `round_up` of the charges."""
    return _rounded_compiled(charges) if worthwhile(len(charges)) else round_up(charges)


def _charges_compiled(price: Price, norms: Ints, significant_bits: int = 63) -> Ints:
    """`Price.charge`, and `round_up` if asked for, by the compiled loop: the same integers."""
    charges = np.empty_like(norms)
    loop = compiled().charge
    price_of = (*limbs(price), MAX_CHARGE, significant_bits)
    halves(len(norms), lambda p: loop(norms[p], *price_of, charges[p]))
    return charges


def _rounded_compiled(charges: Ints) -> Ints:
    """`round_up` by the compiled loop: the same integers."""
    rounded = np.empty(len(charges), np.int64)
    loop = compiled().round_up
    halves(len(charges), lambda p: loop(charges[p], SIGNIFICANT_BITS, rounded[p]))
    return rounded


# -- charges of a release, and who can pay for them: the filter of Algorithm 2 ---------------------


@dataclass(frozen=True)
class Dues:
    """The debts of some people for the parts of one release so far: private.

    Charges are added up exactly, and rounded up once for all parts.

    Attributes:
        users: Who, ascending.
        left: What each had left before this release, in ledger units.
        owed: What each owes; grows.
        life: Where people have accounts over all of their windows, what they owe there.
    """

    users: Index
    left: Ints
    owed: Ints
    life: LifeDues | None = None

    def admit(self, due: Ints, apart: bool = False) -> NDArray[np.bool_]:
        """Bill a part to all who can pay it; tell who can (Algorithm 2).

        Args:
            due: What it costs each.
            apart: No value of the part adds up two windows of a person.
        """
        with_it = add_charges(self.owed, due)
        active = rounded_up(with_it) <= self.left
        if self.life is not None:
            active = self.life.admit(due, active, apart)
        np.copyto(self.owed, with_it, where=active)
        return active


class Bill:
    """Everybody's debts for the parts of one release: private.

    Example:
        >>> bill = Bill(Accounts(np.array([10, 10])))
        >>> bill.admit(np.array([0, 1], np.int32), np.array([4, 11])).tolist()
        [True, False]
        >>> [some.tolist() for some in bill.paid()]
        [[0], [4]]

    Args:
        accounts: What it is paid from.
        lifetimes: And what of all windows of a person together; None: there is no such cap.

    Attributes:
        users: Who owes something, or was asked to.
    """

    def __init__(self, accounts: Accounts, lifetimes: Lifetimes | None = None) -> None:
        self._accounts, self._lifetimes = accounts, lifetimes
        self._life = None if lifetimes is None else LifeBill(lifetimes)
        self._wholly: LifetimeDues | None = None
        self._final = False  # what is owed is what is charged
        self.users: Index = np.zeros(0, np.int32)
        self._owed: Ints = np.zeros(0, np.int64)

    def admit(self, users: Index, charges: Ints, apart: bool = False) -> NDArray[np.bool_]:
        """Bill the one part of a release to all who can pay it; tell who can.

        Args:
            users: Who contributes, ascending.
            charges: What it costs each: whole and rounded up.
            apart: No value adds up two windows of a person.
        """
        left = self._accounts.left(users)
        active = charges <= left
        if self._lifetimes is not None:
            able = np.flatnonzero(active)
            able_for_life = self._lifetimes.admits(users[able], charges[able], apart)
            active[able], self._wholly = able_for_life
        self.users, self._owed, self._final = users, charges, True  # read only: others keep them
        if not active.all():
            self._owed = np.where(active, charges, left if self._accounts.halt else 0)
        return active

    def paid(self) -> tuple[Index, Ints]:
        """Return who pays, and how much, in ledger units.

        Where few pay nothing they stay in the list, with 0, since a range of users without gaps is
        the quickest to write.
        """
        charges = self._owed if self._final else rounded_up(self._owed)
        owing = np.count_nonzero(charges)
        if 8 * owing < 7 * len(charges):
            return select(self.users, charges > 0), select(charges, charges > 0)
        return self.users, charges

    @property
    def lifetimes(self) -> LifetimeDues | None:
        """Everybody's charges over all windows."""
        if self._wholly is None and self._life is not None:
            return self._life.dues
        return self._wholly

    def of(self, users: Index) -> Dues:
        """Return what some people owe; what they are billed then comes back by `put`."""
        life = None if self._life is None else self._life.of(users)
        return Dues(users, self._accounts.left(users), self._owed_by(users), life)

    def put(self, dues: Dues) -> None:
        """Take in what people owe now."""
        if len(self.users) == 0 or self._are(dues.users):
            self.users, self._owed = dues.users, dues.owed
            return
        everybody = np.union1d(self.users, dues.users).astype(np.int32)
        total = np.zeros(len(everybody), np.int64)
        total[np.searchsorted(everybody, self.users)] = self._owed
        total[np.searchsorted(everybody, dues.users)] = dues.owed
        self.users, self._owed = everybody, total

    def _are(self, users: Index) -> bool:
        return users is self.users or np.array_equal(users, self.users)

    def _owed_by(self, users: Index) -> Ints:
        if self._are(users):
            return self._owed
        owed = np.zeros(len(users), np.int64)
        if len(self.users) and len(users):
            at = np.minimum(np.searchsorted(self.users, users), len(self.users) - 1)
            there = self.users[at] == users
            owed[there] = self._owed[at[there]]
        return owed


@dataclass(frozen=True)
class Admission:
    """The people whom a release counts wholly: private.

    Attributes:
        users, active: Who contributes, ascending, and who of them can pay.
        left_out: Who can't, ascending.
        sums: Over the active, one array a measure.
    """

    users: Index
    active: NDArray[np.bool_]
    left_out: Index
    sums: list[Ints]


def admit(plan: Plan, contributions: Contributions, bill: Bill) -> Admission:
    """Price a question, bill whoever can pay for it, and add up over these: in or out."""
    users, charges = price(plan, contributions)
    active = bill.admit(users, charges, plan.query.apart)
    left_out = select(users, ~active)
    return Admission(users, active, left_out, contributions.without(left_out))


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
    """Each person's part of a pilot: two neighbouring cells, in 2**-PILOT_BITS of a person.

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
    squares = np.where(gone, (top | bottom) != 0, np.where(shift >= 31, far, near))
    return np.asarray(squares, np.int64)


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
    """The people who count less than wholly: private.

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
        exponents: See `sparseq.stream.release_charges.joint_norms`.
        cautious: See `sparseq.stream.release_charges.allowances`.
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
        self.r, self.a = self._measure(exponents, cautious)
        if dues.life is not None:
            whole = allowances(dues.life.shares(self.r > 0), for_life, LEAST_SHARE)
            self.a = np.minimum(self.a, whole)

    def _measure(self, exponents: Sequence[int], cautious: float) -> tuple[Floats, Floats]:
        left = self.dues.left - rounded_up(self.dues.owed)
        return joint_norms(self.norms, exponents), allowances(left, cautious)

    def tally(self, edges: Floats, start: int, price: Price) -> Ints:
        """Bill everybody's two cells of a pilot, and return the sums over those who can pay."""
        all_hats = hats(self.r, self.a, edges, start)
        active = self.dues.admit(price.charge(all_hats.norms))
        return all_hats.only(active).histogram(len(edges))

    def weigh(
        self, scale: float, measures: Sequence[tuple[Price, int]], apart: bool = False
    ) -> Lighter:
        """Bill everybody's weighted vector, and return the weights; who can't pay has none.

        Args:
            scale: C, in joint units.
            measures: Price of each, and how much finer its norms are priced, see
                `sparseq.stream.release_charges.weighted_norms`.
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

    def _measure(self, exponents: Sequence[int], cautious: float) -> tuple[Floats, Floats]:
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
    aligned = []
    for some, norms in parts:
        whole = np.zeros(len(users), np.int64)
        whole[np.searchsorted(users, some)] = norms
        aligned.append(whole)
    return users, aligned


def _loops() -> Any:
    return compiled().weights
