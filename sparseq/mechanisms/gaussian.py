"""The Gaussian rounded to the lattice, floor(sigma*Z + 1/2) with Z ~ N(0, 1), sampled exactly.

*Exactly* means: if the entropy is uniform, each integer k has exactly the probability
P(k - 1/2 <= sigma*Z < k + 1/2), sigma being the real number that the float stands for. No
approximation, no truncated tail. The answer depends on the entropy alone, not on the platform.

How. One bit is the sign, the other 63 are the first bits of a uniform u in (0, 1/2), and
|Z| = f(u) = -Phi^-1(u). The known bits confine u to a cell (m, m + 1) * 2^-64.

1. *Fast path*, vectorised: f at the cell with a proven error bound. When the bound keeps sigma*f
   inside one rounding interval (k - 1/2, k + 1/2), whatever the bits to come, |answer| = k.
2. *Exact path*, one draw at a time, when it does not, and in the tail u < 2^-15. x = f(u) reaches
   the boundary w = (k - 1/2)/sigma iff u <= Phi(-w), which integer arithmetic with a counted error
   decides. If Phi(-w) lies in the cell itself, u gets 64 fresh bits, until it does not.

Rounding half-integers up is not symmetric, yet we draw |answer| and a sign. No harm is done:
-floor(y + 1/2) = floor(-y + 1/2) unless y + 1/2 is an integer, and this has probability zero, as
sigma*Z has a density.

**The fast path's error.** Let e = 2^-53. The range of u is cut into segments. On the one with lower
end a and centre c, x = f(u) is approximated by its Taylor polynomial of degree 8 in s = u - c,
|s| <= H <= c/65. The derivatives are f^(n) = (-1)^n P_n(x) w'^n with w' = sqrt(2 pi) exp(x^2/2),
P_1 = 1, P_(n+1) = n x P_n + P_n' (Steinbrecher and Shaw 2008). P_n has no negative coefficients and
x >= 0 as u <= 1/2, so |f^(n)| falls with u: it is largest at a. With a_n = |f^(n)(c)|/n!, the
computed X is off x by at most

    e X                                    the last addition
  + e (1 + 2^-10) a_0                      the table's a_0 is rounded
  + e sum_n (3 n + r_n) a_n H^n            roundings: Horner's (2n), s (n), the table's (r_n)
  + |f^(9)(a)| / 9! * H^9                  Lagrange's remainder
  + 2^-65 w'(a)                            u is anywhere in its cell, s is taken at its middle

with r_1 = 4 and r_n = 64 otherwise. On every segment this is at most e (2.5 X + 0.125). Multiplying
by sigma rounds once more: |computed - sigma*x| <= e (3.5 computed + 0.125 sigma), up to terms of
order e^2. The code uses 3.75 and 0.25.

*Proven*, above and in comments of the code, given IEEE 754 binary64 with rounding to nearest: the
bound's terms, and the exact path. *Certified* in the tests, by interval arithmetic and for every
segment: the table's entries and the bound 2.5 X + 0.125. *Trusted:* in the certificate, mpmath's
interval arithmetic.

The running time depends on the drawn noise: this is not a constant-time sampler.
"""

from __future__ import annotations

import math
import operator
import statistics
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError
from sparseq.mechanisms.entropy import SYSTEM_ENTROPY, Entropy

MIN_SIGMA = 0.3
MAX_SIGMA = 2.0**44

_DEGREE = 8
_OCTAVES = 14  # the table covers 2^-15 <= u < 1/2; one draw in 16,384 lies below
_NORMAL = statistics.NormalDist()
_LEAST_LOG = -700.0  # e to this is a normal float
_SPLIT = 5  # each octave of u is cut into 2^5 segments
_CHUNK = 1 << 14  # draws per block, which fits in a core's cache

_WORD = np.dtype("<i8")
_MANTISSA = np.int64(2**63 - 1)
_ERROR_RELATIVE = 3.75 * 2.0**-53
_ERROR_PER_SIGMA = 0.25 * 2.0**-53


