"""Releases of pilots that serve many questions: values of a column, rows, and faded weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.pilots import (
    PILOTS,
    Parent,
)
from sparseq.accounting.pilots.chain import chain_edges
from sparseq.accounting.pilots.column_values import ColumnValues, column_of
from sparseq.question.plan import Options, Query
from sparseq.stream.faded_weights import edges_of_tails, wants_tails, with_tails
from sparseq.stream.joint_unit import Joint, joint
from sparseq.stream.parent_pilots import (
    fading_factor,
    known_parent,
    parent_seen,
    wants_parent,
    with_parent,
    with_parent_again,
)
from sparseq.stream.released_parts import ReleasedParts
from sparseq.stream.shared_pilots import (
    ColumnPilot,
    asks_values,
    own_pilot,
    parent_in,
    parents_of,
    people_of,
)

Floats = NDArray[np.float64]


class SharedPilotReleases(ReleasedParts):
    """Pilots of all rows, released when a question needs one that is missing or out of date."""

    def column(self, query: Query, pilot: ColumnPilot) -> ColumnValues:
        """Return the distribution of a column's values; release its pilot if necessary.

        For some questions the distribution stays unknown (`asks_values`). If users pay for all
        windows together, the pilot covers the question's own rows.
        """
        if self.course.life is not None:
            pilot = own_pilot(pilot, query)
        known = self.course.parents.get(pilot.key)
        wanted = known is None or wants_parent(self.course, pilot.key)
        if not asks_values(query, not wanted):
            return column_of(pilot.edges, np.zeros(len(pilot.edges) - 1), 1.0)
        if known is None or wanted:
            span = self.course.span
            if pilot.key:  # it covers all rows
                self.course = self.course.about(None)
            rows = self.values(pilot)
            if pilot.key:
                self.course = with_parent(self.course, pilot.key, rows).about(span)
        else:
            rows = np.array(known.people)
        return column_of(pilot.edges, rows, self.budget.sigma_0 / math.sqrt(pilot.price))

    def values(self, pilot: ColumnPilot) -> Floats:
        """Release rows by value; C is 1, so every user's weighted vector has norm 1 at most."""
        self.turn += 1
        asked = joint(pilot.query, Options(), self.budget)
        made = self.contributions_to(asked.before(0.5))
        (rows,) = made.measures
        people = self.contributors(rows.users, [rows.norms], asked, 1.0)
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
            if wants_parent(self.course, key):
                span, self.course = self.course.span, self.course.about(None)
                self.ask_parent_of_all(key, parent)
                self.course = self.course.about(span)
        for key, people in people_of(query).items():
            if wants_tails(self.course, key):
                self.ask_tails(key, people)
        return partial(parent_in, {key: known_parent(self.course, key, sigma_0) for key in kin})

    def ask_parent(self, key: str, query: Query, factor: float = 1.0) -> Floats:
        """Release a parent pilot: users by cell of `chain_edges`."""
        return self._of_all_rows(query, chain_edges(factor), key)

    def ask_parent_of_all(self, key: str, query: Query) -> None:
        """Release a parent pilot of all rows, or repeat it because users have faded since."""
        known, least = self.course.parents.get(key), self.course.least_allowance(1.0)
        if known is None or known.epoch != self.course.epoch:
            counts = self.ask_parent(key, query)
            self.course = with_parent(self.course, key, counts, least)
            return
        factor = fading_factor(self.course, key)
        counts = self.ask_parent(key, query, factor)
        self.course = with_parent_again(self.course, key, counts, factor, self.budget.sigma_0)

    def ask_tails(self, key: str, query: Query) -> None:
        """Release a pilot of a table's users by faded weight."""
        edges = edges_of_tails(self.course)
        people = self._of_all_rows(query, edges, key)
        sd = math.sqrt(PILOTS.parent) * self.budget.sigma_0
        self.course = with_tails(self.course, key, edges, people, sd)

    def _of_all_rows(self, query: Query, edges: Floats, key: str) -> Floats:
        asked = joint(query, Options(), self.budget)
        made = self.contributions_to(asked.before(0.5))
        (rows,) = made.measures
        people = self.contributors(rows.users, [rows.norms], asked, 1.0)
        price = 1 / PILOTS.parent
        self.payer.charge_pilot(self.payer.allowance(self.course, 1.0), price, once=True)
        counts = self.histogram(people, edges, price, 0, key)
        self.course, self.worst = self.course.after(self.worst, 1.0), 0.0
        return counts
