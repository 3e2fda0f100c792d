"""Parsed expressions, read: spellings, operands, which overload fits, constants and conditions."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.functions import Function, overloads
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


ENDS_FUNCTION = "sparseq_ends"
"""The function that DuckDB calls for `EndsOf`."""


class EndsOf(exp.Expression, exp.Func):
    """The interval of a function (`this`, its name), by the pairs and numbers that it is of."""

    arg_types: ClassVar = {"this": True, "expressions": True}
    is_var_len_args = True


class Pair(exp.Expression, exp.Func):
    """A low end (`this`) and a high end (`expression`) as one value."""

    arg_types: ClassVar = {"this": True, "expression": True}


class EndOf(exp.Expression, exp.Func):
    """One end of a pair (`this`): 'low' or 'high' (`expression`)."""

    arg_types: ClassVar = {"this": True, "expression": True}


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
OPERATORS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.And: "and",
    exp.Or: "or",
    exp.Neg: "neg",
    exp.Not: "not",
}
_OTHER_NAMES: dict[type, str] = {
    exp.StrPosition: "strpos",
    exp.DateFromParts: "make_date",
    exp.DayOfMonth: "day",
    exp.WeekOfYear: "week",
    exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow",
    exp.DayOfYear: "doy",
    exp.TimeToUnix: "epoch",
    exp.JSONExtractScalar: "json_extract_string",
    exp.JSONExtract: "json_extract",
}
"""Functions that sqlglot has another name for than the table."""
_WRITTEN = {"isodow": "isodow", "weekday": "dow"}
"""Names that a query may write, and sqlglot doesn't know, beside those of the table."""


@cache
def function_named(name: str) -> str:
    """Return the table's name of a function that sqlglot doesn't know; "": it isn't there."""
    forms = (f.form for f in overloads(name))
    return name if any(form.startswith(f"{name}(") for form in forms) else _WRITTEN.get(name, "")


def function_of(kind: type[exp.Expr]) -> str:
    """Return the table's name of the function that a kind of expression calls; "": none.

    Example:
        >>> function_of(exp.Ceil), function_of(exp.DayOfYear), function_of(exp.Sum)
        ('ceil', 'doy', '')
    """
    if kind not in _NAMES:
        _NAMES[kind] = _name_of(kind)
    return _NAMES[kind]


_NAMES = OPERATORS | _OTHER_NAMES  # and what was asked for


def _name_of(kind: type[exp.Expr]) -> str:
    if not issubclass(kind, exp.Func) or issubclass(kind, exp.AggFunc | exp.Anonymous):
        return ""
    return next((n for n in map(str.lower, kind.sql_names()) if overloads(n)), "")


