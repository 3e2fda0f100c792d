"""Figures as one HTML file that needs no network, or as a PNG or SVG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.cli.figure import (
    Figure,
    Floats,
    Series,
    date_ticks,
    day_label,
    days_between,
    finite_runs,
    value_ticks,
)
from sparseq.cli.text import escaped
from sparseq.errors import ParameterError
from sparseq.pictures.numbers import digits_for, format_number
from sparseq.pictures.tables import Table

__all__ = ["Figure", "Series", "html_page", "write_png"]

WIDTH, HEIGHT = 960, 420  # of the drawing, in its own units
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 28  # its margins
CLASSES, COLORS = ("ours", "worst", "corrected"), ("#0b62d6", "#e07b12", "#1a7f37")

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1f2328; --faint: #656d76; --grid: #d8dee4;
  --ours: #0b62d6; --worst: #e07b12; --corrected: #1a7f37; --worst-fill: 22%; --ours-fill: 40%; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --faint: #8d96a0;
  --grid: #2b323b; --ours: #58a6ff; --worst: #f0913a; --corrected: #3fb950; --worst-fill: 26%;
  --ours-fill: 45%; } }
body { background: var(--page); color: var(--ink); max-width: 1000px; margin: 2rem auto;
  padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif; }
h1, h2 { font-size: 1.35rem; line-height: 1.3; margin: 0; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
.unit, .notes p { color: var(--faint); margin: .2rem 0; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; margin: .8rem 0 .4rem; }
.legend svg { width: 26px; height: 14px; margin-right: .5rem; vertical-align: -2px; }
.chart { position: relative; overflow-x: auto;
  --shade: color-mix(in srgb, var(--ink) 30%, transparent); /* at an edge that it goes on behind */
  background: linear-gradient(to right, var(--page) 40%, transparent) 0 / 48px 101% no-repeat local,
    linear-gradient(to left, var(--page) 40%, transparent) 100% / 48px 101% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) 0 / 16px 100% no-repeat,
    linear-gradient(to left, var(--shade), transparent) 100% / 16px 100% no-repeat; }
.chart > svg { display: block; width: 100%; min-width: 600px; touch-action: pan-x; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--grid); } .zero { stroke: var(--faint); }
.ours.band { fill: color-mix(in srgb, var(--ours) var(--ours-fill), var(--page)); }
.worst.band { fill: color-mix(in srgb, var(--worst) var(--worst-fill), var(--page)); }
.corrected.band { fill: color-mix(in srgb, var(--corrected) 22%, transparent); }
.line { fill: none; stroke-width: 1.3; stroke-linejoin: round; stroke-linecap: round; }
.ours.line { stroke: var(--ours); }
.corrected.line { stroke: var(--corrected); }
.truth.line { stroke: var(--ink); stroke-width: 1.1; }
.chart.no-ours .ours, .chart.no-worst .worst, .chart.no-corrected .corrected,
.chart.no-truth .truth { display: none; }
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
for (const figure of document.querySelectorAll(".figure")) {
const { x, names, rows } = JSON.parse(figure.querySelector(".data").textContent);
const chart = figure.querySelector(".chart"), svg = chart.querySelector("svg");
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
for (const box of figure.querySelectorAll(".legend input")) {
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
}
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def html_page(
    figures: Figure | Sequence[Figure], table: Table | None = None, title: str | None = None
) -> str:
    """One self-contained page: drawings, tooltips, notes, and the numbers as tables.

    It follows the reader's light or dark setting.

    Args:
        figures: One, or several below each other.
        table: Shown instead of the first figure's own.
        title: Of the page; by default the first figure's.

    >>> page = html_page(Figure("a < b", "", [Series("a", [date(2024, 1, 1)], np.ones(1), 2.0)]))
    >>> "<h1>a &lt; b</h1>" in page, "1.0 ± 2.0" in page
    (True, True)
    """
    drawn = [figures] if isinstance(figures, Figure) else list(figures)
    heading = "h1" if title is None and len(drawn) == 1 else "h2"
    sections = "\n".join(
        _section(figure, table if k == 0 else None, heading, k) for k, figure in enumerate(drawn)
    )
    name = escaped(title if title is not None else drawn[0].title)
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{name}</title>
<style>{_STYLE}</style>
{"" if heading == "h1" else f"<h1>{name}</h1>"}
{sections}
<script>{_SCRIPT}</script>
</html>
"""


def _section(figure: Figure, table: Table | None, heading: str, k: int) -> str:
    notes = "".join(f"<p>{escaped(note)}</p>" for note in figure.all_notes())
    return f"""<section class="figure">
<{heading}>{escaped(figure.title)}</{heading}>
<p class="unit">{escaped(figure.y_label)}</p>
<div class="legend">{_legend(figure)}</div>
<div class="chart no-truth">
{_drawing(figure, k)}
<div class="tip" aria-hidden="true"></div>
</div>
<div class="notes">{notes}</div>
<details><summary>The numbers</summary>
{_html_table(table or figure.table())}
</details>
<script type="application/json" class="data">{_tooltips(figure)}</script>
</section>"""


