"""Checks of every public number of this package, with one wording of the refusal.

Directed rounding: the float64 on the safe side of a number that is known exactly or by a test.

Privacy arithmetic may never err in the analyst's favour, so a real number becomes a float
by a search for the float that provably lies on the right side, never by rounding to nearest.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from numbers import Integral, Real
from typing import TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.base.errors import ParameterError

# -- checks of every public number of this package, with one wording of the refusal ----------------

MIN_DELTA = 2.0**-500
"""Smallest delta an inverse conversion accepts: far below use, far above underflow."""
MAX_EPSILON = 2.0**996
"""Largest epsilon that is converted into a budget: so that neither the budget overflows, nor what
is made of it."""

_BLOCK = 1 << 14  # numbers that are checked at once: they stay in cache


def in_range(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> float:
    """Return `value` as a float if it is in [low, high] and finite, or refuse it by name.

    Args:
        name: What the caller calls the number; it opens the message.
        value: A real number; a bool is refused, since True as a budget is a slip.
        low, high: The range. An infinite `high` means any finite number.
        open_low: Whether `low` itself is refused.

    Raises:
        ParameterError: The value is no real number, not finite, or outside the range.

    Example:
        >>> in_range("mu", 2, 0.0, 10.0)
        2.0
    """
    above = is_real(value) and (value > low if open_low else value >= low)
    if not (above and value <= high and _is_finite(value)):
        left = "(" if open_low else "["
        right = ")" if math.isinf(high) else "]"
        raise ParameterError(
            f"{name} is {value!r}; it must be in {left}{low:g}, {high:g}{right}",
            f"give a finite number in that range as {name}",
        )
    return float(value)


def is_real(value: object) -> TypeGuard[float]:
    """Tell whether `value` is a real number (Python's or NumPy's) and not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int or a fraction that no float64 can hold
        return False


def all_in_range(
    name: str, values: float | NDArray[np.float64], low: float, *, open_low: bool = False
) -> NDArray[np.float64]:
    """Return a number or an array of them as a float64 array, if each is finite and >= `low`.

    Raises:
        ParameterError: As `in_range`, with the first number that is not in the range.

    Example:
        >>> all_in_range("epsilon", 2, 0.0)
        array(2.)
    """
    array = np.asarray(values)
    if array.ndim == 0 or array.dtype.kind not in "iuf":
        return np.asarray(in_range(name, cast(float, values), low, math.inf, open_low=open_low))
    wrong = array[~(np.isfinite(array) & (array > low if open_low else array >= low))]
    if wrong.size:
        in_range(name, wrong.flat[0].item(), low, math.inf, open_low=open_low)
    return array.astype(np.float64)


def spendable(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers >= 0 as float64, without copying what is float64 already.

    Raises:
        ParameterError: One is negative, NaN or infinite.
    """
    array = np.asarray(values)
    if array.dtype == np.float64 and array.ndim == 1:
        blocks = (array[start : start + _BLOCK] for start in range(0, array.size, _BLOCK))
        if all(block.min() >= 0 and block.max() < math.inf for block in blocks):
            return array
    return all_in_range(name, values, 0.0)  # type: ignore[arg-type]


def probability(name: str, value: float, low: float = MIN_DELTA) -> float:
    """Return `value` if it is in [low, 1), or refuse it by name."""
    if is_real(value) and low <= value < 1:
        return float(value)
    raise ParameterError(
        f"{name} is {value!r}; it must be in [{low:g}, 1)",
        f"{name} is a probability of failure, for example 1e-6",
    )


def whole_numbers(name: str, values: ArrayLike, low: int, high: int) -> NDArray[np.int64]:
    """Return whole numbers in [low, high] as int64, or refuse the first that is none.

    Example:
        >>> whole_numbers("a bin", [0, 2], 0, 5)
        array([0, 2])
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise ParameterError(
            f"{name} is {array.flat[0].item()!r}; it must be a whole number in [{low}, {high}]",
            "give an array of integers",
        )
    wrong = array[(array < low) | (array > high)]
    if wrong.size:
        raise ParameterError(f"{name} is {wrong.flat[0].item()}; it must be in [{low}, {high}]")
    return array.astype(np.int64)


def count(name: str, value: int, low: int = 1, high: int = 2**63) -> int:
    """Return `value` if it is a whole number in [low, high], or refuse it by name."""
    if isinstance(value, Integral) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    raise ParameterError(f"{name} is {value!r}; it must be a whole number in [{low}, {high}]")


# -- directed rounding -----------------------------------------------------------------------------


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
    """Return neighbouring floats (a, b), a <= b, between which `holds` changes its mind.

    Args:
        holds: A test of a float. It need not be monotone: rounding may make it flicker
            near its true threshold, and (a, b) is then one of the places where it changes.
        low, high: 0 <= low < high, where `holds` must differ.
        near: Where (a, b) is thought to be: the better the guess, the fewer tests.

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
