"""The price of a question with all its options, from public facts, before any noise is drawn.

Only `price_question` computes prices: explain, the confirmation, quotas and the answer all use its
result. It takes the steps of `sparseq.stream.weighted_sums` and `sparseq.stream.moments` in their
order, and adds up the charges of a user without earlier charges (`FullPayer`). If the values of a
column are not known yet, an average is measured in one of two ways, and the price is that of the
more expensive way.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting import UNITS_PER_NORM, Budget
from sparseq.accounting.pilots import CELLS, PILOTS
from sparseq.accounting.pilots.averages import apart
from sparseq.accounting.pilots.choice import C_STEPS
from sparseq.accounting.pilots.column_values import ColumnValues, column_of
from sparseq.accounting.pilots.quantiles import quantile_edges
from sparseq.base.defaults import PRICE, beta_at
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import (
    AVERAGE,
    PAIR,
    QUANTILE,
    VARIANCE,
    Kind,
    Measure,
    Options,
    Plan,
    Query,
    Statistic,
    calibrate,
)
from sparseq.reuse.answer_cache import MeasuredBefore
from sparseq.stream.draft import most_units
from sparseq.stream.faded_weights import edges_of_tails, wants_tails, with_tails
from sparseq.stream.full_payer import FullPayer
from sparseq.stream.joint_unit import Joint, joint
from sparseq.stream.moments import MOST_OF_A_PAIR
from sparseq.stream.parent_pilots import fading_factor, wants_parent, with_parent, with_parent_again
from sparseq.stream.part_price import PartPrice, base_price
from sparseq.stream.question import answers_in, price_in, question_of, with_costs
from sparseq.stream.shared_pilots import (
    ColumnPilot,
    asks_values,
    binned_anew,
    centred_total,
    column_pilot,
    own_pilot,
    parents_of,
    people_of,
    product_of,
    quantile_pilot,
)
from sparseq.stream.stream_progress import Course
from sparseq.stream.weighted_answer import asked_parts
from sparseq.stream.wish_price import Expected, Wish, refuse_wish


@dataclass(frozen=True)
class QuestionPrice:
    """The price of a question: public.

    Attributes:
        base: The price for which allowances are computed.
        parts: The price of each part of the question.
        answers, pilots, first: The most ledger units that one account is charged for the answers,
            for their pilots, and for pilots that serve many questions.
        units: The sum of the three, as the ledger rounds it.
        once: The names of the pilots that serve many questions.
        course: The stream's course after the question, correct in everything that affects prices;
            None: the stream has no course.
        exact: The answer's own price is `units`. Otherwise the values of a column that no question
            was about decide between two ways to measure, and `units` is the price of the more
            expensive way. (The question is free if it has a recorded answer after the number of
            another question is filled in.)
        foreseen: The question's sums that do not depend on noise yet to be drawn, each with beta of
            its intervals.
    """

    base: float
    parts: tuple[PartPrice, ...]
    answers: int
    pilots: int
    first: int
    units: int
    once: tuple[str, ...]
    course: Course | None
    exact: bool = True
    foreseen: tuple[tuple[Joint, float], ...] = ()


def price_question(
    query: Query,
    options: Options,
    course: Course,
    budget: Budget,
    rows: int | None,
    payer: FullPayer,
    known: Callable[[], MeasuredBefore | None] = lambda: None,
    expected: Expected = lambda _course, _query, _options, _joint, _pays: None,
    most: float = math.inf,
) -> QuestionPrice:
    """Return the price of a weighted question whose preceding questions have been asked.

    Args:
        query: The question.
        options: The question's options, with those of the caller over them.
        course: The stream's course.
        budget: The store's budget.
        rows: The declared maximum of rows per user in a table, if any.
        payer: A user without earlier charges.
        known: Finds an earlier answer: needed only for wishes.
        expected: Returns the expected numbers of a part: needed only for wishes.
        most: The highest price that the curator allows.

    Raises:
        QueryRefused: A wish cannot be met, or a sum has no public scale.
    """
    course = with_costs(course.about(query.span), query, options, budget)
    parts = _part_prices(query, options, course, budget, rows, known, expected, most)
    walks = []
    for measured_apart in (False, True):
        walk = _Walk(course, budget, rows, payer.again(), measured_apart)
        walk.question(query, options, parts)
        walks.append(walk)
        if not walk.unknown:
            break
    walk = max(walks, key=lambda one: one.payer.units)
    found = walk.payer
    return QuestionPrice(
        parts[0].base,
        parts,
        found.answers,
        found.pilots,
        found.once,
        found.units,
        tuple(dict.fromkeys(walk.once)),
        walk.course,
        not walk.unknown and all(one.later is None for one in parts),
        () if walk.unknown or walk.hidden else tuple(walk.foreseen),
    )


def price_in_or_out(plan: Plan, payer: FullPayer) -> QuestionPrice:
    """Return the price of a question in which users are in or out.

    If no public fact bounds a user's contribution, the price is the user's whole budget.
    """
    payer = payer.again()
    payer.charge_in_or_out(most_units(plan))
    price = PartPrice.of(plan.worst_case_charge)
    units = payer.units
    return QuestionPrice(price.price, (price,), units, 0, 0, units, (), None)


def plan_in_or_out(query: Query, options: Options, budget: Budget, payer: FullPayer) -> Plan:
    """Return the plan of a question in which users are in or out.

    Raises:
        QueryRefused: A wish costs a user with one row more than any user has, so that no user could
            be in. A cheaper wish leaves out the users with larger contributions (Algorithm 2).
    """
    plan, whole = calibrate(query, budget, options), payer.left / UNITS_PER_NORM
    if options.wish is not None and _charge_of_one_row(plan, budget) > whole:
        wider, reached, wish = 1.0, plan, getattr(options, options.wish)
        while _charge_of_one_row(reached, budget) > whole and wider < sys.float_info.max:
            wider *= max(math.sqrt(_charge_of_one_row(reached, budget) / whole), 1.001)
            told = replace(options, **{options.wish: wish * wider})
            reached = calibrate(query, budget, told)
        refuse_wish(options, _charge_of_one_row(plan, budget), whole, wish * wider)
    return plan


def _charge_of_one_row(plan: Plan, budget: Budget) -> float:
    """Return the charge of a user with one row; 0 where a measure has no fixed value per row."""
    if any(m.kind not in (Kind.ROWS, Kind.USERS) for m in plan.query.measures):
        return 0.0
    return math.fsum((budget.sigma_0 / noise.sigma) ** 2 for noise in plan.noise)


def without_wish(query: Query, options: Options) -> tuple[Query, Options]:
    """Return a question and its options without the wishes of its text and of the caller."""
    plain = replace(options.over(query.options), sigma=None, accuracy=None, precision=None)
    return replace(query, options=plain), plain


def _part_prices(
    query: Query,
    options: Options,
    course: Course,
    budget: Budget,
    rows: int | None,
    known: Callable[[], MeasuredBefore | None],
    expected: Expected,
    most: float,
) -> tuple[PartPrice, ...]:
    asked = asked_parts(query, options)
    if options.wish is None:
        return (PartPrice.of(price_in(options), answers_in(query)),) * len(asked)
    if query.statistics:
        raise QueryRefused(
            f"{options.wish} is about counts and sums; averages, variances and quantiles are "
            "made of several noised numbers",
            "give a price: 4 about halves the noise of 1; explain says how wide intervals will be",
        )
    earlier, beta = known(), beta_at(options.confidence) / len(asked)
    found = list[PartPrice]()
    for some, part, own in asked:
        whole = joint(some, own, budget, rows)
        wish = Wish(some, part.which, own, whole, course, budget, beta, earlier, expected, most)
        found.append(wish.price())
    base = base_price(max(one.price for one in found), len(found))
    return tuple(replace(one, base=base) for one in found)


# The steps of a question, and the charge of each


class _Walk:
    """The steps of a question: `WeightedSums` without users, noise or answers.

    Args:
        course, budget, rows: See `price_question`.
        payer: The user whose charges are added up.
        measured_apart: Whether averages of columns with unknown values are measured apart.

    Attributes:
        course: The course after the steps so far.
        once: The names of the pilots that serve many questions.
        foreseen: Sums that are released, each with beta of its intervals.
        unknown: A step needs a column with unknown values.
        hidden: The places of a quantile depend on noise that is yet to be drawn.
    """

    def __init__(
        self,
        course: Course,
        budget: Budget,
        rows: int | None,
        payer: FullPayer,
        measured_apart: bool,
    ) -> None:
        self.course, self.budget, self.rows, self.payer = course, budget, rows, payer
        self.once, self.unknown, self.hidden = list[str](), False, False
        self.foreseen = list[tuple[Joint, float]]()
        self._new = set[str]()
        self._measured_apart = measured_apart
        self._pays = PartPrice.of(PRICE)

    def question(self, query: Query, options: Options, prices: Sequence[PartPrice]) -> None:
        """Take all steps of a question."""
        asked = asked_parts(query, options)
        beta = beta_at(options.confidence) / len(asked)
        for (some, part, own), self._pays in zip(asked, prices, strict=True):
            if part.statistic is None:
                self._measured(some, own, beta)
            else:
                _STEPS[part.statistic.role](self, some, part.statistic, own, beta)
        self.course = self.course.after_answer([query.relation.stored])

    def _measured(self, query: Query, options: Options, beta: float, part: float = 1.0) -> None:
        self._parents(query)
        self._chosen(joint(query, options, self.budget, self.rows), options, beta, part)

    def _chosen(self, asked: Joint, options: Options, beta: float, part: float = 1.0) -> None:
        pays, worst = self._pays, 0.0
        allowance = self.payer.allowance(self.course, pays.base)
        self.foreseen.append((asked, beta))
        question = question_of(asked, self.course, options, self.budget, beta, pays, part)
        if question.pilots:
            for pilot in question.pilot_prices:
                self.payer.charge_pilot(allowance, pilot)
                worst += pilot
        price = question.price
        self.payer.charge_answer(allowance, price, len(asked.parts))
        scale = 1.0 if question.scale is None else min(question.scale, question.most_scale)
        steps = max(1, math.ceil(C_STEPS * scale))  # C of the pilots is at most `most`
        most = asked.most / (steps / C_STEPS) / question.least_allowance
        worst += price if question.pilots and question.scale is None else price * min(1, most**2)
        self.course = self.course.after(worst, pays.base)

    def _parents(self, query: Query) -> None:
        kin = parents_of(query)
        if self.course.life is not None:
            for one in kin:
                self._ask_parent(one)
            return
        for key in kin:
            if wants_parent(self.course, key):
                span, self.course = self.course.span, self.course.about(None)
                self._ask_parent_of_all(key)
                self.course = self.course.about(span)
        for key in people_of(query):
            if wants_tails(self.course, key):
                edges = edges_of_tails(self.course)
                self._ask_parent(key)
                self.course = with_tails(self.course, key, edges, np.zeros(len(edges)), 1.0)

    def _ask_parent_of_all(self, key: str) -> None:
        known, least = self.course.parents.get(key), self.course.least_allowance(1.0)
        if known is None or known.epoch != self.course.epoch:
            self._ask_parent(key)
            self.course = with_parent(self.course, key, np.zeros(CELLS), least)
            return
        factor = fading_factor(self.course, key)
        self._ask_parent(key)
        sigma_0 = self.budget.sigma_0
        self.course = with_parent_again(self.course, key, np.zeros(CELLS), factor, sigma_0)

    def _ask_parent(self, key: str) -> None:
        self.payer.charge_pilot(
            self.payer.allowance(self.course, 1.0), 1 / PILOTS.parent, once=True
        )
        self.course = self.course.after(1 / PILOTS.parent, 1.0)
        self.once.append(key)

    def _column(self, query: Query, pilot: ColumnPilot) -> ColumnValues | None:
        """Return the known distribution of a column's values; None: not yet released."""
        if self.course.life is not None:
            pilot = own_pilot(pilot, query)
        nothing = np.zeros(len(pilot.edges) - 1)
        known = self.course.parents.get(pilot.key)
        wanted = known is None or wants_parent(self.course, pilot.key)
        if not asks_values(query, not wanted):
            return column_of(pilot.edges, nothing, 1.0)
        if known is not None and not wanted:
            if pilot.key in self._new:
                return None
            noise = self.budget.sigma_0 / math.sqrt(pilot.price)
            return column_of(pilot.edges, np.array(known.people), noise)
        span = self.course.span
        if pilot.key:
            self.course = self.course.about(None)
            self.once.append(pilot.key)
        allowance = self.payer.allowance(self.course, 1.0)
        self.payer.charge_answer(allowance, pilot.price, 1, once=bool(pilot.key))
        self.course = self.course.after(pilot.price, 1.0)
        if pilot.key:
            self.course = with_parent(self.course, pilot.key, nothing).about(span)
            self._new.add(pilot.key)
        return None

    def _values(self, query: Query, total: Measure) -> tuple[ColumnValues, bool]:
        """Return the known distribution of a sum's values, or a stand-in; and whether it is apart.

        "Apart" means that rows and total of an average are measured separately.
        """
        pilot = column_pilot(query, total)
        assert pilot is not None
        column = self._column(query, pilot)
        if column is None:
            self.unknown = True
            anything = column_of(pilot.edges, np.zeros(len(pilot.edges) - 1), 1.0)
            return anything, self._measured_apart
        return column, apart(column)

    def average(
        self, query: Query, _: Statistic, options: Options, beta: float, part: float = 1.0
    ) -> None:
        """Take the steps of `sparseq.stream.moments.average`."""
        number, total = query.measures
        column, measured_apart = self._values(query, total)
        if measured_apart or query.relation.caps:
            for measure in query.measures:
                self._measured(replace(query, measures=(measure,)), options, beta / 2, part / 2)
            return
        shifted, _centre = centred_total(total, column.centre, column.spread)
        self._parents(replace(query, measures=(number,)))
        asked = replace(query, measures=(number, shifted))
        half = round(math.log2(column.spread / 2))
        self._chosen(joint(asked, options, self.budget, self.rows, {1: half}), options, beta, part)

    def moments(
        self, query: Query, asked_for: Statistic, options: Options, beta: float, part: float = 1.0
    ) -> None:
        """Take the steps of `sparseq.stream.moments.moments`."""
        number, total, squares = query.measures
        self.average(replace(query, measures=(number, total)), asked_for, options, beta / 2, part)
        column, _ = self._values(query, total)
        about, _centre = centred_total(total, column.centre, column.spread)
        pilot = column_pilot(query, total)
        known = self.course.parents.get(pilot.key) if pilot is not None and pilot.key else None
        if known is not None and known.epoch == self.course.epoch:
            self._parents(replace(query, measures=(number,)))
        size = column.spread**2
        self._product(query, product_of(about, about, squares, size), size, options, beta / 2)

    def pair(self, query: Query, asked_for: Statistic, options: Options, beta: float) -> None:
        """Take the steps of `sparseq.stream.moments.pair`."""
        _, *totals, _, _, products = query.measures
        centres, spread = list[Measure](), 1.0
        for i, total in enumerate(totals, 1):
            whose = replace(query, measures=tuple(query.measures[j] for j in (0, i, i + 2)))
            self.moments(whose, asked_for, options, beta / 3, MOST_OF_A_PAIR)
            column, _ = self._values(query, total)
            centres.append(centred_total(total, column.centre, column.spread)[0])
            spread *= column.spread
        product = product_of(centres[0], centres[1], products, spread)
        self._product(query, product, spread, options, beta / 3)

    def _product(
        self, query: Query, product: Measure, size: float, options: Options, beta: float
    ) -> None:
        unit = math.floor(math.log2(size)) - 3
        whole = joint(replace(query, measures=(product,)), options, self.budget, units={0: unit})
        self._chosen(whole, options, beta, 0.5)

    def quantiles(self, query: Query, asked_for: Statistic, options: Options, beta: float) -> None:
        """Take the steps of `sparseq.stream.moments.quantiles`."""
        (measure,) = query.measures
        pilot = quantile_pilot(query, measure)
        if pilot is not None and not query.relation.caps:
            column = self._column(query, pilot)
            if column is None:
                self.hidden = True
            else:
                measure = binned_anew(measure, quantile_edges(column, asked_for.levels))
                query = replace(query, measures=(measure,))
        self._parents(query)
        self._chosen(joint(query, options, self.budget, self.rows), options, beta)


_STEPS: Mapping[str, Callable[[_Walk, Query, Statistic, Options, float], None]] = {
    AVERAGE: _Walk.average,
    VARIANCE: _Walk.moments,
    PAIR: _Walk.pair,
    QUANTILE: _Walk.quantiles,
}
