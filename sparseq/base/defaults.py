"""Numbers that hold where nothing is said: each once."""

from __future__ import annotations

CONFIDENCE = 0.95
"""Of all intervals of an answer at once."""
BETA = round(1 - CONFIDENCE, 12)
"""Of the same: how often one may miss."""
KAPPA = 0.5
"""zCDP level of all that a store ever answers."""
ANSWERS = 60
"""Mixed questions that a store is made to answer well."""
COUNTS = 20.0
"""Counts in which a person takes part at full weight, where people are in or out."""
DELTA, DELTA_TEXT = 1e-6, "1e-6"
"""At which one epsilon is quoted."""
PRICE = 1.0
"""Of an answer: what it may cost a person at most, in counts."""


def beta_at(confidence: float | None) -> float:
    """Return how often an interval may miss, at a confidence; None: the usual one.

    Example:
        >>> beta_at(0.75)
        0.25
    """
    return 1 - (CONFIDENCE if confidence is None else confidence)
