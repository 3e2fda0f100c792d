"""Spellings of operators, functions and types: sqlglot's names and ours."""

from __future__ import annotations

import datetime as dt
import math
import re
from functools import cache

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.language.functions import overloads
from sparseq.sql.constants import is_constant

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
"""Types allowed in casts: sqlglot's names, and DuckDB's."""
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
"""Functions whose names in sqlglot differ from the table's."""
_WRITTEN = {
    "isodow": "isodow",
    "weekday": "dow",
    "isoyear": "isoyear",
    "decade": "decade",
    "century": "century",
    "millennium": "millennium",
    "yearweek": "yearweek",
}
"""Further names that a query may write, which sqlglot does not know."""


@cache
def find_function(name: str) -> str:
    """Return the table's name of a function that sqlglot does not know; "" if it has none."""
    forms = (f.form for f in overloads(name))
    return name if any(form.startswith(f"{name}(") for form in forms) else _WRITTEN.get(name, "")


def function_of(kind: type[exp.Expr]) -> str:
    """Return the table's name of the function that a kind of expression calls; "" if it has none.

    Example:
        >>> function_of(exp.Ceil), function_of(exp.DayOfYear), function_of(exp.Sum)
        ('ceil', 'doy', '')
    """
    if kind not in _NAMES:
        _NAMES[kind] = _name_of(kind)
    return _NAMES[kind]


_NAMES = OPERATORS | _OTHER_NAMES  # and functions added on request


def _name_of(kind: type[exp.Expr]) -> str:
    if not issubclass(kind, exp.Func) or issubclass(kind, exp.AggFunc | exp.Anonymous):
        return ""
    return next((n for n in map(str.lower, kind.sql_names()) if overloads(n)), "")


