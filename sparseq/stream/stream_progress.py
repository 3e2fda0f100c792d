"""The progress of a stream of weighted answers: public, from the release log alone.

Nothing here looks at an account. `least` is what the poorest person can have left at least, were
that person wholly in every question so far; `clock` is what such questions have cost at most. Where
windows of time have accounts, each window that a question's conditions let pass has its own two
numbers: who is in other windows does not fade.
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
from sparseq.accounting.pilots import (
    CELLS,
    NO_PARENT,
    RULES,
    Parent,
    few_people,
    ladder,
    parent_of,
    visible_top,
)
from sparseq.base.errors import ParameterError

COURSE = "course"
"""The fact that a ledger keeps it under."""
GROWTH = 0.5
"""c of the design: by how much tau grows with the clock."""
_ROUNDED = 1 + 2.0**-10
_ROOTS = 4 / math.sqrt(UNITS_PER_NORM)
_LEAST_SHARE = 8192 / UNITS_PER_NORM
_UNITS = 16 / UNITS_PER_NORM
_MOST_WINDOWS = 1024
_COME_AGAIN = 3.0  # who has spent more is in a question more often: by a power from 0 to this
_UNKNOWN = 2.0**-10
"""Stands for what is left where nothing is known: fading is sqrt of this over tau."""
QUESTION = 1 + 1 / RULES.first + 1 / RULES.second
"""Cost of a question to a person at full weight, pilots and all."""
LEAST_TAU = 2.0
"""Of tau: so that a question with its pilots, at any price, fits into what everybody has left."""
PARENT_PAYS = 8.0
"""Most that questions cost before a parent pilot is asked anew after rows have arrived, and
before it is asked for the first time how people have faded."""
WEIGHTS = "people of "
"""Before the name of a table: its people by 1/a."""
OFTEN = 1.2
"""That is asked anew each time that the clock has grown by such a factor."""


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


Span = tuple[int, int]
"""The first and the last window of time that a question is about."""


@dataclass(frozen=True)
class LifeCourse:
    """The course of what people have for all windows together: public.

    Whoever has n windows in a question pays n² times what one window costs at most, and has for
    each as if it came to that (`sparseq.ledger.lifetimes`).

    Attributes:
        tau: A window's weight is full until so much is left for it.
        least: Squared norm that everybody has left at least; below 0: nothing is known.
        clock: The worst price of all answers so far.

    Example:
        >>> life = LifeCourse(tau=100.0, least=400.0)
        >>> life.allowance(1.0, 1), life.allowance(1.0, 4), life.holds(4)
        (1.0, 0.5, True)
        >>> for _ in range(200):
        ...     life = life.after(1.5, 1.0, 1)
        >>> round(life.allowance(1.0, 1), 2)
        0.73
    """

    tau: float
    least: float
    clock: float = 0.0

    def cautious(self, price: float) -> float:
        """Return what must be left for one window's full weight."""
        return (self.tau + GROWTH * self.clock) * max(price, 0.5)

    def allowance(self, price: float, windows: int) -> float:
        """Return the least that life lets a window have, of whoever has so many in a question."""
        whole = max(windows, 1) ** 2 * self.cautious(price)
        return math.sqrt(min(1.0, max(self.least, _UNKNOWN) / whole))

    def holds(self, windows: int) -> bool:
        """Tell whether everybody has something left for each of so many windows."""
        return self.least > max(windows, 1) ** 2 * _LEAST_SHARE

    def after(self, worst: float, price: float, windows: int) -> LifeCourse:
        """Return the course after what costs no window more than `worst` · a².

        Whoever has n of the windows pays (n a)² worst at most, and (n a)² <= left / cautious. Roots
        are rounded up, n in each of four parts: docs/theorems/windows.md.
        """
        n = max(windows, 1)
        most = worst * min(n**2, max(self.least, 0.0) / self.cautious(price))
        rounded = _ROOTS * (4 * n * math.sqrt(most) + n**2 * _ROOTS)
        left = self.least - most * _ROUNDED - rounded - n**2 * _UNITS
        return replace(self, least=left, clock=self.clock + most)


