"""Conversion of Arrow arrays of any type to arrays of a few types, value by value.

    text        string: valid UTF-8 without NUL; from every kind of string, from binary where it is
                to be text, and from decimals too wide for DuckDB
    numbers     bool, int8 … uint64, float, double, decimal128
    times       date32 and timestamp[us], of the years 1 to 9999; time64[us]
    uuid        Arrow's extension type
    lists       of texts, int64, double, bool or date32, cut to `MOST_LISTED` values
    nothing     structs, maps, lists of lists, unions, durations, intervals

The type of the input alone decides the type of the output (`tidy_type`). No value affects another:
a value that does not fit its new type is NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base._duckdb.connection import scratch
from sparseq.base.texts import shown
from sparseq.language.types import LISTS, MOST_LISTED
from sparseq.load.convert import MOST_TEXT
from sparseq.load.read_schema import MOST_DIGITS

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
_A_DAY = 86_400
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


_DUCK = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "date32[day]": "DATE",
    "timestamp[us]": "TIMESTAMP",
    "time64[us]": "TIME",
}


def tidy_type(kind: pa.DataType, binary: bool = False) -> pa.DataType | None:
    """Return the tidy type for arrays of a type; None if the type can't be used.

    Args:
        kind: Any type.
        binary: True if binary values are texts.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind.extension_name == "arrow.uuid" else tidy_type(kind.storage_type, binary)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return tidy_type(kind.value_type, binary)
    if pa.types.is_decimal(kind):
        fits = kind.bit_width <= 128 and 0 <= kind.scale <= kind.precision
        return pa.decimal128(kind.precision, kind.scale) if fits else pa.string()
    for types, becomes in _BECOMES:
        if any(is_of(kind) for is_of in types):
            return kind if becomes is None else becomes
    if any(is_of(kind) for is_of in _LISTS):
        inside = _inner_type(tidy_type(kind.value_type))
        return None if inside is None else pa.list_(inside)
    return pa.string() if binary and any(is_of(kind) for is_of in _BINARY) else None


def _inner_type(kind: pa.DataType | None) -> pa.DataType | None:
    """Return the tidy type of values in lists; None: such lists are not stored."""
    if kind is None or isinstance(kind, pa.BaseExtensionType):
        return None
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_large_string(kind):
        return pa.string()
    return kind if f"{_DUCK.get(str(kind))}[]" in LISTS else None


