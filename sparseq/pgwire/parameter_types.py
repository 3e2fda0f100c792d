"""Types of parameters: given by the client, or derived from their positions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from sparseq.pgwire.pg_values import BY_OID, TEXT
from sparseq.pgwire.sql_tokens import Token, TokenKind, number, parameters
from sparseq.pgwire.wire_errors import WireError
from sparseq.question.catalog import TIME_TYPES, Column

_NAMES = {
    "bool": 16,
    "boolean": 16,
    "bytea": 17,
    "name": 19,
    "int8": 20,
    "bigint": 20,
    "int2": 21,
    "smallint": 21,
    "int4": 23,
    "integer": 23,
    "int": 23,
    "text": 25,
    "oid": 26,
    "float4": 700,
    "real": 700,
    "float8": 701,
    "double precision": 701,
    "double": 701,
    "varchar": 1043,
    "character varying": 1043,
    "bpchar": 1042,
    "char": 1042,
    "date": 1082,
    "time": 1083,
    "timestamp": 1114,
    "timestamptz": 1184,
    "numeric": 1700,
    "decimal": 1700,
    "uuid": 2950,
    "regclass": 2205,
    "regtype": 2206,
    "text[]": 1009,
    "varchar[]": 1015,
    "name[]": 1003,
    "oid[]": 1028,
    "int4[]": 1007,
    "integer[]": 1007,
    "int8[]": 1016,
    "bigint[]": 1016,
    "int2[]": 1005,
    "float8[]": 1022,
}
_OF_COLUMNS = {
    "TINYINT": 21,
    "SMALLINT": 21,
    "INTEGER": 23,
    "BIGINT": 20,
    "UTINYINT": 21,
    "USMALLINT": 23,
    "UINTEGER": 20,
    "UBIGINT": 1700,
    "HUGEINT": 1700,
    "FLOAT": 700,
    "DOUBLE": 701,
    "DATE": 1082,
    "TIMESTAMP": 1114,
    "TIMESTAMP WITH TIME ZONE": 1184,
    "BOOLEAN": 16,
    "TIME": 1083,
    "UUID": 2950,
}
_COMPARED = ("=", "<", ">", "<=", ">=", "<>", "!=")
TEXT_OID = 25


def number_of(name: str) -> int:
    """Return the number of a type's name.

    Raises:
        WireError: The type is unknown.
    """
    plain = name.lower().replace("pg_catalog.", "").replace('"', "").split("(")[0].strip()
    if plain not in _NAMES:
        raise WireError("42704", f'type "{name}" does not exist')
    return _NAMES[plain]


def type_of(column: Column) -> int:
    """Return the number of a column's type."""
    return 1700 if column.type.startswith("DECIMAL") else _OF_COLUMNS.get(column.type, TEXT_OID)


def parameter_types(
    statement: Sequence[Token], given: Sequence[int], column: Callable[[str], Column | None]
) -> tuple[int, ...]:
    """Return the types of parameters: given, from a cast, or from the other operand.

    Args:
        statement: The statement's tokens.
        given: The client's types; 0: unknown.
        column: Returns the column of private tables with a name, if there is one.
    """
    count = parameters(statement)
    types = [*given[:count], *[0] * (count - len(given))]
    for i, token in enumerate(statement):
        if token.kind is TokenKind.PARAMETER and not types[number(token) - 1]:
            types[number(token) - 1] = _cast(statement, i) or _beside(statement, i, column)
    return tuple(t or TEXT_OID for t in types)


def _cast(statement: Sequence[Token], i: int) -> int:
    """Return the type of `$1::type`, or of CAST($1 AS type); 0: it is not cast."""
    rest = statement[i + 1 : i + 9]
    if rest and (rest[0].text == "::" or rest[0].is_word("AS")):
        names = [t.name for t in rest[1:] if t.text not in ("[", "]")]
        while len(names) > 2 and names[1] == ".":
            del names[:2]
        array = any(a.text == "[" for a in rest[1:5])
        for width in (2, 1):
            if found_type := _NAMES.get(" ".join(names[:width]) + "[]" * array):
                return found_type
    before = statement[i - 1] if i else None
    if before is not None and before.is_word("LIMIT", "OFFSET"):
        return 20
    return 0


