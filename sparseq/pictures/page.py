"""Figures as one HTML file without network access or inline code outside its policy."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from sparseq.base.texts import shown
from sparseq.pictures.axis_scales import Scale
from sparseq.pictures.figure import Figure, Floats, PagePart, Series, Sheet, finite_runs
from sparseq.pictures.guarantee_texts import LOUD
from sparseq.pictures.tables import Table

MOST_POINTS = 1_000
"""Approximate number of points of a figure; more are thinned."""
TOP, RIGHT, BOTTOM = 12, 14, 28  # margins, in the drawing's own units
_LETTER = 7.2  # approximate width of a digit
_SIZES = ((1, 960, 420, " one"), (4, 470, 250, " two"), (999, 310, 200, ""))  # by number of panels
_LONG = 20  # lines of a chart over names from which its axis is above and below
_BANDS = 3  # most lines in one chart with a filled band; the bands of more are fainter
_STUB = 3.0  # half of the width of a band with a single position


def html_page(sheet: Sheet) -> str:
    """Return one self-contained page: drawings, tooltips, notes, and the numbers as tables.

    It follows the reader's light or dark setting, and screen readers get the tables.

    >>> one = Series("a", np.array([1.0]), np.ones(1), 2.0)
    >>> page = html_page(Sheet("a < b", [Figure("a < b", [one])]))
    >>> "<h1>a &lt; b</h1>" in page, "1.0 ± 2.0" in page
    (True, True)
    """
    alone = len(sheet.figures) == 1 and sheet.figures[0].title == sheet.title
    sections = "\n".join(_section(f, alone, k) for k, f in enumerate(sheet.figures))
    log = ""
    if sheet.log:
        log = f'<details class="log"><summary>{escaped(sheet.log[0])}</summary>\n'
        log += f"{_table(sheet.log[1], sheet.log[0])}\n</details>"
    facts = _table(sheet.facts, "In short") if sheet.facts else ""
    warnings = [sheet.warning] if sheet.warning else []
    return _whole(sheet.title, warnings, f"{facts}\n{sections}\n{log}")


def document(title: str, parts: Sequence[PagePart], warnings: Sequence[str] = ()) -> str:
    """Return one self-contained page of parts: headings, texts, figures or tables, and notes."""
    return _whole(title, warnings, "\n".join(_part(part, k) for k, part in enumerate(parts)))


def _part(part: PagePart, k: int) -> str:
    heading = f"<h2>{escaped(part.heading)}</h2>\n" if part.heading else ""
    text = "".join(f"<p>{escaped(paragraph)}</p>\n" for paragraph in part.paragraphs)
    figure = "" if part.figure is None else _section(part.figure, True, k)
    table = "" if part.table is None else _table(part.table, "")
    notes = "".join(map(_note, part.notes))
    notes = f'<div class="notes">{notes}</div>' if notes else ""
    return f"<section>\n{heading}{text}{figure}{table}{notes}\n</section>"


def _note(note: str) -> str:
    kind = ' class="warning"' if note in LOUD else ""
    return f"<p{kind}>{escaped(note)}</p>"


def _whole(title: str, warnings: Sequence[str], body: str) -> str:
    """Return the page around its body, with a policy that allows no other content."""
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    warning = "".join(f'<p class="warning">{escaped(text)}</p>\n' for text in warnings)
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escaped(title)}</title>
<style>{style}</style>
<h1>{escaped(title)}</h1>
{warning}{body}
<script>{script}</script>
</html>
"""


def draw(figure: Figure) -> str:
    """Return one figure for a page that has page.css and page.js: drawings, notes and numbers."""
    return _section(figure, False, 0)


def escaped(text: object) -> str:
    """Return text for a page, with control characters of terminals spelled out."""
    return html.escape(shown(text, None))


