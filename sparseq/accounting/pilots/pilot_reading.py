"""A reading of pilots: noised people per cell of a question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.ladder import CELLS, Floats, Ladder
from sparseq.accounting.pilots.rules import Rules


@dataclass(frozen=True)
class Reading:
    """Released.

    Attributes:
        ladder: The cells.
        people: Noised people per cell, weighted by their allowances.
        sd: Of the noise, per cell.
        top: The last cell that stands out of the noise, -1 for none.
    """

    ladder: Ladder
    people: Floats
    sd: Floats
    top: int


def visible_top(people: Floats, sd: Floats, rules: Rules) -> int:
    """Return the last cell that stands out of the noise, alone or with its neighbour; -1: none.

    From `seen` standard deviations next to a visible cell (or to nothing below), `gap` more for
    every empty cell between, never more than `sure`, whatever the gap.

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
