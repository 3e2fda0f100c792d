"""How far a stream of weighted answers has come: public, from the release log alone.

Nothing here looks at an account. `least` is what the poorest person can have left at least, were
that person wholly in every question so far; `clock` is what such questions have cost at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.accounting.cut import (
    CELLS,
    NO_PARENT,
    RULES,
    Parent,
    ladder,
    parent_of,
    visible_top,
)
from sparseq.errors import ParameterError

COURSE = "course"
"""The fact that a ledger keeps it under."""
GROWTH = 0.5
"""c of the design: by how much tau grows with the clock."""
_ROUNDED = 1 + 2.0**-10
_UNITS = 16 / UNITS_PER_NORM
_UNKNOWN = 2.0**-10
"""Where nothing is known of what is left, fading is taken to be sqrt of this over tau."""
QUESTION = 1 + 1 / RULES.first + 1 / RULES.second
"""What a question costs a person at full weight, pilots and all."""
LEAST_TAU = 2.0
"""Of tau: so that a question with its pilots, at any price, fits into what everybody has left."""
PARENT_PAYS = 8.0
"""What questions may have cost before a parent pilot is asked anew after rows have arrived, and
before it is asked for the first time how people have faded."""
WEIGHTS = "people of "
"""Before the name of a table: its people by 1/a. Asked each time that the clock has doubled."""


def tau_for(norm_budget: float) -> float:
    """Return what must be left for full weight: a quarter of the budget, and all parts' price."""
    return max(norm_budget / 4, LEAST_TAU)


def norm_budget_for(answers: int) -> float:
    """Return the norm_budget for about so many mixed questions that are answered well.

    48 for 60 and 72 for 240, as measured (docs/intervals.md), by a power law between and beyond.

    Example:
        >>> norm_budget_for(60), norm_budget_for(240)
        (48.0, 72.0)
    """
    if not 1 <= answers <= 10**6:
        raise ParameterError(f"answers is {answers!r}; it must be from 1 to 1,000,000")
    return float(48.0 * (answers / 60) ** (math.log(1.5) / math.log(4)))


def planned_price(norm_budget: float) -> float:
    """Return what all answers that a norm_budget is planned for may cost a person: public.

    Example:
        >>> planned_price(48.0), planned_price(72.0) / QUESTION
        (78.75, 240.0)
    """
    answers = 60 * (norm_budget / 48.0) ** (math.log(4) / math.log(1.5))
    return float(round(answers, 9) * QUESTION)


@dataclass(frozen=True)
class Known:
    """A parent pilot that was released: people per cell, when, and of which rows.

    Attributes:
        people: By cell.
        clock, epoch: Of the course then.
        allowance: a_min then.
    """

    people: tuple[float, ...]
    clock: float
    epoch: int
    allowance: float = 1.0