class _Scale:
    """Where a day and a value are in the drawing."""

    def __init__(self, figure: Figure) -> None:
        self.first, self.last = figure.date_range()
        self.low, self.high = figure.value_range()

    def x(self, day: date) -> float:
        span = days_between(self.first, self.last)
        share = days_between(self.first, day) / span if span else 0.5
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


def _drawing(figure: Figure, k: int) -> str:
    scale = _Scale(figure)
    bands = [
        f'<path class="band {name}" d="{scale.area(s.x, *s.band)}"/>'
        for s, name in zip(figure.series, CLASSES, strict=False)
    ]
    ours = figure.series[0]
    lines = [
        f'<path class="line {name}" d="{scale.path(s.x, s.values)}"/>'
        for s, name in zip(figure.series, CLASSES, strict=False)
        if name != "worst"
    ]
    if figure.truth is not None:
        lines.append(f'<path class="line truth" d="{scale.path(ours.x, figure.truth)}"/>')
    bottom = HEIGHT - BOTTOM
    return "\n".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" tabindex="0" role="img" '
            f'aria-label="{escaped(figure.title)}">',
            f'<clipPath id="inside{k}"><rect x="{LEFT - 2}" y="{TOP}" '
            f'width="{WIDTH - LEFT - RIGHT + 4}" height="{bottom - TOP}"/></clipPath>',
            *_axes(scale),
            f'<g clip-path="url(#inside{k})">',
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
            f'<svg viewBox="0 0 26 14" aria-hidden="true">{shapes}</svg>{escaped(label)}</label>'
        )

    box, line = '<path class="band {}" d="M0 1h26v12H0z"/>', '<path class="line {}" d="M1 7h24"/>'
    shapes = (
        box.format("ours") + line.format("ours"),
        box.format("worst"),
        box.format("corrected") + line.format("corrected"),
    )
    named = zip(figure.series, CLASSES, shapes, strict=False)
    items = [item(name, s.label, shape) for s, name, shape in named]
    if figure.truth is not None:
        items.append(item("truth", "exact value", line.format("truth"), checked=""))
    return "\n".join(items)


def _html_table(table: Table) -> str:
    number = ["" if a == "l" else ' class="number"' for a in table.align]

    def row(cells: Sequence[str], tag: str) -> str:
        inside = (f"<{tag}{n}>{escaped(c)}</{tag}>" for c, n in zip(cells, number, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    return f"<table><thead>{row(table.columns, 'th')}</thead>\n<tbody>\n{body}\n</tbody></table>"


def _tooltips(figure: Figure) -> str:
    """The texts to show at each x, as JSON that cannot end its script element."""
    scale, table = _Scale(figure), figure.table()
    days = figure.series[0].x
    rows = [[day_label(d), *cells[1:]] for d, cells in zip(days, table.rows, strict=True)]
    numbers = [
        [None if not np.isfinite(y) else y for y in series.values.tolist()]
        for series in figure.series
    ]
    data = {
        "x": [scale.x(d) for d in days], "names": table.columns[1:], "rows": rows,
        "values": numbers,
    }  # fmt: skip
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def write_png(figures: Figure | Sequence[Figure], path: str | Path, kind: str = "png") -> None:
    """Draw figures below each other with Matplotlib, the optional extra `plot`.

    Raises `ParameterError` where Matplotlib is not installed.

    Args:
        figures: One, or several.
        path: Of the file, or something to write to.
        kind: `png` or `svg`.
    """
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ParameterError(
            "a PNG needs Matplotlib, which is not installed", "pip install 'sparseq[plot]'"
        ) from error
    drawn = [figures] if isinstance(figures, Figure) else list(figures)
    canvas = Canvas(figsize=(10, 5 * len(drawn)), dpi=150, layout="constrained")
    for part, figure in zip(
        canvas.subfigures(len(drawn), 1, squeeze=False)[:, 0], drawn, strict=True
    ):
        _draw(part, figure)
    canvas.savefig(path, format=kind, metadata={"Software" if kind == "png" else "Date": None})


def _draw(part: Any, figure: Figure) -> None:
    axes = part.add_subplot()
    looks = zip(COLORS, (0.4, 0.22, 0.22), (3, 2, 3), strict=True)
    for k, (s, (color, alpha, near)) in enumerate(zip(figure.series, looks, strict=False)):
        days, name = np.array(s.x, dtype="datetime64[s]"), _no_math(s.label)
        axes.fill_between(days, *s.band, color=color, alpha=alpha, lw=0, zorder=near, label=name)
        if CLASSES[k] != "worst":
            axes.plot(days, s.values, color=color, lw=1, zorder=4)
    if figure.truth is not None:
        days = np.array(figure.series[0].x, dtype="datetime64[s]")
        axes.plot(days, figure.truth, "k.", markersize=1.8, zorder=5, label="exact value")
    axes.set_ylim(*figure.value_range())
    axes.margins(x=0)
    axes.set_title(_no_math(figure.title), loc="left", fontweight="bold", pad=28)
    axes.set_ylabel(_no_math(figure.y_label))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.2)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    notes = "\n".join(figure.all_notes())
    part.supxlabel(_no_math(notes), fontsize=8, color="#656d76", x=0.01, ha="left")


def _no_math(text: str) -> str:
    return text.replace("$", r"\$")
