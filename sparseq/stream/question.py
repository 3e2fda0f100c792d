"""The public facts of a question that the choice of C depends on, and the price of its noise."""

from __future__ import annotations

import math
from dataclasses import replace

from sparseq.accounting import Budget
from sparseq.accounting.pilots.choice import Question
from sparseq.base.defaults import PRICE
from sparseq.question.plan import (
    ALIKE,
    AVERAGE,
    PAIR,
    PROVED,
    VARIANCE,
    Kind,
    Options,
    Query,
)
from sparseq.stream.faded_weights import known_tails, newcomer_scale, wants_tails
from sparseq.stream.full_weight import QUESTION
from sparseq.stream.joint_unit import LEAST_PRICE, Joint, joint
from sparseq.stream.parent_pilots import wants_parent
from sparseq.stream.part_price import PartPrice
from sparseq.stream.pilot_noise import PriceSplit, split_price
from sparseq.stream.shared_pilots import column_pilot, parents_of, people_of, quantile_pilot
from sparseq.stream.stream_progress import PARENT_PAYS, WEIGHTS, Course
from sparseq.stream.weighted_parts import parts_of


def question_of(
    asked: Joint,
    course: Course,
    options: Options,
    budget: Budget,
    beta: float,
    pays: PartPrice,
    part: float = 1.0,
) -> Question:
    """Return the public facts about measures that share a weight, from which C is chosen.

    Args:
        asked: The measures in their joint unit.
        course: The stream's course.
        options: The options: the assumption behind intervals, and a price or a wish, if given.
        budget: The store's budget.
        beta: The chance that an interval misses.
        pays: The price.
        part: The measures' fraction of the price.
    """
    a_min = course.least_allowance(pays.base)
    pilots = asked.most > 1 and needs_pilots(asked.most, asked.scale, a_min)
    split = split_price(pays.price * part) if pilots else PriceSplit(0.0, 0.0, pays.price * part)
    declared = (asked.declared and options.interval != ALIKE) or options.interval == PROVED
    question = Question(
        coordinates=asked.query.coordinates,
        cells=asked.cells,
        signed=asked.signed,
        sigma_0=budget.sigma_0,
        beta=beta,
        price=split.answer,
        pilot_prices=(split.first, split.second),
        floor=options.price is None and options.wish is None,
        least_allowance=a_min,
        pilots=pilots,
        declared=declared,
        scale=asked.scale,
        most_scale=min(asked.most_scale, pays.most_scale(split.answer, budget.sigma_0)),
        reach=asked.reach,
        people=asked.by_type,
        rows=[part.measure.kind for part in asked.parts] == [Kind.ROWS],
        most=asked.most,
    )
    if asked.most > 1:
        return question
    return _of_people_once(question, asked, course, pays.base)


def _of_people_once(question: Question, asked: Joint, course: Course, base: float) -> Question:
    """Return a question that counts each user at most once, with its scale and a bound on its cut.

    C = 1/a_min cuts no user. A smaller C is chosen where the interval is narrower: the expected
    half-width adds the noise, the bound on the cut, and the error of that bound.
    """
    q = question
    (key,) = people_of(asked.query) or ("",)
    tails, most = known_tails(course, key), 1 / q.least_allowance
    if q.scale is not None:
        cut = None if q.declared else tails.cut(q.scale * q.least_allowance)
        return q if cut is None else replace(q, cut=cut, pilots=False)
    z, sigma = q.z(), q.sigma_0 / math.sqrt(q.price)

    def half_width(scale: float) -> float:
        noise, cut = scale * sigma, bounds[scale]
        return z * noise + cut.most + z * math.hypot(noise, cut.sd)

    scales = [most] if q.declared else tails.scales(most, newcomer_scale(course, base))
    found = {scale: tails.cut(scale * q.least_allowance) for scale in scales}
    bounds = {scale: cut for scale, cut in found.items() if cut is not None}
    scale = min(bounds, key=half_width)
    return replace(q, scale=scale, cut=bounds[scale], pilots=False)


_COSTS = {AVERAGE: (1.0, 2), VARIANCE: (1.5, 3), PAIR: (2.5, 7)}
"""For each statistic, its highest price in answers, and the number of its pilots."""


def answers_in(query: Query) -> float:
    """Return the highest cost of a question's answers, as a multiple of the price."""
    roles = ("" if one.statistic is None else one.statistic.role for one in parts_of(query))
    return sum(_COSTS.get(role, (1.0, 1))[0] for role in roles)


def with_costs(course: Course, query: Query, options: Options, budget: Budget) -> Course:
    """Return a course that has an end, with a question's cost now and at each later tick.

    The cost of pilots of all rows is spread, because they are repeated after rows arrive.
    """
    if course.until is None:
        return course
    regular, once = 0.0, dict[str, bool]()
    pays = PartPrice.of(price_in(options))
    for part in parts_of(query):
        some = part.of(query)
        question = question_of(joint(some, options, budget), course, options, budget, 0.5, pays)
        role = "" if part.statistic is None else part.statistic.role
        answers, pilots = _COSTS.get(role, (1.0, 1))
        regular += answers * pays.price + pilots * question.pilots * (QUESTION - 1)
        for key in _asked_once(some):
            wants = wants_tails if key.startswith(WEIGHTS) else wants_parent
            once[key] = wants(course, key)
    kept = sum(not key.startswith(WEIGHTS) for key in once)
    regular = max(regular + kept / PARENT_PAYS, LEAST_PRICE)
    return replace(course, regular=regular, once=float(sum(once.values())))


def _asked_once(query: Query) -> list[str]:
    """Return the names of the pilots of all rows that a part of a question needs."""
    pilots = [column_pilot(query, m) or quantile_pilot(query, m) for m in query.measures if m.role]
    columns = [one.key for one in pilots if one is not None and one.key]
    return [*parents_of(query), *people_of(query), *columns]


def price_in(options: Options) -> float:
    """Return the requested price, or 1."""
    return PRICE if options.price is None else options.price


def needs_pilots(most: float, scale: float | None, a_min: float) -> bool:
    """Tell from the release log and declared bounds alone whether a user can be above C.

    Example:
        >>> needs_pilots(1.0, 2.0, 0.5), needs_pilots(1.0, None, 0.5), needs_pilots(3.0, 2.0, 1.0)
        (False, True, True)
    """
    return most > (1.0 if scale is None else scale) * a_min * (1 + 1e-12)