def rounded_gaussian(
    sigma: float | NDArray[np.float64], size: int, entropy: Entropy = SYSTEM_ENTROPY
) -> NDArray[np.int64]:
    """Draw `size` independent integers floor(sigma*Z + 1/2), Z ~ N(0, 1), exactly.

    `sigma` is in lattice steps, from 0.3 to 2^44: one number, or one per draw (shape `(size,)`).
    The result has shape `(size,)`, in lattice steps. It is private only when `entropy` is
    unpredictable, as the default is. (A result overflows int64 with probability below e^-(2^37).)

    Raises `ParameterError` when a sigma is out of range or not finite, when the number of sigmas is
    not `size`, or when `size` is negative.

    >>> from sparseq.mechanisms import SeededEntropy
    >>> rounded_gaussian(1000.0, 4, SeededEntropy(1)).shape
    (4,)
    """
    size, sigmas = _check(sigma, size)
    out = np.empty(size, np.int64)
    words = np.frombuffer(entropy(8 * size), dtype=_WORD, count=size)
    for start in range(0, size, _CHUNK):
        part = slice(start, start + _CHUNK)
        scale = sigmas if isinstance(sigmas, float) else sigmas[part]
        out[part] = _draw(words[part], scale, entropy)
    return out


def _check(
    sigma: float | NDArray[np.float64], size: int
) -> tuple[int, float | NDArray[np.float64]]:
    try:
        size = operator.index(size)
    except TypeError:
        raise ParameterError(f"size is {size!r}; it must be an integer") from None
    if size < 0:
        raise ParameterError(f"size is {size}; it must be at least 0")
    if isinstance(sigma, (int, float)):
        if MIN_SIGMA <= sigma <= MAX_SIGMA:
            return size, float(sigma)
        raise _sigma_error(sigma)
    sigmas = np.asarray(sigma, dtype=np.float64)
    good = (sigmas >= MIN_SIGMA) & (sigmas <= MAX_SIGMA)
    if not good.all():
        raise _sigma_error(sigmas[~good].flat[0])
    if sigmas.ndim == 0:
        return size, float(sigmas)
    if sigmas.shape != (size,):
        raise ParameterError(f"sigma has shape {sigmas.shape}; it must be one number, or {size}")
    return size, sigmas


def _sigma_error(sigma: float) -> ParameterError:
    return ParameterError(
        f"sigma is {sigma} lattice steps; it must be from {MIN_SIGMA} to 2^44",
        hint="choose a finer or a coarser granularity, so that sigma fits the lattice",
    )


def _draw(
    words: NDArray[np.int64], sigma: float | NDArray[np.float64], entropy: Entropy
) -> NDArray[np.int64]:
    """One draw per word: the top bit is the sign, the others are m: u is in (m, m + 1) * 2^-64."""
    words = words.astype(np.int64, copy=False)  # a copy only on a big-endian machine
    m = words & _MANTISSA
    y = _quantile(m)
    y *= sigma
    nearest = np.rint(y)
    margin = y * _ERROR_RELATIVE
    margin += _ERROR_PER_SIGMA * sigma
    # |y - nearest| is exact. If its real sum with the margin were 1/2 or more, the rounded one
    # would be too, as rounding is monotone and 1/2 is a float. NaN (the tail) is never decided.
    reach = np.abs(y - nearest)
    reach += margin
    undecided = np.flatnonzero(~(reach < 0.5))
    with np.errstate(invalid="ignore"):
        out = nearest.astype(np.int64)
    for i in undecided.tolist():
        own_sigma = sigma if isinstance(sigma, float) else float(sigma[i])
        out[i] = _decide(int(m[i]), own_sigma, float(y[i]), float(margin[i]), entropy)
    sign = words >> 63  # 0 or -1; (k ^ -1) + 1 = -k
    out ^= sign
    out -= sign
    return out


