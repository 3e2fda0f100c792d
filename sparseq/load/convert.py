"""Conversion of a value to a column of another type: a rule for every pair of types, total.

    text to whole numbers   `7`, `+7`, `007`, `7.0` are 7; anything else (`7.5`, `1e5`) is NULL
    text to numbers         as DuckDB reads them; `nan` and `inf` are numbers; with a decimal comma
                            a point stands between thousands: `1.234,5`, and `02.01.2023` is NULL
    text to truth values    true, t, yes, y, 1 and false, f, no, n, 0, in any case
    text to dates, times    ISO 8601, or the column's format; with an offset, the moment in UTC
    numbers to whole ones   the same number, or NULL if it has a fraction or does not fit
    anything to text        one spelling: whole numbers have no point, dates and times are ISO 8601
    any other pair          by way of the text

A value for which there is nothing is NULL. So is a date outside of the years 1 to 9999. Every
expression here is built of functions that give NULL and don't raise; that holds for all values
(`tests/engine/test_convert.py`), and none looks at another row.

Numbers are cut to the bounds that were declared of their column, each by itself.

So what a question takes from the bounds (a scale, the bins of a quantile) holds for every row. NULL
and `nan` stay what they are. Days are not cut: bounds of days say which days a question lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparseq.base.errors import ParameterError
from sparseq.base.texts import shown
from sparseq.engine.protocol import quote
from sparseq.sql.catalog import INTEGER_TYPES

# -- conversion of a value to a column of another type: a rule for every pair of types, total ------

MOST_TEXT = 1 << 16
"""A text has at most so many characters; the rest is cut off."""
_WHOLE = r"\s*[+-]?[0-9]+(\.0*)?\s*"
COMMA = (
    r"(?i)\s*[+-]?(([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]*)?|,[0-9]+|nan|inf(inity)?)"
    r"([Ee][+-]?[0-9]+)?\s*"
)
"""A number with a decimal comma; points stand between thousands, and nowhere else."""
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
        kind: Its DuckDB type, one of those that `tidy` leaves.
        target: A type that is stored.
        format: How texts in the column are written: see `schema`.

    >>> expression("x", "VARCHAR", "VARCHAR"), expression("x", "BIGINT", "TINYINT")
    ('x', 'TRY_CAST(x AS TINYINT)')
    """
    if target == "TIMESTAMP WITH TIME ZONE":  # in stores that were made so
        moment = expression(value, kind, "TIMESTAMP", format)
        return f"TRY_CAST(({moment}) AS TIMESTAMPTZ)"
    if kind == target:
        return value
    if kind == "VARCHAR":
        return from_text(value, target, format)
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
    """Return SQL for the one spelling of a value."""
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


def from_text(text: str, target: str, format: str = "") -> str:
    """Return SQL for what a text says in a type."""
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
    # The two ways to trim are told apart, as DuckDB would else trim every value beforehand.
    zoned = f"epoch_us(TRY_CAST(trim({text}, ' ') AS TIMESTAMPTZ))"
    return (
        f"CASE {usual} WHEN regexp_full_match({text}, ' *{_DAY}({_TIME})? *') "
        f"THEN TRY_CAST(trim({text}) AS TIMESTAMP) "
        f"WHEN regexp_full_match({text}, ' *{_DAY}{_TIME}{_OFFSET} *') "
        f"THEN {_in_range(zoned)} END"
    )


def _in_range(micros: str) -> str:
    """Return SQL for the moment of so many microseconds; none outside of the years 1 to 9999."""
    return f"make_timestamp(CASE WHEN {micros} BETWEEN {_FIRST} AND {_LAST} THEN {micros} END)"


def literal(text: str) -> str:
    """Return an SQL string."""
    return "'" + text.replace("'", "''") + "'"


# -- numbers are cut to the bounds that were declared of their column, each by itself --------------

Number = int | float | Decimal
_NUMBERS = re.compile("U?(TINY|SMALL|BIG|HUGE)?INT|FLOAT|DOUBLE|DECIMAL")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_DIGITS = 400  # more than a double has before its point and a DECIMAL behind it


