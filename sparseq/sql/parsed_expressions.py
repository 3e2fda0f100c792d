"""Parsed expressions, read: spellings, operands, which overload fits, constants and conditions."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language import aggregate_functions
from sparseq.language import types as T
from sparseq.language.expression_tree import Term
from sparseq.language.functions import Function, overloads
from sparseq.language.types import Family, Type

# -- aggregates and window functions ---------------------------------------------------------------

WINDOWED = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.Lag,
    exp.Lead,
    exp.FirstValue,
    exp.LastValue,
    exp.NthValue,
    exp.Ntile,
)
"""Functions that a window alone can have."""
BINNED = frozenset(["histogram", "median", "quantile", "quantile_cont"])
"""Aggregates over declared bins; `sparseq.sql.parse.Dialect` reads them with all arguments."""


_AGGREGATE_NAMES: dict[type, str] = {
    exp.CountIf: "countif",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Stddev: "stddev_samp",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}
"""Names in the table of aggregates, where sqlglot has others."""


def aggregate_name(e: exp.Expr) -> str:
    """Return what an aggregate or window function is called in the table; "": it is none.

    Example:
        >>> from sqlglot import parse_one
        >>> aggregate_name(parse_one("count_if(x)")), aggregate_name(parse_one("x + 1"))
        ('countif', '')
    """
    if not isinstance(e, exp.Func) or isinstance(e, exp.Anonymous):
        return ""
    name = _AGGREGATE_NAMES.get(type(e)) or e.sql_name().lower()
    return name if aggregate_functions.overloads(name) else ""


def chooses(e: exp.Expr) -> bool:
    """Tell whether the value of an expression is one of those of its `this`, or NULL."""
    if isinstance(e, exp.Window | exp.Filter | exp.IgnoreNulls):
        return True
    return any(f.chooses for f in aggregate_functions.overloads(aggregate_name(e)))


def counts(e: exp.Expr) -> bool:
    """Tell whether an expression is never below 0, and of some rows never NULL, as a count is."""
    return any(f.counts for f in aggregate_functions.overloads(aggregate_name(e)))


def is_binned(e: exp.Expr) -> bool:
    """Tell whether an expression is one of the aggregates that are read by their names."""
    return isinstance(e, exp.Anonymous) and e.name.lower() in BINNED


def is_aggregate(e: exp.Expr) -> bool:
    """Tell whether an expression is an aggregate, not the function of a window."""
    around = e.parent if isinstance(e.parent, exp.Filter) and e.parent.this is e else e
    if isinstance(around.parent, exp.Window) and around.parent.this is around:
        return False
    known = isinstance(e, exp.AggFunc | exp.Filter) and not isinstance(e, WINDOWED)
    return known or is_binned(e)


def aggregates_in(e: exp.Expr) -> list[exp.Expr]:
    """Return the outermost aggregates in an expression, those in subqueries left out.

    Example:
        >>> from sqlglot import parse_one
        >>> [a.sql() for a in aggregates_in(parse_one("1 + sum(a) - sum(max(b)) OVER ()"))]
        ['SUM(a)', 'MAX(b)']
    """
    if isinstance(e, exp.Select | exp.Subquery):
        return []
    if is_aggregate(e):
        return [e]
    return [a for child in e.iter_expressions() for a in aggregates_in(child)]


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
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "xor",
    exp.BitwiseNot: "~",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_OTHER_NAMES: dict[type, str] = {
    exp.StrPosition: "strpos",
    exp.DateFromParts: "make_date",
    exp.TimestampFromParts: "make_timestamp",
    exp.DayOfMonth: "day",
    exp.WeekOfYear: "week",
    exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow",
    exp.DayOfYear: "doy",
    exp.TimeToUnix: "epoch",
    exp.JSONExtractScalar: "json_extract_string",
    exp.JSONExtract: "json_extract",
    exp.ArrayContains: "contains",
}
"""Functions that sqlglot has another name for than the table."""
_WRITTEN = {
    "isodow": "isodow",
    "weekday": "dow",
    "isoyear": "isoyear",
    "decade": "decade",
    "century": "century",
    "millennium": "millennium",
    "yearweek": "yearweek",
}
"""Names that a query may write, and sqlglot doesn't know, beside those of the table."""


