"""The table of all functions and operators that a query may use.

An entry gives a function's form in a query, its argument and result types, its value for every
value of its arguments, and its SQL. The page in docs and the exhaustive test use this table.

**Total.** No entry's SQL can raise an error, whatever values its arguments have within their types:
integers that could exceed 64 bits are computed in 128 and cast back by TRY_CAST, which gives NULL;
integers that are wider from the start stay in 128 bits, or are refused; a zero divisor becomes
NULL; decimals have room for the result, or become doubles; the amount added to a date is clamped to
DuckDB's range of dates; doubles follow IEEE 754. `tests/language/test_total.py` tries every entry
on extreme values, in every position, with DuckDB's statistics on and off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparseq.base.errors import QueryRefused
from sparseq.language import interval_arithmetic as I
from sparseq.language import types as T
from sparseq.language.text_functions import MAX_TEXT, add_text_functions
from sparseq.language.types import Family, Type

MAX_PLACE = 1_000_000
"""Positions and lengths in a text are clamped to this."""
_DECIMALS = "CAST(greatest(least({1}, 400), -400) AS INTEGER)"
Types = Sequence[Type]
B, Z, C, N, X, D, S, M, U, L = (
    Family.BOOLEAN,
    Family.INTEGER,
    Family.DECIMAL,
    Family.DOUBLE,
    Family.TEXT,
    Family.DATE,
    Family.TIMESTAMP,
    Family.TIME,
    Family.UUID,
    Family.LIST,
)


@dataclass(frozen=True)
class Function:
    """One overload of a function.

    Attributes:
        name: The name for lookups.
        form: Its form in a query, with {0}, {1} … for the arguments.
        takes: The families of its arguments.
        gives: Returns the result type for the argument types; None if they are not accepted.
        sql: Returns its SQL for the argument types.
        meaning: Its value for every argument, for the docs page.
        fixed: Arguments that must be constants.
        samples: Constants for these arguments in tests; by default numbers of decimals.
        rule: Its values and intervals on arrays, shared by all overloads with the same number of
            arguments; None if it has no interval.
        short: Its result is a FLOAT for FLOATs, or for FLOATs and exact numbers.
        wide: It takes integers beyond 64 bits unchanged; other functions refuse types that exceed
            64 bits.
    """

    name: str
    form: str
    takes: tuple[Family, ...]
    gives: Callable[[Types], Type | None]
    sql: Callable[[Types], str]
    meaning: str
    fixed: tuple[int, ...] = ()
    samples: tuple[tuple[str, ...], ...] = (("0",), ("2",), ("-2",), ("400",), ("-400",))
    rule: I.ArrayRule | None = None
    short: bool = False
    wide: bool = False


FUNCTIONS: list[Function] = []


def _add(
    name: str,
    form: str,
    takes: Sequence[Family],
    gives: Type | Callable[[Types], Type | None],
    sql: str | Callable[[Types], str],
    meaning: str,
    **more: object,
) -> None:
    def constantly(value: object) -> Callable[[Types], object]:
        return lambda _: value

    FUNCTIONS.append(
        Function(
            name,
            form,
            tuple(takes),
            gives if callable(gives) else constantly(gives),  # type: ignore[arg-type]
            sql if callable(sql) else constantly(sql),  # type: ignore[arg-type]
            meaning,
            **more,  # type: ignore[arg-type]
        )
    )


def overloads(name: str) -> list[Function]:
    """Return the overloads of a function, in the order in which they are tried.

    Example:
        >>> [f.takes for f in overloads("sqrt")]
        [(<Family.DOUBLE: 'number'>,)]
    """
    return _BY_NAME.get(name, [])


# Integers are exact: up to 64 bits NULL on overflow, wider ones with all digits of the result


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


def _divisor(t: Types) -> str:
    zero = t[1].family is not Z or t[1].low <= 0 <= t[1].high
    return "CASE WHEN {1} <> 0 THEN {1} END" if zero else "{1}"


def _whole_division(operator: str) -> Callable[[Types], str]:
    def sql(t: Types) -> str:
        safe = _of_64_bits(t) and t[0].low > T.INT64[0]
        kind = "BIGINT" if safe else "HUGEINT"
        text = f"(CAST({{0}} AS {kind}) {operator} CAST({_divisor(t)} AS {kind}))"
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
_SIGN = "CAST(sign({0}) AS BIGINT)", "-1, 0 or 1"
_add("sign", "sign({0})", (Z,), T.integer(-1, 1), *_SIGN, wide=True)
for _name in ("floor", "ceil", "trunc", "round"):
    _add(_name, f"{_name}({{0}})", (Z,), lambda t: t[0], "{0}", "the number itself", wide=True)
    if _name in ("trunc", "round"):

        def _tens(t: Types, name: str = _name) -> str:
            return f"TRY_CAST({_to_decimals(name, 'CAST({0} AS DECIMAL(20, 0))', 20, t)} AS BIGINT)"

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


# -- decimals: exact where 38 digits hold the result, else numbers ---------------------------------


def _decimal_of(width: int, scale: int) -> Type | None:
    return T.decimal(width, scale) if width <= T.MAX_DIGITS else None


def _sum_type(t: Types) -> Type:
    scale = max(a.scale for a in t)
    if scale == T.MAX_DIGITS:
        raise QueryRefused(
            f"a sum of numbers with {scale} decimals has no digit left before the point",
            "write fewer decimals, or CAST(x AS DOUBLE)",
        )
    return T.decimal(min(max(a.digits for a in t) + scale + 1, T.MAX_DIGITS), scale)


def _product_type(t: Types) -> Type | None:
    return _decimal_of(t[0].width + t[1].width, t[0].scale + t[1].scale)


def _product(t: Types) -> str:
    """Return SQL of a product; DuckDB multiplies in the wider factor's width, up to 18 digits."""
    width = t[0].width + t[1].width
    first = T.decimal(max(t[0].width, 19), t[0].scale).sql if width > 18 else t[0].sql
    kind = T.decimal(width, t[0].scale + t[1].scale).sql
    return f"CAST(CAST({{0}} AS {first}) * {{1}} AS {kind})"


