"""The binary-tree counter: every prefix sum of a stream, each from a few noised nodes.

See docs/theorems/tree-counter.md.

Tick t (1, 2, …, T; T is declared) releases one node, the sum over the ticks (t - low(t), t], low(t)
being the lowest bit of t, plus exact Gaussian noise. The prefix sum up to t is that node plus the
prefix sum up to t - low(t): one node for each bit of t that is 1. Everything after the nodes is
post-processing.

**Price** (add/remove one user). Each tick is an ordinary linear query, q_t(X_i) = user i's
contributions in (t - low(t), t], so Algorithm 2 covers it with no new theorem: the user is charged
||q_t(X_i)||² / (2 sigma²) at tick t (Feldman & Zrnic 2021, Example 2.6). A single contribution, x
at tick s, lies in the nodes s, s + low(s), … <= T: at most floor(log2 T) + 1 of them, in total
`count_nodes(s)` · ||x||², instead of T - s + 1 if every prefix were noised separately.

**Error.** The prefix at t has ones(t) independent noises: a Gaussian of variance ones(t) sigma²,
and at most half a lattice step a node for the rounding. All prefixes at once: Šidák's inequality,
as the Gaussians are jointly normal.

**Memory.** One noised prefix and one exact node for each bit of T: O(d log T).

Sources: Dwork, Naor, Pitassi & Rothblum (2010); Chan, Shi & Song (2011), whose counter has the same
nodes but also charges for nodes that no prefix uses; the layout is Fenwick's (1994).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import simultaneous_bound
from sparseq.accounting._numbers import count, in_range, whole_numbers
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy
from sparseq.mechanisms.gaussian import MAX_SIGMA, MIN_SIGMA, rounded_gaussian

Ints = NDArray[np.int64]

MAX_HORIZON = 2**31
_CELL_LIMIT = 2**31 - 1  # as in the engine: beyond, a squared norm saturates
_NORM_LIMIT = 2**62


def window(tick: int) -> tuple[int, int]:
    """Return (first, last), the ticks whose contributions tick t's node adds up.

    Example:
        >>> [window(t) for t in (1, 2, 3, 4, 12)]
        [(1, 1), (1, 2), (3, 3), (1, 4), (9, 12)]
    """
    tick = count("tick", tick, 1, MAX_HORIZON)
    return tick - (tick & -tick) + 1, tick


def count_nodes(ticks: Ints, horizon: int) -> Ints:
    """Return the number of nodes in 1..horizon that contain a contribution at each tick.

    Example:
        >>> count_nodes(np.arange(1, 9), horizon=8).tolist()
        [4, 3, 3, 2, 3, 2, 2, 1]
    """
    return np.bincount(_spread(ticks, horizon)[0], minlength=len(ticks)).astype(np.int64)


def squared_norms(users: Ints, ticks: Ints, values: Ints, horizon: int) -> tuple[Ints, Ints]:
    """Return the sum of each user's squared contributions over all nodes: sum_t ||q_t(X_i)||².

    Args:
        users, ticks, values: One row per contribution: user, tick, value (lattice steps).
        horizon: T.

    Returns:
        Distinct users, ascending, and their squared norms in lattice steps², exact; saturated at
        2^62, as is a node of more than 2^31 - 1 steps. Times 1/(2 sigma²) it is the user's zCDP.

    Example:
        >>> users, norms = squared_norms(*np.array([[7, 7, 9], [1, 2, 5], [1, 1, 2]]), horizon=4)
        Traceback (most recent call last):
        sparseq.base.errors.ParameterError: a tick is 5; it must be in [1, 4]
        >>> users, norms = squared_norms(*np.array([[7, 7, 9], [1, 2, 3], [1, 1, 2]]), horizon=4)
        >>> users.tolist(), norms.tolist()  # 7: nodes 1, 2, 4 with 1, 2, 2; 9: 3, 4 with 2, 2
        ([7, 9], [9, 8])
    """
    rows, nodes = _spread(ticks, horizon)
    owners, owner = np.unique(users, return_inverse=True)
    keys, cell = np.unique(owner[rows] * (horizon + 1) + nodes, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, cell, np.clip(values, -_CELL_LIMIT, _CELL_LIMIT)[rows])
    norms = [0] * len(owners)
    for key, size in zip((keys // (horizon + 1)).tolist(), np.abs(sums).tolist(), strict=True):
        norms[key] += size**2 if size <= _CELL_LIMIT else _NORM_LIMIT
    return owners, np.array([min(norm, _NORM_LIMIT) for norm in norms], np.int64)


def _spread(ticks: Ints, horizon: int) -> tuple[Ints, Ints]:
    """Return (row, node) for every node that contains a row's tick."""
    horizon = count("horizon", horizon, 1, MAX_HORIZON)
    nodes = whole_numbers("a tick", ticks, 1, horizon)
    rows, found = np.arange(len(nodes)), []
    while len(rows):
        found.append((rows, nodes))
        nodes = nodes + (nodes & -nodes)
        rows, nodes = rows[nodes <= horizon], nodes[nodes <= horizon]
    if not found:
        return rows, nodes
    return np.concatenate([r for r, _ in found]), np.concatenate([n for _, n in found])


