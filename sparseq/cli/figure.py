"""What a chart shows, and its round numbers: shared by the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from sparseq.errors import ParameterError
from sparseq.pictures.numbers import (
    MISSING,
    digits_for,
    format_bound,
    format_number,
    format_with_bound,
)
from sparseq.pictures.tables import Table

Floats = NDArray[np.float64]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MEANS_OVER = (1, 7, 14, 28, 91, 182, 364, 3_640, 36_400)  # whole weeks keep weekdays in balance
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1_200, 2_400)
_FLAT = 1e-9  # a smaller range, relative to the values, is drawn as if it were nothing
_TALLEST = 6.0  # the worst case may make the chart this many times taller than ours needs


def mean_days(span: int, most: int) -> int:
    """Over how many days to take means, to leave at most `most` points of `span` + 1 days."""
    return next((d for d in _MEANS_OVER if span // d + 1 <= most), _MEANS_OVER[-1])


def days_between(first: date, last: date) -> float:
    """How many days lie between two dates, or two moments.

    >>> days_between(datetime(2024, 1, 1, 6), datetime(2024, 1, 2, 12))
    1.25
    """
    return (last - first) / timedelta(days=1)


@dataclass(frozen=True)
class Series:
    """Answers over time; `bound` is the half-width of the error band, of all or of each.

    The dates may be moments (`datetime`), in all series of a figure or in none. A value that is not
    finite is a gap. Raises `ParameterError` where the lengths do not agree.
    """

    name: str
    x: Sequence[date]
    values: Floats
    bound: float | Floats

    def __post_init__(self) -> None:
        if len(self.values) != len(self.x) or np.size(self.bound) not in (1, len(self.x)):
            raise ParameterError(
                f"series {self.name!r} has {len(self.x)} dates, {len(self.values)} values and "
                f"{np.size(self.bound)} bounds",
                "one value for each date, and one bound for each date or for all",
            )

    @property
    def bounds(self) -> Floats:
        """The half-width of the band at each x."""
        return np.broadcast_to(np.asarray(self.bound, dtype=np.float64), (len(self.x),))

    @property
    def label(self) -> str:
        """The name and the bound, `buyers ± 13`; `± 13 to 20` where bounds differ.

        >>> Series("buyers", [date(2024, 1, 1)], np.array([5.0]), 12.3).label
        'buyers ± 13'
        """
        finite = self.bounds[np.isfinite(self.bounds)]
        if not len(finite):
            return self.name
        low, high = format_bound(float(finite.min())), format_bound(float(finite.max()))
        return f"{self.name} ± {low}" if low == high else f"{self.name} ± {low} to {high}"

    def texts(self, with_bound: bool = True) -> list[str]:
        """Each value ± its bound, as precise as the bound allows; or the value alone."""
        return [
            MISSING
            if not np.isfinite(y)
            else format_with_bound(y, bound)
            if with_bound
            else format_number(y, digits_for(bound))
            for y, bound in zip(self.values.tolist(), self.bounds.tolist(), strict=True)
        ]

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Its lower and its upper edge."""
        return self.values - self.bounds, self.values + self.bounds

    def means(self, most: int) -> Series:
        """Means over as few days in a row as leave at most `most` points.

        If every answer is within its bound of the truth, so is their mean within the mean bound:
        the band of single answers holds for the means too.
        """
        ordinals = np.array([d.toordinal() for d in self.x])
        since = ordinals - ordinals.min()
        days = mean_days(int(since.max()), most)
        if days == 1:
            return self
        _, group = np.unique(since // days, return_inverse=True)
        use = np.isfinite(self.values) & np.isfinite(self.bounds)
        n = np.bincount(group, use)
        with np.errstate(invalid="ignore"):  # 0 / 0: a gap
            values, bounds = (
                np.bincount(group, np.where(use, y, 0.0)) / n for y in (self.values, self.bounds)
            )
        centres = np.rint(np.bincount(group, ordinals) / np.bincount(group)).astype(int)
        return Series(self.name, [date.fromordinal(int(c)) for c in centres], values, bounds)


@dataclass
class Figure:
    """What to draw: the first series is ours, a second one the worst case it is compared with.

    A third one is ours corrected for the people who are left out; it has a line of its own.

    `truth` (exact values at the first series' x) is for the curator's eyes, or for simulations.
    """

    title: str
    y_label: str
    series: list[Series]
    truth: Floats | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.series or not all(len(s.x) for s in self.series):
            raise ParameterError("there is nothing to draw", "each series needs at least one date")
        if self.truth is not None and len(self.truth) != len(self.series[0].x):
            raise ParameterError(
                f"{len(self.truth)} true values for {len(self.series[0].x)} answers",
                "one for each date of the first series",
            )

    def date_range(self) -> tuple[date, date]:
        """The first and the last day of any series."""
        return min(min(s.x) for s in self.series), max(max(s.x) for s in self.series)

    def means(self, most: int) -> Figure:
        """The same figure with at most `most` points a series, each the mean of days in a row."""
        truth = self.truth
        if truth is not None:
            truth = replace(self.series[0], values=truth).means(most).values
        return replace(self, series=[s.means(most) for s in self.series], truth=truth)

    def value_range(self) -> tuple[float, float]:
        """From the lowest to the highest band, with 0 where that costs little height.

        A worst case too tall to leave ours readable is cut; `cut_note` says so.
        """
        ours, *others = (s.band for s in self.series)
        truth = [] if self.truth is None else [self.truth]
        low, high = _with_zero(*_range([*ours, self.series[0].values, *truth]))
        flat = _FLAT * max(abs(low), abs(high), 1.0)
        if high - low <= flat:
            low, high = low - max(flat, 0.5), high + max(flat, 0.5)
        room = (_TALLEST - 1) / 2 * (high - low)
        for band in others:
            lowest, highest = _range([*band, np.array([low, high])])
            low, high = max(lowest, low - room), min(highest, high + room)
        return low, high

    def table(self) -> Table:
        """A row for each date of the first series: every series' value ± bound, then the truth."""
        days = self.series[0].x
        columns = [(s.name, dict(zip(s.x, s.texts(), strict=True))) for s in self.series]
        if self.truth is not None:
            exact = replace(self.series[0], values=self.truth).texts(with_bound=False)
            columns.append(("exact value", dict(zip(days, exact, strict=True))))
        rows = [[d.isoformat(), *(texts.get(d, MISSING) for _, texts in columns)] for d in days]
        return Table(["date", *(name for name, _ in columns)], rows, ["l", *"." * len(columns)])

    def all_notes(self) -> list[str]:
        """What a reader must know about the bands, then the notes given."""
        return [*self.cut_note(), *self.coverage_note(), *self.notes]

    def cut_note(self) -> list[str]:
        """One note for each band that does not fit in the range of values."""
        low, high = self.value_range()
        cut = [s.name for s in self.series if (s.band[0] < low).any() or (s.band[1] > high).any()]
        return [f"The band of {name} is taller than the chart." for name in cut]

    def coverage_note(self) -> list[str]:
        """For each series at the dates of `truth`: on how many the truth is in its band."""
        notes = []
        for s in self.series:
            if self.truth is not None and list(s.x) == list(self.series[0].x):
                known = np.isfinite(self.truth) & np.isfinite(s.values)
                inside = int((np.abs(s.values - self.truth) <= s.bounds)[known].sum())
                notes.append(f"The exact value is in the band of {s.name} at {inside:,} of "
                             f"{int(known.sum()):,} dates.")  # fmt: skip
        return notes


def finite_runs(values: Floats) -> list[NDArray[np.int64]]:
    """The indices of finite values, in pieces without a gap.

    >>> [list(map(int, run)) for run in finite_runs(np.array([1.0, 2.0, np.nan, 4.0]))]
    [[0, 1], [3]]
    """
    known = np.isfinite(values)
    pieces = np.split(np.arange(len(values)), np.flatnonzero(~known))
    return [run for piece in pieces if len(run := piece[known[piece]])]


def _range(arrays: Sequence[Floats]) -> tuple[float, float]:
    joined = np.concatenate([np.ravel(a) for a in arrays])
    finite = joined[np.isfinite(joined)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)


def _with_zero(low: float, high: float) -> tuple[float, float]:
    if 0 < low <= high / 2:
        return 0.0, high
    if low / 2 <= high < 0:
        return low, 0.0
    return low, high


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


def date_ticks(first: date, last: date, most: int) -> list[tuple[date, str]]:
    """At most about `most` round dates from `first` to `last`, each with a label.

    >>> date_ticks(date(1997, 1, 1), date(1998, 6, 30), 4)[1:3]
    [(datetime.date(1997, 7, 1), 'Jul'), (datetime.date(1998, 1, 1), 'Jan 1998')]
    """
    if isinstance(first, datetime) and isinstance(last, datetime):
        if days_between(first, last) < 3:
            return _hour_ticks(first, last, most)
        midnight = datetime.combine(first.date() + timedelta(days=1), datetime.min.time())
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
