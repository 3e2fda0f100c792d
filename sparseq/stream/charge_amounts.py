"""The price of one query of the stream to each user."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Price, add_charges, round_up
from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS
from sparseq.compiled import compiled, halves, worthwhile
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import NORM_LIMIT
from sparseq.ledger.accounts import Index, Ints
from sparseq.question.plan import Plan


def price(plan: Plan, contributions: Contributions) -> tuple[Index, Ints]:
    """Return the contributing users, and the charge of each, in ledger units.

    The charge is the sum over the measures of the squared norm at its price, each rounded up to a
    unit, and the sum then rounded up to `SIGNIFICANT_BITS`. Contributions keep the result: a repeat
    at the same prices returns it.
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
    """Return the union of several ascending lists of distinct users."""
    first, *others = parts
    if all(np.array_equal(first, other) for other in others):
        return first
    some = np.zeros(max(int(p[-1]) for p in parts if len(p)) + 1, np.bool_)
    for part in parts:
        some[part] = True
    return np.flatnonzero(some).astype(np.int32)


def charges_of(price: Price, norms: Ints) -> Ints:
    """Return the charge of each squared norm; a saturated norm costs more than every budget."""
    if can_compile(price, norms):
        return _charges_compiled(price, norms)
    charges = price.charge(norms)
    charges[norms >= NORM_LIMIT] = MAX_CHARGE
    return charges


def can_compile(price: Price, norms: NDArray[Any]) -> bool:
    """Tell whether the compiled loop can price these norms and is worthwhile."""
    return 1 <= price.shift <= 127 and worthwhile(len(norms))


def limbs(price: Price) -> tuple[np.uint64, np.uint64, int]:
    """Return a price for the compiled loop: the multiplier in two halves, and the shift."""
    upper, lower = divmod(price.multiplier, 2**32)
    return np.uint64(upper), np.uint64(lower), price.shift


def rounded_up(charges: Ints) -> Ints:
    """Return `round_up` of the charges."""
    return _rounded_compiled(charges) if worthwhile(len(charges)) else round_up(charges)


def _charges_compiled(price: Price, norms: Ints, significant_bits: int = 63) -> Ints:
    """Compute `Price.charge`, with `round_up` on request, by the compiled loop: equal integers."""
    charges = np.empty_like(norms)
    loop = compiled().charge
    price_of = (*limbs(price), MAX_CHARGE, significant_bits)
    halves(len(norms), lambda p: loop(norms[p], *price_of, charges[p]))
    return charges


def _rounded_compiled(charges: Ints) -> Ints:
    """Compute `round_up` by the compiled loop: equal integers."""
    rounded = np.empty(len(charges), np.int64)
    loop = compiled().round_up
    halves(len(charges), lambda p: loop(charges[p], SIGNIFICANT_BITS, rounded[p]))
    return rounded
