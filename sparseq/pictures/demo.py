"""The figure of the demo: answers about public data, so with the truth beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from sparseq.accounting import Budget, simultaneous_bound
from sparseq.pictures.figure import Axis, Figure, Floats, Series
from sparseq.pictures.words import NOT_PRIVATE, guarantee


def demo_figure(
    days: Sequence[date], values: Floats, bounds: Floats, truth: Floats, budget: Budget,
    seeded: bool,
) -> Figure:  # fmt: skip
    """Return the chart.

    The band of worst-case composition is drawn around our own answers: to draw its answers would
    take a second look at the data, outside the ledger.
    """
    sigma = budget.worst_case_sigma(len(days))
    worst = float(simultaneous_bound(sigma, 1, 0.05, lattice_step=1.0))
    ours = Series("sparseq, an account per customer", days, values, bounds)
    notes = [
        f"Each ± holds for one day with 95 % confidence. Both bands: {guarantee(budget)} for all "
        "answers together.",
        "Customers whose budget is used up are left out; no ± covers that.",
        "Each query is made from the answers before it.",
        "The exact values are known because these data are public; an analyst never sees any.",
        *([NOT_PRIVATE] if seeded else []),
    ]
    return Figure(
        "Customers who bought at CDNOW",
        [
            ours,
            replace(ours, name="worst-case composition", bound=worst, look="band", color="orange"),
            Series("exact value", days, truth, look="dots", color="ink", exact=True),
        ],
        y=Axis("a day, noised"),
        notes=notes,
    )
