"""A picture as data: series, bands, axes, marks, notes, and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError
from sparseq.pictures.tables import (
    MISSING,
    Ends,
    Table,
    digits_for,
    format_bound,
    format_number,
    format_with_bound,
    interval_texts,
    number,
)

# -- scales of an axis, and its round numbers: linear, logarithmic, dates, moments -----------------

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
        """Return values as shares: 0 at `low`, 1 at `high`; in the middle if these are the same.

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
        powers = log_ticks(self.low, self.high, most) if self.kind == "log" else []
        if powers:
            return [(t, f"{t:,.0f}" if 1 <= t < 1e12 else f"{t:g}") for t in powers]
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
    """Return numbers as they are, dates and moments as seconds since 1970, names as 0, 1, 2.

    >>> positions(np.array(["1970-01-02"], "datetime64[D]")).tolist()
    [86400.0]
    """
    if x.dtype.kind == "U":
        return np.arange(len(x), dtype=np.float64)
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
        by_day = date_ticks(midnight.date(), last.date(), most)
        return [(datetime.combine(d, midnight.time()), text) for d, text in by_day]
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


# -- a picture as data: series, bands, axes, marks, notes, and the table behind it -----------------

Floats = NDArray[np.float64]
Look = Literal["line", "dashes", "band", "steps", "bars", "dots"]
Color = Literal["blue", "orange", "green", "ink", "purple", "red", "teal", "brown"]
COLORS: tuple[Color, ...] = ("blue", "orange", "green", "ink", "purple", "red", "teal", "brown")
_MEANS_OVER = (1, 7, 14, 28, 91, 182, 364, 3_640, 36_400)  # whole weeks keep weekdays in balance
_FLAT = 1e-9  # a smaller range, relative to the values, is drawn as if it were nothing
_TALLEST = 6.0  # a band behind may make the chart this many times taller than the first needs
_ALIKE = 8.0  # panels whose heights differ more have scales of their own
_DECADES = 100.0
MOST_NAMES = 100
"""Names that are drawn of a figure over names; its table has all."""


@dataclass(frozen=True)
class Axis:
    """One axis: the values along one side.

    Attributes:
        label: What the numbers are, and in which unit.
        scale: How they are spread out.
        unit: What stands behind each number, such as %.
        low, high: Where it has to begin and end; None: where the values do.
    """

    label: str = ""
    scale: Literal["linear", "log", "time"] = "linear"
    unit: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Mark:
    """A dashed line at a value of the axis `of`, and what it means."""

    at: float
    label: str
    of: Literal["x", "y"] = "y"


