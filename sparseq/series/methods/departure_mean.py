"""The mean contribution per tick of a user who departs, from the user's own data only.

A user departs at tick n (ticks are counted from 0) after contributing v_s at ticks s < n. All forms
leave out the tick of the departure: the user departs because there is a contribution at it, so that
counting it would make every forecast too large.

    mean        sum_s v_s / (n + 1): over all ticks of the series so far
    own         sum_s v_s / (n + 1 - f): over the ticks since the user's first, f
    recent:H    sum_s w^(n-s) v_s / sum_{s<=n} w^(n-s), w = 2^(-1/H): ticks count half after H
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError

Floats = NDArray[np.float64]


Ints = NDArray[np.int64]


MEAN, OWN, RECENT = "mean", "own", "recent"
HALF_LIFE = 60.0


@dataclass(frozen=True)
class Form:
    """A form of the mean; `half_life`, in ticks, is used by `recent`.

    Example:
        >>> Form.of("recent:28")
        Form(name='recent', half_life=28.0)
    """

    name: str = MEAN
    half_life: float = HALF_LIFE

    @classmethod
    def of(cls, text: str) -> Form:
        """Read `mean`, `own`, `recent` or `recent:H`.

        Raises:
            ParameterError: The text has another form.
        """
        name, _, rest = text.partition(":")
        try:
            half_life = float(rest) if rest else HALF_LIFE
        except ValueError:
            half_life = -1.0
        if name not in (MEAN, OWN, RECENT) or not 0 < half_life < 1e6 or (rest and name != RECENT):
            raise ParameterError(f"form is {text!r}", "one of mean, own, recent, recent:28")
        return cls(name, half_life)

    def __str__(self) -> str:
        return f"{self.name}:{self.half_life:g}" if self.name == RECENT else self.name

    @property
    def decay(self) -> float:
        """Factor by which the weight of a contribution falls per tick."""
        return 2.0 ** (-1 / self.half_life) if self.name == RECENT else 1.0

    def means(
        self,
        history: tuple[NDArray[np.integer], Ints, NDArray[np.integer], Floats],
        users: NDArray[np.integer],
        number: int,
        places: int,
    ) -> tuple[Ints, Ints, Floats]:
        """Return the mean contribution per tick of users before tick `number`.

        Args:
            history: Their contributions: user, tick, coordinate, value; sorted by user and
                coordinate, then by tick.
            users: The users, ascending.
            number: The tick of the means, at which the users contribute again.
            places: Number of coordinates.

        Returns:
            Index of the user, coordinate, mean: one row per cell, in that order.
        """
        user, tick, coordinate, value = history
        owner = np.searchsorted(users, user)
        first = np.full(len(users), number)
        np.minimum.at(first, owner, tick)
        keys, cell = np.unique(owner * places + coordinate, return_inverse=True)
        mine = keys // places
        left = np.full(len(keys), number)
        rates = self.rates(cell, tick, value, left, first[mine])
        return mine.astype(np.int64), (keys % places).astype(np.int64), rates

    def rates(self, cell: Ints, ticks: Ints, values: Floats, left: Ints, first: Ints) -> Floats:
        """Return the mean of every cell, (cells,).

        Args:
            cell, ticks, values: One row per contribution before its user's departure: its cell
                (user and coordinate), tick and value; in order of tick within a cell.
            left, first: Tick of the departure and of the first contribution of each cell, (cells,).
        """
        if self.name == RECENT:
            decay = self.decay
            weighted = values * decay ** (left[cell] - ticks)
            per = (1 - decay ** (left + 1.0)) / (1 - decay)
        else:
            weighted = values
            per = left + 1.0 - (first if self.name == OWN else 0)
        return np.asarray(np.bincount(cell, weighted, minlength=len(left)) / per)
