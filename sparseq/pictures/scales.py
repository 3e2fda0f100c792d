"""Scales of an axis, and its round numbers: linear, logarithmic, dates, moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparseq.pictures.tables import digits_for, format_number

Floats = NDArray[np.float64]
Kind = Literal["linear", "log", "date", "moment"]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400)
_EPOCH = datetime(1970, 1, 1)
_IN_DECADES: tuple[tuple[int, ...], ...] = ((1, 2, 5), (1, 3), (1,))


@dataclass(frozen=True)
class Scale:
    """From `low` to `high`: numbers, or seconds since 1970 for a date or a moment."""

    kind: Kind
    low: float
    high: float
    unit: str = ""

    def share(self, values: Any) -> Floats:
        """How far along values are: 0 at `low`, 1 at `high`; in the middle if these are the same.

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
        """At most about `most` round values, each with a label and the unit."""
        behind = f" {self.unit}" if self.unit else ""
        return [(at, f"{text}{behind}") for at, text in self._ticks(most)]

    def _ticks(self, most: int) -> list[tuple[float, str]]:
        if self.kind in ("linear", "log") and self.low == self.high:
            return [(self.low, f"{self.low:g}")]
        found = log_ticks(self.low, self.high, most) if self.kind == "log" else []
        if found:
            return [(t, f"{t:,.0f}" if 1 <= t < 1e12 else f"{t:g}") for t in found]
        if self.kind in ("linear", "log"):
            ticks = value_ticks(self.low, self.high, max(most, 2))
            step = ticks[1] - ticks[0] if len(ticks) > 1 else self.high - self.low
            digits = max(digits_for(step) - 1, 0)
            return [(t, format_number(t, digits)) for t in ticks]
        ends: list[date] = [_EPOCH + timedelta(seconds=s) for s in (self.low, self.high)]
        if self.kind == "date":
            ends = [d.date() for d in ends if isinstance(d, datetime)]
        dates = date_ticks(ends[0], ends[1], most)
        return [(float(positions(np.array(d, "datetime64[s]"))), label) for d, label in dates]


def positions(x: NDArray[Any]) -> Floats:
    """Return numbers as they are, dates and moments as seconds since 1970.

    >>> positions(np.array(["1970-01-02"], "datetime64[D]")).tolist()
    [86400.0]
    """
    return (x.astype("datetime64[s]") if x.dtype.kind == "M" else x).astype(np.float64)


def value_ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` round numbers from `low` to `high` (`most` at least 2).

    >>> value_ticks(0, 540, 6)
    [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]
    """
    power = 10.0 ** np.floor(np.log10((high - low) / most))
    for step in (m * power for m in (1, 2, 5, 10, 20, 50)):
        first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
        if last - first < most:
            break
    return [float(k * step) + 0.0 for k in np.arange(first, last + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` round numbers: 1, 2, 5; or 1, 3; or powers of ten, if need be not all.

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


def date_ticks(first: date, last: date, most: int) -> list[tuple[date, str]]:
    """At most about `most` round dates from `first` to `last`, each with a label.

    >>> date_ticks(date(1997, 1, 1), date(1998, 6, 30), 4)[1:3]
    [(datetime.date(1997, 7, 1), 'Jul'), (datetime.date(1998, 1, 1), 'Jan 1998')]
    """
    if isinstance(first, datetime) and isinstance(last, datetime):
        if last - first < timedelta(days=3):
            return _hour_ticks(first, last, most)
        midnight = datetime.combine(first.date(), datetime.min.time())
        midnight += timedelta(days=midnight < first)
        found = date_ticks(midnight.date(), last.date(), most)
        return [(datetime.combine(d, midnight.time()), text) for d, text in found]
    span = (last - first).days
    for days in (1, 2, 7, 14):
        if span // days + 1 <= most:
            dates = [first + timedelta(days=k) for k in range(0, span + 1, days)]
            return [(d, day_label(d, k == 0)) for k, d in enumerate(dates)]
    months = (last.year - first.year) * 12 + last.month - first.month
    step = next((s for s in _MONTH_STEPS if months // s + 1 <= most), 12_000)
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
    """The day, and the time if there is one, in words that are the same in every locale.

    >>> day_label(date(1997, 2, 1)), day_label(datetime(1997, 2, 1, 6))
    ('1 Feb 1997', '1 Feb 1997 06:00')
    """
    label = f"{day.day} {MONTHS[day.month - 1]}"
    label = f"{label} {day.year}" if with_year else label
    return f"{label} {day:%H:%M}" if isinstance(day, datetime) and day.time().hour else label


def _month_label(day: date, with_year: bool) -> str:
    month = MONTHS[day.month - 1]
    return f"{month} {day.year}" if with_year or day.month == 1 else month
