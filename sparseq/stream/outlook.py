"""How wide an interval is going to be, from released numbers alone, before anything is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.cut import CELLS, RULES, Reading, ladder, visible_top
from sparseq.accounting.cut.choice import choose
from sparseq.accounting.cut.interval import interval
from sparseq.query.plan import Kind, Options, Query
from sparseq.stream.course import Course
from sparseq.stream.joint import joint
from sparseq.stream.parents import parents_of
from sparseq.stream.question import question_of


@dataclass(frozen=True)
class Outlook:
    """Of one measure: public.

    Attributes:
        least: Half-width of a count's interval if nobody counts more than once; None: of a sum.
        most: About the half-width if it were about all rows of the table, as a parent pilot showed
            them; None: nobody has asked about these rows yet.
        scale: The scale that would be chosen then.
    """

    least: float | None
    most: float | None = None
    scale: float | None = None


def outlook(
    course: Course, query: Query, options: Options, budget: Budget, before: bool = False
) -> Outlook:
    """Return about how wide the interval of an answer is going to be.

    A question about some of the rows has fewer and lighter people than one about all of them, so
    what a parent pilot released is about the worst case of it.

    Args:
        course: Of the stream.
        query: Of one measure.
        options: Of the question.
        budget: The store's.
        before: A parent pilot will do of the rows that there were before others came.
    """
    asked = joint(query, options, budget)
    beta = 1 - (options.confidence if options.confidence is not None else 0.95)
    price = options.price if options.price is not None else 1.0
    question = question_of(asked, course.least_allowance(price), budget, beta, price)
    unit = asked.parts[0].unit
    least = None
    if query.measures[0].kind is not Kind.SUM:
        least = question.z() * (asked.scale or 1.0) * budget.sigma_0 / math.sqrt(price)
    known = [course.parents.get(key) for key in parents_of(query)]
    parent = known[0] if known else None
    old = parent is None or (parent.epoch != course.epoch and not before)
    if parent is None or old or not question.pilots:
        return Outlook(least, None if question.pilots else least, asked.scale)
    people = np.array(parent.people)
    sd = np.full(CELLS, math.sqrt(RULES.parent) * budget.sigma_0)
    of = ladder(asked.most, question.least_allowance)
    reading = Reading(of, people, sd, min(visible_top(people, sd, RULES), of.cap))
    choice = choose(replace(question, pilots=True), reading)
    between = interval(choice, np.full(query.coordinates, choice.total / max(asked.cells, 1)))
    width = float((between.high - between.low).mean()) / 2 * unit
    return Outlook(least, width, choice.missing.scale * unit)


def expected_widths(
    course: Course, query: Query, options: Options, budget: Budget
) -> tuple[float, ...]:
    """Return about how wide the intervals of each measure will be; 0 where nothing is known."""
    found = [
        outlook(course, replace(query, measures=(measure,)), options, budget, before=True)
        for measure in query.measures
    ]
    return tuple((o.most if o.most is not None else o.least) or 0.0 for o in found)
