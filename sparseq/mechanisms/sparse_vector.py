"""AboveThreshold, the sparse vector technique: which of many queries are above a threshold?

See docs/theorems/sparse-vector.md.

A stream of adaptively chosen queries with integer values f_1, f_2, … is compared with a threshold
T: the answer to f_t is 1 if f_t + nu_t >= T + z, with z drawn once and a new nu_t each time. After
`positives` answers of 1 it halts. z and the answers of 1 have a privacy cost; answers of 0 are free
(Laplace) or nearly free (Gaussian). Values and noise are integers, drawn exactly.

**Neighbours**: add/remove one user, who changes every f_t by at most D, the `sensitivity`; the
caller ensures this by clamping each user's value to [-D, D]. With `one_sided` they are clamped to
[0, D], so that removing a user moves all f_t the same way (Lyu, Su & Li 2017, "monotonic queries");
that halves the cost of an answer of 1.

**Proof of both prices.** Let w = D if one_sided, else 2D. Fix the answers o; given z, P(o | z) is a
product over t. Substitute z -> z + D in Q, the run without (or with) the user: for every t the
probability of a 0 given z is then at least P's, and the thresholds that nu_t must reach differ by
some w' in [0, w]. (one_sided and f' <= f: no substitution is needed, so the first factor below is
1.)

*Laplace.* p(z) <= e^(D/b1) p(z + D), each 0 is no less likely under Q, each 1 at most e^(w/b2)
times less likely: epsilon = D/b1 + c w/b2, c = positives, whatever the number of queries (Dwork &
Roth 2014 for c = 1; Lyu et al. 2017 for one z and several 1s).

*Entering* (Laplace, c = 1). Every user's value is 0 up to some query and D from then on, as in a
count of users who have left. Then epsilon = max(D/b1, D/b2), and the user's loss starts at the
query at which the user enters. In symbols, x_t in {0, D} is the user's value, F and G = 1 - F are
the probabilities of 0 and 1, o = 0…0 or 0…01, k its length:
    P(o) = sum_z p(z) prod_t F(T_t + z - f_t - x_t) [G(T_k + z - f_k - x_k)]   with the user,
    Q(o) = sum_z p(z) prod_t F(T_t + z - f_t) [G(T_k + z - f_k)]               without.
P <= e^(D/b2) Q: F does not fall, and G(s - D) <= e^(D/b2) G(s). Q <= e^(D/b1) P: if the user has
entered by k, x_k = D, write z = y + D in P; p(y + D) >= e^(-D/b1) p(y), each F has grown by D - x_t
>= 0, and G is as in Q. If not, all x_t are 0 and P = Q. T_t may depend on all earlier answers.

*Rényi.* (x, y) -> x^a y^(1-a) is jointly convex and homogeneous, so
    sum_o P(o)^a Q(o)^(1-a) <= sum_z p(z)^a p(z+D)^(1-a) · S(z),
    S(z) = sum_o P(o | z)^a Q(o | z + D)^(1-a).
The first factor is the Rényi divergence of the threshold's noise. Laplace: S <= e^((a-1) c w/b2),
hence rdp(a) = laplace_rdp(a, b1, D) + c w/b2. Gaussian: S is a game played against the worst stream
of queries (`_log_game`), hence rdp(a) = a D²/(2 sigma1²) + c · log V_K(a) / (a-1). To condition on
z is the idea of Zhu & Wang (2020); instead of their closed forms for S we compute its supremum,
which is at most that of K-fold composition, and far less for many queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Protocol

import numpy as np

from sparseq.accounting import simultaneous_bound
from sparseq.accounting._numbers import count, in_range
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy
from sparseq.mechanisms.gaussian import MAX_SIGMA, MIN_SIGMA, rounded_gaussian
from sparseq.mechanisms.laplace import (
    MAX_SCALE,
    MIN_SCALE,
    discrete_laplace,
    laplace_margin,
    laplace_rdp,
)

MAX_SENSITIVITY = 2**31
_TRUST = 2.0**-40  # relative error granted to log_ndtr


class Design(Protocol):
    """The noise of a sparse vector, and its end: everything that its price depends on."""

    @property
    def positives(self) -> int: ...

    @property
    def queries(self) -> int | None: ...

    def threshold_noise(self, entropy: Entropy) -> int: ...

    def query_noise(self, entropy: Entropy) -> int: ...


@dataclass(frozen=True, slots=True)
class LaplaceSparseVector:
    """AboveThreshold with discrete Laplace noise: pure DP, however many queries.

    Args:
        sensitivity: D, an integer from 0 to 2^31.
        threshold_scale, query_scale: b1 of z and b2 of each nu_t, in lattice steps.
        positives: c, the largest number of answers of 1.
        one_sided: Every user's values have one sign, see the module.
        entering: Every user's value is 0 at first and D from some query on; for c = 1.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> design = LaplaceSparseVector(1, threshold_scale=20.0, query_scale=40.0)
        >>> design.epsilon, design.rho
        (Fraction(1, 10), Fraction(1, 200))
        >>> LaplaceSparseVector(1, 20.0, 20.0, entering=True).epsilon
        Fraction(1, 20)
    """

    sensitivity: int
    threshold_scale: float
    query_scale: float
    positives: int = 1
    one_sided: bool = False
    entering: bool = False

    def __post_init__(self) -> None:
        _check(self)
        if self.entering and self.positives != 1:
            raise ParameterError("entering users are priced for one answer of 1 only")
        for name in ("threshold_scale", "query_scale"):
            in_range(name, getattr(self, name), MIN_SCALE, MAX_SCALE)

    @property
    def queries(self) -> None:
        """Largest number of queries: no limit."""
        return None

    @property
    def epsilon(self) -> Fraction:
        """Pure DP of the whole run, exact: D/b1 + c w/b2, or as entering (see the module)."""
        first = Fraction(self.sensitivity) / Fraction(self.threshold_scale)
        if self.entering:
            return max(first, Fraction(self.sensitivity) / Fraction(self.query_scale))
        return first + self.positives * Fraction(_reach(self)) / Fraction(self.query_scale)

    @property
    def rho(self) -> Fraction:
        """zCDP of the whole run: epsilon²/2 (Bun & Steinke 2016)."""
        return self.epsilon**2 / 2

    def rdp(self, order: float) -> float:
        """Return rho(alpha), alpha > 1, of the whole run: the least of the three prices."""
        ones = self.positives * Fraction(_reach(self)) / Fraction(self.query_scale)
        by_order = laplace_rdp(order, self.threshold_scale, self.sensitivity) + float(ones)
        return _up(min(by_order, float(self.epsilon), order * float(self.rho)))

    def for_user(self, largest: int) -> LaplaceSparseVector:
        """Return the same run for a user whose values never exceed `largest` <= D.

        Its price is the user's own (individual RDP, Feldman & Zrnic 2021, Definition 2.5), as
        private as the user's values are.
        """
        return replace(self, sensitivity=count("largest", largest, 0, self.sensitivity))

    def margin(self, beta: float, queries: int) -> int:
        """Return m: with probability 1 - beta no answer among `queries` is wrong by more than m.

        That is, all answers of 1 have f_t >= T - m, all of 0 have f_t < T + m (Dwork & Roth 2014,
        with the exact tails of the discrete noise).
        """
        half = in_range("beta", beta, 0.0, 1.0, open_low=True) / 2
        of_queries = laplace_margin(self.query_scale, half, count("queries", queries))
        return laplace_margin(self.threshold_scale, half) + of_queries

    def threshold_noise(self, entropy: Entropy) -> int:
        """Draw z."""
        return int(discrete_laplace(self.threshold_scale, 1, entropy)[0])

    def query_noise(self, entropy: Entropy) -> int:
        """Draw one nu_t."""
        return int(discrete_laplace(self.query_scale, 1, entropy)[0])


@dataclass(frozen=True, slots=True)
class GaussianSparseVector:
    """AboveThreshold with exact Gaussian noise: a Rényi curve, for a declared number of queries.

    Rounding the noise to integers costs nothing: shifts are integers, and P(nu >= s) is a Gaussian
    tail at s - 1/2, so the game's tails are the exact ones.

    Args:
        sensitivity: D, an integer from 0 to 2^31.
        threshold_sigma, query_sigma: Standard deviations of z and of each nu_t, in lattice steps.
        queries: K, after which the run is over.
        positives, one_sided: See `LaplaceSparseVector`.

    Raises:
        ParameterError: A number is out of its range.

    Example:
        >>> design = GaussianSparseVector(1, 10.0, 20.0, queries=1000, one_sided=True)
        >>> composed = 4.0 * 1000 / (2 * 20.0**2)  # had all 1000 values been released
        >>> round(design.rdp(4.0), 3), composed
        (0.059, 5.0)
    """

    sensitivity: int
    threshold_sigma: float
    query_sigma: float
    queries: int
    positives: int = 1
    one_sided: bool = False

    def __post_init__(self) -> None:
        _check(self)
        count("queries", self.queries, 1, 2**40)
        for name in ("threshold_sigma", "query_sigma"):
            in_range(name, getattr(self, name), MIN_SIGMA, MAX_SIGMA)

    def rdp(self, order: float) -> float:
        """Return rho(alpha), 1 < alpha <= 1024, of the whole run (see the module)."""
        order = in_range("order", order, 1.0, 1024.0, open_low=True)
        if self.sensitivity == 0:
            return 0.0
        threshold = order * (self.sensitivity / self.threshold_sigma) ** 2 / 2
        stage = _log_game(order, _reach(self) / self.query_sigma, self.queries) / (order - 1)
        released = order * self.queries * (self.sensitivity / self.query_sigma) ** 2 / 2
        return _up(min(threshold + self.positives * stage, released))

    def for_user(self, largest: int) -> GaussianSparseVector:
        """Return the same run for one user, see `LaplaceSparseVector.for_user`."""
        return replace(self, sensitivity=count("largest", largest, 0, self.sensitivity))

    def margin(self, beta: float) -> float:
        """Return m: with probability 1 - beta no answer is wrong by more than m.

        z and K nu's are independent Gaussians, each rounded by half a step at most.
        """
        both = self.threshold_sigma + self.query_sigma
        return simultaneous_bound(both, self.queries + 1, beta, lattice_step=2.0)

    def threshold_noise(self, entropy: Entropy) -> int:
        """Draw z."""
        return int(rounded_gaussian(self.threshold_sigma, 1, entropy)[0])

    def query_noise(self, entropy: Entropy) -> int:
        """Draw one nu_t."""
        return int(rounded_gaussian(self.query_sigma, 1, entropy)[0])


class AboveThreshold:
    """One run of a sparse vector.

    Args:
        design: The noise, and its price.
        threshold: T, public, an integer in lattice steps.
        entropy: Private only when unpredictable, as the default is.
        noise: z, to continue a run whose z was drawn before.

    Attributes:
        noise: z: secret.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> design = LaplaceSparseVector(1, 2.0, 4.0)
        >>> run = AboveThreshold(design, 1000, SeededEntropy(1))
        >>> run.above(10), run.above(2000), run.halted
        (False, True, True)
    """

    def __init__(
        self,
        design: Design,
        threshold: int,
        entropy: Entropy = SYSTEM_ENTROPY,
        noise: int | None = None,
    ) -> None:
        self.design = design
        self.asked = 0
        self.found = 0
        self._entropy = entropy
        start = count("threshold", threshold, -(2**62), 2**62)
        drawn = design.threshold_noise(entropy) if noise is None else noise
        self.noise = count("noise", drawn, -(2**62), 2**62)
        self._threshold = start + self.noise

    @property
    def halted(self) -> bool:
        """True if the run is over; public, as it follows from the answers."""
        over = self.design.queries is not None and self.asked >= self.design.queries
        return over or self.found >= self.design.positives

    def above(self, value: int) -> bool:
        """Answer one query.

        Args:
            value: f_t, exact, in lattice steps; no user changes it by more than the sensitivity.

        Raises:
            QueryRefused: The run is over.
            ParameterError: The value is not an integer.
        """
        if not isinstance(value, Integral):
            raise ParameterError(f"value is {value!r}; it must be a whole number of lattice steps")
        if self.halted:
            raise QueryRefused(
                f"the sparse vector has halted after {self.asked} queries, {self.found} above",
                "start another; it is charged again",
            )
        self.asked += 1
        above = int(value) + self.design.query_noise(self._entropy) >= self._threshold
        self.found += above
        return above


def _check(design: LaplaceSparseVector | GaussianSparseVector) -> None:
    count("sensitivity", design.sensitivity, 0, MAX_SENSITIVITY)
    count("positives", design.positives, 1, 2**31)


def _reach(design: LaplaceSparseVector | GaussianSparseVector) -> int:
    entering = isinstance(design, LaplaceSparseVector) and design.entering
    return design.sensitivity * (1 if design.one_sided or entering else 2)


def _up(price: float) -> float:
    """Round up past the roundings of a few float operations."""
    return price * (1 + 2**-48)


@lru_cache(maxsize=256)
def _log_game(order: float, shift: float, queries: int) -> float:
    """Return log V_K, an upper bound on log S up to the first answer of 1; `shift` is w/sigma2.

    At a query whose threshold is s standard deviations of nu up, a 0 has chance Phi(s) under P and
    Phi(s + w') under Q, w' <= w. So V_0 = 1 and, with T(s) = Phi(-s),
        V_k = sup_s c(s) V_(k-1) + b(s),  c(s) = Phi(s)^a Phi(s+w)^(1-a), b(s) = T(s)^a T(s+w)^(1-a)
    (as a function of Q's chance it is convex, so w' = w or w' = 0 is worst, and the latter gives no
    more than V_(k-1), the limit of s -> infinity). With c answers of 1, S <= V_K^c, by induction.

    Rigour. Phi and T are log-concave, so R(s) = (Phi(s)/Phi(s+w))^(a-1) <= 1 and Q(s) = (T(s)/
    T(s+w))^(a-1) >= 1 increase with s. On a cell with right end r, c V + b is at most
    p R(r) V + (1-p) Q(r), linear in p = Phi(s): one of the cell's ends is worst. Left of the grid p
    runs from 0; right of it c <= 1 and b <= e^(a(a-1)w²/2) T(s - (a-1)w) (convexity). The gain
    sup_s b - (1-c) V falls with V: n steps gain at most n times the first. `log_ndtr` is trusted to
    a relative 2^-40; logarithms are widened by that, gains by 2^-20. Where M := e^(a(a-1)w²/2) is
    out of reach, b <= M gives V_K <= 1 + K M.
    """
    from scipy.special import log_ndtr

    tilt = order * (order - 1) * shift**2 / 2
    simple = min(queries * tilt, tilt + math.log(1 + queries))  # K-fold composition; 1 + K M
    if tilt > 300 or shift > 64:
        return simple
    left, right = -10 - shift, (order - 1) * shift + 12 + math.sqrt(2 * tilt)
    s = np.linspace(left, right, math.ceil((right - left) * 512))
    below, tail = log_ndtr(s), log_ndtr(-s)
    log_r = (order - 1) * (below - log_ndtr(s + shift) + _TRUST * (1 + np.abs(below)))
    log_q = (order - 1) * (tail - log_ndtr(-s - shift) + _TRUST * (1 + np.abs(tail)))
    ends = [slice(0, -1), slice(1, None)]  # of cells; R and Q are those of the right end
    b = [np.exp(tail[end] + log_q[1:]) for end in ends]
    missing = [np.exp(tail[end]) - np.exp(below[end]) * np.expm1(log_r[1:]) for end in ends]
    beyond = math.exp(tilt + float(log_ndtr((order - 1) * shift - right)))
    b_all = np.concatenate([*b, [math.exp(log_q[0]), beyond]])
    missing_all = np.concatenate([*missing, [1.0, 0.0]])
    value, left_over = 1.0, queries
    while left_over and value < 1e300:
        gain = max(float(np.max(b_all - missing_all * value)), 0.0) * (1 + 2**-20)
        few = (value - 1) / 64  # growth per step: the gain then stays about the same
        steps = max(1, int(few / gain)) if gain * left_over > few else left_over
        value += steps * gain
        left_over -= steps
    return simple if left_over else min(math.log(value), simple)
