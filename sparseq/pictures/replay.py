"""The figures of a log under several ways of accounting, for the curator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.pictures.figure import Axis, Color, Figure, Look, Series, Sheet, spread
from sparseq.pictures.numbers import MISSING
from sparseq.pictures.tables import Table
from sparseq.pictures.words import CURATOR

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.replay.compare import ReplayComparison, Tally

WARNING = f"PRIVATE: computed from exact values and from who is left out. {CURATOR}"
_LOOKS: dict[str, tuple[Color, Look]] = {
    "worst-case": ("orange", "line"), "individual": ("blue", "line"), "halt": ("green", "dashes")
}  # fmt: skip
_FIGURES = (
    ("answered_so_far", "Lines answered", "lines", "", 1.0),
    ("error", "Error of an answer", "multiples of its noise's sigma", "", 1.0),
    (
        "bias",
        "Of it bias: what is missed by leaving people out",
        "multiples of the noise's sigma",
        "",
        1.0,
    ),
    ("spent", "Budget spent", "of all people's budgets", "%", 100.0),
    ("ever_left_out", "People ever left out", "people", "", 1.0),
)
_ERROR = (
    "Error: noise and what is missed by leaving people out, together, as the root mean square over "
    "an answer's values; 1 is the noise alone. Noise is in the answer's ±, bias is not."
)


def replay_sheet(comparison: ReplayComparison, log: str) -> Sheet:
    """Return the page of a comparison (see `sparseq.replay.compare`)."""
    modes = [f.mode for f in comparison.fared]
    rows = comparison.shown.to_pylist()
    figures = []
    for column, title, label, unit, factor in _FIGURES:
        series = [_series(rows, mode, column, factor) for mode in modes]
        y = Axis(label, spread(series), unit)
        notes = [_ERROR] if column == "error" else []
        figures.append(Figure(title, series, Axis("line of the log"), y, notes=notes))
    return Sheet(
        f"{log} under {' and '.join(modes)} accounting", figures, WARNING,
        summary_table(comparison.fared), ("Every line", rows_table(comparison.shown)),
    )  # fmt: skip


def summary_table(summary: Sequence[Tally]) -> Table:
    """Return the summary as a table of texts."""
    columns = ["accounting", "lines", "answered", "mean error, in sigmas", "of it bias",
               "people ever left out", "spent of all budgets", "most of one"]  # fmt: skip
    body = [
        [f.mode, f"{f.lines:,}", f"{f.answered:,}", cell(f.error), cell(f.bias),
         f"{f.ever_left_out:,}", f"{100 * f.spent:.1f} %", f"{100 * f.most_spent:.1f} %"]
        for f in summary
    ]  # fmt: skip
    return Table(columns, body, ["l", *"rrrrrrr"])


def rows_table(rows: pa.Table) -> Table:
    """Return the rows behind the plots as texts."""
    body = [[cell(v) for v in record.values()] for record in rows.to_pylist()]
    align = ["l" if name in ("id", "mode", "answered") else "r" for name in rows.column_names]
    return Table(rows.column_names, body, align)


def cell(value: Any) -> str:
    """Return a value as text, six digits of a number."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _series(rows: Sequence[dict[str, Any]], mode: str, column: str, factor: float) -> Series:
    own = [r for r in rows if r["mode"] == mode]
    values = [np.nan if r[column] is None else factor * r[column] for r in own]
    color, look = _LOOKS[mode]
    lines = np.array([r["line"] for r in own], np.float64)
    return Series(mode, lines, np.array(values, np.float64), look=look, color=color)
