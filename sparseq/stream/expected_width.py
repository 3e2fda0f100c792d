"""The expected width of an answer, from released numbers alone, before the question is asked.

The question takes its usual steps (`sparseq.stream.weighted_answer.measured`), but no noise is
drawn: the releases of pilots and sums are replaced by the values that the table's parents and
column pilots predict if all rows of the table are in the question.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.pilots import (
    CELLS,
    NO_PARENT,
    PILOTS,
    Ladder,
    Parent,
    Reading,
    ladder,
    visible_top,
)
from sparseq.accounting.pilots.choice import C_STEPS, Question, Risk, choose
from sparseq.accounting.pilots.column_values import ColumnValues, column_of
from sparseq.accounting.pilots.ladder import Floats
from sparseq.accounting.pilots.noised_pilot import nothing_read
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.accounting.pilots.sample_quantiles import SampleColumns, median
from sparseq.base.defaults import PRICE, beta_at
from sparseq.base.errors import QueryRefused
from sparseq.question.plan import Kind, Measure, Options, Query
from sparseq.released.render import render
from sparseq.released.result_columns import ColumnRole, column_parts
from sparseq.stream.joint_unit import Joint, JointMeasure, joint
from sparseq.stream.parent_pilots import known_parent
from sparseq.stream.part_price import PartPrice
from sparseq.stream.question import answers_in, price_in, question_of, with_costs
from sparseq.stream.shared_pilots import (
    ColumnPilot,
    counted_before,
    factors,
    parent_in,
    parents_of,
    rows_in,
    rows_of,
)
from sparseq.stream.stream_progress import Course
from sparseq.stream.weighted_answer import asked_parts, measured
from sparseq.stream.weighted_parts import ReleasedSums
from sparseq.stream.weighted_sums import WeightedSums
from sparseq.stream.wish_price import ExpectedPart

_SQUARES = 3
"""The typical size of a square is 2**3 units."""
_NOBODY = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Outlook:
    """The expected values of an answer's column, if all rows of the table are in it: public.

    Attributes:
        value, half_width: The medians over groups.
        signed: The value may be negative.
    """

    value: float
    half_width: float
    signed: bool = False

    @property
    def useful(self) -> bool:
        """The interval is not wider than the value, or values of both signs are possible."""
        return self.signed or self.half_width <= abs(self.value)


def outlook(
    course: Course,
    query: Query,
    options: Options,
    budget: Budget,
    rows: int | None,
    prices: Sequence[PartPrice],
) -> dict[str, Outlook]:
    """Return the outlook of each noised column; empty if too little was released.

    Args:
        course: The stream's course.
        query: The question.
        options: The question's options.
        budget: The store's budget.
        rows: The declared maximum of rows per user in a table, if any.
        prices: The prices of the question's parts.
    """
    options = options.over(query.options)
    course = with_costs(course.about(query.span), query, options, budget)
    sums = _Foreseen(budget, course, rows)
    try:
        answer = measured(sums, query, options, prices, beta_at(options.confidence))
    except _UnforeseenError:
        return {}
    table = render(answer.plan, answer.measurements())
    by_name = {}
    for name, parts in column_parts(table).items():
        if ColumnRole.VALUE not in parts:
            continue
        value, low, high = (
            [x for x in table[parts[role]].to_pylist() if x is not None and math.isfinite(x)]
            for role in (ColumnRole.VALUE, ColumnRole.LOW, ColumnRole.HIGH)
        )
        if len(value) == len(low) == len(high) > 0:
            half = [(b - a) / 2 for a, b in zip(low, high, strict=True)]
            by_name[name] = Outlook(statistics.median(value), statistics.median(half), min(low) < 0)
    return by_name


def refuse_no_use(
    course: Course,
    query: Query,
    options: Options,
    budget: Budget,
    rows: int | None,
    prices: Sequence[PartPrice],
) -> None:
    """Refuse a question whose intervals are all expected to be wider than their values.

    Args:
        course, query, options, budget, rows, prices: See `outlook`.

    Raises:
        QueryRefused: All intervals are expected to be wider than their values.
    """
    if why := doubt(outlook(course, query, options, budget, rows, prices)):
        raise QueryRefused(
            why,
            "ask about more rows or in fewer groups, or pay more: a price of 4 about halves noise",
        )


def doubt(expected: Mapping[str, Outlook]) -> str:
    """Return a warning that all intervals are expected to be wider than their values, or ""."""
    if not expected or any(one.useful for one in expected.values()):
        return ""
    told = f"{said(expected)}, if all rows were in it"
    return f"the interval is expected to be wider than the value: {told}"


def said(expected: Mapping[str, Outlook]) -> str:
    """Return the expected values of columns, in words.

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
    course: Course, query: Query, options: Options, budget: Budget, pays: PartPrice | None = None
) -> float | None:
    """Return the half-width of a count's interval if no user counts more than once.

    Args:
        course, options, budget: See `outlook`.
        query: A question with one measure; for a sum the result is None.
        pays: The price of its part; None: the price in the options.
    """
    if query.measures[0].kind is Kind.SUM:
        return None
    asked = joint(query, options, budget)
    course = with_costs(course.about(query.span), query, options, budget)
    pays = PartPrice.of(price_in(options)) if pays is None else pays
    question = question_of(asked, course, options, budget, beta_at(options.confidence), pays)
    scale = min(question.scale if question.scale is not None else 1.0, question.most_scale)
    return float(question.z() * scale * budget.sigma_0 / math.sqrt(question.price))


