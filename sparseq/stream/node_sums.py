"""Nodes of a dashboard, measured in one release: pilots of all, then the sums of all.

A node is one period (a day or a week) of one number: its vector has the groups and, if there are
groups, their total. Its pilot and its sums are parts of a release like those of a question
(docs/theorems/pilots.md). Two rules differ (docs/theorems/dashboards.md):

- There is no clock. A user has full weight while the account holds a quarter of the cost of all
  nodes that the dashboard still plans, and of the release 1.25 times: a_i = sqrt(min(1, left_i /
  R)), R = max(remaining / 4, 1.25 · release). The account is the one before the release, so a node
  has the same allowance in its pilot and in its sums.
- Pilots are pooled: C comes from the mean of the latest pilots of nodes of one kind. All of them
  are released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting.pilots import ladder
from sparseq.accounting.pilots.choice import C_STEPS, SCALES
from sparseq.accounting.pilots.pooled_pilots import ALIKE_SUMS, Pool
from sparseq.base.defaults import BETA
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Index
from sparseq.question.plan import Cell, Domain, Kind, Measure, Noise, Options, Plan, Query
from sparseq.stream.contributors import Contributors
from sparseq.stream.full_weight import SPARE
from sparseq.stream.joint_unit import Joint, joint
from sparseq.stream.released_parts import ReleasedParts
from sparseq.stream.stream_progress import Course
from sparseq.stream.user_weights import Floats

DAY_PRICE, WEEK_PRICE, PILOT_PRICE = 1.0, 0.5, 0.25
"""The most that a node costs a user per a²; a week has half the price of a day."""
TOGETHER = {False: 7, True: 2}
"""Days, and weeks, that a panel typically adds up: their cuts add up, and their noise less so. The
scale of a node is the best one for a sum of this many nodes."""
PLANNED = 4.0
"""Users with a part of 1/PLANNED of all planned costs have full weight."""


@dataclass(frozen=True)
class Node:
    """A period of one number: public.

    Attributes:
        query: Its groups and its only measure.
        kind: The name of its pool of pilots.
        week: It is a week, and else a day.
    """

    query: Query
    kind: str
    week: bool

    @property
    def price(self) -> float:
        """The price of its sums."""
        return WEEK_PRICE if self.week else DAY_PRICE

    @property
    def worth(self) -> float:
        """The price of a single node with the relative noise of a typical sum of nodes."""
        return self.price * TOGETHER[self.week]

    @property
    def vector(self) -> Query:
        """The question with the total as one more coordinate."""
        whole = self.query.groups + (self.query.groups > 1)
        places = Domain("group", tuple(range(whole)), Cell("0"))
        return replace(self.query, domains=(places,) * (whole > 1), single=False)

    @property
    def row(self) -> float:
        """The norm of a user with one row of one joint unit: 1, or sqrt(2) with a total.

        It is the lowest edge of the node's ladder, and the unit of its scale. So users with their
        rows in one group lie on edges, where a pilot measures the cut exactly.
        """
        return math.sqrt(2.0) if self.query.groups > 1 else 1.0


@dataclass(frozen=True)
class MeasuredNode:
    """The released numbers of a node.

    Attributes:
        pilot: Noised users per cell of the ladder.
        steps: C in units of 1/C_STEPS of `Node.row`.
        sums: The noised weighted sums, the total last, in joint units.
        noise: Their standard deviation, in joint units.
        unit: The joint unit in the number's own.
        reach: The cell of a user with one row.
        plan: The noise in the number's own unit.
    """

    pilot: Floats
    steps: int
    sums: Floats
    noise: float
    unit: float
    reach: int
    plan: Noise


@dataclass(frozen=True)
class MeasuredNodes:
    """A release of nodes before it is charged.

    Attributes:
        nodes: The nodes, in their order.
        plan: The vectors of all nodes as one plan.
        faint: Users whose weight is below one half in some node: private.
        course: The progress of the part after it.
    """

    nodes: tuple[MeasuredNode, ...]
    plan: Plan
    faint: Index
    course: Course


@dataclass(frozen=True)
class PlannedCosts:
    """The public costs that the allowances depend on, per a².

    Attributes:
        morning: The mean cost of a planned refresh.
        waiting: The cost of nodes that this refresh measures in later releases.
        last: The release is the last of its refresh.
    """

    morning: float
    waiting: float
    last: bool

    def course(self, course: Course, release: float) -> Course:
        """Return the course whose `cautious` is R for a release with this cost."""
        regular = self.morning / PLANNED
        assert course.until is not None
        later = max(course.until - course.answers, 1.0) * regular
        needed = max(later + (release + self.waiting) / PLANNED, SPARE * release)
        return replace(course, regular=regular, once=needed - later)


def cost_of(nodes: Sequence[Node]) -> float:
    """Return the most that nodes cost a user per a²: public."""
    return sum(node.price + PILOT_PRICE for node in nodes)


class NodeSums(ReleasedParts):
    """The released sums of a dashboard's nodes."""

    def nodes(
        self, nodes: Sequence[Node], pools: Mapping[str, Pool], planned: PlannedCosts
    ) -> MeasuredNodes:
        """Release the pilots of all nodes, and then their sums.

        Args:
            nodes: The nodes.
            pools: The earlier pilots of each kind.
            planned: The costs that are planned.
        """
        cost, before = cost_of(nodes), self.course
        spans = [node.query.span for node in nodes]
        known = [span for span in spans if span is not None]
        span = (min(s[0] for s in known), max(s[1] for s in known)) if known else None
        self.course = planned.course(before, cost).about(span if len(known) == len(spans) else None)
        self._full = self.payer.allowance(self.course, 1.0)
        asked = [joint(node.vector, Options(), self.budget) for node in nodes]
        made = [
            self.contributions_to(replace(one.before(BETA), query=node.query))
            for node, one in zip(nodes, asked, strict=True)
        ]
        people = [
            self.contributors(m.measures[0].users, [m.measures[0].norms], one, 1.0)
            for m, one in zip(made, asked, strict=True)
        ]
        pilots = [self._pilot(n, one) for n, one in zip(nodes, people, strict=True)]
        pooled = dict(pools)  # with the pilots of this release
        for node, pilot in zip(nodes, pilots, strict=True):
            pooled[node.kind] = pooled.get(node.kind, Pool()).with_pilot(pilot)
        each = zip(nodes, asked, made, people, pilots, strict=True)
        done = [self._sums(*parts, pooled[parts[0].kind]) for parts in each]
        after = self.course.after(cost, 1.0)
        after = after.after_answer([nodes[0].query.relation.stored]) if planned.last else after
        course = replace(after.about(None), regular=before.regular, once=before.once, owed=0.0)
        measures = tuple(replace(one.query.measures[0], label=one.query.text) for one in nodes)
        text = "; ".join(one.query.text for one in nodes)
        whole = replace(nodes[0].vector, measures=measures, text=text)
        plan = Plan(whole, tuple(node.plan for node, _ in done), BETA)
        faint = np.unique(np.concatenate([users for _, users in done]))
        return MeasuredNodes(tuple(node for node, _ in done), plan, faint, course)

    def _pilot(self, node: Node, people: Contributors) -> Floats:
        """Release a node's pilot."""
        self.turn += 1
        people.dues = self.bill.of(people.dues.users)
        self.payer.charge_pilot(self._full, PILOT_PRICE)
        edges = ladder(math.inf, 1.0).edges * node.row
        return self.histogram(people, edges, PILOT_PRICE, 0, "pilot")

    def _sums(
        self,
        node: Node,
        asked: Joint,
        made: Contributions,
        people: Contributors,
        pilot: Floats,
        pool: Pool,
    ) -> tuple[MeasuredNode, Index]:
        """Choose C from the pooled pilots, and release a node's sums."""
        self.turn += 1
        people.dues = self.bill.of(people.dues.users)
        sd = self.budget.sigma_0 / math.sqrt(PILOT_PRICE)
        noise = self.budget.sigma_0 * node.row
        public = pool.question(asked.query.coordinates, noise, node.worth, asked.reach)
        alike = alike_of(node.query.measures[0])
        steps = pool.scale(replace(public, most_scale=asked.most_scale / node.row), sd, alike)
        scale = steps / C_STEPS * node.row
        self.payer.charge_answer(self._full, node.price, 1)
        plan, sums, faint = self.weigh(asked, made, people, scale, node.price, BETA)
        unit = asked.parts[0].unit
        sigma = plan.noise[0].sigma / unit
        return MeasuredNode(pilot, steps, sums, sigma, unit, asked.reach, plan.noise[0]), faint


def alike_of(measure: Measure) -> float:
    """Return the assumed spread of groups' shares of the cut (`ScaleRules.alike`)."""
    return ALIKE_SUMS if measure.kind is Kind.SUM else SCALES.alike
