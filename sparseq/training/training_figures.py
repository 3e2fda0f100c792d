"""Figures of a training run, for the curator: Figure 1 of Feldman & Zrnic, and more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseq.pictures.bounded_numbers import MISSING
from sparseq.pictures.figure import Axis, Figure, Mark, Series, Sheet
from sparseq.pictures.guarantee_texts import CURATOR
from sparseq.pictures.tables import Table

if TYPE_CHECKING:
    from sparseq.training import TrainingResult
    from sparseq.training.report import Report


BINS = 40
_FIGURE_1 = (
    "Feldman & Zrnic (2021), Figure 1. People who can still pay for a tenth of a full gradient "
    "have budget left."
)
WARNING = (
    "PRIVATE: exact facts about people: their spending, and the budget that each has left. "
    f"{CURATOR}"
)


def training_sheet(report: Report, trained: TrainingResult, title: str, facts: Table) -> Sheet:
    """Return the page of a run.

    Args:
        report: The exact facts. Private.
        trained: The public facts.
        title: Description of the model.
        facts: The public summary.
    """
    figures = [_active_of(report, trained), _spends(report)]
    if report.checks:
        figures.append(_checks(report, trained))
    log = "Every step; all but the first two columns is public, and in the file of --log"
    return Sheet(title, figures, WARNING, facts, (log, log_table(report, trained)))


def log_table(report: Report, trained: TrainingResult) -> Table:
    """Return the log, with the number of people who had budget left."""
    names = [
        "step",
        "people with budget left",
        "sigma",
        "norm",
        "worst_case",
        "accuracy",
        "loss",
        "active",
    ]
    rows = [
        [
            str(s.step),
            str(left),
            repr(s.sigma),
            repr(s.norm),
            repr(s.worst_case),
            *(MISSING if v is None else repr(v) for v in (s.accuracy, s.loss, s.active)),
        ]
        for s, left in zip(trained.log, report.active.tolist(), strict=True)
    ]
    return Table(names, rows, ["r"] * len(names))


def _active_of(report: Report, trained: TrainingResult) -> Figure:
    steps = np.array([s.step for s in trained.log], np.float64)
    people = len(report.spent)
    noised = np.array([np.nan if s.active is None else people * s.active for s in trained.log])
    asked = Series("noised", steps, noised, look="dots", color="orange")
    exact = Series("exact", steps, report.active.astype(np.float64), look="steps")
    return Figure(
        "People with budget left",
        [exact, asked] if np.isfinite(noised).any() else [exact],
        Axis("step", low=0.0, high=max(float(steps.max()), report.steps)),
        Axis(f"people, of {people:,}", low=0.0, high=float(people)),
        [Mark(report.steps, f"until step {report.steps} nobody can run out", "x")],
        [_FIGURE_1],
    )


def _spends(report: Report) -> Figure:
    count, edges = np.histogram(np.clip(100 * report.spent, 0, 100), BINS, (0, 100))
    return Figure(
        "Spread of spends",
        [Series("people", edges[:-1], count.astype(np.float64), look="bars")],
        Axis("share spent, at least, of what the run may spend of one person", unit="%"),
        Axis("people"),
        notes=["People who have spent little had small gradients: the model is right about them."],
    )


def _checks(report: Report, trained: TrainingResult) -> Figure:
    """Return the figure of the checks: accuracy, or the loss."""
    factor, unit = (1, "") if report.checked == "loss" else (100, "%")
    x, y = (np.array([a[i] for a in report.checks], np.float64) for i in (0, 1))
    checks = Series(report.checked, x, factor * y, factor * report.check_error, "dots", "green")
    return Figure(
        f"Training {report.checked}",
        [checks],
        Axis("step", low=0.0, high=float(max(len(trained.log), x.max()))),
        Axis(f"{report.checked}, with noise", unit=unit),
        notes=[f"Parameters of step {trained.taken} were taken."],
    )
