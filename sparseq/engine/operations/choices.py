"""Choices between values, and casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from sparseq.engine.operations import logic
from sparseq.engine.operations.comparisons import less
from sparseq.engine.operations.logic import Kernel, both, strict
from sparseq.engine.operations.numbers import half_away, scaled
from sparseq.engine.operations.table import (
    DAY,
    B,
    C,
    D,
    Make,
    N,
    S,
    Z,
    constant_vector,
    operation,
    plainly,
    whole,
    wide,
)
from sparseq.engine.operations.vector import ALL, Vector
from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family, Type

# -- choices ---------------------------------------------------------------------------------------


@operation("case")
def _case(term: Term) -> Kernel:
    empty = constant_vector(Term(term.type, "", constant=True))

    def kernel(*v: Vector) -> Vector:
        pairs = len(v) - len(v) % 2
        return logic.case(v[:pairs], v[-1] if len(v) % 2 else empty)

    return kernel


plainly("coalesce", lambda *v: reduce(logic.coalesce, v))
plainly("nullif", logic.nullif)


def _extreme(name: str) -> Make:
    def make(term: Term) -> Kernel | None:
        families = {a.type.family for a in term.arguments}
        if len(families) > 1 or B in families:
            return None
        number = N in families

        def better(a: Vector, b: Vector) -> Vector:
            """The first of the known; b only where it is beyond a, or alone."""
            if number and a.known is ALL and b.known is ALL and _is_plain(b.values):
                return Vector((np.fmin if name == "least" else np.maximum)(a.values, b.values))
            below = (b, a) if name == "least" else (a, b)
            wins = less(below[0].values, below[1].values, number)
            if a.known is not ALL:
                wins = wins | ~a.known
            chosen = logic.chosen(both(wins, b.known), b, a)
            return Vector(chosen.values, ALL if b.known is ALL else a.known | b.known)

        return lambda *v: reduce(better, v)

    return make


def _is_plain(a: Any) -> bool:
    """Tell whether something is one number, neither NaN nor a zero, which has two signs."""
    return np.ndim(a) == 0 and not np.isnan(a) and bool(a != 0)


operation("least")(_extreme("least"))
operation("greatest")(_extreme("greatest"))


# -- casts -----------------------------------------------------------------------------------------


@operation("cast")
def _cast(term: Term) -> Kernel | None:
    (argument,) = term.arguments
    make = _CASTS.get((argument.type.family, term.type.family))
    return None if make is None else make(argument.type, term.type)


def _to_number(a: Type, _: Type) -> Kernel:
    return strict(lambda x: np.asarray(x).astype(np.float64)[()])


def _decimal_to_number(a: Type, _: Type) -> Kernel:
    one = 10**a.scale

    def number(x: Any) -> Any:
        """As DuckDB: beyond 2**53, whole part and fraction apart."""
        near = x / np.float64(one)
        if a.width < 16 or not a.scale:
            return near
        whole = np.where(x < 0, -(-x // one), x // one)
        return np.where(np.absolute(x) <= 2**53, near, whole + (x - whole * one) / np.float64(one))

    return strict(number)


def _within(low: int, high: int, a: Type) -> Kernel:
    """Return whole numbers as they are, NULL out of a range."""
    if low <= a.low and a.high <= high:
        return strict(lambda x: x)
    return lambda a: Vector(a.values, both(a.known, (a.values >= low) & (a.values <= high)))


def _to_decimal(a: Type, b: Type) -> Kernel:
    up = b.scale - a.scale
    most = 10**b.width - 1

    def kernel(v: Vector) -> Vector:
        if up <= 0:
            values = half_away(wide(v.values), -up)
            fits = (values <= most) & (values >= -most)
        else:
            bound = most // 10**up
            fits = (v.values <= bound) & (v.values >= -bound)
            values = scaled(np.where(fits, wide(v.values), 0), up)
        return Vector(values, both(v.known, fits))

    return kernel


def _decimal_to_whole(a: Type, b: Type) -> Kernel:
    inside = _within(b.low, b.high, T.Type(Z, -(2**62), 2**62))
    return lambda v: inside(Vector(half_away(v.values, a.scale), v.known))


_CASTS: dict[tuple[Family, Family], Callable[[Type, Type], Kernel | None]] = {
    (Z, N): _to_number, (B, N): _to_number, (C, N): _decimal_to_number,
    (Z, Z): lambda a, b: _within(b.low, b.high, a),
    (B, Z): lambda a, b: strict(lambda x: np.asarray(x).astype(np.int64)[()]),
    (Z, B): lambda a, b: strict(lambda x: x != 0), (C, B): lambda a, b: strict(lambda x: x != 0),
    (Z, C): _to_decimal, (C, C): _to_decimal, (C, Z): _decimal_to_whole,
    (N, N): lambda a, b: strict(lambda x: x),
    (D, S): lambda a, b: whole(lambda x: x * DAY),
    (S, D): lambda a, b: strict(lambda x: x // DAY),
    (D, D): lambda a, b: strict(lambda x: x), (S, S): lambda a, b: strict(lambda x: x),
}  # fmt: skip
