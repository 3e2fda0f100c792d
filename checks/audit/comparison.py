"""What may differ between neighbours, and what may not: every rule of the audit, one function each.

Once outputs are frozen, nothing public may differ. Of private values: everybody else is charged the
same, to the bit; the sums differ by the one person's contribution, which is the same in the crowd
and alone; and the person has paid for at least that. The price is computed again here, as a
rational number, from the noise and the lattice that the answer states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from checks.audit.neighbours import ALONE, NOBODY, PAIRS, WITH, WITHOUT
from checks.audit.seams import DENSE, Seen, Step

UNITS = 2**24
LEAST_STEPS = 2**16
"""Dense vectors are charged by norms that were rounded up, at this coarser step."""


@dataclass(frozen=True)
class Finding:
    """A leak: the `rule` that it breaks, and a description."""

    rule: str
    detail: str
    case: str = ""
    reproduction: str = ""


@dataclass(frozen=True)
class Terms:
    """The budget of a store: public."""

    kappa: float
    norm_budget: float

    def price(self, sigma: float, granularity: float) -> Fraction:
        """Return ledger units for one squared lattice step: (g sigma_0 / sigma)², exactly."""
        variance = Fraction(self.norm_budget) / (2 * Fraction(self.kappa))
        return (Fraction(granularity) / Fraction(sigma)) ** 2 * variance * UNITS


def compare(
    seen: Mapping[str, Seen], who: object, terms: Terms, path: bool = True
) -> Iterator[Finding]:
    """Yield what breaks a rule among what four neighbouring stores showed and did."""
    yield from _raised(seen)
    yield from _public(seen)
    yield from told_free(seen)
    for without, with_ in PAIRS:
        yield from _others(seen[without], seen[with_], who)
        if path and seen[without].path != seen[with_].path:
            yield Finding("path", _first_difference(seen[without].path, seen[with_].path))
    for one in seen.values():
        if one.overdrawn:
            yield Finding("overdrawn", f"{len(one.overdrawn)} accounts spent more than they had")
        yield from (Finding("backstop", t) for t in one.told if t.startswith("engine"))
    yield from _person(seen, who, terms)


def _raised(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    for variant, one in seen.items():
        if one.public[0] == "raised":
            yield Finding("raw error", f"{variant}: {one.public[1]}: {one.public[2][:200]}")
            return


def _public(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    first = seen[WITHOUT].public
    for variant, one in seen.items():
        if one.public != first:
            words = " | ".join(_first_difference(a, b) for a, b in [(first, one.public)])
            rule = (
                "outcome"
                if one.public[0] != first[0]
                else "answer"
                if (first[0] == "answered")
                else "wording"
            )
            yield Finding(rule, f"{WITHOUT} and {variant}: {words}")
            return


def told_free(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    """Check that free public facts, before a question and about the store, do not differ."""
    first = seen[WITHOUT].free
    for variant, one in seen.items():
        if one.free != first:
            detail = f"{WITHOUT} and {variant}: {_first_difference(first, one.free)}"
            yield Finding("told for nothing", detail)
            return


def _others(without: Seen, with_: Seen, who: object) -> Iterator[Finding]:
    """Everybody else pays the same, and is left out of the same."""
    if len(without.steps) != len(with_.steps):
        yield Finding("steps", f"{len(without.steps)} releases, and {len(with_.steps)}")
        return
    for one, other in zip(without.steps, with_.steps, strict=True):
        if _shape(one) != _shape(other):
            yield Finding("steps", f"{_shape(one)} values are released, and {_shape(other)}")
            return
        mine = {i: c for i, c in one.charges.items() if i != who}
        theirs = {i: c for i, c in other.charges.items() if i != who}
        if mine != theirs:
            some = next(i for i in {*mine, *theirs} if mine.get(i) != theirs.get(i))
            yield Finding(
                "charges of others",
                f"{some} pays {mine.get(some, 0)} and {theirs.get(some, 0)} units",
            )
            return
        if one.out - {who} != other.out - {who}:
            yield Finding("activity of others", f"left out: {sorted(one.out ^ other.out)[:3]}")
            return
    for pot, spent in without.spent.items():
        rest = {i: s for i, s in with_.spent.get(pot, {}).items() if i != who}
        if {i: s for i, s in spent.items() if i != who} != rest:
            mine = {i: s for i, s in spent.items() if i != who}
            some = next(i for i in {*mine, *rest} if mine.get(i) != rest.get(i))
            units = f"{mine.get(some)} and {rest.get(some)} units of {pot}"
            yield Finding("accounts of others", f"{some!r} has spent {units}")
            return


def _person(seen: Mapping[str, Seen], who: object, terms: Terms) -> Iterator[Finding]:
    """The person's part is the same in the crowd and alone, and is paid for."""
    if len({repr([_shape(step) for step in one.steps]) for one in seen.values()}) > 1:
        return  # told already
    every = zip(*(seen[v].steps for v in (WITHOUT, WITH, ALONE, NOBODY)), strict=True)
    for without, with_, alone, nobody in every:
        if with_.charges.get(who, 0) != alone.charges.get(who, 0):
            paid = [step.charges.get(who, 0) for step in (with_, alone)]
            yield Finding("own charge", f"{paid[0]} units in the crowd, {paid[1]} alone")
            return
        crowd, single = _difference(with_, without), _difference(alone, nobody)
        if any(not np.array_equal(a, b) for a, b in zip(crowd, single, strict=True)):
            yield Finding("own contribution", _unlike(crowd, single))
            return
        if with_.gaussian:
            forfeited = who in with_.out  # with `halt`, all that was left
            yield from _paid(with_, crowd, with_.charges.get(who, 0), terms, forfeited)


def _shape(step: Step) -> list[int]:
    return [len(total) for total in step.sums]


def _difference(a: Step, b: Step) -> list[np.ndarray]:
    return [x.astype(object) - y.astype(object) for x, y in zip(a.sums, b.sums, strict=True)]


def _unlike(crowd: list[np.ndarray], single: list[np.ndarray]) -> str:
    for a, b in zip(crowd, single, strict=True):
        for i in np.flatnonzero(a != b)[:1]:
            return f"{a[i]} lattice steps in the crowd, {b[i]} alone, at coordinate {i}"
    return ""


def _paid(
    step: Step, vectors: list[np.ndarray], paid: int, terms: Terms, forfeited: bool
) -> Iterator[Finding]:
    """The charge covers the person's vector, and is not much more than it."""
    worth = Fraction(0)
    for (_, sigma, granularity), vector in zip(step.noise, vectors, strict=True):
        norm = sum(int(v) ** 2 for v in vector)
        worth += norm * terms.price(sigma, granularity)
    if paid < worth:
        yield Finding("undercharged", f"paid {paid} units for what is worth {float(worth):.6g}")
    plain = not forfeited and all(kind != DENSE for kind, _, _ in step.noise)
    if plain and paid > worth * (1 + Fraction(1, 512)) + len(vectors) + 1:
        yield Finding("overcharged", f"paid {paid} units for what is worth {float(worth):.6g}")


def _first_difference(a: object, b: object) -> str:
    one, other = str(a), str(b)
    at = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), 0)
    start = max(at - 60, 0)
    return f"…{one[start : at + 100]!r} against …{other[start : at + 100]!r}"