def cast_type(statement: Sequence[Token], number: int) -> int:
    """Return the type that a parameter is cast to; 0: there is no cast."""
    places = [i for i, t in enumerate(statement) if t.text == f"${number}"]
    return next((type for i in places if (type := _cast(statement, i))), 0)


def _beside(statement: Sequence[Token], i: int, column: Callable[[str], Column | None]) -> int:
    """Return the type of the column that a parameter is compared with; 0: there is none."""
    compared = compared_with(statement, i, column)
    if compared is None:
        return 0
    type = type_of(compared)
    return BY_OID.get(type, TEXT).array if _is_list(statement, i) else type


def _is_list(statement: Sequence[Token], i: int) -> bool:
    """Tell whether a parameter is the list in ANY($1) or ALL($1)."""
    return i > 1 and statement[i - 1].text == "(" and statement[i - 2].is_word("ANY", "ALL")


_VALUES = (TokenKind.PARAMETER, TokenKind.NUMBER, TokenKind.STRING)


def compared_with(
    statement: Sequence[Token], i: int, column: Callable[[str], Column | None]
) -> Column | None:
    """Return the column that the parameter at a place is compared with; None: it is unknown."""
    at = i - 1
    while at >= 0 and (
        statement[at].text in (*_COMPARED, ",", "(")
        or statement[at].is_word("BETWEEN", "AND", "IN", "ANY", "ALL")
        or (statement[at].is_word("DATE", "TIMESTAMP") and statement[at + 1].kind in _VALUES)
        or statement[at].kind in _VALUES
    ):
        at -= 1
    left = statement[at] if 0 <= at < i - 1 else None
    if left is not None and left.kind in (TokenKind.WORD, TokenKind.QUOTED):
        return column(left.name)
    after = statement[i + 1 : i + 3]
    if len(after) == 2 and after[0].text in _COMPARED:
        return column(after[1].name)
    return None


def stand_in(
    statement: Sequence[Token], types: Sequence[int], column: Callable[[str], Column | None]
) -> list[Any]:
    """Return a value for each parameter, of its column or type, to describe a statement."""
    values: list[Any] = [_ANY.get(type, "") for type in types]
    for i, token in enumerate(statement):
        if token.kind is TokenKind.PARAMETER:
            compared = compared_with(statement, i, column)
            if compared is not None:
                at_end = statement[i - 1].text in ("<", "<=") or statement[i - 1].is_word("AND")
                place = number(token) - 1
                if _is_list(statement, i):
                    values[place] = [_within(compared, _ANY.get(type_of(compared), ""), at_end)]
                else:
                    values[place] = _within(compared, values[place], at_end)
    return values


_ANY: dict[int, Any] = {
    16: True,
    20: 1,
    21: 1,
    23: 1,
    26: 0,
    700: 1.0,
    701: 1.0,
    1700: 1,
    1082: dt.date(2000, 1, 1),
    1114: dt.datetime(2000, 1, 1),
    1184: dt.datetime(2000, 1, 1),
    1009: [""],
    1015: [""],
    1003: [""],
    1028: [0],
    1007: [0],
    1016: [0],
    1005: [0],
    1022: [0.0],
    2205: 0,
    2206: 0,
}


def _within(column: Column, value: Any, at_end: bool) -> Any:
    if column.keys:
        return column.keys[0]
    if column.type in TIME_TYPES and isinstance(value, dt.date):
        low, high = column.bounds or (10_957.0, 10_958.0)  # a day of the year 2000
        day = dt.date(1970, 1, 1) + dt.timedelta(days=int(high if at_end else low))
        return day if column.type == "DATE" else dt.datetime.combine(day, dt.time.min)
    return value
