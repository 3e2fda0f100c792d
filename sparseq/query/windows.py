"""Stores with an account for each person and window of time: what may be said of a person there.

The unit of privacy is a person's rows of one window (a month, say): see docs/theorems/windows.md.
The store's user is that pair. A person alone is a column like others, but within one window the
two are the same people, and can be counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sparseq.query.catalog import AccountWindow, Table
from sparseq.query.conditions import time_limits
from sparseq.query.public import PublicFacts

_WITHIN = {
    "day": ("DAY",),
    "week": ("DAY", "WEEK"),
    "month": ("DAY", "MONTH"),
    "quarter": ("DAY", "MONTH", "QUARTER"),
    "year": ("DAY", "MONTH", "QUARTER", "YEAR"),
}
"""Units of time that never cross a window's end."""


def window_apart(
    private: Sequence[tuple[Table | None, str]],
    where: Sequence[exp.Expr],
    select: exp.Select,
    public: PublicFacts,
) -> AccountWindow | None:
    """Return what has accounts, if all rows counted together are of one: told by the query alone.

    Args:
        private: What it reads of people: tables, each with its name in the query; None: a query.
        where: Conditions that all rows fulfil.
        select: The query, which says what is grouped by.
        public: Evaluates constants.
    """
    if len(private) != 1:
        return None
    ((table, alias),) = private
    if table is None or table.window is None:
        return None
    group = select.args.get("group")
    keys = group.expressions if group else []
    time = exp.column(table.time, alias, quoted=True)
    if any(_cuts(key, time, table.window.unit) for key in keys):
        return table.window
    lows, highs = list[str](), list[str]()
    for condition in where:
        for operator, moment in time_limits(condition, time):
            (lows if operator == ">=" else highs).append(moment)
    if not lows or not highs:
        return None
    first, last = (
        f"date_trunc('{table.window.unit}', {end}({', '.join(moments)}))"
        for end, moments in (("greatest", lows), ("least", highs))
    )
    one = public.constant(f"({first}) = ({last})") is True
    return table.window if one else None


def _cuts(key: exp.Expr, time: exp.Column, unit: str) -> bool:
    """Tell whether rows of one key are of one window."""
    if isinstance(key, exp.Paren):
        return _cuts(key.this, time, unit)
    if isinstance(key, exp.Cast | exp.TryCast):  # a cast to TIME would mix days
        return key.is_type("date", "timestamp", "timestampntz") and _cuts(key.this, time, unit)
    if isinstance(key, exp.Column):
        return key.sql("duckdb") == time.sql("duckdb")
    if isinstance(key, exp.DateTrunc | exp.TimestampTrunc):
        of = key.this.sql("duckdb") == time.sql("duckdb")
        return of and key.args["unit"].name.upper() in _WITHIN[unit]
    return False