def _in_sum_type(operator: str, second: str = "{1}") -> Callable[[Types], str]:
    """Return SQL in the type of the sum; values that need more digits are NULL."""

    def sql(t: Types) -> str:
        kind = _sum_type(t)
        room = T.decimal(T.MAX_DIGITS - 1, kind.scale)
        parts = [
            f"CAST({part} AS {kind.sql})"
            if a.digits < kind.digits
            else f"CAST(TRY_CAST({part} AS {room.sql}) AS {kind.sql})"
            for part, a in zip(("{0}", second), t, strict=True)
        ]
        return f"CAST({f' {operator} '.join(parts)} AS {kind.sql})"

    return sql


for _op in "+-":
    _add(
        _op,
        f"({{0}} {_op} {{1}})",
        (C, C),
        _sum_type,
        _in_sum_type(_op),
        "exact; NULL if the result may need more than 38 digits",
    )
_add(
    "*",
    "({0} * {1})",
    (C, C),
    _product_type,
    _product,
    "exact; computed as numbers if the result may need more than 38 digits",
)
_add(
    "%",
    "({0} % {1})",
    (C, C),
    _sum_type,
    _in_sum_type("%", "CASE WHEN {1} <> 0 THEN {1} END"),
    "remainder, with the sign of the first; NULL if the second is 0",
)
_add("neg", "(-{0})", (C,), lambda t: t[0], "(-{0})", "exact")
_add("abs", "abs({0})", (C,), lambda t: t[0], "abs({0})", "the absolute value")


def _decimals(t: Types) -> int:
    return min(max(t[1].low, -T.MAX_DIGITS), T.MAX_DIGITS)


def _to_decimals(name: str, value: str, digits: int, t: Types) -> str:
    """Return SQL for a decimal with `digits` digits before its point, rounded.

    If every number rounds to nothing, DuckDB 2.0 gives 0 even for NULL, so DuckDB is not used
    there.
    """
    places = _decimals(t)
    if -places > digits or (name == "trunc" and -places == digits):
        return f"CASE WHEN {value} IS NOT NULL THEN 0 END"
    return f"{name}({value}, {places})"


def _spared(t: Types) -> tuple[str, int]:
    """Return a decimal with one digit to spare, NULL if it has none, and its number of digits."""
    if t[0].width < T.MAX_DIGITS:
        return "{0}", t[0].digits
    room = T.decimal(T.MAX_DIGITS - 1, t[0].scale)
    return f"TRY_CAST({{0}} AS {room.sql})", room.digits


