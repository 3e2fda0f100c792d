"""The discrete Laplace distribution, P(k) = tanh(1/2b) e^(-|k|/b) on the integers, sampled exactly.

*Exactly* means: if the entropy is uniform, each integer has exactly that probability, b being the
real number that the float stands for. No float takes part in a draw.

How. With r = e^(-1/b), a geometric G, P(G = k) = (1 - r) r^k, has independent binary digits below
any 2^m: digit i is 1 with probability 1/(1 + e^(2^i/b)), because r^k is the product of r^(2^i) over
the digits of k that are 1. What lies above, floor(G / 2^m), is geometric with ratio e^(-2^m/b),
independent of the digits. So one Bernoulli a digit, 2^m >= 64 b, and then Bernoullis of
e^(-2^m/b) <= e^-64 until the first that fails. The difference of two such G is discrete Laplace:
P(G - G' = k) = sum_j (1-r)^2 r^(2j+|k|) = (1-r)/(1+r) r^|k|, and (1-r)/(1+r) = tanh(1/2b).

A Bernoulli of probability p compares 64 random bits with floor(2^64 p), and where they are equal
draws 64 more for the next 64 bits of p, until they differ. The bits of p come from integer
arithmetic with certain bounds (`exp_minus`); p is irrational, so the comparison ends.

Sources: Ghosh, Roughgarden & Sundararajan (2009) for the geometric mechanism; Canonne, Kamath &
Steinke (2020) for exact sampling by rejection, which this replaces by digits.

The running time depends on the drawn noise: this is not a constant-time sampler.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import count, in_range, whole_numbers
from sparseq.base.errors import ParameterError
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy

MIN_SCALE = 2.0**-6
MAX_SCALE = 2.0**40

_Bits = NDArray[np.bool_]


def discrete_laplace(
    scale: float, size: int, entropy: Entropy = SYSTEM_ENTROPY
) -> NDArray[np.int64]:
    """Draw `size` independent integers with P(k) proportional to e^(-|k|/scale), exactly.

    Added to an integer that one user changes by at most D, the result is (D/scale)-DP, D²/(2
    scale²)-zCDP, and has the Rényi curve `laplace_rdp` (neighbours: add/remove one user).

    Args:
        scale: b, in lattice steps, from 2^-6 to 2^40.
        size: Number of draws, at least 0.
        entropy: The result is private only when it is unpredictable, as the default is.

    Returns:
        int64, shape (size,), in lattice steps; the variance is 1/(2 sinh(1/2b)²), about 2 b². (It
        overflows int64 with probability below e^-(2^21).)

    Raises:
        ParameterError: scale or size is out of its range.

    Example:
        >>> from sparseq.mechanisms import SeededEntropy
        >>> discrete_laplace(10.0, 3, SeededEntropy(1)).shape
        (3,)
    """
    scale = in_range("scale", scale, MIN_SCALE, MAX_SCALE)
    size = count("size", size, 0)
    pair = _geometric(scale, 2 * size, entropy)
    return pair[:size] - pair[size:]


def laplace_rdp(order: float, scale: float, shift: int) -> float:
    """Return the Rényi divergence between discrete Laplace noise and the same shifted, rounded up.

    Args:
        order: alpha > 1.
        scale: b, see `discrete_laplace`.
        shift: D >= 0, the most that one user changes the integer to which the noise is added.

    Returns:
        D_alpha(L || L + D), the same in both directions by symmetry; never above D/b (pure DP) nor
        alpha D²/(2 b²) (Bun & Steinke 2016).

    Raises:
        ParameterError: A number is out of its range.

    Proof. Sum P(k)^alpha P(k + D)^(1-alpha) over k >= 0, over k <= -D, and over the k in between;
    with r = e^(-1/b) the parts are r^((1-alpha)D)/(1+r), r^(alpha D)/(1+r) and (1-r)/(1+r)
    r^((1-alpha)D) (R - R^D)/(1-R), R = r^(2 alpha - 1). The sum increases with D.

    Example:
        >>> 0.0 < laplace_rdp(2.0, scale=10.0, shift=1) < 2 / (2 * 10.0**2)
        True
    """
    order = in_range("order", order, 1.0, 2.0**20, open_low=True)
    scale = in_range("scale", scale, MIN_SCALE, MAX_SCALE)
    shift = count("shift", shift, 0, 2**53)
    epsilon = shift / scale * (1 + 2**-50)
    if shift == 0:
        return 0.0
    one = 1 / scale
    tails = [(order - 1) * shift * one, -order * shift * one]
    logs = [x - math.log1p(math.exp(-one)) for x in tails]
    if shift > 1:
        step = (2 * order - 1) * one
        middle = -step + math.log(-math.expm1(-(shift - 1) * step) / -math.expm1(-step))
        logs.append(tails[0] + math.log(math.tanh(one / 2)) + middle)
    top = max(logs)
    total = top + math.log(math.fsum(math.exp(x - top) for x in logs))
    rounding = 2**-45 * (1 + abs(total))
    return min(epsilon, order * epsilon**2 / 2, (total + rounding) / (order - 1))


def laplace_margin(scale: float, beta: float, draws: int = 1) -> int:
    """Return an m such that `draws` draws all stay within ±m with probability at least 1 - beta.

    Proof: P(|L| > m) = 2 r^(m+1)/(1+r) <= 2 e^(-m/b), and a union over the draws.

    Example:
        >>> laplace_margin(10.0, 0.05)
        37
    """
    scale = in_range("scale", scale, MIN_SCALE, MAX_SCALE)
    beta = in_range("beta", beta, 0.0, 1.0, open_low=True)
    return math.ceil(scale * math.log(2 * count("draws", draws) / beta) * (1 + 2**-40))


def laplace_pair_tail(scale: float, least: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return P(Z + L >= s) for each s, Z and L being two independent draws of one scale.

    Proof: with r = e^(-1/b), P(Z + L = s) = ((1-r)/(1+r))² r^s (s + a), a = 1 + 2 r²/(1-r²), for
    s >= 0; the tail is the sum of that. Below 0 it is at most 1, and 1 is returned.

    Args:
        scale: b, from MIN_SCALE to MAX_SCALE.
        least: s, whole numbers.

    Raises:
        ParameterError: One is out of range.

    Example:
        >>> laplace_pair_tail(10.0, np.array([-1, 0, 33])).round(4).tolist()
        [1.0, 0.5125, 0.0508]
    """
    scale = in_range("scale", scale, MIN_SCALE, MAX_SCALE)
    least = whole_numbers("least", least, -(2**62), 2**62)
    r, less = math.exp(-1 / scale), -math.expm1(-1 / scale)
    a = 1 + 2 * r * r / (less * (1 + r))
    s = np.maximum(least, 0)
    chance = np.exp(-s / scale) * ((s + a) * less + r) / (1 + r) ** 2
    return np.where(least < 0, 1.0, np.minimum(chance * (1 + 2**-40), 1.0))