def expected_widths(
    course: Course, query: Query, options: Options, budget: Budget
) -> tuple[float, ...]:
    """Return the approximate half-width of each measure's intervals; 0 where it is unknown.

    It is unknown for a statistic such as an average, whose width depends on several measures.
    """
    if query.statistics:
        return (0.0,) * len(query.measures)
    return tuple(
        _expected_width(course, replace(query, measures=(measure,)), options, budget)
        for measure in query.measures
    )


def _expected_width(course: Course, query: Query, options: Options, budget: Budget) -> float:
    course = with_costs(course.about(query.span), query, options, budget)
    sums = _Foreseen(budget, course, None)
    pays = PartPrice.of(price_in(options), answers_in(query))
    prices = (pays,) * len(asked_parts(query, options))
    try:
        answer = measured(sums, query, options, prices, beta_at(options.confidence))
    except _UnforeseenError:
        return least_half_width(course, query, options, budget) or 0.0
    low, high = answer.measurements().ends(0)
    return float((high - low).mean()) / 2


def expected_part(
    course: Course, budget: Budget, query: Query, options: Options, asked: Joint, pays: PartPrice
) -> ExpectedPart | None:
    """Return the expected numbers of a part if all rows of its table are in it.

    Args:
        course, budget, options: See `outlook`.
        query: The question with the part's measures.
        asked: The part in its joint unit.
        pays: The price of the part.
    """
    sums = _Foreseen(budget, course.about(query.span), None)
    sums.paying = pays
    try:
        parent = sums.parents(query)(asked)
        found = sums.chosen(asked, parent, options, beta_at(options.confidence))
    except _UnforeseenError:
        return None
    means = [np.abs(part).mean() for part in np.split(found.answer, _ends_of(asked))]
    between = interval(found.choice, found.answer)
    half_width = median((between.high - between.low) / 2)
    return ExpectedPart(found.choice.missing.scale, float(min(means)), half_width)


def _ends_of(asked: Joint) -> list[int]:
    sizes = [asked.query.groups * part.measure.bins for part in asked.parts]
    return [int(end) for end in np.cumsum(sizes)[:-1]]


class _UnforeseenError(Exception):
    """Too little was released to expect anything."""


