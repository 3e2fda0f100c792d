"""A weighted answer: pilots, the choice of C from what they released, and the sums under weights.

Three noised parts, one release, one transaction (docs/theorems/pilots.md). Each part is a sum over
people of vectors made of one person's rows, that person's account and past releases, plus Gaussian
noise; everybody pays for the vector that was summed. That is Algorithm 2 of Feldman & Zrnic (2021)
with the weights of its Algorithm 3, and the filter is asked before every part: by the size of the
allowances it never has to say no.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from sparseq.accounting.pilots.pilot_interval import Ends
from sparseq.base.defaults import beta_at
from sparseq.base.errors import QueryRefused
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Accounts
from sparseq.ledger.lifetimes import Lifetimes
from sparseq.mechanisms import Entropy
from sparseq.released.outputs import StatisticKey
from sparseq.sql.plan import PROVED, QUANTILE, Kind, Options, Plan, Query
from sparseq.stream.budget_part import BudgetPart
from sparseq.stream.joint_unit import joint
from sparseq.stream.moments import APART, MEASURED
from sparseq.stream.question import (
    WeightedAnswer,
    WeightedPart,
    WeightGroup,
    parents_of,
    parts_of,
    price_in,
)
from sparseq.stream.weighted_sums import WeightedSums


def askable(
    query: Query,
    options: Options,
    part: BudgetPart,
    accounts: Accounts,
    contributions: Callable[[Plan], Contributions],
    entropy: Callable[[str], Entropy],
    rows: int | None,
    lifetimes: Lifetimes | None,
) -> tuple[WeightedSums, Query]:
    """Return what a question is answered by (see `WeightedSums`), and the question as it is asked.

    Raises:
        QueryRefused: It can't be answered, or its intervals can't be proved; nothing was drawn.
    """
    assert part.course is not None
    price = price_in(options)
    sums = WeightedSums(
        part.budget, accounts, part.course, contributions, entropy, rows, price, lifetimes
    )
    if options.interval == PROVED:
        query = _provable(sums, query, options)
    sums.course = sums.course.about(query.span)
    if sums.course.life is not None and sums.course.span is None:
        raise QueryRefused(
            "people pay for all of their windows together, and this could be about any",
            "say from when to when: WHERE day >= DATE '2024-01-01' AND day < DATE '2024-02-01'",
        )
    for some, _, own in _parts_of(query, options):
        _refuse_what_has_no_scale(sums, some, own)
    return sums, query


def answer(
    sums: WeightedSums, query: Query, options: Options, foresee: Callable[[Sequence[Plan]], None]
) -> WeightedAnswer:
    """Answer a question.

    Args:
        sums, query: From `askable`.
        options: Of the question, and what the caller said over it.
        foresee: Told, before any noise is drawn, which plans are going to be asked for.
    """
    beta, asked = beta_at(options.confidence), _parts_of(query, options)
    foresee([plan for one in asked for plan in _plans(sums, *one, beta / len(asked))])
    found = measured(sums, query, options, beta)
    course = replace(sums.course.about(None), answers=sums.course.answers + 1)
    return replace(found, course=course)


def _provable(sums: WeightedSums, query: Query, options: Options) -> Query:
    """Return the question made of measures whose intervals are proved, and of nothing else."""
    measures = tuple(replace(m, role="") for m in query.measures)
    query = replace(query, measures=measures, statistics=())
    for some, _, own in _parts_of(query, options):
        if math.isinf(joint(some, own, sums.budget, sums.rows).most):
            raise QueryRefused(
                "nothing bounds what one person may add, so no interval can be proved",
                "declare the most rows of a person when the store is made (sparseq create "
                "--most rows=500); or leave out interval",
            )
    return query


def _refuse_what_has_no_scale(sums: WeightedSums, query: Query, options: Options) -> None:
    """Refuse, before any noise, what the later parts of a question could be refused for: sums
    without a scale, and values about a centre, and their squares, that are too far apart."""
    joint(query, options, sums.budget)
    for measure in query.measures:
        if measure.role and measure.kind is Kind.SUM and measure.bounds is not None:
            wide = measure.bounds[1] - measure.bounds[0]
            for factor in (2.0**-12, 4.0):  # squares about any centre, on any lattice of theirs
                far = replace(measure, scale=factor * max(wide, measure.scale or 0.0))
                joint(replace(query, measures=(far,)), options, sums.budget)


def _plans(
    sums: WeightedSums, query: Query, part: WeightedPart, options: Options, beta: float
) -> list[Plan]:
    """Return the plans that a part is going to need, if no noise comes before them."""

    def plan(some: Query, beta: float) -> Plan:
        return joint(some, options, sums.budget, sums.rows).before(beta)

    if part.statistic is None:
        return [] if parents_of(query) else [plan(query, beta)]
    if not query.relation.caps:
        return []
    if part.statistic.role == QUANTILE:
        return [plan(query, beta)]
    return [
        plan(replace(query, measures=(query.measures[i],)), beta * share)
        for i, share in APART[part.statistic.role]
    ]


def measured(sums: WeightedSums, query: Query, options: Options, beta: float) -> WeightedAnswer:
    """Release all parts of a question, one after the other.

    Args:
        sums: What they are released by.
        query: The question.
        options: Of it, and what the caller said.
        beta: Of all intervals at once.
    """
    groups, told = list[WeightGroup](), dict[StatisticKey, Ends]()
    asked = _parts_of(query, options)
    for some, part, own in asked:
        if part.statistic is None:
            groups.append(sums.measured(some, part.which, own, beta / len(asked)))
            continue
        method = MEASURED[part.statistic.role]
        more, found = method(sums, some, part.statistic, own, beta / len(asked))
        groups += more
        told |= found
    return WeightedAnswer(query, beta, tuple(groups), sums.course, told)


def _parts_of(query: Query, options: Options) -> list[tuple[Query, WeightedPart, Options]]:
    """Return the parts of a question, and the options of each.

    A given C is of rows and sums; people and statistics beside them have their own.
    """
    found = []
    for i, part in enumerate(parts_of(query)):
        some = part.of(query)
        own = i == 0 or (part.statistic is None and some.measures[0].kind is not Kind.USERS)
        found.append((some, part, options if own else replace(options, scale=None)))
    return found
