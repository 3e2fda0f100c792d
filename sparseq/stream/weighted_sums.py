"""Pilots, the choice of C from what they released, and sums under weights, of one release.

Every part is a sum over people of vectors made of one person's rows, that person's account and
past releases, plus Gaussian noise; everybody pays for the vector that was summed, and the filter is
asked before every part (docs/theorems/pilots.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, Price, sigma_for_scale
from sparseq.accounting.pilots import CELLS, RULES, Ladder, Parent, Reading, ladder, visible_top
from sparseq.accounting.pilots.choice import (
    C_STEPS,
    ColumnValues,
    Question,
    Risk,
    choose,
    column_of,
)
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.accounting.pilots.posterior import nothing_read
from sparseq.engine.contributions import Contributions, Index, Ints, Weights
from sparseq.ledger.accounts import Accounts
from sparseq.ledger.lifetimes import Lifetimes
from sparseq.mechanisms import Entropy, rounded_gaussian
from sparseq.sql.plan import Kind, Noise, Options, Plan, Query
from sparseq.stream.joint_unit import Joint, joint
from sparseq.stream.question import (
    ColumnPilot,
    ReleasedSums,
    WeightGroup,
    own_pilot,
    parent_in,
    parents_of,
    people_of,
    price_choice,
    question_of,
)
from sparseq.stream.release_charges import PILOT_BITS, Bill, Contributors, contributors, together
from sparseq.stream.stream_progress import Course, parent_seen

Floats = NDArray[np.float64]
_ALL_PARTS = 1.5


class WeightedSums:
    """The sums that a question is answered with, part after part.

    Args:
        budget: The store's.
        accounts: Of all people.
        course: How far the stream has come.
        contributions: Says what everybody contributes to a plan.
        entropy: Of a part of this release, by its name.
        rows: The most that a person has in a table, if that was declared.
        price: That allowances are made for.
        lifetimes: What people have for all windows together; None: there is no such cap.

    Attributes:
        course: How far the stream has come with the parts so far.
        bill: What everybody owes for them: private.
    """

    def __init__(
        self,
        budget: Budget,
        accounts: Accounts,
        course: Course,
        contributions: Callable[[Plan], Contributions],
        entropy: Callable[[str], Entropy],
        rows: int | None,
        price: float,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self.budget, self.rows, self.course = budget, rows, course
        self.bill = Bill(accounts, lifetimes)
        self._contributions, self._entropy = contributions, entropy
        self._worst = 0.0  # price of the pilots
        self._base = price
        self._turn = 0  # which of its parts it is about

    def measured(
        self, query: Query, which: tuple[int, ...], options: Options, beta: float, part: float = 1.0
    ) -> WeightGroup:
        """Release the pilots and the sums of measures with one weight, at a part of the price."""
        parent = self.parents(query)
        asked = joint(query, options, self.budget, self.rows)
        released = self.chosen(asked, parent(asked), options, beta, part)
        between = interval(released.choice, released.answer)
        return released.group(which, between)

    def chosen(
        self,
        asked: Joint,
        parent: Parent,
        options: Options,
        beta: float,
        part: float = 1.0,
        risk: Risk | None = None,
    ) -> ReleasedSums:
        """Release pilots, choose C, and release the sums under weights."""
        self._turn += 1
        made = self._contributions(asked.before(beta))
        users, norms = together([(m.users, m.norms) for m in made.measures])
        people = self._people(users, norms, asked, self._base)
        question = question_of(asked, self.course, options, self.budget, beta, part)
        of = ladder(asked.most, question.least_allowance)
        reading = self._pilots(people, of) if question.pilots else nothing_read(of)
        choice = choose(question, reading, self.within(parent, asked.query, question), risk=risk)
        choice = price_choice(choice, options, asked, self.course.tau / _ALL_PARTS)
        scale, price = choice.steps / C_STEPS, choice.of.price
        plan, answer, faint = self.weigh(asked, made, people, scale, price, beta)
        most = asked.most / scale
        whole, worst = (
            self._worst + price * min(1.0, (most / a) ** 2) for a in (1.0, question.least_allowance)
        )
        self.course, self._worst = self.course.after(worst, self._base, whole), 0.0
        return ReleasedSums(plan, asked, choice, answer, faint)

    def weigh(
        self,
        asked: Joint,
        made: Contributions,
        people: Contributors,
        scale: float,
        price: float,
        beta: float,
        name: str = "sums",
    ) -> tuple[Plan, Floats, Index]:
        """Release sums under weights: the plan, they in joint units, and who counts for little."""
        plan = asked.after(scale, price, self.budget, beta)
        found = people.weigh(scale, asked.prices(plan), asked.query.apart)
        self.bill.put(people.dues)
        sums = made.weighted(
            Weights(found.users, found.mantissa, found.exponent, asked.shifts(plan))
        )
        entropy = self._noise_of(name)
        noised = [
            total + rounded_gaussian(noise.lattice_sigma, len(total), entropy)
            for total, noise in zip(sums, plan.noise, strict=True)
        ]
        return plan, asked.answer(plan, noised), found.faint

    # -- asked once for many ----------------------------------------------------------------------

    def column(self, query: Query, pilot: ColumnPilot) -> ColumnValues:
        """Return what is known of a column's values; release its pilot if there is none.

        Of a join nothing is: what it is about is read beside the stream, before any noise. Where
        people pay for all windows together a pilot is of the question's own.
        """
        if self.course.life is not None:
            pilot = own_pilot(pilot, query)
        if query.relation.caps:
            return column_of(pilot.edges, np.zeros(len(pilot.edges) - 1), 1.0)
        known = self.course.parents.get(pilot.key)
        if known is None or self.course.wants(pilot.key):
            span = self.course.span
            if pilot.key:  # it is of all rows
                self.course = self.course.about(None)
            rows = self.values(pilot)
            if pilot.key:
                self.course = self.course.with_parent(pilot.key, rows).about(span)
        else:
            rows = np.array(known.people)
        return column_of(pilot.edges, rows, self.budget.sigma_0 / math.sqrt(pilot.price))

    def values(self, pilot: ColumnPilot) -> Floats:
        """Release rows by value: everybody's have a norm of 1 at most, for C is 1."""
        self._turn += 1
        asked = joint(pilot.query, Options(), self.budget)
        made = self._contributions(asked.before(0.5))
        (rows,) = made.measures
        people = self._people(rows.users, [rows.norms], asked, 1.0)
        _, counts, _ = self.weigh(asked, made, people, 1.0, pilot.price, 0.5, "values")
        self.course = self.course.after(pilot.price, 1.0)
        return counts

    def parents(self, query: Query) -> Callable[[Joint], Parent]:
        """Ask for parent pilots where there are none; return what they say of a question.

        They are of all windows; where people pay for these together they are of the question's own
        rows, and of it alone.
        """
        kin, sigma_0 = parents_of(query), self.budget.sigma_0
        if self.course.life is not None:
            own = {key: replace(one, relation=query.relation) for key, one in kin.items()}
            asked = {key: self.ask_parent(key, one) for key, one in own.items()}
            return partial(
                parent_in, {k: parent_seen(tuple(n.tolist()), sigma_0) for k, n in asked.items()}
            )
        for key, parent in (kin | people_of(query)).items():
            if self.course.wants(key):
                span, self.course = self.course.span, self.course.about(None)
                counts = self.ask_parent(key, parent)
                self.course = self.course.with_parent(key, counts).about(span)
        return partial(parent_in, {key: self.course.parent(key, sigma_0) for key in kin})

    def ask_parent(self, key: str, query: Query) -> Floats:
        """Release a parent pilot: people by cell."""
        asked = joint(query, Options(), self.budget)
        made = self._contributions(asked.before(0.5))
        (rows,) = made.measures
        people = self._people(rows.users, [rows.norms], asked, 1.0)
        weights = asked.query.measures[0].kind is Kind.USERS
        variance = RULES.weights if weights else RULES.parent
        counts = self._histogram(people, ladder(math.inf, 1.0), variance, 0, key)
        self.course, self._worst = self.course.after(self._worst, 1.0), 0.0
        return counts

    def within(self, parent: Parent, query: Query, question: Question) -> Parent:
        """Return what a parent says of a question now that people have faded."""
        (key,) = people_of(query) or ("",)
        if question.faded_as_all:
            return self.course.fading(key, self.budget.sigma_0)
        faded = self.course.faded(key, question.least_allowance, self.budget.sigma_0)
        return parent.shift(faded)

    # -- pilots ----------------------------------------------------------------------------------

    def _people(self, users: Index, norms: list[Ints], asked: Joint, price: float) -> Contributors:
        """Return who takes part, with allowances from the accounts as they are now."""
        dues = self.bill.of(users)
        own, life = self.course.cautious(price), self.course.for_life(price)
        return contributors(dues, norms, asked.exponents, own, life)

    def _pilots(self, people: Contributors, of: Ladder) -> Reading:
        """Release the two pilots, and return them as one reading."""
        sigma_0, cells = self.budget.sigma_0, np.arange(CELLS)
        first = self._histogram(people, of, RULES.first, 0, "first pilot")
        sd = np.full(CELLS, math.sqrt(RULES.first) * sigma_0)
        start = max(min(visible_top(first, sd, RULES), of.cap), 0)
        second = self._histogram(people, of, RULES.second, start, "second pilot")
        one, two = 1 / RULES.first, 1 / RULES.second
        above = cells > start
        counts = np.where(above, (one * first + two * second) / (one + two), first)
        sd = np.where(above, sigma_0 / math.sqrt(one + two), sd)
        return Reading(of, counts, sd, min(visible_top(counts, sd, RULES), of.cap))

    def _histogram(
        self, people: Contributors, of: Ladder, variance: int, start: int, part: str
    ) -> Floats:
        """Release people per cell of the ladder, from a cell on; 0 below."""
        noise = pilot_noise(variance, self.budget)
        counts = people.tally(of.edges, start, noise.price)
        self.bill.put(people.dues)
        drawn = rounded_gaussian(noise.lattice_sigma, CELLS, self._noise_of(part))
        self._worst += 1 / variance
        released = (counts + drawn) * noise.granularity
        return np.where(np.arange(CELLS) >= start, released, 0.0)

    def _noise_of(self, part: str) -> Entropy:
        return self._entropy(f"{self._turn}/{part}")


@lru_cache(maxsize=64)
def pilot_noise(variance: int, budget: Budget) -> Noise:
    """Return the noise of a pilot whose cells have `variance` · sigma_0²: a person pays 1/variance.

    Example:
        >>> noise = pilot_noise(4, Budget(0.5, 48.0))
        >>> int(noise.price.charge(np.array([2**32]))[0]) / 2**24
        0.25
    """
    scale, step = math.sqrt(variance), math.ldexp(1.0, -PILOT_BITS)
    sigma = sigma_for_scale(scale, budget)
    return Noise(sigma, step, scale, step, Price.of(sigma, step, budget))
