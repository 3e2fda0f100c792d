"""A parent pilot: a table's rows, or a column's total, per user; once for many questions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.ladder import CELLS, Floats, Ladder, ladder
from sparseq.accounting.pilots.matrix_product import product
from sparseq.accounting.pilots.noised_pilot import PILOTS, Reading, visible_top
from sparseq.accounting.pilots.posterior import faint, posterior

_GATHERED = 3


@dataclass(frozen=True)
class Parent:
    """A parent pilot's samples, for every question about some of its rows, in cells of r/a.

    Attributes:
        samples: Samples of people per cell; None: no parent, or nothing stood out of its noise.
        top: The last cell that stood out of its noise.
        most: Upper bound on the cut, by `sparseq.accounting.pilots.chain.LEVELS`, from later
            measurements; None: there was none.
        whole, factor: The samples before people faded, and the possible factor of fading since.
    """

    samples: Floats | None = None
    top: int = -1
    most: Floats | None = None
    whole: Floats | None = None
    factor: float = 1.0

    def shift(self, cells: int) -> Parent:
        """Return the parent for norms 2**cells as large, or for people faded by that factor."""
        if self.samples is None or cells == 0:
            return self
        none = np.zeros((len(self.samples), abs(cells)))
        top, most = max(self.top + cells, 0), _moved(self.most, cells)
        if cells > 0:
            return Parent(np.hstack([none, self.samples])[:, :CELLS], top, most)
        lowest = self.samples[:, : 1 - cells].sum(axis=1, keepdims=True)
        return Parent(np.hstack([lowest, self.samples[:, 1 - cells :], none]), top, most)

    def fade(self, factor: float) -> Parent:
        """Return the most people at or above each edge if allowances are from 1/factor to 1.

        A person with norm r and allowance a adds a to the cells around r/a: at or above an edge e
        this is at most 1 for r >= e, and r/e for r >= e/factor, where a = r/e. For smaller r, in
        hats of the ladder, it is the part of the hat at factor · r above e: 2 r/e - 1/factor.

        Example:
            >>> one = Parent(np.eye(1, CELLS))
            >>> one.fade(1.0).samples[0, :3].tolist(), one.fade(4.0).samples[0, :4].tolist()
            ([1.0, 0.0, 0.0], [0.5, 0.25, 0.25, 0.0])
            >>> one.fade(1.25).samples[0, :3].round(2).tolist()
            [0.8, 0.2, 0.0]
        """
        if self.samples is None or factor <= 1:
            return self
        cell = np.arange(CELLS)
        ratio = np.ldexp(1.0, np.minimum(cell[:, None] - cell[None, :], 0))  # r/e
        partly = np.maximum(2 * ratio - 1 / factor, 0.0)
        faded = np.where(factor * ratio >= 1, ratio, partly)
        above = product(self.samples[:, :CELLS], faded)
        cells = above - np.append(above[:, 1:], np.zeros((len(above), 1)), axis=1)
        return Parent(np.maximum(cells, 0.0), self.top, self.most, self.samples, factor)

    def concentrate(self) -> Parent:
        """Return the same rows if some of them belong to one person: fewer people, further up.

        In a third of the samples each, every 1, 2 and 4 rows belong to one person; each cell counts
        as twice as far, as a person's rows may lie around an edge.

        Example:
            >>> found = Parent(np.full((3, CELLS), 8.0) * (np.arange(CELLS) == 0)).concentrate()
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
        """Return the people of both, or of one if nothing is known of the other."""
        if self.samples is None or other.samples is None:
            return other if self.samples is None else self
        halves = [_moved(one.most, 1) for one in (self, other)]  # (a + b - C)+ <= two (a - C/2)+
        most = None if halves[0] is None or halves[1] is None else (halves[0] + halves[1]) / 2
        return Parent(self.samples + other.samples, max(self.top, other.top), most)


NO_PARENT = Parent()


def _moved(most: Floats | None, cells: int) -> Floats | None:
    """Return the cut of norms 2**cells as large: scaled by that factor, at levels scaled by it."""
    if most is None or cells == 0:
        return most
    if cells > 0:
        return np.asarray(np.append(np.full(cells, np.inf), most[:-cells]) * 2.0**cells)
    return np.asarray(np.append(most[-cells:], np.full(-cells, most[-1])) * 2.0**cells)


def parent_of(people: Floats, sigma_0: float, of: Ladder) -> Parent:
    """Return the parent from the released histogram of a parent pilot.

    Example:
        >>> from sparseq.accounting.pilots import ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> found = parent_of(people, 7.0, ladder(math.inf, 1.0))
        >>> found.samples.shape, abs(float(np.median(found.samples[:, 1])) - 2000) < 30
        ((600, 32), True)
    """
    sd = np.full(CELLS, math.sqrt(PILOTS.parent) * sigma_0)
    seen = Reading(of, people, sd, visible_top(people, sd))
    if seen.top < 0:
        return NO_PARENT
    samples = posterior(seen, None)
    return Parent(samples, seen.top)


def few_people(people: Floats, sigma_0: float, of: Ladder) -> Parent:
    """Return the parent from a pilot in which nothing stands out: a table of a few dozen people.

    Example:
        >>> from sparseq.accounting.pilots import ladder
        >>> few_people(np.zeros(CELLS), 7.0, ladder(math.inf, 1.0)).samples.shape
        (600, 32)
    """
    sd = np.full(CELLS, math.sqrt(PILOTS.parent) * sigma_0)
    return Parent(faint(Reading(of, people, sd, -1)))


def parent_of_squares(
    edges: Floats, rows: Floats, noise: float, centre: float, unit: float, times: float
) -> Parent:
    """Return the people that single rows put into cells of squared distance from a centre.

    Each row counts as a separate person, at the far end of its cell of values: so this bounds the
    people with a row of such a square.

    Args:
        edges, rows, noise: From a released column pilot: cells of values, noised rows in each, and
            the standard deviation of their noise.
        centre: The centre of the squares.
        unit: The unit of the cells.
        times: The number of rows that a counted row represents.

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
    seen = Reading(ladder(math.inf, 1.0), people, sd, visible_top(people, sd))
    if seen.top < 0:
        return NO_PARENT
    samples = posterior(seen, None)
    samples[:, int(cell.max()) + 1 :] = 0.0
    return Parent(samples)