def _rounded_type(t: Types) -> Type | None:
    scale = min(max(_decimals(t), 0), t[0].scale)
    return None if t[0].scale == T.MAX_DIGITS else _decimal_of(_spared(t)[1] + 1 + scale, scale)


def _round_sql(name: str) -> Callable[[Types], str]:
    def sql(t: Types) -> str:
        kind = _rounded_type(t)
        assert kind is not None
        return f"CAST({_to_decimals(name, *_spared(t), t)} AS {kind.sql})"

    return sql


for _name in ("trunc", "round"):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (C, Z),
        _rounded_type,
        _round_sql(_name),
        "to this number of decimals, a constant; exact",
        fixed=(1,),
    )
_add("sign", "sign({0})", (C,), T.integer(-1, 1), *_SIGN)


def _whole_type(t: Types) -> Type | None:
    return None if t[0].scale == T.MAX_DIGITS else _decimal_of(_spared(t)[1] + 1, 0)


def _to_whole(name: str) -> Callable[[Types], str]:
    def sql(t: Types) -> str:
        value, digits = _spared(t)
        return f"CAST({name}({value}) AS DECIMAL({digits + 1}, 0))"

    return sql


for _name in ("floor", "ceil", "trunc", "round"):
    _add(_name, f"{_name}({{0}})", (C,), _whole_type, _to_whole(_name), "to a whole number")


# -- numbers: doubles by IEEE 754, NaN and infinity included ---------------------------------------

_IEEE = "IEEE 754: NaN or infinite where the result is not a number"
for _op, _rule in (("+", I.PLUS), ("-", I.MINUS), ("*", I.TIMES), ("/", I.OVER)):
    _sql = f"({{0}} {_op} {{1}})"
    _add(_op, _sql, (N, N), T.DOUBLE, _sql, _IEEE, rule=_rule, short=True)
_add(
    "%",
    "({0} % {1})",
    (N, N),
    T.DOUBLE,
    "({0} % {1})",
    "remainder; NaN if the second is 0",
    rule=I.REMAINDER,
    short=True,
)
_add(
    "//",
    "({0} // {1})",
    (N, N),
    T.DOUBLE,
    lambda t: f"({{0}} // {_divisor(t)})",
    "the quotient; NULL if the divisor is 0",
    rule=I.OVER,
    short=True,
)
_add("neg", "(-{0})", (N,), T.DOUBLE, "(-{0})", _IEEE, rule=I.NEGATIVE, short=True)
_SHORT = ("abs", "floor", "ceil", "trunc", "round")
for _name, _rule in {
    "abs": I.ABSOLUTE,
    "floor": I.rising_rule(np.floor),
    "ceil": I.rising_rule(np.ceil),
    "trunc": I.rising_rule(np.trunc),
    "round": I.rising_rule(I.round_to),
    "sqrt": I.ROOT,
    "ln": I.logarithm(np.log),
    "log": I.logarithm(np.log10),
    "log2": I.logarithm(np.log2),
    "exp": I.rising_rule(np.exp),
    "cbrt": I.rising_rule(np.cbrt),
    "radians": I.rising_rule(np.radians),
    "degrees": I.rising_rule(np.degrees),
    "sin": I.lying_in(np.sin, -1.0, 1.0),
    "cos": I.lying_in(np.cos, -1.0, 1.0),
    "tan": I.lying_in(np.tan, -np.inf, np.inf),
    "asin": I.lying_in(np.arcsin, -2.0, 2.0),
    "acos": I.lying_in(np.arccos, -1.0, 4.0),
    "atan": I.rising_rule(np.arctan),
}.items():
    _sql, _is_short = f"{_name}({{0}})", _name in _SHORT
    _add(_name, _sql, (N,), T.DOUBLE, _sql, _IEEE, rule=_rule, short=_is_short)
for _name, _to_digits in {"trunc": I.truncate, "round": I.round_to}.items():
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (N, Z),
        T.DOUBLE,
        f"{_name}({{0}}, {_DECIMALS})",
        "to this number of decimals, a constant",
        fixed=(1,),
        rule=I.rising_rule_to_digits(_to_digits),
        short=True,
    )