def ends(type: str, bounds: tuple[float, float]) -> tuple[Number, Number] | None:
    """Return the least and the greatest value of a type within bounds; None if it has no numbers.

    Where none lies within, the least is above the greatest.

    >>> ends("BIGINT", (0.5, 7.5)), ends("DECIMAL(9,1)", (0, 0.25)), ends("VARCHAR", (0, 1))
    ((1, 7), (Decimal('0.0'), Decimal('0.2')), None)
    """
    low, high = bounds
    found: tuple[Number, Number]
    if not _NUMBERS.match(type):
        return None
    if type in INTEGER_TYPES:
        bits = _BITS[type.removeprefix("U")]
        least, most = (
            (0, 2**bits - 1) if type[0] == "U" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        found = max(math.ceil(low), least), min(math.floor(high), most)
    elif type.startswith("DECIMAL"):
        width, scale = map(int, type[8:-1].split(","))
        with localcontext(prec=_DIGITS):
            unit = Decimal(1).scaleb(-scale)
            largest = (Decimal(10) ** width - 1) * unit
            found = (
                max(Decimal(low).quantize(unit, ROUND_CEILING) + 0, -largest),  # 0, never -0
                min(Decimal(high).quantize(unit, ROUND_FLOOR) + 0, largest),
            )
    elif type == "FLOAT":
        up, down = np.float32(np.inf), np.float32(-np.inf)
        first, last = np.float32(low), np.float32(high)
        found = (
            float(first if float(first) >= low else np.nextafter(first, up)),
            float(last if float(last) <= high else np.nextafter(last, down)),
        )
    else:
        found = float(low), float(high)
    return found


class Clamp:
    """Cuts rows on their way in, and counts what was outside.

    Args:
        bounds: Column to its bounds, in any case.
        types: Column to the type in which it is stored.

    Attributes:
        outside: Column to how many of its values were cut.

    Raises:
        ParameterError: No value of a column's type lies within its bounds.
    """

    def __init__(self, bounds: Mapping[str, tuple[float, float]], types: Mapping[str, str]) -> None:
        said = {name.lower(): both for name, both in bounds.items()}
        self._ends = {
            name: both
            for name, type in types.items()
            if name.lower() in said and (both := ends(type, said[name.lower()])) is not None
        }
        self._types, self._bounds = types, {name: said[name.lower()] for name in self._ends}
        self.outside = dict.fromkeys(self._ends, 0)
        for name, (least, most) in self._ends.items():
            if least > most:
                low, high = self._bounds[name]
                raise ParameterError(
                    f"bounds of {name} are {low:g}..{high:g}; no {types[name]} lies within"
                )

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with every number cut."""
        if not self._ends:
            return batch
        arrays = [
            self._cut(name, array) if name in self._ends else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def _cut(self, name: str, array: pa.Array) -> pa.Array:
        for end, beyond in zip(self._ends[name], (pc.less, pc.greater), strict=True):
            exact = Decimal(end) if pa.types.is_decimal(array.type) else end
            limit = pa.scalar(exact, array.type)
            out = beyond(array, limit)
            if out.true_count:
                self.outside[name] += out.true_count
                array = pc.if_else(out, limit, array)
        return array

    def staged(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Cut what lies in the table `staged`."""
        for name, both in self._ends.items():
            column = quote(name)
            for end, beyond in zip(both, "<>", strict=True):
                limit = f"CAST('{end}' AS {self._types[name]})"
                ((count,),) = connection.execute(
                    f"UPDATE staged SET {column} = {limit} "
                    f"WHERE {column} {beyond} {limit} AND NOT isnan(CAST({column} AS DOUBLE))"
                ).fetchall()
                self.outside[name] += int(count)

    def messages(self, values: Mapping[str, int]) -> list[str]:
        """Return in words what was cut, of so many values of each column."""
        said = []
        for name, count in self.outside.items():
            low, high = self._bounds[name]
            if count:
                share = f"{count:,} of {values[name]:,} values ({100 * count / values[name]:.2g} %)"
                said.append(
                    f"{shown(name)}: {share} were outside of the bounds {low:g} to {high:g}, "
                    "and are cut to them"
                )
        return said
