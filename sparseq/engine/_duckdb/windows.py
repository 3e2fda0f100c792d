"""Queries that differ in their times only: one scan reads the rows of all of them.

A condition such as `("t"."day" = CAST('2024-01-01' AS DATE)) AND (x)` is a window of time,
[low, high), and a rest that knows no time. The rows of the condition are those of the rest, in
order of time, from low up to high: a slice of what one scan has read. Nothing but the rows' origin
changes, so a query's contributions are the same, to the last integer.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

FOREVER = 2**62
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]| AND |[^'"() ]+| """)
_TIME = r"'(\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?)'"
_LITERAL = rf"(?:CAST\()?{_TIME}(?: AS (DATE|TIMESTAMP)\))?"
_COLUMN = r'\(((?:"(?:[^"]|"")+"\.)?"(?:[^"]|"")+")'
_COMPARED = re.compile(rf"{_COLUMN} (=|<|<=|>|>=) {_LITERAL}\)")
_BETWEEN = re.compile(rf"{_COLUMN} BETWEEN {_LITERAL} AND {_LITERAL}\)")
_EPOCH = dt.datetime(1970, 1, 1)
_UNITS = {"DATE": dt.timedelta(days=1), "TIMESTAMP": dt.timedelta(microseconds=1)}


@dataclass(frozen=True)
class Window:
    """The rows that fulfil `rest`, and whose `column` is in [low, high).

    Attributes:
        column: SQL of a DATE or TIMESTAMP column.
        type: Which of the two.
        rest: The other conditions.
        low, high: Days or microseconds since 1970; ±FOREVER for no limit.
    """

    column: str
    type: str
    rest: str
    low: int
    high: int


def window(where: str, type_of: Callable[[str], str]) -> Window | None:
    r"""Return a condition as a window, None if it isn't known to be one.

    Args:
        where: As lowering writes it.
        type_of: Returns the type of a column, by its SQL.

    Example:
        >>> where = "(\"t\".\"d\" = CAST('1970-01-03' AS DATE)) AND (\"t\".\"x\" > 1)"
        >>> w = window(where, lambda _: "DATE")
        >>> w.column, w.low, w.high, w.rest
        ('"t"."d"', 2, 3, '("t"."x" > 1)')
    """
    column, type, rest = "", "", []
    low, high = -FOREVER, FOREVER
    for condition in _conjuncts(where):
        match = _COMPARED.fullmatch(condition) or _BETWEEN.fullmatch(condition)
        limits = None
        if match is not None and match[1] == (column or match[1]):
            limits = _limits(match, kind := type_of(match[1]))
        if match is None or limits is None:
            rest.append(condition)
            continue
        column, type = match[1], kind
        low, high = max(low, limits[0]), min(high, limits[1])
    return Window(column, type, " AND ".join(rest), low, max(low, high)) if column else None


def units_a_day(window: Window) -> int:
    """Return how many units of a window's column are a day."""
    return dt.timedelta(days=1) // _UNITS[window.type]


def _conjuncts(where: str) -> list[str]:
    """Split at every AND that is in no parentheses."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(where):
        depth += (token == "(") - (token == ")")
        if token == " AND " and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _limits(match: re.Match[str], type: str) -> tuple[int, int] | None:
    """Return low and high of a condition on a time."""
    if match.re is _BETWEEN:
        first, last = _place(match[2], match[3], type), _place(match[4], match[5], type)
        return None if first is None or last is None else (first, last + 1)
    at = _place(match[3], match[4], type)
    if at is None:
        return None
    low = {"=": at, ">=": at, ">": at + 1}.get(match[2], -FOREVER)
    high = {"=": at + 1, "<=": at + 1, "<": at}.get(match[2], FOREVER)
    return low, high


def _place(text: str, cast: str | None, type: str) -> int | None:
    """Return a constant as days or microseconds; None where it isn't surely of the type."""
    if type not in _UNITS or cast not in (None, type) or (type == "DATE" and len(text) != 10):
        return None
    try:
        return (dt.datetime.fromisoformat(text) - _EPOCH) // _UNITS[type]
    except ValueError:
        return None


def hulls(windows: Sequence[Window]) -> list[list[Window]]:
    """Split windows into sets, each of which asks for a quarter at least of the time it spans.

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
    """Return SQL of the rows from the first window on to the end of the last."""
    low, high = min(w.low for w in windows), max(w.high for w in windows)
    column, type, rest = windows[0].column, windows[0].type, windows[0].rest
    conditions = [rest or "true", f"{column} IS NOT NULL"]
    conditions += [f"{column} >= {_literal(low, type)}"] if low > -FOREVER else []
    conditions += [f"{column} < {_literal(high, type)}"] if high < FOREVER else []
    return " AND ".join(conditions)


def _literal(at: int, type: str) -> str:
    try:
        return f"CAST('{_EPOCH + at * _UNITS[type]}' AS {type})"
    except OverflowError:  # the day, or microsecond, after the last that Python knows
        return f"CAST('infinity' AS {type})"
