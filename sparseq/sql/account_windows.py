"""Stores with an account for each person and window of time, such as a month.

The unit of privacy is a person's rows of one window: see docs/theorems/windows.md. The store's user
is the pair of person and window. A person alone is an ordinary column, but within one window the
person and the user identify the same people, so the people can be counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from sparseq.language.calendar import DAY, UNITS, is_within
from sparseq.language.conditions import values_where
from sparseq.language.expression_tree import Term
from sparseq.language.time_stretches import cells
from sparseq.language.types import Family
from sparseq.language.value_sets import Spans
from sparseq.question.catalog import AccountWindow
from sparseq.sql.from_clause import (
    FromItem,
)


def window_of(private: Sequence[FromItem]) -> tuple[AccountWindow, exp.Column] | None:
    """Return the accounts' window and its time column; None without windows, or in a join."""
    table = private[0].table
    if len(private) > 1 or table is None or table.window is None:
        return None
    return table.window, exp.column(table.time.lower(), private[0].alias, quoted=True)


def mentions(e: exp.Expr, column: exp.Column) -> bool:
    """Tell whether an expression refers to a column."""
    return any((c.table, c.name) == (column.table, column.name) for c in e.find_all(exp.Column))


def is_window_apart(
    unit: str, time: Term, conditions: Sequence[Term], keys: Sequence[Term]
) -> bool:
    """Tell, from the query alone, whether all rows that are counted together are of one window.

    Either a group key determines the window, or the conditions admit the times of one window only
    (`sparseq.language.conditions`: an unknown condition admits every time).

    Args:
        unit: One of `WINDOWS`.
        time: The column that defines windows.
        conditions: Conditions that all rows fulfil.
        keys: The group keys.

    Example:
        >>> from sparseq.language.expression_tree import call, column
        >>> from sparseq.language.types import BOOLEAN, DATE
        >>> day = column("day", DATE)
        >>> is_window_apart("month", day, [], [day]), is_window_apart("month", day, [], [])
        (True, False)
    """
    if any(is_within(found, unit) for key in keys if (found := cells(key, time))):
        return True
    span = window_span(unit, time, conditions)
    return span is not None and span[1] <= span[0]


def window_span(unit: str, time: Term, conditions: Sequence[Term]) -> tuple[int, int] | None:
    """Return the first and the last window that conditions admit; None if they admit any.

    If they admit no time, the last window precedes the first.

    Args:
        unit, time, conditions: See `is_window_apart`.
    """
    passed = values_where(conditions, time)
    if passed is None or not isinstance(passed.known, Spans):
        return None
    if not passed.known:
        return 0, -1
    if not all(map(math.isfinite, passed.known.ends)):
        return None
    one = DAY if time.type.family is Family.DATE else 1
    first, last = (UNITS[unit].index(int(end) * one) for end in passed.known.ends)
    return first, last
