"""A parent pilot: a table's rows (or a column's total) per person, once for many questions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.ladder import CELLS, Floats, Ladder, ladder
from sparseq.accounting.pilots.pilot_reading import Reading, visible_top
from sparseq.accounting.pilots.posterior import faint, posterior
from sparseq.accounting.pilots.rules import RULES, Rules

_GATHERED = 3


@dataclass(frozen=True)
class Parent:
    """What a parent pilot says of all questions about some of its rows, in their cells of r/a.

    Attributes:
        samples: Of people per cell; None: no parent, or nothing stood out of its noise.
    """

    samples: Floats | None = None

    def shift(self, cells: int) -> Parent:
        """Return the same where norms are 2**cells as large, or people have faded that much."""
        if self.samples is None or cells == 0:
            return self
        none = np.zeros((len(self.samples), abs(cells)))
        if cells > 0:
            return Parent(np.hstack([none, self.samples])[:, :CELLS])
        lowest = self.samples[:, : 1 - cells].sum(axis=1, keepdims=True)
        return Parent(np.hstack([lowest, self.samples[:, 1 - cells :], none]))

    def stretch(self, factor: float) -> Parent:
        """Return the same people where all allowances have become smaller by a factor.

        Who adds a to the cells about r/a adds a / factor to those about factor · r/a.

        Example:
            >>> one = Parent(np.eye(1, CELLS))
            >>> one.stretch(1.5).samples[0, :3].round(3).tolist()
            [0.333, 0.333, 0.0]
            >>> one.stretch(4.0).samples[0, :4].tolist()
            [0.0, 0.0, 0.25, 0.0]
        """
        if self.samples is None:
            return self
        cells = math.floor(math.log2(factor))
        into = factor / 2.0**cells - 1
        near = self.shift(cells).samples
        far = self.shift(cells + 1).samples
        assert near is not None
        assert far is not None
        return Parent(((1 - into) * near + into * far) / factor)

    def gathered(self) -> Parent:
        """Return the same rows where some of them are one person's: fewer people, further up.

        In a third of the samples each, every 1, 2 and 4 rows are; each cell is taken for twice as
        far, as rows of a person may lie about an edge.

        Example:
            >>> found = Parent(np.full((3, CELLS), 8.0) * (np.arange(CELLS) == 0)).gathered()
            >>> [float(found.samples[k, k + 1]) for k in range(3)]
            [8.0, 4.0, 2.0]
        """
        if self.samples is None:
            return self
        found = np.zeros_like(self.samples)
        for k in range(_GATHERED):
            further = self.shift(k + 1).samples
            assert further is not None
            found[k::_GATHERED] = further[k::_GATHERED] / 2.0**k
        return Parent(found)

    def add(self, other: Parent) -> Parent:
        """Return people of both; of one where nothing is known of the other."""
        if self.samples is None or other.samples is None:
            return other if self.samples is None else self
        return Parent(self.samples + other.samples)


NO_PARENT = Parent()


def parent_of(people: Floats, sigma_0: float, of: Ladder, rules: Rules) -> Parent:
    """Return what the released histogram of a parent pilot says.

    Example:
        >>> from sparseq.accounting.pilots import RULES, ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> found = parent_of(people, 7.0, ladder(math.inf, 1.0), RULES)
        >>> found.samples.shape, abs(float(np.median(found.samples[:, 1])) - 2000) < 30
        ((600, 32), True)
    """
    sd = np.full(CELLS, math.sqrt(rules.parent) * sigma_0)
    seen = Reading(of, people, sd, visible_top(people, sd, rules))
    if seen.top < 0:
        return NO_PARENT
    samples = posterior(seen, None, rules)
    return Parent(samples)


def few_people(people: Floats, sigma_0: float, of: Ladder, rules: Rules) -> Parent:
    """Return what a parent pilot says of which nothing stands out: a table of a few dozen people.

    Example:
        >>> from sparseq.accounting.pilots import RULES, ladder
        >>> few_people(np.zeros(CELLS), 7.0, ladder(math.inf, 1.0), RULES).samples.shape
        (600, 32)
    """
    sd = np.full(CELLS, math.sqrt(rules.parent) * sigma_0)
    return Parent(faint(Reading(of, people, sd, -1)))


def parent_of_squares(
    edges: Floats, rows: Floats, noise: float, centre: float, unit: float, times: float
) -> Parent:
    """Return the people that single rows put into cells of squared distance from a centre.

    Each row is taken for a person of its own, at the far end of its cell of values: so no more
    people have a row with so large a square.

    Args:
        edges, rows, noise: Of a released column pilot: cells of values, noised rows in each, and
            the standard deviation of their noise.
        centre: Of the squares.
        unit: Of the cells.
        times: How many rows a counted one stands for.

    Example:
        >>> edges = np.array([0.0, 1.0, 4.0, 16.0, 64.0])
        >>> found = parent_of_squares(edges, np.array([900.0, 400, 50, 0]), 5.0, 0.0, 1.0, 1.0)
        >>> found.samples.mean(axis=0)[[0, 4, 8, 12]].round(-1).tolist()
        [900.0, 400.0, 50.0, 0.0]
    """
    far = np.maximum(np.abs(edges[:-1] - centre), np.abs(edges[1:] - centre)) ** 2 / unit
    cell = np.clip(np.ceil(np.log2(np.maximum(far, 1.0))), 0, CELLS - 1).astype(np.int64)
    people = np.bincount(cell, rows * times, minlength=CELLS).astype(np.float64)
    cells = np.maximum(np.bincount(cell, minlength=CELLS), 1)
    sd = np.sqrt(cells) * noise * times
    seen = Reading(ladder(math.inf, 1.0), people, sd, visible_top(people, sd, RULES))
    if seen.top < 0:
        return NO_PARENT
    samples = posterior(seen, None, RULES)
    samples[:, int(cell.max()) + 1 :] = 0.0
    return Parent(samples)