_add(
    "atan2",
    "atan2({0}, {1})",
    (N, N),
    T.DOUBLE,
    "atan2({0}, {1})",
    "the angle of the point (second, first)",
    rule=I.lying_in(np.arctan2, -4.0, 4.0),
)
_add("pow", "pow({0}, {1})", (N, N), T.DOUBLE, "pow({0}, {1})", _IEEE, rule=I.POWER)
_add(
    "log",
    "log({0}, {1})",
    (N, N),
    T.DOUBLE,
    "log({0}, {1})",
    "the logarithm of the second to the base of the first",
    rule=I.LOGARITHM,
)
_add(
    "sign",
    "sign({0})",
    (N,),
    T.integer(-1, 1),
    "CAST(sign({0}) AS BIGINT)",
    "-1, 0 or 1; 0 for NaN",
    rule=I.rising_rule(np.sign),
)
for _name, _what in (("isnan", "NaN"), ("isinf", "infinite"), ("isfinite", "a finite number")):
    _add(_name, f"{_name}({{0}})", (N,), T.BOOLEAN, f"{_name}({{0}})", f"whether it is {_what}")


# -- text ------------------------------------------------------------------------------------------

for _name in ("lower", "upper"):
    _add(_name, f"{_name}({{0}})", (X,), T.TEXT, f"{_name}({{0}})", "by the rules of Unicode")
for _name in ("trim", "ltrim", "rtrim"):
    _add(_name, f"{_name}({{0}})", (X,), T.TEXT, f"{_name}({{0}})", "without spaces at the ends")
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (X, X),
        T.TEXT,
        f"{_name}({{0}}, {{1}})",
        "without any of these characters at the ends",
    )
_add("length", "length({0})", (X,), T.integer(0, 2**32), "length({0})", "in characters")


def _of_places(name: str) -> Callable[[Types], str]:
    """Return SQL of a function of a text and positions; large positions are clamped."""

    def place(i: int, type: Type) -> str:
        if type.low >= -MAX_PLACE and type.high <= MAX_PLACE:
            return f"CAST({{{i}}} AS BIGINT)"
        near = f"greatest(least({{{i}}}, {MAX_PLACE}), -{MAX_PLACE})"  # also a number for NULL
        return f"CASE WHEN {{{i}}} IS NOT NULL THEN CAST({near} AS BIGINT) END"

    def sql(t: Types) -> str:
        return f"{name}({', '.join(['{0}', *(place(i, t[i]) for i in range(1, len(t)))])})"

    return sql


_add(
    "substring",
    "substring({0}, {1})",
    (X, Z),
    T.TEXT,
    _of_places("substring"),
    "from a position on; 1 is the first, a negative position counts from the end",
)
_add(
    "substring",
    "substring({0}, {1}, {2})",
    (X, Z, Z),
    T.TEXT,
    _of_places("substring"),
    "this number of characters, from a position on",
)
for _name in ("left", "right"):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (X, Z),
        T.TEXT,
        _of_places(_name),
        "this number of characters; negative: all but this number",
    )
_add(
    "||",
    "({0} || {1})",
    (X, X),
    T.TEXT,
    f"left({{0}} || {{1}}, {MAX_TEXT})",
    f"joined, and cut to {MAX_TEXT:,} characters; NULL if one is NULL",
)
for _name in ("starts_with", "ends_with", "contains"):
    _add(_name, f"{_name}({{0}}, {{1}})", (X, X), T.BOOLEAN, f"{_name}({{0}}, {{1}})", "exact")
_add(
    "strpos",
    "strpos({0}, {1})",
    (X, X),
    T.integer(0, 2**32),
    "strpos({0}, {1})",
    "the first position of the second; 0 if there is none",
)


add_text_functions(_add)

# -- lists: positions count from 1, or backwards from the end --------------------------------------

for _kind in (X, Z, N, B, D):
    _add(
        "contains",
        "list_contains({0}, {1})",
        (L, _kind),
        lambda t: T.BOOLEAN if t[0].inside.family is t[1].family else None,
        "list_contains({0}, {1})",
        "whether one of its values is the second",
    )
for _name in ("length", "cardinality"):
    _form = f"{'len' if _name == 'length' else _name}({{0}})"
    _add(_name, _form, (L,), T.integer(0, T.MOST_LISTED), "len({0})", "the number of values")
