"""Functions of doubles by IEEE 754, NaN and infinity included, with their intervals."""

from __future__ import annotations

import numpy as np

from sparseq.language import interval_arithmetic as I
from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.functions.integers import nonzero_divisor
from sparseq.language.types import Family

_DECIMALS = "CAST(greatest(least({1}, 400), -400) AS INTEGER)"
Z, N = Family.INTEGER, Family.DOUBLE
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


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
    lambda t: f"({{0}} // {nonzero_divisor(t)})",
    "the quotient; NULL if the divisor is 0",
    rule=I.OVER,
    short=True,
)
_add("neg", "(-{0})", (N,), T.DOUBLE, "(-{0})", _IEEE, rule=I.NEGATIVE, short=True)
_ROUNDED = {"finite": True, "makes_whole": True}
_SHORT = ("abs", "floor", "ceil", "trunc", "round")
for _name, _rule in {
    "abs": I.ABSOLUTE,
    "floor": I.rising_rule(np.floor, **_ROUNDED),
    "ceil": I.rising_rule(np.ceil, **_ROUNDED),
    "trunc": I.rising_rule(np.trunc, **_ROUNDED),
    "round": I.rising_rule(I.round_to, **_ROUNDED),
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
    rule=I.rising_rule(np.sign, **_ROUNDED),
)
for _name, _what in (("isnan", "NaN"), ("isinf", "infinite"), ("isfinite", "a finite number")):
    _add(_name, f"{_name}({{0}})", (N,), T.BOOLEAN, f"{_name}({{0}})", f"whether it is {_what}")
