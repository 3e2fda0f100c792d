"""The progress of a stream of weighted answers: public, from the release log alone.

This module reads no account. `least` is a lower bound on the remaining budget of a user who
contributed at full allowance to every question so far; `clock` is the most that these questions can
have cost. If windows of time have accounts, each window that a question's conditions select has its
own two numbers, so users with rows in other windows do not fade.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.accounting.pilots import (
    NO_PARENT,
    RULES,
    Parent,
    few_people,
    ladder,
    parent_of,
)
from sparseq.accounting.pilots.chain import Bounds, first_bounds, later_bounds, upper_of
from sparseq.accounting.pilots.tails import NO_TAILS, Tails, tail_edges
from sparseq.base.errors import ParameterError

COURSE = "course"
"""The name of the fact under which a ledger keeps the course."""
GROWTH = 0.5
"""c of the design: the growth of tau per unit of the clock."""
_ROUNDED = 1 + 2.0**-10
_ROOTS = 4 / math.sqrt(UNITS_PER_NORM)
_LEAST_SHARE = 8192 / UNITS_PER_NORM
_UNITS = 16 / UNITS_PER_NORM
_MOST_WINDOWS = 1024
_UNKNOWN = 2.0**-10
"""Replaces an unknown remainder: the allowance is then the root of this over tau."""
QUESTION = 1 + 1 / RULES.first + 1 / RULES.second
"""Cost of a question to a user at full weight, pilots included."""
LEAST_TAU = 2.0
"""Lower bound of tau: a question with its pilots then fits, at any price, into every account."""
PARENT_PAYS = 8.0
"""Most that questions cost between the arrival of rows and a repeat of a parent pilot."""
WEIGHTS = "people of "
"""Prefix to a table's name: a pilot of its users by 1/a."""
ROWS, SUM = "rows of ", "sum of "
"""Prefixes to the name of a table and of a column: the subjects of parent pilots."""
CHAINED = ROWS, SUM
"""Pilots that are asked again as users fade."""


