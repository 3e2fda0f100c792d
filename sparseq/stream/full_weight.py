"""The budget for full weight: what it takes for one question, and for a number of questions."""

from __future__ import annotations

import math

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.accounting.pilots import (
    PILOTS,
)
from sparseq.base.errors import ParameterError

GROWTH = 0.5
"""c of the design: the growth of tau per unit of the clock."""
QUESTION = 1 + 1 / PILOTS.first + 1 / PILOTS.second
"""Cost of a question to a user at full weight, pilots included."""
LEAST_TAU = 2.0
"""Lower bound of tau: a question with its pilots then fits, at any price, into every account."""
SPARE = 1.25
"""A question costs a user at most 1/1.25 of the remainder: room for the rounding of charges and of
their roots (docs/theorems/windows.md)."""
UNKNOWN = 2.0**-10
"""Replaces an unknown remainder: the allowance is then the root of this over tau."""
ROUNDED = 1 + 2.0**-10
"""The most that a charge grows by its rounding, relative to it."""
UNITS = 16 / UNITS_PER_NORM
"""The most that a charge grows by its rounding, beside `ROUNDED`."""


def tau_for(norm_budget: float) -> float:
    """Return the remainder that gives full weight: a quarter of the budget, at least LEAST_TAU."""
    return max(norm_budget / 4, LEAST_TAU)


def left_for_full_weight(tau: float, price: float) -> float:
    """Return L(p), the least remaining squared norm of a user with full weight in a question.

    It is at least 1.25 times the cost of the question with its pilots, p + 5/16. So a user with the
    allowance a = sqrt(min(1, left / L)) is charged a² (p + 5/16) < left.

    Args:
        tau: tau_t, for a question of price 1.
        price: p.

    Example:
        >>> [left_for_full_weight(12.0, p) for p in (0.25, 0.5, 1.0, 4.0)]
        [6.0, 6.0, 12.0, 12.0]
        >>> round(left_for_full_weight(12.0, 16.0), 4)
        20.3906
    """
    return max(tau * max(min(price, 1.0), 0.5), SPARE * (price + QUESTION - 1))


def norm_budget_for(answers: int) -> float:
    """Return the norm_budget for about `answers` mixed questions with good answers.

    It is 48 for 60 and 72 for 240, as measured (docs/intervals.md), and follows a power law for
    other numbers.

    Example:
        >>> norm_budget_for(60), norm_budget_for(240)
        (48.0, 72.0)
    """
    if not 1 <= answers <= 10**6:
        raise ParameterError(f"answers is {answers!r}; it must be from 1 to 1,000,000")
    return float(48.0 * (answers / 60) ** (math.log(1.5) / math.log(4)))


def planned_price(norm_budget: float) -> float:
    """Return the most that all answers planned for a norm_budget may cost a user: public.

    Example:
        >>> planned_price(48.0), planned_price(72.0) / QUESTION
        (78.75, 240.0)
    """
    answers = 60 * (norm_budget / 48.0) ** (math.log(4) / math.log(1.5))
    return float(round(answers, 9) * QUESTION)
