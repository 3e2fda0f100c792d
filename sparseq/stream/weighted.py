"""A weighted answer: pilots, the choice of C from what they released, and the sums under weights.

Three noised parts, one release, one transaction (docs/theorems/pilots.md). Each part is a sum over
people of vectors made of one person's rows, that person's account and past releases, plus Gaussian
noise; everybody pays for the vector that was summed. That is Algorithm 2 of Feldman & Zrnic (2021)
with the weights of its Algorithm 3, and the filter is asked before every part: by the size of the
allowances it never has to say no.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, Price, sigma_for_scale
from sparseq.accounting.cut import (
    CELLS,
    NO_PARENT,
    RULES,
    Ladder,
    Parent,
    Reading,
    ladder,
    visible_top,
)
from sparseq.accounting.cut.choice import C_STEPS, Choice, Question, choose
from sparseq.accounting.cut.interval import Interval, IntervalKind, interval
from sparseq.accounting.cut.reading import nothing_read
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduce import Index, Ints
from sparseq.engine.weighing import Weights
from sparseq.ledger.accounts import Accounts
from sparseq.mechanisms import Entropy, rounded_gaussian
from sparseq.query.outputs import Intervals, Measurements
from sparseq.query.plan import Kind, Measure, Noise, Options, Plan, Query
from sparseq.query.render import key_columns
from sparseq.stream.bill import Bill
from sparseq.stream.contributors import Contributors, contributors
from sparseq.stream.course import Course
from sparseq.stream.joint import BELOW, LEAST_PRICE, Joint, joint
from sparseq.stream.weights import PILOT_BITS

Floats = NDArray[np.float64]
_ALL_PARTS = 1.5


@dataclass(frozen=True)
class WeightGroup:
    """Measures of a question that were measured with one weight.

    Attributes:
        which: Their places in the question.
        plan: Their noise.
        joint: Their joint unit.
        interval, choice, answer: Released, in joint units; the answer as it was measured.
        faint: Whose weight is below one half: private.
    """

    which: tuple[int, ...]
    plan: Plan
    joint: Joint
    interval: Interval
    choice: Choice
    answer: Floats
    faint: Index


@dataclass(frozen=True)
class WeightedAnswer:
    """A weighted answer before it is shown.

    Attributes:
        query, beta: What was asked.
        measured: Its measures, by weight.
        course: The stream's course after it.
        users, charges: Who pays how much: private.
    """

    query: Query
    beta: float
    measured: tuple[WeightGroup, ...]
    course: Course
    users: Index
    charges: Ints

    @property
    def plan(self) -> Plan:
        """The question with its noise."""
        noise = self._in_order(lambda part: part.plan.noise)
        return Plan(self.query, tuple(noise), self.beta)

    @property
    def kind(self) -> IntervalKind:
        """What the least sure of the intervals rests on."""
        kinds = [part.interval.kind for part in self.measured]
        return max(kinds, key=list(IntervalKind).index)

    @property
    def price(self) -> float:
        """The highest of the prices."""
        return max(part.choice.of.price for part in self.measured)

    @property
    def faint(self) -> Index:
        """Whose weight is below one half in some measure: private."""
        parts = [part.faint for part in self.measured]
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    def measurements(self) -> Measurements:
        """Return what post-processing may see, in the query's units: released."""

        def units(pick: Callable[[WeightGroup], Floats]) -> list[Floats]:
            return self._in_order(lambda part: part.joint.in_units(pick(part)))

        plan = self.plan
        sigmas = [noise.sigma for noise in plan.noise]
        z = self._in_order(lambda part: [part.choice.of.z()] * len(part.which))
        return Measurements(
            units(lambda part: part.interval.value),
            [quantile * sigma for quantile, sigma in zip(z, sigmas, strict=True)],
            key_columns(plan.query.domains),
            plan.query.groups,
            Intervals(
                units(lambda part: part.interval.low), units(lambda part: part.interval.high),
                units(lambda part: part.answer), sigmas,
                units(lambda part: part.interval.missing), z,
            ),
        )  # fmt: skip

    def _in_order(self, of: Callable[[WeightGroup], Sequence[Any]]) -> list[Any]:
        found = {i: x for part in self.measured for i, x in zip(part.which, of(part), strict=True)}
        return [found[i] for i in range(len(found))]


