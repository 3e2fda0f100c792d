"""A chart of a noised series for a terminal: the answers, and how far they may be off.

The first series is a line in its error band; the second, the worst case it is compared with, is a
wide, thinly dotted band. Dots are those of braille characters, two by four to a cell.

A chart narrower than its series shows means over days in a row, in the bands of single answers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from sparseq.cli.figure import (
    Figure,
    Floats,
    Series,
    date_ticks,
    days_between,
    finite_runs,
    mean_days,
    value_ticks,
)
from sparseq.errors import ParameterError
from sparseq.escape import shown
from sparseq.pictures.numbers import digits_for, format_number

__all__ = ["Figure", "Series", "terminal_chart"]

MIN_WIDTH, MIN_HEIGHT = 30, 8
_BOLD, _DIM, _OURS, _WORST = "1", "2", "38;5;33", "38;5;208"  # blue and orange, on dark or light
_KEYS, _THICK_KEYS = ("⣿⣿", "⢕⢕"), ("⢕⢕", "⠅⠅")  # the dots of ours and of the worst case
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_MARGIN = 10  # columns that the labels of values take, about
_TICK_LINES, _TICK_COLUMNS = 3, 11  # room for a tick and its label
_RIBBON = 9  # dots: a thicker band is only dotted, so that the line in it can be seen
Dots = NDArray[np.bool_]


def terminal_chart(figure: Figure, width: int = 100, height: int = 24, color: bool = False) -> str:
    """`figure` in at most `width` columns and `height` lines, with its notes below these.

    With `color` it has ANSI colours; without, the bands differ in their dots alone. Raises
    `ParameterError` for a size below 30 x 8.

    >>> days = [date(2024, 1, k) for k in range(1, 15)]
    >>> rising = Series("steps", days, np.arange(14.0), 2.0)
    >>> print(terminal_chart(Figure("Steps", "a day", [rising]), 36, 12))
    Steps
    a day
    ⣿⣿ steps ± 2.0
       │
       │                       ⢀⣀⣠⣤⣴⣶⣾⣿⣿
    10 ┤               ⢀⣀⣠⣤⣴⣶⣾⣿⣿⣿⣿⣿⡿⠿⠟⠛⠋
       │       ⢀⣀⣠⣤⣴⣶⣾⣿⣿⣿⣿⣿⡿⠿⠟⠛⠋⠉⠁
       │⣀⣤⣤⣶⣶⣾⣿⣿⣿⣿⣿⡿⠿⠟⠛⠋⠉⠁
     0 ┤⣿⣿⣿⡿⠿⠟⠛⠋⠉⠁
       │⠉⠁
       └┬────────────────┬──────────────
        1 Jan 2024       8 Jan
    """
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        raise ParameterError(
            f"{width} x {height} characters are too few for a chart",
            f"at least {MIN_WIDTH} x {MIN_HEIGHT}",
        )
    lines_left = height - len(_head(figure, width, color, _KEYS)) - 2
    means = figure.means(_points(width))
    low, high, rows, labels = _value_axis(*means.value_range(), lines_left)
    margin = max(map(len, labels.values()), default=0) + 2
    grid = _Grid(width - margin, rows, *figure.date_range(), low, high)
    thick = _is_thick(means.series[0], grid)
    body = [
        _paint(labels.get(k, "").rjust(margin - 2) + (" ┤" if k in labels else " │"), _DIM, color)
        + line
        for k, line in enumerate(_plot(means, grid, thick, color))
    ]
    axis, dates = _date_axis(grid)
    foot = [" " * (margin - 1) + "└" + axis, " " * margin + dates, *_notes(figure, width)]
    head = _head(figure, width, color, _THICK_KEYS if thick else _KEYS)
    return "\n".join([*head, *body, *(_paint(line.rstrip(), _DIM, color) for line in foot)])


@dataclass(frozen=True)
class _Grid:
    """Where a day and a value are among the dots; two by four dots make a cell."""

    columns: int
    rows: int
    first: date
    last: date
    low: float
    high: float

    def across(self, days: Sequence[date]) -> Floats:
        """Dots from the left; if there is only one day, it is in the middle."""
        since = np.array([days_between(self.first, d) for d in days])
        if self.first == self.last:
            return since + (self.columns - 1)
        return np.asarray(since / days_between(self.first, self.last) * (2 * self.columns - 1))

    def down(self, values: Floats) -> Floats:
        """Dots from the top."""
        return (self.high - values) / (self.high - self.low) * (4 * self.rows - 1)

    def curve(self, days: Sequence[date], values: Floats) -> Floats:
        """Dots from the top at each dot column; NaN where the series has a gap, or is not yet."""
        at, out = self.across(days), np.full(2 * self.columns, np.nan)
        for run in finite_runs(values):
            dots = np.arange(round(at[run[0]]), round(at[run[-1]]) + 1)
            out[dots] = np.interp(dots, at[run], self.down(values[run]))
        return out

    def fill(self, top: Floats, bottom: Floats) -> Dots:
        """The dots from one curve down to another."""
        row = np.arange(4 * self.rows)[:, None]
        return np.asarray(
            (row >= np.rint(_reach(top, np.fmin))) & (row <= np.rint(_reach(bottom, np.fmax)))
        )

    def cells(self, dots: Dots) -> NDArray[np.int64]:
        """The number of the braille pattern of each cell."""
        grouped = dots.reshape(self.rows, 4, self.columns, 2)
        return np.asarray((grouped * _BITS[:, None, :]).sum(axis=(1, 3)))


def _reach(curve: Floats, extreme: np.ufunc) -> Floats:
    """How far up (fmin) or down (fmax) each column is filled to meet its neighbours half way."""
    padded = np.pad(curve, 1, constant_values=np.nan)
    halfway = (padded[1:] + padded[:-1]) / 2
    reach = extreme(curve, extreme(halfway[:-1], halfway[1:]))
    return np.asarray(np.where(np.isnan(curve), np.nan, reach))


def _is_thick(series: Series, grid: _Grid) -> bool:
    """Whether a line would be lost in its band, if that were filled."""
    low, high = series.band
    return bool(np.nan_to_num(grid.down(low) - grid.down(high)).max() > _RIBBON)


def _plot(figure: Figure, grid: _Grid, thick: bool, color: bool) -> list[str]:
    row, column = np.indices((4 * grid.rows, 2 * grid.columns))
    ours, *others = figure.series[:2]
    line, top, bottom = (grid.curve(ours.x, y) for y in (ours.values, *ours.band[::-1]))
    dotted = (row + column) % 2 == 0
    ribbon = grid.fill(top, bottom) & (dotted if thick else True)
    front = grid.cells(grid.fill(line, line) | ribbon)
    back = np.zeros_like(front)
    for worst in others:
        top, bottom = (grid.curve(worst.x, y) for y in worst.band[::-1])
        back = grid.cells(grid.fill(top, bottom) & dotted & ((row % 2 == 0) | (not thick)))
    return [_line(f, b, color) for f, b in zip(front, back, strict=True)]


def _line(front: NDArray[np.int64], back: NDArray[np.int64], color: bool) -> str:
    """One line of cells, in runs of one colour; the worst case shows where ours has no dots."""
    text = "".join(chr(0x2800 + k) if k else " " for k in np.where(front > 0, front, back))
    style = np.where(front > 0, 1, np.where(back > 0, 2, 0))
    starts = [0, *(np.flatnonzero(np.diff(style)) + 1), len(style)]
    runs = [_paint(text[a:b], ("", _OURS, _WORST)[style[a]], color) for a, b in pairwise(starts)]
    return "".join(runs).rstrip()


def _head(figure: Figure, width: int, color: bool, keys: tuple[str, str]) -> list[str]:
    title = _paint(_cut(figure.title, width), _BOLD, color)
    names = [_cut(s.label, width - 3) for s in figure.series[:2]]
    painted = (_paint(key, c, color) for key, c in zip(keys, (_OURS, _WORST), strict=True))
    legend = [f"{key} {name}" for key, name in zip(painted, names, strict=False)]
    one_line = sum(cell_len(n) + 3 for n in names) + 3 * (len(names) - 1) <= width
    label = [_paint(_cut(figure.y_label, width), _DIM, color)] if figure.y_label else []
    return [title, *label, *(["   ".join(legend)] if one_line else legend)]


def _value_axis(low: float, high: float, rows: int) -> tuple[float, float, int, dict[int, str]]:
    """Stretch the range a little, so that round numbers are a whole number of lines apart.

    Returns the values of the lowest and of the highest dot, how many of the lines this needs, and
    the labels by line from the top.
    """
    ticks = value_ticks(low, high, max(rows // _TICK_LINES, 2))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    for lines in range(int(step / (high - low) * rows), 0, -1):
        dot = step / lines / 4
        top = np.ceil((high - 1.5 * dot) / (4 * dot)) * 4 * dot + 1.5 * dot  # a tick is mid-line
        needed = int(np.ceil(((top - low) / dot + 1) / 4))
        if needed <= rows:
            low, high, rows = float(top - (4 * needed - 1) * dot), float(top), needed
            break
    digits = max(digits_for(step) - 1, 0)
    down = ((high - t) / (high - low) * (4 * rows - 1) for t in ticks)
    labels = {int(d // 4): format_number(t, digits) for d, t in zip(down, ticks, strict=True)}
    return low, high, rows, labels


def _date_axis(grid: _Grid) -> tuple[str, str]:
    axis, dates, free = ["─"] * grid.columns, [" "] * grid.columns, 0
    for day, label in date_ticks(grid.first, grid.last, max(grid.columns // _TICK_COLUMNS, 1)):
        at = round(grid.across([day])[0]) // 2
        axis[at] = "┬"
        if free <= at <= grid.columns - len(label):
            dates[at : at + len(label)] = label
            free = at + len(label) + 1
    return "".join(axis), "".join(dates)


def _notes(figure: Figure, width: int) -> list[str]:
    first, last = figure.date_range()
    days = mean_days((last - first).days, _points(width))
    means = f"Points are means over {days} days; bands are those of single answers."
    notes = [*([means] if days > 1 else []), *figure.all_notes()]
    return [line for note in notes for line in textwrap.wrap(shown(note, None), width)]


def _points(width: int) -> int:
    """How many points a chart can show: a point needs more than one dot."""
    return (width - _MARGIN) * 3 // 2


def _cut(text: str, width: int) -> str:
    text = shown(text, None)
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _paint(text: str, style: str, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if color and style and text.strip() else text
