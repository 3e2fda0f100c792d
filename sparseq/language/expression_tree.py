"""The typed tree between a parsed query and its evaluators.

A `Term` is a column, a constant, or a function of terms from the table of functions
(`sparseq.language.functions`). Every function has a value, possibly NULL, for every value of its
arguments; so, by induction over the tree, has every term, and an engine's evaluation of a term
cannot fail on any row. Casts make arguments fit signatures (`sparseq.language.casts`).
"""

from __future__ import annotations

import datetime as dt
import decimal as decimals
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sparseq.base.errors import QueryRefused
from sparseq.language import types as T
from sparseq.language.column_id import ColumnId
from sparseq.language.types import Family, Type

MAX_SIZE = 20_000
"""The most nodes of an expanded expression, which an engine may have to evaluate for one row."""
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
"""Functions that themselves state whether the resulting time is a moment or a local time."""


class Nulls(StrEnum):
    """Rules that decide from the arguments whether a function may be NULL."""

    NEVER = "never"
    STRICT = "where one of them is"
    FIRST_KNOWN = "where all of them are"
    CASE = "where the result that is chosen is"
    FREE = "may be, whatever they are"


NULLS = {
    "is null": Nulls.NEVER,
    "is true": Nulls.NEVER,
    "is false": Nulls.NEVER,
    "IS DISTINCT FROM": Nulls.NEVER,
    "IS NOT DISTINCT FROM": Nulls.NEVER,
    "coalesce": Nulls.FIRST_KNOWN,
    "greatest": Nulls.FIRST_KNOWN,
    "least": Nulls.FIRST_KNOWN,
    "concat": Nulls.FIRST_KNOWN,
    "concat_ws": Nulls.FREE,
    "case": Nulls.CASE,
    "nullif": Nulls.FREE,
    "any": Nulls.FREE,
}
"""Rules by function name; all other functions are strict."""
_TRIED = ("TRY_", "try_")
_PARTIAL = ("CASE WHEN", "nullif(", "list_extract")
"""Parts of SQL that is NULL for values that a type does not hold, and for other values."""
ARITHMETIC = ("+", "-", "*", "//", "%", "neg", "abs", "exact")
"""Functions that use TRY_CAST because a number may exceed 64 bits or a decimal's digits; rows are
assumed to contain no such number."""
PLAIN = ("plain", "in range")
"""Functions that drop values outside the calendar; rows are assumed to contain none."""


def _has_gaps(name: str, template: str, arguments: tuple[Term, ...]) -> bool:
    """Tell, by its SQL, whether a function may be NULL where none of its arguments is."""
    first = name.partition(" ")[0]
    divided = first in ("//", "%") and arguments[1].is_written and bool(arguments[1].value)
    if name in PLAIN or divided:
        return False
    parts = _PARTIAL if first in ARITHMETIC else _PARTIAL + _TRIED
    return any(part in template for part in parts)


@dataclass(frozen=True)
class Term:
    """An expression over one row; it is total by construction.

    Attributes:
        type: The type of its values.
        sql: Its DuckDB SQL, valid in any position; it cannot raise an error.
        constant: It uses no column.
        value: The value of a literal constant.
        size: The number of nodes of the SQL.
        function: The name of the function, "" for columns and constants.
        arguments: The function's arguments.
        column: The stored column, if the term is one.
        nulls: The rule that decides from the arguments whether it is NULL.
        gaps: It is strict, and may also be NULL where none of its arguments is.
        stands_for: For a column of a subquery's first step, the term that the column holds.
    """

    type: Type
    sql: str
    constant: bool = False
    value: Any = None
    size: int = 1
    function: str = ""
    arguments: tuple[Term, ...] = ()
    column: ColumnId | None = None
    nulls: Nulls = Nulls.FREE
    gaps: bool = False
    stands_for: Term | None = field(default=None, compare=False, repr=False)

    @property
    def is_written(self) -> bool:
        """Tell whether it is a literal constant."""
        return self.constant and not self.function