class WeightedStep:
    """One question on its way: what is the same for all of its parts.

    Args:
        budget: The store's.
        accounts: Of all people.
        course: How far the stream has come.
        contributions: Says what everybody contributes to a plan.
        foresee: Told, before any noise is drawn, which plans are going to be asked for.
        entropy: Of a part of this release, by its name.
        rows: The most that a person has in a table, if that was declared.
    """

    def __init__(
        self,
        budget: Budget,
        accounts: Accounts,
        course: Course,
        contributions: Callable[[Plan], Contributions],
        foresee: Callable[[Sequence[Plan]], None],
        entropy: Callable[[str], Entropy],
        rows: int | None,
    ) -> None:
        self._rows, self._foresee = rows, foresee
        self._budget, self._accounts, self._course = budget, accounts, course
        self._contributions, self._entropy = contributions, entropy
        self._bill = Bill(accounts)
        self._worst = 0.0  # price of the pilots
        self._base = 1.0  # price that allowances were made for
        self._turn = 0  # which measures it is about

    def answer(self, query: Query, options: Options) -> WeightedAnswer:
        """Answer a question; see `sparseq.stream.weighted`."""
        options = options.over(query.options)
        beta = 1 - (options.confidence if options.confidence is not None else 0.95)
        self._base = options.price if options.price is not None else 1.0
        by_weight = together_by_kind(query)
        beta_each = beta / len(by_weight)
        parts = []
        for turn, which in enumerate(by_weight):
            some = replace(query, measures=tuple(query.measures[i] for i in which))
            # a given C is of rows and sums; people who are counted beside them have their own
            parts.append((some, which, replace(options, scale=None) if turn else options))
        self._foresee([
            joint(some, own, self._budget, 0, self._rows).before(beta_each)
            for some, _, own in parts if not parents_of(some)
        ])  # fmt: skip
        measured = []
        for self._turn, (some, which, own) in enumerate(parts):
            measured.append(self._measured(some, which, own, beta_each))
        course = replace(self._course, answers=self._course.answers + 1)
        users, charges = self._bill.users, self._bill.charges
        return WeightedAnswer(query, beta, tuple(measured), course, users, charges)

    def _measured(
        self, query: Query, which: tuple[int, ...], options: Options, beta: float
    ) -> WeightGroup:
        """Release the pilots and the sums of measures with one weight."""
        price = self._base
        asked, parent = self._beside_parents(query, options)
        made = self._contributions(asked.before(beta))
        users, norms = together([(m.users, m.norms) for m in made.measures])
        people = self._people(users, norms, asked, price)
        question = question_of(asked, self._course, self._budget, beta, price)
        of = ladder(asked.most, question.least_allowance)
        reading = self._pilots(people, of) if question.pilots else nothing_read(of)
        known = parent.moved(asked.above_parent + question.faded, of.cap)
        choice = choose(question, reading, known)
        choice = priced(choice, options, asked, self._course.tau / _ALL_PARTS)
        return self._under_weights(asked, made, people, choice, which)

    # -- parents ---------------------------------------------------------------------------------

    def _beside_parents(self, query: Query, options: Options) -> tuple[Joint, Parent]:
        """Return a question in its joint unit, and what a parent pilot says of it."""
        joint(query, options, self._budget)  # refuses what has no scale, before any noise
        kin = parents_of(query)
        for key, parent in kin.items():
            if self._course.wants(key):
                self._ask_parent(key, parent)
        found = [self._known(key) for key in kin]
        rows = found[0].total if found else 0.0
        finer = 0
        if len(found) == 2 and rows > 0 and found[1].total > 0:
            tops = math.ldexp(found[1].total, -BELOW)
            finer = min(max(math.floor(math.log2(max(rows, 1.0) / (1.5 * tops))), 0), 6)
        asked = joint(query, options, self._budget, finer, self._rows)
        return asked, found[0] if found else NO_PARENT

    def _known(self, key: str) -> Parent:
        return self._course.parent(key, self._budget.sigma_0)

    def _ask_parent(self, key: str, query: Query) -> None:
        """Release a parent pilot."""
        asked = joint(query, Options(), self._budget)
        made = self._contributions(asked.before(0.5))
        (rows,) = made.measures
        people = self._people(rows.users, [rows.norms], asked, 1.0)
        counts = self._histogram(people, ladder(math.inf, 1.0), RULES.parent, 0, key)
        course, self._worst = self._course.after(self._worst, 1.0), 0.0
        self._course = course.with_parent(key, counts)

    # -- pilots ----------------------------------------------------------------------------------

    def _people(self, users: Index, norms: list[Ints], asked: Joint, price: float) -> Contributors:
        """Return who takes part, with allowances from the accounts as they are now."""
        dues = self._bill.of(users)
        return contributors(dues, norms, asked.exponents, self._course.cautious(price))

    def _pilots(self, people: Contributors, of: Ladder) -> Reading:
        """Release the two pilots, and return them as one reading."""
        sigma_0, cells = self._budget.sigma_0, np.arange(CELLS)
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
        noise = pilot_noise(variance, self._budget)
        counts = people.tally(of.edges, start, noise.price)
        self._bill.put(people.dues)
        drawn = rounded_gaussian(noise.lattice_sigma, CELLS, self._noise_of(part))
        self._worst += 1 / variance
        released = (counts + drawn) * noise.granularity
        return np.where(np.arange(CELLS) >= start, released, 0.0)

    # -- the answer ------------------------------------------------------------------------------

    def _under_weights(
        self,
        asked: Joint,
        made: Contributions,
        people: Contributors,
        choice: Choice,
        which: tuple[int, ...],
    ) -> WeightGroup:
        """Release the sums under weights."""
        q, scale = choice.of, choice.steps / C_STEPS
        plan = asked.after(scale, q.price, self._budget, q.beta)
        found = people.weigh(scale, asked.prices(plan))
        self._bill.put(people.dues)
        sums = made.weighted(
            Weights(found.users, found.mantissa, found.exponent, asked.shifts(plan))
        )
        entropy = self._noise_of("sums")
        noised = [
            total + rounded_gaussian(noise.lattice_sigma, len(total), entropy)
            for total, noise in zip(sums, plan.noise, strict=True)
        ]
        answer = asked.answer(plan, noised)
        most = asked.most / scale / q.least_allowance
        worst = self._worst + q.price * min(1.0, most * most)
        self._course, self._worst = self._course.after(worst, self._base), 0.0
        between = interval(choice, answer)
        return WeightGroup(which, plan, asked, between, choice, answer, found.faint)

    def _noise_of(self, part: str) -> Entropy:
        return self._entropy(f"{self._turn}/{part}")


