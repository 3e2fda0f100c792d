"""A figure for a terminal, in dots of braille characters, two by four to a cell.

The first series is a line in its error band; a `band`, for comparison, is wide and thinly dotted,
and an exact value is a cross every few columns. Curves without bands have one mark each; several
lines without colours have one mark each too, with points in their bands. A chart narrower than its
series shows means over consecutive days, in the bands of single answers.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from sparseq.base.errors import ParameterError
from sparseq.base.texts import shown
from sparseq.pictures.axis_scales import Scale
from sparseq.pictures.figure import Figure, Floats, Series, finite_runs

MIN_WIDTH, MIN_HEIGHT = 30, 8
MARKS = "●○◆◇▲△■□"
EXACT = "×"
_IN_BAND = "·"
_EXACT_APART = 4  # columns from one cross to the next, so that the line behind them can be seen
_BOLD, _DIM = "1", "2"
_PAINTS = {
    "blue": "38;5;33",
    "orange": "38;5;208",
    "green": "38;5;35",
    "ink": "",
    "purple": "38;5;134",
    "red": "38;5;167",
    "teal": "38;5;37",
    "brown": "38;5;137",
}
_KEYS, _THICK_KEYS = ("⣿⣿", "⢕⢕"), ("⢕⢕", "⠅⠅")  # dots of the first series, and of those behind
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_MARGIN = 10  # approximate columns of the labels of values
_TICK_LINES, _TICK_COLUMNS = 3, 11  # room for a tick and its label
_BAR, _BELOW, _ABOVE = "██", "▓▓", "░░"  # a bar, and the two sides of the interval of its value
_APART, _NARROWEST, _NAME = 2, 10, 20  # columns: between parts of a line; of a bar; of a name
_RIBBON = 9  # dots: a thicker band is only dotted, so that the line in it can be seen
Dots = NDArray[np.bool_]


def terminal_chart(figure: Figure, width: int = 100, height: int = 24, color: bool = False) -> str:
    """Return `figure` in at most `width` columns and `height` lines a panel, with its notes below.

    With `color` it has ANSI colours; without, the bands differ in their dots alone. Raises
    `ParameterError` for a size below 30 x 8.

    >>> from datetime import date
    >>> from sparseq.pictures.figure import Axis
    >>> days = [date(2024, 1, k) for k in range(1, 15)]
    >>> rising = Series("steps", days, np.arange(14.0), 2.0)
    >>> print(terminal_chart(Figure("Steps", [rising], y=Axis("a day")), 36, 12))
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
    figure = figure.readable()
    if figure.is_named:
        return _names_text(figure, width, color)
    above, thick = len(_head(figure, width, color, _KEYS)), False
    drawn: list[str] = []
    for name, part in figure.panels().items():
        if name:
            drawn.append(_paint(_cut(name, width), _BOLD, color))
        lines, is_thick = _chart(part, width, height - above - 2, color)
        drawn, thick = drawn + lines, thick or is_thick
    lines = [*_head(figure, width, color, _THICK_KEYS if thick else _KEYS), *drawn]
    said = [*(f"{m.label}." for m in figure.marks), *figure.notes_of(figure.means(_points(width)))]
    notes = [line for note in said for line in textwrap.wrap(shown(note, None), width)]
    return "\n".join([*lines, *(_paint(line, _DIM, color) for line in notes)])


def _chart(figure: Figure, width: int, height: int, color: bool) -> tuple[list[str], bool]:
    """Return one panel, two lines more than `height`, and True if its band is thick."""
    means = figure.means(_points(width))
    across, up = means.scales()
    up, rows, labels = _value_axis(up, height)
    margin = max(map(len, labels.values()), default=0) + 2
    grid = _Grid(width - margin, rows, across, up)
    thick = _is_thick(means.series[0], grid)
    marked = _is_marked(figure, color)
    drawn = _mark(means, grid, color) if marked else _plot(means, grid, thick, color)
    body = [
        _paint(labels.get(k, "").rjust(margin - 2) + (" ┤" if k in labels else " │"), _DIM, color)
        + line
        for k, line in enumerate(drawn)
    ]
    axis, texts = _x_axis(grid)
    foot = [" " * (margin - 1) + "└" + axis, " " * margin + texts]
    return [*body, *(_paint(line.rstrip(), _DIM, color) for line in foot)], thick


