"""The expected width of an answer, from released numbers alone, before anything is asked.

The question is measured as it would be (`sparseq.stream.weighted_answer.measure`), but nothing is
drawn: in place of what pilots and sums would release stands what the table's parents and column
pilots let expect if all of its rows were in it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.pilots import CELLS, RULES, Ladder, Parent, Reading, ladder, visible_top
from sparseq.accounting.pilots.choice import C_STEPS, ColumnValues, Risk, choose, column_of
from sparseq.accounting.pilots.posterior import Floats, nothing_read
from sparseq.base.defaults import beta_at
from sparseq.base.errors import QueryRefused
from sparseq.released.render import ERROR_SUFFIX, HIGH_SUFFIX, LOW_SUFFIX, columns_of, render
from sparseq.sql.plan import Kind, Measure, Options, Query
from sparseq.stream.joint_unit import Joint, JointMeasure, joint
from sparseq.stream.question import (
    ColumnPilot,
    ReleasedSums,
    factors,
    parent_in,
    parents_of,
    price_in,
    question_of,
    rows_of,
)
from sparseq.stream.stream_progress import Course
from sparseq.stream.weighted_answer import measured
from sparseq.stream.weighted_sums import WeightedSums

_SQUARES = 3
"""Squares are measured in units of which 2**3 are the size of one."""
_NOBODY = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Outlook:
    """A column of an answer, if all rows of the table were in it: public.

    Attributes:
        value, half_width: Of the column, the median over groups.
        signed: It may be negative.
    """

    value: float
    half_width: float
    signed: bool = False

    @property
    def useful(self) -> bool:
        """The interval isn't wider than the value; of what may be negative 0 is a value, too."""
        return self.signed or self.half_width <= abs(self.value)


def outlook(
    course: Course, query: Query, options: Options, budget: Budget, rows: int | None
) -> dict[str, Outlook]:
    """Return what each noised column is expected to be; nothing where too little was released.

    Args:
        course: Of the stream.
        query: The question.
        options: Of the question.
        budget: The store's.
        rows: The most that a person has in a table, if that was declared.
    """
    options = options.over(query.options)
    sums = _Foreseen(budget, course.about(query.span), rows, options)
    try:
        answer = measured(sums, query, options, beta_at(options.confidence))
    except _UnforeseenError:
        return {}
    table = render(answer.plan, answer.measurements())
    by_name = {}
    for name in columns_of(table):
        if name + ERROR_SUFFIX not in table.column_names:
            continue
        value, low, high = (
            [x for x in table[name + suffix].to_pylist() if x is not None and math.isfinite(x)]
            for suffix in ("", LOW_SUFFIX, HIGH_SUFFIX)
        )
        if len(value) == len(low) == len(high) > 0:
            half = [(b - a) / 2 for a, b in zip(low, high, strict=True)]
            by_name[name] = Outlook(statistics.median(value), statistics.median(half), min(low) < 0)
    return by_name


def refuse_no_use(
    course: Course, query: Query, options: Options, budget: Budget, rows: int | None
) -> None:
    """Refuse a question all of whose intervals are expected to be wider than their values.

    Args:
        course, query, options, budget, rows: See `outlook`.

    Raises:
        QueryRefused: It is one.
    """
    if why := doubt(outlook(course, query, options, budget, rows)):
        raise QueryRefused(
            why, "ask about more rows or in fewer groups, or pay for less noise (price 4 halves it)"
        )


def doubt(expected: Mapping[str, Outlook]) -> str:
    """Return in words that all intervals are expected to be wider than their values, or ""."""
    if not expected or any(one.useful for one in expected.values()):
        return ""
    told = f"{said(expected)}, if all rows were in it"
    return f"the interval is expected to be wider than the value: {told}"


def said(expected: Mapping[str, Outlook]) -> str:
    """Return what columns are expected to be, in words.

    Example:
        >>> said({"n": Outlook(69932.4, 1437.2), "share": Outlook(0.0351, 0.3)})
        'n about 69,900 ± 1,440, share about 0.0351 ± 0.300'
    """
    return ", ".join(
        f"{name} about {_round(one.value)} ± {_round(one.half_width)}"
        for name, one in expected.items()
    )


def _round(value: float) -> str:
    """Return a number with three digits."""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def least_half_width(
    course: Course, query: Query, options: Options, budget: Budget
) -> float | None:
    """Return the half-width of a count's interval if nobody counts more than once.

    Args:
        course, options, budget: See `outlook`.
        query: Of one measure. Of a sum it is None.
    """
    if query.measures[0].kind is Kind.SUM:
        return None
    asked = joint(query, options, budget)
    question = question_of(
        asked, course.about(query.span), options, budget, beta_at(options.confidence)
    )
    scale = question.scale if question.scale is not None else 1.0
    return float(question.z() * scale * budget.sigma_0 / math.sqrt(question.price))


def expected_widths(
    course: Course, query: Query, options: Options, budget: Budget
) -> tuple[float, ...]:
    """Return about how wide the intervals of each measure will be; 0 where nothing is known."""
    return tuple(
        _expected_width(course, replace(query, measures=(measure,)), options, budget)
        for measure in query.measures
    )


def _expected_width(course: Course, query: Query, options: Options, budget: Budget) -> float:
    sums = _Foreseen(budget, course.about(query.span), None, options)
    try:
        answer = measured(sums, query, options, beta_at(options.confidence))
    except _UnforeseenError:
        return least_half_width(course, query, options, budget) or 0.0
    low, high = answer.measurements().ends(0)
    return float((high - low).mean()) / 2


