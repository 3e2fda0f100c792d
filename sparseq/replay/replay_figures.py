"""Figures of a log under several ways of accounting, for the curator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseq.pictures.bounded_numbers import MISSING
from sparseq.pictures.figure import Axis, Color, Figure, Look, Series, Sheet, spread
from sparseq.pictures.guarantee_texts import CURATOR
from sparseq.pictures.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseq.replay.compare import ReplayComparison, Tally


REPLAY_WARNING = (
    f"PRIVATE: computed from exact values and from the people who are left out. {CURATOR}"
)
_LOOKS: dict[str, tuple[Color, Look]] = {
    "worst-case": ("orange", "line"),
    "individual": ("blue", "line"),
    "halt": ("green", "dashes"),
}
_FIGURES = (
    ("answered_so_far", "Lines answered", "lines", "", 1.0),
    ("error", "Error of an answer", "multiples of its noise's sigma", "", 1.0),
    (
        "bias",
        "Bias: the part of the error from people left out",
        "multiples of the noise's sigma",
        "",
        1.0,
    ),
    ("spent", "Budget spent", "of all people's budgets", "%", 100.0),
    ("ever_left_out", "People ever left out", "people", "", 1.0),
)
_ERROR = (
    "Error: the root mean square over an answer's values of the noise and of the part that people "
    "left out would add; 1 is the noise alone. The answer's ± covers the noise, not the bias."
)


def replay_sheet(comparison: ReplayComparison, log: str) -> Sheet:
    """Return the page of a comparison (see `sparseq.replay.compare`)."""
    modes = [f.mode for f in comparison.fared]
    rows = comparison.shown.to_pylist()
    figures = []
    for column, title, label, unit, factor in _FIGURES:
        series = [_series_of(rows, mode, column, factor) for mode in modes]
        y = Axis(label, spread(series), unit)
        notes = [_ERROR] if column == "error" else []
        figures.append(Figure(title, series, Axis("line of the log"), y, notes=notes))
    return Sheet(
        f"{log} under {' and '.join(modes)} accounting",
        figures,
        REPLAY_WARNING,
        summary_table(comparison.fared),
        ("Every line", rows_table(comparison.shown)),
    )


def summary_table(summary: Sequence[Tally]) -> Table:
    """Return the summary as a table of texts."""
    columns = [
        "accounting",
        "lines",
        "answered",
        "mean error, in sigmas",
        "bias alone",
        "people ever left out",
        "spent of all budgets",
        "most of one",
    ]
    body = [
        [
            f.mode,
            f"{f.lines:,}",
            f"{f.answered:,}",
            cell(f.error),
            cell(f.bias),
            f"{f.ever_left_out:,}",
            f"{100 * f.spent:.1f} %",
            f"{100 * f.most_spent:.1f} %",
        ]
        for f in summary
    ]
    return Table(columns, body, ["l", *"rrrrrrr"])


def rows_table(rows: pa.Table) -> Table:
    """Return the rows behind the plots as texts."""
    body = [[cell(v) for v in record.values()] for record in rows.to_pylist()]
    align = ["l" if name in ("id", "mode", "answered") else "r" for name in rows.column_names]
    return Table(rows.column_names, body, align)


def cell(value: Any) -> str:
    """Return a value as text, a number with six digits."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _series_of(rows: Sequence[dict[str, Any]], mode: str, column: str, factor: float) -> Series:
    own = [r for r in rows if r["mode"] == mode]
    values = [np.nan if r[column] is None else factor * r[column] for r in own]
    color, look = _LOOKS[mode]
    lines = np.array([r["line"] for r in own], np.float64)
    return Series(mode, lines, np.array(values, np.float64), look=look, color=color)