@cache
def find_function(name: str) -> str:
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
            name, parts = find_function(e.name.lower()), list(e.expressions)
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
            values = [e.args.get(place) for place in kind.arg_types] if name else []
            listed = [v if isinstance(v, list) else [v] for v in values]
            parts = [x for some in listed for x in some if isinstance(x, exp.Expr)]
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


def respelt(e: exp.Expr) -> exp.Expr:
    """Return a node in the one way of writing it that is read, or as it is.

    FETCH FIRST, any_value(x), date_format(x, form), list_contains([…], x), pi(), date(x),
    DATEADD(unit, number, time), timezone(zone, time), lengths of time, stretches of them, ANY of
    rows, ANY and ALL of a list, a value where it IS NULL, VALUES and series in FROM, and rows of
    values; rows are equal where all their values are, NULL being one, as in DuckDB. What is inside
    must have been respelt before.

    Raises:
        QueryRefused: Stretches of time begin where time_bucket's don't.

    Example:
        >>> from sqlglot import parse_one
        >>> respelt(parse_one("x = ANY ([1, 2])", dialect="duckdb")).sql("duckdb")
        'x IN (1, 2)'
    """
    match e:
        case exp.IgnoreNulls() if isinstance(e.this.find(exp.AggFunc), exp.AnyValue):
            assert isinstance(e.this, exp.Expr)
            return e.this
        case exp.ArrayContains() if _is_listed(e.this):
            return exp.In(this=e.expression, expressions=e.this.expressions)
        case exp.Anonymous() if e.name.lower() == "date_format" and len(e.expressions) == 2:
            form = e.expressions[1]
            if isinstance(form, exp.Literal) and form.is_string:
                return exp.TimeToStr(this=e.expressions[0], format=_strftime(form))
        case exp.Pi():
            return exp.Literal.number(repr(math.pi))
        case exp.Fetch():
            return exp.Limit(expression=e.args.get("count") or exp.Literal.number(1))
        case exp.Cast() if e.to.is_type(*exp.DataType.TEXT_TYPES) and e.this.is_string:
            return exp.Literal.string(e.this.name)  # a driver says each parameter's type
        case exp.Date() | exp.TsOrDsToDate() if not any(
            e.args.get(a) for a in ("zone", "expressions")
        ):
            return exp.cast(e.this, "DATE") if e.this is not None else e
        case exp.Anonymous() if e.name.lower() == "timezone" and len(e.expressions) == 2:
            return exp.AtTimeZone(this=e.expressions[1], zone=e.expressions[0])
        case exp.Anonymous() if e.name.lower() == "dateadd" and len(e.expressions) == 3:
            unit, number, time = e.expressions
            return exp.DateAdd(this=time, expression=number, unit=exp.Var(this=unit.name.upper()))
        case exp.Anonymous() if e.name.lower() == "to_date" and len(e.expressions) == 2:
            moment = exp.UnixToTime(this=e.expressions[0], scale=e.expressions[1])
            return exp.cast(moment, "DATE")
        case exp.ToDays():
            return exp.Interval(this=e.this, unit=exp.Var(this="DAY"))
        case exp.Anonymous() if e.name.lower() in _LENGTHS and len(e.expressions) == 1:
            return exp.Interval(this=e.expressions[0], unit=exp.Var(this=e.name[3:].upper()))
        case exp.Mul() if isinstance(e.this, exp.Interval) != isinstance(
            e.expression, exp.Interval
        ):
            length, number = (e.this, e.expression)[
                :: 1 if isinstance(e.this, exp.Interval) else -1
            ]
            if length.this.name == "1":  # 3 * INTERVAL '1 day'
                return exp.Interval(this=exp.Paren(this=number), unit=length.args.get("unit"))
        case exp.Add() if isinstance(e.this, _CUT) or isinstance(e.expression, _CUT):
            return _stretches(e.this, e.expression) or _stretches(e.expression, e.this) or e
        case exp.DateBin() if e.args.get("unit") is not None:
            return _from_usual_start(e)
        case exp.If() if isinstance(e.this, exp.Is) and _is_null_there(e):
            e.set("true", exp.null())
        case exp.Values() if isinstance(e.parent, exp.From | exp.Join):
            rows = [r.expressions if isinstance(r, exp.Tuple) else [r] for r in e.expressions]
            return _rows_of_constants(e, [[v.unnest() for v in row] for row in rows], "col{}")
        case exp.Table() if isinstance(e.this, exp.GenerateSeries):
            series = e.this
            name = "range" if series.args.get("is_end_exclusive") else "generate_series"
            return _rows_of_constants(e, [[value] for value in _series(series)], name)
        case exp.Group():
            keys = [k.expressions if isinstance(k, exp.Tuple) else [k] for k in e.expressions]
            e.set("expressions", [k for some in keys for k in some])
        case exp.In() if isinstance(e.this, exp.Tuple) and not e.args.get("query"):
            same = [_same_row(e.this, row) for row in e.expressions]
            return exp.or_(*same) if all(same) else e
        case exp.EQ() if (inner := _any_of_rows(e.expression)) is not None:
            return exp.In(this=e.this, query=inner)
        case exp.EQ() | exp.NEQ() if (one := _same_row(e.this, e.expression)) is not None:
            return one if isinstance(e, exp.EQ) else exp.Not(this=exp.Paren(this=one))
        case _ if type(e) in COMPARED and (listed := _listed_in(e.expression)) is not None:
            return _compared_with(e, *listed)
    return e


