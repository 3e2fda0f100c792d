"""Words about a guarantee, in pictures and by commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparseq.pictures.numbers import upper

if TYPE_CHECKING:
    from sparseq.accounting import Budget

DELTA, DELTA_TEXT = 1e-6, "1e-6"
"""The delta at which one epsilon is quoted."""
NOT_PRIVATE = "NOT PRIVATE: the noise comes from a seed, so anyone can take it off again."
CURATOR = (
    "For the curator of this data only; it is no release, and nothing of it may be shown to an "
    "analyst."
)


def guarantee(budget: Budget, unit: str = "") -> str:
    """Return the guarantee of a store for a chart; `unit`: for whom, if not for a person."""
    return (
        f"{budget.promise} (epsilon {upper(budget.epsilon(DELTA))} at delta "
        f"{DELTA_TEXT}){f' for {unit}' if unit else ''}"
    )
