"""Windows of time: one scan reads the rows of all queries that differ only in their times.

Conditions such as `day = DATE '2024-01-01' AND x` are a window of time, [low, high), and a rest.
Their rows are the rows of the rest from low up to high, in order of time: a slice of one scan's
result. Only the source of the rows changes, so a query's contributions are exactly the same
integers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.language.calendar import DAY
from sparseq.language.conditions import Said, read
from sparseq.language.expression_tree import Term, all_of
from sparseq.language.monotone_functions import places_of
from sparseq.language.types import DATE, TIMESTAMP
from sparseq.language.value_sets import Spans

FOREVER = 2**62
_EPOCH = dt.datetime(1970, 1, 1)
_TYPES = {type.sql: type for type in (DATE, TIMESTAMP)}


@dataclass(frozen=True)
class Window:
    """The rows that meet `rest` and have `column` in [low, high).

    Attributes:
        column: SQL of a DATE or TIMESTAMP column.
        type: DATE or TIMESTAMP.
        rest: The other conditions.
        low, high: Days or microseconds since 1970; ±FOREVER for no limit.
    """

    column: str
    type: str
    rest: str
    low: int
    high: int

    @property
    def moment(self) -> str:
        """SQL of a row's days or microseconds."""
        if self.type == TIMESTAMP.sql:
            return f"epoch_us({self.column})"
        return f"({self.column} - CAST('1970-01-01' AS DATE))"


def window(conditions: Sequence[Term]) -> Window | None:
    """Return conditions as a window; None: they are not recognised as a window.

    Example:
        >>> from sparseq.language.expression_tree import call, column, constant
        >>> from sparseq.language.types import BOOLEAN
        >>> day, x = column('"t"."d"', DATE), column('"t"."x"', BOOLEAN)
        >>> third = call("=", "({0} = {1})", BOOLEAN, day, constant(dt.date(1970, 1, 3), DATE))
        >>> w = window([third, x])
        >>> w.column, w.low, w.high, w.rest
        ('"t"."d"', 2, 3, '("t"."x")')
    """
    column, rest, low, high = None, [], -FOREVER, FOREVER
    for condition in conditions:
        span = _span_of(condition)
        if span is None or span.of.sql != (column or span.of).sql:
            rest.append(condition)
            continue
        column, (first, last) = span.of, span.true.known.ends  # type: ignore[union-attr]
        least, most = places_of(_TYPES[column.type.sql])
        low = max(low, -FOREVER if first <= least else int(first))
        high = min(high, FOREVER if last >= most else int(last) + 1)
    if column is None:
        return None
    return Window(column.sql, column.type.sql, all_of(rest), low, max(low, high))


def _span_of(condition: Term) -> Said | None:
    """Return the interval that a condition on a column of times allows; None: it is not an
    interval.
    """
    reading = read(condition)
    if not reading.exact:
        return None
    (only,) = reading.said.values()
    values, column = only.true.known, only.of.type.is_time and not only.of.function
    one = column and isinstance(values, Spans) and len(values.spans) == 1 and not only.true.null
    return only if one else None


def days_of(window: Window) -> float:
    """Return the number of days of a window."""
    return (window.high - window.low) / (DAY if window.type == TIMESTAMP.sql else 1)


def hulls(windows: Sequence[Window]) -> list[list[Window]]:
    """Split windows into sets, such that the windows of a set fill at least a quarter of its span.

    Example:
        >>> def day(n): return Window("d", "DATE", "", n, n + 1)
        >>> [[w.low for w in part] for part in hulls([day(n) for n in (1, 2, 3, 900, 902)])]
        [[1, 2, 3], [900, 902]]
    """
    ordered = sorted(windows, key=lambda w: (w.low, w.high))
    reach = np.maximum.accumulate([w.high for w in ordered])
    gaps = np.maximum([w.low for w in ordered[1:]] - reach[:-1], 0)
    pending, done = [(0, len(ordered))] if ordered else [], []
    while pending:
        first, stop = pending.pop()
        span = int(reach[stop - 1]) - ordered[first].low
        inside = gaps[first : stop - 1]
        if span <= 4 * (span - int(inside.sum())):
            done.append(ordered[first:stop])
        else:
            cut = first + 1 + int(np.argmax(inside))
            pending += [(cut, stop), (first, cut)]
    return done


def span_sql(windows: Sequence[Window]) -> str:
    """Return SQL of the rows from the start of the first window to the end of the last."""
    low, high = min(w.low for w in windows), max(w.high for w in windows)
    column, type, rest = windows[0].column, windows[0].type, windows[0].rest
    conditions = [rest or "true", f"{column} IS NOT NULL"]
    conditions += [f"{column} >= {_literal(low, type)}"] if low > -FOREVER else []
    conditions += [f"{column} < {_literal(high, type)}"] if high < FOREVER else []
    return " AND ".join(conditions)


def _literal(at: int, type: str) -> str:
    unit = dt.timedelta(microseconds=1) if type == TIMESTAMP.sql else dt.timedelta(days=1)
    return f"CAST('{_EPOCH + at * unit}' AS {type})"
