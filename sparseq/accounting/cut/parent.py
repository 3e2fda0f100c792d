"""A parent pilot: a table's rows (or a column's total) per person, once for many questions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting.cut.ladder import CELLS, Floats, Ladder
from sparseq.accounting.cut.reading import Reading, population_above_a_gap, visible_top
from sparseq.accounting.cut.rules import Rules
from sparseq.accounting.cut.tail import tail


@dataclass(frozen=True)
class Parent:
    """What a parent pilot says of all questions about some of its rows, in their cells of r/a.

    Attributes:
        likely, most: People at or above each edge, as estimated and from above; None: no parent.
        total: About what the norms add up to, in the joint unit.
        others: People in a population of its own above a gap, fewer than those below, which may
            hide in a question.
        reach: The last cell that it was seen in, -1 for none.
    """

    likely: Floats | None = None
    most: Floats | None = None
    total: float = 0.0
    others: float = 0.0
    reach: int = -1

    def moved(self, cells: int, cap: int) -> Parent:
        """Return the same where norms are 2**cells as large, or people have faded that much."""
        if self.likely is None or self.most is None:
            return self
        return replace(
            self,
            likely=_moved(self.likely, cells),
            most=_moved(self.most, cells),
            reach=min(self.reach + cells, cap) if self.others else -1,
        )


NO_PARENT = Parent()


def parent_of(people: Floats, sigma_0: float, of: Ladder, rules: Rules) -> Parent:
    """Return what the released histogram of a parent pilot says."""
    sd = np.full(CELLS, math.sqrt(rules.parent) * sigma_0)
    seen = Reading(of, people, sd, visible_top(people, sd, rules))
    cells = np.arange(CELLS)
    likely, _ = tail(seen, None, rules, upper=False)
    upper, unsure = tail(seen, None, rules, upper=True)
    there = np.maximum(people, 0.0)
    likely = np.where(cells <= seen.top, there, likely)
    most = np.where(cells <= seen.top, there + 1.6 * sd, upper + 1.6 * unsure)
    others, reach = population_above_a_gap(people, sd, rules)
    if others > float(there.sum()) / 2:  # a few below everybody else hide nobody
        others, reach = 0.0, -1
    total = 0.75 * float(likely @ of.edges)
    return Parent(_at_or_above(likely), _at_or_above(most), total, others, reach)


def _at_or_above(people: Floats) -> Floats:
    return np.cumsum(people[::-1])[::-1]


def _moved(people: Floats, cells: int) -> Floats:
    if cells >= 0:
        return np.concatenate([np.full(cells, people[0]), people])[:CELLS]
    return np.concatenate([people[-cells:], np.zeros(-cells)])
