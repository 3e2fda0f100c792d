"""Default values; each is defined only here."""

from __future__ import annotations

CONFIDENCE = 0.95
"""The joint confidence of all intervals of an answer."""
BETA = round(1 - CONFIDENCE, 12)
"""The same as the probability that an interval misses."""
KAPPA = 0.5
"""The zCDP level of all answers of a store together."""
ANSWERS = 60
"""The number of mixed questions that a store is made to answer well."""
COUNTS = 20.0
"""The number of counts in which a user takes part at full weight, if users are in or out."""
DELTA, DELTA_TEXT = 1e-6, "1e-6"
"""The delta at which an epsilon is quoted."""
PRICE = 1.0
"""The price of an answer: the maximum charge to a user, in counts."""


def beta_at(confidence: float | None) -> float:
    """Return the probability that an interval misses, for a confidence; None: the default.

    Example:
        >>> beta_at(0.75)
        0.25
    """
    return 1 - (CONFIDENCE if confidence is None else confidence)
