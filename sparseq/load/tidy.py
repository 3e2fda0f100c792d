"""Arrow arrays of any type become arrays of a few types, value by value.

    text        string: valid UTF-8 without NUL; from every kind of string, from binary where it is
                to be text, and from decimals too wide for DuckDB
    numbers     bool, int8 … uint64, float, double, decimal128
    times       date32 and timestamp[us], of the years 1 to 9999; time64[us]
    uuid        Arrow's extension type
    lists       of texts, int64, double, bool or date32, cut to `MOST_LISTED` values
    nothing     structs, maps, lists of lists, unions, durations, intervals

What comes out has the type that the type of what went in says (`tidy_type`). No value decides about
another: what has no place in its new type is NULL.

The types of text columns, guessed from the first rows of the files that a table is made of.

A guess is made once, when a table is made, and shown to the curator: it is as public as what is
declared, and what has no effect on it later can't be told from it. What comes after is read by it.

The first of these that every text fits: true or false; whole numbers; numbers; numbers with a
decimal comma, where a comma can be nothing else; a date, a moment in ISO 8601; a time of day; one
of the other formats of dates, where the day and the month can't change places; text. Identifiers of
people are whole numbers or text. What was guessed of a column, and why, is said in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.errors import DataError
from sparseq.base.texts import shown
from sparseq.engine._duckdb.connection import scratch
from sparseq.language.types import LISTS, MOST_LISTED
from sparseq.load.convert import MOST_TEXT, from_text, literal
from sparseq.load.read_schema import MOST_DIGITS, Declarations
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
    if any(is_of(kind) for is_of in _LISTS):
        inside = _inner_type(tidy_type(kind.value_type))
        return None if inside is None else pa.list_(inside)
    return pa.string() if binary and any(is_of(kind) for is_of in _BINARY) else None


def _inner_type(kind: pa.DataType | None) -> pa.DataType | None:
    """Return the type of values in lists, by their own; None: there are no lists of them."""
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
        if pa.types.is_string_view(kind.value_type):  # which Arrow does not decode
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
    whole = pc.cast(values, kind, safe=False)  # of uint64 beyond, see below
    if pa.types.is_unsigned_integer(values.type):
        whole = pc.if_else(pc.less(whole, 0), pa.scalar(None, kind), whole)
    if pa.types.is_floating(kind):  # one zero, and one NaN: as what is equal is to be the same
        whole = pc.add(whole, pa.scalar(0.0, kind))
        whole = pc.if_else(pc.is_nan(whole), pa.scalar(float("nan"), kind), whole)
    missing = pa.array(array.is_null().to_numpy(zero_copy_only=False))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), whole, mask=missing)


def list_of(kinds: set[type]) -> str:
    """Return the type of lists by the types of what is in them; "": they are not stored.

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
    """Return how many lists, as such or as JSON has them, are longer than `MOST_LISTED`."""
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
    return pa.array(moments, pa.int64(), mask=(fit != values) | _null_mask(array)).view(becomes)


def in_our_years(array: pa.Array) -> bool:
    """Tell whether all dates, or timestamps[us], are of the years 1 to 9999: nearly always."""
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


# -- the types of text columns ---------------------------------------------------------------------

_DAYS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%m.%d.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d.%m.%y",
    "%m.%d.%y",
)
_NAMED_DAYS = ("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%y")
_BEGINNING = 128  # most of what does not fit is told by the first texts
PLACEHOLDERS = ("NA", "N/A", "#N/A", "null", "None", "nan", "NaN", "-", "?", "unknown")
"""Texts that say nothing of a column's type: where it is no text, they don't fit, and are NULL."""
_TIMES = (
    " %H:%M:%S",
    " %H:%M",
    " %I:%M:%S %p",
    " %I:%M %p",
    "T%H:%M:%S",
    ", %H:%M:%S",
    ", %H:%M",
    " %H:%M:%S.%f",
)


