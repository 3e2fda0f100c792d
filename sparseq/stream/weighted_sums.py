"""The parts of one release: pilots, the choice of C from their results, and weighted sums.

Every part is a sum over users of vectors that depend on one user's rows, the same user's account
and past releases, plus Gaussian noise. Each user pays for the vector that was summed, and the
filter is applied before every part (docs/theorems/pilots.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.accounting.pilots import (
    CELLS,
    NO_PARENT,
    RULES,
    Ladder,
    Parent,
    Reading,
    ladder,
    visible_top,
)
from sparseq.accounting.pilots.chain import chain_edges
from sparseq.accounting.pilots.choice import C_STEPS, Risk, choose
from sparseq.accounting.pilots.column_values import ColumnValues, column_of
from sparseq.accounting.pilots.noised_pilot import nothing_read
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.base.defaults import PRICE
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduction import Index, Ints
from sparseq.engine.weighted_reduction import Weights
from sparseq.ledger.accounts import Accounts
from sparseq.ledger.lifetimes import Lifetimes
from sparseq.mechanisms import Entropy, rounded_gaussian
from sparseq.question.plan import Options, Plan, Query
from sparseq.stream.contributors import Contributors, contributors, together
from sparseq.stream.full_payer import FullPayer
from sparseq.stream.joint_unit import Joint, joint
from sparseq.stream.part_price import PartPrice
from sparseq.stream.pilot_noise import pilot_noise
from sparseq.stream.question import question_of
from sparseq.stream.release_charges import Bill
from sparseq.stream.shared_pilots import (
    ColumnPilot,
    asks_values,
    counted_before,
    own_pilot,
    parent_in,
    parents_of,
    people_of,
)
from sparseq.stream.stream_progress import Course, parent_seen
from sparseq.stream.weighted_parts import ReleasedSums, WeightGroup

Floats = NDArray[np.float64]


class WeightedSums:
    """The sums of a question's answer, released part after part.

    Args:
        budget: The store's budget.
        accounts: The accounts of all users.
        course: The progress of the stream.
        contributions: Returns all users' contributions to a plan.
        entropy: Returns the entropy of a part of this release, by the part's name.
        rows: The declared maximum of rows per user in a table, if any.
        payer: A user without earlier charges; the parts add their charges to it.
        lifetimes: The accounts for all windows together; None: there is no such cap.

    Attributes:
        course: The progress of the stream, including the parts so far.
        bill: Every user's debt for the parts: private.
        payer: The most that one account is charged for the parts: public.
        paying: The price of the current part.
        highest: The highest price of a part so far.
    """

    def __init__(
        self,
        budget: Budget,
        accounts: Accounts,
        course: Course,
        contributions: Callable[[Plan], Contributions],
        entropy: Callable[[str], Entropy],
        rows: int | None,
        payer: FullPayer,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self.budget, self.rows, self.course = budget, rows, course
        self.bill, self.payer = Bill(accounts, lifetimes), payer
        self.paying = PartPrice.of(PRICE)
        self.highest = 0.0
        self._contributions, self._entropy = contributions, entropy
        self._worst = 0.0  # price of the pilots
        self._turn = 0  # number of the current part

    def measured(
        self, query: Query, which: tuple[int, ...], options: Options, beta: float, part: float = 1.0
    ) -> WeightGroup:
        """Release pilots and sums of measures with one weight, at a fraction of the price."""
        parent = self.parents(query)
        self.paying = self.paying.settled(self.course)
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
        pays = self.paying
        self.highest = max(self.highest, pays.price)
        people = self._people(users, norms, asked, pays.base)
        question = question_of(asked, self.course, options, self.budget, beta, pays, part)
        of = ladder(asked.most, question.least_allowance)
        allowance = self.payer.allowance(self.course, pays.base)
        reading = nothing_read(of)
        if question.pilots:
            reading = self._pilots(people, of, allowance, question.pilot_prices)
            reading, parent = self._with_parent(reading, parent, asked)
        choice = choose(question, reading, parent.fade(1 / question.least_allowance), risk=risk)
        scale, price = choice.steps / C_STEPS, choice.of.price
        self.payer.charge_answer(allowance, price, len(asked.parts))
        plan, answer, faint = self.weigh(asked, made, people, scale, price, beta)
        most = asked.most / scale / question.least_allowance
        worst = self._worst + price * min(1.0, most**2)
        self.course, self._worst = self.course.after(worst, pays.base), 0.0
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
        """Release weighted sums; return the plan, the sums in joint units, and the faint users."""
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

    # -- pilots that serve many questions --------------------------------------------------------

    def column(self, query: Query, pilot: ColumnPilot) -> ColumnValues:
        """Return the distribution of a column's values; release its pilot if necessary.

        For some questions the distribution stays unknown (`asks_values`). If users pay for all
        windows together, the pilot covers the question's own rows.
        """
        if self.course.life is not None:
            pilot = own_pilot(pilot, query)
        known = self.course.parents.get(pilot.key)
        wanted = known is None or self.course.wants(pilot.key)
        if not asks_values(query, not wanted):
            return column_of(pilot.edges, np.zeros(len(pilot.edges) - 1), 1.0)
        if known is None or wanted:
            span = self.course.span
            if pilot.key:  # it covers all rows
                self.course = self.course.about(None)
            rows = self.values(pilot)
            if pilot.key:
                self.course = self.course.with_parent(pilot.key, rows).about(span)
        else:
            rows = np.array(known.people)
        return column_of(pilot.edges, rows, self.budget.sigma_0 / math.sqrt(pilot.price))

    def values(self, pilot: ColumnPilot) -> Floats:
        """Release rows by value; C is 1, so every user's weighted vector has norm 1 at most."""
        self._turn += 1
        asked = joint(pilot.query, Options(), self.budget)
        made = self._contributions(asked.before(0.5))
        (rows,) = made.measures
        people = self._people(rows.users, [rows.norms], asked, 1.0)
        allowance = self.payer.allowance(self.course, 1.0)
        self.payer.charge_answer(allowance, pilot.price, 1, once=bool(pilot.key))
        _, counts, _ = self.weigh(asked, made, people, 1.0, pilot.price, 0.5, "values")
        self.course = self.course.after(pilot.price, 1.0)
        return counts

    def parents(self, query: Query) -> Callable[[Joint], Parent]:
        """Ask for missing parent pilots; return a function from a question to its parent.

        The pilots cover all windows. If users pay for all windows together, the pilots cover only
        the question's own rows and serve only this question.
        """
        kin, sigma_0 = parents_of(query), self.budget.sigma_0
        if self.course.life is not None:
            own = {key: replace(one, relation=query.relation) for key, one in kin.items()}
            asked = {key: self.ask_parent(key, one) for key, one in own.items()}
            return partial(
                parent_in, {k: parent_seen(tuple(n.tolist()), sigma_0) for k, n in asked.items()}
            )
        for key, parent in kin.items():
            if self.course.wants(key):
                span, self.course = self.course.span, self.course.about(None)
                self.ask_parent_of_all(key, parent)
                self.course = self.course.about(span)
        for key, people in people_of(query).items():
            if self.course.wants(key):
                self.ask_tails(key, people)
        return partial(parent_in, {key: self.course.parent(key, sigma_0) for key in kin})

    def ask_parent(self, key: str, query: Query, factor: float = 1.0) -> Floats:
        """Release a parent pilot: users by cell of `chain_edges`."""
        return self._of_all_rows(query, chain_edges(factor), key)

    def ask_parent_of_all(self, key: str, query: Query) -> None:
        """Release a parent pilot of all rows, or repeat it because users have faded since."""
        known, least = self.course.parents.get(key), self.course.least_allowance(1.0)
        if known is None or known.epoch != self.course.epoch:
            counts = self.ask_parent(key, query)
            self.course = self.course.with_parent(key, counts, least)
            return
        factor = self.course.factor(key)
        counts = self.ask_parent(key, query, factor)
        self.course = self.course.with_parent_again(key, counts, factor, self.budget.sigma_0)

    def ask_tails(self, key: str, query: Query) -> None:
        """Release a pilot of a table's users by faded weight."""
        edges = self.course.tail_edges()
        people = self._of_all_rows(query, edges, key)
        sd = math.sqrt(RULES.parent) * self.budget.sigma_0
        self.course = self.course.with_tails(key, edges, people, sd)

    def _of_all_rows(self, query: Query, edges: Floats, key: str) -> Floats:
        asked = joint(query, Options(), self.budget)
        made = self._contributions(asked.before(0.5))
        (rows,) = made.measures
        people = self._people(rows.users, [rows.norms], asked, 1.0)
        price = 1 / RULES.parent
        self.payer.charge_pilot(self.payer.allowance(self.course, 1.0), price, once=True)
        counts = self._histogram(people, edges, price, 0, key)
        self.course, self._worst = self.course.after(self._worst, 1.0), 0.0
        return counts

    # -- pilots ----------------------------------------------------------------------------------

    def _people(self, users: Index, norms: list[Ints], asked: Joint, price: float) -> Contributors:
        """Return the contributors, with allowances from the accounts' current state."""
        dues = self.bill.of(users)
        own, life = self.course.cautious(price), self.course.for_life(price)
        return contributors(dues, norms, asked.exponents, own, life)

    def _pilots(
        self, people: Contributors, of: Ladder, allowance: float, prices: tuple[float, float]
    ) -> Reading:
        """Release the two pilots, and return them as one reading."""
        for price in prices:
            self.payer.charge_pilot(allowance, price)
        (one, two), sigma_0, cells = prices, self.budget.sigma_0, np.arange(CELLS)
        first = self._histogram(people, of.edges, one, 0, "first pilot")
        sd = np.full(CELLS, sigma_0 / math.sqrt(one))
        start = max(min(visible_top(first, sd, RULES), of.cap), 0)
        second = self._histogram(people, of.edges, two, start, "second pilot")
        above = cells > start
        counts = np.where(above, (one * first + two * second) / (one + two), first)
        sd = np.where(above, sigma_0 / math.sqrt(one + two), sd)
        return Reading(of, counts, sd, min(visible_top(counts, sd, RULES), of.cap))

    def _with_parent(
        self, reading: Reading, parent: Parent, asked: Joint
    ) -> tuple[Reading, Parent]:
        """Return the reading of pilots and of a parent with the same users, and the prior left.

        Without such a parent, or if no cell of it is well above its noise, both stay unchanged.
        """
        before = counted_before(asked, self.course, self.paying)
        noise = math.sqrt(RULES.parent) * self.budget.sigma_0
        if before is None or before.max() <= RULES.loud * noise:
            return reading, parent
        return reading.with_another(before, noise, RULES), NO_PARENT

    def _histogram(
        self, people: Contributors, edges: Floats, price: float, start: int, part: str
    ) -> Floats:
        """Release the number of users per cell of a ladder, from a start cell on; 0 below."""
        noise = pilot_noise(price, self.budget)
        counts = people.tally(edges, start, noise.price)
        self.bill.put(people.dues)
        drawn = rounded_gaussian(noise.lattice_sigma, len(edges), self._noise_of(part))
        self._worst += price
        released = (counts + drawn) * noise.granularity
        return np.where(np.arange(len(edges)) >= start, released, 0.0)

    def _noise_of(self, part: str) -> Entropy:
        return self._entropy(f"{self._turn}/{part}")