@dataclass(frozen=True)
class Series:
    """Numbers over time, over other numbers, or over names.

    Raises `ParameterError` where the lengths do not agree.

    Attributes:
        name: As in the legend.
        x: Dates, moments or numbers, ascending; all series of a figure have the same kind. Bars go
            on to the next x. Names are in any order; each has a line of its own, with a lying bar.
        values: One for each x. What is not finite is a gap.
        bound: Half-width of the error band, of all or of each. NaN: not known, so there is no band;
            None: the values have no ±.
        ends: The lower and the upper ends of intervals, in the place of `bound`, where a value is
            not in the middle of its own.
        look: What is drawn. A `band` has no line: it is what the others are compared with.
        color: Which.
        panel: Series of different panels are drawn beside each other.
        exact: Values without noise, for data that are public.
    """

    name: str
    x: Any
    values: Floats
    bound: float | Floats | None = None
    look: Look = "line"
    color: Color = "blue"
    panel: str = ""
    exact: bool = False
    ends: tuple[Floats, Floats] | None = None

    def __post_init__(self) -> None:
        sizes = {np.size(part) for part in (self.values, *(self.ends or ()))}
        if sizes != {len(self.x)} or np.size(np.asarray(self.bound)) not in (1, len(self.x)):
            raise ParameterError(
                f"series {self.name!r} does not have one value, and one bound or none, for each of "
                f"its {len(self.x)} places"
            )
        object.__setattr__(self, "x", as_plottable(self.x))

    @property
    def bounds(self) -> Floats:
        """The half-width of the band at each x."""
        if self.ends is not None:
            return (self.ends[1] - self.ends[0]) / 2
        bound = np.nan if self.bound is None else self.bound
        return np.broadcast_to(np.asarray(bound, dtype=np.float64), (len(self.x),))

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Its lower and its upper edge; NaN where there is none."""
        if self.ends is not None:
            return self.ends
        return self.values - self.bounds, self.values + self.bounds

    @property
    def at(self) -> Floats:
        """The place of each x: a number, or seconds since 1970."""
        return positions(self.x)

    def pick(self, which: NDArray[np.bool_]) -> Series:
        """Return some of the points."""
        bound = None if self.bound is None else self.bounds[which]
        ends = None if self.ends is None else (self.ends[0][which], self.ends[1][which])
        return replace(self, x=self.x[which], values=self.values[which], bound=bound, ends=ends)

    def texts(self, unit: str = "") -> list[str]:
        """Each value with its interval, as precise as that allows; `± –` where it isn't known."""
        behind = f" {unit}" if unit else ""
        if self.ends is not None:
            known = zip(self.values.tolist(), *(e.tolist() for e in self.ends), strict=True)
            return [
                text if text == MISSING else text + behind
                for text in interval_texts([_known(*row) for row in known])
            ]
        return [
            MISSING
            if not np.isfinite(y)
            else (number(y) if self.bound is None else format_with_bound(y, bound)) + behind
            for y, bound in zip(self.values.tolist(), self.bounds.tolist(), strict=True)
        ]

    def means(self, days: int) -> Series:
        """Means over so many days in a row.

        If every answer is within its bound of the truth, so is their mean within the mean bound:
        the band of single answers holds for the means too.
        """
        ordinals = self.x.astype("datetime64[D]").astype(int)
        _, group = np.unique((ordinals - ordinals.min()) // days, return_inverse=True)
        use = np.isfinite(self.values)
        n = np.bincount(group, use)
        with np.errstate(invalid="ignore"):  # 0 / 0: a gap
            values, bounds, low, high = (
                np.bincount(group, np.where(use, y, 0.0)) / n
                for y in (self.values, self.bounds, *self.band)
            )
        centres = np.rint(np.bincount(group, ordinals) / np.bincount(group)).astype(int)
        x = centres.astype("datetime64[D]")
        if self.ends is not None:
            return replace(self, x=x, values=values, ends=(low, high))
        return replace(self, x=x, values=values, bound=bounds)


@dataclass(frozen=True)
class Figure:
    """A drawing: the first series sets the height, and bands that are taller are cut.

    Raises `ParameterError` where there is nothing to draw.

    Attributes:
        title: What it is about.
        series: What is drawn, the most important first.
        x, y: The axes.
        marks: Lines across.
        notes: What a reader must know.
    """

    title: str
    series: Sequence[Series]
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    marks: Sequence[Mark] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.series or not all(len(s.x) for s in self.series):
            raise ParameterError("there is nothing to draw", "each series needs at least one point")
        if len({s.x.dtype.kind == "U" for s in self.series}) > 1:
            raise ParameterError("names and numbers have no axis in common", "draw two figures")

    @property
    def is_named(self) -> bool:
        """True if each place is a name: a line with bars that lie, one below the other."""
        return bool(self.series[0].x.dtype.kind == "U")

    def is_alone(self) -> bool:
        """True if names need no legend: no panel has more than one series."""
        return self.is_named and all(len(p.series) == 1 for p in self.panels().values())

    def places(self) -> NDArray[Any]:
        """Each x of any series, ascending; names in their order."""
        joined = np.concatenate([s.x for s in self.series])
        if self.is_named:
            return np.array(list(dict.fromkeys(joined.tolist())))
        return np.unique(joined)

    def panels(self) -> dict[str, Figure]:
        """Return a figure for each panel; of those with the same scale, all values are in it."""
        names = list(dict.fromkeys(s.panel for s in self.series))
        if len(names) == 1:
            return {names[0]: self}
        y = self.y
        if self.is_shared():
            low, high = self.value_range()
            y = replace(y, low=low, high=high)
        return {
            n: replace(self, y=y, notes=(), series=[s for s in self.series if s.panel == n])
            for n in names
        }

    def is_shared(self) -> bool:
        """Tell whether all panels can have one scale of values without making one of them flat."""
        if self.y.scale == "log":
            return True
        tops: dict[str, float] = {}
        for s in self.series:
            top = float(np.max(np.abs(s.values), where=np.isfinite(s.values), initial=0.0))
            tops[s.panel] = max(tops.get(s.panel, 0.0), top)
        return max(tops.values()) <= _ALIKE * min(tops.values())

    def means(self, most: int) -> Figure:
        """The same figure with at most `most` points a series, each the mean of days in a row."""
        if self.is_named:
            return self.thinned(MOST_NAMES)
        across, _ = self.scales()
        days = mean_days(int((across.high - across.low) // 86_400), most)
        if across.kind in ("linear", "log") or days == 1:
            return self
        note = f"Points are means over {days} days; bands are those of single answers."
        drawn = [s.means(days) for s in self.series]
        return replace(self, series=drawn, notes=[*self.notes, note])

    def thinned(self, most: int) -> Figure:
        """The same figure with `most` points a panel: the lowest and highest of each stretch.

        One gap of each stretch is kept as well. Of names, the first are drawn.
        """
        if self.is_named:
            return self._first_names()
        drawn, before, after = [], 0, 0
        for part in self.panels().values():
            places = part.places()
            kept = _extremes(part.series, places, most)
            before, after = before + len(places), after + len(kept)
            drawn += [s.pick(np.isin(s.x, kept)) for s in part.series]
        if before == after:
            return self
        note = f"{after:,} of {before:,} points are drawn: of each stretch the lowest and highest."
        return replace(self, series=drawn, notes=[*self.notes, note])

    def _first_names(self) -> Figure:
        """The same figure with at most `MOST_NAMES` names."""
        names = self.places()
        if len(names) <= MOST_NAMES:
            return self
        drawn = [s.pick(np.isin(s.x, names[:MOST_NAMES])) for s in self.series]
        note = f"The first {MOST_NAMES:,} of {len(names):,} are drawn."
        drawn = [s for s in drawn if len(s.x)]
        return replace(self, series=drawn, notes=[*self.notes, note])

    def scales(self) -> tuple[Scale, Scale]:
        """Return where an x and where a value is."""
        x, at = self.places(), positions(self.places())
        kind: Kind = "log" if self.x.scale == "log" else "linear"
        if x.dtype.kind == "M":
            kind = "date" if x.dtype == "datetime64[D]" else "moment"
        low, high = float(at[0]), float(at[-1])
        if self.series[0].look == "bars" and len(at) > 1 and not self.is_named:
            high += float(at[-1] - at[-2])
        low = low if self.x.low is None else self.x.low
        high = high if self.x.high is None else self.x.high
        of_y: Kind = "log" if self.y.scale == "log" else "linear"
        return (Scale(kind, low, high, self.x.unit), Scale(of_y, *self.value_range(), self.y.unit))

    def value_range(self) -> tuple[float, float]:
        """From the lowest to the highest, with 0 where that costs little height.

        A band behind that is too tall to leave the first series readable is cut; `all_notes` says
        so.
        """
        log = self.y.scale == "log"
        first = self.series[0]
        inside = [s.values for s in self.series if s.look != "band"] + [
            *(end for s in self.series if s is first or s.ends is not None for end in s.band),
            np.array([m.at for m in self.marks if m.of == "y"]),
        ]
        low, high = _range(inside, log)
        if not log:
            bars = any(s.look == "bars" for s in self.series)
            low, high = _with_zero(min(low, 0.0) if bars else low, high)
            high = max(high, 0.0) if self.is_named else high
            flat = _FLAT * max(abs(low), abs(high), 1.0)
            if high - low <= flat:
                low, high = low - max(flat, 0.5), high + max(flat, 0.5)
            room = (_TALLEST - 1) / 2 * (high - low)
            for band in (s.band for s in self.series[1:]):
                lowest, highest = _range([*band, np.array([low, high])], log)
                low, high = max(lowest, low - room), min(highest, high + room)
        elif high <= 1.5 * low:
            low, high = low / 2, high * 2
        low = low if self.y.low is None else self.y.low
        high = high if self.y.high is None else self.y.high
        return low, high if high > low else low + 1.0

    @property
    def subtitle(self) -> str:
        """The names of the values, and of the x axis; names say that themselves."""
        if self.is_named:
            return self.y.label
        return ", by ".join(filter(None, [self.y.label, self.x.label]))

    def legend(self) -> list[tuple[str, Series]]:
        """A label for each series of different name: the name, and the ± of its band.

        >>> one = Series("buyers", [date(2024, 1, 1)], np.array([5.0]), 12.3)
        >>> [label for label, _ in Figure("", [one]).legend()]
        ['buyers ± 13']
        """
        labels, unit = [], f" {self.y.unit}" if self.y.unit else ""
        for name in dict.fromkeys(s.name for s in self.series):
            group = [s for s in self.series if s.name == name]
            bounds = np.concatenate([s.bounds for s in group if s.ends is None] or [np.zeros(0)])
            finite = bounds[np.isfinite(bounds)]
            ends = (
                [format_bound(float(b)) for b in (finite.min(), finite.max())]
                if len(finite)
                else []
            )
            width = " to ".join(dict.fromkeys(ends))
            labels.append((f"{name} ± {width}{unit}" if width else name, group[0]))
        return labels

    def table(self) -> Table:
        """The table behind: a row for each x, each series' value ± its bound."""
        names = list(dict.fromkeys(s.name for s in self.series))
        panels, rows = self.panels(), []
        for panel, part in panels.items():
            texts = {
                s.name: dict(zip(s.x.tolist(), s.texts(self.y.unit), strict=True))
                for s in part.series
            }
            for x in part.places().tolist():
                cells = [texts.get(name, {}).get(x, MISSING) for name in names]
                text = x if isinstance(x, str) else f"{x:.6g}"
                text = x.isoformat() if isinstance(x, date) else text
                rows.append([*([panel] if len(panels) > 1 else []), text, *cells])
        of_x = self.x.label or ("date" if self.series[0].x.dtype.kind == "M" else "")
        columns = [*(["group"] if len(panels) > 1 else []), of_x, *names]
        return Table(columns, rows, ["l"] * (len(columns) - len(names)) + ["."] * len(names))

    def tips(self) -> list[list[str]]:
        """Return the texts of each place of a panel: its x, then the cells of the table."""
        places, rows = self.places().tolist(), self.table().rows
        return [
            [day_label(x) if isinstance(x, date) else row[0], *row[1:]]
            for x, row in zip(places, rows, strict=True)
        ]

    def notes_of(self, drawn: Figure) -> list[str]:
        """Return what a reader must know, if `drawn`, with fewer points, is seen."""
        return [*drawn.notes[len(self.notes) :], *self.all_notes()]

    def all_notes(self) -> list[str]:
        """Return what a reader must know about the bands, then the notes given."""
        low, high = self.value_range()
        notes = []
        if len({s.panel for s in self.series}) > 1 and not self.is_shared():
            notes.append("Each chart has a scale of its own.")
        elif self.y.scale == "linear":
            cut = {
                s.name: 0
                for s in self.series
                if (s.band[0] < low).any() or (s.band[1] > high).any()
            }
            notes += [f"The band of {name} is taller than the chart." for name in cut]
        if self.y.scale == "log":
            notes.append("The scale is logarithmic.")
        return [*notes, *self._coverage(), *self.notes]

    def _coverage(self) -> list[str]:
        """For each series at the dates of an exact one: on how many that is in its band."""
        notes = []
        for exact in (s for s in self.series if s.exact):
            for s in self.series:
                same = s.panel == exact.panel and np.array_equal(s.x, exact.x)
                if same and np.isfinite(s.bounds).any() and s.values is not exact.values:
                    both = np.isfinite(exact.values) & np.isfinite(s.values)
                    inside = int((np.abs(s.values - exact.values) <= s.bounds)[both].sum())
                    notes.append(
                        f"The exact value is in the band of {s.name} at {inside:,} of "
                        f"{int(both.sum()):,} dates."
                    )
        return notes


@dataclass(frozen=True)
class Sheet:
    """The content of one page or image: figures below each other.

    Attributes:
        title: Of all.
        figures: What is drawn.
        warning: What nobody may overlook.
        facts: A table before the figures.
        log: A table after them, and its heading.
    """

    title: str
    figures: Sequence[Figure]
    warning: str = ""
    facts: Table | None = None
    log: tuple[str, Table] | None = None


@dataclass(frozen=True)
class PagePart:
    """A part of a document: a heading, paragraphs of text, a figure or a table, and its notes."""

    heading: str = ""
    paragraphs: Sequence[str] = ()
    figure: Figure | None = None
    table: Table | None = None
    notes: Sequence[str] = ()


def as_plottable(x: Any) -> NDArray[Any]:
    """Return dates or moments as datetime64, names as texts, numbers as floats."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "MU":
        return x
    first = x[0] if len(x) else 0.0
    if isinstance(first, str):
        return np.asarray(x, dtype=np.str_)
    kind = "datetime64[s]" if isinstance(first, datetime) else "datetime64[D]"
    return np.asarray(x, dtype=kind if isinstance(first, date) else np.float64)


def mean_days(span: int, most: int) -> int:
    """Over how many days to take means, to leave at most `most` points of `span` + 1 days."""
    return next((d for d in _MEANS_OVER if span // d + 1 <= most), _MEANS_OVER[-1])


def spread(series: Sequence[Series]) -> Literal["linear", "log"]:
    """Return the scale that values need: logarithmic where one spans decades, above the noise.

    Nine tenths of the values decide: a single day far from the others is no reason.

    >>> days = [date(2024, 1, k) for k in range(1, 11)]
    >>> spread([Series("doubling", days, 10.0 * 2 ** np.arange(10), 5.0)])
    'log'
    """
    spans = False
    for s in series:
        values = s.values[np.isfinite(s.values)]
        lower = s.band[0][np.isfinite(s.band[0])]
        if (values <= 0).any() or (lower <= 0).any():
            return "linear"
        low, high = np.quantile(values, [0.05, 0.95]) if len(values) else (1.0, 1.0)
        spans |= bool(high >= _DECADES * low)
    return "log" if spans else "linear"


def finite_runs(values: Floats) -> list[NDArray[np.int64]]:
    """The indices of finite values, in pieces without a gap.

    >>> [list(map(int, run)) for run in finite_runs(np.array([1.0, 2.0, np.nan, 4.0]))]
    [[0, 1], [3]]
    """
    finite = np.isfinite(values)
    pieces = np.split(np.arange(len(values)), np.flatnonzero(~finite))
    return [run for piece in pieces if len(run := piece[finite[piece]])]


def _known(*row: float) -> Ends:
    """Return a value and its ends with None for what is not known."""
    value, low, high = (x if math.isfinite(x) else None for x in row)
    return value, low, high


def _extremes(group: Sequence[Series], places: NDArray[Any], most: int) -> NDArray[Any]:
    """Return at most `most` places: of each stretch where something is lowest or highest."""
    kept, stretch = places, 2 * len(places) // most + 1
    while len(kept) > most:
        keep = [places[[0, -1]]]
        for s in group:
            part = np.searchsorted(places, s.x) // stretch
            gaps = np.where(np.isfinite(s.values), np.nan, 0.0)
            for y in (s.values, *s.band, gaps):
                finite = np.flatnonzero(np.isfinite(y))
                order = finite[np.lexsort((y[finite], part[finite]))]
                first = np.flatnonzero(np.diff(part[order], prepend=-1))
                keep += [s.x[order[first]], s.x[order[np.roll(first, -1) - 1]]]
        kept, stretch = np.unique(np.concatenate(keep)), stretch + stretch // 2 + 1
    return kept


def _range(arrays: Sequence[Floats], log: bool) -> tuple[float, float]:
    joined = np.concatenate([np.ravel(a) for a in arrays])
    finite = joined[np.isfinite(joined)]
    finite = finite[finite > 1e-300] if log else finite  # a zero has no place on such an axis
    if len(finite):
        return float(finite.min()), float(finite.max())
    return (1.0, 10.0) if log else (0.0, 1.0)


def _with_zero(low: float, high: float) -> tuple[float, float]:
    if 0 < low <= high / 2:
        return 0.0, high
    if low / 2 <= high < 0:
        return low, 0.0
    return low, high
