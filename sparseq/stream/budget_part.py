"""A part of everybody's budget, as what is paid from it sees it: a level, accounts, and a course.

Questions have one; so does each purpose (`sparseq.ledger.purposes`). A part whose people are
weighted has a course of its own: what is asked for one purpose makes nobody fade in another.
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
from sparseq.ledger.protocol import Ledger
from sparseq.ledger.purposes import Pot, Purpose
from sparseq.stream.draft import Terms
from sparseq.stream.stream_progress import COURSE, LEAST_TAU, Course


@dataclass
class BudgetPart:
    """A part.

    Attributes:
        pot: What is paid from.
        budget: Its level, and how far a person reaches in it.
        course: How far its stream of weighted answers has come: public; None: people are in or out.
        key: The fact that the course is kept under.
        purpose: What it is for; None: questions.
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
    """Yield the parts of a purpose, as they are when it comes."""
    budget = purpose.budget(terms.budget.gaussian, terms.budget.keys_delta)
    course = None
    if purpose.weighs:
        tau = max(purpose.counts / 4, LEAST_TAU)
        course = Course(tau, purpose.least, until=float(purpose.ticks))
    key = f"{COURSE} of {purpose.name}"
    yield BudgetPart(Pot(purpose.answers), budget, course, key, purpose)
    yield BudgetPart(Pot(purpose.forecasts), budget, None, key, purpose)


def course_after_move(course: Course, share: float) -> Course:
    """Return the course of questions after a public share of what everybody has left has moved.

    Whoever had `left` has (1 - share) of it; tau shrinks alike, so that nobody's weight falls
    because of the move alone, and noise of what is asked afterwards stays.

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
    return replace(course, tau=tau, least=left(course.least), windows=windows)


def charges_for(left: Ints, share: float) -> Ints:
    """Return what people with so much left give to a purpose, rounded down, in units of the store.

    Example:
        >>> charges_for(np.array([10, 3, 0]), 0.5).tolist()
        [5, 1, 0]
    """
    different, which = np.unique(np.maximum(left, 0), return_inverse=True)
    given = [math.floor(Fraction(share) * one) for one in different.tolist()]
    return np.array(given, np.int64)[which]
