"""A noised pilot: the number of users per cell of a question, with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.ladder import CELLS, Floats, Ladder


@dataclass(frozen=True)
class PilotRules:
    """Constants of pilots: the noise of their cells, and what stands out of it.

    Attributes:
        first: Variance of the first pilot's cells, in sigma_0²: it costs a²/16
            (docs/theorems/pilots.md, step 1).
        second: The same of the second pilot, over the upper cells.
        parent: The same of a parent pilot, and of a pilot of people by fading.
        seen: Standard deviations at which a cell stands out next to a visible cell: 0.6 % of noise
            does.
        gap: The addition to `seen` for each empty cell in between: more cells, more chances.
        sure: The most that `seen` becomes: noise in 32 cells passes it once in 9,000 pilots.
        loud: Standard deviations from which the measurement of a cell replaces the model
            (pilots.md).
    """

    first: int = 16
    second: int = 4
    parent: int = 1
    seen: float = 2.5
    gap: float = 0.5
    sure: float = 4.5
    loud: float = 4.0


PILOTS = PilotRules()


@dataclass(frozen=True)
class Reading:
    """The released reading of a pilot.

    Attributes:
        ladder: The cells.
        people: Noised people per cell, weighted by their allowances.
        sd: Standard deviation of the noise, per cell.
        top: The last cell that stands out of the noise, -1 for none.
    """

    ladder: Ladder
    people: Floats
    sd: Floats
    top: int

    def with_another(self, people: Floats, sd: float) -> Reading:
        """Return the reading of these pilots and of another one of the same users and cells.

        Args:
            people: Its noised people per cell.
            sd: Of its noise.

        Example:
            >>> from sparseq.accounting.pilots.ladder import ladder
            >>> one = Reading(ladder(np.inf, 1.0), np.full(CELLS, 90.0), np.full(CELLS, 20.0), 31)
            >>> both = one.with_another(np.full(CELLS, 115.0), 10.0)
            >>> float(both.people[0].round(6)), float(both.sd[0].round(3))
            (110.0, 8.944)
        """
        mine, other = 1 / self.sd**2, 1 / sd**2
        both, spread = (mine * self.people + other * people) / (mine + other), mine + other
        spread = 1 / np.sqrt(spread)
        return Reading(self.ladder, both, spread, min(visible_top(both, spread), self.ladder.cap))


def visible_top(people: Floats, sd: Floats) -> int:
    """Return the last cell that stands out of the noise, alone or with its neighbour; -1: none.

    The threshold is `seen` standard deviations next to a visible cell (or with nothing below), plus
    `gap` for every empty cell in between, and at most `sure` for any gap.

    Example:
        >>> h = np.array([100.0, 50, 3, 0, 0, 60, 0, 0])
        >>> visible_top(h, np.full(8, 10.0))
        5
    """
    pairs = np.append(people[:-1] + people[1:], 0.0)
    pair_sd = np.append(np.hypot(sd[:-1], sd[1:]), 1.0)
    top = -1
    for k in range(len(people)):
        need = min(PILOTS.seen + PILOTS.gap * max(k - top - 1, 0), PILOTS.sure)
        alone = people[k] > need * sd[k]
        if alone or pairs[k] > min(need + PILOTS.gap, PILOTS.sure) * pair_sd[k]:
            top = k
    return top


def nothing_read(of: Ladder) -> Reading:
    """Return the reading of a question that needs no pilot: nobody is above cell 0."""
    return Reading(of, np.zeros(CELLS), np.full(CELLS, 1e-9), 0)
