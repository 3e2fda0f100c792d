"""Interval arithmetic on arrays: the range of a function's values, from its arguments' ranges.

Intervals are computed only here: the bounds of columns (`sparseq.language.ends`), the values of a
noised answer (`sparseq.released.outputs`) and the results of a SELECT over it
(`sparseq.sql.interval_propagation`) all use these rules, which the entries of the table of
functions name.

**Soundness.** If every argument lies in its interval, the value of the function lies in the result
interval, or is NULL. An infinite end is no limit on its side, a NaN end no limit at all; NaN and
infinity are never narrowed. A function that is monotone in each argument has its extremes at the
corners of the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]
"""The low ends and the high ends of intervals."""


@dataclass(frozen=True)
class ArrayRule:
    """A function of numbers on arrays.

    Attributes:
        value: Returns its values for its arguments' values.
        ends: Returns its intervals for its arguments' intervals.
        finite: Its value is a number, neither NaN nor infinite, for all numbers that are not huge.
        keeps_whole, makes_whole: It is a whole number where its arguments are, or always.
    """

    value: Callable[..., Floats]
    ends: Callable[..., Ends]
    finite: bool = False
    keeps_whole: bool = False
    makes_whole: bool = False


def lies_in(rule: ArrayRule, *arguments: Ends | tuple[float, float]) -> Ends:
    """Return the interval of a function's values.

    Args:
        rule: The function's rule.
        arguments: The intervals of its arguments: arrays of one shape, or numbers.

    Example:
        >>> [float(end) for end in lies_in(TIMES, (-1.0, 2.0), (3.0, 4.0))]
        [-4.0, 8.0]
        >>> [float(end) for end in lies_in(OVER, (1.0, 2.0), (-1.0, 1.0))]
        [-inf, inf]
    """
    with np.errstate(all="ignore"):
        low, high = rule.ends(*((np.asarray(a, float), np.asarray(b, float)) for a, b in arguments))
    return low, high


def rising_rule(f: Callable[[Floats], Floats], **more: bool) -> ArrayRule:
    """Return the rule of an increasing function of one number; `more` are facts of it.

    Example:
        >>> [float(end) for end in lies_in(rising_rule(np.floor), (1.5, 2.5))]
        [1.0, 2.0]
    """
    return ArrayRule(f, lambda x: (f(x[0]), f(x[1])), **more)


def lying_in(f: Callable[..., Floats], low: float, high: float) -> ArrayRule:
    """Return the rule of a function whose values always lie between two numbers.

    Example:
        >>> [float(end) for end in lies_in(lying_in(np.sin, -1.0, 1.0), (3.0, 9.0))]
        [-1.0, 1.0]
    """

    def ends(*x: Ends) -> Ends:
        return np.full_like(x[0][0], low), np.full_like(x[0][0], high)

    return ArrayRule(f, ends)


def rising_rule_to_digits(f: Callable[[Floats, Floats], Floats]) -> ArrayRule:
    """Return the rule of an increasing function with a second argument, a number of decimals."""

    def ends(x: Ends, digits: Ends) -> Ends:
        return f(x[0], digits[0]), f(x[1], digits[1])

    return ArrayRule(f, ends, finite=True)


def round_to(x: Floats, digits: Floats | float = 0.0) -> Floats:
    """Return numbers rounded to decimals, halves away from zero as in SQL.

    Example:
        >>> round_to(np.array([2.5, -2.5, 12.34])).tolist()
        [3.0, -3.0, 12.0]
    """
    factor = 10.0 ** np.asarray(digits)
    scaled = x * factor
    whole = np.trunc(scaled)
    away = whole + np.copysign(np.abs(scaled - whole) >= 0.5, scaled)
    return np.where(np.isfinite(scaled), away / factor, x)


def truncate(x: Floats, digits: Floats) -> Floats:
    """Return numbers truncated to decimals."""
    factor = 10.0**digits
    return np.where(np.isfinite(x * factor), np.trunc(x * factor) / factor, x)


def _corners(f: Callable[..., Floats], *arguments: Ends) -> Ends:
    """Return the extremes of a function that is monotone in each argument."""
    values = np.stack(np.broadcast_arrays(*(f(*corner) for corner in product(*arguments))))
    return values.min(axis=0), values.max(axis=0)


def _known(value: Floats, a: Floats, b: Floats) -> Floats:
    """Return 0 for 0 times infinity and infinity over infinity: these ends are never attained."""
    return np.where(np.isnan(value) & ~np.isnan(a) & ~np.isnan(b), 0.0, value)


def _quotient(a: Ends, b: Ends) -> Ends:
    low, high = _corners(lambda x, y: _known(x / y, x, y), a, b)
    through_zero = (b[0] <= 0) & (b[1] >= 0)
    return np.where(through_zero, -np.inf, low), np.where(through_zero, np.inf, high)


def _divide(a: Floats, b: Floats) -> Floats:
    return np.where(b == 0, np.nan, a / b)


def _remainder(a: Ends, b: Ends) -> Ends:
    """Return the range of remainders: they have the dividend's sign, and are below the divisor."""
    most = np.nextafter(np.maximum(np.abs(b[0]), np.abs(b[1])), 0.0)
    low, high = np.maximum(-most, np.minimum(a[0], 0.0)), np.minimum(most, np.maximum(a[1], 0.0))
    turns = np.trunc(a[0] / b[0]), np.trunc(a[1] / b[0])
    same = (b[0] == b[1]) & (turns[0] == turns[1])  # all have the same whole quotient
    low, high = (
        np.where(same, np.fmod(x, b[0]), end) for x, end in zip(a, (low, high), strict=True)
    )
    unsure = (b[0] <= 0) & (b[1] >= 0)
    return np.where(unsure, -np.inf, low), np.where(unsure, np.inf, high)


