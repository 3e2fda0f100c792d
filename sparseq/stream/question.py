"""A question as the choice of C sees it: public facts, and the price of its noise."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from sparseq.accounting import Budget
from sparseq.accounting.pilots.choice import Choice, Question
from sparseq.base.defaults import PRICE
from sparseq.sql.plan import ALIKE, PROVED, Options
from sparseq.stream.joint_unit import LEAST_PRICE, Joint
from sparseq.stream.pilots import people_of
from sparseq.stream.stream_progress import Course

MOST_EXACT, MOST_EXACT_MEASURED = 8.0, 2.0
"""1/a_min up to which a count of people has a scale that nobody is above; the second, where how
people have faded has been measured."""


def question_of(
    asked: Joint, course: Course, options: Options, budget: Budget, beta: float, part: float = 1.0
) -> Question:
    """Return what is public about measures of one weight: what C is chosen for.

    Args:
        asked: They.
        course: Of the stream.
        options: Have the price, and what intervals are to rest on.
        budget: The store's.
        beta: Of the interval.
        part: Of the price.
    """
    base = price_in(options)
    a_min, scale, once = course.least_allowance(base), asked.scale, asked.most <= 1
    declared = (asked.declared and options.interval != ALIKE) or options.interval == PROVED
    as_all = (
        once and scale is None and not declared and options.precision is None
        and any(course.fading(key, budget.sigma_0).samples is not None
                for key in people_of(asked.query))
    )  # fmt: skip
    if scale is None and once and 1 / a_min <= (MOST_EXACT_MEASURED if as_all else MOST_EXACT):
        scale = 1 / a_min  # nobody can be above it: no pilots, and noise alone
        as_all = False
    return Question(
        coordinates=asked.query.coordinates, cells=asked.cells, signed=asked.signed,
        sigma_0=budget.sigma_0, beta=beta, price=base * part, least_allowance=a_min,
        pilots=not as_all and needs_pilots(asked.most, scale, a_min), declared=declared,
        scale=scale, most_scale=asked.most_scale, reach=asked.reach,
        people=asked.by_type, faded_as_all=as_all,
    )  # fmt: skip


def price_in(options: Options) -> float:
    """Return the price that is asked for, or 1."""
    return PRICE if options.price is None else options.price


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


def needs_pilots(most: float, scale: float | None, a_min: float) -> bool:
    """Tell whether anybody can be above C: by the release log and declared bounds alone.

    Example:
        >>> needs_pilots(1.0, 2.0, 0.5), needs_pilots(1.0, None, 0.5), needs_pilots(3.0, 2.0, 1.0)
        (False, True, True)
    """
    return most > (1.0 if scale is None else scale) * a_min * (1 + 1e-12)
