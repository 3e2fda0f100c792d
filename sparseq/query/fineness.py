"""How fine an expression looks at a time: to the day, the hour, the minute or the second."""

from __future__ import annotations

from sqlglot import exp

_ORDER = ("day", "hour", "minute", "second")
_UNITS = {
    "YEAR": "day", "QUARTER": "day", "MONTH": "day", "WEEK": "day", "DAY": "day", "HOUR": "hour",
    "MINUTE": "minute", "SECOND": "second", "DOW": "day", "DAYOFWEEK": "day", "ISODOW": "day",
    "DOY": "day", "DAYOFYEAR": "day", "WEEKOFYEAR": "day", "ISOYEAR": "day", "WEEKDAY": "day",
    "EPOCH": "second",
}  # fmt: skip
_DAYS = (
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth,
    exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.Dayname, exp.Monthname, exp.LastDay,
    exp.Date, exp.TsOrDsToDate,
)  # fmt: skip
_CODES = {
    **dict.fromkeys("aAwdbBmyYjUWVGuxDF", "day"),
    **dict.fromkeys("HI", "hour"),
    "p": "hour", "M": "minute", "S": "second", "%": "day", "-": "day",
}  # fmt: skip


def fineness(root: exp.Expr, column: exp.Column) -> str:
    """Return the unit that decides the value of an expression; "": it may be finer.

    Args:
        root: The expression.
        column: A timestamp in it.

    Example:
        >>> from sqlglot import parse_one
        >>> e = parse_one("date_trunc('month', t)", dialect="duckdb")
        >>> fineness(e, exp.column("t"))
        'day'
    """
    text, found = column.sql("duckdb"), "day"
    for place in root.find_all(exp.Column):
        if place.sql("duckdb") == text:
            unit = _above(place, root)
            if not unit:
                return ""
            found = max(found, unit, key=_ORDER.index)
    return found


def _above(place: exp.Expr, root: exp.Expr) -> str:
    """Return the unit of the nearest function above a column that cuts time."""
    if place is root or place.parent is None:
        return ""
    above = place.parent
    if isinstance(above, exp.Paren):
        return _above(above, root)
    if isinstance(above, _DAYS):
        return "day"
    if isinstance(above, exp.Cast | exp.TryCast):
        kind = above.to.sql("duckdb")
        return "day" if kind == "DATE" else _above(above, root) if kind == "TIMESTAMP" else ""
    if isinstance(above, exp.DateTrunc | exp.TimestampTrunc | exp.DateDiff):
        unit = above.args.get("unit")
        return _UNITS.get(unit.name.upper(), "") if unit is not None else ""
    if isinstance(above, exp.Extract):
        return _UNITS.get(above.this.name.upper(), "")
    if isinstance(above, exp.Hour):
        return "hour"
    if isinstance(above, exp.Minute):
        return "minute"
    if isinstance(above, exp.Second | exp.TimeToUnix):
        return "second"
    if isinstance(above, exp.Anonymous):
        return _named(above)
    if isinstance(above, exp.TimeToStr):
        return _format(above.args.get("format"))
    if isinstance(above, exp.DateBin):
        return _bin(above.this)
    return ""


def _named(e: exp.Anonymous) -> str:
    name = e.name.upper()
    if name == "DATE_PART":
        return _UNITS.get(e.expressions[0].name.upper(), "")
    if name == "TIME_BUCKET":
        return _bin(e.expressions[0])
    return _UNITS.get(name, "")


def _bin(width: exp.Expr) -> str:
    """Return the unit of a bucket's width."""
    unit = width.args.get("unit") if isinstance(width, exp.Interval) else None
    return _UNITS.get(unit.name.upper().removesuffix("S"), "") if unit is not None else ""


def _format(form: exp.Expr | None) -> str:
    """Return the unit of the finest code in a format such as '%Y-%m'."""
    if not isinstance(form, exp.Literal) or not form.is_string:
        return ""
    codes = [b[0] if b[0] != "-" else b[1:2] for b in form.this.split("%")[1:] if b]
    units = [_CODES.get(code, "") for code in codes]
    return "" if "" in units else max(units, key=_ORDER.index, default="day")
