"""Rows of a monitored series, and their columns: one row for each tick, group and number.

All columns are public:

    series      name of the series: the name of the query's file
    tick        start of the tick
    …           keys of the group, one column each; null for a series without that key
    estimate    `answer`, or the kind of the other release or computed value
    column      column of the query's answer that the number is in
    value       the noised number
    error       half-width that holds for all numbers of the tick's answer at once, at `confidence`;
                null: unknown; for `corrected`, about all users: noise and forecast
                (`sparseq.series.methods.corrector`)
    sigma       standard deviation of the noise; null if several numbers were combined
    bound       Corollary 4.7's bound, for the same numbers
    forecast_error  an estimate, no bound, of the error of a forecast in the value; else null
    release     id of the release that the number comes from
    strategy    taps of the series' strategy, as `Strategy.of` reads them; absent without strategies
    left_out    the part of `error` that allows for people who are left out; absent if none does

The columns of the group keys stand between `tick` and `estimate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparseq.base.errors import ParameterError

ANSWER = "answer"


@dataclass(frozen=True)
class Row:
    """One number of one tick; the module describes the fields."""

    series: str
    tick: Any
    column: str
    value: float | None
    error: float | None = None
    sigma: float | None = None
    bound: float | None = None
    forecast_error: float | None = None
    release: int | None = None
    estimate: str = ANSWER
    strategy: str | None = None
    left_out: float | None = None
    keys: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a mapping from column to value."""
        fixed = {k: v for k, v in self.__dict__.items() if k != "keys"}
        return fixed | self.keys


_FIRST = [("series", pa.string())]
_LAST = [
    ("estimate", pa.string()),
    ("column", pa.string()),
    *((name, pa.float64()) for name in ("value", "error", "sigma", "bound", "forecast_error")),
    ("release", pa.int64()),
]
STRATEGY, LEFT_OUT = "strategy", "left_out"
FIXED = frozenset(["tick", *(name for name, _ in (*_FIRST, *_LAST))])


def schema_of(
    keys: Iterable[tuple[str, pa.DataType]],
    dates: bool,
    strategies: bool = False,
    left_out: bool = False,
) -> pa.Schema:
    """Return the columns of series with these group keys.

    Args:
        keys: Name and type; the same key may come from several series.
        dates: Ticks start at midnight.
        strategies: One of the series has a strategy.
        left_out: One of those series allows for people who are left out.

    Raises:
        ParameterError: A key has the name of another column, or has several types.
    """
    known: dict[str, pa.DataType] = {}
    more = [(STRATEGY, pa.string())] * strategies + [(LEFT_OUT, pa.float64())] * left_out
    last, taken = [*_LAST, *more], FIXED | {column for column, _ in more}
    for name, type in keys:
        if name in taken:
            raise ParameterError(
                f"a group key can't be called {name!r} in a series",
                f"rename it: SELECT {name} AS other",
            )
        if known.setdefault(name, type) != type:
            raise ParameterError(
                f"group key {name!r} is {known[name]} in one series and {type} in another",
                "rename one of them: SELECT … AS other",
            )
    tick = ("tick", pa.date32() if dates else pa.timestamp("s"))
    return pa.schema([*_FIRST, tick, *known.items(), *last])


def as_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Return rows as an Arrow table of this schema."""
    return pa.Table.from_pylist([row.as_dict() for row in rows], schema=schema)