class _Foreseen(WeightedSums):
    """Expected numbers in place of released ones: nothing is drawn or charged.

    Args:
        budget, course, rows: See `WeightedSums`.
    """

    def __init__(self, budget: Budget, course: Course, rows: int | None) -> None:
        self.budget, self.rows, self.course = budget, rows, course
        self.paying, self.highest = PartPrice.of(PRICE), 0.0
        self._column: ColumnValues | None = None

    def column(self, query: Query, pilot: ColumnPilot) -> ColumnValues:
        """Return the released distribution of a column's values."""
        asked = self.course.parents.get(pilot.key)
        if asked is None or query.relation.caps:
            raise _UnforeseenError
        noise = self.budget.sigma_0 / math.sqrt(pilot.price)
        self._column = column_of(pilot.edges, np.array(asked.people), noise)
        return self._column

    def parents(self, query: Query) -> Callable[[Joint], Parent]:
        """Return a function from a question to the parent that its parent pilots yield."""
        if self.course.life is not None:
            raise _UnforeseenError
        parents = {key: self._parent(key) for key in parents_of(query)}
        return lambda asked: parent_in(parents, asked)

    def _parent(self, key: str) -> Parent:
        asked = self.course.parents.get(key)
        if asked is None:
            raise _UnforeseenError
        return known_parent(replace(self.course, epoch=asked.epoch), key, self.budget.sigma_0)

    def chosen(
        self,
        asked: Joint,
        parent: Parent,
        options: Options,
        beta: float,
        part: float = 1.0,
        risk: Risk | None = None,
    ) -> ReleasedSums:
        """Choose C from the expected readings of pilots, and return the expected sums."""
        pays, budget = self.paying, self.budget
        question = question_of(asked, self.course, options, budget, beta, pays, part)
        of, measures = ladder(asked.most, question.least_allowance), asked.query.measures
        norms, rows = parent, parent if _has_parent(asked) else self._rows(asked.query)
        if all(m.kind is Kind.USERS for m in measures):
            norms = _in_groups(rows)
        elif any(m.role and factors(m) for m in measures):
            norms = rows.shift(_SQUARES if len(measures) == 1 else 1)
        reading, prior = self._read(question, norms, of), parent
        if question.pilots and counted_before(asked, self.course, pays) is not None:
            noise = math.sqrt(PILOTS.parent) * budget.sigma_0
            reading, prior = reading.with_another(reading.people, noise), NO_PARENT
        choice = choose(question, reading, prior.fade(1 / question.least_allowance), risk=risk)
        plan = asked.after(choice.steps / C_STEPS, choice.of.price, budget, beta)
        expected = [self._expect(one, asked, rows, parent) for one in asked.parts]
        answer = np.concatenate(expected)
        if choice.missing.kept is not None:
            answer = np.maximum(answer - median(choice.missing.lost), 0.0)
        return ReleasedSums(plan, asked, choice, answer, _NOBODY)

    def _read(self, question: Question, parent: Parent, of: Ladder) -> Reading:
        if not question.pilots or parent.samples is None:
            return nothing_read(of)
        people = SampleColumns(parent.samples).medians()[:CELLS]
        beyond = people[of.cap + 1 :].sum()
        people = np.where(np.arange(CELLS) <= of.cap, people, 0.0)
        people[of.cap] += beyond
        sd = np.full(CELLS, self.budget.sigma_0 / math.sqrt(sum(question.pilot_prices)))
        return Reading(of, people, sd, min(visible_top(people, sd), of.cap))

    def _rows(self, query: Query) -> Parent:
        """Return the parent of users by their number of rows in the table."""
        if not query.relation.stored:
            raise _UnforeseenError
        parent = self._parent(rows_of(rows_in(query)))
        if parent.samples is None:
            raise _UnforeseenError
        return parent

    def _expect(self, one: JointMeasure, asked: Joint, rows: Parent, parent: Parent) -> Floats:
        """Return a measure's values in joint units, if all rows of the table are in it."""
        measure, groups = one.measure, asked.query.groups
        if _has_parent(asked):
            return np.full(groups, _norms(parent) / groups)
        number = _norms(rows) / groups
        if measure.kind is Kind.USERS:
            assert rows.samples is not None
            people = median(rows.samples.sum(axis=1))
            return np.full(groups, min(people, number))
        if measure.kind is Kind.ROWS:
            return np.tile(number * self._shares(measure), groups)
        if measure.role and factors(measure):
            if factors(measure) == 1:
                return np.zeros(groups)
            if measure.bounds is not None and measure.bounds[0] < 0:
                raise _UnforeseenError  # the correlation of two values
            return np.full(groups, number * 2.0**_SQUARES)
        if self._column is None:
            raise _UnforeseenError
        return np.full(groups, number * self._column.centre / one.unit)

    def _shares(self, measure: Measure) -> Floats:
        """Return the shares of rows in each bin of a measure."""
        column = self._column
        if measure.bins == 1 or column is None or not measure.role:
            return np.full(measure.bins, 1 / measure.bins)
        below = np.interp(measure.edges, column.edges, column.below)
        below[0], below[-1] = 0.0, 1.0  # outer values are in the nearest bin
        return np.diff(below)


def _has_parent(asked: Joint) -> bool:
    """Tell whether a question is a sum with a parent pilot of its own column."""
    measure = asked.query.measures[0]
    plain = len(asked.parts) == 1 and measure.kind is Kind.SUM and not measure.role
    return plain and bool(parents_of(asked.query))


def _norms(parent: Parent) -> float:
    """Return the sum of the users' norms."""
    assert parent.samples is not None
    return median(parent.samples[:, :CELLS] @ np.ldexp(1.0, np.arange(CELLS)))


def _in_groups(rows: Parent) -> Parent:
    """Return users by the root of their rows: a user with r rows is in r groups at most."""
    assert rows.samples is not None
    samples = np.zeros_like(rows.samples)
    for cell in range(CELLS):
        samples[:, (cell + 1) // 2] += rows.samples[:, cell]
    return Parent(samples)