def may_be_null(term: Term, known: Callable[[Term], bool] = lambda _: False) -> bool:
    """Tell whether a term may be NULL.

    Args:
        term: A term with any function of the table.
        known: Tells whether facts that hold on every row exclude that a term is NULL.

    Example:
        >>> from sparseq.language.casts import cast
        >>> x, zero = column("x", T.BIGINT), constant(0, T.BIGINT)
        >>> either = call("coalesce", "coalesce({0}, {1})", T.BIGINT, x, zero)
        >>> may_be_null(x), may_be_null(either), may_be_null(cast(zero, T.BOOLEAN))
        (True, False, False)
    """
    if known(term):
        return False
    of = term.arguments
    if term.stands_for is not None:
        return may_be_null(term.stands_for, known)
    if term.constant and not of:
        return term.value is None
    match term.nulls:
        case Nulls.NEVER:
            return False
        case Nulls.FIRST_KNOWN:
            return all(may_be_null(part, known) for part in of)
        case Nulls.CASE:
            return len(of) % 2 == 0 or any(may_be_null(r, known) for r in (*of[1::2], of[-1]))
        case Nulls.STRICT:
            return term.gaps or any(may_be_null(part, known) for part in of)
    return True


def known_where(condition: Term) -> list[Term]:
    """Return terms that are not NULL where a condition is true.

    Example:
        >>> x, y = column("x", T.BIGINT), column("y", T.BIGINT)
        >>> less = call("<", "({0} < {1})", T.BOOLEAN, call("abs", "abs({0})", T.BIGINT, x), y)
        >>> [term.sql for term in known_where(less)]
        ['(abs(x) < y)', 'abs(x)', 'x', 'y']
    """
    if condition.function in ("and", "is true"):
        return [term for part in condition.arguments for term in known_where(part)]
    return _known_parts(condition)


def _known_parts(term: Term) -> list[Term]:
    """Return the parts of a term that are not NULL where the term is not."""
    parts: tuple[Term, ...] = term.arguments if term.nulls is Nulls.STRICT else ()
    if term.function in ("and", "or"):  # one argument may decide
        parts = ()
    if term.function in ("between", "in"):
        parts = parts[:1]
    return [term, *(known for part in parts for known in _known_parts(part))]


def column(sql: str, type: Type) -> Term:
    """Return a column as a term."""
    return Term(type, sql)


def call(name: str, template: str, type: Type, *arguments: Term) -> Term:
    """Return a function applied to terms.

    Args:
        name: The function's name.
        template: Its SQL with {0}, {1} … for the arguments.
        type: The type of the result.

    Raises:
        QueryRefused: The expanded expression is too large.
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
    nulls = NULLS.get(name, Nulls.STRICT)
    gaps = _has_gaps(name, template, arguments)
    made = Term(type, sql, constant, None, size, name, arguments, nulls=nulls, gaps=gaps)
    return bound_time(made)


def bound_time(term: Term) -> Term:
    """Return a date or timestamp clamped to the range where all its functions have values."""
    if term.type.is_time and not term.type.within(-T.SAFE_DAYS, T.SAFE_DAYS):
        return in_range(term)
    return term


def in_range(term: Term) -> Term:
    """Return a date or timestamp between the years 1 and 9999, and NULL outside them."""
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
    """Return a constant of a type, in a form that DuckDB parses.

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
        return Term(T.whole(value, value), sql, True, value)
    return Term(type, _written(value, type), True, value)


def _written(value: Any, type: Type) -> str:
    match type.family:
        case Family.BOOLEAN:
            return "true" if value else "false"
        case Family.TEXT:
            return "'" + str(value).replace("'", "''") + "'"
        case Family.DECIMAL:
            return f"CAST('{decimals.Decimal(value):f}' AS {type.sql})"
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
    """Tell whether a value from an engine can be written as a constant of a type."""
    return isinstance(value, _KINDS.get(type.family, object))


def all_of(conditions: Iterable[Term]) -> str:
    """Return SQL of the conjunction of conditions, "" if there are none."""
    parts = (c.sql for c in conditions)
    return " AND ".join(part if part.startswith("(") else f"({part})" for part in parts)
