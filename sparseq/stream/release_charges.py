"""Charges of a release, and who can pay for them: the filter of Algorithm 2.

Source: Feldman & Zrnic (2021), Algorithm 2: user i's charge is the price of i's own contribution,
and i takes part iff it fits into what i has left. People are let in wholly or not at all
(`Bill.admit`), or part by part with what their weights leave (`Dues.admit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Price, add_charges, round_up
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS
from sparseq.compiled import compiled, halves, selected, worthwhile
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduce import NORM_LIMIT
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
        contributions.priced[prices] = _priced(plan, contributions)
    return contributions.priced[prices]


def _priced(plan: Plan, contributions: Contributions) -> tuple[Index, Ints]:
    measures = list(zip(plan.noise, contributions.measures, strict=True))
    if len(measures) == 1:
        noise, measure = measures[0]
        if fit_for_compiled(noise.price, measure.norms):
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
    if fit_for_compiled(price, norms):
        return _charges_compiled(price, norms)
    charges = price.charge(norms)
    charges[norms >= NORM_LIMIT] = MAX_CHARGE
    return charges


def fit_for_compiled(price: Price, norms: NDArray[Any]) -> bool:
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
    """What some people owe for the parts of one release so far: private.

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
    """What everybody owes for the parts of one release: private.

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
            found = self._lifetimes.admits(users[able], charges[able], apart)
            active[able], self._wholly = found
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
            return selected(self.users, charges > 0), selected(charges, charges > 0)
        return self.users, charges

    @property
    def lifetimes(self) -> LifetimeDues | None:
        """What everybody is charged over all windows."""
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
        found = np.zeros(len(users), np.int64)
        if len(self.users) and len(users):
            at = np.minimum(np.searchsorted(self.users, users), len(self.users) - 1)
            known = self.users[at] == users
            found[known] = self._owed[at[known]]
        return found


@dataclass(frozen=True)
class Admission:
    """Whom a release counts wholly: private.

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
    left_out = selected(users, ~active)
    return Admission(users, active, left_out, contributions.without(left_out))
