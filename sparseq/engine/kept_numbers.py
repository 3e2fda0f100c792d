"""Columns derived from kept columns: numbers clamped to bounds, and places of days.

They have exactly the values that DuckDB computes for the same SQL, NULL and NaN included; the
evaluators' random questions compare the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.compiled import compiled, halves, worthwhile

NAN, NO_NUMBER = 0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001
"""The bits that represent NaN, and the bits that represent NULL: both are NaN for a float."""
_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class ClampChain:
    """A chain of least(x, c) and greatest(x, c), with DuckDB's semantics: one value for each x.

    Both functions ignore NULL, which becomes the first c. NaN is greater than all numbers, so the
    first least(x, c) turns it into c. Later functions clamp these values like any other number.

    Attributes:
        low, high: A number is replaced by the nearest number in [low, high].
        null, nan: The values that replace NULL and NaN; None: they stay unchanged.

    Example:
        >>> ClampChain().after("greatest", 1.0).after("least", 9.0)
        ClampChain(low=1.0, high=9.0, null=1.0, nan=9.0)
    """

    low: float = -math.inf
    high: float = math.inf
    null: float | None = None
    nan: float | None = None

    def after(self, function: str, c: float) -> ClampChain:
        """Return this chain with one more function."""
        cut = min if function == "least" else max
        null = c if self.null is None else cut(self.null, c)
        nan = self.nan if self.nan is None else cut(self.nan, c)
        if nan is None and function == "least":
            nan = c
        return replace(self, low=cut(self.low, c), high=cut(self.high, c), null=null, nan=nan)


@dataclass(frozen=True)
class ClampedNumbers:
    """Clamped numbers, computed on use and never stored.

    Attributes:
        numbers: The numbers before the clamp; NaN and NULL have the bits above.
        clamp: The clamp.

    Example:
        >>> cut = ClampedNumbers(np.array([0.5, 3.0]), ClampChain().after("least", 2.0))
        >>> cut[np.array([1, 0])].tolist()
        [2.0, 0.5]
    """

    numbers: NDArray[np.float64]
    clamp: ClampChain

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers of some rows."""
        some = ClampedNumbers(self.numbers[rows], self.clamp)
        out = np.empty(len(some), np.float64)
        if worthwhile(len(out)):
            compiled().row_loops.clamp(some.parts, out)
            return out
        numbers, raw, low, high, no_number, null, nan = some.parts
        np.clip(numbers, low, high, out=out)
        out[np.isnan(numbers)] = nan
        out[raw == no_number] = null
        return out

    def part(self, rows: slice) -> ClampedNumbers:
        """Return the numbers of some rows, computed on use."""
        return ClampedNumbers(self.numbers[rows], self.clamp)

    @property
    def parts(self) -> tuple[Any, ...]:
        """The arguments of the compiled loops."""
        clamp = self.clamp
        null, nan = (math.nan if end is None else end for end in (clamp.null, clamp.nan))
        raw = self.numbers.view(np.uint64)
        return self.numbers, raw, clamp.low, clamp.high, np.uint64(NO_NUMBER), null, nan


def parts_of(values: NDArray[Any] | ClampedNumbers | None) -> Any:
    """Return values as an argument of the compiled loops."""
    return values.parts if isinstance(values, ClampedNumbers) else values


Numbers = NDArray[np.float64] | ClampedNumbers


def map_numbers(
    numbers: Numbers, kind: Any, fill: Callable[[NDArray[Any], NDArray[Any]], object]
) -> NDArray[Any]:
    """Return an array filled from numbers, in parts that fit into a processor's cache.

    Args:
        numbers: The numbers, one per element.
        kind: The type of the array.
        fill: Fills a part of the array; its arguments are the part's numbers, and the part.
    """
    out = np.empty(len(numbers), kind)

    def half(some: slice) -> None:
        for at in range(some.start, some.stop, _AT_ONCE):
            part = slice(at, min(at + _AT_ONCE, some.stop))
            fill(numbers[part], out[part])

    halves(len(out), half)
    return out


def map_each(
    numbers: Numbers, kind: Any, fill: Callable[[Any, NDArray[Any]], object]
) -> NDArray[Any]:
    """Return an array filled from numbers by a function that takes clamped ones as they are."""
    out = np.empty(len(numbers), kind)

    def half(some: slice) -> None:
        own = numbers.part(some) if isinstance(numbers, ClampedNumbers) else numbers[some]
        fill(own, out[some])

    halves(len(out), half)
    return out


def fill_finite(numbers: NDArray[np.float64], out: NDArray[np.uint8]) -> None:
    """Fill `out` with 1 for each finite number, otherwise 0."""
    np.copyto(out, np.isfinite(numbers))


def days_from(first: int, size: int, kind: Any, days: NDArray[np.int32]) -> NDArray[Any]:
    """Return the place of each day among `size` days from `first` on; -1 for other days.

    Args:
        first: The first day, in days since 1970.
        size: The number of days.
        kind: The type of the places.
        days: Days since 1970; the least integer represents NULL.

    Example:
        >>> days_from(3, 2, np.int8, np.array([2, 3, 4, 5], np.int32)).tolist()
        [-1, 0, 1, -1]
    """
    out = np.empty(len(days), kind)

    def part(some: slice) -> None:
        if worthwhile(len(days)):
            compiled().row_loops.shift(days[some], first, size, out[some])
            return
        places = days[some].astype(np.int64) - first
        out[some] = np.where((places >= 0) & (places < size), places, -1)

    halves(len(days), part)
    return out
