"""Stores with an account for each person and window of time: what may be said of a person there.

The unit of privacy is a person's rows of one window (a month, say): see docs/theorems/windows.md.
The store's user is that pair. A person alone is a column like others, but within one window the
two are the same people, and can be counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlglot import exp

from sparseq.language.calendar import DAY, UNITS, nested
from sparseq.language.conditions import cells, passing
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family
from sparseq.language.value_sets import Spans
from sparseq.sql.catalog import AccountWindow
from sparseq.sql.from_clause import FromItem


def window_of(private: Sequence[FromItem]) -> tuple[AccountWindow, exp.Column] | None:
    """Return what has accounts, and the column of time it is of; None: people, or of a join."""
    table = private[0].table
    if len(private) > 1 or table is None or table.window is None:
        return None
    return table.window, exp.column(table.time.lower(), private[0].alias, quoted=True)


def names(e: exp.Expr, column: exp.Column) -> bool:
    """Tell whether an expression names a column."""
    return any((c.table, c.name) == (column.table, column.name) for c in e.find_all(exp.Column))


def is_window_apart(
    unit: str, time: Term, conditions: Sequence[Term], keys: Sequence[Term]
) -> bool:
    """Tell whether all rows that are counted together are of one window: by the query alone.

    Either a group key tells windows apart, or the conditions let pass the times of one alone
    (`sparseq.language.conditions`: what is not known of them lets every time pass).

    Args:
        unit: One of `WINDOWS`.
        time: The column that windows are of.
        conditions: All rows fulfil them.
        keys: What the rows are grouped by.

    Example:
        >>> from sparseq.language.expression_tree import call, column
        >>> from sparseq.language.types import BOOLEAN, DATE
        >>> day = column("day", DATE)
        >>> is_window_apart("month", day, [], [day]), is_window_apart("month", day, [], [])
        (True, False)
    """
    if any(nested(found, unit) for key in keys if (found := cells(key, time))):
        return True
    span = span_of(unit, time, conditions)
    return span is not None and span[1] <= span[0]


def span_of(unit: str, time: Term, conditions: Sequence[Term]) -> tuple[int, int] | None:
    """Return the first and the last window that conditions let pass; None: any.

    Where they let nothing pass the last comes before the first.

    Args:
        unit, time, conditions: See `is_window_apart`.
    """
    passed = passing(conditions, time)
    if passed is None or not isinstance(passed.known, Spans):
        return None
    if not passed.known:
        return 0, -1
    if not all(map(math.isfinite, passed.known.ends)):
        return None
    one = DAY if time.type.family is Family.DATE else 1
    first, last = (UNITS[unit].index(int(end) * one) for end in passed.known.ends)
    return first, last
