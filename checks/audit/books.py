"""Checks that charges are in the accounts and releases in the journal, and that no noise is reused.

The recorded steps give the charge of each person for each release. The journal must have each of
these releases with these charges, in this order; after a question the accounts must have grown by
these charges, person by person; and no two releases may have the same noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from checks.audit.comparison import Finding
from checks.audit.neighbours import WITHOUT
from checks.audit.seams import Seen, Step

ENOUGH = 48
"""Bits of noise that do not come twice by chance."""


class Books:
    """The accounts of neighbouring stores after the last act, and all noise so far."""

    def __init__(self) -> None:
        self._spent: dict[str, Counter[Any]] = {}
        self._noises: set[bytes] = set()

    def take(self, seen: Mapping[str, Seen], asked: bool) -> Iterator[Finding]:
        """Add the actions of four stores; yield what is missing in the books.

        Args:
            seen: By store.
            asked: True for a question: nothing else changes accounts.
        """
        for variant, one in seen.items():
            if not one.spent:  # it was closed
                continue
            spent = Counter[Any]()
            for units in one.spent.values():
                spent.update(units)
            if asked:
                yield from self._unbooked(variant, one, spent)
            if asked or one.steps:  # a part of budgets that is made later is a release, too
                yield from _unrecorded(variant, one)
            self._spent[variant] = spent
        for step in seen[WITHOUT].steps:
            yield from self._again(step)

    def _unbooked(self, variant: str, one: Seen, spent: Counter[Any]) -> Iterator[Finding]:
        """Yield a finding if accounts have not grown by the charges."""
        before, due = self._spent.get(variant, Counter()), Counter[Any]()
        for step in one.steps:
            due.update(step.charges)
        for who in {*spent, *due}:
            if spent[who] - before[who] != due[who]:
                units = f"{spent[who] - before[who]} units are booked, {due[who]} were charged"
                yield Finding("not booked", f"{variant}: of {who} {units}")
                return

    def _again(self, step: Step) -> Iterator[Finding]:
        """Yield it if a release has the noise of another."""
        if not step.gaussian:
            return
        for (_, sigma, granularity), out, total in zip(
            step.noise, step.released, step.sums, strict=True
        ):
            if len(out) * math.log2(max(sigma / granularity, 1.0)) < ENOUGH:
                continue
            noise = (out - total).tobytes()
            if noise in self._noises:
                yield Finding("noise again", f"{step.label}: the noise of another release")
            self._noises.add(noise)


def _unrecorded(variant: str, one: Seen) -> Iterator[Finding]:
    """Yield it if the journal has other releases than there were, or other charges."""
    if len(one.journal) != len(one.steps):
        detail = f"{variant}: {len(one.steps)} releases, {len(one.journal)} are recorded"
        yield Finding("not recorded", detail)
        return
    for step, recorded in zip(one.steps, one.journal, strict=True):
        if {who: units for who, units in step.charges.items() if units} != recorded:
            yield Finding("not recorded", f"{variant}: {step.label} has other charges")
            return