def call_of(e: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """Return the table's function that an expression calls, and what it is of; None: none.

    Example:
        >>> from sqlglot import parse_one
        >>> name, parts = call_of(parse_one("round(x, 2)"))
        >>> name, [p.sql() for p in parts]
        ('round', ['x', '2'])
    """
    match e:
        case exp.Anonymous():
            name, parts = function_named(e.name.lower()), list(e.expressions)
        case exp.Log():
            return _logarithm(e)
        case exp.Greatest() | exp.Least():
            return type(e).sql_name().lower(), [e.this, *e.expressions]
        case exp.Trim():
            side = {"LEADING": "ltrim", "TRAILING": "rtrim"}
            name = side.get((e.args.get("position") or "").upper(), "trim")
            parts = [x for x in (e.this, e.expression) if x is not None]
        case _:
            name, kind = function_of(type(e)), type(e)
            values = (e.args.get(place) for place in kind.arg_types) if name else ()
            parts = [x for x in values if isinstance(x, exp.Expr)]
    return (name, parts) if name else None


def _logarithm(e: exp.Log) -> tuple[str, list[exp.Expr]]:
    if e.expression is None:
        return "log", [e.this]
    if isinstance(e.this, exp.Literal) and e.this.this in ("2", "10"):
        return "log" if e.this.this == "10" else "log2", [e.expression]
    return "log", [e.this, e.expression]


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


def too_few(e: exp.Expr) -> str | None:
    """Return the name of a function that is called with too few arguments; None: it is not.

    >>> from sqlglot import parse_one
    >>> too_few(parse_one("count()")), too_few(parse_one("count(*)"))
    ('count', None)
    """
    if not isinstance(e, exp.Func):
        return None
    needed = [name for name, must in e.arg_types.items() if must]
    needed += ["this"] * isinstance(e, exp.Count | exp.Date)
    needed += ["quantile"] * isinstance(e, exp.ApproxQuantile)
    needed += ["expression"] * isinstance(e, exp.RegrCount)
    needed += ["replacement"] * isinstance(e, exp.RegexpReplace)
    needed += ["min_value", "max_value", "num_buckets"] * isinstance(e, exp.WidthBucket)
    few = any(e.args.get(name) is None for name in needed)
    single = isinstance(e.args.get("expressions"), exp.Expr)  # sqlglot took one for a list
    return e.sql_name().lower() if few or single else None


def listed_of(e: exp.Expr) -> exp.Expr | None:
    """Return x = ANY(ARRAY[1, 2]) as IN, x <> ALL(ARRAY[1, 2]) as NOT IN; None: it is neither.

    >>> from sqlglot import parse_one
    >>> listed_of(parse_one("x = ANY(ARRAY[1, 2])", dialect="duckdb")).sql()
    'x IN (1, 2)'
    """
    side = e.expression if isinstance(e, exp.EQ | exp.NEQ) else None
    array = None
    if isinstance(e, exp.EQ) and isinstance(side, exp.Any):
        array = side.this
    elif isinstance(e, exp.NEQ) and isinstance(side, exp.Anonymous) and side.name.lower() == "all":
        array = side.expressions[0] if side.expressions else None
    while isinstance(array, exp.Paren | exp.Cast):
        array = array.this
    if not isinstance(array, exp.Array):
        return None
    nobody = exp.EQ(this=exp.Literal.number(0), expression=exp.Literal.number(1))
    found = exp.In(this=e.this, expressions=array.expressions) if array.expressions else nobody
    return found if isinstance(e, exp.EQ) else exp.Not(this=found)


# -- constants of a query: what is one, and how a value that DuckDB gave is written again ----------


def is_constant(e: exp.Expr) -> bool:
    """Tell whether an expression has the same value on every row."""
    return e.find(exp.Column, exp.Subquery, exp.Select, exp.Window, exp.AggFunc) is None


_PATTERNS = {
    "YYYY": "%Y",
    "MM": "%m",
    "DD": "%d",
    "HH24": "%H",
    "HH12": "%I",
    "HH": "%I",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "MS": "%f",
    "AM": "%p",
    "PM": "%p",
}
_PATTERN = re.compile(r'"([^"]*)"|(' + "|".join(_PATTERNS) + r")|([^A-Za-z])", re.IGNORECASE)


def moment_of(e: exp.Expr) -> exp.Expr | None:
    """Return TO_TIMESTAMP and TO_DATE of a written text and a pattern as a constant; None: neither.

    Raises:
        QueryRefused: The text is not as the pattern says, or nobody knows the pattern.

    >>> from sqlglot import parse_one
    >>> moment_of(parse_one("TO_DATE('31.01.2024', 'DD.MM.YYYY')", dialect="duckdb")).sql()
    "CAST('2024-01-31' AS DATE)"
    """
    is_date = isinstance(e, exp.Anonymous) and e.name.lower() == "to_date"
    if not is_date and not isinstance(e, exp.UnixToTime):
        return None
    parts = e.expressions if is_date else [e.this, e.args.get("scale")]
    written = [x.name for x in parts if isinstance(x, exp.Literal) and x.is_string]
    if len(written) != 2 or len(parts) != 2:
        return None
    text, pattern = written
    if _PATTERN.sub("", pattern):
        known = ", ".join(_PATTERNS)
        raise QueryRefused(f"the pattern {pattern[:40]!r} is not known", f"it has {known}")
    format = _PATTERN.sub(
        lambda m: _PATTERNS[m[2].upper()] if m[2] else (m[1] or m[3] or "").replace("%", "%%"),
        pattern,
    )
    try:
        moment = dt.datetime.strptime(text, format)
    except (ValueError, re.error):
        raise QueryRefused(f"{text[:40]!r} is not as {pattern[:40]!r} says") from None
    if is_date:
        return exp.cast(exp.Literal.string(moment.date().isoformat()), "DATE")
    return exp.cast(exp.Literal.string(moment.isoformat(" ")), "TIMESTAMP")


def plainer(e: exp.Expr) -> exp.Expr | None:
    """Return a list or a moment that PostgreSQL writes in its own way; None: it is neither."""
    return moment_of(e) or listed_of(e)


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
