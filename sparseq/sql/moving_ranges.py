"""Time ranges that move with a clock, widened to whole buckets of the question.

A dashboard's range ends now: `seen BETWEEN '2024-05-05T10:07:12.345Z' AND '2024-05-06T10:…Z'`, as
Grafana expands `$__timeFilter(seen)`. Each refresh would be a new question with a new charge. If
both ends have this form (RFC 3339, in UTC), and the question has buckets of the same column or the
column is a DATE, the range is widened to all buckets that it overlaps. A refresh within a bucket is
then the same question, and free. Ranges written in another form are kept.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sparseq.question.catalog import Catalog
from sparseq.sql.parsed_expressions import conjuncts

_WRITTEN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?Z")
_MONDAY, _EPOCH = dt.datetime(2000, 1, 3), dt.datetime(1970, 1, 1)
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_CUT = (exp.TimestampTrunc, exp.DateTrunc)


@dataclass(frozen=True)
class TimeBucket:
    """Buckets of time with one width.

    Attributes:
        months, seconds: The width; one of them is 0.
        origin: The start of one bucket.

    Example:
        >>> week, at = TimeBucket(0, 604_800, dt.datetime(2000, 1, 3)), dt.datetime(2024, 5, 8, 10)
        >>> [str(end) for end in week.around(at)]
        ['2024-05-06 00:00:00', '2024-05-13 00:00:00']
        >>> [str(end) for end in TimeBucket(3, 0, dt.datetime(2000, 1, 3)).around(at)]
        ['2024-04-01 00:00:00', '2024-07-01 00:00:00']
    """

    months: int
    seconds: int
    origin: dt.datetime

    def around(self, at: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        """Return the start of the bucket that contains a time, and the start of the next bucket."""
        if self.months:
            number = (at.year * 12 + at.month - 1) // self.months * self.months
            return _month(number), _month(number + self.months)
        width = dt.timedelta(seconds=self.seconds)
        start = self.origin + (at - self.origin) // width * width
        return start, start + width


def widen_moving_ranges(tree: exp.Expr, catalog: Catalog) -> list[str]:
    """Replace moving ranges by ranges of whole buckets, and return a note about each.

    Args:
        tree: A statement; it is changed in place.
        catalog: Tells which columns are dates.
    """
    notes = []
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        for between in conjuncts(where.this) if where is not None else ():
            if not isinstance(between, exp.Between) or not isinstance(between.this, exp.Column):
                continue
            low, high = (_moment(between.args[end]) for end in ("low", "high"))
            bucket = _bucket(select, between.this, catalog)
            if low is not None and high is not None and low <= high and bucket is not None:
                try:
                    start, end = bucket.around(low)[0], bucket.around(high)[1]
                except (OverflowError, ValueError):  # beyond the years 1 to 9999: the range stays
                    continue
                at_least = exp.GTE(this=between.this.copy(), expression=_written(start))
                before = exp.LT(this=between.this.copy(), expression=_written(end))
                between.replace(exp.paren(exp.and_(at_least, before)))
                notes.append(
                    f"the range of {between.this.name} was widened to whole buckets, from {start} "
                    f"to {end}: asked again while it lies in the same ones, it is free"
                )
    return notes


def _bucket(select: exp.Select, column: exp.Column, catalog: Catalog) -> TimeBucket | None:
    """Return the buckets of a column in a SELECT; None if it has none, or several kinds."""
    types = {
        known.type
        for table in catalog.tables
        if any(one.name.lower() == table.name.lower() for one in select.find_all(exp.Table))
        for known in table.columns
        if known.name.lower() == column.name.lower()
    }
    if not types or not types <= {"DATE", "TIMESTAMP"}:
        return None
    group = select.args.get("group")
    keys = [*select.expressions, *(group.expressions if group is not None else ())]
    found = {one for key in keys for one in _buckets_in(key, column.name.lower())}
    day = TimeBucket(0, _SECONDS["DAY"], _MONDAY)
    if types == {"DATE"}:
        found = {one if one.months or one.seconds > day.seconds else day for one in found} or {day}
    return found.pop() if len(found) == 1 else None


def _buckets_in(key: exp.Expr, name: str) -> Iterator[TimeBucket]:
    def is_it(e: object) -> bool:
        return isinstance(e, exp.Column) and e.name.lower() == name

    for node in key.find_all(exp.DateBin, exp.Floor, *_CUT):
        if isinstance(node, _CUT) and is_it(node.this):
            yield from _of_width(1, node.text("unit"))
        elif isinstance(node, exp.DateBin) and is_it(node.expression):
            width = node.this
            if isinstance(width, exp.Interval) and width.name.isdecimal():
                yield from _of_width(int(width.name), width.text("unit"))
        elif isinstance(node, exp.Floor) and isinstance(node.this, exp.Div):
            epoch, size = node.this.this.unnest(), node.this.expression.unnest()
            if (
                isinstance(epoch, exp.Extract)
                and epoch.name.upper() == "EPOCH"
                and is_it(epoch.expression)
                and isinstance(size, exp.Literal)
                and size.name.isdecimal()
                and int(size.name)
            ):
                yield TimeBucket(0, int(size.name), _EPOCH)


def _of_width(number: int, unit: str) -> Iterator[TimeBucket]:
    unit = unit.upper().removesuffix("S")
    if number and unit in _SECONDS:
        yield TimeBucket(0, number * _SECONDS[unit], _MONDAY)
    elif number and unit in _MONTHS:
        yield TimeBucket(number * _MONTHS[unit], 0, _MONDAY)


def _moment(e: exp.Expr) -> dt.datetime | None:
    """Return the time of an RFC 3339 literal in UTC; None for other expressions."""
    found = _WRITTEN.fullmatch(e.name) if isinstance(e, exp.Literal) and e.is_string else None
    try:
        return dt.datetime.fromisoformat(f"{found[1]}{(found[2] or '')[:7]}") if found else None
    except ValueError:
        return None


def _written(at: dt.datetime) -> exp.Expr:
    """Return a constant; a midnight becomes a day, which compares with dates and with times."""
    if at.time() == dt.time():
        return exp.cast(exp.Literal.string(at.date().isoformat()), "DATE")
    return exp.cast(exp.Literal.string(at.isoformat(" ")), "TIMESTAMP")


def _month(number: int) -> dt.datetime:
    return dt.datetime(number // 12, number % 12 + 1, 1)