@dataclass(frozen=True)
class Course:
    """Public.

    Attributes:
        tau: Of the store: weights are full until so much of the budget is left.
        least: Squared norm that everybody has left at least; below 0: nothing is known.
        clock: P_t, the worst price of all answers so far.
        answers: How many there were.
        epoch: How often rows have arrived.
        parents: Parent pilots, by what they are of.

    Example:
        >>> course = Course(tau=12.0, least=48.0)
        >>> course.cautious(1.0), course.least_allowance(1.0)
        (12.0, 1.0)
        >>> for _ in range(60):
        ...     course = course.after_answer(1.3125, 1.0)
        >>> round(course.least_allowance(1.0), 2)
        0.31
    """

    tau: float
    least: float
    clock: float = 0.0
    answers: int = 0
    epoch: int = 0
    parents: Mapping[str, Known] = field(default_factory=dict)

    @classmethod
    def begun(cls, tau: float, least: float, share: Fraction) -> Course:
        """Return the course of a new store.

        Args:
            tau, least: Of whole budgets.
            share: Of every budget, what is not set aside for something else.

        Example:
            >>> Course.begun(12.0, 0.3, Fraction(1, 10)).least * 2**24
            503316.0
        """
        units = math.floor(Fraction(least) * UNITS_PER_NORM)
        left = math.floor(units * share) / UNITS_PER_NORM
        return cls(max(float(tau * share), LEAST_TAU), left)

    def cautious(self, price: float) -> float:
        """Return tau_t · p: who has less left than that is weighted down."""
        return (self.tau + GROWTH * self.clock) * max(price, 0.5)

    def least_allowance(self, price: float) -> float:
        """Return a_min: nobody's allowance is smaller, as far as the release log says."""
        left = max(self.least, _UNKNOWN)
        return math.sqrt(min(1.0, left / self.cautious(price)))

    @property
    def sure(self) -> bool:
        """Nobody can be out: in-or-out answers have not taken what there is."""
        return self.least > 0

    def after(self, worst: float, price: float) -> Course:
        """Return the course after what costs nobody more than `worst` · a²."""
        least = self.least - worst * self.least_allowance(price) ** 2 * _ROUNDED - _UNITS
        return replace(self, least=least, clock=self.clock + worst)

    def after_answer(self, worst: float, price: float) -> Course:
        """Return the course after an answer, pilots and all."""
        course = self.after(worst, price)
        return replace(course, answers=self.answers + 1)

    def after_in_or_out(self, worst: float) -> Course:
        """Return the course after an answer that costs nobody more than `worst`."""
        return replace(self, least=max(self.least - worst * _ROUNDED - _UNITS, -1.0))

    def after_rows(self) -> Course:
        """Return the course after rows have arrived."""
        return replace(self, epoch=self.epoch + 1)

    @property
    def full_answers(self) -> int:
        """How many more questions somebody who is wholly in all of them takes part in fully."""
        spare = min(self.least - self.cautious(1.0), 1e9)
        return max(math.floor(spare / ((1 + GROWTH) * QUESTION)), 0)

    # -- parents ---------------------------------------------------------------------------------

    def wants(self, key: str) -> bool:
        """Tell whether a parent pilot is to be asked (again)."""
        known = self.parents.get(key)
        if key.startswith(WEIGHTS):
            return self.clock >= (PARENT_PAYS if known is None else 2 * known.clock)
        if known is None:
            return True
        return known.epoch != self.epoch and self.clock - known.clock >= PARENT_PAYS

    def with_parent(self, key: str, people: np.typing.NDArray[np.float64]) -> Course:
        """Return the course with a parent pilot that is released now."""
        least = self.least_allowance(1.0)
        known = Known(tuple(people.tolist()), self.clock, self.epoch, least)
        return replace(self, parents={**self.parents, key: known})

    def parent(self, key: str, sigma_0: float) -> Parent:
        """Return what a parent pilot says, if there is one of today's rows."""
        known = self.parents.get(key)
        if known is None or known.epoch != self.epoch:
            return NO_PARENT
        return _parent(known.people, sigma_0)

    def usual_weight(self, sigma_0: float) -> float | None:
        """Return for how much people count on average, as it was asked last; None: it was not.

        Whoever has allowance a adds a to the cells about 1/a, so that the cells add up to what
        people count for, and times their edges to the people.

        Example:
            >>> people = np.zeros(CELLS); people[:2] = 5000, 300
            >>> course = Course(tau=12.0, least=3.0, clock=64.0)
            >>> round(course.with_parent("people of t", people).usual_weight(7.0), 2)
            0.95
        """
        asked = [one for key, one in self.parents.items() if key.startswith(WEIGHTS)]
        if not asked:
            return None
        people = np.array(max(asked, key=lambda one: one.clock).people)
        sd = np.full(CELLS, math.sqrt(RULES.weights) * sigma_0)
        seen = people[: visible_top(people, sd, RULES) + 1]
        number = float(seen @ np.ldexp(1.0, np.arange(len(seen))))
        return min(max(float(seen.sum()) / number, 0.0), 1.0) if number > 0 else None

    def faded(self, key: str, least_allowance: float, sigma_0: float) -> int:
        """Return by how many cells fading may have moved people up, but for a few.

        It is the last cell of 1/a that stood out when it was asked, and what whoever was wholly in
        every question since has faded more; at most what whoever was in every question has.

        Args:
            key: Of the people by 1/a.
            least_allowance: a_min of a question.
            sigma_0: Of the store.

        Example:
            >>> people = np.zeros(CELLS); people[:2] = 5000, 300
            >>> course = Course(tau=12.0, least=3.0, clock=64.0)
            >>> course.faded("", course.least_allowance(1.0), 7.0)
            2
            >>> asked = course.with_parent("people of t", people)
            >>> asked.faded("people of t", course.least_allowance(1.0), 7.0)
            1
        """
        most = max(math.log2(1 / least_allowance), 0.0)
        known = self.parents.get(key)
        if known is not None:
            sd = np.full(CELLS, math.sqrt(RULES.weights) * sigma_0)
            top = visible_top(np.array(known.people), sd, RULES)
            if top >= 0:
                most = min(most, top + max(math.log2(known.allowance / least_allowance), 0.0))
        return math.ceil(most - 1e-9)

    # -- in a ledger -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return vars(self) | {"parents": {k: vars(one) for k, one in self.parents.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Course:
        """Return what `to_dict` made."""
        parents = {
            key: Known(**{**one, "people": tuple(one["people"])})
            for key, one in data["parents"].items()
        }
        return cls(**{**data, "parents": parents})


@lru_cache(maxsize=64)
def _parent(people: tuple[float, ...], sigma_0: float) -> Parent:
    return parent_of(np.array(people), sigma_0, ladder(math.inf, 1.0), RULES)
