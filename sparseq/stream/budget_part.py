"""A part of every user's budget: a level, accounts, and a course.

Questions have a part; so has each purpose (`sparseq.ledger.purposes`). A part with weighted users
has its own course, so questions for one purpose make no user fade in another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.ledger.accounts import Ints
from sparseq.ledger.pots import Pot
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.purposes import Purpose
from sparseq.stream.full_weight import LEAST_TAU
from sparseq.stream.participation import Terms
from sparseq.stream.stream_progress import COURSE, Course


@dataclass
class BudgetPart:
    """A part of every user's budget.

    Attributes:
        pot: The pot that pays.
        budget: Its level, and the norm budget of a user in it.
        course: The progress of its weighted answers: public; None: users are in or out.
        key: The name of the fact that keeps the course.
        purpose: Its purpose; None: questions.
    """

    pot: Pot
    budget: Budget
    course: Course | None
    key: str = COURSE
    purpose: Purpose | None = None


def budget_parts(ledger: Ledger, terms: Terms) -> dict[Pot, BudgetPart]:
    """Return the parts of a store, by pot; a purpose has one for answers and one for forecasts."""
    parts = {Pot.QUERIES: BudgetPart(Pot.QUERIES, terms.budget, terms.course)}
    for purpose in ledger.pots.purposes:
        parts |= {part.pot: part for part in of_purpose(purpose, terms)}
    for part in parts.values():
        kept = ledger.fact(part.key) if part.course is not None else None
        part.course = part.course if kept is None else Course.from_dict(kept)
    return parts


def of_purpose(purpose: Purpose, terms: Terms) -> Iterator[BudgetPart]:
    """Yield the parts of a purpose in their initial state."""
    budget = purpose.budget(terms.budget.gaussian, terms.budget.keys_delta)
    course = None
    if purpose.weighs:
        tau = max(purpose.counts / 4, LEAST_TAU)
        least, until = purpose.least, float(purpose.ticks)
        course = Course(tau, least, until=until, begun_with=least)
    key = f"{COURSE} of {purpose.name}"
    yield BudgetPart(Pot(purpose.answers), budget, course, key, purpose)
    yield BudgetPart(Pot(purpose.forecasts), budget, None, key, purpose)


def course_after_move(course: Course, share: float) -> Course:
    """Return the course of questions after a public share of all remaining budgets has moved.

    A user keeps (1 - share) of `left`. tau shrinks by the same factor, so that the move alone
    reduces no user's weight and does not change the noise of later questions.

    Example:
        >>> moved = course_after_move(Course(tau=12.0, least=40.0), 0.25)
        >>> moved.tau, moved.least < 30.0
        (9.0, True)
    """
    rest = 1 - Fraction(share)

    def left(least: float) -> float:
        return least if least <= 0 else float(rest * Fraction(least)) - 2 / UNITS_PER_NORM

    windows = {w: (left(least), clock) for w, (least, clock) in course.windows.items()}
    tau = max(float(rest * Fraction(course.tau)), LEAST_TAU)
    begun = left(course.begun_with)
    return replace(course, tau=tau, least=left(course.least), windows=windows, begun_with=begun)


def charges_for(left: Ints, share: float) -> Ints:
    """Return the users' charges for a purpose, a share of `left`, rounded down, in ledger units.

    Example:
        >>> charges_for(np.array([10, 3, 0]), 0.5).tolist()
        [5, 1, 0]
    """
    different, which = np.unique(np.maximum(left, 0), return_inverse=True)
    given = [math.floor(Fraction(share) * one) for one in different.tolist()]
    return np.array(given, np.int64)[which]
