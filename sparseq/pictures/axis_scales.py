"""Scales of an axis and their round numbers: linear, logarithmic, dates, moments.

Ticks are at the data's own step if there is one: at months for months, at weeks for weeks, at whole
numbers for whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparseq.pictures.bounded_numbers import (
    digits_for,
    format_number,
)

Floats = NDArray[np.float64]


Kind = Literal["linear", "log", "date", "moment"]
Step = Literal["", "whole", "week", "month", "quarter", "year"]
_MONTHS_IN: dict[Step, int] = {"month": 1, "quarter": 3, "year": 12}
_WEEKS = (1, 2, 4)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400)
_GROUPED = 10_000  # whole numbers of an x axis from which thousands are separated
_EPOCH = datetime(1970, 1, 1)
_IN_DECADES: tuple[tuple[int, ...], ...] = ((1, 2, 5), (1, 3), (1,))


@dataclass(frozen=True)
class Scale:
    """From `low` to `high`: numbers, or seconds since 1970 for a date or a moment.

    `step` is the step of the data, as `step_of` finds it.
    """

    kind: Kind
    low: float
    high: float
    unit: str = ""
    step: Step = ""

    def share(self, values: Any) -> Floats:
        """Return values as shares: 0 at `low`, 1 at `high`; 0.5 if these are equal.

        >>> Scale("log", 1, 100).share([10.0]).tolist()
        [0.5]
        >>> Scale("date", 0, 172800).share(np.array(["1970-01-02"], "datetime64[D]")).tolist()
        [0.5]
        """
        at = positions(np.asarray(values))
        low, high = self.low, self.high
        if self.kind == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                at, low, high = np.log(at), math.log(low), math.log(high)
        if low == high:
            return at - low + 0.5
        return np.asarray((at - low) / (high - low))

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return about `most` round values at most, each with a label and the unit."""
        behind = f" {self.unit}" if self.unit else ""
        return [(at, f"{text}{behind}") for at, text in self._ticks(most)]

    def _ticks(self, most: int) -> list[tuple[float, str]]:
        if self.kind in ("linear", "log") and self.low == self.high:
            return [(self.low, f"{self.low:g}")]
        powers = log_ticks(self.low, self.high, most) if self.kind == "log" else []
        if powers:
            return [(t, f"{t:,.0f}" if 1 <= t < 1e12 else f"{t:g}") for t in powers]
        if self.kind in ("linear", "log"):
            least = 1.0 if self.step == "whole" else 0.0
            ticks = value_ticks(self.low, self.high, max(most, 2), least)
            step = ticks[1] - ticks[0] if len(ticks) > 1 else self.high - self.low
            digits = max(digits_for(step) - 1, 0)
            if self.step == "whole" and max(abs(self.low), abs(self.high)) < _GROUPED:
                return [(t, f"{t:.0f}") for t in ticks]  # they may be years
            return [(t, format_number(t, digits)) for t in ticks]
        ends: list[date] = [_EPOCH + timedelta(seconds=s) for s in (self.low, self.high)]
        if self.kind == "date":
            ends = [d.date() for d in ends if isinstance(d, datetime)]
        dates = date_ticks(ends[0], ends[1], most, self.step)
        return [(float(positions(np.array(d, "datetime64[s]"))), label) for d, label in dates]


def positions(x: NDArray[Any]) -> Floats:
    """Return numbers unchanged, dates and moments as seconds since 1970, names as 0, 1, 2.

    >>> positions(np.array(["1970-01-02"], "datetime64[D]")).tolist()
    [86400.0]
    """
    if x.dtype.kind == "U":
        return np.arange(len(x), dtype=np.float64)
    return (x.astype("datetime64[s]") if x.dtype.kind == "M" else x).astype(np.float64)


def step_of(x: NDArray[Any]) -> Step:
    """Return the largest calendar step, or whole numbers, that divides all places of an axis.

    >>> step_of(np.array(["2024-01-01", "2024-02-01", "2024-05-01"], "datetime64[D]"))
    'month'
    >>> step_of(np.array(["2024-01-03", "2024-01-10"], "datetime64[D]"))
    'week'
    >>> step_of(np.array([1.0, 3.0])), step_of(np.array([0.5]))
    ('whole', '')
    """
    if x.dtype.kind != "M":
        return "whole" if x.dtype.kind == "f" and bool((x == np.rint(x)).all()) else ""
    days = x.astype("datetime64[D]")
    if len(days) < 2 or bool((days != x).any()):
        return ""
    months = days.astype("datetime64[M]")
    if bool((months == days).all()):
        of_year = months.astype(int) % 12
        steps: tuple[Step, ...] = ("year", "quarter", "month")
        return next(s for s in steps if bool((of_year % _MONTHS_IN[s] == 0).all()))
    return "week" if bool((np.diff(days).astype(int) % 7 == 0).all()) else ""


