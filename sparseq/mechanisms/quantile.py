"""Quantiles of one number per user (a squared norm, say, to choose norm_budget), under zCDP.

See docs/theorems/quantile.md.

The caller declares bins. Each user falls in one. Running over the bins, a tree counter
(`sparseq.mechanisms.tree_counter`) noises the number of users at or below each edge; every quantile
follows from these ranks, for one price.

**Price** (add/remove one user). A user in bin k adds 1 to `count_nodes(k)` nodes, at most
floor(log2 bins) + 1, and pays rho = nodes / (2 sigma²) (Feldman & Zrnic 2021, Example 2.6, once a
node). Noising each bin on its own costs 1/(2 sigma²), but a rank then adds up to `bins` noises
instead of log2 bins: with more than 16 bins the tree is the better of the two.

**Error.** Let w = `rank_error(beta)`. With probability 1 - beta all noised ranks are within w; then
the edge returned for q has at least q n - (1+q) w users at or below it, and the edge before it at
most q n + (1+q) w, n being the number of users. Beyond that, the answer is no finer than its bin.
Proof: C_k are the ranks, R_k the noised ones, made monotone by a running maximum (still within w,
as C is monotone). At the edge returned R_k >= q R_last >= q (n - w); before it R_(k-1) < q R_last
<= q (n + w).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import in_range, whole_numbers
from sparseq.base.errors import ParameterError
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy
from sparseq.mechanisms.tree_counter import TreeCounter, count_nodes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Quantiles:
    """A query for quantiles on declared bins.

    Args:
        edges: Ascending, finite, public. Bin k holds values above edge k-1 and at most edge k; the
            bin after the last edge holds the rest.
        sigma: Standard deviation of each node's noise, in users.

    Raises:
        ParameterError: The edges don't ascend, or sigma is out of its range.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> query = Quantiles([2.0**k for k in range(12)], sigma=10.0)
        >>> bins = query.place(np.random.default_rng(1).exponential(100.0, 10_000))
        >>> ranks = query.release(bins, SeededEntropy(1))
        >>> ranks.quantile(0.5), ranks.quantile(0.99)
        (128.0, 512.0)
        >>> query.rho, int(query.norms(bins).max())  # four nodes at most: 4 / (2 * 10²)
        (Fraction(1, 50), 4)
    """

    edges: Sequence[float]
    sigma: float

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, np.float64)
        if edges.ndim != 1 or not len(edges) or not np.all(np.isfinite(edges)):
            raise ParameterError(f"edges is {self.edges!r}; it must be a list of finite numbers")
        if np.any(np.diff(edges) <= 0):
            at = int(np.flatnonzero(np.diff(edges) <= 0)[0])
            raise ParameterError(
                f"edges has {edges[at]:g} before {edges[at + 1]:g}; it must ascend"
            )
        object.__setattr__(self, "edges", tuple(edges.tolist()))
        TreeCounter(self.bins, self.sigma)  # refuses a sigma out of range

    @property
    def bins(self) -> int:
        """Number of bins: one more than edges."""
        return len(self.edges) + 1

    @property
    def rho(self) -> Fraction:
        """zCDP for the user with the highest charge: (floor(log2 bins) + 1) / (2 sigma²), exact."""
        return Fraction(self.bins.bit_length()) / (2 * Fraction(self.sigma) ** 2)

    def place(self, values: NDArray[np.float64]) -> Ints:
        """Return each value's bin, 0 … bins - 1; -1 for NaN, which does not count."""
        values = np.asarray(values, np.float64)
        place = np.searchsorted(np.asarray(self.edges), values, side="left")
        return np.where(np.isnan(values), -1, place).astype(np.int64)

    def norms(self, bins: Ints) -> Ints:
        """Return each user's squared norm over all nodes; 0 for a user in no bin."""
        bins = self._check(bins)
        by_bin = count_nodes(np.arange(1, self.bins + 1), self.bins)
        return np.where(bins < 0, 0, by_bin[bins])

    def release(self, bins: Ints, entropy: Entropy = SYSTEM_ENTROPY) -> Ranks:
        """Noise the ranks of all edges.

        Args:
            bins: One per user, from `place`; the caller has charged `norms(bins)`.
            entropy: Private only when unpredictable, as the default is.
        """
        bins = self._check(bins)
        counts = np.bincount(bins[bins >= 0], minlength=self.bins)
        counter = TreeCounter(self.bins, self.sigma, entropy=entropy)
        noised = np.array([counter.add(np.array([n]))[0] for n in counts.tolist()], np.int64)
        return Ranks(self, tuple(np.maximum.accumulate(noised).tolist()))

    def rank_error(self, beta: float) -> float:
        """Return w: every noised rank is within w with probability at least 1 - beta."""
        return TreeCounter(self.bins, self.sigma).bound(beta)

    def _check(self, bins: Ints) -> Ints:
        return whole_numbers("a bin", bins, -1, self.bins - 1)


@dataclass(frozen=True)
class Ranks:
    """Released ranks: the numbers of users at or below each edge, noised and made monotone."""

    query: Quantiles
    cumulative: tuple[int, ...]

    def quantile(self, q: float) -> float:
        """Return the first edge with a share q of the users at or below it, by the noised ranks.

        Infinity when it lies beyond the last edge. Free: any number of quantiles for one release.

        Raises:
            ParameterError: q is not in [0, 1].
        """
        q = in_range("q", q, 0.0, 1.0)
        target = Fraction(q) * self.cumulative[-1]
        reached = (
            e for e, c in zip(self.query.edges, self.cumulative, strict=False) if c >= target
        )
        return next(reached, math.inf)
