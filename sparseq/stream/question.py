"""A question as the choice of C sees it: public facts, and the price of its noise."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget
from sparseq.accounting.pilots.choice import Choice, Question
from sparseq.accounting.pilots.pilot_interval import (
    AverageScale,
    Ends,
    Interval,
    IntervalKind,
    interval,
)
from sparseq.base.defaults import PRICE
from sparseq.engine.reduce import Index
from sparseq.released.outputs import Intervals, Measurements, StatisticKey
from sparseq.released.render import key_columns
from sparseq.sql.plan import (
    ALIKE,
    AVERAGE,
    PAIR,
    PROVED,
    VARIANCE,
    Kind,
    Options,
    Plan,
    Query,
    Statistic,
)
from sparseq.stream.joint_unit import LEAST_PRICE, Joint
from sparseq.stream.pilots import people_of
from sparseq.stream.stream_progress import Course

# -- a question as the choice of C sees it: public facts, and the price of its noise ---------------

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


# -- parts of a weighted question: measures that share a weight, and what was released -------------

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedPart:
    """Measures that share a weight.

    Attributes:
        which: Their places.
        statistic: What they are measured for; None: for themselves.
    """

    which: tuple[int, ...]
    statistic: Statistic | None = None

    @property
    def costs(self) -> tuple[float, int]:
        """How many answers it is at most, in price, and how many times it has pilots."""
        if self.statistic is None:
            return 1.0, 1
        costs = {AVERAGE: (1.0, 2), VARIANCE: (1.5, 3), PAIR: (2.5, 7)}
        return costs.get(self.statistic.role, (1.0, 1))

    def of(self, query: Query) -> Query:
        """Return the question that is about these measures only."""
        return replace(query, measures=tuple(query.measures[i] for i in self.which), statistics=())


def parts_of(query: Query) -> list[WeightedPart]:
    """Return the measures that share a weight: counts of rows; people; each sum, each statistic.

    A person counts once, and may have many rows, and few of high value: in one weight each would
    have the noise that the heaviest needs. Each of them is paid for.

    Example: of `count(*), count(DISTINCT user), sum(x)` they are (0,), (2,) and (1,).
    """

    def plain(kind: Kind) -> tuple[int, ...]:
        return tuple(i for i, m in enumerate(query.measures) if m.kind is kind and not m.role)

    parts = [
        WeightedPart(plain(Kind.ROWS)),
        *(WeightedPart((i,)) for i in plain(Kind.SUM)),
        *(WeightedPart(s.places, s) for s in query.statistics),
        WeightedPart(plain(Kind.USERS)),
    ]
    return [part for part in parts if part.which]


@dataclass(frozen=True)
class WeightGroup:
    """Measures of a question that were measured with one weight.

    Attributes:
        which: Their places in the question.
        plan: Their noise.
        joint: Their joint unit.
        interval, choice, answer: ReleasedSums, in joint units; the answer as it was measured.
        faint: Whose weight is below one half: private.
        centre: Of an average, in the total's joint unit: what was taken from each value.
    """

    which: tuple[int, ...]
    plan: Plan
    joint: Joint
    interval: Interval
    choice: Choice
    answer: Floats
    faint: Index
    centre: float = 0.0

    @property
    def sigmas(self) -> list[float]:
        """The noise of each measure, in its own unit."""
        sigmas = [noise.sigma for noise in self.plan.noise]
        if self.centre:  # the total is the sum about the centre, and the centre by row
            per_row = self.centre * self.joint.parts[1].unit
            sigmas[1] = math.hypot(sigmas[1], per_row * sigmas[0])
        return sigmas

    def ends(self) -> Ends:
        """Return value, low and high of the one measure, by group, in its own unit."""
        found = self.interval
        value, low, high = (
            self.joint.in_units(some)[0][:, 0] for some in (found.value, found.low, found.high)
        )
        return value, low, high


@dataclass(frozen=True)
class ReleasedSums:
    """Sums under weights, before anything is read off them: released, in joint units.

    Attributes:
        plan, joint, choice, answer, faint: See `WeightGroup`.
    """

    plan: Plan
    joint: Joint
    choice: Choice
    answer: Floats
    faint: Index

    def group(self, which: tuple[int, ...], between: Interval, centre: float = 0.0) -> WeightGroup:
        """Return it with its intervals."""
        return WeightGroup(
            which, self.plan, self.joint, between, self.choice, self.answer, self.faint, centre
        )

    def about_a_centre(self, which: tuple[int, ...], about: AverageScale) -> WeightGroup:
        """Return rows and total of an average that was measured about a centre.

        The total's interval adds up those of its two parts: wide, and valid.
        """
        rows, off = np.split(self.answer, 2)
        groups, of = len(rows), self.choice.of
        half = replace(of, coordinates=groups, cells=groups, beta=of.beta / 2)
        d, n = (
            interval(replace(self.choice, of=replace(half, signed=np.full(groups, signed))), some)
            for signed, some in ((False, rows), (True, off))
        )
        by = about.centre / about.unit
        ends = np.stack([by * d.low, by * d.high])
        low, high = ends.min(axis=0) + n.low, ends.max(axis=0) + n.high
        total = np.clip(by * d.value + n.value, low, high)
        together = Interval(
            np.append(d.value, total), np.append(d.low, low), np.append(d.high, high),
            np.append(d.few, (high - low) / 2 > np.abs(total)),
            np.append(d.missing, abs(by) * d.missing + n.missing), d.kind,
        )  # fmt: skip
        shown = replace(self, answer=np.append(rows, by * rows + off))
        return shown.group(which, together, by)


@dataclass(frozen=True)
class WeightedAnswer:
    """A weighted answer before it is shown.

    Attributes:
        query, beta: What was asked.
        measured: Its measures, by weight.
        course: The stream's course after it.
        statistics: Value, low and high of each, by group.
    """

    query: Query
    beta: float
    measured: tuple[WeightGroup, ...]
    course: Course
    statistics: Mapping[StatisticKey, Ends]

    @property
    def plan(self) -> Plan:
        """The question with its noise."""
        noise = self._in_order(lambda part: part.plan.noise)
        return Plan(self.query, tuple(noise), self.beta)

    @property
    def kind(self) -> IntervalKind:
        """What the least sure of the intervals rests on."""
        kinds = [part.interval.kind for part in self.measured]
        kinds += [IntervalKind.ASSUMED] * bool(self.statistics)
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
        sigmas = self._in_order(lambda part: part.sigmas)
        z = self._in_order(lambda part: [part.choice.of.z()] * len(part.which))
        return Measurements(
            units(lambda part: part.interval.value),
            [quantile * sigma for quantile, sigma in zip(z, sigmas, strict=True)],
            key_columns(plan.query.domains),
            plan.query.groups,
            Intervals(
                units(lambda part: part.interval.low), units(lambda part: part.interval.high),
                units(lambda part: part.answer), sigmas,
                units(lambda part: part.interval.missing), z, self.statistics,
                self.kind in (IntervalKind.EXACT, IntervalKind.BOUNDED),
            ),
        )  # fmt: skip

    def _in_order(self, of: Callable[[WeightGroup], Sequence[Any]]) -> list[Any]:
        found = {i: x for part in self.measured for i, x in zip(part.which, of(part), strict=True)}
        return [found[i] for i in range(len(found))]
