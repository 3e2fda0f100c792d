"""The operations of the interpreter: one table, each with its meaning for every value.

A term of the typed tree (`sparseq.language.expression_tree`) is evaluated on a block of rows at a
time, as a `Vector`: values, and which of them are known (the others are NULL). What a function
means is said in `sparseq.language.functions`; here it is said again in NumPy, total as well:
nothing raises on a value. DuckDB is the oracle, to the last bit (`python -m benchmarks.total`).
What has no entry, or not for these types, is evaluated by DuckDB: logarithms and powers, whose last
bit is a library's own.

    truths                          bool, False where they are not known
    whole numbers, dates (days),
    timestamps (microseconds)       integers of any width
    decimals of up to 18 digits     int64, the number times a power of ten
    numbers                         float64
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from sparseq.engine.operations.logic import Kernel, strict
from sparseq.engine.operations.vector import Vector, typed
from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family, Type

_EPOCH = dt.datetime(1970, 1, 1)
B, Z, C, N, D, S = (
    Family.BOOLEAN, Family.INTEGER, Family.DECIMAL, Family.DOUBLE, Family.DATE, Family.TIMESTAMP,
)  # fmt: skip
DAY = 86_400_000_000
"""Microseconds."""
_LONGEST = 18  # digits of a decimal that an int64 holds


def representable(type: Type) -> bool:
    """Tell whether vectors hold the values of a type."""
    if type.family is Z:
        return type.within(*T.INT64)
    if type.family is C:
        return type.width <= _LONGEST
    return type.family in (B, D, S) or (type.family is N and type.stored != "FLOAT")


def constant_vector(term: Term) -> Vector:
    """Return a constant that is written out."""
    if term.value is None:
        return Vector(_zero(term.type), np.False_)
    family, value = term.type.family, term.value
    if family is D:
        return Vector(np.int64((value - _EPOCH.date()).days))
    if family is S:
        return Vector(np.int64((value - _EPOCH) // dt.timedelta(microseconds=1)))
    if family is C:
        return Vector(np.int64(int(Decimal(value).scaleb(term.type.scale))))
    return Vector({B: np.bool_, N: np.float64}.get(family, np.int64)(value))


def _zero(type: Type) -> Any:
    return {B: np.False_, N: np.float64(0)}.get(type.family, np.int64(0))


def kernel_of(term: Term) -> Kernel | None:
    """Return what evaluates a function of terms; None where the interpreter doesn't have it."""
    if not representable(term.type) or not all(representable(a.type) for a in term.arguments):
        return None
    families = tuple(a.type.family for a in term.arguments)
    name = "cast" if term.function.startswith("cast to ") else term.function
    for takes in (families, None):
        make = OPERATIONS.get((name, takes))
        kernel = None if make is None else make(term)
        if make is not None:
            return None if kernel is None else _of_type(kernel, term.type)
    return None


def _of_type(kernel: Kernel, type: Type) -> Kernel:
    """Return a kernel, its results checked to be of a type."""
    return lambda *arguments: typed(kernel(*arguments), type)


Make = Callable[[Term], "Kernel | None"]
OPERATIONS: dict[tuple[str, tuple[Family, ...] | None], Make] = {}
"""By function and families of its arguments, or by function alone: what makes its kernel."""


def operation(name: str, *takes: tuple[Family, ...] | None) -> Callable[[Make], Make]:
    """Enter what makes kernels of a function, for some families of its arguments or for all."""

    def enter(make: Make) -> Make:
        for families in takes or (None,):
            OPERATIONS[name, families] = make
        return make

    return enter


def plainly(name: str, kernel: Kernel, *takes: tuple[Family, ...] | None) -> None:
    """Enter a kernel that is the same for all types of these families."""
    operation(name, *takes)(lambda _: kernel)


def whole(f: Callable[..., Any]) -> Kernel:
    """Return a strict kernel of whole numbers, which are of 64 bits from here on."""
    return strict(lambda *values: f(*map(wide, values)))


def wide(a: Any) -> Any:
    """Return whole numbers as int64."""
    return np.asarray(a, np.int64)[()]


def narrow(a: Any, beside: Any) -> Any:
    """Return one whole number as Python's beside an array, which so stays as narrow as it is.

    Two numbers stay NumPy's: what Python makes of them is no truth here.
    """
    return a.item() if np.ndim(a) == 0 and np.ndim(beside) else a