for _name in ("list_extract", "array_extract", "list_element"):
    _add(
        _name,
        f"{_name}({{0}}, {{1}})",
        (L, Z),
        lambda t: t[0].inside,
        "list_extract({0}, CAST({1} AS BIGINT))",
        "the value at a position, like a[1]; NULL if there is none",
    )

# -- dates and times -------------------------------------------------------------------------------

_PARTS = {
    "year": (-200_000, 200_000),
    "month": (1, 12),
    "day": (1, 31),
    "quarter": (1, 4),
    "week": (1, 53),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "isoyear": (-200_000, 200_000),
    "decade": (-20_000, 20_000),
    "century": (-2_000, 2_000),
    "millennium": (-200, 200),
    "yearweek": (-20_000_053, 20_000_053),
}
_CLOCK = {"hour": (0, 23), "minute": (0, 59), "second": (0, 59)}
for _part, _range in _PARTS.items():
    for _kind in (D, S):
        _add(
            _part,
            f"extract({_part} FROM {{0}})",
            (_kind,),
            T.integer(*_range),
            f"date_part('{_part}', {{0}})",
            "the part",
        )
for _part, _range in _CLOCK.items():
    for _kind in (S, M):
        _add(
            _part,
            f"extract({_part} FROM {{0}})",
            (_kind,),
            T.integer(*_range),
            f"date_part('{_part}', {{0}})",
            "the part; 0 for a date",
        )
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_SECONDS = {"second": 86400, "minute": 1440, "hour": 24}
for _unit in UNITS:
    for _kind in (D, S):
        _add(
            f"date_trunc {_unit}",
            f"date_trunc('{_unit}', {{0}})",
            (_kind,),
            lambda t: T.shift_type(T.Type(S, t[0].low, t[0].high), 366, 0),
            f"CAST(date_trunc('{_unit}', {{0}}) AS TIMESTAMP)",
            f"the first moment of the {_unit}",
        )
        _most = 2 * 10**8 * _SECONDS.get(_unit, 1)
        _add(
            f"date_diff {_unit}",
            f"date_diff('{_unit}', {{0}}, {{1}})",
            (_kind, _kind),
            T.integer(-_most, _most),
            f"date_diff('{_unit}', {{0}}, {{1}})",
            f"the number of {_unit}s that begin from the first to the second",
        )
for _unit in UNITS:
    for _kind in (D, S):
        _most = 2 * 10**8 * _SECONDS.get(_unit, 1)
        _add(
            f"date_sub {_unit}",
            f"date_sub('{_unit}', {{0}}, {{1}})",
            (_kind, _kind),
            T.integer(-_most, _most),
            f"date_sub('{_unit}', {{0}}, {{1}})",
            f"the number of full {_unit}s from the first to the second",
        )
for _kind in (D, S):
    _add("epoch", "epoch({0})", (_kind,), T.DOUBLE, "epoch({0})", "seconds since 1970")
    for _name, _most in {"epoch_ms": 2 * 10**16, "epoch_us": T.INT64[1]}.items():
        _add(
            _name,
            f"{_name}({{0}})",
            (_kind,),
            T.integer(-_most, _most),
            f"{_name}({{0}})",
            f"{'milli' if 'ms' in _name else 'micro'}seconds since 1970",
        )
    for _part, _most in {"year": 400_000, "month": 11, "day": 31}.items():
        _add(
            f"age {_part}",
            f"extract({_part} FROM age({{0}}, {{1}}))",
            (_kind, _kind),
            T.integer(-_most, _most),
            f"date_part('{_part}', age(CAST({{0}} AS TIMESTAMP), CAST({{1}} AS TIMESTAMP)))",
            "one part of the years, months and days from the second to the first",
        )
    _add(
        "strftime",
        "strftime({0}, {1})",
        (_kind, X),
        T.TEXT,
        "strftime({0}, {1})",
        "as text, in a format such as '%Y-%m'",
        fixed=(1,),
        samples=(("'%Y-%m-%d %H:%M:%S'",), ("'%j %A'",)),
    )
