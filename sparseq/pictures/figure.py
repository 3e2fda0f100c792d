"""A picture as data: series, bands, axes, marks, notes, and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparseq.base.errors import ParameterError
from sparseq.pictures.axis_scales import Kind, Scale, day_label, positions, step_of
from sparseq.pictures.bounded_numbers import (
    MISSING,
    Ends,
    format_bound,
    format_with_bound,
    interval_texts,
    number,
)
from sparseq.pictures.tables import Table

Floats = NDArray[np.float64]
Look = Literal["line", "dashes", "band", "steps", "bars", "dots"]
Color = Literal["blue", "orange", "green", "ink", "purple", "red", "teal", "brown"]
COLORS: tuple[Color, ...] = ("blue", "orange", "green", "purple", "red", "teal", "brown", "ink")
_MEANS_OVER = (1, 7, 14, 28, 91, 182, 364, 3_640, 36_400)  # whole weeks keep weekdays in balance
_FLAT = 1e-9  # a smaller range, relative to the values, is drawn as if it were 0
_TALLEST = 6.0  # largest ratio of a chart's height with a band behind to the height without
_ALIKE = 8.0  # panels whose heights differ by a larger ratio have separate scales
_DECADES = 100.0
_SEEN = 0.25  # smallest part of a chart's height for the values, with 0 on the axis
MOST_NAMES = 100
"""Largest number of names in a drawn figure over names; its table has all."""


@dataclass(frozen=True)
class Axis:
    """One axis: the values along one side.

    Attributes:
        label: Meaning and unit of the numbers.
        scale: Spacing of the numbers.
        unit: Text after each number, such as %.
        low, high: Ends of the axis; None: those of the values.
    """

    label: str = ""
    scale: Literal["linear", "log", "time"] = "linear"
    unit: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Mark:
    """A dashed line at a value of the axis `of`, and its label."""

    at: float
    label: str
    of: Literal["x", "y"] = "y"


@dataclass(frozen=True)
class Series:
    """Numbers over time, over other numbers, or over names.

    Raises `ParameterError` if the lengths do not agree.

    Attributes:
        name: Name in the legend.
        x: Dates, moments or numbers, ascending; all series of a figure have the same kind. Names
            are in any order; each has one line with a horizontal bar.
        values: One for each x. A value that is not finite is a gap.
        bound: Half-width of the error band, one for all or one for each. NaN: not known, so there
            is no band; None: the values have no error.
        ends: The lower and the upper ends of intervals, instead of `bound`, if a value is not in
            the middle of its interval.
        look: Kind of drawing. A `band` has no line: the others are compared with it.
        color: Color of the series.
        panel: Series of different panels are drawn next to each other.
        exact: Values without noise, for public data.
        until: The end of each bar that begins at a number or time x. None: the next x.
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
    until: Floats | None = None

    def __post_init__(self) -> None:
        parts = (self.values, *(self.ends or ()), *([] if self.until is None else [self.until]))
        sizes = {np.size(part) for part in parts}
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
        """The lower and the upper edge of the band; NaN without a band."""
        if self.ends is not None:
            return self.ends
        return self.values - self.bounds, self.values + self.bounds

    @property
    def at(self) -> Floats:
        """The position of each x: a number, or seconds since 1970."""
        return positions(self.x)

    @property
    def edges(self) -> tuple[Floats, Floats]:
        """The begin and the end of each bar; the last is as wide as the one before it."""
        at = self.at
        if self.until is not None:
            return at, self.until
        return at, np.append(at[1:], at[-1] + (at[-1] - at[-2] if len(at) > 1 else 1.0))

    @property
    def bar_ends(self) -> dict[float, float]:
        """The declared end of each bar, by its begin."""
        return {} if self.until is None else dict(zip(self.x.tolist(), self.until, strict=True))

    def pick(self, which: NDArray[np.bool_]) -> Series:
        """Return some of the points."""
        bound = None if self.bound is None else self.bounds[which]
        ends = None if self.ends is None else (self.ends[0][which], self.ends[1][which])
        until = None if self.until is None else self.until[which]
        picked: dict[str, Any] = {"x": self.x[which], "values": self.values[which], "until": until}
        return replace(self, bound=bound, ends=ends, **picked)

    def texts(self, unit: str = "") -> list[str]:
        """Return each value with its interval and suitable digits; `± –` if it is not known."""
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
        """Return means over `days` consecutive days.

        If every answer is within its bound of the truth, their mean is within the mean bound: the
        band of single answers holds for the means too.
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
    """A drawing: the first series sets the height, and taller bands are cut.

    Raises `ParameterError` if there is nothing to draw.

    Attributes:
        title: Title of the drawing.
        series: The series, the most important first.
        x, y: The axes.
        marks: Lines across the drawing.
        notes: Notes that a reader must see.
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
        """True if each position is a name: one line per name, with horizontal bars."""
        return bool(self.series[0].x.dtype.kind == "U")

    def is_single(self) -> bool:
        """True if no legend is needed: each panel has one series, and its name is known."""
        if any(len(p.series) > 1 for p in self.panels().values()):
            return False
        known = {self.y.label, *(s.panel for s in self.series)}
        return self.is_named or all(label in known for label, _ in self.legend())

    def places(self) -> NDArray[Any]:
        """Return each x of any series, ascending; names in their order."""
        joined = np.concatenate([s.x for s in self.series])
        if self.is_named:
            return np.array(list(dict.fromkeys(joined.tolist())))
        return np.unique(joined)

    def panels(self) -> dict[str, Figure]:
        """Return a figure for each panel; panels with one scale share the range of values."""
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
        """Return True if one scale of values for all panels leaves none of them flat."""
        if self.y.scale == "log":
            return True
        tops: dict[str, float] = {}
        for s in self.series:
            top = float(np.max(np.abs(s.values), where=np.isfinite(s.values), initial=0.0))
            tops[s.panel] = max(tops.get(s.panel, 0.0), top)
        return max(tops.values()) <= _ALIKE * min(tops.values())

    def means(self, most: int) -> Figure:
        """Return the same figure with at most `most` points a series, each a mean over days."""
        if self.is_named:
            return self
        across, _ = self.scales()
        days = mean_days(int((across.high - across.low) // 86_400), most)
        if across.kind in ("linear", "log") or days == 1 or len(self.places()) <= most:
            return self
        note = f"Points are means over {days} days; bands are those of single answers."
        drawn = [s.means(days) for s in self.series]
        return replace(self, series=drawn, notes=[*self.notes, note])

    def thinned(self, most: int) -> Figure:
        """Return the same figure with `most` points a panel: lowest and highest of each stretch.

        One gap of each stretch is kept as well.
        """
        if self.is_named:
            return self
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

    def readable(self) -> Figure:
        """Return the same figure with the series and names that a reader can tell apart.

        A chart has at most as many series as there are colours: those with the largest values in
        the first panel. Of names, the first ones are drawn. Notes say so; `table` has all.
        """
        return self._largest()._first_names()

    def _largest(self) -> Figure:
        first = next(iter(self.panels().values())).series
        if len(first) <= len(COLORS):
            return self
        size = {s.name: float(np.nansum(np.abs(s.values))) for s in first}
        largest = set(sorted(size, key=size.__getitem__, reverse=True)[: len(COLORS)])
        colors = dict(zip((s.name for s in first if s.name in largest), COLORS, strict=False))
        drawn = [replace(s, color=colors[s.name]) for s in self.series if s.name in largest]
        note = f"{len(COLORS)} of {len(size):,} groups are drawn: those with the largest values."
        return replace(self, series=drawn, notes=[note, *self.notes])

    def _first_names(self) -> Figure:
        names = self.places()
        if not self.is_named or len(names) <= MOST_NAMES:
            return self
        drawn = [s.pick(np.isin(s.x, names[:MOST_NAMES])) for s in self.series]
        note = f"The first {MOST_NAMES:,} of {len(names):,} are drawn."
        return replace(self, series=[s for s in drawn if len(s.x)], notes=[note, *self.notes])

    def scales(self) -> tuple[Scale, Scale]:
        """Return the scales of x and of values."""
        x, at = self.places(), positions(self.places())
        kind: Kind = "log" if self.x.scale == "log" else "linear"
        if x.dtype.kind == "M":
            kind = "date" if x.dtype == "datetime64[D]" else "moment"
        low, high = float(at[0]), float(at[-1])
        if not self.is_named:
            high = max([high, *(float(s.edges[1][-1]) for s in self.series if s.look == "bars")])
        low = low if self.x.low is None else self.x.low
        high = high if self.x.high is None else self.x.high
        of_y: Kind = "log" if self.y.scale == "log" else "linear"
        across = Scale(kind, low, high, self.x.unit, step_of(x))
        return across, Scale(of_y, *self.value_range(), self.y.unit)

    def value_range(self) -> tuple[float, float]:
        """Return the lowest and the highest value, with 0 unless that flattens the values.

        One rule for every figure: 0 is on the axis of bars always, and on that of lines if the
        values have a quarter of the height then. `all_notes` reports an axis without 0.

        A band behind that would make the first series unreadable is cut; `all_notes` reports this.
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
        """The names of the values, and of the x axis, unless the title says the same.

        Names of bars need no name of their axis.
        """
        if " by ".join(filter(None, [self.y.label, self.x.label])) == self.title:
            return ""
        by = f"by {self.x.label}" if self.x.label and not self.is_named else ""
        return ", ".join(filter(None, [self.y.label, by]))

    def heading(self, panel: str) -> str:
        """Return the heading of a panel; none if its only bar says the same."""
        return "" if self.is_named and self.panels()[panel].places().tolist() == [panel] else panel

    def legend(self) -> list[tuple[str, Series]]:
        """Return a label for each series of different name: the name, and its band's half-width.

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
        """Return the table of the figure: a row for each x, each series' value ± its bound."""
        names = list(dict.fromkeys(s.name for s in self.series))
        panels, rows = self.panels(), []
        for panel, part in panels.items():
            texts = {
                s.name: dict(zip(s.x.tolist(), s.texts(self.y.unit), strict=True))
                for s in part.series
            }
            until = {x: end for s in part.series for x, end in s.bar_ends.items()}
            for x in part.places().tolist():
                cells = [texts.get(name, {}).get(x, MISSING) for name in names]
                text = x if isinstance(x, str) else f"{x:.6g}"
                text = x.isoformat() if isinstance(x, date) else text
                text += f" to {until[x]:.6g}" if x in until else ""
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

    def _without_zero(self) -> list[str]:
        """Return a note about each panel whose axis of values has no 0."""
        if self.y.scale == "log":
            return []
        found = {name: part.value_range() for name, part in self.panels().items()}
        nearest = {
            n: low if low > 0 else high for n, (low, high) in found.items() if low * high > 0
        }
        if not nearest:
            return []
        if len(set(nearest.values())) == 1 and len(nearest) == len(found):
            return [f"The axis begins at {number(next(iter(nearest.values())))}, not at 0."]
        return [f"The axis of {n} begins at {number(at)}, not at 0." for n, at in nearest.items()]

    def notes_of(self, drawn: Figure) -> list[str]:
        """Return the notes for a reader of `drawn`, the same figure with fewer points."""
        return [*drawn.notes[len(self.notes) :], *self.all_notes()]

    def all_notes(self) -> list[str]:
        """Return the notes about the bands, then the given notes."""
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
        return [*notes, *self._without_zero(), *self._coverage(), *self.notes]

    def _coverage(self) -> list[str]:
        """Return, for each series, how often the exact series at its dates is in its band."""
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
        title: Title of the page.
        figures: The figures.
        warning: A warning that must be shown.
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
    """Return the number of days in a mean that leaves at most `most` points of `span` + 1 days."""
    return next((d for d in _MEANS_OVER if span // d + 1 <= most), _MEANS_OVER[-1])


def spread(series: Sequence[Series]) -> Literal["linear", "log"]:
    """Return the scale that values need: logarithmic if a series spans decades, above the noise.

    Nine tenths of the values decide: a single outlying day does not.

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
    """Return the indices of finite values, in pieces without a gap.

    >>> [list(map(int, run)) for run in finite_runs(np.array([1.0, 2.0, np.nan, 4.0]))]
    [[0, 1], [3]]
    """
    finite = np.isfinite(values)
    pieces = np.split(np.arange(len(values)), np.flatnonzero(~finite))
    return [run for piece in pieces if len(run := piece[finite[piece]])]


def _known(*row: float) -> Ends:
    """Return a value and its ends, with None for unknown numbers."""
    value, low, high = (x if math.isfinite(x) else None for x in row)
    return value, low, high


def _extremes(group: Sequence[Series], places: NDArray[Any], most: int) -> NDArray[Any]:
    """Return at most `most` positions: lowest and highest of some series in each stretch."""
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
    finite = finite[finite > 1e-300] if log else finite  # such an axis has no place for 0
    if len(finite):
        return float(finite.min()), float(finite.max())
    return (1.0, 10.0) if log else (0.0, 1.0)


def _with_zero(low: float, high: float) -> tuple[float, float]:
    if 0 < low <= (1 - _SEEN) * high:
        return 0.0, high
    if (1 - _SEEN) * low <= high < 0:
        return low, 0.0
    return low, high
