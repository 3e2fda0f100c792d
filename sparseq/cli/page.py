"""A figure as one HTML file that needs no network, or as a PNG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparseq.cli.figure import (
    Figure,
    Floats,
    Series,
    date_ticks,
    day_label,
    finite_runs,
    value_ticks,
)
from sparseq.cli.tables import Table, digits_for, format_number
from sparseq.errors import ParameterError

__all__ = ["Figure", "Series", "html_page", "write_png"]

WIDTH, HEIGHT = 960, 420  # of the drawing, in its own units
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 28  # its margins
CLASSES, COLORS = ("ours", "worst"), ("#0b62d6", "#e07b12")

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1f2328; --faint: #656d76; --grid: #d8dee4;
  --ours: #0b62d6; --worst: #e07b12; --worst-fill: 22%; --ours-fill: 40%; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --faint: #8d96a0;
  --grid: #2b323b; --ours: #58a6ff; --worst: #f0913a; --worst-fill: 26%; --ours-fill: 45%; } }
body { background: var(--page); color: var(--ink); max-width: 1000px; margin: 2rem auto;
  padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; line-height: 1.3; margin: 0; }
.unit, .notes p { color: var(--faint); margin: .2rem 0; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; margin: .8rem 0 .4rem; }
.legend svg { width: 26px; height: 14px; margin-right: .5rem; vertical-align: -2px; }
.chart { position: relative; overflow-x: auto; }
.chart > svg { display: block; width: 100%; min-width: 600px; touch-action: pan-x; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--grid); } .zero { stroke: var(--faint); }
.ours.band { fill: color-mix(in srgb, var(--ours) var(--ours-fill), var(--page)); }
.worst.band { fill: color-mix(in srgb, var(--worst) var(--worst-fill), var(--page)); }
.line { fill: none; stroke-width: 1.3; stroke-linejoin: round; stroke-linecap: round; }
.ours.line { stroke: var(--ours); }
.truth.line { stroke: var(--ink); stroke-width: 1.1; }
.chart.no-ours .ours, .chart.no-worst .worst, .chart.no-truth .truth { display: none; }
.cursor { stroke: var(--faint); visibility: hidden; }
.tip { position: absolute; top: .5rem; visibility: hidden; pointer-events: none;
  padding: .4rem .7rem; background: var(--page); border: 1px solid var(--grid);
  border-radius: 6px; box-shadow: 0 2px 8px #0003; white-space: nowrap; font-size: 13px;
  font-variant-numeric: tabular-nums; }
.tip b { display: block; } .tip div { display: flex; justify-content: space-between; gap: 1.4rem; }
summary, label { cursor: pointer; }
summary { margin: 1rem 0 .5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th { position: sticky; top: 0; background: var(--page); }
th, td { padding: .15rem 1.2rem .15rem 0; text-align: left; border-bottom: 1px solid var(--grid); }
.number { text-align: right; }
"""