@dataclass(frozen=True)
class TextHints:
    """Facts of the texts of a column, known before they are looked at.

    Attributes:
        user: They identify people.
        words: They are no numbers or truth values, whatever they look like: strings in JSON.
        commas: A comma in them separates nothing: they may be numbers with a decimal comma.
        dates: The order of dates, one of `read_schema.ORDERS`, that is declared of all columns.
        own_dates: The order that is declared of this column.
    """

    user: bool = False
    words: bool = False
    commas: bool = False
    dates: str = ""
    own_dates: str = ""


@dataclass(frozen=True)
class Guess:
    """The type that a column is taken for.

    Attributes:
        type, format: See `schema.Schema`.
        also: What else the texts can mean: dates in another format, or a doubt ("thousands",
            "zeros", "digits").
        like: What most of the texts look like, though not all fit: the column is of texts.
        example: Of dates that can be read in two ways, one.
        nulls: Which of `PLACEHOLDERS` there are: they are NULL.
    """

    type: str
    format: str = ""
    also: str = ""
    like: str = ""
    example: str = ""
    nulls: tuple[str, ...] = ()


def guess(
    con: duckdb.DuckDBPyConnection, texts: pa.Array, expected: TextHints | None = None
) -> Guess:
    """Return what texts are taken for.

    Args:
        con: What to ask: see `connection.connect`.
        texts: The first of a column, NULL for none.
        expected: What is known of them.

    >>> from sparseq.engine._duckdb.connection import connect
    >>> con = connect()
    >>> guess(con, pa.array(["1", "2"])).type, guess(con, pa.array(["1.5", "2"])).type
    ('BIGINT', 'DOUBLE')
    >>> guess(con, pa.array(["01/02/2024", "25/02/2024"])).format
    '%d/%m/%Y'
    >>> guess(con, pa.array(["01/02/2024"])).also
    '%m/%d/%Y'
    """
    known, nulls = expected or TextHints(), tuple[str, ...]()
    if not known.user:
        said = pc.is_in(texts, pa.array(PLACEHOLDERS, texts.type))
        nulls = tuple(sorted(pc.unique(texts.filter(said)).to_pylist()))
        texts = pc.if_else(said, pa.scalar(None, texts.type), texts)
    if texts.null_count == len(texts):
        return Guess("VARCHAR")
    con.register("texts", pa.table({"x": texts}))
    con.register("beginning", pa.table({"x": texts.slice(0, _BEGINNING)}))
    if known.user:
        return _people(con, known.words)
    if known.own_dates:
        return _declared_dates(con, known.own_dates)
    for type, format, test in chain(_usual(known), _dates_in(con, known.dates)):
        if _fits(con, test):
            also, example = _other_way(con, type, format, known.dates)
            return Guess(type, format, also, "", example, nulls)
    return Guess("VARCHAR", like=_like(con, known))


FOOTERS = (
    *("total", "totals", "grand total", "subtotal", "sum", "average", "mean"),
    *("summe", "gesamt", "gesamtsumme", "insgesamt", "somme", "totale", "suma"),
)
"""Words below a table, in the place of a person; in any case."""


def _people(con: duckdb.DuckDBPyConnection, words: bool) -> Guess:
    """Return what identifiers are taken for."""
    whole = f"({from_text('x', 'BIGINT')}) IS NOT NULL"
    if not words and _fits(con, whole):
        return Guess("BIGINT", also="zeros" * _any(con, _ZEROS))
    among = ", ".join(map(literal, FOOTERS))
    found = con.execute(f"SELECT DISTINCT x FROM texts WHERE lower(trim(x)) IN ({among})")
    if footers := sorted(x for (x,) in found.fetchall()):
        return Guess("VARCHAR", like="footer", example=footers[0])
    return Guess("VARCHAR", like="people" * (not words and _most(con, whole)))


def _most(con: duckdb.DuckDBPyConnection, test: str) -> bool:
    """Tell whether most texts pass a test."""
    fit = f"count(*) FILTER (WHERE {test}) * 2 > count(x)"
    return con.execute(f"SELECT {fit} FROM texts").fetchall() == [(True,)]