def _names_text(figure: Figure, width: int, color: bool) -> str:
    """Return a figure over names: a line for each bar, with its interval in it, and its value.

    >>> one = Series("n", ["Rome", "Oslo"], np.array([8.0, 2.0]), np.array([1.0, 3.0]))
    >>> print(terminal_chart(Figure("People", [one]), 40))
    People
    ██ value   ▓▓░░ interval
    Rome    ████████████████▓▓▓░░  8.0 ± 1.0
    Oslo  ░░▓▓▓▓▓░░░░░░░           2.0 ± 3.0
    """
    title = _paint(_cut(figure.title, width), _BOLD, color)
    subtitle = [_paint(_cut(figure.subtitle, width), _DIM, color)] if figure.subtitle else []
    keys = [f"{_BAR} value", f"{_BELOW}{_ABOVE} interval"]
    lines = [title, *subtitle, "   ".join(keys)]
    for name, part in figure.panels().items():
        heading = figure.heading(name)
        lines += [_paint(_cut(heading, width), _BOLD, color)] if heading else []
        lines += _bars(part, width, color)
    notes = [
        line for note in figure.all_notes() for line in textwrap.wrap(shown(note, None), width)
    ]
    return "\n".join([*lines, *(_paint(line, _DIM, color) for line in notes)])


def _bars(part: Figure, width: int, color: bool) -> list[str]:
    """Return the lines of one panel over names; with several series, each names its bar.

    If there is little room, a name has a separate line.
    """
    several = len(part.series) > 1
    own = [_cut(s.name, _NAME) for s in part.series] if several else [""]
    beside = max(map(cell_len, own)) + _APART * several
    values = max(cell_len(t) for s in part.series for t in s.texts(part.y.unit))
    names = [shown(x, None) for x in part.places().tolist()]
    room = width - beside - values - 2 * _APART
    left = max(map(cell_len, names))
    above = left > room // 2 or room < 2 * _NARROWEST
    bar, margin = (room, "  ") if above else (room - left, " " * (left + _APART))
    scale, lines = part.scales()[1], []
    for name, x in zip(names, part.places().tolist(), strict=True):
        head = name + " " * (left + _APART - cell_len(name))
        lines += [_cut(name, width)] if above else []
        for first, (s, k, said) in _of_name(part, x):
            drawn = _paint(_bar_cells(scale, s, k, max(bar, 0)), _PAINTS[s.color], color)
            label = _pad(s.name, beside - _APART) + " " * _APART if several else ""
            start = head if first and not above else margin
            lines.append(f"{start}{label}{drawn}{' ' * _APART}{said.rjust(values)}")
    return lines


def _of_name(part: Figure, x: str) -> list[tuple[bool, tuple[Series, int, str]]]:
    """Return each series' index and text at a name, and True for the first series."""
    found = [
        (s, at.index(x), s.texts(part.y.unit))
        for s in part.series
        for at in [s.x.tolist()]
        if x in at
    ]
    return [(i == 0, (s, k, texts[k])) for i, (s, k, texts) in enumerate(found)]


def _bar_cells(scale: Scale, series: Series, k: int, wide: int) -> str:
    """Return a bar from 0 to a value, lighter in its interval."""
    ends = np.array([0.0, series.values[k], *(end[k] for end in series.band)])
    zero, value, low, high = np.clip(scale.share(ends), 0.0, 1.0) * wide
    cells = []
    for middle in np.arange(wide) + 0.5:
        inside = min(zero, value) <= middle <= max(zero, value)
        unsure = low <= middle <= high
        cells.append(
            _BELOW[0] if inside and unsure else _BAR[0] if inside else _ABOVE[0] if unsure else " "
        )
    return "".join(cells)


def _pad(text: str, wide: int) -> str:
    text = _cut(text, wide)
    return text + " " * (wide - cell_len(text))


@dataclass(frozen=True)
class _Grid:
    """The positions of x and values among the dots; two by four dots make a cell."""

    columns: int
    rows: int
    x: Scale
    y: Scale

    def across(self, at: Floats) -> Floats:
        """Return dots from the left; a single position is in the middle."""
        if self.x.low == self.x.high:
            return np.full(len(at), self.columns - 1.0)
        return self.x.share(at) * (2 * self.columns - 1)

    def down(self, values: Floats) -> Floats:
        """Return dots from the top."""
        return (1 - self.y.share(values)) * (4 * self.rows - 1)

    def curve(self, series: Series, values: Floats) -> Floats:
        """Return dots from the top at each dot column; NaN where the series has no value."""
        at, down, out = self.across(series.at), self.down(values), np.full(2 * self.columns, np.nan)
        if series.look == "dots":
            known = np.isfinite(down)
            out[np.rint(at[known]).astype(int)] = down[known]
            return out
        for run in finite_runs(down):
            last = at[run[-1]]
            if series.look == "bars":
                last = max(last, self.across(series.edges[1])[run[-1]] - 1)
            dots = np.arange(round(at[run[0]]), min(round(last) + 1, 2 * self.columns))
            if series.look in ("steps", "bars"):
                before = np.searchsorted(at[run], dots + 0.5, side="right") - 1
                out[dots] = down[run][np.maximum(before, 0)]
            else:
                out[dots] = np.interp(dots, at[run], down[run])
        return out

    def fill(self, top: Floats, bottom: Floats) -> Dots:
        """Return the dots from one curve down to another."""
        row = np.arange(4 * self.rows)[:, None]
        return np.asarray(
            (row >= np.rint(_reach(top, np.fmin))) & (row <= np.rint(_reach(bottom, np.fmax)))
        )

    def cells(self, dots: Dots) -> NDArray[np.int64]:
        """Return the number of the braille pattern of each cell."""
        grouped = dots.reshape(self.rows, 4, self.columns, 2)
        return np.asarray((grouped * _BITS[:, None, :]).sum(axis=(1, 3)))