_add(
    "strptime",
    "strptime({0}, {1})",
    (X, X),
    T.Type(S, -(10**9), 10**9),
    "try_strptime({0}, {1})",
    "NULL if the text does not have this format",
    fixed=(1,),
    samples=(("'%Y-%m-%d'",), ("'%d/%m/%y %H:%M:%S.%f'",)),
)
_add(
    "- day",
    "extract(day FROM {0} - {1})",
    (S, S),
    T.integer(-(2 * 10**8), 2 * 10**8),
    "date_sub('day', {1}, {0})",
    "full days from the second to the first",
)
_add(
    "- epoch",
    "epoch({0} - {1})",
    (S, S),
    T.DOUBLE,
    "((CAST(epoch_us({0}) AS HUGEINT) - epoch_us({1})) / 1e6)",
    "seconds from the second to the first",
)


def _by_zone(t: Types) -> str:
    moment = "make_timestamptz(epoch_us({0}))"
    return (
        f"timezone({{1}}, {moment})"
        if t[0].zoned
        else "make_timestamp(epoch_us(timezone({1}, {0})))"
    )


_add(
    "timezone",
    "({0} AT TIME ZONE {1})",
    (S, X),
    lambda t: replace(T.shift_type(t[0], 1, 1), zoned=not t[0].zoned),
    _by_zone,
    "for a moment (TIMESTAMPTZ): the local time there. For another time: the moment of this "
    "local time; the later one if it occurs twice; if it is skipped, by the offset before",
    fixed=(1,),
    samples=(("'Europe/Berlin'",), ("'Pacific/Apia'",), ("'America/St_Johns'",)),
)
_PER_SECOND = {"to_timestamp": (1, "seconds"), "epoch_ms": (10**3, "milliseconds")}
for _name, (_per, _words) in (_PER_SECOND | {"make_timestamp": (10**6, "microseconds")}).items():
    _first, _last = (d * 86400 * _per for d in (T.FIRST_DAY, T.LAST_DAY + 1))
    for _kind in (Z, N) if _name == "to_timestamp" else (Z,):
        _inside = f"CASE WHEN {{0}} >= {_first} AND {{0}} < {_last} THEN {{0}} END"
        _add(
            _name,
            f"{_name}({{0}})",
            (_kind,),
            T.INSTANT if _name == "to_timestamp" else T.TIMESTAMP,
            f"make_timestamp(CAST({_inside} AS BIGINT) * {10**6 // _per})"
            if _kind is Z
            else f"make_timestamp(CAST(round(({_inside}) * 1e6) AS BIGINT))",
            f"this number of {_words} after 1970, in UTC; NULL outside the years 1 to 9999",
        )
_add("-", "({0} - {1})", (D, D), T.integer(-(2 * 10**8), 2 * 10**8), "({0} - {1})", "in days")
DAYS_DIGITS = 7
_MOST_DAYS = 10**DAYS_DIGITS
_FEW = f"CAST(TRY_CAST({{1}} AS DECIMAL({DAYS_DIGITS}, 0)) AS INTEGER)"
for _op in "+-":
    _add(
        _op,
        f"({{0}} {_op} {{1}})",
        (D, Z),
        lambda t: T.shift_type(t[0], _MOST_DAYS, _MOST_DAYS),
        f"({{0}} {_op} {_FEW})",
        "later or earlier by this number of days; NULL from 10^7 days on",
    )