def _any_of_rows(e: exp.Expr) -> exp.Subquery | None:
    """Return the subquery of ANY (SELECT …), as IN has it; None: it is something else."""
    inner = e.this if isinstance(e, exp.Any) else None
    if isinstance(inner, exp.Select):
        return exp.Subquery(this=inner)
    return inner if isinstance(inner, exp.Subquery) else None


def _is_listed(e: exp.Expr) -> bool:
    """Tell whether an expression is a list of constants, none of which is NULL."""
    values = e.expressions if isinstance(e, exp.Array) else []
    return bool(values) and all(isinstance(v, exp.Literal) for v in values)


_MYSQL = {"i": "M", "M": "B", "s": "S", "W": "A", "h": "I", "e": "-d", "c": "-m", "k": "-H"}
"""Codes of MySQL's date_format that are others in strftime."""


def _strftime(form: exp.Literal) -> exp.Literal:
    """Return a format of date_format as one of strftime.

    >>> _strftime(exp.Literal.string("%Y-%m %M %i")).this
    '%Y-%m %B %M'
    """
    return exp.Literal.string(re.sub("%(.)", lambda c: "%" + _MYSQL.get(c[1], c[1]), form.this))


_CUT = (exp.DateTrunc, exp.TimestampTrunc)
_FINER = {"DAY": ("HOUR", 24), "HOUR": ("MINUTE", 60), "MINUTE": ("SECOND", 60)}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_USUAL_START = dt.datetime(2000, 1, 3)
"""Of time_bucket, but for months."""


def _stretches(start: exp.Expr, rest: exp.Expr) -> exp.Expr | None:
    """Return DATE_TRUNC('hour', t) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM t) / 5).

    As time_bucket(INTERVAL '5 minutes', t), which it is for numbers that an hour is made up of.
    None: it is something else.
    """
    if not isinstance(start, _CUT):
        return None
    finer, most = _FINER.get(start.text("unit").upper(), ("", 0))
    product = rest.unnest()
    length, number = product.args.get("this"), product.args.get("expression")
    if isinstance(number, exp.Interval):
        length, number = number, length
    if not isinstance(product, exp.Mul) or not isinstance(length, exp.Interval):
        return None
    size = length.name
    if finer != length.text("unit").upper().removesuffix("S") or not size.isdecimal():
        return None
    written = number.unnest().sql() if number is not None else ""
    same = any(
        written == f"FLOOR(EXTRACT({unit} FROM {start.this.sql()}) / {size}{point})"
        for unit in (finer, finer.lower())
        for point in ("", ".0")
    )
    exact = int(size) and most % int(size) == 0
    return exp.DateBin(this=length, expression=start.this) if same and exact else None