def _any(con: duckdb.DuckDBPyConnection, test: str) -> bool:
    """Tell whether some text passes a test."""
    found = con.execute(f"SELECT coalesce(bool_or({test}), false) FROM texts")
    return found.fetchall() == [(True,)]


_ZEROS = r"regexp_matches(x, '^\s*[+-]?0[0-9]')"
_DIGITS = "length(regexp_replace(regexp_extract(x, '[1-9][0-9.,]*'), '[.,]', '', 'g')) > 17"


def _fits(con: duckdb.DuckDBPyConnection, test: str) -> bool:
    return all(_all_pass(con, test, texts) for texts in ("beginning", "texts"))


_NUMBER = r"\s*[+-]?[0-9][0-9.,]*\s*"
_DATE = r"\s*[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}(,?[ T].*)?"
_NAMED_DATE = r"\s*([0-9]{1,2}[ -])?[A-Za-z]{3,9}[ -][0-9]{1,2}.*"
_GROUPED = {"": r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}", ",": r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+"}
_SIGNED = "[-+( €$£¥%''\u00a0\u202f0-9.,)]+"
_LIKE = {
    "dates": f"regexp_full_match(x, '{_DATE}')",
    "numbers": f"regexp_full_match(x, '{_NUMBER}')",
    "signs": f"regexp_full_match(x, '{_SIGNED}') AND regexp_matches(x, '[0-9]')",
}
_THOUSANDS = f"regexp_full_match(x, '[+-]?[0-9]+') OR regexp_full_match(x, '{_GROUPED[',']}')"
_ENGLISH = r"regexp_full_match(x, '[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]+')"
_NESTED = r"regexp_matches(x, '^[\[{].*[\]}]$', 's')"


def _like(con: duckdb.DuckDBPyConnection, known: TextHints) -> str:
    """Return what most texts look like; of words, whether some are written as lists are."""
    if known.words and _any(con, _NESTED):
        return "lists"
    if not known.words and _fits(con, _THOUSANDS):
        return "thousands"
    if not known.words and _any(con, _ENGLISH) and _most(con, _LIKE["numbers"]):
        return "signs"
    for kind, test in _LIKE.items():
        if (not known.words or kind == "dates") and _most(con, test):
            return kind
    return ""


def _all_pass(con: duckdb.DuckDBPyConnection, test: str, texts: str) -> bool:
    passed = f"SELECT coalesce(bool_and(coalesce({test}, false)), true) FROM {texts}"
    return con.execute(f"{passed} WHERE x IS NOT NULL").fetchall() == [(True,)]


def _usual(known: TextHints) -> Iterator[tuple[str, str, str]]:
    """Return types and formats that are no dates in other formats, each with a test in SQL."""
    if not known.words:
        yield "BOOLEAN", "", "lower(x) IN ('true', 'false')"
        yield "BIGINT", "", f"NOT contains(x, '.') AND ({from_text('x', 'BIGINT')}) IS NOT NULL"
        yield "DOUBLE", "", "NOT contains(x, '_') AND TRY_CAST(x AS DOUBLE) IS NOT NULL"
    if known.commas and not known.words:
        decimal = f"regexp_matches(x, '[0-9]$') AND ({from_text('x', 'DOUBLE', ',')}) IS NOT NULL"
        grouped = f"bool_and(NOT contains(x, ',') OR regexp_full_match(x, '{_GROUPED[',']}'))"
        either = f"(SELECT NOT contains(string_agg(x, ''), '.') AND {grouped} FROM texts)"
        yield "DOUBLE", ",", f"{decimal} AND NOT {either}"
    yield "DATE", "", f"strlen(x) <= 10 AND ({from_text('x', 'DATE')}) IS NOT NULL"
    yield "TIMESTAMP", "", f"({from_text('x', 'TIMESTAMP')}) IS NOT NULL"
    time = "regexp_matches(x, '^ *[0-9]{1,2}:')"
    yield "TIME", "", f"{time} AND ({from_text('x', 'TIME')}) IS NOT NULL"


# -- dates in other formats than ISO 8601 ----------------------------------------------------------


