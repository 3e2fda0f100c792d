"""Values as PostgreSQL's clients read and write them, as text and in binary."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparseq.pgwire import messages
from sparseq.pgwire.messages import (
    INVALID_PARAMETER,
    PROTOCOL_VIOLATION,
    Field,
    WireError,
    bad_value,
)
from sparseq.pgwire.statement_kinds import Token, TokenKind, number, parameters
from sparseq.sql.catalog import TIME_TYPES, Column

# -- values as PostgreSQL's clients read and write them, as text and in binary ---------------------

Value = bool | int | float | str | Decimal | dt.date | dt.datetime | None
Encoder = Callable[[Any], bytes]
_DAY0, _TIME0 = dt.date(2000, 1, 1), dt.datetime(2000, 1, 1)
_WIDE = Context(prec=2_000)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class WireType:
    """A type of PostgreSQL: its number, its name, its size in bytes, and how values are written."""

    oid: int
    name: str
    size: int
    text: Encoder
    binary: Encoder
    array: int = 1009


def _float_text(value: float) -> bytes:
    if math.isnan(value):
        return b"NaN"
    if math.isinf(value):
        return b"Infinity" if value > 0 else b"-Infinity"
    if value.is_integer() and abs(value) < 1e15:
        return b"-0" if value == 0 and math.copysign(1, value) < 0 else b"%d" % value
    return repr(value).encode()


def _moment_text(value: dt.datetime) -> bytes:
    text = value.isoformat(" ")
    return re.sub(r"(\+\d\d):00$", r"\1", text).encode()


def _moment_binary(value: dt.datetime) -> bytes:
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return struct.pack("!q", (value - _TIME0) // _MICROSECOND)


def _time_binary(value: dt.time) -> bytes:
    whole = (value.hour * 60 + value.minute) * 60 + value.second
    return struct.pack("!q", whole * 1_000_000 + value.microsecond)


def _numeric_binary(value: Decimal) -> bytes:
    """Return a decimal as groups of four digits."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole, part = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    groups = [int((whole + part)[i : i + 4]) for i in range(0, len(whole) + len(part), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = (len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, scale)
    return struct.pack(f"!hhHh{len(groups)}h", *head, *groups)


def _plain(value: Any) -> bytes:
    return (value if isinstance(value, str) else str(value)).encode(errors="replace")


def _bool_text(value: bool) -> bytes:
    return b"t" if value else b"f"


def _int_text(value: int) -> bytes:
    return b"%d" % value


def _numeric_text(value: Decimal) -> bytes:
    return f"{value:f}".encode()


def _date_text(value: dt.date) -> bytes:
    return value.isoformat().encode()


def _date_binary(value: dt.date) -> bytes:
    return struct.pack("!i", (value - _DAY0).days)


def _bool_binary(value: bool) -> bytes:
    return struct.pack("!?", value)


BOOL = WireType(16, "bool", 1, _bool_text, _bool_binary, 1000)
BYTEA = WireType(17, "bytea", -1, lambda v: b"\\x" + v.hex().encode(), bytes, 1001)
INT2 = WireType(21, "int2", 2, _int_text, struct.Struct("!h").pack, 1005)
INT4 = WireType(23, "int4", 4, _int_text, struct.Struct("!i").pack, 1007)
INT8 = WireType(20, "int8", 8, _int_text, struct.Struct("!q").pack, 1016)
OID = WireType(26, "oid", 4, _int_text, struct.Struct("!I").pack, 1028)
FLOAT4 = WireType(700, "float4", 4, _float_text, struct.Struct("!f").pack, 1021)
FLOAT8 = WireType(701, "float8", 8, _float_text, struct.Struct("!d").pack, 1022)
NUMERIC = WireType(1700, "numeric", -1, _numeric_text, _numeric_binary, 1231)
TEXT = WireType(25, "text", -1, _plain, _plain, 1009)
DATE = WireType(1082, "date", 4, _date_text, _date_binary, 1182)
TIME = WireType(1083, "time", 8, lambda v: v.isoformat().encode(), _time_binary, 1183)
TIMESTAMP = WireType(1114, "timestamp", 8, _moment_text, _moment_binary, 1115)
TIMESTAMPTZ = WireType(1184, "timestamptz", 8, _moment_text, _moment_binary, 1185)
TYPES = (
    BOOL,
    BYTEA,
    INT2,
    INT4,
    INT8,
    OID,
    FLOAT4,
    FLOAT8,
    NUMERIC,
    TEXT,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
)
BY_OID = {t.oid: t for t in TYPES}
_ARRAYS = {t.array: t for t in TYPES} | {1015: TEXT, 1002: TEXT, 1003: TEXT}
_TEXTS = frozenset((0, 18, 19, 25, 705, 1042, 1043, 2950))
_NAMED = (24, 2205, 2206)  # functions, relations and types, by number or by name
_WHOLE = {20: 8, 21: 2, 23: 4, 26: 4, 2205: 4, 2206: 4, 24: 4}