def _absolute(x: Ends) -> Ends:
    low, high = _corners(np.abs, x)
    return np.where((x[0] <= 0) & (x[1] >= 0), 0.0, low), high


def _power(a: Ends, b: Ends) -> Ends:
    """Return the range of powers: of nonnegative numbers, or with an integer exponent."""
    low, high = _corners(np.power, a, b)
    whole = (b[0] == b[1]) & (b[0] == np.trunc(b[0])) & (b[0] >= 0)
    even = whole & (b[0] % 2 == 0)
    flat = _corners(np.power, _absolute(a), b)
    low, high = np.where(even, flat[0], low), np.where(even, flat[1], high)
    sure = whole | (a[0] > 0) | ((a[0] == 0) & (b[0] >= 0))
    return np.where(sure, low, -np.inf), np.where(sure, high, np.inf)


def _to_base(base: Floats, x: Floats) -> Floats:
    return np.log10(x) / np.log10(base)


def _logarithm(base: Ends, x: Ends) -> Ends:
    """Return the range of logarithms, if the base is a single positive number other than 1."""
    low, high = _corners(_to_base, base, (np.maximum(x[0], 0.0), np.maximum(x[1], 0.0)))
    sure = (base[0] == base[1]) & (base[0] > 0) & (base[0] != 1)
    return np.where(sure, low, -np.inf), np.where(sure, high, np.inf)


_WHOLE = {"finite": True, "keeps_whole": True}
PLUS = ArrayRule(np.add, lambda a, b: (a[0] + b[0], a[1] + b[1]), **_WHOLE)
MINUS = ArrayRule(np.subtract, lambda a, b: (a[0] - b[1], a[1] - b[0]), **_WHOLE)
TIMES = ArrayRule(
    np.multiply, lambda a, b: _corners(lambda x, y: _known(x * y, x, y), a, b), **_WHOLE
)
OVER = ArrayRule(_divide, _quotient)
REMAINDER = ArrayRule(np.fmod, _remainder)
NEGATIVE = ArrayRule(lambda x: 0.0 - x, lambda x: (0.0 - x[1], 0.0 - x[0]), **_WHOLE)
ABSOLUTE = ArrayRule(np.abs, _absolute, **_WHOLE)
POWER = ArrayRule(np.power, _power)
LOGARITHM = ArrayRule(_to_base, _logarithm)
ROOT = rising_rule(lambda x: np.sqrt(np.maximum(x, 0.0)))
GREATEST = ArrayRule(
    lambda *x: np.fmax.reduce(x),
    lambda *x: (np.maximum.reduce([e[0] for e in x]), np.maximum.reduce([e[1] for e in x])),
    **_WHOLE,
)
LEAST = ArrayRule(
    lambda *x: np.fmin.reduce(x),
    lambda *x: (np.minimum.reduce([e[0] for e in x]), np.minimum.reduce([e[1] for e in x])),
    **_WHOLE,
)
EITHER = ArrayRule(
    lambda *x: x[0],
    lambda *x: (np.minimum.reduce([e[0] for e in x]), np.maximum.reduce([e[1] for e in x])),
)
"""Choices: the value is one of the arguments."""


def logarithm(f: Callable[[Floats], Floats]) -> ArrayRule:
    """Return the rule of a logarithm; it has no value for negative numbers."""
    return rising_rule(lambda x: f(np.maximum(x, 0.0)))