def _resource(name: str) -> str:
    return files("sparseq.pictures").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _section(figure: Figure, alone: bool, k: int) -> str:
    whole, figure = figure, figure.readable()
    panels = figure.panels()
    thin = figure.thinned(max(MOST_POINTS // len(panels), 60))
    _, width, height, columns = next(size for size in _SIZES if len(panels) <= size[0])
    drawings = "\n".join(
        _names_chart(part, thin, name)
        if figure.is_named
        else _chart(part, thin, name, f"{k}-{n}", width, height)
        for n, (name, part) in enumerate(thin.panels().items())
    )
    notes = "".join(map(_note, figure.notes_of(thin)))
    heading = "" if alone else f"<h2>{escaped(figure.title)}</h2>\n"
    return f"""<figure aria-label="{escaped(figure.title)}">
{heading}<p class="unit">{escaped(figure.subtitle)}</p>
<div class="legend">{_legend(figure)}</div>
<div class="panels{columns}">
{drawings}
</div>
<figcaption class="notes">{notes}</figcaption>
<details><summary>The numbers</summary>
{_table((thin if thin is not figure else whole).table(), figure.title)}
</details>
</figure>"""


def _chart(part: Figure, whole: Figure, name: str, key: str, width: int, height: int) -> str:
    """Return one drawing, with its tooltips."""
    place = _Place(part, width, height)
    order, title, heading = _name(whole, name)
    return f"""<div>{heading}<div class="chart">
<svg viewBox="0 0 {width} {height}" tabindex="0" role="img" aria-label="{title}">
<clipPath id="inside{key}"><rect x="{place.left - 3}" y="{TOP - 3}" \
width="{width - RIGHT - place.left + 6}" height="{height - BOTTOM - TOP + 6}"/></clipPath>
{_axes(place)}
<g clip-path="url(#inside{key})">
{_shapes(part, place, order)}
</g>
{_marks(part, place)}
<line class="cursor" y1="{TOP}" y2="{height - BOTTOM}"/>
</svg>
{_tips(part, place.xs(part.places()).tolist())}
</div></div>"""


def _name(whole: Figure, name: str) -> tuple[list[str], str, str]:
    """Return the order of the series of all panels, one panel's title, and its heading."""
    order = list(dict.fromkeys(s.name for s in whole.series))
    title = f"{whole.title}, {name}" if name else whole.title
    heading = whole.heading(name)
    return order, escaped(title), f"<h3>{escaped(heading)}</h3>\n" if heading else ""


def _tips(part: Figure, x: list[float]) -> str:
    """Return the tooltips and their positions: `x` of each place, or nothing for names."""
    data = {"x": x, "names": part.table().columns[1:], "rows": part.tips()}
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<div class="tip" aria-hidden="true"></div>\n'
        f'<script type="application/json" class="data">{script}</script>'
    )


def _names_chart(part: Figure, whole: Figure, name: str) -> str:
    """Return a line for each name: the name, a bar for each series, and its value with interval.

    It has no fixed size: in a narrow window names are above their bars.
    """
    order, title, heading = _name(whole, name)
    _, up = part.scales()
    ticks = up.ticks(4)
    texts = [dict(zip(s.x.tolist(), s.texts(part.y.unit), strict=True)) for s in part.series]
    places = [{x: k for k, x in enumerate(s.x.tolist())} for s in part.series]
    axis = "".join(
        f'<text x="{_share(up, at)}" y="12" text-anchor="middle">{escaped(text)}</text>'
        for at, text in ticks
    )
    axis = f'<div class="axis"><svg aria-hidden="true">{axis}</svg></div>'
    lines = []
    for x in part.places().tolist():
        bars = "".join(
            f'<div class="bar {_key(s, order)}"><svg>{_bar(up, ticks, s, at[x])}</svg></div>'
            f'<div class="value s{order.index(s.name)}">{escaped(said[x])}</div>'
            for s, said, at in zip(part.series, texts, places, strict=True)
            if x in at
        )
        of_name = f'<div class="name">{escaped(x)}</div><div class="set">{bars}</div>'
        lines.append(f'<div class="of-name">{of_name}</div>')
    several = " several" if len(part.series) > 1 else ""
    return f"""<div>{heading}<div class="chart names{several}" tabindex="0" role="img" \
aria-label="{title}">
{axis if len(lines) > _LONG else ""}{chr(10).join(lines)}
{axis}
{_tips(part, [])}
</div></div>"""


def _bar(up: Scale, ticks: Sequence[tuple[float, str]], series: Series, k: int) -> str:
    """Return the bar of one value from 0, its interval, and the lines of the axis behind."""
    shapes = [
        f'<line class="{"zero" if tick == 0 else "grid"}" x1="{at}" x2="{at}" y1="0" y2="100%"/>'
        for tick, _ in ticks
        for at in [_share(up, tick)]
    ]
    value, (low, high) = float(series.values[k]), (float(end[k]) for end in series.band)
    if np.isfinite(value):
        start, end = sorted([0.0, value])
        wide = 100 * (up.share(end) - up.share(start))
        shapes.append(
            f'<rect class="bars" x="{_share(up, start)}" width="{wide:.2f}%" y="18%" height="64%"/>'
        )
    if np.isfinite(low) and np.isfinite(high):
        ends = [_share(up, low), _share(up, high)]
        shapes.append(
            f'<line class="whisker" x1="{ends[0]}" x2="{ends[1]}" y1="50%" y2="50%"/>'
            + "".join(f'<line class="whisker" x1="{x}" x2="{x}" y1="32%" y2="68%"/>' for x in ends)
        )
    return "".join(shapes)


def _share(up: Scale, value: float) -> str:
    return f"{100 * min(max(float(up.share(value)), 0.0), 1.0):.2f}%"


class _Place:
    """The places of x and values in a drawing."""

    def __init__(self, figure: Figure, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.across, self.up = figure.scales()
        self.labels = self.up.ticks(max(height // 55, 3))
        self.left = round(max((len(t) for _, t in self.labels), default=0) * _LETTER + 14)

    def x(self, at: float) -> float:
        return float(self.xs(np.array(at)))

    def y(self, value: float) -> float:
        return float(self.ys(np.array(value)))

    def xs(self, at: Floats) -> Floats:
        wide = self.width - self.left - RIGHT
        return np.round(self.left + self.across.share(at) * wide, 1)

    def ys(self, values: Floats) -> Floats:
        """Return places of values; those far outside are moved close, for browsers."""
        share = np.clip(1 - self.up.share(values), -2.0, 3.0)
        return np.round(TOP + share * (self.height - TOP - BOTTOM), 1)

    def points(self, x: Floats, values: Floats, at: NDArray[np.int64]) -> str:
        pairs = zip(self.xs(x[at]).tolist(), self.ys(values[at]).tolist(), strict=True)
        return "L".join(f"{x} {y}" for x, y in pairs)


def _axes(place: _Place) -> str:
    across, bottom = place.width - RIGHT, place.height - BOTTOM
    parts = []
    for tick, label in place.labels:
        y, kind = place.y(tick), "zero" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{place.left}" x2="{across}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text x="{place.left - 8}" y="{y + 4:.1f}" text-anchor="end">{escaped(label)}</text>'
        )
    free = -np.inf
    for tick, label in place.across.ticks(max((place.width - place.left) // 75, 2)):
        x, wide = place.x(tick), len(label) * _LETTER
        centred = place.across.kind in ("linear", "log") or place.across.step
        start = max(min(x - wide / 2 if centred else x, across - wide + 8), 0)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>')
        if start >= free:
            parts.append(f'<text x="{start:.1f}" y="{place.height - 8}">{escaped(label)}</text>')
            free = start + wide + 6
    return "".join(parts)


def _shapes(figure: Figure, place: _Place, order: Sequence[str]) -> str:
    """Return bands from the back to the front, then lines and dots."""
    behind = [s for s in figure.series if s.look == "band"]
    others = [s for s in figure.series if s.look != "band"]
    few = len(others) <= _BANDS
    bands = [(s, "band behind") for s in behind]
    bands += [
        (s, ("band" if k == 0 else "band over") if few else "band faint")
        for k, s in enumerate(others)
        if s.look != "bars"
    ]
    parts = [
        f'<path class="{kind} {_key(s, order)}" d="{_area(place, s)}"/>'
        for s, kind in bands
        if np.isfinite(s.bounds).any()
    ]
    return "\n".join([*parts, *(_drawn(s, place, _key(s, order)) for s in reversed(others))])


def _key(series: Series, order: Sequence[str]) -> str:
    return f"{series.color} s{order.index(series.name)}"


def _area(place: _Place, series: Series) -> str:
    """Return the area between the band's edges, in pieces without a gap; a stub for one place."""
    low, high = series.band
    if place.up.kind == "log":
        low = np.where(low <= place.up.low, place.up.low, low)
    pieces, at = [], series.at
    runs = finite_runs(low + high)
    if series.look == "dots":
        runs = [np.array([k]) for run in runs for k in run]
    for run in runs:
        if len(run) == 1:
            x, top, bottom = place.x(at[run[0]]), place.y(high[run[0]]), place.y(low[run[0]])
            pieces.append(f"M{x - _STUB:.1f} {top}h{2 * _STUB}V{bottom}h{-2 * _STUB}Z")
        else:
            upper, lower = place.points(at, high, run), place.points(at, low, run[::-1])
            pieces.append(f"M{upper}L{lower}Z")
    return "".join(pieces)


def _drawn(series: Series, place: _Place, key: str) -> str:
    """Return the line, steps, bars or dots of a series."""
    at, values = series.at, series.values
    if place.up.kind == "log":
        values = np.where(values > 0, values, np.nan)
    runs = finite_runs(values)
    if series.look == "dots":
        kind = "dots large" if len(at) <= 40 else "dots"
        dots = "h0M".join(place.points(at, values, run).replace("L", "h0M") for run in runs)
        return f'<path class="{kind} {key}" d="M{dots}h0"/>' if dots else ""
    pieces = []
    for run in runs:
        if series.look in ("steps", "bars"):
            xs, ys = place.xs(at[run]).tolist(), place.ys(values[run]).tolist()
            if series.look == "bars":
                base, ends = place.y(0), place.xs(series.edges[1][run]).tolist()
                pieces += [
                    f"M{a} {base}V{y}H{b - 1:.1f}V{base}Z"
                    for a, y, b in zip(xs, ys, ends, strict=True)
                ]
            else:
                steps = "".join(f"H{x}V{y}" for x, y in zip(xs[1:], ys[1:], strict=True))
                pieces.append(f"M{xs[0]} {ys[0]}{steps}")
        else:
            pieces.append(f"M{place.points(at, values, run)}")
    kind = {"bars": "bars", "dashes": "line dashes"}.get(series.look, "line")
    path = f'<path class="{kind} {key}" d="{"".join(pieces)}"/>'
    if kind == "bars":
        return path + _whiskers(place, series, key)
    lonely = "".join(f"M{place.points(at, values, run)}h0" for run in runs if len(run) == 1)
    return path + (f'<path class="dots large {key}" d="{lonely}"/>' if lonely else "")


def _whiskers(place: _Place, series: Series, key: str) -> str:
    """Return the interval of each bar over numbers or times, in its middle."""
    (starts, ends), (low, high) = series.edges, series.band
    known = np.isfinite(low + high)
    middles = place.xs((starts + ends) / 2)[known].tolist()
    spans = zip(middles, place.ys(low)[known], place.ys(high)[known], strict=True)
    path = "".join(
        f"M{x} {bottom}V{top}"
        + "".join(f"M{x - _STUB:.1f} {end}h{2 * _STUB}" for end in (bottom, top))
        for x, bottom, top in spans
    )
    return f'<path class="whisker s{key.rpartition(" s")[2]}" d="{path}"/>' if path else ""


def _marks(figure: Figure, place: _Place) -> str:
    parts = []
    across, bottom = place.width - RIGHT, place.height - BOTTOM
    for mark in figure.marks:
        label = f'class="of-mark" text-anchor="end">{escaped(mark.label)}</text>'
        if mark.of == "y":
            y = place.y(mark.at)
            parts.append(f'<line class="mark" x1="{place.left}" x2="{across}" y1="{y}" y2="{y}"/>')
            above = y - 5 if y > TOP + 20 else y + 14
            parts.append(f'<text x="{across - 4}" y="{above:.1f}" {label}')
        else:
            x = place.x(mark.at)
            parts.append(f'<line class="mark" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>')
            end = x - 5 if x > place.left + len(mark.label) * _LETTER else across
            parts.append(f'<text x="{end:.1f}" y="{bottom - 8}" {label}')
    return "".join(parts)


def _legend(figure: Figure) -> str:
    """Return a box for each series to show or hide it; none for a single series over names."""
    items = []
    if figure.is_single():
        return ""
    for k, (label, s) in enumerate(figure.legend()):
        kind = "band behind" if s.look == "band" else "bars" if s.look == "bars" else "band"
        shapes = ""
        if np.isfinite(s.bounds).any() or s.look == "bars":
            shapes += f'<path class="{kind} {s.color}" d="M0 1h26v12H0z"/>'
        if s.look == "dots":
            shapes += f'<path class="dots large {s.color}" d="M13 7h0"/>'
        elif s.look not in ("band", "bars"):
            kind = "line dashes" if s.look == "dashes" else "line"
            shapes += f'<path class="{kind} {s.color}" d="M1 7h24"/>'
        items.append(
            f'<label><input type="checkbox" name="s{k}" autocomplete="off" checked> '
            f'<svg viewBox="0 0 26 14" aria-hidden="true">{shapes}</svg>{escaped(label)}</label>'
        )
    return "\n".join(items)


def _table(table: Table, caption: str) -> str:
    kinds = ["" if a == "l" else ' class="number"' for a in table.align]

    def row(cells: Sequence[str], head: bool = False) -> str:
        tags = ["th scope='col'" if head else "td"] * len(cells)
        tags[0] = "th scope='col'" if head else "th scope='row'"
        return "".join(
            f"<{tag}{kind}>{escaped(cell)}</{tag[:2]}>"
            for tag, kind, cell in zip(tags, kinds, cells, strict=True)
        )

    body = "\n".join(f"<tr>{row(cells)}</tr>" for cells in table.rows)
    caption = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return (
        f'<div class="scrolled"><table>{caption}\n'
        f"<thead><tr>{row(table.columns, head=True)}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
