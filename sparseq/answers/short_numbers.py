"""Round noised numbers to the digits that their intervals allow: psql prints each digit."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa

from sparseq.released.result_columns import ColumnRole, column_parts

_FINER = 3  # digits in addition to those that the interval allows


def with_digits(table: pa.Table) -> pa.Table:
    """Return an answer whose noised numbers have only significant digits.

    Three more than the interval allows: a value moves by less than a thousandth of its ±, and the
    ends of its interval move outwards.

    >>> from sparseq.released.result_columns import ResultColumn, result_table
    >>> numbers = 59.232703592584585, 1.2345678, 57.99813579, 60.46727139
    >>> roles = ColumnRole.VALUE, ColumnRole.ERROR, ColumnRole.LOW, ColumnRole.HIGH
    >>> parts = {role: pa.array([x]) for role, x in zip(roles, numbers)}
    >>> list(with_digits(result_table([ResultColumn("x", parts)])).to_pylist()[0].values())
    [59.233, 1.235, 57.998, 60.468]
    """
    ways = {ColumnRole.ERROR: math.ceil, ColumnRole.LOW: math.floor, ColumnRole.HIGH: math.ceil}
    for parts in column_parts(table).values():
        if ColumnRole.ERROR not in parts:
            continue
        bounds = table[parts[ColumnRole.ERROR]].to_pylist()
        for role, name in parts.items():
            if role is not ColumnRole.SUPPRESSED and pa.types.is_floating(table[name].type):
                values = zip(table[name].to_pylist(), bounds, strict=True)
                short = pa.array([_shortened(x, b, ways.get(role, round)) for x, b in values])
                place = table.column_names.index(name)
                table = table.set_column(place, table.field(place), short.cast(pa.float64()))
    return table


def _shortened(
    value: float | None, bound: float | None, way: Callable[[float], int]
) -> float | None:
    """Return a number to the digits that a bound allows."""
    if value is None or not bound or not math.isfinite(value):
        return value
    digits = _FINER - math.floor(math.log10(bound))
    if not -300 < digits < 300:
        return value
    scaled = value * 10.0**digits
    return way(scaled) / 10.0**digits if abs(scaled) < 2**53 else value
