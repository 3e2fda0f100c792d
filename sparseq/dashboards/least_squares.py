"""Least squares over the nodes of one number: the best estimate of any union of their cells.

A node measures, with noise of one standard deviation s, the number in each of G groups during a
period, and its total over all groups. For x of the groups, c + noise and t + noise the measured
numbers, the best linear estimate of x from this node alone is z = c + (t - sum c) / (G + 1): the
difference between the total and the sum of its parts goes to all groups alike. The covariance of z
is s² (I - J / (G + 1)), the same for all nodes but for s. So the best estimate over all nodes is
that of weighted least squares in time, group by group, with weights 1 / s². Estimates of all unions
come from this one solution, so totals equal the sums of their parts.

Days with the same nodes over them are one unknown. A union that needs a part of such an unknown has
no estimate, and there is no other case: nodes of days are disjoint, and so are nodes of weeks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparseq.accounting.pilots.choice import upper
from sparseq.accounting.pilots.ladder import Floats
from sparseq.accounting.pilots.pilot_interval import INTERVALS


@dataclass(frozen=True)
class NodeValues:
    """The measured numbers of one node, and the errors that they may have: released.

    Attributes:
        first, last: Its days.
        values: The number in each group and, with several groups, the total: grown by the cut.
        noise: Standard deviation of the noise of each.
        up, down: Standard deviations of the cut of all numbers together, by number.
        alike: Standard deviation of the cut of each number by itself, the same way in all nodes.
        chance: The same, another way in each node.
    """

    first: int
    last: int
    values: Floats
    noise: float
    up: Floats
    down: Floats
    alike: Floats
    chance: Floats

    @property
    def days(self) -> range:
        """The days of the node."""
        return range(self.first, self.last + 1)


@dataclass(frozen=True)
class CellUnion:
    """A union of cells: some days, and some groups; None: all groups, and the rows in none."""

    days: frozenset[int]
    groups: frozenset[int] | None


@dataclass(frozen=True)
class UnionEstimate:
    """The estimate of a number in a union of cells, the ends of its interval, and its noise."""

    value: float
    low: float
    high: float
    noise: float


@dataclass(frozen=True)
class CellSolution:
    """The least-squares solution over the nodes of one number.

    Attributes:
        nodes: The nodes, disjoint within a length.
        groups: G, with the group of rows in no other group.

    Example:
        >>> none = np.zeros(3)
        >>> days = [NodeValues(d, d, np.array([1.0, 2, 3]), 1.0, *[none] * 4) for d in (0, 1)]
        >>> both = CellSolution(days, 2)
        >>> union = CellUnion(frozenset([0, 1]), frozenset([1]))
        >>> found = both.estimate(union, 0.05, 1)
        >>> round(found.value, 6), round(found.noise, 3)
        (4.0, 1.155)
        >>> both.estimate(CellUnion(frozenset([2]), None), 0.05, 1) is None
        True
    """

    nodes: Sequence[NodeValues]
    groups: int

    @cached_property
    def _unknowns(self) -> dict[tuple[int, ...], list[int]]:
        """The days of each unknown, by the places of the nodes over them."""
        over: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for day in node.days:
                over.setdefault(day, []).append(i)
        found: dict[tuple[int, ...], list[int]] = {}
        for day, places in sorted(over.items()):
            found.setdefault(tuple(places), []).append(day)
        return found

    @cached_property
    def _shares(self) -> Floats:
        """The factor of each node in the estimate of each unknown: (unknowns, nodes)."""
        inside = np.zeros((len(self._unknowns), len(self.nodes)))
        for u, places in enumerate(self._unknowns):
            inside[u, list(places)] = 1.0
        by_weight = inside / np.array([max(node.noise, 1e-12) for node in self.nodes]) ** 2
        return np.asarray(np.linalg.solve(by_weight @ inside.T, by_weight))

    def factors(self, days: Collection[int]) -> Floats | None:
        """Return the factor of each node in the estimate of some days; None: they have none."""
        wanted, chosen = set(days), []
        for u, some in enumerate(self._unknowns.values()):
            if wanted.issuperset(some):
                chosen.append(u)
                wanted.difference_update(some)
        if wanted or not chosen:
            return None
        factors: Floats = self._shares[chosen].sum(axis=0)
        return factors

    def estimate(self, union: CellUnion, beta: float, values: int) -> UnionEstimate | None:
        """Return the estimate of a union of cells; None: it does not follow from the nodes.

        The noises of nodes are independent. A cut that all numbers of a node share, or that a group
        has in all nodes, adds up over nodes as if it always had the same sign; the other errors add
        up in variance.

        Args:
            union: The union.
            beta: The chance that any of `values` intervals misses.
            values: The number of intervals.
        """
        factors = self.factors(union.days)
        if factors is None:
            return None
        used = np.flatnonzero(np.abs(factors) > 1e-12).tolist()
        within = self._within(union.groups)
        by = factors[used, None] * within
        nodes = [self.nodes[i] for i in used]
        measured = np.array([node.values for node in nodes])
        noise, chance = (
            float(
                np.linalg.norm(by * np.array([np.broadcast_to(one, by.shape[1]) for one in some]))
            )
            for some in ([n.noise for n in nodes], [n.chance for n in nodes])
        )
        alike = np.abs((by * np.array([node.alike for node in nodes])).sum(axis=0))
        own = math.hypot(chance, float(np.linalg.norm(alike)))
        up, down = (np.array([getattr(n, side) for n in nodes]) for side in ("up", "down"))
        z = INTERVALS.widen * upper(beta / 2 / values)
        value = float((by * measured).sum())
        rise, fall = (by * up).sum(axis=1), (by * down).sum(axis=1)
        above = float(np.maximum(np.maximum(rise, -fall), 0.0).sum())
        below = float(np.maximum(np.maximum(fall, -rise), 0.0).sum())
        high = value + z * float(np.hypot(noise, np.hypot(above, own)))
        low = value - z * float(np.hypot(noise, np.hypot(below, own)))
        return UnionEstimate(value, min(max(low, 0.0), value), max(high, noise), noise)

    def _within(self, groups: frozenset[int] | None) -> Floats:
        """Return the factors of a node's numbers in the estimate of some of its groups."""
        if self.groups == 1:
            return np.ones(1)
        chosen = np.zeros(self.groups)
        chosen[list(range(self.groups) if groups is None else groups)] = 1.0
        part = chosen.sum() / (self.groups + 1)
        return np.append(chosen - part, part)