def duck_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of a tidy type."""
    if pa.types.is_list(kind):
        return f"{duck_type(kind.value_type)}[]"
    if isinstance(kind, pa.BaseExtensionType):
        return "UUID"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _DUCK[str(kind)]


_BECOMES: list[tuple[list[Any], pa.DataType | None]] = [
    ([pa.types.is_null, pa.types.is_string, pa.types.is_string_view], pa.string()),
    ([pa.types.is_large_string], pa.large_string()),
    ([pa.types.is_boolean, pa.types.is_integer, pa.types.is_float32, pa.types.is_float64], None),
    ([pa.types.is_float16], pa.float32()),
    ([pa.types.is_date], pa.date32()),
    ([pa.types.is_timestamp], pa.timestamp("us")),
    ([pa.types.is_time], pa.time64("us")),
]


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def tidy(array: pa.Array) -> pa.Array:
    """Return an array of the type that `tidy_type` gives; binary values become text."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return array if kind.extension_name == "arrow.uuid" else tidy(array.storage)
    if pa.types.is_dictionary(kind):
        if pa.types.is_string_view(kind.value_type):  # a type that Arrow can't decode
            words = array.dictionary.cast(pa.string())
            array = pa.DictionaryArray.from_arrays(array.indices, words)
        return tidy(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return tidy(pc.run_end_decode(array))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return _moments(array)
    becomes = tidy_type(kind, binary=True)
    assert becomes is not None
    if pa.types.is_list(becomes):
        return _lists(array, becomes.value_type)
    if pa.types.is_string(becomes) or pa.types.is_large_string(becomes):
        return texts(array) if not pa.types.is_decimal(kind) else array.cast(becomes)
    return array.cast(becomes)


def _lists(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists of tidy values, each cut to `MOST_LISTED`."""
    some = pc.list_slice(array, 0, MOST_LISTED, return_fixed_size_list=False)
    lengths = pc.fill_null(pc.list_value_length(some), 0)
    ends = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    values = tidy(some.flatten())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        long = long_texts(values, MOST_TEXT)
        cut = values if long is None else pc.utf8_slice_codeunits(values, 0, MOST_TEXT)
        values = cut.cast(pa.string())
    whole = pc.cast(values, kind, safe=False)  # for uint64 beyond int64, see below
    if pa.types.is_unsigned_integer(values.type):
        whole = pc.if_else(pc.less(whole, 0), pa.scalar(None, kind), whole)
    if pa.types.is_floating(kind):  # one zero, and one NaN: equal values have one form
        whole = pc.add(whole, pa.scalar(0.0, kind))
        whole = pc.if_else(pc.is_nan(whole), pa.scalar(float("nan"), kind), whole)
    missing = pa.array(array.is_null().to_numpy(zero_copy_only=False))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), whole, mask=missing)


def list_of(kinds: set[type]) -> str:
    """Return the type of lists by the types of their values; "": they are not stored.

    >>> list_of({str, type(None)}), list_of({int, float}), list_of({int}), list_of({str, list})
    ('VARCHAR[]', 'DOUBLE[]', 'BIGINT[]', '')
    """
    some = kinds - {type(None)}
    if some & {list, dict}:
        return ""
    for of, name in ({int}, "BIGINT"), ({int, float}, "DOUBLE"), ({bool}, "BOOLEAN"):
        if some and some <= of:
            return f"{name}[]"
    return "VARCHAR[]"


def long_lists(array: pa.Array) -> int:
    """Return the number of lists, in Arrow or in JSON, that are longer than `MOST_LISTED`."""
    if any(is_of(array.type) for is_of in _LISTS):
        longer = pc.greater(pc.list_value_length(array), MOST_LISTED)
        return pc.sum(longer).as_py() or 0
    becomes = tidy_type(array.type, binary=True)
    if becomes is None or not (pa.types.is_string(becomes) or pa.types.is_large_string(becomes)):
        return 0
    written = texts(array)
    long = written.filter(pc.greater(pc.binary_length(written), 2 * MOST_LISTED))
    if not len(long):
        return 0
    with scratch() as con:
        con.register("long", pa.table({"x": long}))
        more = f"json_array_length(CASE WHEN json_valid(x) THEN x END) > {MOST_LISTED}"
        ((count,),) = con.execute(f"SELECT count(*) FROM long WHERE {more}").fetchall()
    return int(count)


def texts(array: pa.Array) -> pa.Array:
    """Return text; NUL becomes the replacement character, and text that is not UTF-8 is NULL."""
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    raw = array.cast(pa.large_binary() if large else pa.binary())
    kind = pa.large_string() if large else pa.string()
    try:
        clean = raw.cast(kind)
    except pa.ArrowInvalid:  # in some of the values; only these change
        values = raw.to_pylist()
        clean = pa.array(map(_text, values), kind, size=len(values))
    data = clean.buffers()[2]
    if data is not None and data.size and not np.frombuffer(data, np.uint8).all():
        clean = pc.replace_substring(clean, "\0", "\N{REPLACEMENT CHARACTER}")
    return clean


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def long_texts(array: pa.Array, most: int) -> pa.Array | None:
    """Return a mask of texts with more than `most` characters; None if none can be longer."""
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = array.buffers()[1]
    if len(array) == 0 or offsets is None:
        return None
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    if int(np.diff(ends).max()) <= most:
        return None
    return pc.greater(pc.utf8_length(array), most)


def tidy_words(array: pa.DictionaryArray, most: int) -> pa.DictionaryArray | None:
    """Return texts with a tidy dictionary; None if that is no shorter, or a text is too long."""
    if len(array.dictionary) > len(array) or array.dictionary.null_count:
        return None
    words = tidy(array.dictionary)
    if long_texts(words, most) is not None:
        return None
    return pa.DictionaryArray.from_arrays(array.indices, words)


def _moments(array: pa.Array) -> pa.Array:
    """Return dates, timestamps and times of day in one unit each, with NULL for out of range."""
    kind = array.type
    if (pa.types.is_date32(kind) or kind == pa.timestamp("us")) and in_our_years(array):
        return array
    narrow = pa.types.is_date32(kind) or pa.types.is_time32(kind)
    raw = array.view(pa.int32() if narrow else pa.int64())
    values = pc.fill_null(raw, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_date32(kind):
        return _within(values, FIRST_DAY, LAST_DAY, array).cast(pa.int32()).view(pa.date32())
    if pa.types.is_date64(kind):
        days = np.floor_divide(values, _A_DAY * 1000)
        return _within(days, FIRST_DAY, LAST_DAY, array).cast(pa.int32()).view(pa.date32())
    unit = _UNITS[kind.unit]
    if pa.types.is_timestamp(kind):
        low, high, becomes = FIRST_DAY * _A_DAY, (LAST_DAY + 1) * _A_DAY, pa.timestamp("us")
    else:
        low, high, becomes = 0, _A_DAY, pa.time64("us")
    low, high = max(low * unit, -(2**63)), min(high * unit, 2**63) - 1
    fit = np.clip(values, low, high)
    moments = np.floor_divide(fit, unit // 10**6) if unit > 10**6 else fit * (10**6 // unit)
    return pa.array(moments, pa.int64(), mask=(fit != values) | _null_mask(array)).view(becomes)


def in_our_years(array: pa.Array) -> bool:
    """Tell whether all dates, or timestamps[us], are in the years 1 to 9999: nearly always."""
    a_day = 1 if pa.types.is_date32(array.type) else _A_DAY * 10**6
    found = pc.min_max(array.view(pa.int32() if a_day == 1 else pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    return low is None or FIRST_DAY * a_day <= low <= high < (LAST_DAY + 1) * a_day


def _within(values: Any, low: int, high: int, array: pa.Array) -> pa.Array:
    fit = np.clip(values, low, high)
    return pa.array(fit, pa.int64(), mask=(fit != values) | _null_mask(array))


def _null_mask(array: pa.Array) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def stored_type(kind: pa.DataType, raw: pa.DataType) -> str:
    """Return the default stored type of a column of a tidy type."""
    if (pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS) or (
        pa.types.is_decimal(raw) and not pa.types.is_decimal(kind)
    ):
        return "DOUBLE"
    return duck_type(kind)


def kept_otherwise(raw: pa.DataType, stored: str) -> str:
    """Return a message about values that are stored in another form; else "".

    >>> kept_otherwise(pa.timestamp("us", "Europe/Berlin"), "TIMESTAMP")
    'moments of Europe/Berlin, kept in UTC'
    >>> kept_otherwise(pa.int64(), "BIGINT")
    ''
    """
    if stored.endswith("[]"):
        return kept_otherwise(raw.value_type, stored.removesuffix("[]"))
    said = []
    if pa.types.is_timestamp(raw) and raw.tz and raw.tz.upper() not in ("UTC", "ETC/UTC"):
        said.append(f"moments of {shown(raw.tz)}, kept in UTC")
    if (pa.types.is_timestamp(raw) or pa.types.is_time(raw)) and raw.unit == "ns":
        said.append("nanoseconds are cut to microseconds")
    if pa.types.is_decimal(raw) and stored == "DOUBLE":
        said.append(f"{raw} is kept as DOUBLE, with 15 digits")
    return "; ".join(said)
