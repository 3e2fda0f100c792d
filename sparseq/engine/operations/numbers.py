"""Arithmetic of whole numbers, decimals and doubles: exact, or as IEEE 754 has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparseq.engine.operations.logic import Kernel, all_known, both, strict
from sparseq.engine.operations.table import (
    C,
    Make,
    N,
    Z,
    operation,
    plainly,
    whole,
    wide,
)
from sparseq.engine.operations.vector import Vector
from sparseq.language import types as T
from sparseq.language.expression_tree import Term

# -- whole numbers ---------------------------------------------------------------------------------


def _spans(term: Term, f: Callable[[int, int], int]) -> bool:
    """Tell whether a result surely is a whole number of 64 bits."""
    a, b = (x.type for x in term.arguments)
    corners = [f(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return T.INT64[0] <= min(corners) and max(corners) <= T.INT64[1]


def _beyond_sum(a: Any, b: Any, made: Any) -> Any:
    return ((a ^ made) & (b ^ made)) < 0


def _beyond_difference(a: Any, b: Any, made: Any) -> Any:
    return ((a ^ b) & (a ^ made)) < 0


def _beyond_product(a: Any, b: Any, made: Any) -> Any:
    """Tell where a product has left 64 bits: surely not below 2**62, else as Python has it."""
    a, b = np.broadcast_arrays(a, b)
    out = np.absolute(a.astype(np.float64) * b) >= 2.0**62
    for at in np.argwhere(out):
        exact = int(a[tuple(at)]) * int(b[tuple(at)])
        out[tuple(at)] = not T.INT64[0] <= exact <= T.INT64[1]
    return out


def _exact(
    f: Callable[..., Any], span: Callable[[int, int], int], beyond: Callable[..., Any]
) -> Make:
    """Return what makes a kernel that is NULL beyond 64 bits."""

    def make(term: Term) -> Kernel:
        def kernel(x: Vector, y: Vector) -> Vector:
            a, b = wide(x.values), wide(y.values)
            made = f(a, b)
            return Vector(made, both(all_known((x, y)), ~beyond(a, b, made)))

        return whole(f) if _spans(term, span) else kernel

    return make


operation("+", (Z, Z))(_exact(np.add, lambda x, y: x + y, _beyond_sum))
operation("-", (Z, Z))(_exact(np.subtract, lambda x, y: x - y, _beyond_difference))
operation("*", (Z, Z))(_exact(np.multiply, lambda x, y: x * y, _beyond_product))


def _divided(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return the quotient towards zero, the remainder, and where there are any."""
    zero, minus = b == 0, b == -1
    safe = np.where(zero | minus, 1, b)
    rest = np.where(minus, 0, np.fmod(a, safe))
    quotient = np.where(minus, -a, (a - rest) // safe)
    return quotient, rest, ~zero


@operation("//", (Z, Z))
def _quotient(term: Term) -> Kernel | None:
    least = term.arguments[0].type.low == T.INT64[0]  # its negative is no int64

    def kernel(a: Vector, b: Vector) -> Vector:
        quotient, _, exists = _divided(wide(a.values), wide(b.values))
        if least:
            exists = exists & ~((b.values == -1) & (a.values == T.INT64[0]))
        return Vector(quotient, both(all_known((a, b)), exists))

    return kernel


@operation("%", (Z, Z))
def _remainder(_: Term) -> Kernel:
    def kernel(a: Vector, b: Vector) -> Vector:
        _, rest, exists = _divided(wide(a.values), wide(b.values))
        return Vector(rest, both(all_known((a, b)), exists))

    return kernel


def _without_least(f: Callable[..., Any]) -> Make:
    def make(term: Term) -> Kernel:
        least = term.arguments[0].type.low == T.INT64[0]

        def kernel(a: Vector) -> Vector:
            values = f(wide(a.values))
            return Vector(values, both(a.known, a.values != T.INT64[0]) if least else a.known)

        return kernel

    return make


operation("neg", (Z,))(_without_least(np.negative))
operation("abs", (Z,))(_without_least(np.absolute))
plainly("sign", whole(np.sign), (Z,), (C,))
for _name in ("floor", "ceil", "trunc", "round"):
    plainly(_name, strict(lambda a: a), (Z,))


# -- decimals --------------------------------------------------------------------------------------


def scaled(values: Any, digits: int) -> Any:
    """Return values with so many more digits."""
    return values * 10**digits if digits else values


def half_away(values: Any, digits: int) -> Any:
    """Return values / 10**digits, rounded, halves away from zero."""
    if not digits:
        return values
    size = (np.absolute(values) + 5 * 10 ** (digits - 1)) // 10**digits
    return np.where(values < 0, -size, size)


def _of_alike(f: Callable[..., Any]) -> Make:
    def make(term: Term) -> Kernel:
        a, b = (term.type.scale - x.type.scale for x in term.arguments)
        return whole(lambda x, y: f(scaled(x, a), scaled(y, b)))

    return make


operation("+", (C, C))(_of_alike(np.add))
operation("-", (C, C))(_of_alike(np.subtract))
plainly("*", whole(np.multiply), (C, C))
plainly("neg", whole(np.negative), (C,))
plainly("abs", whole(np.absolute), (C,))


@operation("floor", (C,))
def _floor(term: Term) -> Kernel:
    one = 10 ** term.arguments[0].type.scale
    return whole(lambda a: a // one)


@operation("ceil", (C,))
def _ceil(term: Term) -> Kernel:
    one = 10 ** term.arguments[0].type.scale
    return whole(lambda a: -(-a // one))


@operation("trunc", (C,))
def _truncated(term: Term) -> Kernel:
    one = 10 ** term.arguments[0].type.scale
    return whole(lambda a: np.where(a < 0, -(-a // one), a // one))


@operation("round", (C,))
def _rounded(term: Term) -> Kernel:
    return whole(lambda a: half_away(a, term.arguments[0].type.scale))


# -- numbers ---------------------------------------------------------------------------------------

_OF_TWO: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod,
}  # fmt: skip
_OF_ONE: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.absolute, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "sqrt": np.sqrt,
}  # fmt: skip
for _name, _f in _OF_TWO.items():
    plainly(_name, strict(_f), (N, N))
for _name, _f in _OF_ONE.items():
    plainly(_name, strict(_f), (N,))
for _name, _f in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
    plainly(_name, strict(_f), (N,))


@operation("round", (N,))
def _nearest(_: Term) -> Kernel:
    def rounded(a: Any) -> Any:
        whole = np.trunc(a)
        return np.where(np.absolute(a - whole) >= 0.5, whole + np.copysign(1.0, a), whole)

    return strict(rounded)


@operation("sign", (N,))
def _sign(_: Term) -> Kernel:
    return strict(lambda a: (a > 0).astype(np.int64) - (a < 0))
