"""Charges over all windows of a person, where each window has its own account.

A person is charged for the sum of what all of her windows contribute to a query. If no value adds
up rows of two windows, the windows' vectors are orthogonal, and ‖Σ_w v_w‖² costs the sum of the
windows' charges c_w. Otherwise ‖Σ_w v_w‖ ≤ Σ_w ‖v_w‖, and the charge is (Σ_w s_w)², where s_w is
the least integer with s_w² ≥ c_w. Both are integers in ledger units, and never less than the price
of the true norm.

The rules for admission and charge (docs/theorems/windows.md):

- *Apart*, where no value adds up two windows: windows are admitted in the order of their accounts
  until one can't be paid; from then on the person stays out for good, and the rest of the account
  is charged. So one window changes the contribution of others only at the account's end.
- *Together*: all windows of a person are admitted, or none; then the person is charged nothing.

In both cases this is Algorithm 2 of Feldman & Zrnic (2021) over persons, in addition to that
over windows.

If windows are weighted (`LifeBill`), a person with little lifetime budget left gets a smaller
weight in all of her windows, and the account is charged for every part of an answer by the same
rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError, StoreError
from sparseq.ledger.accounts import Index, Ints, Mask
from sparseq.ledger.notes import Note, NoteTable
from sparseq.ledger.packed_integers import pack, pack_set, unpack, unpack_set

LIFETIMES = NoteTable("lifetimes", {"release": "BIGINT", "people": "BLOB", "units": "BLOB"})
"""Charges of persons over all windows, by release."""
MOST_UNITS = 1 << 50
"""The maximum for one person: sums over some thousand windows still fit in 63 bits."""
Places = NDArray[np.signedinteger[Any]]
_FINER = 10  # extra bits of the squares of roots below one unit


@dataclass(frozen=True)
class LifetimeDues:
    """Charges of one query to persons, over all of their windows: private.

    Attributes:
        people: Indices of the persons, ascending.
        units: The charge of each, in ledger units.
    """

    people: Index
    units: Ints

    @cached_property
    def as_bytes(self) -> tuple[bytes, bytes]:
        """Return persons and units as bytes; both are empty if nobody is charged."""
        if len(self.people) == 0:
            return b"", b""
        return bytes(pack_set(self.people)), bytes(pack(self.units))

    def notes(self, release: int) -> Sequence[Note]:
        """Return the notes that record these charges for a release."""
        people, units = self.as_bytes
        return [LIFETIMES.rows(release=release, people=people, units=units)] if people else []


class Lifetimes:
    """Total spent by each person over all windows, in ledger units. A person's index is that of her
    first window.

    Args:
        budget: The lifetime budget of each person, in ledger units.
        people: The person of each window.

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
        """Add windows, each with its person."""
        self.people = np.concatenate([self.people, people]).astype(np.int32)
        self.spent = np.concatenate([self.spent, np.zeros(len(people), np.int64)])

    def admits(self, windows: Index, charges: Ints, apart: bool) -> tuple[Mask, LifetimeDues]:
        """Return which windows can pay within the lifetime budget, and the charges; changes
        nothing.

        Args:
            windows: Windows that can pay from their own accounts, ascending.
            charges: The charge of each window.
            apart: True if no value of the query adds up rows of two windows of a person.
        """
        if len(windows) == 0:
            return np.zeros(0, np.bool_), _find_dues(np.zeros(0, np.int32), np.zeros(0, np.int64))
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
        paid = running - before[which] <= room[which]  # the person's windows up to this one
        last = np.append(first[1:], len(cost)) - 1
        whole = paid[last]
        total = running[last] - before
        active = np.empty(len(windows), np.bool_)
        if apart:
            active[order] = paid
            return active, _find_dues(people, np.where(whole, total, left))
        active[order] = whole[which]
        return active, _find_dues(people, np.where(whole, total * total * whole, 0))

    def charge(self, dues: LifetimeDues) -> None:
        """Add charges that `admits` has returned."""
        self.spent[dues.people] += dues.units

    def restore(self, notes: pa.Table) -> None:
        """Apply the charges that the journal holds (see `LifetimeDues.notes`).

        Raises:
            StoreError: The records contradict each other.
        """
        for row in notes.to_pylist():
            people, units = unpack_set(row["people"]), unpack(row["units"])
            if len(people) != len(units) or (len(people) and people[-1] >= len(self.spent)):
                raise StoreError("the ledger charges a person who has no account", "restore a copy")
            self.charge(LifetimeDues(people, units))
        if np.any((self.spent < 0) | (self.spent > self.budget)):
            raise StoreError("the ledger has an account that is overdrawn", "restore a copy")

    def exhaust(self) -> None:
        """Mark every lifetime budget as spent."""
        self.spent[:] = self.budget