INTERVALS = {
    # unit: (digits of the number, SQL of the interval, the most days)
    "year": (4, "to_years(CAST({n} AS INTEGER))", 366 * 10**4),
    "quarter": (5, "to_months(CAST(3 * {n} AS INTEGER))", 93 * 10**5),
    "month": (5, "to_months(CAST({n} AS INTEGER))", 31 * 10**5),
    "week": (6, "to_days(CAST(7 * {n} AS INTEGER))", 7 * 10**6),
    "day": (7, "to_days(CAST({n} AS INTEGER))", 10**7),
    "hour": (8, "to_hours(CAST({n} AS BIGINT))", 10**8 // 24),
    "minute": (9, "to_minutes(CAST({n} AS BIGINT))", 10**9 // 1440),
    "second": (11, "to_seconds(CAST({n} AS BIGINT))", 10**11 // 86400),
}


def _shifted_by(days: int) -> Callable[[Types], Type]:
    return lambda t: T.shift_type(T.Type(S, t[0].low, t[0].high), days, days)


for _unit, (_digits, _sql, _days) in INTERVALS.items():
    _number = f"TRY_CAST({{1}} AS DECIMAL({_digits}, 0))"
    for _op in "+-":
        for _kind in (D, S):
            _add(
                f"{_op} {_unit}",
                f"({{0}} {_op} INTERVAL ({{1}}) {_unit})",
                (_kind, Z),
                _shifted_by(_days),
                f"(CAST({{0}} AS TIMESTAMP) {_op} {_sql.replace('{n}', _number)})",
                f"later or earlier by this number of {_unit}s; NULL from 10^{_digits} on",
            )
for _kind in (D, S):
    _add(
        "last_day",
        "last_day({0})",
        (_kind,),
        lambda t: T.shift_type(T.Type(D, t[0].low, t[0].high), 0, 31),
        "last_day({0})",
        "of its month",
    )
    for _name in ("dayname", "monthname"):
        _add(_name, f"{_name}({{0}})", (_kind,), T.TEXT, f"{_name}({{0}})", "in English")
    _add("isfinite", "isfinite({0})", (_kind,), T.BOOLEAN, "isfinite({0})", "true")
_YEAR = "TRY_CAST({0} AS DECIMAL(4, 0))"
_add(
    "make_date",
    "make_date({0}, {1}, {2})",
    (Z, Z, Z),
    T.Type(D, -366 * 10**4 + T.FIRST_DAY, T.LAST_DAY),
    f"TRY_CAST({_YEAR} || '-' || {{1}} || '-' || {{2}} AS DATE)",
    "NULL if there is no such day",
)

_CLOCK_US = " + ".join(
    f"CAST(CASE WHEN {{{i}}} >= 0 AND {{{i}}} < {most} THEN {{{i}}} END AS BIGINT) * {us}"
    for i, most, us in ((3, 24, 3_600_000_000), (4, 60, 60_000_000))
)
_add(
    "make_timestamp",
    "make_timestamp({0}, {1}, {2}, {3}, {4}, {5})",
    (Z, Z, Z, Z, Z, N),
    T.shift_type(T.Type(S, -366 * 10**4 + T.FIRST_DAY, T.LAST_DAY), 0, 1),
    f"(CAST(TRY_CAST({_YEAR} || '-' || {{1}} || '-' || {{2}} AS DATE) AS TIMESTAMP) + "
    f"to_microseconds({_CLOCK_US} + "
    "CAST(round(CASE WHEN {5} >= 0 AND {5} < 60 THEN {5} END * 1e6) AS BIGINT)))",
    "NULL if there is no such moment",
)

# -- truth values ----------------------------------------------------------------------------------

for _op in ("AND", "OR"):
    _add(
        _op.lower(),
        f"({{0}} {_op} {{1}})",
        (B, B),
        T.BOOLEAN,
        f"({{0}} {_op} {{1}})",
        "three-valued",
    )
_add("not", "(NOT {0})", (B,), T.BOOLEAN, "(NOT {0})", "NULL for NULL")
for _name in ("TRUE", "FALSE"):
    _add(
        f"is {_name.lower()}",
        f"({{0}} IS {_name})",
        (B,),
        T.BOOLEAN,
        f"({{0}} IS {_name})",
        "never NULL",
    )

_BY_NAME: dict[str, list[Function]] = {}
for _f in FUNCTIONS:
    _BY_NAME.setdefault(_f.name, []).append(_f)

# -- values and intervals of functions of numbers --------------------------------------------------

FORMS = {
    "greatest": I.GREATEST,
    "least": I.LEAST,
    "either": I.EITHER,
    "to integer": I.rising_rule(np.rint),
    "to decimal": I.rising_rule_to_digits(I.round_to),
}
"""SQL forms besides functions: choices among any number of values, and casts."""


def rule_of(name: str, arguments: int) -> I.ArrayRule | None:
    """Return the values and intervals of a function of `arguments` numbers; None if it has none.

    Example:
        >>> rule_of("abs", 1) is I.ABSOLUTE, rule_of("length", 1)
        (True, None)
    """
    rules = (f.rule for f in overloads(name) if len(f.takes) == arguments)
    return FORMS.get(name) or next((rule for rule in rules if rule is not None), None)
