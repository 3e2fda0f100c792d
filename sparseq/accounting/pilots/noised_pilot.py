"""A noised pilot: the number of users per cell of a question, with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.ladder import CELLS, Floats, Ladder
from sparseq.accounting.pilots.rules import Rules


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

    def with_another(self, people: Floats, sd: float, rules: Rules) -> Reading:
        """Return the reading of these pilots and of another one of the same users and cells.

        Args:
            people: Its noised people per cell.
            sd: Of its noise.
            rules: Constants.

        Example:
            >>> from sparseq.accounting.pilots.ladder import ladder
            >>> from sparseq.accounting.pilots.rules import RULES
            >>> one = Reading(ladder(np.inf, 1.0), np.full(CELLS, 90.0), np.full(CELLS, 20.0), 31)
            >>> both = one.with_another(np.full(CELLS, 115.0), 10.0, RULES)
            >>> float(both.people[0].round(6)), float(both.sd[0].round(3))
            (110.0, 8.944)
        """
        mine, other = 1 / self.sd**2, 1 / sd**2
        both, spread = (mine * self.people + other * people) / (mine + other), mine + other
        spread = 1 / np.sqrt(spread)
        return Reading(
            self.ladder, both, spread, min(visible_top(both, spread, rules), self.ladder.cap)
        )


def visible_top(people: Floats, sd: Floats, rules: Rules) -> int:
    """Return the last cell that stands out of the noise, alone or with its neighbour; -1: none.

    The threshold is `seen` standard deviations next to a visible cell (or with nothing below), plus
    `gap` for every empty cell in between, and at most `sure` for any gap.

    Example:
        >>> h = np.array([100.0, 50, 3, 0, 0, 60, 0, 0])
        >>> visible_top(h, np.full(8, 10.0), Rules())
        5
    """
    pairs = np.append(people[:-1] + people[1:], 0.0)
    pair_sd = np.append(np.hypot(sd[:-1], sd[1:]), 1.0)
    top = -1
    for k in range(len(people)):
        need = min(rules.seen + rules.gap * max(k - top - 1, 0), rules.sure)
        alone = people[k] > need * sd[k]
        if alone or pairs[k] > min(need + rules.gap, rules.sure) * pair_sd[k]:
            top = k
    return top


def nothing_read(of: Ladder) -> Reading:
    """Return the reading of a question that needs no pilot: nobody is above cell 0."""
    return Reading(of, np.zeros(CELLS), np.full(CELLS, 1e-9), 0)