class _Coin:
    """A bit that is 1 with probability e^-x, or, as `odds`, e^-x / (1 + e^-x)."""

    def __init__(self, x: Fraction, odds: bool) -> None:
        self.x, self.odds = x, odds
        self._limit = np.uint64(_probability(x, odds, 64))

    def flip(self, size: int, entropy: Entropy) -> _Bits:
        words = np.frombuffer(entropy(8 * size), "<u8", size)
        out: _Bits = words < self._limit
        for i in np.flatnonzero(words == self._limit).tolist():
            bits, ahead = 64, 0
            while ahead == 0:  # u has followed p so far; the next 64 bits of both
                bits += 64
                target = _probability(self.x, self.odds, bits) & (2**64 - 1)
                ahead = target - int.from_bytes(entropy(8), "little")
            out[i] = ahead > 0
        return out


@lru_cache(maxsize=64)
def _coins(scale: float) -> list[_Coin]:
    """One coin for each digit of a geometric below 2^m >= 64 scale, and one for the part above."""
    exact = Fraction(scale)
    m = max(0, math.ceil(64 * exact) - 1).bit_length()
    return [*(_Coin(2**i / exact, True) for i in range(m)), _Coin(2**m / exact, False)]


def _geometric(scale: float, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw P(k) = (1 - r) r^k, r = e^(-1/scale)."""
    *digits, above = _coins(scale)
    out = np.zeros(size, np.int64)
    for i, digit in enumerate(digits):
        out |= digit.flip(size, entropy).astype(np.int64) << i
    more = np.arange(size)
    while len(more):
        more = more[above.flip(len(more), entropy)]
        out[more] += 1 << len(digits)
    return out


@lru_cache(maxsize=64)
def _probability(x: Fraction, odds: bool, bits: int) -> int:
    """floor(2^bits p), certain: the precision grows until both ends have the same floor."""
    extra = 16
    while True:
        one = 1 << (bits + extra)
        low, high = (
            (e << bits) // (one + e) if odds else e >> extra for e in exp_minus(x, bits + extra)
        )
        if low == high:
            return low
        extra *= 2


def exp_minus(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers low <= 2^bits e^-x <= high, for a rational x >= 0, a few units apart.

    Proof. y = x/2^h <= 1, and e^-y is an alternating series of falling terms. Each term y^n/n! is
    kept as a floor and as a ceiling, so each partial sum has a lower and an upper end; the rest is
    no more than the first term left out, which is at most one unit. Then h squarings, rounded
    outwards.

    Example:
        >>> low, high = exp_minus(Fraction(1), 40)
        >>> low <= 2**40 * math.exp(-1) <= high, high - low < 3
        (True, True)
    """
    bits = count("bits", bits)
    if not isinstance(x, Rational) or x < 0:
        raise ParameterError(f"x is {x!r}; it must be a fraction in [0, inf)")
    halvings = max(0, math.ceil(x) - 1).bit_length()
    work = bits + 2 * halvings + 16
    p, q = x.numerator, x.denominator << halvings
    floor = ceiling = low = high = 1 << work
    n = 0
    while ceiling > 1:
        n += 1
        floor, ceiling = floor * p // (q * n), -(-ceiling * p // (q * n))
        low, high = (low - ceiling, high - floor) if n & 1 else (low + floor, high + ceiling)
    low, high = max(low - 1, 0), high + 1
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    spare = work - bits
    return low >> spare, -(-high >> spare)
