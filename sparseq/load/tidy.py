"""Arrow arrays of any type become arrays of a few types, value by value.

    text        string: valid UTF-8 without NUL; from every kind of string, from binary where it is
                to be text, and from decimals too wide for DuckDB
    numbers     bool, int8 … uint64, float, double, decimal128
    times       date32 and timestamp[us], of the years 1 to 9999; time64[us]
    uuid        Arrow's extension type
    nothing     lists, structs, maps, unions, durations, intervals

What comes out has the type that the type of what went in says (`tidy_type`). No value decides about
another: what has no place in its new type is NULL.

The types of text columns, guessed from the first rows of the files that a table is made of.

A guess is made once, when a table is made, and shown to the curator: it is as public as what is
declared, and what has no effect on it later can't be told from it. What comes after is read by it.

The first of these that every text fits: true or false; whole numbers; numbers; numbers with a
decimal comma; a date, a moment in ISO 8601; one of the other formats; a time of day; text.
Identifiers of people are whole numbers or text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.texts import shown
from sparseq.load.convert import from_text, literal
from sparseq.load.read_schema import MOST_DIGITS
from sparseq.sql.catalog import INTEGER_TYPES

# -- arrow arrays of any type become arrays of a few types, value by value -------------------------

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
    """Return the type that arrays of a type get; None if nothing can be made of them.

    Args:
        kind: Any type.
        binary: Binary values are texts.
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
    return pa.string() if binary and any(is_of(kind) for is_of in _BINARY) else None


