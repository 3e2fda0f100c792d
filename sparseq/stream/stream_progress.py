"""The progress of a stream of weighted answers: public, from the release log alone.

This module reads no account. `least` is a lower bound on the remaining budget of a user who
contributed at full allowance to every question so far; `clock` is the most that these questions can
have cost. If windows of time have accounts, each window that a question's conditions select has its
own two numbers, so users with rows in other windows do not fade.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.accounting.pilots.chain import Bounds
from sparseq.accounting.pilots.tails import Tails
from sparseq.stream.full_weight import (
    GROWTH,
    LEAST_TAU,
    QUESTION,
    ROUNDED,
    SPARE,
    UNITS,
    UNKNOWN,
    left_for_full_weight,
    tau_for,
)
from sparseq.stream.life_course import LifeCourse

COURSE = "course"
"""The name of the fact under which a ledger keeps the course."""
WEIGHTS = "people of "
"""Prefix to a table's name: a pilot of its users by 1/a."""
ROWS, SUM = "rows of ", "sum of "
"""Prefixes to the name of a table and of a column: the subjects of parent pilots."""
PARENT_PAYS = 8.0
"""Most that questions cost between the arrival of rows and a repeat of a parent pilot."""
_MOST_WINDOWS = 1024


@dataclass(frozen=True)
class Known:
    """A released parent pilot: users per cell, its time, and the version of its rows.

    Attributes:
        people: Noised users by cell.
        clock, epoch: Those of the course at its release.
        allowance: a_min at its release.
        bounds: Bounds on the cut of these rows from later repeats; empty: it was not repeated.
        times: Number of its releases about these rows.
    """

    people: tuple[float, ...]
    clock: float
    epoch: int
    allowance: float = 1.0
    bounds: Bounds = ()
    times: int = 1


Span = tuple[int, int]
"""The first and the last window of time of a question."""