_SCRIPT = """
const { x, names, rows } = JSON.parse(document.getElementById("data").textContent);
const chart = document.querySelector(".chart"), svg = chart.querySelector("svg");
const cursor = chart.querySelector(".cursor"), tip = chart.querySelector(".tip");
const units = svg.viewBox.baseVal.width;
let now = -1;
function show(k) {
  now = Math.max(0, Math.min(x.length - 1, k));
  cursor.setAttribute("x1", x[now]);
  cursor.setAttribute("x2", x[now]);
  const day = document.createElement("b");
  day.textContent = rows[now][0];
  tip.replaceChildren(day, ...names.map((name, j) => {
    const line = document.createElement("div");
    for (const text of [name, rows[now][j + 1]]) {
      line.appendChild(document.createElement("span")).textContent = text;
    }
    return line;
  }));
  const at = x[now] / units * svg.clientWidth, right = at > svg.clientWidth / 2;
  tip.style.left = `${right ? at - tip.offsetWidth - 12 : at + 12}px`;
  tip.style.visibility = cursor.style.visibility = "visible";
}
function hide() { tip.style.visibility = cursor.style.visibility = "hidden"; }
function nearest(event) {
  const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * units;
  return x.reduce((best, _, k) => Math.abs(x[k] - at) < Math.abs(x[best] - at) ? k : best, 0);
}
for (const box of document.querySelectorAll(".legend input")) {
  const hideOrShow = () => chart.classList.toggle(`no-${box.name}`, !box.checked);
  box.addEventListener("change", hideOrShow);
  hideOrShow();
}
for (const kind of ["pointermove", "pointerdown"]) {
  svg.addEventListener(kind, event => show(nearest(event)));
}
for (const kind of ["pointerleave", "blur"]) svg.addEventListener(kind, hide);
svg.addEventListener("keydown", event => {
  const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -7, PageDown: 7 }[event.key];
  if (step) { show(now + step); event.preventDefault(); }
});
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def html_page(figure: Figure, table: Table | None = None) -> str:
    """One self-contained page: the drawing, a tooltip, the notes, and the numbers as a table.

    It follows the reader's light or dark setting. Without a `table`, the figure's own is shown.

    >>> page = html_page(Figure("a < b", "", [Series("a", [date(2024, 1, 1)], np.ones(1), 2.0)]))
    >>> "<h1>a &lt; b</h1>" in page, "1.0 ± 2.0" in page
    (True, True)
    """
    title = escape(figure.title)
    notes = "".join(f"<p>{escape(note)}</p>" for note in figure.all_notes())
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>{_STYLE}</style>
<h1>{title}</h1>
<p class="unit">{escape(figure.y_label)}</p>
<div class="legend">{_legend(figure)}</div>
<div class="chart no-truth">
{_drawing(figure)}
<div class="tip" aria-hidden="true"></div>
</div>
<div class="notes">{notes}</div>
<details><summary>The numbers</summary>
{_html_table(table or figure.table())}
</details>
<script type="application/json" id="data">{_tooltips(figure)}</script>
<script>{_SCRIPT}</script>
</html>
"""


class _Scale:
    """Where a day and a value are in the drawing."""

    def __init__(self, figure: Figure) -> None:
        self.first, self.last = figure.date_range()
        self.low, self.high = figure.value_range()

    def x(self, day: date) -> float:
        span = (self.last - self.first).days
        share = (day - self.first).days / span if span else 0.5
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (self.high - float(value)) / (self.high - self.low)
        return round(TOP + share * (HEIGHT - TOP - BOTTOM), 1)

    def points(self, days: Sequence[date], values: Floats, at: NDArray[np.int64]) -> str:
        return "L".join(f"{self.x(days[k])} {self.y(values[k])}" for k in at)

    def path(self, days: Sequence[date], values: Floats) -> str:
        """The values as a line, which is broken at gaps."""
        return "".join(f"M{self.points(days, values, run)}h0" for run in finite_runs(values))

    def area(self, days: Sequence[date], low: Floats, high: Floats) -> str:
        """What is between two curves, in pieces without a gap."""
        return "".join(
            f"M{self.points(days, high, run)}L{self.points(days, low, run[::-1])}Z"
            for run in finite_runs(low + high)
        )


def _drawing(figure: Figure) -> str:
    scale = _Scale(figure)
    bands = [
        f'<path class="band {name}" d="{scale.area(s.x, *s.band)}"/>'
        for s, name in zip(figure.series, CLASSES, strict=False)
    ]
    ours = figure.series[0]
    lines = [f'<path class="line ours" d="{scale.path(ours.x, ours.values)}"/>']
    if figure.truth is not None:
        lines.append(f'<path class="line truth" d="{scale.path(ours.x, figure.truth)}"/>')
    bottom = HEIGHT - BOTTOM
    return "\n".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" tabindex="0" role="img" '
            f'aria-label="{escape(figure.title)}">',
            f'<clipPath id="inside"><rect x="{LEFT - 2}" y="{TOP}" '
            f'width="{WIDTH - LEFT - RIGHT + 4}" height="{bottom - TOP}"/></clipPath>',
            *_axes(scale),
            '<g clip-path="url(#inside)">',
            *reversed(bands),
            *lines,
            "</g>",
            f'<line class="cursor" y1="{TOP}" y2="{bottom}"/>',
            "</svg>",
        ]
    )


