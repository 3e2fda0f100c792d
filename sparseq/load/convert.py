"""Conversion of a value to a column of another type: a total rule for every pair of types.

    text to whole numbers   `7`, `+7`, `007`, `7.0` are 7; anything else (`7.5`, `1e5`) is NULL
    text to numbers         as DuckDB reads them; `nan` and `inf` are numbers; with a decimal comma
                            a point stands between thousands: `1.234,5`, and `02.01.2023` is NULL
    text to truth values    true, t, yes, y, 1 and false, f, no, n, 0, in any case
    text to dates, times    ISO 8601, or the column's format; with an offset, the moment in UTC
    numbers to whole ones   the same number, or NULL if it has a fraction or does not fit
    anything to text        one spelling: whole numbers have no point, dates and times are ISO 8601
    any other pair          by way of the text

A value without a counterpart becomes NULL. So does a date outside of the years 1 to 9999. Every
expression here consists of functions that return NULL and never raise; that holds for all values
(`tests/load/test_convert.py`), and no expression reads another row.
"""

from __future__ import annotations

import re

from sparseq.language.types import MOST_LISTED
from sparseq.question.catalog import INTEGER_TYPES

MOST_TEXT = 1 << 16
"""The maximum number of characters of a text; the rest is cut off."""
_WHOLE = r"\s*[+-]?[0-9]+(\.0*)?\s*"
COMMA = (
    r"(?i)\s*[+-]?(([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]*)?|,[0-9]+|nan|inf(inity)?)"
    r"([Ee][+-]?[0-9]+)?\s*"
)
"""A number with a decimal comma; points stand only between thousands."""
_DAY = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{1,2}-[0-9]{1,2}"
_TIME = r"[ T]([01]?[0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_OFFSET = " ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_USUAL = {"____-__-__": "%Y-%m-%d", "____-__-__ __:__:__": "%Y-%m-%d %H:%M:%S"}
_TRUE, _FALSE = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds since 1970


def expression(value: str, kind: str, target: str, format: str = "") -> str:
    """Return SQL for a value in another type; it has a result for every value.

    Args:
        value: SQL of the value.
        kind: The value's DuckDB type, one of those that `tidy` returns.
        target: The type of the stored column.
        format: The format of texts in the column: see `read_schema`.

    >>> expression("x", "VARCHAR", "VARCHAR"), expression("x", "BIGINT", "TINYINT")
    ('x', 'TRY_CAST(x AS TINYINT)')
    """
    if target == "TIMESTAMP WITH TIME ZONE":  # for columns of stores that were made with this type
        moment = expression(value, kind, "TIMESTAMP", format)
        return f"TRY_CAST(({moment}) AS TIMESTAMPTZ)"
    if kind == target:
        return value
    if kind == "VARCHAR":
        return from_text(value, target, format)
    if kind.endswith("[]") or target.endswith("[]"):
        return _list_sql(value, kind, target)
    if target == "VARCHAR":
        return to_text(value, kind)
    numbers = {"FLOAT", "DOUBLE", "DECIMAL"}
    source, goal = kind.split("(")[0], target.split("(")[0]
    if source in numbers | INTEGER_TYPES and goal in numbers | INTEGER_TYPES:
        cast = f"TRY_CAST({value} AS {target})"
        if goal in INTEGER_TYPES and source in numbers:
            return f"CASE WHEN {value} = trunc({value}) THEN {cast} END"
        return cast
    if (source, goal) in (("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"), ("TIMESTAMP", "TIME")):
        return f"TRY_CAST({value} AS {target})"
    return from_text(to_text(value, kind), target, format)


def to_text(value: str, kind: str) -> str:
    """Return SQL for the canonical text of a value."""
    if kind in ("FLOAT", "DOUBLE"):
        return (
            f"CASE WHEN abs({value}) < 1e18 AND {value} = trunc({value}) "
            f"THEN CAST(TRY_CAST({value} AS BIGINT) AS VARCHAR) ELSE CAST({value} AS VARCHAR) END"
        )
    if kind.startswith("DECIMAL"):
        point = not kind.endswith(",0)")
        text = f"CAST({value} AS VARCHAR)"
        return f"regexp_replace({text}, '\\.?0+$', '')" if point else text
    return f"CAST({value} AS VARCHAR)"


def _list_sql(value: str, kind: str, target: str) -> str:
    """Return SQL for a list of another type, or for its text, which is JSON."""
    if target == "VARCHAR":
        return f"left(CAST(to_json({value}) AS VARCHAR), {MOST_TEXT})"
    if not (kind.endswith("[]") and target.endswith("[]")):
        return f"CAST(NULL AS {target})"
    value = f"list_transform({value}, lambda x: {expression('x', kind[:-2], target[:-2])})"
    return f"list_transform({value}, lambda x: x + 0)" if target == "DOUBLE[]" else value


def from_text(text: str, target: str, format: str = "") -> str:
    """Return SQL for the value of a text in a type; lists are parsed from JSON."""
    if target.endswith("[]"):
        json = f"CASE WHEN json_valid({text}) THEN {text} END"
        read = f"list_slice(from_json({json}, '[\"{target[:-2]}\"]'), 1, {MOST_LISTED})"
        own = {  # one zero; no infinite dates, or dates out of range
            "DOUBLE[]": "x + 0",
            "DATE[]": "CASE WHEN year(x) BETWEEN 1 AND 9999 THEN x END",
        }.get(target)
        return read if own is None else f"list_transform({read}, lambda x: {own})"
    if target in INTEGER_TYPES:
        cast = f"TRY_CAST({text} AS {target})"
        return f"CASE WHEN regexp_full_match({text}, '{_WHOLE}') THEN {cast} END"
    if target == "BOOLEAN":
        word = f"lower(trim({text}))"
        return f"CASE WHEN {word} IN {_TRUE} THEN true WHEN {word} IN {_FALSE} THEN false END"
    if target in ("DATE", "TIMESTAMP"):
        moment = _moment(text, format)
        return moment if target == "TIMESTAMP" else f"TRY_CAST({moment} AS DATE)"
    if format == "," and re.match("FLOAT|DOUBLE|DECIMAL", target):
        point = f"replace(replace({text}, '.', ''), ',', '.')"
        text = f"CASE WHEN regexp_full_match({text}, '{COMMA}') THEN {point} END"
    return text if target == "VARCHAR" else f"TRY_CAST({text} AS {target})"


def _moment(text: str, format: str) -> str:
    if format:
        return _in_range(f"epoch_us(try_strptime({text}, {literal(format)}))")
    usual = " ".join(  # fast; no sign, no year 0
        f"WHEN {text} LIKE '{like}' AND {text} >= '0001' THEN try_strptime({text}, '{form}')"
        for like, form in _USUAL.items()
    )
    # Two different trim functions: with one, DuckDB would trim every value beforehand.
    zoned = f"epoch_us(TRY_CAST(trim({text}, ' ') AS TIMESTAMPTZ))"
    return (
        f"CASE {usual} WHEN regexp_full_match({text}, ' *{_DAY}({_TIME})? *') "
        f"THEN TRY_CAST(trim({text}) AS TIMESTAMP) "
        f"WHEN regexp_full_match({text}, ' *{_DAY}{_TIME}{_OFFSET} *') "
        f"THEN {_in_range(zoned)} END"
    )


def _in_range(micros: str) -> str:
    """Return SQL for the moment of some microseconds; NULL outside of the years 1 to 9999."""
    return f"make_timestamp(CASE WHEN {micros} BETWEEN {_FIRST} AND {_LAST} THEN {micros} END)"


def literal(text: str) -> str:
    """Return an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