def order_of(format: str) -> str:
    """Return in which of `read_schema.ORDERS` a format has a date; "" for another.

    >>> order_of("%d/%m/%Y"), order_of("%m/%d/%Y %H:%M"), order_of("%b %d, %Y"), order_of("")
    ('dmy', 'mdy', '', '')
    """
    return {"%d": "dmy", "%m": "mdy"}.get(format[:2], "") if "%m" in format else ""


def _dates_in(con: duckdb.DuckDBPyConnection, order: str) -> Iterator[tuple[str, str, str]]:
    """Return formats of dates that all texts may be in, by their first look; those of an order
    come first. Between points the day is first, if nothing else is said.
    """
    if _fits(con, f"regexp_full_match(x, '{_DATE}')"):
        days: Sequence[str] = sorted(_DAYS, key=lambda f: order_of(f) not in ("", order or "dmy"))
    elif _fits(con, f"regexp_full_match(x, '{_NAMED_DATE}')"):
        days = _NAMED_DAYS
    else:
        return
    for type, ends in (("DATE", ("",)), ("TIMESTAMP", _TIMES)):
        for format in (day + end for end in ends for day in days):
            yield type, format, _is_date(format)


def _is_date(format: str) -> str:
    year = f"year(try_strptime(x, {literal(format)}))"
    return f"{year} >= 1000" if "%Y" in format else f"{year} > 0"


def _other_way(
    con: duckdb.DuckDBPyConnection, type: str, format: str, order: str
) -> tuple[str, str]:
    """Return what else all texts can mean, or "", and an example of dates."""
    if type == "BIGINT":
        return "zeros" * _any(con, _ZEROS), ""
    if type == "DOUBLE":
        grouped = f"regexp_full_match(x, '{_GROUPED['']}')"
        if not format and _fits(con, grouped):
            return "thousands", ""
        return "digits" * _any(con, _DIGITS), ""
    mine = order_of(format)
    if not mine or order == mine or "%d.%m" in format:
        return "", ""
    other = swap_day_and_month(format)
    if not _fits(con, _is_date(other)):
        return "", ""
    tells = f"try_strptime(x, {literal(format)}) <> try_strptime(x, {literal(other)})"
    ((example,),) = con.execute(
        f"SELECT x FROM texts WHERE x IS NOT NULL ORDER BY {tells} DESC LIMIT 1"
    ).fetchall()
    return other, example


def swap_day_and_month(format: str) -> str:
    """Return a format with day and month in each other's place.

    >>> swap_day_and_month("%d/%m/%Y %H:%M")
    '%m/%d/%Y %H:%M'
    """
    return format.translate(str.maketrans("dm", "md"))


def _declared_dates(con: duckdb.DuckDBPyConnection, order: str) -> Guess:
    """Return the format of an order that most texts are in; of no type if none is."""
    best, most = Guess(""), 0
    for type, ends in (("DATE", ("",)), ("TIMESTAMP", _TIMES)):
        for format in (day + end for end in ends for day in _DAYS if order_of(day) == order):
            count = f"SELECT count(*) FILTER (WHERE {_is_date(format)}) FROM texts"
            ((fit,),) = con.execute(count).fetchall()
            if fit > most:
                best, most = Guess(type, format), fit
    return best


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


# -- how each column is read, in words: public ----------------------------------------------------

_DOUBTS = {
    "lists": "some look like lists or objects of JSON, and are kept as JSON writes them",
    "people": "most are whole numbers; --type {4} leaves the others out, as rows about nobody",
    "footer": "{5} is taken for a person; --csv null={5} --csv null=NULL leaves such rows out",
    "signs": "most look like numbers with a currency, %, brackets, or spaces, quotes or commas "
    "between thousands; write them without, and they are numbers",
    "dates": "most look like dates, and not all are written in one way; --dates {0} (or mdy), or "
    "--type {1} for 2025-12-24, reads those that are",
    "numbers": "most look like numbers, and not all are; --type {2}, or --type {3} for a decimal "
    "comma, reads those that are",
    "thousands": "in 1,234 the comma can be a decimal comma or stand between thousands; --type {3} "
    "says that it is a decimal comma",
}


