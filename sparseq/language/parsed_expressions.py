"""Parsed expressions, read: spellings, operands, which overload fits, constants and conditions."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.functions import Function
from sparseq.language.types import Family, Type

# -- the choice of an overload: which terms fit a function, how far off, and compared as what ------


def is_text_constant(t: Term) -> bool:
    """Tell whether a term is a text that was written out."""
    return t.is_written and t.type.family is Family.TEXT


def cost_of(term: Term, family: Family) -> int | None:
    """Return how far a term is from what an argument must be; None: it can't be."""
    have = term.type.family
    if have is family:
        return 0
    if have is Family.NULL:
        return 1
    if is_text_constant(term):
        return 4
    numbers = (Family.INTEGER, Family.DECIMAL, Family.DOUBLE)
    if have in numbers and family in numbers[numbers.index(have) :]:
        return numbers.index(family) - numbers.index(have)
    if have is Family.DATE and family is Family.TIMESTAMP:
        return 1
    if family is Family.BOOLEAN and (have in numbers or have is Family.TEXT):
        return 3
    return None


def distance(terms: Sequence[Term], f: Function) -> int | None:
    """Return how far terms are from what a function takes; None: it can't take them."""
    if len(terms) != len(f.takes):
        return None
    total = 0
    for term, family in zip(terms, f.takes, strict=True):
        cost = cost_of(term, family)
        if cost is None:
            return None
        total += cost
    return total


def comparison_type(a: Term, b: Term) -> Type | None:
    """Return the type in which two terms are compared; None: they can't be."""
    for one, other in ((a, b), (b, a)):
        if is_text_constant(one) and other.type.family is not Family.TEXT:
            return T.TEXT if other.type.family is Family.NULL else other.type
    for one, other in ((a, b), (b, a)):
        if one.type.family is Family.TEXT and other.type.family is not Family.TEXT:
            return T.TEXT if other.type.family is Family.NULL else other.type
    for one, other in ((a, b), (b, a)):
        if one.type.family is Family.DATE and _is_midnight(other):
            return T.DATE
    return T.common([a.type, b.type])


def _is_midnight(term: Term) -> bool:
    """Tell whether a term is the first moment of a day, written out."""
    at = term.value
    return isinstance(at, dt.datetime) and at.time() == dt.time(0)


def hint_of(name: str, terms: Sequence[Term]) -> str:
    """Return what to do where no function of a name takes some terms."""
    families = {t.type.family for t in terms}
    if name == "-" and families <= {Family.DATE, Family.TIMESTAMP}:
        return "use date_diff('hour', a, b)"
    return "write CAST(x AS type) where the types differ"


# -- the operands of an expression -----------------------------------------------------------------


