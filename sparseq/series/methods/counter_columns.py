"""Lattice, noise and limits of a forecast's counter: how large a forecast each user can pay for.

A user who leaves x, a vector of lattice steps, at tick s of a counter over T ticks is charged

    sum_t charge(a_(t-s)² ||x||²)

over the ticks t = s..T, where a are the counter's coefficients (`mechanisms.toeplitz_counter`).
Each charge is rounded up, to a unit and then to 11 significant bits, so that with R ledger units to
a squared step of a row, N_s the column's squared norm and n = T - s + 1 rows it is at most

    (||x||² R N_s + n) (1 + 2^-10).

`most` solves this for ||x||² in integers: a user within this limit can pay the whole column from
the rest of the reserve, whatever happens later. sigma is chosen so that a full forecast, of
norm `scale`, costs a full slice of the reserve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import UNITS_PER_NORM, Budget, Price
from sparseq.accounting._safe_floats import sqrt_up
from sparseq.base.errors import ParameterError
from sparseq.mechanisms.toeplitz_counter import BITS, column_norms

Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


STEPS = 2**16
"""Largest number of lattice steps in a full forecast; it has at least half of them."""
_ROUNDED = Fraction(1025, 1024)  # largest factor of rounding up to 11 significant bits
_FAR = 2.0**22  # larger than every limit
_FINE = 40
_MOST_NORM = 2**35  # times the squared first coefficient: below 2^62


@dataclass(frozen=True)
class Columns:
    """The counter of one slice of the reserve.

    Args:
        budget: Budget of the store.
        horizon: T.
        scale: C, the norm of a full forecast; larger ones are scaled down.
        units: Budget of a user with the store's whole norm_budget, in ledger units.

    Raises:
        ParameterError: The reserve is too small.

    Example:
        >>> columns = Columns(Budget(0.5, 20.0), horizon=365, scale=1.0, units=5 * 2**24)
        >>> round(columns.sigma, 3)  # sqrt(20) sqrt(2.944 / 5), and what rounding adds
        3.433
    """

    budget: Budget
    horizon: int
    scale: float
    units: int

    def __post_init__(self) -> None:
        if self.units < 2 * self.horizon:
            raise ParameterError(
                "the reserve is too small for so many ticks", "set more aside, or fewer ticks"
            )

    @cached_property
    def step(self) -> float:
        """Lattice step of a forecast: a power of two."""
        return math.ldexp(1.0 / STEPS, math.ceil(math.log2(self.scale)))

    @cached_property
    def row_step(self) -> float:
        """Lattice step of a row."""
        return math.ldexp(self.step, -BITS)

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of each row's noise, such that `full` squared steps can be paid."""
        full = (Fraction(self.scale) / Fraction(self.step)) ** 2
        columns = full * int(column_norms(self.horizon)[0]) * Fraction(self.row_step) ** 2
        payable = Fraction(self.units) / _ROUNDED - self.horizon
        square = columns * self.budget.unit_variance * UNITS_PER_NORM / payable
        return sqrt_up(square * (1 + Fraction(1, 2**40)))

    @cached_property
    def _price(self) -> Price:
        return Price.of(self.sigma, self.row_step, self.budget)

    def most(self, units: int, tick: int) -> int:
        """Return the largest ||x||² that `units` can pay if left at `tick` (0, 1, … T-1)."""
        add, of = _ROUNDED.as_integer_ratio()
        payable = of * units - add * (self.horizon - tick)  # times `add`
        if payable <= 0:
            return 0
        price = self._price
        each = add * price.multiplier * int(column_norms(self.horizon)[tick])
        return min((payable << price.shift) // each, _MOST_NORM)

    def full(self) -> int:
        """Return the squared steps of a forecast of norm `scale`, the largest that is left."""
        return self._full

    @cached_property
    def _full(self) -> int:
        return math.floor((Fraction(self.scale) / Fraction(self.step)) ** 2)

    def limit(self, units: int, tick: int) -> int:
        """Return the largest squared steps that a user with `units` leaves at `tick`.

        A user with the whole slice can pay for a full forecast at the first tick, and so at any.
        """
        return self.full() if units >= self.units else min(self.most(units, tick), self.full())

    def root(self, units: int, tick: int) -> int:
        """Return the largest norm, in whole steps, that `units` can pay if left at `tick`."""
        return math.isqrt(self.limit(units, tick))

    @staticmethod
    def shrunk(steps: Ints, owner: Ints, norms: Ints, most: Ints) -> Ints:
        """Return steps, each user's scaled down to the user's limit.

        Args:
            steps, owner: One row per coordinate: its steps, and the index of its user.
            norms, most: For each user the squared norm of the steps, and its limit.
        """
        factor = np.full(len(norms), 1 << _FINE, np.int64)
        over = np.flatnonzero(norms > most)
        pairs = zip(norms[over].tolist(), most[over].tolist(), strict=True)
        factor[over] = [math.isqrt((limit << 2 * _FINE) // norm) for norm, limit in pairs]
        scaled: Ints = np.sign(steps) * (np.abs(steps) * factor[owner] >> _FINE)
        return scaled

    def fitted(self, owner: Ints, rates: Floats, units: Ints, ticks: Ints) -> Ints:
        """Return forecasts as lattice steps, each user's scaled down to the user's limit.

        Args:
            owner, rates: One row per coordinate: index of the user (0, …, users - 1), forecast.
            units, ticks: Budget of each user for it, and the tick at which it is left (0, …, T-1).
        """
        wanted = np.clip(np.nan_to_num(rates) / self.step, -_FAR, _FAR)
        steps: Ints = np.rint(wanted).astype(np.int64)
        norms = np.zeros(len(units), np.int64)
        np.add.at(norms, owner, steps**2)
        pairs = list(zip(units.tolist(), ticks.tolist(), strict=True))
        limits = {pair: self.limit(*pair) for pair in set(pairs)}
        return self.shrunk(steps, owner, norms, np.array([limits[p] for p in pairs], np.int64))