class LifeBill:
    """The charges of one release's parts to persons, over all of their windows: private.

    Args:
        lifetimes: The accounts to charge.

    Example:
        >>> bill = LifeBill(Lifetimes(1000, np.array([0, 0, 2], np.int32)))
        >>> some = bill.of(np.array([0, 1, 2], np.int32))
        >>> some.shares(np.ones(3, bool)).tolist()  # of who has two windows, a quarter each
        [250, 250, 1000]
        >>> some.admit(np.array([16, 16, 9]), np.ones(3, bool), apart=False).tolist()
        [True, True, True]
        >>> bill.dues.people.tolist(), bill.dues.units.tolist()  # (4 + 4)², 3²
        ([0, 2], [64, 9])
    """

    def __init__(self, lifetimes: Lifetimes) -> None:
        self.lifetimes = lifetimes
        self.owed = np.zeros(len(lifetimes.spent), np.int64)

    def of(self, windows: Index) -> LifeDues:
        """Return the charges of the persons of some windows, which contribute to a part."""
        whose = self.lifetimes.people[windows]
        order = np.argsort(whose, kind="stable")
        people, first, which = np.unique(whose[order], return_index=True, return_inverse=True)
        places = np.empty(len(windows), np.int64)
        places[order] = which
        return LifeDues(self, people, places, order, first)

    @property
    def dues(self) -> LifetimeDues:
        """Return the charges of all persons."""
        people = np.flatnonzero(self.owed).astype(np.int32)
        return _find_dues(people, self.owed[people])


@dataclass(frozen=True)
class LifeDues:
    """The lifetime charges of some persons, for the parts of one release so far: private.

    Attributes:
        bill: The record of charges, which grows.
        people: Indices of the persons, ascending.
        places: For each window, the position of its person in `people`.
        order, first: The windows sorted by person, and the start of each person's windows.
    """

    bill: LifeBill
    people: Index
    places: Places
    order: Places
    first: Places

    @property
    def _left(self) -> Ints:
        lifetimes = self.bill.lifetimes
        left: Ints = lifetimes.budget - lifetimes.spent[self.people] - self.bill.owed[self.people]
        return left

    def shares(self, there: Mask) -> Ints:
        """Return the amount each window may spend if all windows of its person spend the same.

        n parallel vectors of windows cost n² times the price of one.

        Args:
            there: Mask of the windows that contribute.
        """
        many = np.maximum(np.bincount(self.places[there], minlength=len(self.people)), 1)
        found: Ints = (self._left // (many * many))[self.places]
        return found

    def admit(self, due: Ints, able: Mask, apart: bool) -> Mask:
        """Charge a part to the persons able to pay for all of their windows; return which windows
        are in.

        Args:
            due: The charge of the part to each window.
            able: Mask of the windows that can pay from their own accounts; the others contribute
                nothing.
            apart: True if no value of the part adds up rows of two windows of a person.
        """
        if len(due) == 0:
            return able
        cost = np.minimum(due * able, self.bill.lifetimes.budget + 1)[self.order]
        left = self._left
        if apart:
            whole = np.add.reduceat(cost, self.first)
            fits = whole <= left
        else:  # roots rounded up to a 32nd of a unit; the number below the root is at most 2**60
            roots = np.add.reduceat(root_up(cost << _FINER), self.first)
            fits = roots <= root_down(left << _FINER)
            whole = -(-((roots * fits) ** 2) >> _FINER)
        self.bill.owed[self.people] += np.where(fits, whole, 0)
        return able & fits[self.places]


def _find_dues(people: Index, units: Ints) -> LifetimeDues:
    some = units > 0
    return LifetimeDues(people[some].astype(np.int32), units[some])


def root_down(numbers: Ints) -> Ints:
    """Return the square roots rounded down, of numbers up to 2**61.

    >>> root_down(np.array([0, 15, 16, 17])).tolist()
    [0, 3, 4, 4]
    """
    found = np.sqrt(numbers.astype(np.float64)).astype(np.int64)
    found -= found * found > numbers
    found += (found + 1) * (found + 1) <= numbers
    return found


def root_up(numbers: Ints) -> Ints:
    """Return the least integers whose squares are at least the numbers.

    >>> root_up(np.array([0, 15, 16, 17])).tolist()
    [0, 4, 4, 5]
    """
    found = root_down(numbers)
    return found + (found * found < numbers)
