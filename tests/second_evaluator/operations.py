"""The operations of the oracle: one table, each with its meaning for every value.

A term of the typed tree (`sparseq.language.expression_tree`) is evaluated on rows as a `Vector`:
values, and which of them are known (the others are NULL). What a function means is said in
`sparseq.language.functions`; here it is said again in NumPy, total as well: nothing raises on a
value. DuckDB must say the same, to the last bit. What has no entry, or not for these types, is not
compared: logarithms and powers, whose last bit is a library's own.

    truths                          bool, False where they are not known
    whole numbers, dates (days),
    timestamps (microseconds)       integers of any width
    decimals of up to 18 digits     int64, the number times a power of ten
    numbers                         float64

Three-valued logic: what is true, false or not known, for every operation of the oracle.

SQL's truths are Kleene's: AND is false as soon as one side is, OR true as soon as one side is, and
what can still come out either way is not known. A function of values is not known where an argument
isn't (`strict`), but for the few here that ask. DuckDB has the same.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np

from sparseq.compiled import as_mask, bits_as
from sparseq.engine.reduction import quantise
from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family, Type

# -- values of rows, and the check of what they are held in --------------------------------------

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


# -- three-valued logic ----------------------------------------------------------------------------

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


# -- the operations: one table, each with its meaning for every value ------------------------------

_EPOCH = dt.datetime(1970, 1, 1)
B, Z, C, N, D, S = (
    Family.BOOLEAN,
    Family.INTEGER,
    Family.DECIMAL,
    Family.DOUBLE,
    Family.DATE,
    Family.TIMESTAMP,
)
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
    """Return what evaluates a function of terms; None where there is none here."""
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


def _distinct(term: Term, alike: bool) -> Kernel | None:
    equal = _compared("=", *term.arguments)
    if equal is None:
        return None

    def kernel(a: Vector, b: Vector) -> Vector:
        found = same(equal(a, b), a, b)
        return found if alike else negated(found)

    return kernel


operation("IS DISTINCT FROM")(lambda term: _distinct(term, alike=False))
operation("IS NOT DISTINCT FROM")(lambda term: _distinct(term, alike=True))


@operation("between")
def _between(term: Term) -> Kernel | None:
    (a, low, *_), (b, high) = term.arguments[:2], (term.arguments[0], term.arguments[-1])
    if len(term.arguments) == 4:
        b = term.arguments[2]
    over, under = _compared(">=", a, low), _compared("<=", b, high)
    if over is None or under is None:
        return None

    def kernel(*v: Vector) -> Vector:
        return conjunction(over(v[0], v[1]), under(v[2] if len(v) == 4 else v[0], v[-1]))

    return kernel


@operation("in")
def _in(term: Term) -> Kernel | None:
    value, *listed = term.arguments
    equal = [e for x in listed if (e := _compared("=", value, x)) is not None]
    if len(equal) < len(listed):
        return None
    return lambda v, *xs: reduce(disjunction, (e(v, x) for e, x in zip(equal, xs, strict=True)))


# -- truths: three-valued --------------------------------------------------------------------------


plainly("and", lambda *v: reduce(conjunction, v))
plainly("or", lambda *v: reduce(disjunction, v))
plainly("not", negated, (B,))
plainly("is true", is_true, (B,))
plainly("is false", is_false, (B,))
plainly("is null", is_null)


# -- groups and bins -------------------------------------------------------------------------------


@operation("place")
def _place(term: Term) -> Kernel | None:
    """The place of a value among constants, NULL maybe one of them; -1 for none."""
    value, *listed = term.arguments
    if any(
        x.type.family is not value.type.family or x.type.scale != value.type.scale for x in listed
    ):
        return None
    number = value.type.family is N

    def kernel(v: Vector, *xs: Vector) -> Vector:
        places = np.full(np.shape(v.values), -1, np.int32)
        for i in range(len(xs) - 1, -1, -1):  # the first of equals counts
            if listed[i].value is None:
                np.copyto(places, i, where=~v.known)
            else:
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
for _number_name in ("floor", "ceil", "trunc", "round"):
    plainly(_number_name, strict(lambda a: a), (Z,))


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
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}
_OF_ONE: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.absolute,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
}
for _number_name, _f in _OF_TWO.items():
    plainly(_number_name, strict(_f), (N, N))
for _number_name, _f in _OF_ONE.items():
    plainly(_number_name, strict(_f), (N,))
for _number_name, _f in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
    plainly(_number_name, strict(_f), (N,))


@operation("round", (N,))
def _nearest(_: Term) -> Kernel:
    def rounded(a: Any) -> Any:
        whole = np.trunc(a)
        return np.where(np.absolute(a - whole) >= 0.5, whole + np.copysign(1.0, a), whole)

    return strict(rounded)


@operation("sign", (N,))
def _sign(_: Term) -> Kernel:
    return strict(lambda a: (a > 0).astype(np.int64) - (a < 0))


# -- choices ---------------------------------------------------------------------------------------


@operation("case")
def _case(term: Term) -> Kernel:
    empty = constant_vector(Term(term.type, "", constant=True))

    def kernel(*v: Vector) -> Vector:
        pairs = len(v) - len(v) % 2
        return case(v[:pairs], v[-1] if len(v) % 2 else empty)

    return kernel


plainly("coalesce", lambda *v: reduce(coalesce, v))
plainly("nullif", nullif)


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
            found = chosen(both(wins, b.known), b, a)
            return Vector(found.values, ALL if b.known is ALL else a.known | b.known)

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
    (Z, N): _to_number,
    (B, N): _to_number,
    (C, N): _decimal_to_number,
    (Z, Z): lambda a, b: _within(b.low, b.high, a),
    (B, Z): lambda a, b: strict(lambda x: np.asarray(x).astype(np.int64)[()]),
    (Z, B): lambda a, b: strict(lambda x: x != 0),
    (C, B): lambda a, b: strict(lambda x: x != 0),
    (Z, C): _to_decimal,
    (C, C): _to_decimal,
    (C, Z): _decimal_to_whole,
    (N, N): lambda a, b: strict(lambda x: x),
    (D, S): lambda a, b: whole(lambda x: x * DAY),
    (S, D): lambda a, b: strict(lambda x: x // DAY),
    (D, D): lambda a, b: strict(lambda x: x),
    (S, S): lambda a, b: strict(lambda x: x),
}


# -- dates and times -------------------------------------------------------------------------------


@operation("in range")
def _in_range(term: Term) -> Kernel:
    one = 1 if term.type.family is D else DAY
    low, high = T.FIRST_DAY * one, (T.LAST_DAY + 1) * one - 1
    return lambda a: Vector(a.values, both(a.known, (a.values >= low) & (a.values <= high)))


def by_day(f: Callable[[Any], Any], days: Any) -> Any:
    """Return a function of days, of each different day once where they lie close."""
    if np.ndim(days) == 0 or len(days) == 0:
        return f(np.asarray(days, np.int64))
    low, high = int(days.min()), int(days.max())
    if high - low >= len(days):
        return f(days.astype(np.int64))
    return f(np.arange(low, high + 1))[days - low]


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Return year, month and day of days since 1970, by the Gregorian calendar.

    Years begin in March and come in eras of 400, as in Hinnant's `civil_from_days`.

    Example:
        >>> [int(x) for x in civil(np.int64(19782))]
        [2024, 2, 29]
    """
    days = days + 719_468
    era = days // 146_097
    doe = days - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = np.where(mp < 10, mp + 3, mp - 9)
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def days_of(year: Any, month: Any) -> Any:
    """Return the first day of a month, in days since 1970."""
    year = year - (month <= 2)
    era = year // 400
    yoe = year - era * 400
    doy = (153 * np.where(month > 2, month - 3, month + 9) + 2) // 5
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def _first_of(unit: str) -> Callable[[Any], Any]:
    """Return what gives the first day of the year, quarter, month or week that a day is in."""

    def first(days: Any) -> Any:
        if unit == "week":
            return days - (days + 3) % 7
        if unit == "day":
            return days
        year, month, _ = civil(days)
        return days_of(
            year, {"year": month * 0 + 1, "quarter": (month - 1) // 3 * 3 + 1}.get(unit, month)
        )

    return first


_PARTS: dict[str, Callable[[Any], Any]] = {
    "year": lambda d: civil(d)[0],
    "month": lambda d: civil(d)[1],
    "day": lambda d: civil(d)[2],
    "quarter": lambda d: (civil(d)[1] + 2) // 3,
    "dow": lambda d: (d + 4) % 7,
    "isodow": lambda d: (d + 3) % 7 + 1,
    "doy": lambda d: d - _first_of("year")(d) + 1,
}
_CLOCK = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}