def wire_type(type: pa.DataType) -> WireType:
    """Return the type that a column of Arrow is sent as."""
    kinds = pa.types
    if kinds.is_boolean(type):
        return BOOL
    if kinds.is_int8(type) or kinds.is_int16(type) or kinds.is_uint8(type):
        return INT2
    if kinds.is_int32(type) or kinds.is_uint16(type):
        return INT4
    if kinds.is_uint32(type):
        return OID
    if kinds.is_int64(type):
        return INT8
    if kinds.is_uint64(type) or kinds.is_decimal(type):
        return NUMERIC
    if kinds.is_floating(type):
        return FLOAT4 if kinds.is_float32(type) else FLOAT8
    if kinds.is_date(type):
        return DATE
    if kinds.is_time(type):
        return TIME
    if kinds.is_timestamp(type):
        return TIMESTAMPTZ if type.tz else TIMESTAMP
    if kinds.is_binary(type) or kinds.is_large_binary(type):
        return BYTEA
    if kinds.is_list(type) or kinds.is_large_list(type):
        return _array(wire_type(type.value_type))
    return TEXT


def fields(schema: pa.Schema) -> list[Field]:
    """Return the columns of a result as clients see them."""
    columns = [(column.name, wire_type(column.type)) for column in schema]
    return [Field(name, type.oid, type.size) for name, type in columns]


def encoders(schema: pa.Schema, formats: Sequence[int]) -> list[Encoder]:
    """Return what writes each column's values; formats are 0 (text) and 1 (binary)."""
    types = [wire_type(column.type) for column in schema]
    return [t.binary if f else t.text for t, f in zip(types, formats, strict=True)]


def _array(element: WireType) -> WireType:
    def text(values: list[Any]) -> bytes:
        return b"{" + b",".join(map(_item, values)) + b"}"

    def _item(value: Any) -> bytes:
        if value is None:
            return b"NULL"
        item = element.text(value)
        if element is not TEXT or (_BARE.fullmatch(item) and item.upper() != b"NULL"):
            return item
        return b'"' + item.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'

    def binary(values: list[Any]) -> bytes:
        nulls = any(v is None for v in values)
        head = struct.pack("!iii", 1 if values else 0, nulls, element.oid)
        parts = [head, struct.pack("!ii", len(values), 1) if values else b""]
        for value in values:
            item = None if value is None else element.binary(value)
            parts.append(
                struct.pack("!i", -1) if item is None else struct.pack("!i", len(item)) + item
            )
        return b"".join(parts)

    return WireType(element.array, element.name + "[]", -1, text, binary, element.array)


_BARE = re.compile(rb"[^\s{}\",\\]+")


def parameter(data: bytes | None, oid: int, format: int) -> Value | list[Value]:
    """Return the value of a parameter.

    Raises:
        WireError: The bytes are none of its type.

    Example:
        >>> parameter(b"7", 23, 0), parameter(bytes([0, 0, 0, 7]), 23, 1), parameter(b"7", 0, 0)
        (7, 7, '7')
    """
    if data is None:
        return None
    try:
        return _from_binary(data, oid) if format else _from_text(data.decode(), oid)
    except (ValueError, OverflowError, InvalidOperation, struct.error, IndexError):
        named = BY_OID.get(oid, TEXT).name
        raise bad_value(f"the value of a parameter is no {named}") from None


def _from_text(text: str, oid: int) -> Value | list[Value]:
    if "\0" in text:
        raise ValueError
    if oid in _ARRAYS:
        element = _ARRAYS[oid].oid
        return [
            one for i in array_items(text) if not isinstance(one := _from_text(i, element), list)
        ]
    if oid in _NAMED and not text.isdecimal():
        return text
    if oid in _WHOLE:
        return int(text)
    match oid:
        case 16:
            return _truth(text)
        case 700 | 701:
            return float(text)
        case 1700:
            return _finite(Decimal(text))
        case 1082:
            return dt.date.fromisoformat(text.strip())
        case 1114:
            return _without_zone(dt.datetime.fromisoformat(text.strip()))
        case 1184:
            return _in_utc(dt.datetime.fromisoformat(text.strip()))
    return text


