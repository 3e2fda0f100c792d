"""The typed tree between a parsed query and whatever evaluates it.

A `Term` is a column, a constant, or a function of terms from the one table of functions
(`sparseq.language.functions`). Every function has a value for every value of its arguments, NULL
where it has none; so, by induction over the tree, has every term, and nothing an engine does with
one can fail on a row. Casts between types are here, as they are what signatures are met by.
"""

from __future__ import annotations

import datetime as dt
import decimal as decimals
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.types import Family, Type

# -- the typed tree between a parsed query and whatever evaluates it -------------------------------

MAX_SIZE = 20_000
"""Nodes of an expression, written out: what an engine may have to look at for one row."""
_EPOCH = dt.date(1970, 1, 1)
_KINDS: dict[Family, Any] = {
    Family.DATE: dt.date,
    Family.TIMESTAMP: dt.datetime,
    Family.TIME: dt.time,
    Family.UUID: uuid.UUID,
    Family.TEXT: str,
    Family.BOOLEAN: bool,
    Family.INTEGER: int,
    Family.DOUBLE: (int, float),
    Family.DECIMAL: decimals.Decimal,
}


_OWN_ZONE = ("cast", "timezone")
"""Functions that say themselves whether a time that they give is a moment, or a clock's."""


@dataclass(frozen=True)
class Term:
    """An expression over one row, total by construction.

    Attributes:
        type: What its values are.
        sql: DuckDB's SQL for it; it can stand anywhere, and can't raise.
        constant: It looks at no column.
        value: Of a constant that is written out, the value.
        size: Nodes of the SQL.
        function: The name of the function, "" for columns and constants.
        arguments: What the function is of.
        column: Of a column of a stored table, its name there.
    """

    type: Type
    sql: str
    constant: bool = False
    value: Any = None
    size: int = 1
    function: str = ""
    arguments: tuple[Term, ...] = ()
    column: str = ""

    @property
    def is_written(self) -> bool:
        """It is a constant, written out."""
        return self.constant and not self.function


def column(sql: str, type: Type) -> Term:
    """Return a column as a term."""
    return Term(type, sql)


def call(name: str, template: str, type: Type, *arguments: Term) -> Term:
    """Return a function of terms.

    Args:
        name: The function's.
        template: Its SQL with {0}, {1} … for the arguments.
        type: Of the result.

    Raises:
        QueryRefused: It is too large, once it is written out.
    """
    size = 1 + sum(a.size * max(template.count(f"{{{i}}}"), 1) for i, a in enumerate(arguments))
    if size > MAX_SIZE:
        raise QueryRefused(
            "an expression is too long once it is written out", "compute it in steps, in subqueries"
        )
    sql = template.format(*(a.sql for a in arguments))
    if type.family is Family.TIMESTAMP and name.partition(" ")[0] not in _OWN_ZONE:
        type = replace(type, zoned=type.zoned or any(a.type.zoned for a in arguments))
    constant = all(a.constant for a in arguments)
    return bound_time(Term(type, sql, constant, None, size, name, arguments))


def bound_time(term: Term) -> Term:
    """Return a date or timestamp that stays where every function of it has a value."""
    if term.type.is_time and not term.type.within(-T.SAFE_DAYS, T.SAFE_DAYS):
        return in_range(term)
    return term


def in_range(term: Term) -> Term:
    """Return a date or timestamp as it is from year 1 to 9999, NULL outside."""
    if term.type.within(T.FIRST_DAY, T.LAST_DAY):
        return term
    first, last = (
        ("DATE '0001-01-01'", "DATE '9999-12-31'")
        if term.type.family is Family.DATE
        else ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'")
    )
    type = replace(term.type, low=T.FIRST_DAY, high=T.LAST_DAY)
    template = f"CASE WHEN {{0}} BETWEEN {first} AND {last} THEN {{0}} END"
    return call("in range", template, type, term)


def constant(value: Any, type: Type) -> Term:
    """Return a constant of a type, as DuckDB reads it.

    Example:
        >>> import datetime as dt
        >>> constant(dt.date(2024, 1, 2), T.DATE).sql, constant(-3, T.BIGINT).sql
        ("CAST('2024-01-02' AS DATE)", '(-3)')
    """
    if value is None:
        sql = "NULL" if type.family is Family.NULL else f"CAST(NULL AS {type.sql})"
        return Term(type, sql, constant=True)
    if type.family is Family.INTEGER:
        value = int(value)
        sql = str(value) if value >= 0 else f"({value})"
        stored = "" if T.INT64[0] <= value <= T.INT64[1] else "UBIGINT"
        return Term(Type(Family.INTEGER, value, value, stored=stored), sql, True, value)
    return Term(type, _written(value, type), True, value)


