"""Polars expressions as SQL, so that one set of checks covers both.

An expression is read from its serialized form in Polars. An expression that uses more than one row
(sum, over, shift, unique …), or runs Python, has no translation and is refused. Polars evaluates
constants. If the results of SQL and Polars differ, SQL's apply: a row whose expression fails
contributes nothing.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sparseq.base.errors import QueryRefused
from sparseq.sql.parameters import literal
from sparseq.sql.parse import Dialect

if TYPE_CHECKING:
    import polars


_OPERATORS = {
    "Eq": exp.EQ,
    "NotEq": exp.NEQ,
    "Gt": exp.GT,
    "GtEq": exp.GTE,
    "Lt": exp.LT,
    "LtEq": exp.LTE,
    "And": exp.And,
    "LogicalAnd": exp.And,
    "Or": exp.Or,
    "LogicalOr": exp.Or,
    "Plus": exp.Add,
    "Minus": exp.Sub,
    "Multiply": exp.Mul,
    "Divide": exp.Div,
    "TrueDivide": exp.Div,
    "EqValidity": exp.NullSafeEQ,
    "NotEqValidity": exp.NullSafeNEQ,
}
_TYPES = {
    "Int8": "TINYINT",
    "Int16": "SMALLINT",
    "Int32": "INTEGER",
    "Int64": "BIGINT",
    "UInt8": "UTINYINT",
    "UInt16": "USMALLINT",
    "UInt32": "UINTEGER",
    "UInt64": "UBIGINT",
    "Float32": "FLOAT",
    "Float64": "DOUBLE",
    "String": "VARCHAR",
    "Boolean": "BOOLEAN",
    "Date": "DATE",
}
_CALLS = {
    "Abs": "abs",
    "Exp": "exp",
    "Floor": "floor",
    "Ceil": "ceil",
    "Sign": "sign",
    "Coalesce": "coalesce",
    "FillNull": "coalesce",
    "MinHorizontal": "least",
    "MaxHorizontal": "greatest",
    "Pow.Sqrt": "sqrt",
    "Pow.Generic": "pow",
    "Boolean.IsNan": "isnan",
    "Boolean.IsFinite": "isfinite",
    "StringExpr.StartsWith": "starts_with",
    "StringExpr.EndsWith": "ends_with",
    "StringExpr.Lowercase": "lower",
    "StringExpr.Uppercase": "upper",
    "StringExpr.LenChars": "length",
    "TemporalExpr.Year": "year",
    "TemporalExpr.Month": "month",
    "TemporalExpr.Day": "day",
    "TemporalExpr.Quarter": "quarter",
    "TemporalExpr.Hour": "hour",
    "TemporalExpr.Minute": "minute",
    "TemporalExpr.Week": "week",
    "TemporalExpr.WeekDay": "isodow",
    "TemporalExpr.OrdinalDay": "dayofyear",
}
_UNITS = {"1h": "hour", "1d": "day", "1w": "week", "1mo": "month", "1q": "quarter", "1y": "year"}
Node = Any


def to_sql(expression: polars.Expr | str) -> str:
    """Return an expression as SQL; a string is the name of a column.

    Raises:
        QueryRefused: It cannot be computed from one row at a time.

    Example:
        >>> import polars as pl
        >>> to_sql((pl.col("amount").abs() > 20) & pl.col("kind").is_in(["a", "b"]))
        "(ABS(amount) > 20) AND (kind IN ('a', 'b'))"
    """
    if isinstance(expression, str):
        return _column(expression).sql("duckdb")
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except Exception:  # Polars raises any type for Python functions
        _refuse("this expression runs Python", "use Polars' own functions")
    return _Reader().read(tree).sql("duckdb")


class _Reader:
    def read(self, node: Node) -> exp.Expr:
        if isinstance(node, str):
            _refuse(f"{node} looks at more than one row")
        ((kind, body),) = node.items()
        if kind == "Column":
            return _column(body)
        if kind == "Alias":
            return self.read(body[0])
        if _is_constant(node):
            return _literal(_evaluate(node))
        if kind == "BinaryExpr":
            return self._binary(body)
        if kind == "Cast":
            return self._cast(body)
        if kind == "Ternary":
            branch = exp.If(this=self.read(body["predicate"]), true=self.read(body["truthy"]))
            return exp.Case(ifs=[branch], default=self.read(body["falsy"]))
        if kind == "Function":
            return self._function(body)
        if kind == "Selector":
            _refuse("this selects several columns", "name one column")
        _refuse(
            f"{kind.lower()} looks at more than one row", "the aggregate is con.sum, con.count …"
        )

    def _binary(self, body: Node) -> exp.Expr:
        left, right, name = self.read(body["left"]), self.read(body["right"]), body["op"]
        if name in _OPERATORS:
            return _OPERATORS[name](this=_wrap(left), expression=_wrap(right))
        if name == "FloorDivide":
            return _call("floor", exp.Div(this=_wrap(left), expression=_wrap(right)))
        if name == "Modulus":  # in Polars and Python the remainder has the divisor's sign
            first = exp.Mod(this=_wrap(left), expression=_wrap(right))
            above = exp.Add(this=_wrap(first), expression=_wrap(right.copy()))
            return exp.Mod(this=_wrap(above), expression=_wrap(right.copy()))
        _refuse(f"the operator {name} is not available")

    def _cast(self, body: Node) -> exp.Expr:
        kind = body["dtype"]
        name = kind.get("Literal") if isinstance(kind, dict) else kind
        if not isinstance(name, str) or name not in _TYPES:
            _refuse("a cast to this type is not available", f"known: {', '.join(_TYPES)}")
        return exp.cast(self.read(body["expr"]), _TYPES[name], dialect="duckdb")

    def _function(self, body: Node) -> exp.Expr:
        name, detail = _function_name(body["function"])
        special: dict[str, Callable[[list[Node], Any], exp.Expr]] = {
            "Boolean.IsNull": lambda a, _: exp.Is(this=self.read(a[0]), expression=exp.Null()),
            "Boolean.IsNotNull": lambda a, _: exp.Not(
                this=exp.Is(this=self.read(a[0]), expression=exp.Null())
            ),
            "Boolean.Not": lambda a, _: exp.Not(this=_wrap(self.read(a[0]))),
            "Negate": lambda a, _: exp.Neg(this=_wrap(self.read(a[0]))),
            "Boolean.IsIn": self._is_in,
            "Boolean.IsBetween": self._is_between,
            "Clip": self._clip,
            "Round": lambda a, d: _call("round", self.read(a[0]), _literal(d["decimals"])),
            "Log": self._log,
            "StringExpr.Contains": self._contains,
            "TemporalExpr.Date": lambda a, _: exp.cast(self.read(a[0]), "DATE"),
            "TemporalExpr.Truncate": self._truncate,
        }
        if name in special:
            return special[name](body["input"], detail)
        if name in _CALLS:
            return _call(_CALLS[name], *(self.read(a) for a in body["input"]))
        _refuse(
            f"{name.split('.')[-1].lower()} looks at more than one row, or is not available",
            "docs/polars.md lists what is",
        )

    def _is_in(self, args: list[Node], _: Any) -> exp.Expr:
        if not _is_constant(args[1]):
            _refuse("is_in needs a list of constants")
        values = _evaluate(args[1])
        return exp.In(this=self.read(args[0]), expressions=[_literal(v) for v in values])

    def _is_between(self, args: list[Node], detail: Any) -> exp.Expr:
        closed = detail["closed"]
        low = exp.GTE if closed in ("Both", "Left") else exp.GT
        high = exp.LTE if closed in ("Both", "Right") else exp.LT
        value, first, last = (self.read(a) for a in args)
        return exp.and_(
            low(this=_wrap(value), expression=first),
            high(this=_wrap(value.copy()), expression=last),
        )

    def _clip(self, args: list[Node], detail: Any) -> exp.Expr:
        """Return clip as a CASE: GREATEST and LEAST ignore NULL, where Polars keeps it missing."""
        value, *limits = (self.read(a) for a in args)
        clipped = value
        if detail["has_min"]:
            clipped = _call("greatest", clipped, limits.pop(0))
        if detail["has_max"]:
            clipped = _call("least", clipped, limits.pop(0))
        present = exp.Not(this=exp.Is(this=_wrap(value.copy()), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=present, true=clipped)])

    def _log(self, args: list[Node], _: Any) -> exp.Expr:
        natural = _call("ln", self.read(args[0]))
        base = _evaluate(args[1]) if _is_constant(args[1]) else 0
        if base == math.e:
            return natural
        return exp.Div(this=natural, expression=_call("ln", self.read(args[1])))

    def _contains(self, args: list[Node], detail: Any) -> exp.Expr:
        pattern = _evaluate(args[1]) if _is_constant(args[1]) else None
        if not isinstance(pattern, str):
            _refuse("str.contains needs a constant")
        if not detail["literal"] and any(c in pattern for c in r".^$*+?{}[]\|()"):
            _refuse("regular expressions are not answered", "str.contains(text, literal=True)")
        return _call("contains", self.read(args[0]), _literal(pattern))

    def _truncate(self, args: list[Node], _: Any) -> exp.Expr:
        every = _evaluate(args[1]) if _is_constant(args[1]) else ""
        if every not in _UNITS:
            _refuse(f"dt.truncate({every!r}) is not available", f"known: {', '.join(_UNITS)}")
        return _call("date_trunc", _literal(_UNITS[every]), self.read(args[0]))


_OVER_ROWS = {
    "Sum": "SUM",
    "Mean": "AVG",
    "Median": "MEDIAN",
    "Count": "COUNT",
    "Min": "MIN",
    "Max": "MAX",
}
_SPREADS = {
    ("Std", 1): "STDDEV",
    ("Std", 0): "STDDEV_POP",
    ("Var", 1): "VARIANCE",
    ("Var", 0): "VAR_POP",
}


def aggregate_sql(expression: polars.Expr, user: str) -> str:
    """Return a Polars aggregate, or arithmetic with aggregates, as SQL.

    Args:
        expression: An expression of `len`, `sum`, `mean`, `std`, `var`, `median`, `quantile`,
            `count`, `min`, `max`, `corr`, each optionally over `filter(…)`, and `n_unique` of the
            user.
        user: The user's column.

    Raises:
        QueryRefused: It contains something else.

    Example:
        >>> import polars as pl
        >>> spent = pl.col("amount").filter(pl.col("gift")).sum()
        >>> aggregate_sql(spent / pl.col("who").n_unique(), "who")
        'SUM(amount) FILTER(WHERE gift) / COUNT(DISTINCT who)'
    """
    return _OverRows(user).read(json.loads(expression.meta.serialize(format="json"))).sql("duckdb")


class _OverRows(_Reader):
    """Reads expressions over all rows of a group."""

    def __init__(self, user: str) -> None:
        self._user = user

    def read(self, node: Node) -> exp.Expr:
        if node == "Len":
            return exp.Count(this=exp.Star())
        kind, body = next(iter(node.items())) if isinstance(node, dict) else ("", {})
        if kind == "Agg":
            return self._aggregate(*next(iter(body.items())))
        if kind == "Function":
            name, detail = _function_name(body["function"])
            if name == "Quantile":
                return self._over("QUANTILE", *body["input"])
            if name == "Correlation" and detail.get("method") == "Pearson":
                return self._over("CORR", *body["input"])
        if kind == "Column":
            _refuse(f"{body} is of one row", "aggregate it: pl.col(…).sum(), or group by it")
        return super().read(node)

    def _aggregate(self, name: str, body: Node) -> exp.Expr:
        if isinstance(body, list) and (name, body[1]) in _SPREADS:
            return self._over(_SPREADS[name, body[1]], body[0])
        inside = body.get("input", body)
        if name == "Count" and body.get("include_nulls"):
            return exp.Count(this=exp.Star())
        if name in _OVER_ROWS:
            return self._over(_OVER_ROWS[name], inside)
        if name == "NUnique" and inside == {"Column": self._user}:
            return exp.Count(this=exp.Distinct(expressions=[_column(self._user)]))
        _refuse(
            f"{name.lower()} is not answered",
            f"len, sum, mean, std, var, median, quantile, count, min, max, corr are, and n_unique "
            f"of {self._user}",
        )

    def _over(self, name: str, value: Node, *others: Node) -> exp.Expr:
        """Return an aggregate over the rows that `filter` keeps."""
        condition = value["Filter"]["by"] if isinstance(value, dict) and "Filter" in value else None
        value = value["Filter"]["input"] if condition is not None else value
        parts = ", ".join(_Reader().read(part).sql("duckdb") for part in (value, *others))
        only = (
            ""
            if condition is None
            else f" FILTER (WHERE {_Reader().read(condition).sql('duckdb')})"
        )
        return sqlglot.parse_one(f"{name}({parts}){only}", dialect=Dialect)


def _function_name(function: Any) -> tuple[str, Any]:
    """Return the dotted name of a function and its settings."""
    if isinstance(function, str):
        return function, {}
    ((family, detail),) = function.items()
    if isinstance(detail, str):
        return f"{family}.{detail}", {}
    if family in ("Boolean", "StringExpr", "TemporalExpr", "Pow"):
        ((name, settings),) = detail.items()
        return f"{family}.{name}", settings
    return family, detail


def _is_constant(node: Node) -> bool:
    """Tell whether a tree has no column, but only literals, casts and operators."""
    if not isinstance(node, dict):
        return False
    ((kind, body),) = node.items()
    if kind == "Literal":
        return True
    if kind == "Alias":
        return _is_constant(body[0])
    if kind == "Cast":
        return _is_constant(body["expr"])
    if kind == "BinaryExpr":
        return _is_constant(body["left"]) and _is_constant(body["right"])
    return False


def _evaluate(node: Node) -> Any:
    import polars as pl

    text = io.BytesIO(json.dumps(node).encode())
    try:
        value = pl.select(pl.Expr.deserialize(text, format="json")).to_series()
    except pl.exceptions.PolarsError:
        _refuse("a constant in this expression can't be read", "write it as a plain number")
    return value.to_list()[0] if len(value) == 1 else value.to_list()


def _column(name: str) -> exp.Column:
    try:
        plain = sqlglot.parse_one(name, dialect="duckdb")
    except SqlglotError:
        plain = None
    is_name = isinstance(plain, exp.Column) and plain.name == name
    return exp.column(exp.to_identifier(name, quoted=not is_name))


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, dt.date | Decimal):
        return sqlglot.parse_one(literal(value), dialect="duckdb")
    if isinstance(value, float) and not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
    if value is None or isinstance(value, (bool, int, float, str)):
        return exp.convert(value)
    _refuse(f"a constant of type {type(value).__name__} is not available")


def _call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.func(name, *args, dialect="duckdb")


def _wrap(e: exp.Expr) -> exp.Expr:
    """Return an operand, in parentheses if it has an operator."""
    return exp.paren(e, copy=False) if isinstance(e, exp.Binary | exp.Not | exp.In) else e


def _refuse(message: str, hint: str = "") -> NoReturn:
    raise QueryRefused(message, hint)
