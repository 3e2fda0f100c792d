"""Directed rounding: the float64 on the safe side of a number given exactly or by a test.

Privacy arithmetic may never err in the analyst's favour. So a real number is never rounded to
nearest: a search finds the float that provably lies on the safe side.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction


def sqrt_up(square: Fraction) -> float:
    """Return the smallest float64 whose exact square is at least `square` >= 0.

    The integer root of 126 bits or more starts the search within an ulp.

    Raises:
        OverflowError: The root is above the largest float.

    Proof: on return, root² >= square has been checked in rationals, and so has
    below² < square for the float just below. Squaring is monotone.

    Example:
        >>> sqrt_up(Fraction(9)), sqrt_up(Fraction(2)) ** 2 > 2, sqrt_up(Fraction(0))
        (3.0, True, 0.0)
    """
    if square == 0:
        return 0.0
    halvings = 64 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    root = math.ldexp(math.isqrt(math.floor(square * Fraction(4) ** halvings)), -halvings)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(below := math.nextafter(root, 0.0)) ** 2 >= square:
        root = below
    return root


def round_down(exact: Fraction) -> float:
    """Return the largest float64 that is at most `exact`.

    Example:
        >>> round_down(Fraction(1, 10)) < 0.1 and round_down(Fraction(1, 4)) == 0.25
        True
    """
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def boundary(
    holds: Callable[[float], bool], low: float, high: float, near: float | None = None
) -> tuple[float, float]:
    """Return neighbouring floats (a, b), a <= b, between which `holds` changes its value.

    Args:
        holds: A test of a float. It need not be monotone: rounding may make it alternate near its
            true threshold, and (a, b) is then one of the changes.
        low, high: 0 <= low < high, where `holds` must differ.
        near: A guess of (a, b): the better the guess, the fewer tests.

    Bisection runs over bit patterns: non-negative floats sort as their bit patterns do, so
    63 tests end at neighbouring floats for any bracket, where midpoints of floats take a
    thousand when the answer is 1e-300.

    Example:
        >>> a, b = boundary(lambda x: x * x >= 2, 0.0, 10.0)
        >>> a < math.sqrt(2) <= b and b == math.nextafter(a, 2.0)
        True
    """
    at_low = holds(low)
    left, right = _bits(low), _bits(high)
    middle = _bits(low if near is None else near)
    for width in (1 << 12, 1 << 24, 1 << 36) if near is not None else ():
        below, above = max(middle - width, left), min(middle + width, right)
        if holds(_float(below)) == at_low and holds(_float(above)) != at_low:
            left, right = below, above
            break
    while right - left > 1:
        middle = (left + right) // 2
        if holds(_float(middle)) == at_low:
            left = middle
        else:
            right = middle
    return _float(left), _float(right)


def _bits(number: float) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits


def _float(bits: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return number