def call_of(e: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """Return the table's function that an expression calls, and its operands; or None.

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
    """Return a node in its normal form, or unchanged.

    These forms are rewritten: FETCH FIRST, any_value(x), date_format(x, form), list_contains([…],
    x), pi(), date(x), DATEADD(unit, number, time), timezone(zone, time), lengths of time, buckets
    of time, ANY of rows, ANY and ALL of a list, CASE WHEN x IS NULL THEN x, VALUES
    and series in FROM, and rows of values; as in DuckDB, rows are equal if all their values are,
    and NULL equals NULL. The operands must be in normal form already.

    Raises:
        QueryRefused: Buckets of time start at a different point from time_bucket's.

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
            return exp.Literal.string(e.this.name)  # drivers cast each parameter
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
        case exp.DateBin() if (width := _seconds_of(e.this)) is not None:
            return exp.DateBin(this=width, expression=e.expression)
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
    """Return the subquery of ANY (SELECT …), for use with IN; None for other expressions."""
    inner = e.this if isinstance(e, exp.Any) else None
    if isinstance(inner, exp.Select):
        return exp.Subquery(this=inner)
    return inner if isinstance(inner, exp.Subquery) else None


def _is_listed(e: exp.Expr) -> bool:
    """Tell whether an expression is a list of constants without NULL."""
    values = e.expressions if isinstance(e, exp.Array) else []
    return bool(values) and all(isinstance(v, exp.Literal) for v in values)


_MYSQL = {"i": "M", "M": "B", "s": "S", "W": "A", "h": "I", "e": "-d", "c": "-m", "k": "-H"}
"""Codes of MySQL's date_format that differ from strftime's."""


def _strftime(form: exp.Literal) -> exp.Literal:
    """Return the strftime format that means the same as a date_format format.

    >>> _strftime(exp.Literal.string("%Y-%m %M %i")).this
    '%Y-%m %B %M'
    """
    return exp.Literal.string(re.sub("%(.)", lambda c: "%" + _MYSQL.get(c[1], c[1]), form.this))


_CUT = (exp.DateTrunc, exp.TimestampTrunc)
_FINER = {"DAY": ("HOUR", 24), "HOUR": ("MINUTE", 60), "MINUTE": ("SECOND", 60)}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_USUAL_START = dt.datetime(2000, 1, 3)
"""The start of time_bucket, except for months."""


def _stretches(start: exp.Expr, rest: exp.Expr) -> exp.Expr | None:
    """Return DATE_TRUNC('hour', t) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM t) / 5).

    The result is time_bucket(INTERVAL '5 minutes', t), which is equal if the width divides an hour.
    Returns None for other expressions.
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


_IN_SECONDS = re.compile(r"(\d{1,9})(?:\.0+)?s")


def _seconds_of(e: object) -> exp.Interval | None:
    """Return '3600.000s', as Grafana writes widths for TimescaleDB, as an interval of one unit."""
    written = isinstance(e, exp.Literal) and e.is_string and _IN_SECONDS.fullmatch(e.name)
    if not written or not (seconds := int(written[1])):
        return None
    unit, size = next((u, n) for u, n in reversed(_SECONDS.items()) if seconds % n == 0)
    return exp.Interval(this=exp.Literal.string(str(seconds // size)), unit=exp.var(unit))


def _from_usual_start(e: exp.DateBin) -> exp.Expr:
    """Return DATE_BIN(width, t, start) without its start, if time_bucket starts there too.

    Raises:
        QueryRefused: It has another start.
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
    """Return a constant moment; None if it is not written in a supported form."""
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
    """Tell whether an expression is CASE WHEN x IS NULL THEN x ELSE … END."""
    around = e.parent if isinstance(e.parent, exp.Case) else e
    other = around.args.get("default" if isinstance(around, exp.Case) else "false")
    empty = isinstance(e.this.expression, exp.Null)
    return empty and e.this.this == e.args.get("true") and not isinstance(other, exp.Null | None)


MAX_ROWS = 400
"""The limit for VALUES, range() and generate_series(); a public table may have more rows."""


def _rows_of_constants(e: exp.Expr, rows: list[list[exp.Expr]], name: str) -> exp.Expr:
    """Return rows of constants as a subquery, or the item itself if it has no such rows.

    Args:
        e: An item of FROM.
        rows: Its rows.
        name: The name for unnamed columns, with {} for their number.
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
    while len(stacked) > 1:  # balanced, so that the tree is not deep
        pairs = list(zip(stacked[::2], stacked[1::2], strict=False))
        rest = stacked[2 * len(pairs) :]
        stacked = [exp.Union(this=a, expression=b, distinct=False) for a, b in pairs] + rest
    called = alias.name if alias is not None and alias.name else name.format("")
    return exp.Subquery(this=stacked[0], alias=exp.TableAlias(this=exp.to_identifier(called)))


def _series(e: exp.GenerateSeries) -> list[exp.Expr]:
    """Return the values of a series of integers, or of days and times; [] for other series."""
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
    if months and times[0].day > 28:  # the 31st of a shorter month
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
    """Tell whether an expression is a literal day or moment."""
    known = isinstance(e, exp.Cast) and isinstance(e.this, exp.Literal) and e.this.is_string
    return known and re.fullmatch(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", e.this.name) is not None


_LENGTHS = frozenset(
    f"to_{unit}s" for unit in ("year", "month", "week", "day", "hour", "minute", "second")
)


def _same_row(a: exp.Expr, b: exp.Expr) -> exp.Expr | None:
    """Return the condition that two rows of values are equal; None if they are no such rows."""
    rows = [side.expressions for side in (a, b) if isinstance(side, exp.Tuple)]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        return None
    pairs = zip(*rows, strict=True)
    return exp.and_(*(exp.NullSafeEQ(this=x.copy(), expression=y.copy()) for x, y in pairs))


def _listed_in(e: exp.Expr) -> tuple[bool, exp.Expr] | None:
    """Return whether ALL of a list is meant, and the list; None for neither ANY nor ALL."""
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
    """Remove the parentheses of FROM (a JOIN b ON …) JOIN c: the first joins come first anyway."""
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
    """Return the name of a function that is called with too few arguments; None if none is.

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