_SPARE = 1.25
"""A question costs a user at most 1/1.25 of the remainder: room for the rounding of charges and of
their roots (docs/theorems/windows.md)."""


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
    return max(tau * max(min(price, 1.0), 0.5), _SPARE * (price + QUESTION - 1))


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
class LifeCourse:
    """The course of the users' budget for all windows together: public.

    A user with n windows in a question pays at most n² times the cost of one window, and each
    window's allowance is computed for that case (`sparseq.ledger.lifetimes`).

    Attributes:
        tau: A window has full weight until less than this is left for it.
        least: Squared norm that every user has left at least; below 0: unknown.
        clock: The sum of the highest possible costs of all answers so far.

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
        """Return the remainder that gives one window full weight."""
        return left_for_full_weight(self.tau + GROWTH * self.clock, price)

    def allowance(self, price: float, windows: int) -> float:
        """Return the least allowance of a window of a user with `windows` windows in a question."""
        whole = max(windows, 1) ** 2 * self.cautious(price)
        return math.sqrt(min(1.0, max(self.least, _UNKNOWN) / whole))

    def holds(self, windows: int) -> bool:
        """Tell whether every user has something left for each of `windows` windows."""
        return self.least > max(windows, 1) ** 2 * _LEAST_SHARE

    def after(self, worst: float, price: float, windows: int) -> LifeCourse:
        """Return the course after a release that costs no window more than `worst` · a².

        A user with n of the windows pays at most (n a)² worst, and (n a)² <= left / cautious. Roots
        are rounded up, n in each of four parts: docs/theorems/windows.md.
        """
        n = max(windows, 1)
        most = worst * min(n**2, max(self.least, 0.0) / self.cautious(price))
        rounded = _ROOTS * (4 * n * math.sqrt(most) + n**2 * _ROOTS)
        left = self.least - most * _ROUNDED - rounded - n**2 * _UNITS
        return replace(self, least=left, clock=self.clock + most)


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
        clock = max(clock for _, clock in self._windows_of_next())
        return left_for_full_weight(self.tau + GROWTH * clock, price)

    def most_price(self) -> float:
        """Return the highest price at which no user has less weight than at the price 1.

        Example:
            >>> course = Course(tau=12.0, least=48.0)
            >>> round(course.most_price(), 3), round(replace(course, least=4.0).most_price(), 3)
            (38.087, 9.287)
        """
        return max(self._left_for_one) / _SPARE - (QUESTION - 1)

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
        own = self._allowance(self.least_left, price)
        return own if self.life is None else min(own, self.life.allowance(price, self._many))

    @property
    def _many(self) -> int:
        """Number of windows in the next answer's span; 0 without a span."""
        return 0 if self.span is None else self.span[1] - self.span[0] + 1

    @property
    def least_left(self) -> float:
        """Squared norm that every user in the next answer has left at least."""
        return min(least for least, _ in self._windows_of_next())

    def _allowance(self, least: float, price: float) -> float:
        return math.sqrt(min(1.0, max(least, _UNKNOWN) / self.cautious(price)))

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

    def _windows_of_next(self) -> list[tuple[float, float]]:
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
            a = self._allowance(least + (_ROUNDED - 1) * self.owed, price)
            dearest = max(dearest, worst * a**2)
            return least - worst * a**2 * _ROUNDED - _UNITS, clock + worst

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
            return max(least - worst * _ROUNDED - _UNITS, -1.0)

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

    # -- parents ---------------------------------------------------------------------------------

    def wants(self, key: str) -> bool:
        """Tell whether a pilot of all rows must be asked, for the first time or again."""
        if key.startswith(WEIGHTS):
            return self._wants_tails(key)
        asked = self.parents.get(key)
        if asked is None:
            return True
        if asked.epoch != self.epoch:
            return self._latest - asked.clock >= PARENT_PAYS
        chained = self.one_for_all and key.startswith(CHAINED)
        return chained and self.factor(key) >= 2.0**asked.times

    def factor(self, key: str) -> float:
        """Return the factor by which users may have faded since a parent pilot was first asked."""
        return max(self.parents[key].allowance / self.least_allowance(1.0), 1.0)

    def with_parent(
        self, key: str, people: np.typing.NDArray[np.float64], allowance: float = 1.0
    ) -> Course:
        """Return the course with a pilot of all rows that is released now.

        Args:
            key, people: Its name, and its released counts.
            allowance: a_min at its release.
        """
        asked = Known(tuple(people.tolist()), self._latest, self.epoch, allowance)
        return replace(self, parents={**self.parents, key: asked})

    def with_parent_again(
        self, key: str, people: np.typing.NDArray[np.float64], factor: float, sigma_0: float
    ) -> Course:
        """Return the course with a parent pilot that is released again, on `chain_edges`.

        Args:
            key, people: Its name, and its released counts.
            factor: The value of `factor` at its release.
            sigma_0: The store's sigma_0.
        """
        asked = self.parents[key]
        bounds, first = asked.bounds, parent_seen(asked.people, sigma_0).samples
        assert first is not None
        sd, many = math.sqrt(RULES.parent) * sigma_0, people.tolist()
        bounds = later_bounds(bounds or first_bounds(first), factor, many, sd)
        times = math.floor(math.log2(factor) + 1e-9) + 1
        asked = replace(asked, bounds=bounds, times=times)
        return replace(self, parents={**self.parents, key: asked})

    def without(self, keys: Collection[str]) -> Course:
        """Return the course without some pilots, whose releases are not known yet."""
        kept = {key: one for key, one in self.parents.items() if key not in keys}
        tails = {key: one for key, one in self.tails.items() if key not in keys}
        return replace(self, parents=kept, tails=tails)

    def parent(self, key: str, sigma_0: float) -> Parent:
        """Return the parent from a pilot of today's rows, or NO_PARENT."""
        asked = self.parents.get(key)
        if asked is None or asked.epoch != self.epoch:
            return NO_PARENT
        most = upper_of(asked.bounds) if asked.bounds else None
        return replace(parent_seen(asked.people, sigma_0), most=most)

    @property
    def _latest(self) -> float:
        """The highest clock of all windows."""
        return max(clock for _, clock in self.about(None)._windows_of_next())

    # -- users' faded weights --------------------------------------------------------------------

    @property
    def one_for_all(self) -> bool:
        """Every user has one account with something left, so no user's u_i ever grows."""
        return self.life is None and not self.windows and self.span is None and self.least > 0

    def _wants_tails(self, key: str) -> bool:
        if not self.one_for_all:
            return False
        tails = self.tails.get(key, NO_TAILS)
        if tails.due(1 / self.least_allowance(1.0)):
            return True
        paid = self.clock - tails.clock >= PARENT_PAYS
        return bool(tails.bounds) and not self._holds(key, tails) and paid

    def _holds(self, key: str, tails: Tails) -> bool:
        """Tell whether tails cover all users of the table except some who were in no answer yet.

        A user with rows in another table may have faded before this table had rows of the user.
        """
        return tails.epoch == self.epoch or all(WEIGHTS + table == key for table in self.tables)

    def tail_edges(self) -> np.typing.NDArray[np.float64]:
        """Return the edges on which a pilot counts a table's users by 1/a now."""
        return tail_edges(1 / self.least_allowance(1.0), self.newcomer(1.0))

    def with_tails(
        self,
        key: str,
        edges: np.typing.NDArray[np.float64],
        people: np.typing.NDArray[np.float64],
        sd: float,
    ) -> Course:
        """Return the course with a pilot of a table's users by 1/a.

        Args:
            key, people: Its name, and its released counts.
            edges: The value of `tail_edges` at its release.
            sd: The standard deviation of each cell.
        """
        tails = self.tails.get(key, NO_TAILS)
        if not self._holds(key, tails):
            tails = NO_TAILS
        found = tails.measured(edges.tolist(), people.tolist(), sd, self.clock, self.epoch)
        return replace(self, tails={**self.tails, key: found})

    def tails_of(self, key: str) -> Tails:
        """Return the distribution of a table's faded weights; NO_TAILS if unknown."""
        tails = self.tails.get(key, NO_TAILS)
        return tails if self.one_for_all and self._holds(key, tails) else NO_TAILS

    def newcomer(self, price: float) -> float:
        """Return an upper bound of 1/a for a user who was in no question yet."""
        return 1 / self._allowance(self.begun_with or self.least, price)

    @property
    def usual_weight(self) -> float | None:
        """The average weight of users from the latest pilot; None: there was none.

        A user with allowance a adds a to the cells around 1/a. So the cells add up to the total
        weight, and the cells times their edges to the number of users.
        """
        asked = [one for one in self.tails.values() if one.weight is not None]
        return max(asked, key=lambda one: one.clock).weight if asked else None

    # -- in a ledger -----------------------------------------------------------------------------

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


@lru_cache(maxsize=64)
def parent_seen(people: tuple[float, ...], sigma_0: float) -> Parent:
    """Return the parent that a pilot of all rows yields, for many users or for few."""
    parent = _parent(people, sigma_0)
    if parent.samples is not None:
        return parent
    return few_people(np.array(people), sigma_0, ladder(math.inf, 1.0), RULES)


@lru_cache(maxsize=64)
def _parent(people: tuple[float, ...], sigma_0: float) -> Parent:
    return parent_of(np.array(people), sigma_0, ladder(math.inf, 1.0), RULES)
