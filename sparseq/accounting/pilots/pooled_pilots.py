"""Pilots of nodes of one kind, pooled: the scale of the next node, and the cut of each.

The nodes of a kind (the days of one number, or its weeks) have pilots of their own, each with
noise. Their mean has the noise of one, divided by the root of their number, and sees rare users
that no single pilot sees. It is the mean of released numbers: post-processing. It describes a
single node if nodes of a kind lack similar shares (`alike`, over time); so only the latest pilots
count.

A node's vector has its groups and their total. A user with n rows has a norm between n and
1.41 n, so the cut share of norms and the cut share of sums differ by at most that factor (the norm
without the total is between n / sqrt(groups) and n). `UNLIKE` allows for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting.pilots.choice import C_STEPS, SCALES, Question, choose, growth
from sparseq.accounting.pilots.ladder import CELLS, Floats, ladder
from sparseq.accounting.pilots.noised_pilot import Reading, visible_top
from sparseq.base.defaults import BETA

POOLED = 28
"""The number of latest pilots that count."""
UNLIKE = 0.5
"""Relative standard deviation of the growth of a whole node, as norms differ from sums."""
ALIKE_SUMS = 1.5
"""`ScaleRules.alike` for sums of values by group: large values are often in a few groups."""
_NORMAL_95 = 1.96
_MOST_CHANCE = 6.0


@dataclass(frozen=True)
class PooledCut:
    """The mass that a scale cuts from nodes of a kind, by their pooled pilots.

    Attributes:
        growth: The factor g by which sums are too small: the truth is about (1 + g) times a sum.
        up, down: Standard deviations of g, common to all coordinates and nodes of the kind.
        heavy: The approximate number of users who are cut in one node.
    """

    growth: float
    up: float
    down: float
    heavy: float

    def chance(self, near: Floats) -> Floats:
        """Return the standard deviation of each coordinate's cut by chance, in the unit of the
        sums: few users are cut.

        Args:
            near: The sums, each at least the noise.
        """
        few = np.minimum(max(float(near.sum()), 1e-12) / (self.heavy * near), _MOST_CHANCE)
        return np.asarray(near * self.growth * np.sqrt(few))


@dataclass(frozen=True)
class Pool:
    """The latest pilots of nodes of one kind: released numbers, users per cell of the ladder.

    Example:
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> pool = Pool().with_pilot(people).with_pilot(people)
        >>> asked = pool.question(4, 7.0, 1.0, 0)
        >>> steps = pool.scale(asked, 14.0)
        >>> steps / C_STEPS, pool.cut(asked, 14.0, steps).growth < 0.1
        (4.0, True)
    """

    pilots: tuple[tuple[float, ...], ...] = ()

    def with_pilot(self, people: Floats) -> Pool:
        """Return the pool with one more pilot."""
        return Pool((*self.pilots, tuple(people.tolist()))[-POOLED:])

    def question(self, coordinates: int, sigma_0: float, price: float, reach: int) -> Question:
        """Return the public facts of a node, whose coordinates are never negative."""
        signed = np.zeros(coordinates, np.bool_)
        return Question(coordinates, coordinates, signed, sigma_0, BETA, price, reach=reach)

    def scale(self, question: Question, sd: float, alike: float = SCALES.alike) -> int:
        """Return the scale of least expected error, in units of 1/C_STEPS.

        Args:
            question: The public facts of a node.
            sd: Standard deviation of the cells of one pilot.
            alike: The standard deviation `ScaleRules.alike`.
        """
        return choose(question, self._reading(sd), rules=replace(SCALES, alike=alike)).steps

    def cut(self, question: Question, sd: float, steps: int) -> PooledCut:
        """Return the mass that a scale cuts from a node of the kind.

        Args:
            question, sd: See `scale`.
            steps: The scale of the node.
        """
        found = choose(replace(question, scale=steps / C_STEPS), self._reading(sd)).missing
        grown = growth(found.share)
        low, middle, high = np.quantile(grown, (0.025, 0.5, 0.975)).tolist()
        up, down = ((high - middle) / _NORMAL_95, (middle - low) / _NORMAL_95)
        unlike = UNLIKE * middle
        return PooledCut(middle, math.hypot(up, unlike), math.hypot(down, unlike), found.heavy)

    def _reading(self, sd: float) -> Reading:
        """Return the mean of the pilots as the reading of one."""
        mean = np.mean(np.array(self.pilots), axis=0)
        spread = np.full(CELLS, sd / math.sqrt(len(self.pilots)))
        return Reading(ladder(math.inf, 1.0), mean, spread, visible_top(mean, spread))
