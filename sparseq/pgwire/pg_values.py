"""Values in the formats of PostgreSQL's clients, as text and in binary."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from sparseq.pgwire.server_messages import Field
from sparseq.pgwire.wire_errors import INVALID_PARAMETER, WireError, bad_value
from sparseq.sql.constants import DAY_WITH_ZONE

Value = bool | int | float | str | Decimal | dt.date | dt.datetime | None
Encoder = Callable[[Any], bytes]
_DAY0, _TIME0 = dt.date(2000, 1, 1), dt.datetime(2000, 1, 1)
_WIDE = Context(prec=2_000)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class WireType:
    """A type of PostgreSQL: its number, name and size in bytes, and the writers of its values."""

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
    """Return the type for sending a column of Arrow."""
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
    """Return the columns of a result in the form for clients."""
    columns = [(column.name, wire_type(column.type)) for column in schema]
    return [Field(name, type.oid, type.size) for name, type in columns]


def encoders(schema: pa.Schema, formats: Sequence[int]) -> list[Encoder]:
    """Return the writers of each column's values; formats are 0 (text) and 1 (binary)."""
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
        WireError: The bytes are no value of its type.

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
            moment = _moment(text)
            if moment.time() != dt.time():  # PostgreSQL would drop it silently
                raise ValueError
            return moment.date()  # as written: JDBC's setTimestamp writes a midnight for a date
        case 1114:
            return _without_zone(_moment(text))
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
        ValueError: The text is no array.

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


def _moment(text: str) -> dt.datetime:
    """Return a written time; a day alone may have an offset, as JDBC writes one."""
    day = DAY_WITH_ZONE.fullmatch(text.strip())
    return dt.datetime.fromisoformat(f"{day[1]}T00:00:00{day[2]}" if day else text.strip())


def _in_utc(moment: dt.datetime) -> dt.datetime:
    """Return a moment in UTC; without an offset, its zone would be guessed."""
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(dt.UTC)


def _without_zone(moment: dt.datetime) -> dt.datetime:
    """Return a time without a zone; an offset is refused, which PostgreSQL would drop silently.

    JDBC adds the offset of the Java machine to every time, also to a LocalDateTime.
    """
    if moment.utcoffset():
        raise WireError(
            "22P02",
            f"{moment.isoformat(' ')[:40]} has a time zone, and the column has none",
            "stored times are in UTC: bind a time in UTC (Java: -Duser.timezone=UTC)",
        )
    return moment.replace(tzinfo=None)
