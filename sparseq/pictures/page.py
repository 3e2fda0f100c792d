"""Figures as one HTML file: no network, nothing inline that its policy does not name."""

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
from sparseq.pictures.figure import Figure, Floats, Series, Sheet, finite_runs
from sparseq.pictures.tables import Table

MOST_POINTS = 1_000
"""Of a figure, about; more are thinned."""
TOP, RIGHT, BOTTOM = 12, 14, 28  # margins, in the drawing's own units
_LETTER = 7.2  # about as wide as a digit
_SIZES = ((1, 960, 420, " one"), (4, 470, 250, " two"), (999, 310, 200, ""))  # up to so many panels
_STUB = 3.0  # half of the width of a band that has one place only


def html_page(sheet: Sheet) -> str:
    """One self-contained page: drawings, tooltips, notes, and the numbers as tables.

    It follows the reader's light or dark setting, and a reader of the screen is given the tables.

    >>> one = Series("a", np.array([1.0]), np.ones(1), 2.0)
    >>> page = html_page(Sheet("a < b", [Figure("a < b", [one])]))
    >>> "<h1>a &lt; b</h1>" in page, "1.0 ± 2.0" in page
    (True, True)
    """
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    alone = len(sheet.figures) == 1 and sheet.figures[0].title == sheet.title
    sections = "\n".join(_section(f, alone, k) for k, f in enumerate(sheet.figures))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    warning = f'<p class="warning">{escaped(sheet.warning)}</p>\n' if sheet.warning else ""
    log = ""
    if sheet.log:
        log = f'<details class="log"><summary>{escaped(sheet.log[0])}</summary>\n'
        log += f"{_table(sheet.log[1], sheet.log[0])}\n</details>"
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escaped(sheet.title)}</title>
<style>{style}</style>
<h1>{escaped(sheet.title)}</h1>
{warning}{_table(sheet.facts, "In short") if sheet.facts else ""}
{sections}
{log}
<script>{script}</script>
</html>
"""


def drawing(figure: Figure) -> str:
    """One figure for a page that has page.css and page.js: its drawings, notes and numbers."""
    return _section(figure, False, 0)


def escaped(text: object) -> str:
    """Return text for a page: what a terminal would obey is spelled out there too."""
    return html.escape(shown(text, None))


def _resource(name: str) -> str:
    return files("sparseq.pictures").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _section(figure: Figure, alone: bool, k: int) -> str:
    panels = figure.panels()
    thin = figure.thinned(max(MOST_POINTS // len(panels), 60))
    _, width, height, columns = next(size for size in _SIZES if len(panels) <= size[0])
    drawings = "\n".join(
        _chart(part, thin, name, f"{k}-{n}", width, height)
        for n, (name, part) in enumerate(thin.panels().items())
    )
    notes = "".join(f"<p>{escaped(note)}</p>" for note in figure.notes_of(thin))
    heading = "" if alone else f"<h2>{escaped(figure.title)}</h2>\n"
    return f"""<figure aria-label="{escaped(figure.title)}">
{heading}<p class="unit">{escaped(figure.subtitle)}</p>
<div class="legend">{_legend(figure)}</div>
<div class="panels{columns}">
{drawings}
</div>
<figcaption class="notes">{notes}</figcaption>
<details><summary>The numbers</summary>
{_table(thin.table(), figure.title)}
</details>
</figure>"""


def _chart(part: Figure, whole: Figure, name: str, key: str, width: int, height: int) -> str:
    """One drawing, with what its tooltips say."""
    place = _Place(part, width, height)
    data = {
        "x": place.xs(part.places()).tolist(),
        "names": part.table().columns[1:],
        "rows": part.tips(),
    }
    script = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    order = list(dict.fromkeys(s.name for s in whole.series))
    title = f"{whole.title}, {name}" if name else whole.title
    heading = f"<h3>{escaped(name)}</h3>\n" if name else ""
    return f"""<div>{heading}<div class="chart">
<svg viewBox="0 0 {width} {height}" tabindex="0" role="img" aria-label="{escaped(title)}">
<clipPath id="inside{key}"><rect x="{place.left - 3}" y="{TOP - 3}" \
width="{width - RIGHT - place.left + 6}" height="{height - BOTTOM - TOP + 6}"/></clipPath>
{_axes(place)}
<g clip-path="url(#inside{key})">
{_shapes(part, place, order)}
</g>
{_marks(part, place)}
<line class="cursor" y1="{TOP}" y2="{height - BOTTOM}"/>
</svg>
<div class="tip" aria-hidden="true"></div>
<script type="application/json" class="data">{script}</script>
</div></div>"""


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
        """Far outside is only just outside: no browser draws numbers of any size."""
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
        start = min(
            x - wide / 2 if place.across.kind in ("linear", "log") else x, across - wide + 8
        )
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>')
        if start >= free:
            parts.append(f'<text x="{start:.1f}" y="{place.height - 8}">{escaped(label)}</text>')
            free = start + wide + 6
    return "".join(parts)


def _shapes(figure: Figure, place: _Place, order: Sequence[str]) -> str:
    """Bands from the back to the front, then lines and dots."""
    behind = [s for s in figure.series if s.look == "band"]
    others = [s for s in figure.series if s.look != "band"]
    bands = [(s, "band behind") for s in behind]
    bands += [(s, "band" if k == 0 else "band over") for k, s in enumerate(others)]
    parts = [
        f'<path class="{kind} {_key(s, order)}" d="{_area(place, s)}"/>'
        for s, kind in bands
        if np.isfinite(s.bounds).any()
    ]
    return "\n".join([*parts, *(_drawn(s, place, _key(s, order)) for s in reversed(others))])


def _key(series: Series, order: Sequence[str]) -> str:
    return f"{series.color} s{order.index(series.name)}"


def _area(place: _Place, series: Series) -> str:
    """Return the area between the band's edges, in pieces without a gap; of one place, a stub."""
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
    """The line, steps, bars or dots of a series."""
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
            ends = np.append(at, place.across.high)[run + (series.look == "bars")]
            xs, ys = place.xs(ends).tolist(), place.ys(values[run]).tolist()
            if series.look == "bars":
                base, starts = place.y(0), place.xs(at[run]).tolist()
                pieces += [
                    f"M{a} {base}V{y}H{b - 1:.1f}V{base}Z"
                    for a, y, b in zip(starts, ys, xs, strict=True)
                ]
            else:
                steps = "".join(f"H{x}V{y}" for x, y in zip(xs[1:], ys[1:], strict=True))
                pieces.append(f"M{xs[0]} {ys[0]}{steps}")
        else:
            pieces.append(f"M{place.points(at, values, run)}")
    kind = {"bars": "bars", "dashes": "line dashes"}.get(series.look, "line")
    lonely = "".join(f"M{place.points(at, values, run)}h0" for run in runs if len(run) == 1)
    return f'<path class="{kind} {key}" d="{"".join(pieces)}"/>' + (
        f'<path class="dots large {key}" d="{lonely}"/>' if lonely and kind != "bars" else ""
    )


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
    """A box for each series to show or hide it."""
    items = []
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
    return (
        f'<div class="scrolled"><table><caption>{escaped(caption)}</caption>\n'
        f"<thead><tr>{row(table.columns, head=True)}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
