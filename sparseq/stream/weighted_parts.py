"""Parts of a weighted question: measures that share a weight, and their released sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from sparseq.accounting.pilots.averages import AverageScale, Ends
from sparseq.accounting.pilots.choice import Choice
from sparseq.accounting.pilots.ladder import Floats
from sparseq.accounting.pilots.pilot_interval import Interval, IntervalKind, interval
from sparseq.compiled import merged
from sparseq.engine.reduction import Index
from sparseq.question.plan import (
    Kind,
    Plan,
    Query,
    Statistic,
)
from sparseq.released.outputs import Intervals, Measurements, StatisticKey
from sparseq.released.render import key_columns
from sparseq.stream.joint_unit import Joint
from sparseq.stream.stream_progress import Course


@dataclass(frozen=True)
class WeightedPart:
    """Measures that share a weight.

    Attributes:
        which: Their places.
        statistic: The statistic that they are measured for; None: they are answers themselves.
    """

    which: tuple[int, ...]
    statistic: Statistic | None = None

    def of(self, query: Query) -> Query:
        """Return the question with these measures only."""
        return replace(query, measures=tuple(query.measures[i] for i in self.which), statistics=())


def parts_of(query: Query) -> list[WeightedPart]:
    """Return the measures that share a weight: row counts; users; each sum; each statistic.

    A user counts once but may have many rows, or few rows of high value: under one weight every
    measure would have the noise of the heaviest one. Each part is charged.

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
        interval, choice, answer: Released numbers, in joint units; the answer as it was measured.
        faint: The users whose weight is below one half: private.
        centre: For an average, the number subtracted from each value, in the total's joint unit.
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
        if self.centre:  # total = sum about the centre + centre · rows
            per_row = self.centre * self.joint.parts[1].unit
            sigmas[1] = math.hypot(sigmas[1], per_row * sigmas[0])
        return sigmas

    def ends(self) -> Ends:
        """Return value, low and high of the only measure, by group, in its own unit."""
        interval = self.interval
        value, low, high = (
            self.joint.in_units(some)[0][:, 0]
            for some in (interval.value, interval.low, interval.high)
        )
        return value, low, high


@dataclass(frozen=True)
class ReleasedSums:
    """Released weighted sums in joint units, before intervals are computed from them.

    Attributes:
        plan, joint, choice, answer, faint: See `WeightGroup`.
    """

    plan: Plan
    joint: Joint
    choice: Choice
    answer: Floats
    faint: Index

    def group(self, which: tuple[int, ...], between: Interval, centre: float = 0.0) -> WeightGroup:
        """Return the sums as a group with their intervals."""
        return WeightGroup(
            which, self.plan, self.joint, between, self.choice, self.answer, self.faint, centre
        )

    def about_a_centre(self, which: tuple[int, ...], about: AverageScale) -> WeightGroup:
        """Return rows and total of an average that was measured about a centre.

        The total's interval is the sum of the intervals of its two parts: wide, but valid.
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
            np.append(d.value, total),
            np.append(d.low, low),
            np.append(d.high, high),
            np.append(d.few, (high - low) / 2 > np.abs(total)),
            np.append(d.missing, abs(by) * d.missing + n.missing),
            d.kind,
        )
        shown = replace(self, answer=np.append(rows, by * rows + off))
        return shown.group(which, together, by)


@dataclass(frozen=True)
class WeightedAnswer:
    """A weighted answer before it is shown.

    Attributes:
        query, beta: The question, and the chance that some interval misses.
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
        """The basis of the least certain interval."""
        kinds = [part.interval.kind for part in self.measured]
        kinds += [IntervalKind.ASSUMED] * bool(self.statistics)
        return max(kinds, key=list(IntervalKind).index)

    @property
    def faint(self) -> Index:
        """The users whose weight is below one half in some measure: private."""
        return reduce(lambda a, b: merged(a, b)[0], (part.faint for part in self.measured))

    def measurements(self) -> Measurements:
        """Return the released numbers for post-processing, in the query's units."""

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
                units(lambda part: part.interval.low),
                units(lambda part: part.interval.high),
                units(lambda part: part.answer),
                sigmas,
                units(lambda part: part.interval.missing),
                z,
                self.statistics,
                self.kind in (IntervalKind.EXACT, IntervalKind.BOUNDED),
            ),
        )

    def _in_order(self, of: Callable[[WeightGroup], Sequence[Any]]) -> list[Any]:
        by_place = {
            i: x for part in self.measured for i, x in zip(part.which, of(part), strict=True)
        }
        return [by_place[i] for i in range(len(by_place))]