def value_ticks(low: float, high: float, most: int, least: float = 0.0) -> list[float]:
    """Return at most `most` round numbers from `low` to `high` (`most` at least 2).

    They are at least `least` apart.

    >>> value_ticks(0, 540, 6)
    [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]
    >>> value_ticks(1, 3, 6), value_ticks(1, 3, 6, least=1)
    ([1.0, 1.5, 2.0, 2.5, 3.0], [1.0, 2.0, 3.0])
    """
    power = max(10.0 ** np.floor(np.log10((high - low) / most)), least)
    for step in (m * power for m in (1, 2, 5, 10, 20, 50)):
        first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
        if last - first < most:
            break
    return [float(k * step) + 0.0 for k in np.arange(first, last + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` round numbers: 1, 2, 5; or 1, 3; or powers of ten, or some of these.

    >>> log_ticks(0.5, 60, 8), log_ticks(0.001, 5e4, 4)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [0.001, 0.1, 10.0, 1000.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _IN_DECADES:
        ticks = [float(f"{d}e{k}") for k in decades for d in digits]
        ticks = [t for t in ticks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]


def date_ticks(first: date, last: date, most: int, step: Step = "") -> list[tuple[date, str]]:
    """Return about `most` round dates at most from `first` to `last`, each with a label.

    With the step of months, quarters or years no tick is between them. With the step of weeks,
    ticks are at the data's own days, as long as every fourth week has room.

    >>> date_ticks(date(1997, 1, 1), date(1998, 6, 30), 4)[1:3]
    [(datetime.date(1997, 7, 1), 'Jul'), (datetime.date(1998, 1, 1), 'Jan 1998')]
    >>> [label for _, label in date_ticks(date(1997, 1, 1), date(1997, 3, 1), 8, "month")]
    ['Jan 1997', 'Feb', 'Mar']
    """
    if isinstance(first, datetime) and isinstance(last, datetime):
        if last - first < timedelta(days=3):
            return _hour_ticks(first, last, most)
        midnight = datetime.combine(first.date(), datetime.min.time())
        midnight += timedelta(days=midnight < first)
        by_day = date_ticks(midnight.date(), last.date(), most, step)
        return [(datetime.combine(d, midnight.time()), text) for d, text in by_day]
    span = (last - first).days
    weeks = tuple(7 * k for k in _WEEKS)
    for days in () if step in _MONTHS_IN else weeks if step == "week" else (1, 2, 7, 14):
        if span // days + 1 <= most:
            dates = [first + timedelta(days=k) for k in range(0, span + 1, days)]
            before = [None, *dates]
            return [
                (d, day_label(d, b is None or b.year < d.year))
                for d, b in zip(dates, before, strict=False)
            ]
    return _month_ticks(first, last, most, _MONTHS_IN.get(step, 1))


def _month_ticks(first: date, last: date, most: int, least: int) -> list[tuple[date, str]]:
    """Return first days of months, a multiple of `least` months apart."""
    months = (last.year - first.year) * 12 + last.month - first.month
    steps = (s for s in _MONTH_STEPS if s % least == 0)
    step = next((s for s in steps if months // s + 1 <= most), 12_000)
    start = first.year * 12 + first.month - 1
    index = range(-(-start // step) * step, start + months + 1, step)
    starts = [date(k // 12, k % 12 + 1, 1) for k in index]
    shown = [d for d in starts if first <= d <= last]
    if not shown:
        return [(first, day_label(first))]
    if step % 12 == 0:
        return [(d, str(d.year)) for d in shown]
    return [(d, _month_label(d, k == 0)) for k, d in enumerate(shown)]


def _hour_ticks(first: datetime, last: datetime, most: int) -> list[tuple[date, str]]:
    hours = next(
        (h for h in (1, 2, 3, 6, 12, 24) if (last - first) / timedelta(hours=h) < most), 24
    )
    start = datetime.combine(first.date(), datetime.min.time())
    shown = [start + timedelta(hours=k) for k in range(0, 97, hours)]
    shown = [m for m in shown if first <= m <= last] or [first]
    return [(m, day_label(m, k == 0) if not m.hour else f"{m:%H:%M}") for k, m in enumerate(shown)]


def day_label(day: date, with_year: bool = True) -> str:
    """Return the day, and the time if there is one, as text that is the same in every locale.

    >>> day_label(date(1997, 2, 1)), day_label(datetime(1997, 2, 1, 6))
    ('1 Feb 1997', '1 Feb 1997 06:00')
    """
    label = f"{day.day} {MONTHS[day.month - 1]}"
    label = f"{label} {day.year}" if with_year else label
    return f"{label} {day:%H:%M}" if isinstance(day, datetime) and day.time().hour else label


def period_texts(values: Sequence[Any]) -> list[str] | None:
    """Return months as `Jan 1997`, years as `1997`; None: the values are no such dates.

    >>> period_texts([date(1997, 1, 1), date(1997, 2, 1), None])
    ['Jan 1997', 'Feb 1997', 'NULL']
    """
    known = [v for v in values if v is not None]
    if not known or not all(isinstance(v, date) for v in known):
        return None
    if any(isinstance(v, datetime) and v.time() != time.min for v in known):
        return None
    step = step_of(np.unique(np.array(known, "datetime64[D]")))
    if step not in _MONTHS_IN:
        return None
    return [
        "NULL" if v is None else str(v.year) if step == "year" else _month_label(v, True)
        for v in values
    ]


def _month_label(day: date, with_year: bool) -> str:
    month = MONTHS[day.month - 1]
    return f"{month} {day.year}" if with_year or day.month == 1 else month
