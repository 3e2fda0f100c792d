"""The calendar in unbounded integers: months, years and units of time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sparseq.language.types import FIRST_DAY

DAY = 86_400_000_000
"""Microseconds."""
_ERA = 146_097  # days in 400 years, the period of the calendar


def month_of(day: int) -> int:
    """Return the months from year 0 to the month of a day since 1970, however distant.

    Example:
        >>> month_of(0) == 1970 * 12, month_of(-719_162) == 12
        (True, True)
    """
    era, within = divmod(day - FIRST_DAY, _ERA)
    date = dt.date.fromordinal(within + 1)
    return (date.year + 400 * era) * 12 + date.month - 1


def first_of(month: int) -> int:
    """Return the first day of a month, in the units of `month_of`.

    Example:
        >>> [first_of(month_of(day)) for day in (0, 30, 31)]
        [0, 0, 31]
    """
    year, months = divmod(month, 12)
    era, within = divmod(year - 1, 400)
    return FIRST_DAY - 1 + era * _ERA + dt.date(within + 1, months + 1, 1).toordinal()


@dataclass(frozen=True)
class Buckets:
    """Consecutive buckets of time with one length: a number of months or of microseconds.

    Attributes:
        months, length: The length; one of them is 0.
        origin: The start of one bucket: a month or a microsecond.
    """

    months: int = 0
    length: int = 0
    origin: int = 0

    def index(self, at: int) -> int:
        """Return the number of the bucket that contains an instant."""
        if self.months:
            return (month_of(at // DAY) - self.origin) // self.months
        return (at - self.origin) // self.length

    def start(self, index: int) -> int:
        """Return the first instant of a bucket."""
        if self.months:
            return first_of(self.origin + index * self.months) * DAY
        return self.origin + index * self.length


UNITS = {
    "year": Buckets(months=12),
    "quarter": Buckets(months=3),
    "month": Buckets(months=1),
    "week": Buckets(length=7 * DAY, origin=-3 * DAY),
    "day": Buckets(length=DAY),
    "hour": Buckets(length=DAY // 24),
    "15 minutes": Buckets(length=DAY // 96),
    "minute": Buckets(length=DAY // 1440),
    "second": Buckets(length=1_000_000),
}
ZONES_SINCE = 1096
"""1973-01-01 in days since 1970: from then on all zones differ by whole minutes, and change their
clocks at whole minutes."""
FINER = {
    "week": ("microsecond", "second", "minute", "15 minutes", "hour", "day", "week"),
    "year": (
        "microsecond",
        "second",
        "minute",
        "15 minutes",
        "hour",
        "day",
        "month",
        "quarter",
        "year",
    ),
}


def is_within(unit: str, other: str) -> bool:
    """Tell whether every bucket of a unit lies within a bucket of another.

    Example:
        >>> is_within("day", "week"), is_within("week", "month"), is_within("month", "day")
        (True, False, False)
    """
    order = FINER["week" if other == "week" else "year"]
    return unit in order and order.index(unit) <= order.index(other)


def units_of(number: str, unit: str) -> Buckets | None:
    """Return DuckDB's buckets of `number` units: from 2000-01-01, or Monday, 2000-01-03."""
    one = UNITS.get(unit)
    if one is None:
        return None
    if one.months:
        return Buckets(months=int(number) * one.months, origin=2000 * 12)
    return Buckets(length=int(number) * one.length, origin=10_959 * DAY)
