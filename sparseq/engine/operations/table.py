"""The operations of the interpreter: one table, each with its meaning for every value.

A term of the typed tree (`sparseq.query.terms`) is evaluated on a block of rows at a time, as a
`Vector`: values, and which of them are known (the others are NULL). What a function means is said
in `sparseq.query.functions`; here it is said again in NumPy, total as well: nothing raises on a
value. DuckDB is the oracle, to the last bit (`python -m benchmarks.total`). What has no entry,
or not for these types, is evaluated by DuckDB: logarithms and powers, whose last bit is a library's
own.

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
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from sparseq.query import types as T
from sparseq.query.terms import Term
from sparseq.query.types import Family, Type


class Vector(NamedTuple):
    """Values of some rows, or one value for all; `known`: True, or which are not NULL."""

    values: Any
    known: Any = True


Kernel = Callable[..., Vector]
"""Vectors of the arguments in, the vector of the result out."""
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
        if make is not None:
            return make(term)
    return None


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


def strict(f: Callable[..., Any]) -> Kernel:
    """Return a kernel whose result is not known where an argument isn't."""
    return lambda *arguments: Vector(f(*(a.values for a in arguments)), all_known(arguments))


def whole(f: Callable[..., Any]) -> Kernel:
    """Return a strict kernel of whole numbers, which are of 64 bits from here on."""
    return strict(lambda *values: f(*map(wide, values)))


def wide(a: Any) -> Any:
    """Return whole numbers as int64."""
    return np.asarray(a, np.int64)[()]


def narrow(a: Any) -> Any:
    """Return one whole number as Python's, so that what it meets stays as narrow as it is."""
    return a.item() if np.ndim(a) == 0 else a


def truth(f: Callable[..., Any]) -> Kernel:
    """Return a strict kernel that gives truths."""

    def kernel(*arguments: Vector) -> Vector:
        known = all_known(arguments)
        return Vector(both(f(*(a.values for a in arguments)), known), known)

    return kernel


def all_known(arguments: tuple[Vector, ...]) -> Any:
    """Return where all arguments are known."""
    return reduce(both, (a.known for a in arguments), True)


def both(a: Any, b: Any) -> Any:
    """Return where both hold; either may be True, for all rows."""
    return b if a is True else a if b is True else a & b