@dataclass(frozen=True)
class Course:
    """Public.

    Attributes:
        tau: Of the store: weights are full until so much of the budget is left.
        least: Squared norm that everybody has left at least, in windows that no question was about
            alone; below 0: nothing is known.
        clock: P_t, the worst price of all answers so far about those.
        answers: How many there were.
        epoch: How often rows have arrived.
        parents: Parent pilots, by what they are of.
        windows: `least` and `clock` of other windows of time.
        span: What the next answer is about; None: any window.
        until: What the clock will be in the end; None: there is none. Whoever has enough for all
            that is to come does not fade.
        life: What people have for all windows together; None: there is no such cap.

    Example:
        >>> course = Course(tau=12.0, least=48.0)
        >>> course.cautious(1.0), course.least_allowance(1.0)
        (12.0, 1.0)
        >>> for _ in range(60):
        ...     course = course.after(1.3125, 1.0)
        >>> round(course.least_allowance(1.0), 2)
        0.31
    """

    tau: float
    least: float
    clock: float = 0.0
    answers: int = 0
    epoch: int = 0
    parents: Mapping[str, Known] = field(default_factory=dict)
    windows: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    span: Span | None = None
    until: float | None = None
    life: LifeCourse | None = None

    @classmethod
    def begun(
        cls, tau: float, least: float, share: Fraction, lifetime: int | None = None
    ) -> Course:
        """Return the course of a new store.

        Args:
            tau, least: Of whole budgets.
            share: Of every budget, what is not set aside for something else.
            lifetime: What everybody has for all windows together, in ledger units.

        Example:
            >>> Course.begun(12.0, 0.3, Fraction(1, 10)).least * 2**24
            503316.0
        """
        units = math.floor(Fraction(least) * UNITS_PER_NORM)
        left = math.floor(units * share) / UNITS_PER_NORM
        life = None
        if lifetime is not None:
            whole = lifetime / UNITS_PER_NORM
            life = LifeCourse(tau_for(whole), whole)
        return cls(max(float(tau * share), LEAST_TAU), left, life=life)

    def cautious(self, price: float) -> float:
        """Return tau_t · p: who has less left than that is weighted down."""
        clock = max(clock for _, clock in self._windows_of_next())
        enough = self.tau + GROWTH * clock
        if self.until is not None:
            enough = min(enough, max(self.until - clock, 1.0))  # a tick costs 1 at most
        return enough * max(price, 0.5)

    def for_life(self, price: float) -> float:
        """Return the same of what people have for all windows together, for one of them."""
        return 1.0 if self.life is None else self.life.cautious(price)

    def least_allowance(self, price: float) -> float:
        """Return a_min: nobody's allowance is smaller, as far as the release log says."""
        own = self._allowance(self.least_left, price)
        return own if self.life is None else min(own, self.life.allowance(price, self._many))

    @property
    def _many(self) -> int:
        """Most windows that the next answer is about; of any 0: it is about no people."""
        return 0 if self.span is None else self.span[1] - self.span[0] + 1

    @property
    def least_left(self) -> float:
        """Squared norm that everybody in the next answer has left at least."""
        return min(least for least, _ in self._windows_of_next())

    def _allowance(self, least: float, price: float) -> float:
        return math.sqrt(min(1.0, max(least, _UNKNOWN) / self.cautious(price)))

    @property
    def sure(self) -> bool:
        """Nobody can be out: in-or-out answers have not taken what there is."""
        holds = self.life is None or self.life.holds(self._many)
        return holds and self.about(None).least_left > 0

    def about(self, span: Span | None) -> Course:
        """Return the course of what is about some windows of time, or about any.

        Example:
            >>> course = Course(tau=12.0, least=48.0).about((3, 4)).after(40.0, 1.0)
            >>> [round(course.about(s).least_allowance(1.0), 2) for s in ((3, 3), (5, 9), None)]
            [0.5, 1.0, 0.5]
        """
        if span is not None and span[1] - span[0] >= _MOST_WINDOWS:
            span = None
        return replace(self, span=span)

    def _windows_of_next(self) -> list[tuple[float, float]]:
        """Return `least` and `clock` of all windows that the next answer is about."""
        rest = self.least, self.clock
        if self.span is None:
            return [rest, *self.windows.values()]
        first, last = self.span
        return [self.windows.get(w, rest) for w in range(first, last + 1)] or [rest]

    def after(self, worst: float, price: float, whole: float | None = None) -> Course:
        """Return the course after what costs nobody more than `worst` · a².

        Args:
            worst: For the poorest: under a large scale their a² may be all they pay.
            price: That allowances were made for.
            whole: For whoever has not faded, where that is less.
        """

        def paid(least: float, clock: float) -> tuple[float, float]:
            a = self._allowance(least, price)
            passed = worst if whole is None else whole
            return least - worst * a**2 * _ROUNDED - _UNITS, clock + passed

        if self.span is None:
            windows = {w: paid(*one) for w, one in self.windows.items()}
            least, clock = paid(self.least, self.clock)
            return replace(self, least=least, clock=clock, windows=windows)
        first, last = self.span
        rest = self.least, self.clock
        mine = {w: paid(*self.windows.get(w, rest)) for w in range(first, last + 1)}
        life = None if self.life is None else self.life.after(worst, price, self._many)
        return replace(self, windows={**self.windows, **mine}, life=life)

    def after_in_or_out(self, worst: float) -> Course:
        """Return the course after an answer that costs nobody more than `worst`."""

        def paid(least: float) -> float:
            return max(least - worst * _ROUNDED - _UNITS, -1.0)

        windows = {w: (paid(least), clock) for w, (least, clock) in self.windows.items()}
        life = None if self.life is None else replace(self.life, least=-1.0)  # how many, who knows
        return replace(self, least=paid(self.least), windows=windows, life=life)

    def after_rows(self) -> Course:
        """Return the course after rows have arrived."""
        return replace(self, epoch=self.epoch + 1)

    @property
    def full_answers(self) -> int:
        """Number of questions left to somebody who is wholly in all, at full weight."""
        course = self.about(None)
        spare = min(course.least_left - course.cautious(1.0), 1e9)
        return max(math.floor(spare / ((1 + GROWTH) * QUESTION)), 0)

    # -- parents ---------------------------------------------------------------------------------

    def wants(self, key: str) -> bool:
        """Tell whether a parent pilot is to be asked (again)."""
        asked = self.parents.get(key)
        clock = self._latest
        if key.startswith(WEIGHTS):
            faded = self.about(None).least_allowance(1.0) < 1
            return faded and clock >= (2 * PARENT_PAYS if asked is None else OFTEN * asked.clock)
        if asked is None:
            return True
        return asked.epoch != self.epoch and clock - asked.clock >= PARENT_PAYS

    def with_parent(self, key: str, people: np.typing.NDArray[np.float64]) -> Course:
        """Return the course with a parent pilot that is released now."""
        least = self.least_allowance(1.0)
        asked = Known(tuple(people.tolist()), self._latest, self.epoch, least)
        return replace(self, parents={**self.parents, key: asked})

    def parent(self, key: str, sigma_0: float) -> Parent:
        """Return what a parent pilot says, if there is one of today's rows."""
        asked = self.parents.get(key)
        if asked is None or asked.epoch != self.epoch:
            return NO_PARENT
        return parent_seen(asked.people, sigma_0)

    @property
    def _latest(self) -> float:
        """The clock of the window that has come furthest."""
        return max(clock for _, clock in self.about(None)._windows_of_next())

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

    def fading(self, key: str, sigma_0: float) -> Parent:
        """Return how the people of a question have faded: by 1/a, as it was asked last of all.

        Since then allowances have fallen with the clock, and by nothing else that is known. Who has
        spent more was in more questions, and is in the next one more often: how much more so is
        another guess in each sample.
        """
        asked = self.parents.get(key)
        if asked is None:
            return NO_PARENT
        since = math.sqrt(self.cautious(1.0) / (self.tau + GROWTH * asked.clock))
        whole = _parent(asked.people, math.sqrt(RULES.weights) * sigma_0)
        faded = whole.stretch(max(since, 1.0))
        if faded.samples is None:
            return faded
        edges = np.ldexp(1.0, np.arange(CELLS))
        left = np.minimum(self.cautious(1.0) / edges**2 / (4 * self.tau), 1.0)
        spent = np.maximum(1 - left, 0.02)
        often = _COME_AGAIN * (np.arange(len(faded.samples)) * 7 % 100 + 0.5) / 100
        return Parent(faded.samples[:, :CELLS] * spent ** often[:, None])

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
        asked = self.parents.get(key)
        if asked is not None:
            sd = np.full(CELLS, math.sqrt(RULES.weights) * sigma_0)
            top = visible_top(np.array(asked.people), sd, RULES)
            if top >= 0:
                most = min(most, top + max(math.log2(asked.allowance / least_allowance), 0.0))
        return math.ceil(most - 1e-9)

    # -- in a ledger -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        kept = vars(self) | {"parents": {k: vars(one) for k, one in self.parents.items()}}
        life = None if self.life is None else vars(self.life)
        return kept | {"windows": list(self.windows.items()), "span": None, "life": life}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Course:
        """Return what `to_dict` made."""
        parents = {
            key: Known(**{**one, "people": tuple(one["people"])})
            for key, one in data["parents"].items()
        }
        windows = {int(w): tuple(one) for w, one in data.get("windows", ())}
        life = None if data.get("life") is None else LifeCourse(**data["life"])
        return cls(**{**data, "parents": parents, "windows": windows, "life": life})


@lru_cache(maxsize=64)
def parent_seen(people: tuple[float, ...], sigma_0: float) -> Parent:
    """Return what a parent pilot says of all rows, be they of many people or of few."""
    parent = _parent(people, sigma_0)
    if parent.samples is not None:
        return parent
    return few_people(np.array(people), sigma_0, ladder(math.inf, 1.0), RULES)


@lru_cache(maxsize=64)
def _parent(people: tuple[float, ...], sigma_0: float) -> Parent:
    return parent_of(np.array(people), sigma_0, ladder(math.inf, 1.0), RULES)
