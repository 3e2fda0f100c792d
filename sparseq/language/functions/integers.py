"""Functions of integers, exact: NULL beyond 64 bits, except that wider arguments stay wide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sparseq.language import types as T
from sparseq.language.functions.decimal_places import to_decimals
from sparseq.language.functions.function import FunctionTable, Types
from sparseq.language.types import Family, Type

Z = Family.INTEGER
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


def _of_64_bits(t: Types) -> bool:
    return all(a.within(*T.INT64) for a in t)


def _corners(a: Type, b: Type, f: Callable[[int, int], int]) -> tuple[int, int]:
    found = [f(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(found), max(found)


def _sum_span(t: Types) -> tuple[int, int]:
    return t[0].low + t[1].low, t[0].high + t[1].high


def _difference_span(t: Types) -> tuple[int, int]:
    return t[0].low - t[1].high, t[0].high - t[1].low


def _product_span(t: Types) -> tuple[int, int]:
    return _corners(t[0], t[1], lambda x, y: x * y)


def _exact(operator: str, span: Callable[[Types], tuple[int, int]]) -> Callable[[Types], str]:
    """Return SQL in 64 bits if the result fits, else in 128 and back; wider types stay in 128."""

    def sql(t: Types) -> str:
        low, high = span(t)
        if T.INT64[0] <= low and high <= T.INT64[1] and _of_64_bits(t):
            return f"(CAST({{0}} AS BIGINT) {operator} CAST({{1}} AS BIGINT))"
        wide = f"CAST({{0}} AS HUGEINT) {operator} CAST({{1}} AS HUGEINT)"
        return f"TRY_CAST({wide} AS BIGINT)" if _of_64_bits(t) else f"({wide})"

    return sql


def _of_span(span: Callable[[Types], tuple[int, int]]) -> Callable[[Types], Type]:
    def type(t: Types) -> Type:
        low, high = span(t)
        if _of_64_bits(t):
            return T.integer(low, high)
        return replace(T.whole(low, high), stored="HUGEINT")

    return type


_WIDE = "with a UBIGINT or a constant beyond 64 bits, up to 38 digits"
for _op, _span in (("+", _sum_span), ("-", _difference_span), ("*", _product_span)):
    _add(
        _op,
        f"({{0}} {_op} {{1}})",
        (Z, Z),
        _of_span(_span),
        _exact(_op, _span),
        f"exact; NULL beyond 64 bits; {_WIDE}",
        wide=True,
    )


def nonzero_divisor(t: Types) -> str:
    """Return SQL of the second argument, NULL if it is 0."""
    zero = t[1].family is not Z or t[1].low <= 0 <= t[1].high
    return "CASE WHEN {1} <> 0 THEN {1} END" if zero else "{1}"


def _whole_division(operator: str) -> Callable[[Types], str]:
    def sql(t: Types) -> str:
        safe = _of_64_bits(t) and t[0].low > T.INT64[0]
        kind = "BIGINT" if safe else "HUGEINT"
        text = f"(CAST({{0}} AS {kind}) {operator} CAST({nonzero_divisor(t)} AS {kind}))"
        return f"TRY_CAST({text} AS BIGINT)" if _of_64_bits(t) and not safe else text

    return sql


def _divided_span(t: Types) -> tuple[int, int]:
    """Return the range of quotients: at most the dividend's magnitude, with either sign."""
    most = max(abs(t[0].low), abs(t[0].high))
    return (0 if t[0].low >= 0 and t[1].low >= 0 else -most), most


def _remainder_span(t: Types) -> tuple[int, int]:
    """Return the range of remainders: below both magnitudes, with the sign of the dividend."""
    most = min(max(abs(t[0].low), abs(t[0].high)), max(abs(t[1].low), abs(t[1].high)))
    return (0 if t[0].low >= 0 else -most), (0 if t[0].high <= 0 else most)