def _quantile(m: NDArray[np.int64]) -> NDArray[np.float64]:
    """f(u), u in (m, m + 1) * 2^-64, to within the module docstring's bound; NaN in the tail."""
    centres, coefficients = _table()
    # Exponent and first mantissa bits of m name its segment; less 11 bits, m is exact as a float.
    segment = (m >> 11).astype(np.float64).view(np.int64)
    segment >>= 52 - _SPLIT
    segment -= ((1023 + 52 - _OCTAVES) << _SPLIT) - 1
    np.maximum(segment, 0, out=segment)
    s = (m - centres.take(segment, mode="clip")).astype(np.float64)
    x = coefficients[-1].take(segment, mode="clip")
    for column in coefficients[-2::-1]:
        x *= s
        x += column.take(segment, mode="clip")
    return x


@lru_cache(maxsize=1)
def _table() -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
    """Centres c - 1/2 and Taylor coefficients (one array per power of s), u in units of 2^-64.

    Segment 0 is the tail: NaN. The others ascend in u. Made on first use, in some 15 ms.
    """
    count = _OCTAVES << _SPLIT
    centres = np.zeros(count + 1, np.int64)
    nodes = np.full((2, count + 1), np.nan)
    for i in range(count):
        octave, step = divmod(i, 1 << _SPLIT)
        half = 1 << (62 - _OCTAVES + octave - _SPLIT)
        centres[i + 1] = 2 * half * ((1 << _SPLIT) + step) + half
        nodes[:, i + 1] = _node(int(centres[i + 1]))
    x, slope = nodes
    coefficients = [x]
    power = np.ones_like(x)
    for n, polynomial in enumerate(_derivative_polynomials(_DEGREE), start=1):
        power *= slope * (-(2.0**-64) / n)
        coefficients.append(power * np.polynomial.polynomial.polyval(x, polynomial))
    return centres, coefficients