class TreeCounter:
    """Prefix sums of a stream of integer vectors, noised; see the module for price and error.

    Args:
        horizon: T, the number of ticks, 1 to 2^31; public.
        sigma: Standard deviation of each node's noise, in lattice steps.
        coordinates: d, the length of each vector.
        entropy: Private only when unpredictable, as the default is.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> counter = TreeCounter(horizon=100, sigma=2.0, entropy=SeededEntropy(1))
        >>> answers = [int(counter.add(np.array([50]))[0]) for _ in range(100)]
        >>> max(abs(a - 50 * t) for t, a in enumerate(answers, start=1)) < counter.bound(beta=0.05)
        True
    """

    def __init__(
        self, horizon: int, sigma: float, coordinates: int = 1, entropy: Entropy = SYSTEM_ENTROPY
    ) -> None:
        self.horizon = count("horizon", horizon, 1, MAX_HORIZON)
        self.sigma = in_range("sigma", sigma, MIN_SIGMA, MAX_SIGMA)
        self.coordinates = count("coordinates", coordinates, 1, 2**31)
        self.tick = 0
        self._added = 0  # ticks that came through `add`
        self._entropy = entropy
        self._exact: dict[int, Ints] = {}  # low bit of the node: its exact sum
        self._prefix: dict[int, Ints] = {}  # low bit of t: the noised prefix up to t

    @property
    def max_nodes(self) -> int:
        """The largest number of nodes with one contribution: floor(log2 T) + 1."""
        return self.horizon.bit_length()

    def add(self, increment: Ints) -> Ints:
        """Add the next tick's exact sum and return the noised prefix sum, int64 of shape (d,).

        For streams whose nodes were paid for in advance, by `squared_norms`. If a filter decides at
        each tick which users count, compute the node yourself and use `release`.

        Raises:
            QueryRefused: The horizon is over.
            ParameterError: The vector has another length.
        """
        node = self._check(increment)
        if self._added != self.tick:
            raise ParameterError(
                f"{self._added} of {self.tick} ticks were added; it must be all or none",
                "use `add` at every tick, or `release` at every tick",
            )
        self._added += 1
        low = (self.tick + 1) & -(self.tick + 1)
        for bit in [b for b in self._exact if b < low]:
            node = node + self._exact.pop(bit)
        prefix = self.release(node)
        self._exact[low] = node
        return prefix

    def release(self, node: Ints) -> Ints:
        """Release the next node's exact sum, over `window(tick + 1)`; return the noised prefix sum.

        Raises:
            QueryRefused: The horizon is over.
            ParameterError: The vector has another length.
        """
        node = self._check(node)
        self.tick += 1
        low, rest = self.tick & -self.tick, self.tick & (self.tick - 1)
        prefix = node + rounded_gaussian(self.sigma, self.coordinates, self._entropy)
        if rest:
            prefix = prefix + self._prefix[rest & -rest]
        self._prefix = {b: p for b, p in self._prefix.items() if b > low}
        self._prefix[low] = prefix
        return prefix.copy()

    def _check(self, vector: Ints) -> Ints:
        if self.tick >= self.horizon:
            raise QueryRefused(
                f"the counter has used its {self.horizon} ticks", "start another counter"
            )
        vector = np.asarray(vector)
        if vector.shape != (self.coordinates,) or vector.dtype.kind not in "iu":
            raise ParameterError(
                f"the vector is {vector.dtype} of shape {vector.shape}; "
                f"it must be integers of shape ({self.coordinates},)"
            )
        return vector.astype(np.int64)

    def variance(self, tick: int) -> float:
        """Return a bound on the noise's variance at tick t: ones(t) (sigma + 1/2)².

        Rounding moves a Gaussian by at most 1/2, hence its standard deviation by at most that.
        """
        return self._ones(tick) * (self.sigma + 0.5) ** 2

    def bound(self, beta: float, tick: int | None = None) -> float:
        """Return ±m for the prefix at `tick`, or for every prefix (None).

        It holds with probability at least 1 - beta, for all d coordinates at once.
        """
        if tick is not None:
            ones, answers = self._ones(tick), 1
        else:
            ones, answers = _most_ones(self.horizon), self.horizon
        sigma = self.sigma * math.sqrt(ones)
        return simultaneous_bound(sigma, answers * self.coordinates, beta, lattice_step=ones)

    def _ones(self, tick: int) -> int:
        return count("tick", tick, 1, self.horizon).bit_count()


def _most_ones(horizon: int) -> int:
    """Return the largest number of one bits of any t <= horizon: floor(log2(horizon + 1))."""
    return (horizon + 1).bit_length() - 1
