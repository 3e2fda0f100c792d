"""Three-valued logic: what is true, false or not known, for every operation of the interpreter.

SQL's truths are Kleene's: AND is false as soon as one side is, OR true as soon as one side is, and
what can still come out either way is not known. A function of values is not known where an argument
isn't (`strict`), but for the few here that ask. DuckDB is the oracle (`benchmarks.evaluators`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from sparseq.engine.operations.vector import ALL, Vector

Kernel = Callable[..., Vector]
"""Vectors of the arguments in, the vector of the result out."""


def both(a: Any, b: Any) -> Any:
    """Return where both masks hold."""
    return b if a is ALL else a if b is ALL else a & b


def all_known(arguments: tuple[Vector, ...]) -> Any:
    """Return where all arguments are known."""
    return reduce(both, (a.known for a in arguments), ALL)


def strict(f: Callable[..., Any]) -> Kernel:
    """Return a kernel whose result is not known where an argument isn't."""
    return lambda *arguments: Vector(f(*(a.values for a in arguments)), all_known(arguments))


def negated(a: Vector) -> Vector:
    """NOT a.

    >>> negated(Vector(np.array([True, False]), np.array([True, False]))).values.tolist()
    [False, False]
    """
    return Vector(~a.values, a.known)


def conjunction(a: Vector, b: Vector) -> Vector:
    """Return a AND b."""
    if a.known is ALL and b.known is ALL:
        return Vector(a.values & b.values)
    untrue = both(a.known, ~a.values) | both(b.known, ~b.values)
    return Vector(a.values & b.values, both(a.known, b.known) | untrue)


def disjunction(a: Vector, b: Vector) -> Vector:
    """Return a OR b."""
    true = a.values | b.values
    return Vector(true, ALL if a.known is ALL and b.known is ALL else both(a.known, b.known) | true)


def is_true(a: Vector) -> Vector:
    """Return a IS TRUE."""
    return Vector(a.values)


def is_false(a: Vector) -> Vector:
    """Return a IS FALSE."""
    return Vector(both(~a.values, a.known))


def is_null(a: Vector) -> Vector:
    """Return a IS NULL."""
    return Vector(~a.known)


def same(equal: Vector, a: Vector, b: Vector) -> Vector:
    """Return a IS NOT DISTINCT FROM b, given a = b."""
    return Vector(equal.values | (~a.known & ~b.known))


def chosen(condition: Any, a: Vector, b: Vector) -> Vector:
    """Return a where a mask holds, else b."""
    values = np.where(condition, a.values, b.values)
    if a.known is ALL and b.known is ALL:
        return Vector(values)
    return Vector(values, np.where(condition, a.known, b.known))


def case(branches: tuple[Vector, ...], otherwise: Vector) -> Vector:
    """CASE WHEN branches[0] THEN branches[1] WHEN … ELSE otherwise END."""
    result = otherwise
    for i in range(len(branches) - 2, -1, -2):
        result = chosen(branches[i].values, branches[i + 1], result)
    return result


def coalesce(a: Vector, b: Vector) -> Vector:
    """Return a where it is known, else b."""
    return a if a.known is ALL else chosen(a.known, a, b)


def nullif(equal: Vector, a: Vector) -> Vector:
    """Return a, not known where `equal`."""
    return Vector(a.values, both(a.known, ~equal.values))