def duck_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of a tidy type."""
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
        return tidy(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return tidy(pc.run_end_decode(array))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return _moments(array)
    becomes = tidy_type(kind, binary=True)
    assert becomes is not None
    if pa.types.is_string(becomes) or pa.types.is_large_string(becomes):
        return texts(array) if not pa.types.is_decimal(kind) else array.cast(becomes)
    return array.cast(becomes)


def texts(array: pa.Array) -> pa.Array:
    """Return text; NUL becomes the replacement character, and what is no UTF-8 is NULL."""
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    raw = array.cast(pa.large_binary() if large else pa.binary())
    kind = pa.large_string() if large else pa.string()
    try:
        clean = raw.cast(kind)
    except pa.ArrowInvalid:  # somewhere in it; only those values change
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
    """Tell which texts have more than `most` characters; None if none can have."""
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = array.buffers()[1]
    if len(array) == 0 or offsets is None:
        return None
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    if int(np.diff(ends).max()) <= most:
        return None
    return pc.greater(pc.utf8_length(array), most)


def tidy_words(array: pa.DictionaryArray, most: int) -> pa.DictionaryArray | None:
    """Return texts with a tidy dictionary; None where that is no shorter, or a text is too long."""
    if len(array.dictionary) > len(array) or array.dictionary.null_count:
        return None
    words = tidy(array.dictionary)
    if long_texts(words, most) is not None:
        return None
    return pa.DictionaryArray.from_arrays(array.indices, words)


def _moments(array: pa.Array) -> pa.Array:
    """Return dates, timestamps and times of day in one unit each, and NULL out of range."""
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
    return pa.array(moments, pa.int64(), mask=(fit != values) | _missing(array)).view(becomes)


def in_our_years(array: pa.Array) -> bool:
    """Tell whether all dates, or timestamps[us], are of the years 1 to 9999: nearly always."""
    a_day = 1 if pa.types.is_date32(array.type) else _A_DAY * 10**6
    found = pc.min_max(array.view(pa.int32() if a_day == 1 else pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    return low is None or FIRST_DAY * a_day <= low <= high < (LAST_DAY + 1) * a_day


def _within(values: Any, low: int, high: int, array: pa.Array) -> pa.Array:
    fit = np.clip(values, low, high)
    return pa.array(fit, pa.int64(), mask=(fit != values) | _missing(array))


def _missing(array: pa.Array) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def stored_type(kind: pa.DataType, raw: pa.DataType) -> str:
    """Return the type that a column of a tidy type is stored in, if nothing is declared."""
    if (pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS) or (
        pa.types.is_decimal(raw) and not pa.types.is_decimal(kind)
    ):
        return "DOUBLE"
    return duck_type(kind)


def kept_otherwise(raw: pa.DataType, stored: str) -> str:
    """Return how values of a type are kept, in words, where that is not as they are; else "".

    >>> kept_otherwise(pa.timestamp("us", "Europe/Berlin"), "TIMESTAMP")
    'moments of Europe/Berlin, kept in UTC'
    >>> kept_otherwise(pa.int64(), "BIGINT")
    ''
    """
    said = []
    if pa.types.is_timestamp(raw) and raw.tz and raw.tz.upper() not in ("UTC", "ETC/UTC"):
        said.append(f"moments of {shown(raw.tz)}, kept in UTC")
    if (pa.types.is_timestamp(raw) or pa.types.is_time(raw)) and raw.unit == "ns":
        said.append("nanoseconds are cut to microseconds")
    if pa.types.is_decimal(raw) and stored == "DOUBLE":
        said.append(f"{raw} is kept as DOUBLE, with 15 digits")
    return "; ".join(said)


# -- the types of text columns ---------------------------------------------------------------------

_DAYS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d.%m.%y",
)
_BEGINNING = 128  # most of what does not fit is told by the first texts
PLACEHOLDERS = ("NA", "N/A", "#N/A", "null", "None", "nan", "NaN", "-", "?", "unknown")
"""Texts that say nothing of a column's type: where it is no text, they don't fit, and are NULL."""
_TIMES = (" %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p")


@dataclass(frozen=True)
class Guess:
    """The type that a column is taken for.

    Attributes:
        type, format: See `schema.Schema`.
        also: Other formats that fit all that was looked at.
        like: What most of the texts look like, though not all fit: the column is of texts.
    """

    type: str
    format: str = ""
    also: tuple[str, ...] = ()
    like: str = ""


def guess(
    con: duckdb.DuckDBPyConnection, texts: pa.Array, user: bool = False, words: bool = False
) -> Guess:
    """Return what texts are taken for.

    Args:
        con: What to ask: see `connection.connected`.
        texts: The first of a column, NULL for none.
        user: They identify people.
        words: They are no numbers or truth values, whatever they look like: strings in JSON.

    >>> from sparseq.engine._duckdb.connection import connected
    >>> con = connected()
    >>> guess(con, pa.array(["1", "2"])).type, guess(con, pa.array(["1.5", "2"])).type
    ('BIGINT', 'DOUBLE')
    >>> guess(con, pa.array(["01/02/2024"]))
    Guess(type='DATE', format='%d/%m/%Y', also=('%m/%d/%Y',), like='')
    """
    if not user:
        said = pc.is_in(texts, pa.array(PLACEHOLDERS, texts.type))
        texts = pc.if_else(said, pa.scalar(None, texts.type), texts)
    if texts.null_count == len(texts):
        return Guess("VARCHAR")
    con.register("texts", pa.table({"x": texts}))
    con.register("beginning", pa.table({"x": texts.slice(0, _BEGINNING)}))

    def fits(test: str) -> bool:
        return all(_all_pass(con, test, texts) for texts in ("beginning", "texts"))

    if user:
        whole = f"({from_text('x', 'BIGINT')}) IS NOT NULL"
        return Guess("BIGINT" if not words and fits(whole) else "VARCHAR")
    for type, format, test in _candidates(words):
        if fits(test):
            others = _candidates(words) if format not in ("", ",") else ()
            also = tuple(
                f
                for t, f, test in others
                if t == type
                and f not in ("", format)
                and _tell(con, type, format, f)
                and fits(test)
            )
            return Guess(type, format, also + _thousands(con, type, format))
    return Guess("VARCHAR", like=next((k for k, test in _LIKE.items() if _most(con, test)), ""))


_LIKE = {
    "dates": r"\s*[0-9]{1,4}([./-])[0-9]{1,2}[./-][0-9]{2,4}([ T].*)?",
    "numbers": r"\s*[+-]?[0-9][0-9.,]*\s*",
}
_GROUPED = {"": r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}", ",": r"[+-]?[1-9][0-9]{0,2},[0-9]{3}"}


def _most(con: duckdb.DuckDBPyConnection, pattern: str) -> bool:
    """Tell whether most texts are so."""
    fit = f"count(*) FILTER (WHERE regexp_full_match(x, '{pattern}')) * 2 > count(x)"
    return con.execute(f"SELECT {fit} FROM texts").fetchall() == [(True,)]


def _thousands(con: duckdb.DuckDBPyConnection, type: str, format: str) -> tuple[str, ...]:
    """Return what else a number may mean by its point or comma: thousands, if all could be so."""
    if type != "DOUBLE" or format not in _GROUPED:
        return ()
    grouped = f"regexp_full_match(x, '{_GROUPED[format]}')"
    return ("thousands",) if _all_pass(con, grouped, "texts") else ()


def _all_pass(con: duckdb.DuckDBPyConnection, test: str, texts: str) -> bool:
    passed = f"SELECT coalesce(bool_and(coalesce({test}, false)), true) FROM {texts}"
    return con.execute(f"{passed} WHERE x IS NOT NULL").fetchall() == [(True,)]


def _tell(con: duckdb.DuckDBPyConnection, type: str, format: str, other: str) -> bool:
    """Tell whether two formats make different moments of a text."""
    a, b = from_text("x", type, format), from_text("x", type, other)
    ((differ,),) = con.execute(
        f"SELECT bool_or(({a}) IS DISTINCT FROM ({b})) FROM texts"
    ).fetchall()
    return bool(differ)


def _candidates(words: bool) -> Iterator[tuple[str, str, str]]:
    """Return types and formats, each with a test in SQL."""
    if not words:
        yield "BOOLEAN", "", "lower(x) IN ('true', 'false')"
        yield "BIGINT", "", f"NOT contains(x, '.') AND ({from_text('x', 'BIGINT')}) IS NOT NULL"
        yield "DOUBLE", "", "NOT contains(x, '_') AND TRY_CAST(x AS DOUBLE) IS NOT NULL"
        decimal = from_text("x", "DOUBLE", ",")
        yield "DOUBLE", ",", f"regexp_matches(x, '[0-9]$') AND ({decimal}) IS NOT NULL"
    yield "DATE", "", f"strlen(x) <= 10 AND ({from_text('x', 'DATE')}) IS NOT NULL"
    yield "TIMESTAMP", "", f"({from_text('x', 'TIMESTAMP')}) IS NOT NULL"
    for type, ends in (("DATE", ("",)), ("TIMESTAMP", _TIMES)):
        for format in (day + end for end in ends for day in _DAYS):
            year = f"year(try_strptime(x, {literal(format)}))"
            yield type, format, f"{year} >= 1000" if "%Y" in format else f"{year} > 0"
    yield "TIME", "", f"contains(x, ':') AND ({from_text('x', 'TIME')}) IS NOT NULL"


def wider(one: str, other: str) -> str:
    """Return a type for what files of one table have as two."""
    types = {one, other}
    if len(types) == 1:
        return one
    if types <= INTEGER_TYPES:
        return "BIGINT"
    if all(t in INTEGER_TYPES or t in ("FLOAT", "DOUBLE") or t[:7] == "DECIMAL" for t in types):
        return "DOUBLE"
    return "TIMESTAMP" if types == {"DATE", "TIMESTAMP"} else "VARCHAR"