def _from_binary(data: bytes, oid: int) -> Value | list[Value]:
    if oid in _TEXTS:
        return _from_text(data.decode(), 0)
    if oid in _ARRAYS:
        return _array_from_binary(data)
    if oid in _WHOLE:
        if len(data) != _WHOLE[oid]:
            raise ValueError
        return int.from_bytes(data, "big", signed=oid != 26)
    match oid:
        case 16:
            return bool(struct.unpack("!B", data)[0])
        case 700:
            return float(struct.unpack("!f", data)[0])
        case 701:
            return float(struct.unpack("!d", data)[0])
        case 1700:
            return _numeric_from_binary(data)
        case 1082:
            return _DAY0 + dt.timedelta(days=struct.unpack("!i", data)[0])
        case 1114 | 1184:
            moment = _TIME0 + int(struct.unpack("!q", data)[0]) * _MICROSECOND
            return moment.replace(tzinfo=dt.UTC) if oid == 1184 else moment
    raise WireError(
        INVALID_PARAMETER, f"a binary parameter of type number {oid} is not read", "send it as text"
    )


def _numeric_from_binary(data: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHh", data)
    groups = struct.unpack_from(f"!{max(count, 0)}h", data, 8)
    if sign not in (0, 0x4000) or count < 0 or abs(weight) > 100 or not 0 <= scale <= 1000:
        raise ValueError
    digits = tuple(map(int, "".join(f"{g:04d}" for g in groups)))
    whole = Decimal((int(sign != 0), digits or (0,), 4 * (weight - count + 1)))
    return whole.quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _array_from_binary(data: bytes) -> list[Value]:
    dimensions, _, oid = struct.unpack_from("!iii", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError
    count, at, items = struct.unpack_from("!i", data, 12)[0], 20, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", data, at)
        at += 4
        if length < -1 or at + length > len(data):
            raise ValueError
        item = parameter(None if length < 0 else data[at : at + length], oid, 1)
        if isinstance(item, list):
            raise ValueError
        items.append(item)
        at += max(length, 0)
    return items


def array_items(text: str) -> list[str]:
    """Return the items of an array's text, such as `{a,"b c"}`.

    Raises:
        ValueError: It is none.

    Example:
        >>> array_items('{a,"b, c"}'), array_items("{}")
        (['a', 'b, c'], [])
    """
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError
    inside, items, at = text[1:-1], [], 0
    while at < len(inside):
        match = _ITEM.match(inside, at)
        if match is None:
            raise ValueError
        quoted = match["quoted"]
        items.append(match["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = match.end()
    return items


_ITEM = re.compile(
    r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^,{}"\\]+))\s*(?:,|$)', re.DOTALL
)


def _truth(text: str) -> bool:
    word = text.strip().lower()
    for value, words in ((True, ("true", "yes", "on", "1")), (False, ("false", "no", "off", "0"))):
        if word and any(w.startswith(word) for w in words) and word != "o":
            return value
    raise ValueError


def _finite(number: Decimal) -> Decimal:
    if not number.is_finite():
        raise ValueError
    return number


def _in_utc(moment: dt.datetime) -> dt.datetime:
    """Return a moment in UTC; without an offset, its zone would be guessed."""
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(dt.UTC)


def _without_zone(moment: dt.datetime) -> dt.datetime:
    """Return a time without a zone; PostgreSQL would drop an offset, and nobody would know."""
    if moment.utcoffset():
        raise ValueError
    return moment.replace(tzinfo=None)


# -- types of parameters: told by the client, or from where they stand -----------------------------

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
        WireError: It is not known.
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
    """Return the types of parameters: as given, else as they are cast, or what they stand beside.

    Args:
        statement: The statement's tokens.
        given: What the client says; 0: it does not know.
        column: The column of people's tables of a name, if there is one.
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
    """Return the type that a parameter is cast to; 0: it is not."""
    places = [i for i, t in enumerate(statement) if t.text == f"${number}"]
    return next((type for i in places if (type := _cast(statement, i))), 0)


def _beside(statement: Sequence[Token], i: int, column: Callable[[str], Column | None]) -> int:
    """Return the type of the column that a parameter is compared with; 0: it is with none."""
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
    """Return the column that the parameter at a place is compared with; None: none is known."""
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
    """Return a value for each parameter, to describe a statement by: of its column, or its type."""
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


# -- results of statements: a table and a tag, sent as rows or as COPY writes them -----------------

BLOCK = 1_000
"""Rows that are written before a slow client is waited for."""


@dataclass(frozen=True)
class CopyFormat:
    """The form in which COPY writes rows."""

    format: str = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    forced: bool = False


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement.

    Attributes:
        tag: What was done; of rows, their number is added.
        table: The rows; None: the statement has none.
        copying: The rows are sent as COPY writes them.
    """

    tag: str
    table: pa.Table | None = None
    copying: CopyFormat | None = None


def describe_rows(schema: pa.Schema | None, formats: Sequence[int]) -> bytes:
    """Return RowDescription, or NoData."""
    if schema is None:
        return messages.NO_DATA
    return messages.row_description(fields(schema), spread(formats, len(schema)))


def spread(formats: Sequence[int], columns: int) -> list[int]:
    """Return one format a column: none given is text, one is for all.

    Raises:
        WireError: There are neither none, nor one, nor as many as columns.
    """
    if len(formats) not in (0, 1, columns):
        problem = f"{len(formats)} formats are given for {columns} columns"
        raise WireError(PROTOCOL_VIOLATION, problem)
    return list(formats) if len(formats) == columns else [*(formats or (0,))] * columns


def rows(table: pa.Table, formats: Sequence[int]) -> Iterator[bytes]:
    """Yield DataRows, a block at a time."""
    written = encoders(table.schema, spread(formats, table.num_columns))
    for start in range(0, table.num_rows, BLOCK):
        block = table.slice(start, BLOCK)
        columns = [
            [None if v is None else write(v) for v in column.to_pylist()]
            for write, column in zip(written, block.columns, strict=True)
        ]
        lines = zip(*columns, strict=True) if columns else [()] * block.num_rows
        yield b"".join(map(messages.data_row, lines))


def cast_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the types that were described before it was there.

    Numbers are rounded where whole ones were described; nothing fails but a value that is no
    number, which becomes text's NULL.
    """
    if table.schema.equals(schema) or len(schema) != table.num_columns:
        return table
    columns = [_cast_column(c, f.type) for c, f in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast_column(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if column.type.equals(type):
        return column
    try:
        if pa.types.is_integer(type) and pa.types.is_floating(column.type):
            column = pc.round(column)
        return column.cast(type, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([pa.nulls(len(column), type)])


def copy_out(table: pa.Table, how: CopyFormat) -> Iterator[bytes]:
    """Yield what COPY … TO STDOUT sends, from CopyOutResponse to CopyDone."""
    binary = how.format == "binary"
    yield messages.copy_out(table.num_columns, int(binary))
    if binary:
        yield from _copied_binary(table)
    else:
        line = _csv_line if how.format == "csv" else _text_line
        if how.header:
            names: list[bytes | None] = [n.encode(errors="replace") for n in table.column_names]
            yield messages.copy_data(line(names, how))
        written = encoders(table.schema, [0] * table.num_columns)
        for start in range(0, table.num_rows, BLOCK):
            columns = [
                [None if v is None else write(v) for v in column.to_pylist()]
                for write, column in zip(written, table.slice(start, BLOCK).columns, strict=True)
            ]
            lines = (messages.copy_data(line(row, how)) for row in zip(*columns, strict=True))
            yield b"".join(lines)
    yield messages.COPY_DONE


def _copied_binary(table: pa.Table) -> Iterator[bytes]:
    head = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
    for block in rows(table, [1]):
        yield b"".join(_copy_rows(block, head))
        head = b""
    yield messages.copy_data(head + struct.pack("!h", -1))


def _copy_rows(block: bytes, head: bytes) -> Iterator[bytes]:
    """Turn DataRows into CopyData: the same bytes after the length."""
    at = 0
    while at < len(block):
        (length,) = struct.unpack_from("!i", block, at + 1)
        yield messages.copy_data(head + block[at + 5 : at + 1 + length])
        head, at = b"", at + 1 + length


_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\b": b"\\b"}


def _text_line(values: Sequence[bytes | None], how: CopyFormat) -> bytes:
    cells = []
    for value in values:
        if value is None:
            cells.append(how.null.encode())
            continue
        for raw, escaped in _ESCAPES.items():
            value = value.replace(raw, escaped)
        if how.delimiter != "\t":
            value = value.replace(how.delimiter.encode(), b"\\" + how.delimiter.encode())
        cells.append(value)
    return how.delimiter.encode().join(cells) + b"\n"


def _csv_line(values: Sequence[bytes | None], how: CopyFormat) -> bytes:
    quote, null, delimiter = how.quote.encode(), how.null.encode(), how.delimiter.encode()
    cells = []
    for value in values:
        if value is None:
            cells.append(null)
            continue
        special = any(c in value for c in (quote, delimiter, b"\n", b"\r"))
        if special or value == null or how.forced or (len(values) == 1 and value == b"\\."):
            value = quote + value.replace(quote, quote * 2) + quote
        cells.append(value)
    return delimiter.join(cells) + b"\n"
