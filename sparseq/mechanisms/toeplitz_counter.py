"""The square-root Toeplitz counter: every prefix sum of a stream, at the least known noise.

See docs/theorems/toeplitz-counter.md.

The matrix A of prefix sums (lower triangular ones) has a square root C, which is lower triangular
and Toeplitz, with c_0 = 1, c_k = c_{k-1} (2k-1)/(2k) down its diagonals. Tick t (1, 2, …, T; T is
declared) releases one row, (C x)_t plus exact Gaussian noise z_t. The prefix sums are C (C x + z) =
A x + C z: post-processing of the rows.

**Lattice.** C has no integer entries. It is replaced by K, whose diagonals are a_k = round(c_k ·
2^13): for integer x a row (K x)_t is an exact integer, and its price is exact. This loses nothing:
the rows are decoded with D = A K^-1, which is lower triangular and Toeplitz too, so that D (K x
+ z) = A x + D z. Only D is in floating point, and D is applied to released numbers alone.

**Price** (add/remove one user). Each tick is an ordinary linear query, q_t(X_i) = a_(t-s) · x for a
user who contributes once, x at tick s; so Algorithm 2 covers it with no new theorem. At tick t the
user is charged a_(t-s)² ||x||² / (2 sigma²) (Feldman & Zrnic 2021, Example 2.6), in total
`column_norms(T)[s-1]` · ||x||² / (2 sigma²): about 2^26 (1.07 + ln(T)/pi) · ||x||², against 2^26 T
||x||² if every prefix were noised on its own. A user who contributes at several ticks is charged
the squares of the sums, tick by tick.

**Error.** The prefix at t has the noise sum_k d_k z_(t-k): a Gaussian of variance sigma² (d_0² + …
+ d_(t-1)²), and at most (|d_0| + … + |d_(t-1)|)/2 for the rounding of the noise. All prefixes at
once: Šidák's inequality, as the Gaussians are jointly normal.

Compared with the binary tree (`sparseq.mechanisms.tree_counter`): a year of days at the same
worst-case charge has 2.9² instead of 72 times the variance of one row. Memory is O(d T), not
O(d log T).

Sources: Fichtenberger, Henzinger & Upadhyay, "Constant matters" (2023), for C and its bound;
Henzinger, Upadhyay & Upadhyay (2023); Denisov, McMahan, Rush, Smith & Thakurta (2022), for
adaptively chosen rows (here that is Algorithm 2's own claim).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import simultaneous_bound
from sparseq.accounting._numbers import count, in_range
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy
from sparseq.mechanisms.gaussian import MAX_SIGMA, MIN_SIGMA, rounded_gaussian

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS = 13
"""Coefficients are whole multiples of 2^-13: a_0 = 2^13 steps of a row to one step of x."""
MAX_HORIZON = 2**14
"""For longer horizons, diagonals would have too few steps to keep the noise near its minimum."""
_MOST = 2**32  # largest increment: T of them, at the largest coefficient, stay below 2^60


@lru_cache(maxsize=16)
def coefficients(horizon: int) -> Ints:
    """Return a_0, …, a_(T-1), the diagonals of K, in units of 2^-13.

    Public and the same on every machine: each is one rounded product from the previous one.

    Example:
        >>> coefficients(5).tolist()
        [8192, 4096, 3072, 2560, 2240]
    """
    k = np.arange(1, count("horizon", horizon, 1, MAX_HORIZON))
    c = np.concatenate(([1.0], np.multiply.accumulate((2 * k - 1) / (2 * k))))
    a = np.rint(np.ldexp(c, BITS)).astype(np.int64)
    a.flags.writeable = False
    return a


@lru_cache(maxsize=16)
def column_norms(horizon: int) -> Ints:
    """Return the squared norm of K's columns 1..T, exact: the total cost of a unit at tick s.

    It is in squared steps of a row, like sigma in steps of a row.

    Example:
        >>> (column_norms(3) / 2**26).tolist()
        [1.390625, 1.25, 1.0]
    """
    norms: Ints = np.cumsum(coefficients(horizon) ** 2)[::-1]
    norms.flags.writeable = False
    return norms


def decoder(horizon: int) -> Floats:
    """Return d_0, …, d_(T-1), the diagonals of D = A K^-1: prefix sums from rows.

    As power series, D(w) = 1 / ((1 - w) K(w)): each d_k makes the k-th coefficient of D K one.

    Example:
        >>> (decoder(3) * 2**13).tolist()
        [1.0, 0.5, 0.375]
    """
    horizon = count("horizon", horizon, 1, MAX_HORIZON)
    return _decoder(1 << (horizon - 1).bit_length())[:horizon]


@lru_cache(maxsize=16)
def _decoder(horizon: int) -> Floats:
    a = coefficients(horizon).astype(np.float64)
    d = np.empty(horizon)
    d[0] = 1 / a[0]
    for k in range(1, horizon):
        d[k] = (1 - a[1 : k + 1] @ d[k - 1 :: -1]) / a[0]
    d.flags.writeable = False
    return d


class ToeplitzCounter:
    """Prefix sums of a stream of integer vectors, noised; see the module for price and error.

    Args:
        horizon: T, the number of ticks, 1 to 2^14; public.
        sigma: Standard deviation of each row's noise, in steps of a row (2^-13 of a step of x).
        coordinates: d, the length of each vector.
        entropy: Private only when unpredictable, as the default is.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> sigma = 2.0 * 2**13  # two steps of x
        >>> counter = ToeplitzCounter(horizon=100, sigma=sigma, entropy=SeededEntropy(1))
        >>> answers = [float(counter.add(np.array([50]))[0]) for _ in range(100)]
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
        self._added: list[Ints] = []  # exact increments from `add`
        self._rows: list[Floats] = []  # released
        self._entropy = entropy

    def add(self, increment: Ints) -> Floats:
        """Add the next tick's exact increment and return the noised prefix sum, shape (d,).

        For streams whose rows were paid for in advance. If a filter decides at each tick which
        users count, compute the row yourself and use `release`. Increments saturate at ±2^32.

        Raises:
            QueryRefused: The horizon is over.
            ParameterError: The vector has another length.
        """
        vector = np.clip(self._check(increment), -_MOST, _MOST)
        if len(self._added) != self.tick:
            raise ParameterError(
                f"{len(self._added)} of {self.tick} ticks were added; it must be all or none",
                "use `add` at every tick, or `release` at every tick",
            )
        self._added.append(vector)
        back = coefficients(self.horizon)[self.tick :: -1]
        return self.release(back @ np.array(self._added))

    def release(self, row: Ints) -> Floats:
        """Release the next row's exact sum, sum_s a_(t-s) x_s; return the noised prefix sum.

        Raises:
            QueryRefused: The horizon is over.
            ParameterError: The vector has another length.
        """
        row = self._check(row)
        self.tick += 1
        noised = row + rounded_gaussian(self.sigma, self.coordinates, self._entropy)
        self._rows.append(noised.astype(np.float64))
        return prefix(np.array(self._rows), self.horizon)

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
        """Return a bound on the noise's variance at tick t: (d_0² + … + d_(t-1)²) (sigma + 1/2)².

        In steps of x. Rounding moves a Gaussian by at most 1/2, hence its deviation by at most
        that; and the row's roundings are independent, each with its Gaussian.
        """
        return (spread(count("tick", tick, 1, self.horizon)) * (self.sigma + 0.5)) ** 2

    def bound(self, beta: float, tick: int | None = None) -> float:
        """Return ±m, in steps of x, for the prefix at `tick`, or for every prefix (None).

        It holds with probability at least 1 - beta, for all d coordinates at once.
        """
        last = self.horizon if tick is None else count("tick", tick, 1, self.horizon)
        answers = self.horizon if tick is None else 1
        rounding = float(np.abs(decoder(last)).sum())
        sigma = self.sigma * spread(last)
        return simultaneous_bound(sigma, answers * self.coordinates, beta, lattice_step=rounding)


def prefix(rows: Floats, horizon: int) -> Floats:
    """Return the prefix sum up to the last of the released rows, (t, d) -> (d,): free.

    Example:
        >>> prefix(np.array([[8192.0], [4096.0]]), horizon=2).tolist()  # K times (1, 0)
        [1.0]
    """
    back = decoder(horizon)[count("rows", len(rows), 1, horizon) - 1 :: -1]
    return np.asarray(back @ rows)


def spread(tick: int) -> float:
    """Return sqrt(d_0² + … + d_(t-1)²): the deviation of prefix t is that times a row's sigma."""
    return math.sqrt(float((decoder(tick) ** 2).sum()))
