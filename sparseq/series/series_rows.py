"""The rows of a monitored series: one a tick, group and number. All of it is public.

    series      whose row it is: the name of the query's file
    tick        the tick's start
    …           the group's keys, a column each; null for series without that key
    estimate    `answer`, or what else is released or computed beside the answers
    column      the column of the query's answer that the number is in
    value       the noised number
    error       its ±, all numbers of the tick's answer at once, at `confidence`; null: unknown; of
                `corrected` about everybody, noise and forecast (`sparseq.series.methods.corrector`)
    sigma       standard deviation of its noise; null where the number was computed from several
    bound       Corollary 4.7's bound, for the same numbers
    forecast_error  an estimate, no bound, of what a forecast in the value may be off by; else null
    release     the release that it comes from
    strategy    where a series has one: its taps, as `Strategy.of` reads them; else not there
    left_out    where there is room for people who are left out: what that is of `error`

Group keys stand between the tick and the estimate.
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
    """One number of one tick; see the module for what the fields are."""

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
        """Return the row by column."""
        plain = {k: v for k, v in self.__dict__.items() if k != "keys"}
        return plain | self.keys


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
        left_out: And one of these allows for people who are left out.

    Raises:
        ParameterError: A key is called as another column, or has several types.
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