def _axes(scale: _Scale) -> list[str]:
    ticks = value_ticks(scale.low, scale.high, 7)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else scale.high - scale.low
    digits = max(digits_for(step) - 1, 0)
    across, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in ticks:
        y, kind = scale.y(tick), "zero" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{across}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{format_number(tick, digits)}</text>"
        )
    for day, label in date_ticks(scale.first, scale.last, 12):
        x = scale.x(day)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>')
        anchor = "end" if x > across - 60 else "start"
        parts.append(f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="{anchor}">{label}</text>')
    return parts


def _legend(figure: Figure) -> str:
    """A box for each series to show or hide it; the exact values are hidden at first."""

    def item(name: str, label: str, shapes: str, checked: str = "checked") -> str:
        return (
            f'<label><input type="checkbox" name="{name}" autocomplete="off" {checked}> '
            f'<svg viewBox="0 0 26 14" aria-hidden="true">{shapes}</svg>{escape(label)}</label>'
        )

    box, line = '<path class="band {}" d="M0 1h26v12H0z"/>', '<path class="line {}" d="M1 7h24"/>'
    shapes = (box.format("ours") + line.format("ours"), box.format("worst"))
    named = zip(figure.series, CLASSES, shapes, strict=False)
    items = [item(name, s.label, shape) for s, name, shape in named]
    if figure.truth is not None:
        items.append(item("truth", "exact value", line.format("truth"), checked=""))
    return "\n".join(items)


def _html_table(table: Table) -> str:
    number = ["" if a == "l" else ' class="number"' for a in table.align]

    def row(cells: Sequence[str], tag: str) -> str:
        inside = (f"<{tag}{n}>{escape(c)}</{tag}>" for c, n in zip(cells, number, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    return f"<table><thead>{row(table.columns, 'th')}</thead>\n<tbody>\n{body}\n</tbody></table>"


def _tooltips(figure: Figure) -> str:
    """The texts to show at each x, as JSON that cannot end its script element."""
    scale, table = _Scale(figure), figure.table()
    days = figure.series[0].x
    rows = [[day_label(d), *cells[1:]] for d, cells in zip(days, table.rows, strict=True)]
    data = {"x": [scale.x(d) for d in days], "names": table.columns[1:], "rows": rows}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def write_png(figure: Figure, path: str | Path) -> None:
    """Draw `figure` with Matplotlib, the optional extra `plot`.

    Raises `ParameterError` where Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ParameterError(
            "a PNG needs Matplotlib, which is not installed", "pip install 'sparseq[plot]'"
        ) from error
    canvas = Canvas(figsize=(10, 5), dpi=150, layout="constrained")
    axes = canvas.add_subplot()
    looks = zip(COLORS, (0.4, 0.22), (3, 2), strict=True)
    for s, (color, alpha, near) in zip(figure.series, looks, strict=False):
        days, name = np.array(s.x, dtype="datetime64[D]"), _no_math(s.label)
        axes.fill_between(days, *s.band, color=color, alpha=alpha, lw=0, zorder=near, label=name)
    days = np.array(figure.series[0].x, dtype="datetime64[D]")
    axes.plot(days, figure.series[0].values, color=COLORS[0], lw=1, zorder=4)
    if figure.truth is not None:
        axes.plot(days, figure.truth, "k.", markersize=1.8, zorder=5, label="exact value")
    axes.set_ylim(*figure.value_range())
    axes.margins(x=0)
    axes.set_title(_no_math(figure.title), loc="left", fontweight="bold", pad=28)
    axes.set_ylabel(_no_math(figure.y_label))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.2)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    notes = "\n".join(figure.all_notes())
    canvas.supxlabel(_no_math(notes), fontsize=8, color="#656d76", x=0.01, ha="left")
    canvas.savefig(path, metadata={"Software": None})


def _no_math(text: str) -> str:
    return text.replace("$", r"\$")
