"""Values of rows as the interpreter has them, and the check of what they are held in."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparseq.compiled import as_mask
from sparseq.language.types import Family, Type

ALL = np.True_
"""As `known`: no value is NULL."""
_KINDS = {Family.BOOLEAN: "b", Family.DOUBLE: "f"}


class Vector:
    """Values of some rows, or one value for all of them, and which are known (not NULL).

    Both are NumPy's, never Python's: `~True` is -2 there. Truths are False where they are not
    known; whole numbers, of which there are none beyond int64 (`representable`), are not uint64.

    Args:
        values: An array by row, or a scalar for all rows, of numbers or bool.
        known: bool, by row or one for all.

    Raises:
        TypeError: They are of other types.

    Example:
        >>> Vector(np.array([True, True]), np.array([True, False])).values.tolist()
        [True, False]
    """

    __slots__ = ("known", "values")

    def __init__(self, values: Any, known: Any = ALL) -> None:
        if not isinstance(values, np.ndarray | np.generic) or values.dtype.kind not in "biuf":
            raise TypeError(f"values are {getattr(values, 'dtype', type(values))}")
        self.known = as_mask(known)
        if values.dtype == np.bool_ and self.known is not ALL:
            values = values & self.known
        elif values.dtype == np.uint64:  # which NumPy makes doubles of beside int64
            values = values.astype(np.int64)
        self.values: Any = values if values.ndim else values[()]

    def __repr__(self) -> str:
        return f"Vector({self.values!r}, {self.known!r})"


def typed(vector: Vector, type: Type) -> Vector:
    """Return a vector, once its values are held as those of a type are.

    Raises:
        TypeError: They are not: truths are bool, doubles float64, all else whole numbers.

    Example:
        >>> from sparseq.language import types as T
        >>> typed(Vector(np.int64(-2)), T.BOOLEAN)
        Traceback (most recent call last):
        TypeError: a value of BOOLEAN is held as int64
    """
    held = vector.values.dtype
    if held.kind not in _KINDS.get(type.family, "iu") or held == np.float32:
        raise TypeError(f"a value of {type.sql} is held as {held}")
    return vector
