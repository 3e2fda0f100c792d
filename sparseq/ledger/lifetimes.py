"""What a person may spend over all windows, where each window has an account of its own.

A person is charged for all that her windows put into a question. Where no value adds up rows of two
windows their vectors are orthogonal, and the sum of the windows' charges c_w is what ‖Σ_w v_w‖²
costs. Elsewhere ‖Σ_w v_w‖ ≤ Σ_w ‖v_w‖, and the charge is (Σ_w s_w)², s_w the least whole number
with s_w² ≥ c_w. Both are whole numbers of ledger units, and never less than the true norm's price.

Who is let in, and what it costs (docs/theorems/windows.md):

- *Apart*, where no value adds up two windows: windows are let in in the order of their accounts
  until one can't be paid; from then on the person is out for good, and all that was left is
  charged. So one window moves what others contribute at the account's end alone.
- *Together*: all of a person's windows or none; who can't pay pays nothing.

Either way it is Algorithm 2 of Feldman & Zrnic (2021) over people, beside the one over windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparseq.errors import ParameterError, StoreError
from sparseq.ledger.accounts import Index, Ints, Mask
from sparseq.ledger.codec import pack, pack_set, unpack, unpack_set
from sparseq.ledger.notes import Note, NoteTable

LIFETIMES = NoteTable("lifetimes", {"release": "BIGINT", "people": "BLOB", "units": "BLOB"})
"""What people were charged over all windows, release by release."""
MOST_UNITS = 1 << 50
"""Of one person: sums over some thousand windows stay whole numbers of 63 bits."""


@dataclass(frozen=True)
class LifetimeDues:
    """What a question costs people over all of their windows: private.

    Attributes:
        people: Who, ascending.
        units: How much, in ledger units.
    """

    people: Index
    units: Ints

    def notes(self, release: int) -> Sequence[Note]:
        """Return what writes it, beside its release."""
        if len(self.people) == 0:
            return []
        packed = [bytes(pack_set(self.people))], [bytes(pack(self.units))]
        return [LIFETIMES.rows(release=release, people=packed[0], units=packed[1])]


class Lifetimes:
    """Spent of everybody over all windows, in ledger units. A person is called by a first window.

    Args:
        budget: Everybody's, in ledger units.
        people: Whose each window is, one a window.

    Raises:
        ParameterError: The budget is out of range.

    Example:
        >>> lifetimes = Lifetimes(10, np.array([0, 0, 2], np.int32))
        >>> windows, charges = np.array([0, 1, 2], np.int32), np.array([6, 6, 6])
        >>> active, dues = lifetimes.admits(windows, charges, apart=True)
        >>> active.tolist(), dues.people.tolist(), dues.units.tolist()
        ([True, False, True], [0, 2], [10, 6])
        >>> active, dues = lifetimes.admits(windows, charges, apart=False)
        >>> active.tolist(), dues.people.tolist(), dues.units.tolist()
        ([False, False, True], [2], [9])
    """

    def __init__(self, budget: int, people: Index) -> None:
        if not 0 < budget <= MOST_UNITS:
            raise ParameterError("the lifetime's budget is out of range", "choose a smaller one")
        self.budget = budget
        self.spent = np.zeros(0, np.int64)
        self.people = np.zeros(0, np.int32)
        self.add_windows(people)

    def add_windows(self, people: Index) -> None:
        """Take in more windows, and whose they are."""
        self.people = np.concatenate([self.people, people]).astype(np.int32)
        self.spent = np.concatenate([self.spent, np.zeros(len(people), np.int64)])

    def admits(self, windows: Index, charges: Ints, apart: bool) -> tuple[Mask, LifetimeDues]:
        """Tell who can pay over all windows, and what it costs; changes nothing.

        Args:
            windows: Those that can pay from their own accounts, ascending.
            charges: Of each.
            apart: No value of the question adds up two windows of a person.
        """
        if len(windows) == 0:
            return np.zeros(0, np.bool_), _owing(np.zeros(0, np.int32), np.zeros(0, np.int64))
        order = np.argsort(self.people[windows], kind="stable")
        people, first, which = np.unique(
            self.people[windows][order], return_index=True, return_inverse=True
        )
        left = self.budget - self.spent[people]
        cost = np.minimum(charges[order], self.budget + 1)
        if not apart:
            cost, room = root_up(cost), root_down(left)
        else:
            room = left
        running = np.cumsum(cost)
        before = (running - cost)[first]
        paid = running - before[which] <= room[which]  # a person's windows up to some one
        last = np.append(first[1:], len(cost)) - 1
        whole = paid[last]
        total = running[last] - before
        active = np.empty(len(windows), np.bool_)
        if apart:
            active[order] = paid
            return active, _owing(people, np.where(whole, total, left))
        active[order] = whole[which]
        return active, _owing(people, np.where(whole, total * total * whole, 0))

    def charge(self, dues: LifetimeDues) -> None:
        """Add what `admits` has let through."""
        self.spent[dues.people] += dues.units

    def restore(self, notes: pa.Table) -> None:
        """Charge what was written (`LifetimeDues.notes`).

        Raises:
            StoreError: It contradicts itself.
        """
        for row in notes.to_pylist():
            people, units = unpack_set(row["people"]), unpack(row["units"])
            if len(people) != len(units) or (len(people) and people[-1] >= len(self.spent)):
                raise StoreError("the ledger charges a person who has no account", "restore a copy")
            self.charge(LifetimeDues(people, units))
        if np.any((self.spent < 0) | (self.spent > self.budget)):
            raise StoreError("the ledger has an account that is overdrawn", "restore a copy")

    def exhaust(self) -> None:
        """Let nobody pay any more."""
        self.spent[:] = self.budget


def _owing(people: Index, units: Ints) -> LifetimeDues:
    some = units > 0
    return LifetimeDues(people[some].astype(np.int32), units[some])


def root_down(numbers: Ints) -> Ints:
    """Return the whole part of square roots, of numbers up to 2**51.

    >>> root_down(np.array([0, 15, 16, 17])).tolist()
    [0, 3, 4, 4]
    """
    found = np.sqrt(numbers.astype(np.float64)).astype(np.int64)
    found -= found * found > numbers
    found += (found + 1) * (found + 1) <= numbers
    return found


def root_up(numbers: Ints) -> Ints:
    """Return the least whole numbers whose squares are no less.

    >>> root_up(np.array([0, 15, 16, 17])).tolist()
    [0, 4, 4, 5]
    """
    found = root_down(numbers)
    return found + (found * found < numbers)
