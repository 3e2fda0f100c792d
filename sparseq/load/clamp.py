"""Values cut to declared bounds when rows are loaded."""

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
from sparseq.base.sql_text import quote
from sparseq.base.texts import shown
from sparseq.question.catalog import INTEGER_TYPES

Number = int | float | Decimal
_NUMBERS = re.compile("U?(TINY|SMALL|BIG|HUGE)?INT|FLOAT|DOUBLE|DECIMAL")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_DIGITS = 400  # more digits than a double has before its point and a DECIMAL behind it


def ends(type: str, bounds: tuple[float, float]) -> tuple[Number, Number] | None:
    """Return the least and the greatest value of a type within bounds; None: the type has no
    numbers.

    If no value lies within, the least is above the greatest.

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
    """Cuts numbers to bounds when rows are loaded, and counts the values outside.

    Args:
        bounds: The bounds by column, in any case.
        types: The stored type of each column.

    Attributes:
        outside: The number of cut values of each column.
        infinite: The number of infinite values of each column of floating-point numbers that has no
            bounds. They stay: conditions see them, and sums leave them out.

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
        free = (n for n, type in types.items() if type in ("DOUBLE", "FLOAT"))
        self.infinite = {name: 0 for name in free if name not in self._ends}
        for name, (least, most) in self._ends.items():
            if least > most:
                low, high = self._bounds[name]
                raise ParameterError(
                    f"bounds of {name} are {low:g}..{high:g}; no {types[name]} lies within"
                )

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with every number cut to its bounds."""
        for name in self.infinite:
            self.infinite[name] += pc.is_inf(batch.column(name)).true_count
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

    def cut_staged(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Cut the values in the table `staged`."""
        for name, both in self._ends.items():
            column = quote(name)
            for end, beyond in zip(both, "<>", strict=True):
                limit = f"CAST('{end}' AS {self._types[name]})"
                ((count,),) = connection.execute(
                    f"UPDATE staged SET {column} = {limit} "
                    f"WHERE {column} {beyond} {limit} AND NOT isnan(CAST({column} AS DOUBLE))"
                ).fetchall()
                self.outside[name] += int(count)
        if self.infinite:
            each = ", ".join(
                f"count(*) FILTER (WHERE isinf({quote(name)}))" for name in self.infinite
            )
            counts = connection.execute(f"SELECT {each} FROM staged").fetchall()[0]
            self.infinite = dict(zip(self.infinite, map(int, counts), strict=True))

    def messages(self, values: Mapping[str, int]) -> list[str]:
        """Return messages about cut values, given the number of values of each column."""
        said = []
        for name, count in self.outside.items():
            low, high = self._bounds[name]
            if count:
                share = f"{count:,} of {values[name]:,} values ({100 * count / values[name]:.2g} %)"
                said.append(
                    f"{shown(name)}: {share} were outside of the bounds {low:g} to {high:g}, and "
                    "were cut to them"
                )
        for name, count in self.infinite.items():
            if count:
                said.append(
                    f"{shown(name)}: {count:,} infinite numbers are stored; sums and averages "
                    f"leave them out (--bounds {shown(name)}=LOW..HIGH cuts them)"
                )
        return said