def parts(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield what an expression is made of, types left out."""
    yield from (x for x in e.iter_expressions() if not isinstance(x, exp.DataType))


def operands(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield what an interval is made of; all of it but conditions and orders."""
    if isinstance(e, exp.Window | exp.Filter | exp.Paren):
        yield from operands(e.this)
    elif isinstance(e, exp.AggFunc):
        yield from [bare(e.this)] if isinstance(e.this, exp.Expr) else []
    else:
        yield from (bare(x.args["true"] if isinstance(x, exp.If) else x) for x in parts(e))


def bare(e: exp.Expr) -> exp.Expr:
    """Return an expression without the parentheses around it."""
    return bare(e.this) if isinstance(e, exp.Paren) else e


def factor(e: exp.Expr) -> float | None:
    """Return a number that is written out, by which something is multiplied or divided.

    Example:
        >>> from sqlglot import parse_one
        >>> factor(parse_one("n * (-1.5)")), factor(parse_one("n / m")), factor(parse_one("n / 0"))
        (-1.5, None, None)
    """
    if isinstance(e, exp.Mul):
        return next((x for x in map(_number, (e.left, e.right)) if x is not None), None)
    return (_number(e.right) or None) if isinstance(e, exp.Div | exp.IntDiv) else None


def rising_in(e: exp.Expr) -> exp.Expr | None:
    """Return what a monotone function is of; None: it falls, as a logarithm to a base below 1 does.

    Example:
        >>> from sqlglot import parse_one
        >>> [str(rising_in(parse_one(f"{x}(2, n)", dialect="duckdb"))) for x in ("log", "round")]
        ['n', '2']
    """
    if not isinstance(e, exp.Log) or e.expression is None:
        return e.this if isinstance(e.this, exp.Expr) else None
    base = _number(e.this)
    return e.expression if base is not None and base > 1 else None


def _number(e: exp.Expr) -> float | None:
    e = bare(e)
    if isinstance(e, exp.Neg):
        found = _number(e.this)
        return None if found is None else -found
    written = isinstance(e, exp.Literal) and re.fullmatch(r"\d*\.?\d+", e.this)
    return float(e.this) if written else None


def own(e: exp.Expr) -> exp.Expr:
    """Return an expression to be put somewhere: a copy, if it stands somewhere already."""
    return e if e.parent is None else e.copy()


def with_this(e: exp.Expr, this: exp.Expr, of: exp.Expr | None = None) -> exp.Expr:
    """Return the same operation of something else.

    Args:
        e: The operation.
        this: What it is to be of.
        of: The operand in whose place it comes; by default the first.

    Example:
        >>> from sqlglot import exp, parse_one
        >>> with_this(parse_one("round(a * b, 2)"), exp.column("c")).sql()
        'ROUND(c, 2)'
    """

    def copied(value: Any) -> Any:
        if isinstance(value, list):
            return [copied(x) for x in value]
        return value.copy() if isinstance(value, exp.Expr) else value

    of = e.this if of is None else of
    place = next(name for name, value in e.args.items() if value is of)
    others = {name: copied(value) for name, value in e.args.items() if name != place}
    return type(e)(**{place: own(this)}, **others)


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the parts of a condition that must all hold."""
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]


# -- spellings of operators, functions and types: sqlglot's names beside ours ----------------------

CASTS = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "UTINYINT": "UTINYINT",
    "USMALLINT": "USMALLINT",
    "UINT": "UINTEGER",
    "UBIGINT": "UBIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "TEXT": "VARCHAR",
    "VARCHAR": "VARCHAR",
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP",
    "UUID": "UUID",
}
"""Types to cast to: sqlglot's names, and DuckDB's."""
BINARY: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.And: "and",
    exp.Or: "or",
    exp.Pow: "pow",
    exp.StartsWith: "starts_with",
    exp.EndsWith: "ends_with",
    exp.Contains: "contains",
    exp.Left: "left",
    exp.Right: "right",
    exp.Levenshtein: "levenshtein",
}
UNARY: dict[type, str] = {
    exp.Neg: "neg",
    exp.Not: "not",
    exp.Abs: "abs",
    exp.Sign: "sign",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Sqrt: "sqrt",
    exp.Ln: "ln",
    exp.Exp: "exp",
    exp.IsNan: "isnan",
    exp.IsInf: "isinf",
    exp.Lower: "lower",
    exp.Upper: "upper",
    exp.Length: "length",
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.Quarter: "quarter",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow",
    exp.DayOfYear: "doy",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.LastDay: "last_day",
    exp.Dayname: "dayname",
    exp.Monthname: "monthname",
    exp.Reverse: "reverse",
    exp.MD5: "md5",
    exp.Ascii: "ascii",
    exp.TimeToUnix: "epoch",
}
NAMED = {
    "isodow": "isodow",
    "isfinite": "isfinite",
    "weekday": "dow",
    "json_valid": "json_valid",
    "json_array_length": "json_array_length",
    "json_exists": "json_exists",
}
LISTED: dict[type, tuple[str, tuple[str, ...]]] = {
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.JSONExtractScalar: ("json_extract_string", ("this", "expression")),
    exp.JSONExtract: ("json_extract", ("this", "expression")),
    exp.JSONType: ("json_type", ("this", "expression")),
}
"""Functions with arguments that sqlglot has names for."""
COMPARED: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
PARTS = {"DAYOFWEEK": "dow", "DAYOFYEAR": "doy", "WEEKOFYEAR": "week", "WEEKDAY": "dow"}


# -- constants of a query: what is one, and how a value that DuckDB gave is written again ----------


def is_constant(e: exp.Expr) -> bool:
    """Tell whether an expression has the same value on every row."""
    return e.find(exp.Column, exp.Subquery, exp.Select, exp.Window, exp.AggFunc) is None


def constant_sql(value: object, type: str) -> exp.Expr:
    """Return a value that DuckDB gave, as an expression that DuckDB reads."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool | int | str):
        return exp.convert(value)
    return exp.cast(exp.Literal.string(str(value)), type)


def constants(values: Sequence[object], type: str) -> str:
    """Return values that DuckDB gave as a list of a type, in DuckDB's SQL.

    Example:
        >>> constants(["it's", None, "b"], "VARCHAR")
        "['it''s', NULL, 'b']::VARCHAR[]"
    """

    def written(value: object) -> str:
        if isinstance(value, str):  # the rule without sqlglot's detour: there can be very many
            return "'" + value.replace("'", "''") + "'"
        return constant_sql(value, type).sql("duckdb")

    return f"[{', '.join(map(written, values))}]::{type}[]"


# -- the sense of one condition of a WHERE: which values an expression has, or which limits --------

_OPERATORS: dict[type, str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
Limit = tuple[str, exp.Expr]


def listed_by(condition: exp.Expr, key: exp.Expr) -> list[exp.Expr] | None:
    """Return the values that a condition lists for an expression; None: it doesn't."""
    if isinstance(condition, exp.Paren):
        return listed_by(condition.this, key)
    if isinstance(condition, exp.In) and _same(condition.this, key):
        return list(condition.expressions) if not condition.args.get("query") else None
    if isinstance(condition, exp.EQ):
        if _same(condition.left, key):
            return [condition.right]
        if _same(condition.right, key):
            return [condition.left]
    if isinstance(condition, exp.Or):
        left, right = (listed_by(p, key) for p in (condition.left, condition.right))
        return left + right if left is not None and right is not None else None
    return None


def limits_of(condition: exp.Expr, key: exp.Expr) -> list[Limit]:
    """Return what a condition says about an expression: (operator, limit)."""
    if isinstance(condition, exp.Between) and _same(condition.this, key):
        return [(">=", condition.args["low"]), ("<=", condition.args["high"])]
    if isinstance(condition, exp.EQ) and _same(condition.left, key):
        return [(">=", condition.right), ("<=", condition.right)]
    if not isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return []
    operator = _OPERATORS[type(condition)]
    if _same(condition.left, key):
        return [(operator, condition.right)]
    if _same(condition.right, key):
        return [(_FLIPPED[operator], condition.left)]
    return []


def _same(a: exp.Expr, b: exp.Expr) -> bool:
    while isinstance(a, exp.Paren):
        a = a.this
    return a.sql("duckdb") == b.sql("duckdb")


def sees_only(select: exp.Select, alias: str) -> bool:
    """Tell whether rows that lack a joined table count for nothing.

    Only columns of it are counted or added up, and the WHERE doesn't look at them.
    """
    where = select.args.get("where")
    looks = where is not None and any(c.table == alias for c in where.find_all(exp.Column))
    return not looks and all(_of_column(a, alias) for a in select.find_all(exp.AggFunc))


def _of_column(aggregate: exp.Expr, alias: str) -> bool:
    """Tell whether an aggregate is of a column of a table, and skips NULL."""
    inside = aggregate.this
    if isinstance(inside, exp.Distinct) and len(inside.expressions) == 1:
        inside = inside.expressions[0]
    plain = isinstance(inside, exp.Column) and inside.table == alias
    return plain and isinstance(aggregate, exp.Count | exp.Sum | exp.Avg)