def question_of(
    asked: Joint, course: Course, budget: Budget, beta: float, price: float
) -> Question:
    """Return what is public about measures of one weight: what C is chosen for."""
    query, a_min = asked.query, course.least_allowance(price)
    return Question(
        coordinates=query.coordinates, cells=asked.cells, signed=asked.signed,
        sigma_0=budget.sigma_0, beta=beta, price=price, least_allowance=a_min,
        pilots=needs_pilots(asked, a_min), by_type=asked.by_type, declared=asked.declared,
        scale=asked.scale, most_scale=asked.most_scale,
    )  # fmt: skip


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


def parents_of(query: Query) -> dict[str, Query]:
    """Return the parent pilots that say something of a question, by their names.

    They are of all rows of the same stored table, and, for an average or a sum of a column that is
    never negative, of the column's total per person.
    """
    table = query.relation.stored
    kinds = {m.kind for m in query.measures}
    if not table or kinds == {Kind.USERS}:
        return {}
    sums = [m for m in query.measures if m.kind is Kind.SUM]
    column = sums[0] if len(sums) == 1 and _column(sums[0]) else None
    found = {}
    if kinds != {Kind.SUM}:
        rows = Measure(Kind.ROWS, None, "rows")
        found[f"rows of {table}"] = _parent(query, rows)
    if column is not None:
        name = f"sum of {_column(column)} in {table} up to {column.scale!r}"
        found[name] = _parent(query, replace(column, edges=(), bin=None))
    return found


