"""People within the band of a strategy, and the charges that they have prepaid: private.

A person admitted at tick s with x_s is measured at the ticks s … s + k as sum_s a_(t-s) x_s
over the admitted contributions, where a are the strategy's taps in units of 2^-16. All numbers are
integers.

**Prepaying.** S_t is what would still be measured of a person, from tick t on, if nothing more were
admitted: the sum of the squared norms of the coming measurements. Admitting x adds ‖a‖² ‖x‖² +
2 <x, sum_u a_(u-t) ahead_u>, that is G_tt ‖x‖² + 2 sum_s G_ts <x_s, x>, G = C'C; with negative taps
it may be negative. A person is admitted iff `strategies.prepaid` of the new S over k + 1 ticks fits
into the person's remaining budget; else its tick is in no measurement, and its reservation stays as
it was. Either way S is really measured later, unless more is admitted, which is checked
again: so the reservation is never less than the charge.

The coming measurements are kept in a ring of k + 1 rows with a column for each cell (person,
coordinate): a tick reads one row, which is contiguous in memory. The time of a tick is proportional
to the number of people admitted during the last k ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Price
from sparseq.accounting.strategies import Strategy, prepaid
from sparseq.compiled import compiled, halves, worthwhile
from sparseq.engine.cells import Cells
from sparseq.engine.reduction import NORM_LIMIT, Index
from sparseq.stream.charge_amounts import charges_of

Ints = NDArray[np.int64]
Left = Callable[[Ints], Ints]
"""Function: the units that some people have left, without the reservations of this band."""


@dataclass(frozen=True)
class Taken:
    """The admissions of one tick: cells in order of person and coordinate.

    Attributes:
        cells: Cells of the people who are admitted.
        measured: The tick's measurement of everybody within the band, in 2^-16 lattice steps.
    """

    cells: Cells
    measured: Cells


class Band:
    """The last k ticks of one series.

    Args:
        strategy: Strategy with the taps.
        price: Ledger units per squared step of a measurement.
        coordinates: d.
        first: The first tick.

    Example:
        >>> from sparseq.accounting import Budget
        >>> price = Price.of(1.0, 2.0**-16, Budget(0.5, 1.0))
        >>> band = Band(Strategy.of("1,-0.5"), price, coordinates=1)
        >>> one = Cells(np.array([7], np.int32), np.array([0], np.int32), np.array([1]))
        >>> taken = band.tick(one, lambda users: np.full(len(users), 2**30))
        >>> (taken.measured.values / 2**16).tolist(), (band.owed()[1] / 2**24).round(2).tolist()
        ([1.0], [0.25])
        >>> (band.tick(one, lambda users: np.zeros(1)).measured.values / 2**16).tolist()
        [-0.5]
    """

    def __init__(self, strategy: Strategy, price: Price, coordinates: int, first: int = 0) -> None:
        self._taps, self._places, self._price = strategy.whole(), coordinates, price
        self._size = strategy.band + 1
        self._square = int((self._taps**2).sum())
        self.most = most_steps(strategy)
        self._now = first
        self._keys: Ints = np.zeros(0, np.int64)  # person and coordinate, ascending
        self._slots: Ints = np.zeros(0, np.int64)  # column of each cell in the ring
        self._free: Ints = np.zeros(0, np.int64)
        self._ahead: Ints = np.zeros((self._size, 0), np.int64)
        self._rest: Ints = np.zeros(0, np.int64)  # each cell's part of S
        self._last: Ints = np.zeros(0, np.int64)  # tick of each cell's last admission

    def tick(self, cells: Cells, left: Left) -> Taken:
        """Admit the people able to prepay for a tick, and return the measurement.

        Args:
            cells: Contributions of everybody, in lattice steps.
            left: See `Left`.
        """
        taken, products = self._admit(cells, left)
        return Taken(taken, self._measure(taken, products))

    def measure(self, taken: Cells) -> Cells:
        """Add cells that were admitted, and return the tick's measurement."""
        at = _found(self._keys, self._key(taken))
        return self._measure(taken, self._products(at))

    def _measure(self, taken: Cells, products: Ints) -> Cells:
        self._put(taken, products)
        values, gone = self._pop_row()
        there = np.flatnonzero(values)
        users, coordinates = self._split_keys(self._keys[there])
        self._now += 1
        if gone.any():
            self._free = np.append(self._free, self._slots[gone])
            self._keys, self._slots = self._keys[~gone], self._slots[~gone]
        return Cells(users, coordinates, values[there])

    def _pop_row(self) -> tuple[Ints, NDArray[np.bool_]]:
        """Take the current row out of the ring; also return the cells that are now empty."""
        row, slots = self._ahead[self._now % self._size], self._slots
        oldest = self._now + 1 - self._size
        if worthwhile(len(slots)):
            values, gone = np.empty(len(slots), np.int64), np.empty(len(slots), np.bool_)
            rest, last, loop = self._rest, self._last, compiled().band.take_row
            halves(
                len(slots), lambda p: loop(row, slots[p], rest, last, oldest, values[p], gone[p])
            )
            return values, gone
        values = row[slots]
        row[slots] = 0
        self._rest[slots] -= values**2
        return values, self._last[slots] <= oldest

    def _split_keys(self, keys: Ints) -> tuple[Index, Index]:
        """Return the person and the coordinate of each key."""
        if self._places == 1:
            return keys.astype(np.int32), np.zeros(len(keys), np.int32)
        users, coordinates = np.divmod(keys, self._places)
        return users.astype(np.int32), coordinates.astype(np.int32)

    def owed(self) -> tuple[Ints, Ints]:
        """Return the people with reservations, ascending, and the amounts in ledger units."""
        people, rest = self._rests()
        last = self._last[self._slots]
        if len(people) < len(last):
            last = np.maximum.reduceat(last, _distinct(self._keys // self._places)[1])
        return people, self._units(rest, last + self._size)

    def _rests(self) -> tuple[Ints, Ints]:
        """Return everybody within the band, ascending, and the S of each."""
        rest = self._rest[self._slots]
        if self._places == 1 or not len(rest):
            return self._keys, rest
        people, first, _ = _distinct(self._keys // self._places)
        return people, np.add.reduceat(rest, first)

    def _units(self, rest: Ints, until: Ints) -> Ints:
        return prepaid(charges_of(self._price, rest), until - self._now)

    @property
    def _turned(self) -> Ints:
        """The taps in the current order of the ring."""
        return np.roll(self._taps, self._now % self._size)

    def _products(self, at: Ints) -> Ints:
        """Return <coming measurements, taps> of cells, by their known indices; -1: 0."""
        slots = np.where(at >= 0, np.append(self._slots, -1)[at], -1)
        found = np.zeros(len(at), np.int64)
        if worthwhile(len(at)):
            loop, taps, ahead = compiled().band.products, self._turned, self._ahead
            halves(len(at), lambda p: loop(ahead, slots[p], taps, found[p]))
            return found
        known = np.flatnonzero(slots >= 0)
        found[known] = self._turned @ self._ahead[:, slots[known]]
        return found

    def _admit(self, cells: Cells, left: Left) -> tuple[Cells, Ints]:
        """Return the cells of the people able to prepay, and their products."""
        people, first, owner = _distinct(cells.users.astype(np.int64))
        if not len(people):
            return cells, cells.values
        sizes = np.add.reduceat(np.abs(cells.values), first)  # below 2^62: cells are below 2^32
        countable = sizes <= self.most
        values = np.where(countable[owner], cells.values, 0)
        at = _found(self._keys, self._key(cells))
        products = self._products(at)
        more = values * (2 * products + self._square * values)
        rest = self._reserved(people, at) + np.add.reduceat(more, first)
        due = self._units(rest, np.full(len(people), self._now + self._size))
        fits = (countable & (due <= left(people)))[owner]
        return (cells, products) if fits.all() else (cells.where(fits), products[fits])

    def _reserved(self, people: Ints, at: Ints) -> Ints:
        """Return S of some people; `at`: indices of their cells among known cells."""
        if self._places > 1:
            return look_up(*self._rests(), people)
        found, known = np.zeros(len(at), np.int64), np.flatnonzero(at >= 0)
        found[known] = self._rest[self._slots[at[known]]]
        return found

    def _put(self, taken: Cells, products: Ints) -> None:
        """Add the coming measurements of the cells to the ring."""
        keys = self._key(taken)
        self._make_room(keys[_found(self._keys, keys) < 0])
        slots = self._slots[_found(self._keys, keys)]
        x, taps, ahead = taken.values, self._turned, self._ahead
        self._rest[slots] += x * (2 * products + self._square * x)
        if worthwhile(len(slots)):
            loop = compiled().band.add_columns
            halves(len(slots), lambda p: loop(ahead, slots[p], x[p], taps))
        else:
            ahead[:, slots] += taps[:, None] * x
        self._last[slots] = self._now

    def _make_room(self, new: Ints) -> None:
        if not len(new):
            return
        lack = len(new) - len(self._free)
        if lack > 0:
            more = max(lack, len(self._rest) // 2)
            self._free = np.append(self._free, np.arange(more) + len(self._rest))
            self._ahead = np.concatenate([self._ahead, np.zeros((self._size, more), np.int64)], 1)
            self._rest, self._last = (
                np.concatenate([x, np.zeros(more, np.int64)]) for x in (self._rest, self._last)
            )
        slots, self._free = self._free[: len(new)], self._free[len(new) :]
        at = np.searchsorted(self._keys, new)
        self._keys, self._slots = np.insert(self._keys, at, new), np.insert(self._slots, at, slots)

    def _key(self, cells: Cells) -> Ints:
        return cells.users.astype(np.int64) * self._places + cells.coordinates


def most_steps(strategy: Strategy) -> int:
    """Return the largest ‖x‖_1, in lattice steps, with which a person can be admitted.

    Then S, a sum over k + 1 measurements of norms up to (‖a‖_1 ‖x‖_1)², is at most 2^60.
    """
    return math.isqrt(NORM_LIMIT // 4 // (strategy.band + 1)) // sum(map(abs, strategy.taps))


def _distinct(users: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the distinct users, ascending, the start of each, and the user's index of each row."""
    more = np.diff(users, prepend=-1) > 0
    first = np.flatnonzero(more)
    return users[first], first, np.cumsum(more) - 1


def look_up(keys: Ints, values: Ints, wanted: Ints) -> Ints:
    """Return the values at some keys, 0 for absent ones; keys ascend."""
    at = _found(keys, wanted)
    return np.where(at >= 0, np.append(values, 0)[at], 0)


def _found(keys: Ints, wanted: Ints) -> Ints:
    """Return the indices of ascending keys among ascending ones, -1 for absent ones."""
    if not len(keys):
        return np.full(len(wanted), -1)
    if worthwhile(len(wanted)) and len(wanted) > len(keys) // 8:
        places = np.empty(len(wanted), np.int64)
        compiled().band.places(keys, wanted, places)
        return places
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)
