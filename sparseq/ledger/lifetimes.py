"""Accounts over all windows of a person, where each window has an account of its own.

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

Where windows are weighted (`LifeBill`), whoever has little left for life counts for less in all of
her windows, and the account pays for every part of an answer by the same rule.
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
from sparseq.ledger.accounts import Index, Ints, Mask, pack, pack_set, unpack, unpack_set
from sparseq.ledger.notes import Note, NoteTable

LIFETIMES = NoteTable("lifetimes", {"release": "BIGINT", "people": "BLOB", "units": "BLOB"})
"""Charges of people over all windows, release by release."""
MOST_UNITS = 1 << 50
"""Of one person: sums over some thousand windows stay whole numbers of 63 bits."""
Places = NDArray[np.signedinteger[Any]]
_FINER = 10  # bits by which squares of roots are finer than units


@dataclass(frozen=True)
class LifetimeDues:
    """The cost of a question to people, over all of their windows: private.

    Attributes:
        people: Who, ascending.
        units: How much, in ledger units.
    """

    people: Index
    units: Ints

    @cached_property
    def as_bytes(self) -> tuple[bytes, bytes]:
        """People and units as bytes; empty where there are none."""
        if len(self.people) == 0:
            return b"", b""
        return bytes(pack_set(self.people)), bytes(pack(self.units))

    def notes(self, release: int) -> Sequence[Note]:
        """Return what writes it, beside its release."""
        people, units = self.as_bytes
        return [LIFETIMES.rows(release=release, people=people, units=units)] if people else []


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
        paid = running - before[which] <= room[which]  # a person's windows up to some one
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


class LifeBill:
    """The cost of one release's parts to people, over all of their windows: private.

    Args:
        lifetimes: What it is paid from.

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
        """Return what the people of some windows owe: these are what they contribute with."""
        whose = self.lifetimes.people[windows]
        order = np.argsort(whose, kind="stable")
        people, first, which = np.unique(whose[order], return_index=True, return_inverse=True)
        places = np.empty(len(windows), np.int64)
        places[order] = which
        return LifeDues(self, people, places, order, first)

    @property
    def dues(self) -> LifetimeDues:
        """Everybody's debts."""
        people = np.flatnonzero(self.owed).astype(np.int32)
        return _find_dues(people, self.owed[people])


@dataclass(frozen=True)
class LifeDues:
    """The debts of some people for life, for the parts of one release so far: private.

    Attributes:
        bill: Where it is kept; grows.
        people: Who, ascending.
        places: Of each window, whose of `people` it is.
        order, first: The windows person by person, and where each person's begin.
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
        """Return what each window may spend, as if all windows of its person spend as much.

        Vectors of n windows that lie in the same direction cost n² times what one does.

        Args:
            there: Which windows contribute anything.
        """
        many = np.maximum(np.bincount(self.places[there], minlength=len(self.people)), 1)
        found: Ints = (self._left // (many * many))[self.places]
        return found

    def admit(self, due: Ints, able: Mask, apart: bool) -> Mask:
        """Bill a part to all who can pay for all of their windows; tell whose windows are in.

        Args:
            due: Of each window, what the part costs it.
            able: Which can pay it from their own accounts; of the others there is nothing.
            apart: No value of the part adds up two windows of a person.
        """
        if len(due) == 0:
            return able
        cost = np.minimum(due * able, self.bill.lifetimes.budget + 1)[self.order]
        left = self._left
        if apart:
            whole = np.add.reduceat(cost, self.first)
            fits = whole <= left
        else:  # roots to a 32nd of a unit, from above: 2**60 at most below a root
            roots = np.add.reduceat(root_up(cost << _FINER), self.first)
            fits = roots <= root_down(left << _FINER)
            whole = -(-((roots * fits) ** 2) >> _FINER)
        self.bill.owed[self.people] += np.where(fits, whole, 0)
        return able & fits[self.places]


def _find_dues(people: Index, units: Ints) -> LifetimeDues:
    some = units > 0
    return LifetimeDues(people[some].astype(np.int32), units[some])


def root_down(numbers: Ints) -> Ints:
    """Return the whole part of square roots, of numbers up to 2**61.

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