def _reach(curve: Floats, extreme: np.ufunc) -> Floats:
    """Return how far up (fmin) or down (fmax) each column is filled to meet its neighbours."""
    padded = np.pad(curve, 1, constant_values=np.nan)
    halfway = (padded[1:] + padded[:-1]) / 2
    reach = extreme(curve, extreme(halfway[:-1], halfway[1:]))
    return np.asarray(np.where(np.isnan(curve), np.nan, reach))


def _is_thick(series: Series, grid: _Grid) -> bool:
    """Return True if a line would be invisible in its filled band."""
    low, high = series.band
    return bool(np.nan_to_num(grid.down(low) - grid.down(high)).max() > _RIBBON)


def _is_marked(figure: Figure, color: bool) -> bool:
    """Return True if each series has its own marks.

    These are curves without any band, and several lines without distinct colours.
    """
    if any(s.look == "bars" for s in figure.series):
        return False
    if not any(np.isfinite(s.bounds).any() for s in figure.series):
        return True
    lines = [s.panel for s in figure.series if not (s.look == "band" or s.exact)]
    return not color and len(set(lines)) < len(lines)


def _mark(figure: Figure, grid: _Grid, color: bool) -> list[str]:
    """Return lines of marks, one a column; a later series hides an earlier one.

    Points are in the bands.
    """
    cells = [[" "] * grid.columns for _ in range(grid.rows)]
    for s in figure.series:
        inside = grid.fill(*(grid.curve(s, end) for end in s.band[::-1]))
        for row, column in zip(*np.nonzero(grid.cells(inside)), strict=True):
            cells[row][column] = _paint(_IN_BAND, _PAINTS[s.color], color)
    for s, mark in zip(figure.series, MARKS, strict=False):
        down = grid.curve(s, s.values)[::2] if s.look != "dots" else grid.curve(s, s.values)
        for column in np.flatnonzero((down >= 0) & (down < 4 * grid.rows)).tolist():
            at = column if s.look != "dots" else column // 2
            cells[int(down[column]) // 4][at] = _paint(mark, _PAINTS[s.color], color)
    return ["".join(row).rstrip() for row in cells]


def _plot(figure: Figure, grid: _Grid, thick: bool, color: bool) -> list[str]:
    row, column = np.indices((4 * grid.rows, 2 * grid.columns))
    ours, behind = figure.series[0], [s for s in figure.series[1:] if s.look == "band"]
    line, top, bottom = (grid.curve(ours, y) for y in (ours.values, *ours.band[::-1]))
    dotted = (row + column) % 2 == 0
    ribbon = grid.fill(top, bottom) & (dotted if thick else True)
    floor = np.where(np.isnan(line), np.nan, grid.down(np.zeros(1))[0])
    solid = grid.fill(line, line)
    if ours.look == "bars":  # solid up to the interval, dotted in it, and a line at the value
        body = grid.fill(np.where(np.isnan(bottom), line, bottom), floor)
        ribbon = body | (grid.fill(top, bottom) & dotted)
    layers = [(solid | ribbon, ours)]
    if color:  # without it, other lines look like the first series
        layers += [
            (grid.fill(c, c), s)
            for s in figure.series[1:]
            if s.look != "band" and not s.exact
            for c in [grid.curve(s, s.values)]
        ]
    others = [s for s in figure.series[1:] if color and s.look != "band" and not s.exact]
    for s in [*others, *behind]:
        top, bottom = (grid.curve(s, y) for y in s.band[::-1])
        sparse = dotted & ((row % 2 == 0) | (not thick))
        layers.append((grid.fill(top, bottom) & sparse, s))
    cells = np.zeros((grid.rows, grid.columns), np.int64)
    style = np.zeros_like(cells)
    for k, (dots, _) in enumerate(layers):
        mine = grid.cells(dots)
        free = cells == 0
        style[free & (mine > 0)] = k + 1
        cells[free] = mine[free]
    paints = ["", *(_PAINTS[s.color] for _, s in layers)]
    signs = np.where(cells > 0, 0x2800 + cells, ord(" "))
    for s in figure.series[1:]:
        if s.exact:
            places = _crosses(grid, s)
            signs[places], style[places] = ord(EXACT), len(paints)
            paints.append(_PAINTS[s.color])
    return [_line(c, s, paints, color) for c, s in zip(signs, style, strict=True)]


def _crosses(grid: _Grid, series: Series) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lines and columns of the crosses of an exact series."""
    down = grid.curve(series, series.values)
    at = np.flatnonzero((down >= 0) & (down < 4 * grid.rows))
    at = at[np.unique(at // 2 // _EXACT_APART, return_index=True)[1]]
    return down[at].astype(np.int64) // 4, at // 2


def _line(
    signs: NDArray[np.int64], style: NDArray[np.int64], paints: list[str], color: bool
) -> str:
    """Return one line of characters, in runs of one colour."""
    text = "".join(map(chr, signs))
    starts = [0, *(np.flatnonzero(np.diff(style)) + 1), len(style)]
    runs = [_paint(text[a:b], paints[style[a]], color) for a, b in pairwise(starts)]
    return "".join(runs).rstrip()


def _head(figure: Figure, width: int, color: bool, keys: tuple[str, str]) -> list[str]:
    title = _paint(_cut(figure.title, width), _BOLD, color)
    label = [_paint(_cut(figure.subtitle, width), _DIM, color)] if figure.subtitle else []
    if figure.is_single():
        return [title, *label]
    marked, named = _is_marked(figure, color), []
    for k, (text, s) in enumerate(figure.legend()):
        key = MARKS[k % len(MARKS)] if marked else _key(s, k, keys)
        if marked or color or _is_distinct(s, k):
            named.append((_paint(key, _PAINTS[s.color], color), _cut(text, width - 3)))
    legend = [f"{key} {text}" for key, text in named]
    one_line = sum(cell_len(text) + 3 for _, text in named) + 3 * (len(named) - 1) <= width
    return [title, *label, *(["   ".join(legend)] if one_line else legend)]


def _is_distinct(series: Series, k: int) -> bool:
    """Return True if it differs from all others, even without colours."""
    return k == 0 or series.look == "band" or series.exact


def _key(series: Series, k: int, keys: tuple[str, str]) -> str:
    if series.exact and k > 0:
        return EXACT
    return keys[series.look == "band"] if _is_distinct(series, k) else "⠒⠒"


def _value_axis(scale: Scale, rows: int) -> tuple[Scale, int, dict[int, str]]:
    """Stretch the range a little, so that round numbers are a whole number of lines apart.

    Returns the scale, the number of lines it needs, and the labels by line from the top.
    """
    ticks, low, high = scale.ticks(max(rows // _TICK_LINES, 2)), scale.low, scale.high
    step = ticks[1][0] - ticks[0][0] if len(ticks) > 1 else high - low
    for lines in range(int(step / (high - low) * rows), 0, -1) if scale.kind == "linear" else ():
        dot = step / lines / 4
        top = np.ceil((high - 1.5 * dot) / (4 * dot)) * 4 * dot + 1.5 * dot  # ticks are mid-line
        needed = int(np.ceil(((top - low) / dot + 1) / 4))
        if needed <= rows:
            low, high, rows = float(top - (4 * needed - 1) * dot), float(top), needed
            break
    scale = replace(scale, low=low, high=high)
    down = (1 - scale.share([at for at, _ in ticks])) * (4 * rows - 1) // 4
    named = zip(down.astype(int).tolist(), ticks, strict=True)
    return scale, rows, {line: shown(text, None) for line, (_, text) in named}


def _x_axis(grid: _Grid) -> tuple[str, str]:
    axis, texts, free = ["─"] * grid.columns, [" "] * grid.columns, 0
    for tick, text in grid.x.ticks(max(grid.columns // _TICK_COLUMNS, 1)):
        at = round(float(grid.across(np.array([tick]))[0])) // 2
        label = shown(text, None)
        if not 0 <= at < grid.columns:
            continue
        axis[at] = "┬"
        at = min(at, grid.columns - len(label))
        if free <= at:
            texts[at : at + len(label)] = label
            free = at + len(label) + 1
    return "".join(axis), "".join(texts)


def _points(width: int) -> int:
    """Return the number of points that a chart can show: a point needs more than one dot."""
    return (width - _MARGIN) * 3 // 2


def _cut(text: str, width: int) -> str:
    text = shown(text, None)
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _paint(text: str, style: str, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if color and style and text.strip() else text
