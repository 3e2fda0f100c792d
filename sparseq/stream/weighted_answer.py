"""A weighted answer: pilots, the choice of C from their results, and the weighted sums.

The noised parts form one release in one transaction (docs/theorems/pilots.md). Each part is a sum
over users of vectors that depend on one user's rows, the same user's account and past releases,
plus Gaussian noise; each user pays for the vector that was summed. That is Algorithm 2 of Feldman &
Zrnic (2021) with the weights of its Algorithm 3. The filter is applied before every part; because
of the size of the allowances it never has to refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from sparseq.accounting import Budget
from sparseq.accounting.pilots.averages import Ends
from sparseq.base.defaults import beta_at
from sparseq.base.errors import QueryRefused
from sparseq.engine.contributions import Contributions
from sparseq.ledger.accounts import Accounts
from sparseq.ledger.lifetimes import Lifetimes
from sparseq.mechanisms import Entropy
from sparseq.question.plan import PROVED, Kind, Options, Plan, Query
from sparseq.released.outputs import StatisticKey
from sparseq.stream.budget_part import BudgetPart
from sparseq.stream.full_payer import FullPayer
from sparseq.stream.joint_unit import joint
from sparseq.stream.moments import MEASURED
from sparseq.stream.part_price import PartPrice
from sparseq.stream.question import with_costs
from sparseq.stream.stream_progress import Course
from sparseq.stream.weighted_parts import WeightedAnswer, WeightedPart, WeightGroup, parts_of
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
    payer: FullPayer,
) -> WeightedSums:
    """Return the `WeightedSums` that answer a question.

    Args:
        query: A result of `asked_as`.
        options: The question's options, with those of the caller over them.
        part: The part of the budgets that pays.
        accounts, contributions, entropy, rows, lifetimes: See `WeightedSums`.
        payer: A user without earlier charges.
    """
    assert part.course is not None
    sums = WeightedSums(
        part.budget,
        accounts,
        part.course,
        contributions,
        entropy,
        rows,
        payer,
        lifetimes,
    )
    sums.course = with_costs(sums.course.about(query.span), query, options, part.budget)
    return sums


def asked_as(
    query: Query, options: Options, course: Course, budget: Budget, rows: int | None
) -> Query:
    """Return a question in its final form: proved intervals need other measures.

    Raises:
        QueryRefused: It cannot be answered, or its intervals cannot be proved.
    """
    if options.interval == PROVED:
        query = _provable(query, options, budget, rows)
    course = course.about(query.span)
    if course.life is not None and course.span is None:
        raise QueryRefused(
            "people pay for all of their windows together, and this could be about any",
            "say from when to when: WHERE day >= DATE '2024-01-01' AND day < DATE '2024-02-01'",
        )
    for some, _, own in asked_parts(query, options):
        _refuse_what_has_no_scale(some, own, budget)
    return query


def answer(
    sums: WeightedSums,
    query: Query,
    options: Options,
    prices: Sequence[PartPrice],
) -> WeightedAnswer:
    """Answer a question.

    Args:
        sums, query: Results of `askable` and `asked_as`.
        options: The question's options, with those of the caller over them.
        prices: The prices of its parts.
    """
    found = measured(sums, query, options, prices, beta_at(options.confidence))
    return replace(found, course=sums.course.after_answer([query.relation.stored]))


def _provable(query: Query, options: Options, budget: Budget, rows: int | None) -> Query:
    """Return the question with only such measures as have proved intervals."""
    measures = tuple(replace(m, role="") for m in query.measures)
    query = replace(query, measures=measures, statistics=())
    for some, _, own in asked_parts(query, options):
        if math.isinf(joint(some, own, budget, rows).most):
            raise QueryRefused(
                "nothing bounds what one person may add, so no interval can be proved",
                "declare the most rows of a person when the store is made (sparseq create "
                "--most rows=500); or leave out interval",
            )
    return query


def _refuse_what_has_no_scale(query: Query, options: Options, budget: Budget) -> None:
    """Refuse a question whose later parts would be refused, before any noise is drawn: for a sum
    without a scale, or for centred values or their squares with too wide a range."""
    joint(query, options, budget)
    for measure in query.measures:
        if measure.role and measure.kind is Kind.SUM and measure.bounds is not None:
            wide = measure.bounds[1] - measure.bounds[0]
            for factor in (2.0**-12, 4.0):  # centred squares, on any of their lattices
                far = replace(measure, scale=factor * max(wide, measure.scale or 0.0))
                joint(replace(query, measures=(far,)), options, budget)


def measured(
    sums: WeightedSums,
    query: Query,
    options: Options,
    prices: Sequence[PartPrice],
    beta: float,
) -> WeightedAnswer:
    """Release all parts of a question, one after the other.

    Args:
        sums: Releases the parts.
        query: The question.
        options: The question's options, with those of the caller over them.
        prices: The prices of its parts.
        beta: The chance that any interval misses.
    """
    groups, told = list[WeightGroup](), dict[StatisticKey, Ends]()
    asked = asked_parts(query, options)
    for (some, part, own), sums.paying in zip(asked, prices, strict=True):
        if part.statistic is None:
            groups.append(sums.measured(some, part.which, own, beta / len(asked)))
            continue
        method = MEASURED[part.statistic.role]
        more, found = method(sums, some, part.statistic, own, beta / len(asked))
        groups += more
        told |= found
    return WeightedAnswer(query, beta, tuple(groups), sums.course, told)


def asked_parts(query: Query, options: Options) -> list[tuple[Query, WeightedPart, Options]]:
    """Return the parts of a question, and the options of each.

    A given C applies to rows and sums; other parts, for users or statistics, choose their own C.
    """
    found = []
    for i, part in enumerate(parts_of(query)):
        some = part.of(query)
        own = i == 0 or (part.statistic is None and some.measures[0].kind is not Kind.USERS)
        found.append((some, part, options if own else replace(options, scale=None)))
    return found
