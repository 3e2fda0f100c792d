"""Comparisons, three-valued truths, and places among constants."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from sparseq.engine.operations import logic
from sparseq.engine.operations.logic import Kernel, both, strict
from sparseq.engine.operations.table import B, Make, N, narrow, operation, plainly
from sparseq.engine.operations.vector import Vector
from sparseq.language.expression_tree import Term

# -- comparisons: NaN is equal to itself and above every number ------------------------------------


def less(a: Any, b: Any, number: bool) -> Any:
    """Tell where a is below b; `number`: they are doubles."""
    if not number or _is_number(b):
        return a < b
    return ~(b <= a) if _is_number(a) else (a < b) | (np.isnan(b) & ~np.isnan(a))


def _less_equal(a: Any, b: Any, number: bool) -> Any:
    if not number or _is_number(b):
        return a <= b
    return ~(b < a) if _is_number(a) else (a <= b) | np.isnan(b)


def _equal(a: Any, b: Any, number: bool) -> Any:
    if number and not (_is_number(a) or _is_number(b)):
        return (a == b) | (np.isnan(a) & np.isnan(b))
    return a == b


def _is_number(a: Any) -> bool:
    """Tell whether something is one number, not NaN."""
    return np.ndim(a) == 0 and not np.isnan(a)


_COMPARED: dict[str, Callable[[Any, Any, bool], Any]] = {
    "=": _equal,
    "<>": lambda a, b, number: ~_equal(a, b, number),
    "<": less,
    "<=": _less_equal,
    ">": lambda a, b, number: less(b, a, number),
    ">=": lambda a, b, number: _less_equal(b, a, number),
}


def _compared(name: str, a: Term, b: Term) -> Kernel | None:
    alike = a.type.family is b.type.family and a.type.scale == b.type.scale
    number = a.type.family is N
    if not alike:
        return None
    if number or a.type.family is B:
        return strict(lambda x, y: _COMPARED[name](x, y, number))
    return strict(lambda x, y: _COMPARED[name](narrow(x, y), narrow(y, x), False))


for _name in _COMPARED:
    operation(_name)(lambda term: _compared(term.function, *term.arguments))


def _distinct(term: Term, same: bool) -> Kernel | None:
    equal = _compared("=", *term.arguments)
    if equal is None:
        return None

    def kernel(a: Vector, b: Vector) -> Vector:
        found = logic.same(equal(a, b), a, b)
        return found if same else logic.negated(found)

    return kernel


operation("IS DISTINCT FROM")(lambda term: _distinct(term, same=False))
operation("IS NOT DISTINCT FROM")(lambda term: _distinct(term, same=True))


@operation("between")
def _between(term: Term) -> Kernel | None:
    (a, low, *_), (b, high) = term.arguments[:2], (term.arguments[0], term.arguments[-1])
    if len(term.arguments) == 4:
        b = term.arguments[2]
    over, under = _compared(">=", a, low), _compared("<=", b, high)
    if over is None or under is None:
        return None

    def kernel(*v: Vector) -> Vector:
        return logic.conjunction(over(v[0], v[1]), under(v[2] if len(v) == 4 else v[0], v[-1]))

    return kernel


@operation("in")
def _in(term: Term) -> Kernel | None:
    value, *listed = term.arguments
    equal = [e for x in listed if (e := _compared("=", value, x)) is not None]
    if len(equal) < len(listed):
        return None
    return lambda v, *xs: reduce(
        logic.disjunction, (e(v, x) for e, x in zip(equal, xs, strict=True))
    )


# -- truths: three-valued --------------------------------------------------------------------------


plainly("and", lambda *v: reduce(logic.conjunction, v))
plainly("or", lambda *v: reduce(logic.disjunction, v))
plainly("not", logic.negated, (B,))
plainly("is true", logic.is_true, (B,))
plainly("is false", logic.is_false, (B,))
plainly("is null", logic.is_null)


# -- groups and bins -------------------------------------------------------------------------------


@operation("place")
def _place(term: Term) -> Kernel | None:
    """The place of a value among constants, -1 for none."""
    value, *listed = term.arguments
    if any(x.type.family is not value.type.family or x.type.scale != value.type.scale
           for x in listed):  # fmt: skip
        return None
    number = value.type.family is N

    def kernel(v: Vector, *xs: Vector) -> Vector:
        places = np.full(np.shape(v.values), -1, np.int32)
        for i in range(len(xs) - 1, -1, -1):  # the first of equals counts
            np.copyto(places, i, where=both(_equal(v.values, xs[i].values, number), v.known))
        return Vector(places)

    return kernel


def _bins(nearest: bool) -> Make:
    def make(_: Term) -> Kernel:
        def kernel(v: Vector, *xs: Vector) -> Vector:
            x, edges = v.values, [e.values for e in xs]
            places = np.zeros(np.shape(x), np.int32)
            if len(edges) <= 34:
                for edge in edges[1:-1]:
                    places += x >= edge
            else:
                places = np.searchsorted(np.array(edges[1:-1]), x, "right").astype(np.int32)
            inside = np.isfinite(x) if nearest else (x >= edges[0]) & (x <= edges[-1])
            return Vector(np.where(both(inside, v.known), places, -1))

        return kernel

    return make


operation("bin")(_bins(nearest=False))
operation("nearest bin")(_bins(nearest=True))
