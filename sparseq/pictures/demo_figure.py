"""The figure of the demo: answers about public data, with the true values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from sparseq.accounting import Budget, simultaneous_bound
from sparseq.base.defaults import BETA, CONFIDENCE
from sparseq.pictures.bounded_numbers import percent
from sparseq.pictures.figure import Axis, Figure, Floats, Series
from sparseq.pictures.guarantee_texts import NOT_PRIVATE, guarantee

if TYPE_CHECKING:
    from sparseq.accounting import Budget


def demo_figure(
    days: Sequence[date],
    values: Floats,
    bounds: Floats,
    truth: Floats,
    budget: Budget,
    sigma: float,
    seeded: bool,
) -> Figure:
    """Return the chart.

    Args:
        days, values, bounds: The series.
        truth: Exact values.
        budget: Budget of the store.
        sigma: Noise of worst-case composition on the same share of the budget, for all the days.
        seeded: The noise is repeatable.
    """
    worst = float(simultaneous_bound(sigma, 1, BETA, lattice_step=1.0))
    ours = Series("sparseq, an account per customer", days, values, bounds)
    sure = percent(CONFIDENCE)
    notes = [
        f"Each ± is about all customers, with {sure} confidence. Both bands: {guarantee(budget)} "
        "for all answers of the store together, these and those to questions.",
        f"Worst-case composition: where {sure} of its answers would lie, from the same share of "
        "every budget.",
        "The exact values are known because these data are public; an analyst never sees any.",
        *([NOT_PRIVATE] if seeded else []),
    ]
    return Figure(
        "Customers who bought at CDNOW",
        [
            ours,
            replace(
                ours,
                name="worst-case composition",
                values=truth,
                bound=worst,
                look="band",
                color="orange",
            ),
            Series("exact value", days, truth, look="dots", color="ink", exact=True),
        ],
        y=Axis("a day, noised"),
        notes=notes,
    )
