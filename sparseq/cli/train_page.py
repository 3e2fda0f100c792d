"""A training run for the curator, as one HTML page that needs no network: Figure 1, and more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sparseq.cli.figure import Floats, value_ticks
from sparseq.cli.page import _POLICY, _SCRIPT, _STYLE, BOTTOM, LEFT, RIGHT, TOP, WIDTH, _html_table
from sparseq.cli.text import escaped
from sparseq.pictures.numbers import MISSING, upper
from sparseq.pictures.tables import Table

if TYPE_CHECKING:
    from sparseq.training import TrainingResult
    from sparseq.training.report import Report

HEIGHT, BINS = 300, 40
WARNING = (
    "PRIVATE: exact facts about people, who has budget left and who has spent how much. For the "
    "curator of this data only; it is no release, and nothing of it may be shown to an analyst."
)
_MORE = """
.warning { border: 2px solid #c62828; border-radius: 6px; padding: .5rem .8rem; font-weight: 600; }
.bar { fill: var(--ours); } .dot { fill: var(--corrected); } .error { stroke: var(--corrected); }
.mark { stroke: var(--faint); stroke-dasharray: 4 4; }
"""


@dataclass(frozen=True)
class Chart:
    """Values over a number: a stairs line, bars from x to x + width, or dots with an error.

    Attributes:
        kind: How they are drawn.
        title, unit, note: Words around it.
        x, y: Where and what.
        span: Lowest and highest x, and y.
        names, rows: Tooltips and table: the x's text first.
        width: Of a bar.
        error: Of every dot, ±.
        mark: An x to draw a line at.
    """

    kind: Literal["stairs", "bars", "dots"]
    title: str
    unit: str
    note: str
    x: Floats
    y: Floats
    span: tuple[float, float, float, float]
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    width: float = 0.0
    error: float = 0.0
    mark: float | None = None


def train_page(report: Report, trained: TrainingResult, title: str, facts: Table) -> str:
    """Return the page of a run.

    Args:
        report: The exact facts. Private.
        trained: The public ones.
        title: What was trained.
        facts: The summary that everybody sees.
    """
    charts = [_active(report, trained), _spends(report), _checks(report, trained)]
    return f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escaped(title)}</title>
<style>{_STYLE}{_MORE}</style>
<h1>{escaped(title)}</h1>
<p class="warning">{WARNING}</p>
{_html_table(facts)}
{"".join(map(_section, charts))}
<details class="log"><summary>Every step</summary>
<p class="unit">All but the first two columns is public, and in the file of --log.</p>
{_html_table(log_table(report, trained))}
</details>
<script>{_SCRIPT}</script>
</html>
"""


def log_table(report: Report, trained: TrainingResult) -> Table:
    """Return the log, with how many people had budget left."""
    names = ["step", "people with budget left", "sigma", "norm", "worst_case", "accuracy", "loss",
             "active"]  # fmt: skip
    rows = [
        [
            str(s.step), str(left), repr(s.sigma), repr(s.norm), repr(s.worst_case),
            *(MISSING if v is None else repr(v) for v in (s.accuracy, s.loss, s.active)),
        ]
        for s, left in zip(trained.log, report.active.tolist(), strict=True)
    ]  # fmt: skip
    return Table(names, rows, ["r"] * len(names))


def _active(report: Report, trained: TrainingResult) -> Chart:
    steps = np.array([s.step for s in trained.log], np.float64)
    people = len(report.spent)
    rows = [
        [f"step {s.step}", f"{left:,}", f"{100 * left / people:.1f} %",
         MISSING if s.active is None else f"{100 * s.active:.1f} %"]
        for s, left in zip(trained.log, report.active.tolist(), strict=True)
    ]  # fmt: skip
    return Chart(
        "stairs", "People with budget left", f"people, of {people:,}, after each step",
        f"Feldman & Zrnic (2021), Figure 1. Until step {report.steps}, the dashed line, nobody can "
        "run out. Whoever can still pay for a tenth of a full gradient has budget left.",
        steps, report.active.astype(np.float64),
        (0.0, float(max(steps.max(initial=1.0), report.steps)), 0.0, float(people)),
        ["people", "share", "noised estimate"], rows, mark=float(report.steps),
    )  # fmt: skip


def _spends(report: Report) -> Chart:
    edges = np.linspace(0, 100, BINS + 1)
    count, _ = np.histogram(np.clip(100 * report.spent, 0, 100), bins=edges)
    rows = [
        [f"{a:g} to {b:g} %", f"{n:,}"]
        for a, b, n in zip(edges[:-1], edges[1:], count.tolist(), strict=True)
    ]
    return Chart(
        "bars", "Spread of spends", "people, by what they have spent of what the run may spend, %",
        "Whoever has spent little has had small gradients: the model is right about them.",
        edges[:-1], count.astype(np.float64), (0.0, 100.0, 0.0, float(max(count.max(), 1))),
        ["people"], rows, width=100 / BINS,
    )  # fmt: skip


def _checks(report: Report, trained: TrainingResult) -> Chart:
    """What the checks have said: accuracy, or the loss, or nothing."""
    asked, unit = report.checks, report.checked
    factor, percent = (1, "") if unit == "loss" else (100, " %")
    error = factor * trained.check_error
    x, y = (np.array([a[i] for a in asked], np.float64) for i in (0, 1))
    y *= factor
    low = max(np.floor((y.min(initial=100.0) - error) / 5) * 5, 0.0) if percent else 0.0
    high = 100.0 if percent else (float(y.max(initial=0.0)) + error) * 1.1
    taken = f"Parameters of step {trained.taken} were taken."
    return Chart(
        "dots", f"Training {unit}", f"{unit}, noised, ± {upper(error, 2)}{percent} of noise", taken
        if asked else "Not asked: see --checks.", x, y,
        (0.0, float(max(len(trained.log), 1)), float(low), max(high, low + 1e-9)),
        [unit], [[f"step {int(t)}", f"{v:.4g}{percent}"] for t, v in zip(x, y, strict=True)],
        error=error,
    )  # fmt: skip


def _section(chart: Chart) -> str:
    table = Table(["", *chart.names], chart.rows, ["l", *("r" for _ in chart.names)])
    middle = chart.x + chart.width / 2
    data = {"x": [_place(chart, v, 0.0)[0] for v in middle], "names": chart.names,
            "rows": chart.rows}  # fmt: skip
    script = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    interactive = (
        f'<script type="application/json" class="data">{script}</script>' if len(chart.x) else ""
    )
    return f"""<section class="{"figure" if len(chart.x) else ""}">
<h2>{escaped(chart.title)}</h2>
<p class="unit">{escaped(chart.unit)}</p>
<div class="chart">
<svg viewBox="0 0 {WIDTH} {HEIGHT}" tabindex="0" role="img" aria-label="{escaped(chart.title)}">
{"".join(_axes(chart))}{"".join(_marks(chart))}
<line class="cursor" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>
</svg>
<div class="tip" aria-hidden="true"></div>
</div>
<div class="notes"><p>{escaped(chart.note)}</p></div>
<details><summary>The numbers</summary>
{_html_table(table)}
</details>
{interactive}
</section>
"""


def _place(chart: Chart, x: float, y: float) -> tuple[float, float]:
    left, right, low, high = chart.span
    across = (x - left) / ((right - left) or 1.0)
    up = (y - low) / ((high - low) or 1.0)
    return (
        round(LEFT + float(across) * (WIDTH - LEFT - RIGHT), 1),
        round(HEIGHT - BOTTOM - float(up) * (HEIGHT - TOP - BOTTOM), 1),
    )


def _axes(chart: Chart) -> list[str]:
    left, right, low, high = chart.span
    parts = []
    for tick in value_ticks(low, high, 6):
        _, y = _place(chart, 0, tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:,g}</text>')
    for tick in value_ticks(left, right, 11):
        x, _ = _place(chart, tick, 0)
        parts.append(f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{tick:,g}</text>')
    return parts


def _marks(chart: Chart) -> list[str]:
    """Return what stands for the values."""
    bottom = HEIGHT - BOTTOM
    at = [_place(chart, x, y) for x, y in zip(chart.x, chart.y, strict=True)]
    if chart.kind == "bars":
        width = _place(chart, chart.width, 0)[0] - _place(chart, 0, 0)[0] - 1
        return [
            f'<rect class="bar" x="{x}" y="{y}" width="{width:.1f}" height="{bottom - y:.1f}"/>'
            for x, y in at
        ]
    if chart.kind == "dots":
        reach = _place(chart, 0, 0)[1] - _place(chart, 0, chart.error)[1]
        return [
            f'<line class="error" x1="{x}" x2="{x}" y1="{y - reach:.1f}" y2="{y + reach:.1f}"/>'
            f'<circle class="dot" cx="{x}" cy="{y}" r="4"/>'
            for x, y in at
        ]
    path = "M" + "".join(f"{x} {y}" if i == 0 else f"H{x}V{y}" for i, (x, y) in enumerate(at))
    lines = [f'<path class="line ours" d="{path}"/>']
    if chart.mark is not None:
        x, _ = _place(chart, chart.mark, 0)
        lines.append(f'<line class="mark" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>')
    return lines