def _written(value: Any, type: Type) -> str:
    match type.family:
        case Family.BOOLEAN:
            return "true" if value else "false"
        case Family.TEXT:
            return "'" + str(value).replace("'", "''") + "'"
        case Family.DECIMAL:
            return f"CAST('{decimals.Decimal(value)}' AS {type.sql})"
        case Family.TIMESTAMP:
            assert isinstance(value, dt.datetime)
            return f"CAST('{value.isoformat(' ')}' AS TIMESTAMP)"
        case Family.DOUBLE:
            return f"CAST('{float(value)!r}' AS {type.sql})"
    return f"CAST('{value}' AS {type.sql})"


def day_of(value: dt.date) -> int:
    """Return a date as days since 1970."""
    return (value - _EPOCH).days


def fits(value: Any, type: Type) -> bool:
    """Tell whether a value that an engine gave can be written as a constant of a type."""
    return isinstance(value, _KINDS.get(type.family, object))


def all_of(conditions: Iterable[Term]) -> str:
    """Return SQL of several conditions at once, "" if there is none."""
    parts = (c.sql for c in conditions)
    return " AND ".join(part if part.startswith("(") else f"({part})" for part in parts)


# -- casts ---------------------------------------------------------------------------------------


def cast(term: Term, type: Type) -> Term | None:
    """Return a term in another type, NULL where a value does not fit; None if there is no cast.

    CAST and TRY_CAST are the same here: nothing raises.
    """
    if term.type == type or (type.is_time and term.type.family is type.family):
        return replace(term, type=replace(term.type, zoned=type.zoned))
    if term.type.family is Family.NULL:
        return constant(None, type)
    template = _cast_template(term.type, type)
    if template is None:
        return None
    result = type
    if term.type.family is Family.INTEGER and type.family is Family.INTEGER:
        low, high = max(term.type.low, type.low), min(term.type.high, type.high)
        result = Type(Family.INTEGER, low, high, stored=type.stored) if low <= high else type
    if term.type.is_time and type.is_time:
        result = replace(type, low=term.type.low, high=term.type.high)
    made = call(f"cast to {type.sql}", template, result, term)
    if term.type.family is Family.TEXT and type.is_time:
        made = in_range(replace(made, type=replace(type, low=-(10**9), high=10**9)))
    return made


_NUMBERS = (Family.INTEGER, Family.DECIMAL, Family.DOUBLE)


def _cast_template(a: Type, b: Type) -> str | None:
    """Return SQL that turns values of one type into another, total."""
    if Family.LIST in (a.family, b.family):  # as a text it may be very long
        return None
    sure, tried = f"CAST({{0}} AS {b.sql})", f"TRY_CAST({{0}} AS {b.sql})"
    if a.zoned and b.family is Family.TEXT:  # its text has an offset, by the reader's zone
        return None
    if b.family is Family.TEXT:
        return sure
    if a.family is Family.TEXT:
        return tried
    if b.family is Family.BOOLEAN:
        return sure if a.family in _NUMBERS else None
    if b.family in _NUMBERS:
        if a.family is Family.BOOLEAN:
            return sure if b.family is not Family.DECIMAL else tried
        return _number_template(a, b, sure, tried)
    if b.family is Family.TIMESTAMP and a.family is Family.DATE:
        return sure
    if b.family is Family.DATE and a.family is Family.TIMESTAMP:
        return sure
    if b.family is Family.TIME and a.family is Family.TIMESTAMP:
        return sure
    return None


def _number_template(a: Type, b: Type, sure: str, tried: str) -> str | None:
    if a.family not in _NUMBERS:
        return None
    if b.family is Family.DOUBLE:
        return tried if b.stored == "FLOAT" else sure
    if b.family is Family.INTEGER and a.family is Family.INTEGER:
        return sure if a.within(b.low, b.high) else tried
    if b.family is Family.DECIMAL and a.family is not Family.DOUBLE:
        exact = T.as_decimal(a)
        return sure if exact.digits <= b.digits and exact.scale <= b.scale else tried
    return tried