_add(
    "//",
    "({0} // {1})",
    (Z, Z),
    lambda t: T.BIGINT if _of_64_bits(t) else _of_span(_divided_span)(t),
    _whole_division("//"),
    "division rounded towards zero; NULL if the divisor is 0",
    wide=True,
)
_add(
    "%",
    "({0} % {1})",
    (Z, Z),
    lambda t: T.BIGINT if _of_64_bits(t) else _of_span(_remainder_span)(t),
    _whole_division("%"),
    "remainder, with the sign of the first; NULL if the second is 0",
    wide=True,
)


def _magnitude_span(t: Types) -> tuple[int, int]:
    low, high = t[0].low, t[0].high
    return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))


def _one(function: str, span: Callable[[Types], tuple[int, int]]) -> Callable[[Types], str]:
    def sql(t: Types) -> str:
        low, high = span(t)
        if T.INT64[0] <= low and high <= T.INT64[1] and _of_64_bits(t):
            return f"{function}(CAST({{0}} AS BIGINT))"
        wide = f"{function}(CAST({{0}} AS HUGEINT))"
        return f"TRY_CAST({wide} AS BIGINT)" if _of_64_bits(t) else wide

    return sql


def _negative_span(t: Types) -> tuple[int, int]:
    return -t[0].high, -t[0].low


_add(
    "abs",
    "abs({0})",
    (Z,),
    _of_span(_magnitude_span),
    _one("abs", _magnitude_span),
    "the absolute value; NULL for -2^63",
    wide=True,
)
_add(
    "neg",
    "(-{0})",
    (Z,),
    _of_span(_negative_span),
    _one("-", _negative_span),
    "NULL for -2^63",
    wide=True,
)
_add(
    "sign",
    "sign({0})",
    (Z,),
    T.integer(-1, 1),
    "CAST(sign({0}) AS BIGINT)",
    "-1, 0 or 1",
    wide=True,
)
for _name in ("floor", "ceil", "trunc", "round"):
    _add(_name, f"{_name}({{0}})", (Z,), lambda t: t[0], "{0}", "the number itself", wide=True)
    if _name in ("trunc", "round"):

        def _tens(t: Types, name: str = _name) -> str:
            return f"TRY_CAST({to_decimals(name, 'CAST({0} AS DECIMAL(20, 0))', 20, t)} AS BIGINT)"

        _add(
            _name,
            f"{_name}({{0}}, {{1}})",
            (Z, Z),
            T.BIGINT,
            _tens,
            "to this number of decimals, a constant; negative: to tens, hundreds",
            fixed=(1,),
        )


_BIG = "CAST({0} AS BIGINT)", "CAST({1} AS BIGINT)"
for _name, _form in {"&": "({0} & {1})", "|": "({0} | {1})", "xor": "xor({0}, {1})"}.items():
    _add(_name, _form, (Z, Z), T.BIGINT, _form.format(*_BIG), "bitwise, in 64 bits")
_add("~", "(~{0})", (Z,), T.BIGINT, f"(~{_BIG[0]})", "each of the 64 bits inverted")
_add("bit_count", "bit_count({0})", (Z,), T.integer(0, 64), f"bit_count({_BIG[0]})", "set bits")
_add(
    "<<",
    "({0} << {1})",
    (Z, Z),
    T.BIGINT,
    "TRY_CAST(CAST(CASE WHEN {0} >= 0 THEN {0} END AS HUGEINT) << "
    "CAST(CASE WHEN {1} BETWEEN 0 AND 63 THEN {1} END AS HUGEINT) AS BIGINT)",
    "shift to the left; NULL beyond 64 bits, for a negative number, and outside 0 to 63",
)
_add(
    ">>",
    "({0} >> {1})",
    (Z, Z),
    T.BIGINT,
    f"({_BIG[0]} >> {_BIG[1]})",
    "shift to the right; 0 for a shift outside 0 to 63",
)
for _name, _function in {
    "gcd": "gcd",
    "greatest_common_divisor": "gcd",
    "lcm": "lcm",
    "least_common_multiple": "lcm",
}.items():
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (Z, Z),
        T.BIGINT,
        f"TRY_CAST({_function}(CAST({{0}} AS HUGEINT), CAST({{1}} AS HUGEINT)) AS BIGINT)",
        "NULL beyond 64 bits",
    )