class _UnforeseenError(Exception):
    """Too little was released to expect anything."""


class _Foreseen(WeightedSums):
    """Expected numbers in place of released ones: nothing is drawn or charged.

    Args:
        budget, course, rows: See `WeightedSums`.
        options: Have the price.
    """

    def __init__(self, budget: Budget, course: Course, rows: int | None, options: Options) -> None:
        self.budget, self.rows, self.course = budget, rows, course
        self._base = price_in(options)
        self._column: ColumnValues | None = None

    def column(self, query: Query, pilot: ColumnPilot) -> ColumnValues:
        """Return what is known of a column's values."""
        asked = self.course.parents.get(pilot.key)
        if asked is None or query.relation.caps:
            raise _UnforeseenError
        noise = self.budget.sigma_0 / math.sqrt(pilot.price)
        self._column = column_of(pilot.edges, np.array(asked.people), noise)
        return self._column

    def parents(self, query: Query) -> Callable[[Joint], Parent]:
        """Return what the parents say of a question."""
        if self.course.life is not None:
            raise _UnforeseenError
        parents = {key: self._parent(key) for key in parents_of(query)}
        return lambda asked: parent_in(parents, asked)

    def _parent(self, key: str) -> Parent:
        asked = self.course.parents.get(key)
        if asked is None:
            raise _UnforeseenError
        return replace(self.course, epoch=asked.epoch).parent(key, self.budget.sigma_0)

    def chosen(
        self,
        asked: Joint,
        parent: Parent,
        options: Options,
        beta: float,
        part: float = 1.0,
        risk: Risk | None = None,
    ) -> ReleasedSums:
        """Choose C from what pilots are expected to show; return the sums that are expected."""
        question = question_of(asked, self.course, options, self.budget, beta, part)
        of, rows = ladder(asked.most, question.least_allowance), self._rows(asked.query)
        norms, measures = parent, asked.query.measures
        if all(m.kind is Kind.USERS for m in measures):
            norms = _in_groups(rows)
        elif any(m.role and factors(m) for m in measures):
            norms = rows.shift(_SQUARES if len(measures) == 1 else 1)
        reading = self._read(question.pilots, norms, of)
        choice = choose(question, reading, self.within(parent, asked.query, question), risk=risk)
        plan = asked.after(choice.steps / C_STEPS, question.price, self.budget, beta)
        expected = [self._expect(one, asked, rows, parent) for one in asked.parts]
        return ReleasedSums(plan, asked, choice, np.concatenate(expected), _NOBODY)

    def _read(self, pilots: bool, parent: Parent, of: Ladder) -> Reading:
        if not pilots or parent.samples is None:
            return nothing_read(of)
        people = np.median(parent.samples, axis=0)[:CELLS]
        beyond = people[of.cap + 1 :].sum()
        people = np.where(np.arange(CELLS) <= of.cap, people, 0.0)
        people[of.cap] += beyond
        sd = np.full(CELLS, self.budget.sigma_0 / math.sqrt(1 / RULES.first + 1 / RULES.second))
        return Reading(of, people, sd, min(visible_top(people, sd, RULES), of.cap))

    def _rows(self, query: Query) -> Parent:
        """Return people by their rows in the table."""
        if not query.relation.stored:
            raise _UnforeseenError
        parent = self._parent(rows_of(query.relation.stored))
        if parent.samples is None:
            raise _UnforeseenError
        return parent

    def _expect(self, one: JointMeasure, asked: Joint, rows: Parent, parent: Parent) -> Floats:
        """Return a measure's values in joint units, were all rows of the table in the question."""
        measure, groups = one.measure, asked.query.groups
        number = _norms(rows) / groups
        if measure.kind is Kind.USERS:
            assert rows.samples is not None
            people = float(np.median(rows.samples.sum(axis=1)))
            return np.full(groups, min(people, number))
        if measure.kind is Kind.ROWS:
            return np.tile(number * self._shares(measure), groups)
        if measure.role and factors(measure):
            if factors(measure) == 1:
                return np.zeros(groups)
            if measure.bounds is not None and measure.bounds[0] < 0:
                raise _UnforeseenError  # how two values go together
            return np.full(groups, number * 2.0**_SQUARES)
        if len(asked.parts) == 1 and parents_of(asked.query):
            return np.full(groups, _norms(parent) / groups)
        if self._column is None:
            raise _UnforeseenError
        return np.full(groups, number * self._column.centre / one.unit)

    def _shares(self, measure: Measure) -> Floats:
        """Return the shares of rows in each bin of a measure."""
        column = self._column
        if measure.bins == 1 or column is None or not measure.role:
            return np.full(measure.bins, 1 / measure.bins)
        below = np.interp(measure.edges, column.edges, column.below)
        below[0], below[-1] = 0.0, 1.0  # the nearest bin has what lies outside
        return np.diff(below)


def _norms(parent: Parent) -> float:
    """Return what norms add up to."""
    assert parent.samples is not None
    return float(np.median(parent.samples[:, :CELLS] @ np.ldexp(1.0, np.arange(CELLS))))


def _in_groups(rows: Parent) -> Parent:
    """Return people by the root of their rows: who has r rows is in r groups at most."""
    assert rows.samples is not None
    samples = np.zeros_like(rows.samples)
    for cell in range(CELLS):
        samples[:, (cell + 1) // 2] += rows.samples[:, cell]
    return Parent(samples)