def _from_usual_start(e: exp.DateBin) -> exp.Expr:
    """Return DATE_BIN(width, t, start) without its start, where time_bucket has it too.

    Raises:
        QueryRefused: It has another one.
    """
    width = exp.to_interval(e.this) if isinstance(e.this, exp.Literal) else e.this
    unit = width.text("unit").upper().removesuffix("S")
    start, seconds = _written_moment(e.args["unit"]), _SECONDS.get(unit, 0)
    if isinstance(width, exp.Interval) and width.name.isdecimal() and start is not None:
        seconds *= int(width.name)
        if seconds and (start - _USUAL_START) % dt.timedelta(seconds=seconds) == dt.timedelta():
            return exp.DateBin(this=width, expression=e.expression)
    raise QueryRefused(
        f"{e.sql('duckdb')[:80]}: buckets begin where those of time_bucket do",
        "leave the start out: they are counted from Monday, 2000-01-03, months from January",
    )


def _written_moment(e: exp.Expr) -> dt.datetime | None:
    """Return a constant moment; None: it is not written so that it can be read here."""
    try:
        if isinstance(e, exp.TimestampFromParts):
            day, clock = ("year", "month", "day"), ("hour", "min", "sec")
            year, month, of_month, hour, minute, second = (
                int((p.this if isinstance(p, exp.Cast) else p).name)
                for p in (e.args[name] for name in (*day, *clock))
            )
            return dt.datetime(year, month, of_month, hour, minute, second)
        return dt.datetime.fromisoformat((e.this if isinstance(e, exp.Cast) else e).name)
    except (KeyError, ValueError):
        return None


def _is_null_there(e: exp.If) -> bool:
    """Tell whether it is CASE WHEN x IS NULL THEN x, and something else otherwise."""
    around = e.parent if isinstance(e.parent, exp.Case) else e
    other = around.args.get("default" if isinstance(around, exp.Case) else "false")
    empty = isinstance(e.this.expression, exp.Null)
    return empty and e.this.this == e.args.get("true") and not isinstance(other, exp.Null | None)


MAX_ROWS = 400
"""Of VALUES, range() and generate_series(); a public table may have more."""


def _rows_of_constants(e: exp.Expr, rows: list[list[exp.Expr]], name: str) -> exp.Expr:
    """Return rows of constants as a subquery; what they are of, where they are none.

    Args:
        e: An item of FROM.
        rows: Its rows.
        name: Of columns that have none, with {} for their number.
    """
    if not rows or any(len(r) != len(rows[0]) for r in rows):
        return e
    if len(rows) > MAX_ROWS:
        raise QueryRefused(
            f"there are more than {MAX_ROWS} rows of constants in FROM",
            "declare a public table with them",
        )
    if not all(is_constant(value) for row in rows for value in row):
        return e
    alias = e.args.get("alias")
    named = list(alias.columns) if alias is not None else []
    names = [c.name for c in named] + [name.format(i) for i in range(len(named), len(rows[0]))]
    stacked: list[exp.Expr] = [
        exp.select(*(exp.alias_(v, n, quoted=True) for v, n in zip(row, names, strict=False)))
        for row in rows
    ]
    while len(stacked) > 1:  # side by side, so that nothing is nested deeply
        pairs = list(zip(stacked[::2], stacked[1::2], strict=False))
        rest = stacked[2 * len(pairs) :]
        stacked = [exp.Union(this=a, expression=b, distinct=False) for a, b in pairs] + rest
    called = alias.name if alias is not None and alias.name else name.format("")
    return exp.Subquery(this=stacked[0], alias=exp.TableAlias(this=exp.to_identifier(called)))