def _parent(query: Query, measure: Measure) -> Query:
    table = query.relation.sql.replace("FROM by_time.", "FROM by_user.", 1)
    everything = replace(query.relation, sql=table, where="", conditions=())
    return Query(f"pilot: {measure.label}", everything, (), (measure,), None)


def _column(measure: Measure) -> str:
    """Return the column that a sum is of, where it is never negative; "" for anything else."""
    term = None if measure.value is None else measure.value.term
    while term is not None and term.function.startswith("cast") and len(term.arguments) == 1:
        term = term.arguments[0]
    if term is None or measure.bounds is None or measure.bounds[0] < 0:
        return ""
    return term.column


def priced(choice: Choice, options: Options, asked: Joint, most: float) -> Choice:
    """Return a choice at the price, up to `most`, that a wanted sigma or accuracy takes."""
    wanted = _wanted_noise(choice, options, asked)
    if wanted is None:
        return choice
    m, q = choice.missing, choice.of
    finer = m.scale * q.sigma_0 / max(wanted, sys.float_info.min)
    price = min(max(finer * finer, LEAST_PRICE), most)
    noise = m.scale * q.sigma_0 / math.sqrt(price)
    return replace(choice, of=replace(q, price=price), missing=replace(m, noise=noise))


def _wanted_noise(choice: Choice, options: Options, asked: Joint) -> float | None:
    """Return the standard deviation that a caller asks for, in joint units."""
    q, unit = choice.of, asked.parts[0].unit
    if options.sigma is not None:
        return options.sigma / unit
    if options.accuracy is not None:
        return options.accuracy / unit / q.z()
    if options.precision is not None:
        return options.precision * max(choice.total, 1.0) / math.sqrt(q.cells) / q.z()
    return None


def together_by_kind(query: Query) -> list[tuple[int, ...]]:
    """Return the measures that share a weight: counts of people, and all others.

    A person counts once, and may have many rows: in one weight the count of people would have the
    noise that the rows need.

    Example: of `count(*), count(DISTINCT user), sum(x)` they are [(0, 2), (1,)].
    """
    people = tuple(i for i, m in enumerate(query.measures) if m.kind is Kind.USERS)
    others = tuple(i for i, m in enumerate(query.measures) if m.kind is not Kind.USERS)
    return [which for which in (others, people) if which]


def needs_pilots(asked: Joint, a_min: float) -> bool:
    """Tell whether anybody can be above C: by the release log and declared bounds alone."""
    if asked.scale is not None:
        return asked.scale < asked.most / a_min
    return not (a_min >= 1 and asked.most <= 1)


def together(parts: list[tuple[Index, Ints]]) -> tuple[Index, list[Ints]]:
    """Return the users of several measures, and everybody's squared norm in each."""
    first = parts[0][0]
    if all(np.array_equal(first, users) for users, _ in parts[1:]):
        return first, [norms for _, norms in parts]
    users = np.unique(np.concatenate([u for u, _ in parts]))
    found = []
    for some, norms in parts:
        whole = np.zeros(len(users), np.int64)
        whole[np.searchsorted(users, some)] = norms
        found.append(whole)
    return users, found
