"""Checks of every public number of this package, with one form of error message."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.base.errors import ParameterError

MIN_DELTA = 2.0**-500
"""Smallest delta an inverse conversion accepts: far below use, far above underflow."""
MAX_EPSILON = 2.0**996
"""Largest epsilon converted into a budget: neither it nor numbers derived from it overflow.
"""

_BLOCK = 1 << 14  # numbers per checked block, which stays in cache


def in_range(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> float:
    """Return `value` as a float if it is in [low, high] and finite, or refuse it by name.

    Args:
        name: The caller's name of the number, at the start of the message.
        value: A real number; a bool is refused, since True as a budget is a mistake.
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
    """Return a number or array of numbers as a float64 array, if each is finite and >= `low`.

    Raises:
        ParameterError: As `in_range`, for the first number outside the range.

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
    """Return numbers >= 0 as float64, without copying a float64 array.

    Raises:
        ParameterError: A number is negative, NaN or infinite.
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
    """Return whole numbers in [low, high] as int64, or refuse the first other number.

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
