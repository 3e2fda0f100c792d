"""The mean contribution per tick of a user who departs, from the user's own data only.

A user departs at tick n (ticks are counted from 0) after contributing v_s at ticks s < n. All forms
leave the departing tick itself out: that there is a contribution at it is what made the user
depart, so that counting it would make every forecast too large.

    mean        sum_s v_s / (n + 1): over all ticks of the series so far
    own         sum_s v_s / (n + 1 - f): over the ticks since the user's first, f
    recent:H    sum_s w^(n-s) v_s / sum_{s<=n} w^(n-s), w = 2^(-1/H): ticks count half after H
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MEAN, OWN, RECENT = "mean", "own", "recent"
HALF_LIFE = 60.0


@dataclass(frozen=True)
class Form:
    """A way to forecast; `half_life`, in ticks, is of `recent`.

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
            ParameterError: It is none of these.
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
        """What a contribution counts for a tick later."""
        return 2.0 ** (-1 / self.half_life) if self.name == RECENT else 1.0

    def means(
        self,
        history: tuple[NDArray[np.integer], Ints, NDArray[np.integer], Floats],
        users: NDArray[np.integer],
        number: int,
        places: int,
    ) -> tuple[Ints, Ints, Floats]:
        """Return the mean contribution a tick of users before tick `number`.

        Args:
            history: What they contributed: user, tick, coordinate, value; in that order but for
                the tick, which comes last.
            users: Who, ascending.
            number: The tick at which the means are taken, and at which they contribute again.
            places: How many coordinates there are.

        Returns:
            Which of the users, coordinate, mean: one row a cell, in that order.
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
            cell, ticks, values: One row a contribution, before its user's departure: which cell
                (user and coordinate), when, and how much; in order of tick within a cell.
            left, first: When the cell's user departed and had its first contribution, (cells,).
        """
        if self.name == RECENT:
            decay = self.decay
            weighted = values * decay ** (left[cell] - ticks)
            per = (1 - decay ** (left + 1.0)) / (1 - decay)
        else:
            weighted = values
            per = left + 1.0 - (first if self.name == OWN else 0)
        return np.asarray(np.bincount(cell, weighted, minlength=len(left)) / per)
