"""The calendar in whole numbers without end: days since 1970, months, and stretches of time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sparseq.language.types import FIRST_DAY

DAY = 86_400_000_000
"""Microseconds."""
_ERA = 146_097  # days in 400 years, after which the calendar is the same


def month_of(day: int) -> int:
    """Return the months from year 0 up to a day's month, of days since 1970, however far.

    Example:
        >>> month_of(0) == 1970 * 12, month_of(-719_162) == 12
        (True, True)
    """
    era, within = divmod(day - FIRST_DAY, _ERA)
    date = dt.date.fromordinal(within + 1)
    return (date.year + 400 * era) * 12 + date.month - 1


def first_of(month: int) -> int:
    """Return the first day of a month, both counted as above.

    Example:
        >>> [first_of(month_of(day)) for day in (0, 30, 31)]
        [0, 0, 31]
    """
    year, months = divmod(month, 12)
    era, within = divmod(year - 1, 400)
    return FIRST_DAY - 1 + era * _ERA + dt.date(within + 1, months + 1, 1).toordinal()


@dataclass(frozen=True)
class Buckets:
    """Stretches of time of one length, one after the other: so many months, or microseconds.

    Attributes:
        months, length: One of them is 0.
        origin: Where one of them begins: a month or a microsecond.
    """

    months: int = 0
    length: int = 0
    origin: int = 0

    def index(self, at: int) -> int:
        """Return the number of the stretch that an instant lies in."""
        if self.months:
            return (month_of(at // DAY) - self.origin) // self.months
        return (at - self.origin) // self.length

    def start(self, index: int) -> int:
        """Return the first instant of a stretch."""
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
    "minute": Buckets(length=DAY // 1440),
    "second": Buckets(length=1_000_000),
}
FINER = {
    "week": ("microsecond", "second", "minute", "hour", "day", "week"),
    "year": ("microsecond", "second", "minute", "hour", "day", "month", "quarter", "year"),
}


def nested(unit: str, other: str) -> bool:
    """Tell whether every stretch of a unit lies in one of another.

    Example:
        >>> nested("day", "week"), nested("week", "month"), nested("month", "day")
        (True, False, False)
    """
    order = FINER["week" if other == "week" else "year"]
    return unit in order and order.index(unit) <= order.index(other)


def units_of(number: str, unit: str) -> Buckets | None:
    """Return DuckDB's buckets of so many units: from 2000-01-01, or a Monday two days later."""
    one = UNITS.get(unit)
    if one is None:
        return None
    if one.months:
        return Buckets(months=int(number) * one.months, origin=2000 * 12)
    return Buckets(length=int(number) * one.length, origin=10_959 * DAY)
