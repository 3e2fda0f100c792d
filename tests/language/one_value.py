"""Values of a function for constants, and of an aggregate for rows, by their SQL in the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparseq.base._duckdb.connection import scratch
from sparseq.language import aggregate_functions
from sparseq.language import types as T
from sparseq.language.expression_tree import Term, column
from sparseq.language.functions import overloads
from sparseq.language.types import Type

Argument = tuple[Type, str]
"""A type, and a constant of it in SQL."""


def whole(number: int) -> Argument:
    """Return an integer of 64 bits."""
    return T.BIGINT, f"CAST({number} AS BIGINT)"


def number(text: str) -> Argument:
    """Return a double, such as '2.5' or 'nan'."""
    return T.DOUBLE, f"CAST('{text}' AS DOUBLE)"


def text(said: str) -> Argument:
    """Return a text."""
    return T.TEXT, "'" + said.replace("'", "''") + "'"


def day(date: str) -> Argument:
    """Return a date, such as '2024-02-29'."""
    return T.DATE, f"DATE '{date}'"


def moment(time: str) -> Argument:
    """Return a timestamp, such as '2024-02-29 12:00:00'."""
    return T.TIMESTAMP, f"TIMESTAMP '{time}'"


def truth(value: bool | None) -> Argument:
    """Return a truth value."""
    return T.BOOLEAN, f"CAST({'NULL' if value is None else value} AS BOOLEAN)"


def value(name: str, *arguments: Argument) -> Any:
    """Return the value of the overload that takes the families of the arguments."""
    types, constants = [type for type, _ in arguments], [sql for _, sql in arguments]
    takes = tuple(type.family for type in types)
    (found,) = [f for f in overloads(name) if f.takes == takes and f.gives(types) is not None]
    with scratch() as connection:
        ((result,),) = connection.sql(f"SELECT {found.sql(types).format(*constants)}").fetchall()
    return result


def aggregate(
    name: str,
    type: Type,
    values: Sequence[str],
    *constants: str,
    distinct: bool = False,
    order: Sequence[str] = (),
) -> Any:
    """Return the value of an aggregate of a column x, in the order in which its rows are given."""
    arguments = [column("x", type), *(Term(T.DOUBLE, constant) for constant in constants)]
    takes = [f for f in aggregate_functions.overloads(name) if len(f.takes) == len(arguments)]
    found = next(f for f in takes if f.takes[0].allows(type))
    made = found.apply(arguments, distinct=distinct, order=order)
    return over_rows(made.sql, type, values)


def over_rows(sql: str, type: Type, values: Sequence[str]) -> Any:
    """Return the value of SQL over rows with a column x."""
    ((found,),) = _rows(sql, type, values)
    return found


def window(name: str, values: Sequence[str], constants: Sequence[str]) -> list[Any]:
    """Return the values of a function over a window that is ordered by x."""
    (found,) = aggregate_functions.overloads(name)
    free = len(found.takes) - len(constants)
    arguments = [column("x", T.BIGINT)] * free + [Term(T.BIGINT, c) for c in constants]
    sql = found.apply(arguments, over="(ORDER BY x)").sql
    return [value for (value,) in _rows(f"{sql} AS found, x", T.BIGINT, values, "SELECT found")]


def _rows(sql: str, type: Type, values: Sequence[str], outer: str = "") -> list[Any]:
    rows = ", ".join(f"(CAST({value} AS {type.sql}))" for value in values)
    table = f"(VALUES {rows or f'(CAST(NULL AS {type.sql}))'}) t(x)"
    asked = f"SELECT {sql} FROM {table}" + ("" if rows else " WHERE false")
    with scratch() as connection:
        return connection.sql(f"{outer} FROM ({asked} ORDER BY x)" if outer else asked).fetchall()