def _series(e: exp.GenerateSeries) -> list[exp.Expr]:
    """Return the values of a series of whole numbers, or of days and times; [] if it is neither."""
    step, more = e.args.get("step"), 0 if e.args.get("is_end_exclusive") else 1
    ends = [e.args["start"], e.args["end"]]
    by = exp.Literal.number(1) if step is None else step
    whole = [_whole_number(x) for x in (*ends, by)]
    if None not in whole:
        low, high, each = (x for x in whole if x is not None)
        values = range(low, high + (more if each > 0 else -more), each) if each else range(0)
        return [exp.convert(value) for value in values[: MAX_ROWS + 1]]
    unit = by.text("unit").upper().removesuffix("S") if step is not None else ""
    size = _LONG.get(unit, dt.timedelta() if unit in _MONTHS else None)
    times = [dt.datetime.fromisoformat(x.this.name) for x in ends if _is_moment(x)]
    number = _whole_number(by.this) if size is not None else None
    if size is None or number is None or number < 1 or len(times) != 2:
        return []
    months = _MONTHS.get(unit, 0) * number
    if months and times[0].day > 28:  # the 31st of a month without one
        return []
    found, at = list[exp.Expr](), times[0]
    while (at <= times[1] if more else at < times[1]) and len(found) <= MAX_ROWS:
        found.append(exp.cast(exp.Literal.string(at.isoformat(" ")), "TIMESTAMP"))
        later = 12 * at.year + at.month - 1 + months
        at = at.replace(year=later // 12, month=later % 12 + 1) + size * number
    return found


_LONG = {
    "WEEK": dt.timedelta(weeks=1),
    "DAY": dt.timedelta(days=1),
    "HOUR": dt.timedelta(hours=1),
    "MINUTE": dt.timedelta(minutes=1),
}


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _whole_number(e: exp.Expr) -> int | None:
    text = f"-{e.this.name}" if isinstance(e, exp.Neg) else e.name
    literal = e.this if isinstance(e, exp.Neg) else e
    whole = isinstance(literal, exp.Literal) and re.fullmatch(r"-?\d{1,15}", text)
    return int(text) if whole else None


def _is_moment(e: exp.Expr) -> bool:
    """Tell whether an expression is a day or a moment, written out."""
    known = isinstance(e, exp.Cast) and isinstance(e.this, exp.Literal) and e.this.is_string
    return known and re.fullmatch(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", e.this.name) is not None


_LENGTHS = frozenset(
    f"to_{unit}s" for unit in ("year", "month", "week", "day", "hour", "minute", "second")
)


def _same_row(a: exp.Expr, b: exp.Expr) -> exp.Expr | None:
    """Return that two rows of values are alike; None: they are no rows of one length."""
    rows = [side.expressions for side in (a, b) if isinstance(side, exp.Tuple)]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        return None
    pairs = zip(*rows, strict=True)
    return exp.and_(*(exp.NullSafeEQ(this=x.copy(), expression=y.copy()) for x, y in pairs))


def _listed_in(e: exp.Expr) -> tuple[bool, exp.Expr] | None:
    """Return whether all of a list are meant, and the list, of ANY or ALL; None: it is neither."""
    every = isinstance(e, exp.All) or (isinstance(e, exp.Anonymous) and e.name.upper() == "ALL")
    if not every and not isinstance(e, exp.Any):
        return None
    of = e.expressions if isinstance(e, exp.Anonymous) else [e.this]
    listed = of[0].unnest() if of else None
    while isinstance(listed, exp.Cast | exp.Paren):  # as PostgreSQL writes a parameter
        listed = listed.this
    return (every, listed) if isinstance(listed, exp.Array | exp.Tuple) else None


def _compared_with(e: exp.Expr, every: bool, listed: exp.Expr) -> exp.Expr:
    if listed.expressions and isinstance(e, exp.NEQ if every else exp.EQ):
        one = exp.In(this=e.this, expressions=listed.expressions)
        return exp.Not(this=one) if every else one
    if not listed.expressions:
        return exp.Boolean(this=every)
    each = [type(e)(this=e.this.copy(), expression=x) for x in listed.expressions]
    return exp.Paren(this=(exp.and_ if every else exp.or_)(*each))


def without_parentheses(select: exp.Select) -> None:
    """FROM (a JOIN b ON …) JOIN c: the first joins come first anyway."""
    origin = select.args.get("from_")
    item = origin.this if origin is not None else None
    while isinstance(item, exp.Subquery) and isinstance(item.this, exp.Subquery | exp.Table):
        if item.alias:
            return
        inner = item.this
        joins = [*(inner.args.get("joins") or []), *(item.args.get("joins") or [])]
        inner.set("joins", None)
        select.set("joins", [*joins, *(select.args.get("joins") or [])])
        assert origin is not None
        origin.set("this", inner)
        item = inner


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
        >>> constants([dt.date(2024, 1, 31)], "DATE")
        "[CAST('2024-01-31' AS DATE)]::DATE[]"
    """

    def written(value: object) -> str:  # without sqlglot's detour: there can be very many
        if value is None or isinstance(value, bool | int):
            return "NULL" if value is None else str(value).upper()
        text = "'" + str(value).replace("'", "''") + "'"
        return text if isinstance(value, str) else text.join(cast())

    cast = cache(lambda: exp.cast(exp.Literal.string("?"), type).sql("duckdb").split("'?'"))
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