def _node(centre: int) -> tuple[float, float]:
    """f and |f'| = sqrt(2 pi) e^(f^2/2) at u = (centre + 1/2) * 2^-64, to within three roundings.

    One Newton step on Phi(x) - 1/2 = 1/2 - u, in integers, from a start good to 2^-40.
    """
    root = math.isqrt(2 * _pi(256))  # sqrt(2 pi), like all here in units of 2^-128
    target = root * (2**64 - 2 * centre - 1) >> 65
    x = -_NORMAL.inv_cdf((centre + 0.5) * 2.0**-64)
    while True:
        p, q = x.as_integer_ratio()
        series, growth, _ = _series(p * p, 2 * q * q, 128)
        step = math.ldexp((target - p * series // q) * growth, -256)
        if abs(step) < 2.0**-40:
            return x + step, math.ldexp(root * growth, -256) * (1 + x * step)
        x += step


def _derivative_polynomials(degree: int) -> list[list[int]]:
    """P_1 ... P_degree, coefficients from the constant up: P_(n+1) = n x P_n + P_n'."""
    polynomials = [[1]]
    for n in range(1, degree):
        p = polynomials[-1]
        raised = [0] + [n * a for a in p]
        for power, a in enumerate(p[1:], start=1):
            raised[power - 1] += power * a
        polynomials.append(raised)
    return polynomials


def _decide(m: int, sigma: float, y: float, margin: float, entropy: Entropy) -> int:
    """|answer| for u in (m, m + 1) * 2^-64; sigma*f(u) is within `margin` of y (NaN: anywhere)."""
    lowest: int = 0
    highest: float = math.inf
    if not math.isnan(y):
        slack = 2 * margin + 2.0**-50  # covers the roundings of these two lines
        lowest, highest = max(0, math.floor(y - slack + 0.5)), max(0, math.floor(y + slack + 0.5))
    bits = 64
    while (k := _settle(m, bits, sigma, lowest, highest)) is None:
        m = m << 64 | int.from_bytes(entropy(8), "little")
        bits += 64
    return k


def _settle(m: int, bits: int, sigma: float, lowest: int, highest: float) -> int | None:
    """The k in [lowest, highest] that all u in (m, m + 1) * 2^-bits give; None if there is none.

    Boundaries are tested from a guess outwards until one k is left: a bad guess only costs time.
    """
    log_u = math.log(2 * m + 1) - (bits + 1) * math.log(2.0)
    k = int(min(max(round(sigma * _tail_point(log_u)), lowest), highest))
    while lowest != highest:
        boundary = k if k > lowest else k + 1
        reached = _reaches(boundary, sigma, m, bits)
        if reached is None:
            return None
        if reached:
            lowest, k = boundary, max(k, boundary)
        else:
            highest, k = boundary - 1, min(k, boundary - 1)
    return lowest


def _tail_point(log_u: float) -> float:
    """Return about f(u), from the logarithm of u.

    Below what a float holds, x is the fixed point of log u = -x^2/2 - log(x sqrt(2 pi)) +
    log(1 - 1/x^2 + 3/x^4), the asymptotic series of Phi(-x); it is off by less than 1e-9 there.
    """
    if log_u > _LEAST_LOG:
        return -_NORMAL.inv_cdf(math.exp(log_u))
    x = math.sqrt(-2 * log_u)
    for _ in range(8):
        series = math.log1p(-1 / x**2 + 3 / x**4)
        x = math.sqrt(2 * (series - log_u - math.log(x) - 0.5 * math.log(2 * math.pi)))
    return x


def _reaches(k: int, sigma: float, m: int, bits: int) -> bool | None:
    """Tell if sigma*f(u) >= k - 1/2 (k >= 1): for all u in (m, m + 1) * 2^-bits, for none, or None.

    With w = (k - 1/2)/sigma, h = w^2/2 and v = 1/2 - u, that is v >= Phi(w) - 1/2, which equals
    w S(h) / sqrt(2 pi), S(h) = sum_n (-h)^n / (n! (2n + 1)); squared: pi v^2 >= h S(h)^2. All are
    integers here, each with a known error, so that both comparisons are certain.
    """
    p, q = sigma.as_integer_ratio()
    numerator, denominator = ((2 * k - 1) * q) ** 2, 8 * p * p  # of h
    precision = bits + 32 + 3 * numerator // (2 * denominator)
    series, _, error = _series(numerator, denominator, precision)
    h = (numerator << precision) // denominator
    pi = _pi(precision)
    v = (1 << (bits - 1)) - m
    shift = 2 * (precision - bits)
    if pi * (v - 1) ** 2 << shift >= (h + 1) * (series + error) ** 2:
        return True
    if (pi + 2) * v**2 << shift <= h * max(0, series - error) ** 2:
        return False
    return None


def _series(numerator: int, denominator: int, precision: int) -> tuple[int, int, int]:
    """S(h) = sum_n (-h)^n / (n! (2n + 1)), e^h, and a bound on S's error, in units of 2^-precision.

    Every term is floored, and so at most its real value 2^precision h^n/n!. Flooring h costs term n
    less than h^(n-1)/(n-1)! units; flooring term j costs it less than 1, which reaches term j + i
    times h^i j!/(j+i)! <= h^i/i!. Summed over N terms: at most (N + 1) e^h. The divisions by 2n + 1
    add at most N. At the end n > h and the term is 0, so that its real value, which bounds the
    alternating rest, is below (N + 1) e^h too. Together below 3 (N + 1) e^h; e^h < 2^(3h/2 + 1).
    """
    h = (numerator << precision) // denominator
    term = total = growth = 1 << precision
    n = 0
    while term or n * denominator <= numerator:
        n += 1
        term = (term * h >> precision) // n
        growth += term
        total += -(term // (2 * n + 1)) if n & 1 else term // (2 * n + 1)
    return total, growth, 3 * (n + 1) << (3 * numerator // (2 * denominator) + 2)


@lru_cache(maxsize=256)
def _pi(precision: int) -> int:
    """pi in units of 2^-precision, too small by less than 2.

    Machin: pi = 16 arctan(1/5) - 4 arctan(1/239), with 64 more bits. Each term of either series is
    off by less than 2 of their units, and there are fewer than 2^32 terms: less than 2^40 in all.
    """
    one = 1 << (precision + 64)
    return (16 * _arctan_inverse(5, one) - 4 * _arctan_inverse(239, one) - (1 << 40)) >> 64


def _arctan_inverse(n: int, one: int) -> int:
    """arctan(1/n) in units of 1/one; each term of the series is rounded down twice."""
    power = total = one // n
    k = 1
    while power:
        power //= n * n
        k += 2
        total += -(power // k) if k & 2 else power // k
    return total
