"""The sums of a question: its own pilots, the choice of C from their results, weighted sums."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.pilots import (
    CELLS,
    NO_PARENT,
    PILOTS,
    Ladder,
    Parent,
    Reading,
    ladder,
    visible_top,
)
from sparseq.accounting.pilots.choice import C_STEPS, Risk, choose
from sparseq.accounting.pilots.noised_pilot import nothing_read
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.question.plan import Options, Query
from sparseq.stream.contributors import Contributors, together
from sparseq.stream.joint_unit import Joint, joint
from sparseq.stream.question import question_of
from sparseq.stream.shared_pilot_releases import SharedPilotReleases
from sparseq.stream.shared_pilots import (
    counted_before,
)
from sparseq.stream.weighted_parts import ReleasedSums, WeightGroup

Floats = NDArray[np.float64]


class WeightedSums(SharedPilotReleases):
    """The sums of a question's answer, released part after part."""

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
        self.turn += 1
        made = self.contributions_to(asked.before(beta))
        users, norms = together([(m.users, m.norms) for m in made.measures])
        pays = self.paying
        self.highest = max(self.highest, pays.price)
        people = self.contributors(users, norms, asked, pays.base)
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
        worst = self.worst + price * min(1.0, most**2)
        self.course, self.worst = self.course.after(worst, pays.base), 0.0
        return ReleasedSums(plan, asked, choice, answer, faint)

    def _pilots(
        self, people: Contributors, of: Ladder, allowance: float, prices: tuple[float, float]
    ) -> Reading:
        """Release the two pilots, and return them as one reading."""
        for price in prices:
            self.payer.charge_pilot(allowance, price)
        (one, two), sigma_0, cells = prices, self.budget.sigma_0, np.arange(CELLS)
        first = self.histogram(people, of.edges, one, 0, "first pilot")
        sd = np.full(CELLS, sigma_0 / math.sqrt(one))
        start = max(min(visible_top(first, sd), of.cap), 0)
        second = self.histogram(people, of.edges, two, start, "second pilot")
        above = cells > start
        counts = np.where(above, (one * first + two * second) / (one + two), first)
        sd = np.where(above, sigma_0 / math.sqrt(one + two), sd)
        return Reading(of, counts, sd, min(visible_top(counts, sd), of.cap))

    def _with_parent(
        self, reading: Reading, parent: Parent, asked: Joint
    ) -> tuple[Reading, Parent]:
        """Return the reading of pilots and of a parent with the same users, and the prior left.

        Without such a parent, or if no cell of it is well above its noise, both stay unchanged.
        """
        before = counted_before(asked, self.course, self.paying)
        noise = math.sqrt(PILOTS.parent) * self.budget.sigma_0
        if before is None or before.max() <= PILOTS.loud * noise:
            return reading, parent
        return reading.with_another(before, noise), NO_PARENT