def _of_days(f: Callable[[Any], Any], family: Family, times: int = 1) -> Kernel:
    return strict(lambda a: by_day(f, a if family is D else a // DAY) * times)


def _part_of_day(long: int, many: int) -> Kernel:
    """Return what counts parts of a day; // is quick by a constant, % is not."""

    def counted(a: Any) -> Any:
        parts = a // long
        return parts - parts // many * many

    return strict(counted)


def _start(long: int) -> Kernel:
    return strict(lambda a: a // long * long)


for _kind in (D, S):
    for _time_name, _part in _PARTS.items():
        plainly(_time_name, _of_days(_part, _kind), (_kind,))
    for _unit in ("year", "quarter", "month", "week", "day"):
        plainly(f"date_trunc {_unit}", _of_days(_first_of(_unit), _kind, DAY), (_kind,))
for _unit, (_long, _many) in _CLOCK.items():
    plainly(_unit, _part_of_day(_long, _many), (S,))
    plainly(f"date_trunc {_unit}", _start(_long), (S,))
plainly("date_diff day", whole(lambda a, b: b - a), (D, D))
plainly("-", strict(lambda a, b: np.subtract(narrow(a, b), narrow(b, a))), (D, D))


def _shifted(days: int, digits: int) -> Make:
    """Return what makes a kernel of a time and a number of so many days; NULL from 10^digits on."""

    def make(term: Term) -> Kernel:
        one = 1 if term.type.family is D else DAY
        before = DAY if term.arguments[0].type.family is D and one > 1 else 1

        def kernel(a: Vector, by: Vector) -> Vector:
            fits = (by.values < 10**digits) & (by.values > -(10**digits))
            moved = np.where(fits, wide(by.values), 0) * (days * one)
            return Vector(wide(a.values) * before + moved, both(all_known((a, by)), fits))

        return kernel

    return make


for _direction, _op in ((1, "+"), (-1, "-")):
    operation(_op, (D, Z))(_shifted(_direction, 7))
    operation(f"{_op} day", (D, Z), (S, Z))(_shifted(_direction, 7))
    operation(f"{_op} week", (D, Z), (S, Z))(_shifted(_direction * 7, 6))


# -- the ends of a program: places among so many, and values on the lattice ------------------------


def placed(size: int) -> Kernel:
    """Return what gives places in the narrowest type, -1 for what is out of range or not known."""
    kind = np.min_scalar_type(-size)

    def kernel(found: Vector) -> Vector:
        places: Any = np.asarray(found.values)
        if places.dtype not in (np.int32, np.int64):
            places = places.astype(np.int64)
        unsigned = bits_as(places, np.signedinteger, f"u{places.dtype.itemsize}")
        inside = unsigned < size  # what is negative is above all
        inside = np.asarray(both(inside, found.known))
        if inside.all():
            return Vector(places.astype(kind, copy=False)[()])
        return Vector(np.where(inside, places, -1).astype(kind)[()])

    return kernel


def on_lattice(step: float) -> Kernel:
    """Return what gives lattice values of numbers, or of truths; 0 where they are not known."""

    def kernel(found: Vector) -> Vector:
        values = np.atleast_1d(found.values)
        if values.dtype == np.bool_:
            ones = bits_as(values, np.bool_, np.uint8)
            made = ones if step == 1.0 else quantise(ones, step)
        else:
            if found.known is not ALL:
                values = np.where(found.known, values, np.nan)
            made = quantise(np.ascontiguousarray(values), step)
        return Vector(made if np.ndim(found.values) or np.ndim(found.known) else made[0])

    return kernel
