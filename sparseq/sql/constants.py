"""Constants of a query: tests for constant expressions, and DuckDB values as SQL."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import cache

from sqlglot import exp

from sparseq.base.errors import QueryRefused
from sparseq.sql.dialect import DUCKDB


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


DAY_WITH_ZONE = re.compile(r"(\d{4}-\d\d-\d\d) ?(Z|[+-]\d\d(?::\d\d){0,2})")
"""A day written with an offset and without a time of day, as JDBC writes it."""


def moment_of(e: exp.Expr) -> exp.Expr | None:
    """Return TO_TIMESTAMP or TO_DATE of a literal text and pattern as a constant, or None.

    Raises:
        QueryRefused: The text does not match the pattern, or the pattern is unknown.

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
    """Return a value that DuckDB returned as an expression that DuckDB can parse."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool | int | str):
        return exp.convert(value)
    return exp.cast(exp.Literal.string(str(value)), type)


def constants(values: Sequence[object], type: str) -> str:
    """Return values that DuckDB returned as a list of one type, in DuckDB's SQL.

    Example:
        >>> constants(["it's", None, "b"], "VARCHAR")
        "['it''s', NULL, 'b']::VARCHAR[]"
        >>> constants([dt.date(2024, 1, 31)], "DATE")
        "[CAST('2024-01-31' AS DATE)]::DATE[]"
    """

    def written(value: object) -> str:  # without sqlglot: the list may be very long
        if value is None or isinstance(value, bool | int):
            return "NULL" if value is None else str(value).upper()
        text = "'" + str(value).replace("'", "''") + "'"
        return text if isinstance(value, str) else text.join(cast())

    cast = cache(lambda: exp.cast(exp.Literal.string("?"), type).sql(DUCKDB).split("'?'"))
    return f"[{', '.join(map(written, values))}]::{type}[]"
