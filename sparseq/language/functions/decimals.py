"""Functions of decimals: exact if 38 digits hold the result, else doubles."""

from __future__ import annotations

from collections.abc import Callable

from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.functions.decimal_places import decimals_of, to_decimals
from sparseq.language.functions.function import FunctionTable, Types
from sparseq.language.types import Family, Type

Z, C = Family.INTEGER, Family.DECIMAL
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


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


def _spared(t: Types) -> tuple[str, int]:
    """Return a decimal with one digit to spare, NULL if it has none, and its number of digits."""
    if t[0].width < T.MAX_DIGITS:
        return "{0}", t[0].digits
    room = T.decimal(T.MAX_DIGITS - 1, t[0].scale)
    return f"TRY_CAST({{0}} AS {room.sql})", room.digits


def _rounded_type(t: Types) -> Type | None:
    scale = min(max(decimals_of(t), 0), t[0].scale)
    return None if t[0].scale == T.MAX_DIGITS else _decimal_of(_spared(t)[1] + 1 + scale, scale)


def _round_sql(name: str) -> Callable[[Types], str]:
    def sql(t: Types) -> str:
        kind = _rounded_type(t)
        assert kind is not None
        return f"CAST({to_decimals(name, *_spared(t), t)} AS {kind.sql})"

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
_add("sign", "sign({0})", (C,), T.integer(-1, 1), "CAST(sign({0}) AS BIGINT)", "-1, 0 or 1")


def _whole_type(t: Types) -> Type | None:
    return None if t[0].scale == T.MAX_DIGITS else _decimal_of(_spared(t)[1] + 1, 0)


def _to_whole(name: str) -> Callable[[Types], str]:
    def sql(t: Types) -> str:
        value, digits = _spared(t)
        return f"CAST({name}({value}) AS DECIMAL({digits + 1}, 0))"

    return sql


for _name in ("floor", "ceil", "trunc", "round"):
    _add(_name, f"{_name}({{0}})", (C,), _whole_type, _to_whole(_name), "to a whole number")