@dataclass(frozen=True)
class Course:
    """The progress of a stream of weighted answers: public.

    Attributes:
        tau: The store's tau: weights are full until less than this of the budget is left.
        least: Squared norm that every user has left at least, in the windows outside `windows`;
            below 0: unknown.
        clock: P_t, the sum of the worst prices per a² of all answers so far about those windows.
        answers: Number of answers so far.
        epoch: Number of times that rows have arrived.
        parents: Parent pilots, by name.
        windows: `least` and `clock` of each window that had a question about a limited span.
        span: The windows of the next answer; None: any window.
        until: Total number of answers that the course is for; None: it has no end. A user with
            enough left for all remaining answers does not fade.
        regular, once: For a course with an end: the cost per a² of the current answer and of each
            later one, and the extra cost that occurs once.
        life: The course of the budget for all windows together; None: there is no such cap.
        tails: The distribution of faded weights, by table.
        tables: Tables of the answers so far; "": other rows.
        owed: The most that the parts of the next answer so far cost a user, before rounding.
        begun_with: Squared norm that a user who was in no answer has at least; 0: unknown.

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
    regular: float = QUESTION
    once: float = 0.0
    life: LifeCourse | None = None
    tails: Mapping[str, Tails] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    begun_with: float = 0.0
    owed: float = 0.0

    @classmethod
    def begun(
        cls, tau: float, least: float, share: Fraction, lifetime: int | None = None
    ) -> Course:
        """Return the course of a new store.

        Args:
            tau, least: Values for whole budgets.
            share: The part of every budget that is not set aside for something else.
            lifetime: Every user's budget for all windows together, in ledger units.

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
        return cls(max(float(tau * share), LEAST_TAU), left, life=life, begun_with=left)

    def cautious(self, price: float) -> float:
        """Return L(p): a user with less left is weighted down (`left_for_full_weight`).

        If the course has an end, it is the cost of all remaining answers.
        """
        if self.until is not None:
            return max(self.until - self.answers, 1.0) * self.regular + self.once
        clock = max(clock for _, clock in self.windows_of_next())
        return left_for_full_weight(self.tau + GROWTH * clock, price)

    def most_price(self) -> float:
        """Return the highest price at which no user has less weight than at the price 1.

        Example:
            >>> course = Course(tau=12.0, least=48.0)
            >>> round(course.most_price(), 3), round(replace(course, least=4.0).most_price(), 3)
            (38.087, 9.287)
        """
        return max(self._left_for_one) / SPARE - (QUESTION - 1)

    def most_of_a_wish(self) -> float:
        """Return the highest price that a wish may have; a higher price must be given explicitly.

        The question costs at most a third of the least that a user has left, or two thirds of the
        remainder that gives full weight.

        Example:
            >>> course = Course(tau=12.0, least=48.0)
            >>> course.most_of_a_wish(), replace(course, least=4.0).most_of_a_wish()
            (15.6875, 7.6875)
        """
        left, full = self._left_for_one
        return max(left / 3, full / 1.5) - (QUESTION - 1)

    @property
    def _left_for_one(self) -> tuple[float, float]:
        """Squared norm that every user has left for a window at least, and that of full weight."""
        left, full = self.least_left, self.cautious(1.0)
        if self.life is None:
            return left, full
        each = self.life.least / max(self._many, 1) ** 2
        return min(left, each), min(full, self.life.cautious(1.0))

    def for_life(self, price: float) -> float:
        """Return the same for one window, from the budget for all windows together."""
        return 1.0 if self.life is None else self.life.cautious(price)

    def least_allowance(self, price: float) -> float:
        """Return a_min, the lower bound of all allowances that follows from the release log."""
        own = self.allowance_for(self.least_left, price)
        return own if self.life is None else min(own, self.life.allowance(price, self._many))

    @property
    def _many(self) -> int:
        """Number of windows in the next answer's span; 0 without a span."""
        return 0 if self.span is None else self.span[1] - self.span[0] + 1

    @property
    def least_left(self) -> float:
        """Squared norm that every user in the next answer has left at least."""
        return min(least for least, _ in self.windows_of_next())

    def allowance_for(self, least: float, price: float) -> float:
        """Return the allowance of a user with `least` left."""
        return math.sqrt(min(1.0, max(least, UNKNOWN) / self.cautious(price)))

    @property
    def sure(self) -> bool:
        """No user can be out: every account has something left after in-or-out answers."""
        holds = self.life is None or self.life.holds(self._many)
        return holds and self.about(None).least_left > 0

    def about(self, span: Span | None) -> Course:
        """Return the course for answers about a span of windows, or about any window.

        Example:
            >>> course = Course(tau=12.0, least=48.0).about((3, 4)).after(40.0, 1.0)
            >>> [round(course.about(s).least_allowance(1.0), 2) for s in ((3, 3), (5, 9), None)]
            [0.5, 1.0, 0.5]
        """
        if span is not None and span[1] - span[0] >= _MOST_WINDOWS:
            span = None
        return replace(self, span=span)

    def windows_of_next(self) -> list[tuple[float, float]]:
        """Return `least` and `clock` of all windows of the next answer."""
        rest = self.least, self.clock
        if self.span is None:
            return [rest, *self.windows.values()]
        first, last = self.span
        return [self.windows.get(w, rest) for w in range(first, last + 1)] or [rest]

    def after(self, worst: float, price: float) -> Course:
        """Return the course after a release that costs no user more than `worst` · a².

        The clock grows by `worst` too, independent of the actual charges: the theorem holds for
        every public clock, because allowances may be any function of the user's own account and of
        public numbers. A clock that grew by the actual charges would stand still where C = 1/a_min:
        each question would charge every user a_min², a constant fraction of the remainder, so that
        a_min would fall like exp(-t).

        Charges of a release are added exactly and rounded up once, for all of its parts. So the
        allowance for a part is bounded by the remainder without the rounding of the parts before it
        (`owed`).

        Args:
            worst: The highest cost per a²; under a large scale a user with little left pays less.
            price: The price for which allowances were computed.
        """
        dearest = 0.0

        def paid(least: float, clock: float) -> tuple[float, float]:
            nonlocal dearest
            a = self.allowance_for(least + (ROUNDED - 1) * self.owed, price)
            dearest = max(dearest, worst * a**2)
            return least - worst * a**2 * ROUNDED - UNITS, clock + worst

        if self.span is None:
            windows = {w: paid(*one) for w, one in self.windows.items()}
            least, clock = paid(self.least, self.clock)
            after = replace(self, least=least, clock=clock, windows=windows)
        else:
            first, last = self.span
            rest = self.least, self.clock
            mine = {w: paid(*self.windows.get(w, rest)) for w in range(first, last + 1)}
            life = None if self.life is None else self.life.after(worst, price, self._many)
            after = replace(self, windows={**self.windows, **mine}, life=life)
        return replace(after, owed=self.owed + dearest)

    def after_in_or_out(self, worst: float) -> Course:
        """Return the course after an in-or-out answer that costs no user more than `worst`."""

        def paid(least: float) -> float:
            return max(least - worst * ROUNDED - UNITS, -1.0)

        windows = {w: (paid(least), clock) for w, (least, clock) in self.windows.items()}
        life = None if self.life is None else replace(self.life, least=-1.0)  # windows unknown
        tables = tuple(sorted({*self.tables, ""}))  # its table is unknown
        return replace(self, least=paid(self.least), windows=windows, life=life, tables=tables)

    def after_rows(self) -> Course:
        """Return the course after rows have arrived."""
        return replace(self, epoch=self.epoch + 1)

    def after_answer(self, tables: Iterable[str]) -> Course:
        """Return the course after an answer about some tables, whose parts it already includes."""
        asked = tuple(sorted({*self.tables, *tables}))
        return replace(self.about(None), answers=self.answers + 1, tables=asked, owed=0.0)

    @property
    def full_answers(self) -> int:
        """Number of further questions at full weight for a user who is in all of them."""
        course = self.about(None)
        spare = min(course.least_left - course.cautious(1.0), 1e9)
        return max(math.floor(spare / ((1 + GROWTH) * QUESTION)), 0)

    @property
    def one_for_all(self) -> bool:
        """Every user has one account with something left, so no user's u_i ever grows."""
        return self.life is None and not self.windows and self.span is None and self.least > 0

    @property
    def latest_clock(self) -> float:
        """The highest clock of all windows."""
        return max(clock for _, clock in self.about(None).windows_of_next())

    def to_dict(self) -> dict[str, Any]:
        """Return the course as plain data."""
        parents = {k: vars(one) for k, one in self.parents.items()}
        tails = {k: one.to_dict() for k, one in self.tails.items()}
        life = None if self.life is None else vars(self.life)
        kept = vars(self) | {"parents": parents, "tails": tails, "tables": list(self.tables)}
        return kept | {"windows": list(self.windows.items()), "span": None, "life": life}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Course:
        """Return the course from the result of `to_dict`, also of an older version."""
        parents = {
            key: Known(**{**one, **_tuples(one)})
            for key, one in data["parents"].items()
            if not key.startswith(WEIGHTS)
        }
        windows = {int(w): tuple(one) for w, one in data.get("windows", ())}
        life = None if data.get("life") is None else LifeCourse(**data["life"])
        tails = {key: Tails.from_dict(one) for key, one in data.get("tails", {}).items()}
        tables = tuple(data.get("tables", ("",) if data["answers"] else ()))
        read = {"parents": parents, "windows": windows, "life": life, "tails": tails}
        return cls(**{**data, **read, "tables": tables})


def _tuples(known: Mapping[str, Any]) -> dict[str, Any]:
    bounds = tuple((most, sd) for most, sd in known.get("bounds", ()))
    return {"people": tuple(known["people"]), "bounds": bounds}