_ALSO = {
    "thousands": "numbers with a point; if it stands between thousands, --type {0} says so",
    "zeros": "whole numbers: 007 and 7 are the same; --type {1} keeps zeros before them",
    "digits": "some have more than 17 digits, and not all are kept; --type {1} keeps them",
}


@dataclass(frozen=True)
class ColumnRead:
    """One column of files, and the way in which it is read.

    Attributes:
        there: What files call it.
        name: What it is called here; "" if it is not stored.
        type: In which it is stored.
        said: What was changed, left out or guessed, and why.
        declared: What else the curator has said of it, or its source.
    """

    there: str
    name: str = ""
    type: str = ""
    said: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    def fact(self) -> str:
        """Return what was changed, left out or guessed, in a line; "" for nothing."""
        return f"{shown(self.name or self.there)}: {'; '.join(self.said)}" if self.said else ""


def as_word(text: str) -> str:
    """Return a word of a command as it is typed."""
    return shown(text) if re.fullmatch(r"[\w=:,.-]+", text) else f'"{shown(text)}"'


def said_of(name: str, format: str, guessed: Guess, dates: str) -> list[str]:
    """Return what was guessed of a column."""

    def word(way: str) -> str:
        return as_word(f"{name}={way}")

    said = []
    if guessed.like:
        words = [
            *map(word, ("dmy", "DATE", "DOUBLE", "DOUBLE:,", "BIGINT")),
            as_word(guessed.example),
        ]
        said.append(f"text: {_DOUBTS[guessed.like].format(*words)}")
    if format == ",":
        said.append("decimal comma: every value fits")
    elif format and dates:
        said.append(f"read as {format}, as --dates says")
    elif format:
        order = {"dmy": ": the day comes first", "mdy": ": the month comes first"}
        said.append(f"read as {format}{order.get(order_of(format), '')}")
    if guessed.also in _ALSO:
        said.append(_ALSO[guessed.also].format(*map(word, ("DOUBLE:,", "VARCHAR"))))
    if guessed.nulls:
        said.append(f"{', '.join(guessed.nulls)}: no value (NULL)")
    return said


class UnclearDates(DataError):
    """Dates can be read in two ways; `columns` has the names of their columns."""

    def __init__(self, guesses: Mapping[str, Guess]) -> None:
        (name, found), *more = guesses.items()
        day, other = (_in_words(found.example, f) for f in (found.format, found.also))
        ways = {order_of(found.format): day, order_of(found.also): other}
        also = f" (so can those of {', '.join(map(shown, [n for n, _ in more]))})" if more else ""
        super().__init__(
            f"the dates of {shown(name)} can be read in two ways: {shown(found.example)} is "
            f"{ways['dmy']} or {ways['mdy']}{also}",
            "say --dates dmy if the day comes first, --dates mdy if the month does; of one column "
            f"--dates {as_word(f'{name}=dmy')}",
        )
        self.columns = tuple(guesses)


def _in_words(date: str, format: str) -> str:
    with scratch() as con:
        ((day,),) = con.execute(
            f"SELECT strftime(strptime(?, {literal(format)}), '%-d %B %Y')", [date]
        ).fetchall()
    return str(day)


def check_dates(guesses: Mapping[str, Guess], declared: Declarations) -> None:
    """Check that dates are read in one way, and that it is the one that is declared.

    Raises:
        UnclearDates: Some can be read in two ways, and nothing is declared.
        DataError: They are written otherwise than it is declared.
    """
    unclear = {n: g for n, g in guesses.items() if g.also.startswith("%")}
    if unclear:
        raise UnclearDates(unclear)
    for name, found in guesses.items():
        order = declared.order(name)
        if order and order_of(found.format) not in ("", order):
            first = "day" if order == "mdy" else "month"
            raise DataError(
                f"the dates of {shown(name)} are not {order}: the {first} comes first in them",
                f"say --dates {as_word(f'{name}={order_of(found.format)}')}",
            )
