"""The comparison of a log as one HTML page that needs no network: plots, and the table behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.cli.figure import value_ticks
from sparseq.cli.page import _POLICY, _STYLE, BOTTOM, LEFT, RIGHT, TOP, WIDTH, _html_table
from sparseq.cli.text import escaped
from sparseq.pictures.numbers import MISSING
from sparseq.pictures.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.replay.compare import ReplayComparison, Tally

HEIGHT = 260
COLORS = {"worst-case": "var(--worst)", "individual": "var(--ours)", "halt": "var(--corrected)"}
Points = tuple[NDArray[np.float64], NDArray[np.float64]]
Columns = Mapping[str, Mapping[str, NDArray[np.float64]]]

_MORE = """
.warning { border: 2px solid #c62828; border-radius: 6px; padding: .5rem .8rem; font-weight: 600; }
.key { display: inline-block; width: 22px; height: 0; border-top: 3px solid; vertical-align: 4px;
  margin-right: .4rem; }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
polyline.halt { stroke-dasharray: 6 6; }
.key.halt { border-top-style: dashed; }
"""
WARNING = (
    "PRIVATE: computed from exact values and from who is left out. For the curator of this data "
    "only; it is no release, and nothing of it may be shown to an analyst."
)


def compare_page(comparison: ReplayComparison, log: str) -> str:
    """Return the page of a comparison (see `sparseq.replay.compare`)."""
    modes = [f.mode for f in comparison.fared]
    data = {mode: _columns(comparison.shown, mode) for mode in modes}
    legend = "".join(
        f'<span><i class="key {m}" style="color: {COLORS[m]}"></i>{escaped(m)}</span>'
        for m in modes
    )
    plots = [
        _plot("Lines answered", "lines", _series(data, "answered_so_far", modes)),
        _plot("Error of an answer", "× its noise's sigma", _series(data, "error", modes)),
        _plot("Budget spent, of all people's", "%", _series(data, "spent", modes, 100.0)),
        _plot("People ever left out", "people", _series(data, "ever_left_out", modes)),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escaped(log)}: worst-case and individual accounting</title>
<style>{_STYLE}{_MORE}</style>
<h1>{escaped(log)} under {escaped(" and ".join(modes))} accounting</h1>
<p class="warning">{WARNING}</p>
{_html_table(summary_table(comparison.fared))}
<div class="legend">{legend}</div>
{"".join(plots)}
<div class="notes"><p>Error: noise and what is missed by leaving people out, together, as the root
mean square over an answer's values; 1 is the noise alone.</p></div>
<details><summary>The numbers</summary>
{_html_table(rows_table(comparison.shown))}
</details>
</html>
"""


def summary_table(summary: Sequence[Tally]) -> Table:
    """Return the summary as a table of texts."""
    columns = ["accounting", "lines", "answered", "mean error, in sigmas", "people ever left out",
               "spent of all budgets", "most of one"]  # fmt: skip
    body = [
        [
            f.mode,
            f"{f.lines:,}",
            f"{f.answered:,}",
            number(f.error),
            f"{f.ever_left_out:,}",
            f"{100 * f.spent:.1f} %",
            f"{100 * f.most_spent:.1f} %",
        ]
        for f in summary
    ]
    return Table(columns, body, ["l", *"rrrrrr"])


def rows_table(rows: pa.Table) -> Table:
    """Return the rows behind the plots as texts."""
    body = [[number(v) for v in record.values()] for record in rows.to_pylist()]
    align = ["l" if name in ("id", "mode", "answered") else "r" for name in rows.column_names]
    return Table(rows.column_names, body, align)


def number(value: Any) -> str:
    """Return a cell as text, six digits of a number."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _columns(rows: pa.Table, mode: str) -> dict[str, NDArray[np.float64]]:

    own = rows.filter(pc.equal(rows["mode"], mode))
    names = ("line", "answered_so_far", "error", "spent", "ever_left_out")
    return {
        name: np.array([np.nan if v is None else v for v in own[name].to_pylist()], np.float64)
        for name in names
    }


def _series(
    data: Columns, name: str, modes: Sequence[str], factor: float = 1.0
) -> dict[str, Points]:
    return {mode: (data[mode]["line"], data[mode][name] * factor) for mode in modes}


def _plot(title: str, unit: str, series: Mapping[str, Points]) -> str:
    """Return a plot over the lines of the log, as SVG."""
    x = np.concatenate([xs for xs, _ in series.values()])
    values = np.concatenate([ys for _, ys in series.values()])
    values = values[np.isfinite(values)]
    last = float(x.max(initial=1.0))
    low = min(float(values.min(initial=0.0)), 0.0)
    high = max(float(values.max(initial=0.0)), low + 1e-9)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(line: float, value: float) -> str:
        across = LEFT + width * line / last
        return f"{across:.1f},{TOP + height * (1 - (value - low) / (high - low)):.1f}"

    parts = []
    for tick in value_ticks(low, high, 6):
        _, y = place(0, tick).split(",")
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{float(y) + 4}" text-anchor="end">{tick:,g}</text>')
    for tick in value_ticks(0, last, 9):
        across, _ = place(tick, low).split(",")
        parts.append(f'<text x="{across}" y="{HEIGHT - 8}" text-anchor="middle">{tick:,g}</text>')
    for mode, (lines, ys) in series.items():
        known = np.isfinite(ys)
        points = " ".join(map(place, lines[known], ys[known]))
        parts.append(f'<polyline class="{mode}" stroke="{COLORS[mode]}" points="{points}"/>')
    return (
        f'<h2>{escaped(title)}</h2><p class="unit">{escaped(unit)}, by line of the log</p>'
        f'<div class="chart"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escaped(title)}">{"".join(parts)}</svg></div>\n'
    )
