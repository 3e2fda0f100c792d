"""A question as the choice of C sees it: public facts, and the price of its noise."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparseq.accounting import Budget
from sparseq.accounting.pilots.choice import Choice, Question, value_edges
from sparseq.accounting.pilots.pilot_interval import (
    AverageScale,
    Ends,
    Interval,
    IntervalKind,
    interval,
)
from sparseq.accounting.pilots.posterior import NO_PARENT, Floats, Parent
from sparseq.base.defaults import PRICE
from sparseq.engine.contributions import Index
from sparseq.language.expression_tree import Term
from sparseq.released.outputs import Intervals, Measurements, StatisticKey
from sparseq.released.render import key_columns
from sparseq.sql.aggregates import bin_of, even_bins, less, times
from sparseq.sql.plan import (
    ALIKE,
    AVERAGE,
    PAIR,
    PROVED,
    VARIANCE,
    Cell,
    Kind,
    Measure,
    Options,
    Plan,
    Query,
    Relation,
    Statistic,
)
from sparseq.stream.joint_unit import BELOW, LEAST_PRICE, Joint
from sparseq.stream.stream_progress import WEIGHTS, Course

# -- pilots that are asked once for many questions: of parents, and of a column's values -----------

OWN_PRICE = 0.25
"""Of a column pilot that serves one question."""


@dataclass(frozen=True)
class ColumnPilot:
    """A column pilot that a question needs: public.

    Attributes:
        key: Its name, "" where it serves this question only.
        query: Rows by value.
        edges: Of its cells.
        price: What it costs a person at most.
    """

    key: str
    query: Query
    edges: Floats
    price: float


def column_pilot(query: Query, measure: Measure) -> ColumnPilot | None:
    """Return the column pilot of a sum's values; None: nothing bounds them.

    It is of all rows of the same stored table where the value is of its columns; else, and where
    conditions are part of the value, of the rows of the question.
    """
    if measure.kind is not Kind.SUM or measure.bounds is None or measure.value is None:
        return None
    low, high = measure.bounds
    if not low < high:
        return None
    edges = value_edges(low, high)
    places = tuple(edges.tolist())
    value, table = measure.value, query.relation.stored
    rows = Measure(Kind.ROWS, None, "values", edges=places, bin=bin_of(value, places, nearest=True))
    shared = table and value.term is not None
    relation = query.relation
    if shared:
        relation = all_rows(query)
    asked = Query("pilot: values", relation, (), (rows,), None)
    key = f"values of {value.sql} in {table} within {low!r}..{high!r}" if shared else ""
    return ColumnPilot(key, asked, edges, 1.0 if shared else OWN_PRICE)


def own_pilot(pilot: ColumnPilot, query: Query) -> ColumnPilot:
    """Return a column pilot of the rows of one question alone."""
    asked = replace(pilot.query, relation=query.relation)
    return replace(pilot, key="", query=asked, price=OWN_PRICE)


def quantile_pilot(query: Query, measure: Measure) -> ColumnPilot | None:
    """Return the column pilot of a quantile's values; None: its bins were given."""
    term = None if measure.bin is None else measure.bin.term
    if (
        not measure.role
        or term is None
        or measure.edges != even_bins(measure.edges[0], measure.edges[-1])
    ):
        return None
    value = Cell.of(term.arguments[0])
    ends = measure.edges[0], measure.edges[-1]
    values = Measure(Kind.SUM, value, measure.label, scale=max(map(abs, ends)), bounds=ends)
    return column_pilot(query, values)


def binned_anew(measure: Measure, edges: tuple[float, ...]) -> Measure:
    """Return rows by bin with other bins."""
    assert measure.bin is not None
    assert measure.bin.term is not None
    place = bin_of(Cell.of(measure.bin.term.arguments[0]), edges, nearest=True)
    return replace(measure, edges=edges, bin=place)


def once_for(query: Query) -> list[str]:
    """Return what is asked once for many questions, before measures that share a weight, at most:
    the names of parent and column pilots."""
    pilots = [column_pilot(query, m) or quantile_pilot(query, m) for m in query.measures if m.role]
    columns = [one.key for one in pilots if one is not None and one.key]
    return [*parents_of(query), *people_of(query), *dict.fromkeys(columns)]


def all_rows(query: Query) -> Relation:
    """Return all rows of a question's stored table."""
    table = query.relation.sql.replace("FROM by_time.", "FROM by_user.", 1)
    return replace(query.relation, sql=table, where="", conditions=())


def parents_of(query: Query) -> dict[str, Query]:
    """Return the parent pilots that say something of a question, by their names.

    They are of all rows of the same stored table, and, for a sum of a column that is never
    negative, of the column's total per person.
    """
    table = query.relation.stored
    kinds = {m.kind for m in query.measures}
    if not table or kinds == {Kind.USERS}:
        return {}
    parents = {}
    if kinds != {Kind.SUM}:
        parents[rows_of(table)] = _parent(query, Measure(Kind.ROWS, None, "rows"))
    for measure in query.measures:
        if measure.kind is Kind.SUM and _column(measure):
            parents[_sum_of(measure, table)] = _parent(query, replace(measure, edges=(), bin=None))
    return parents


def people_of(query: Query) -> dict[str, Query]:
    """Return the pilot of people by how they have faded, by its name; none but of stored tables."""
    table = query.relation.stored
    if not table:
        return {}
    return {f"{WEIGHTS}{table}": _parent(query, Measure(Kind.USERS, None, "people"))}


def rows_of(table: str) -> str:
    """Return the name of the parent pilot of a table's rows."""
    return f"rows of {table}"


def _sum_of(measure: Measure, table: str) -> str:
    return f"sum of {_column(measure)} in {table} up to {measure.scale!r}"


def parent_in(parents: Mapping[str, Parent], asked: Joint) -> Parent:
    """Return what parents say of a question, in its joint unit: people of each of its measures.

    A sum without a parent of its own is taken for up to twice a person's rows, at the size of a
    value that is its unit.
    """
    table = asked.query.relation.stored
    rows, together = parents.get(rows_of(table), NO_PARENT), NO_PARENT
    for part in asked.parts:
        measure = part.measure
        own = parents.get(_sum_of(measure, table)) if measure.kind is Kind.SUM else rows
        if measure.kind is not Kind.SUM:
            together = together.add(rows)
            continue
        greatest = math.ceil(math.log2((measure.scale or part.unit) / part.unit) - 1e-9)
        mine = rows.shift(min(greatest, 1)) if own is None else own.shift(greatest - BELOW)
        together = together.add(mine)
    return together


def centred_total(total: Measure, centre: float, spread: float) -> tuple[Measure, float]:
    """Return the sum of values less a centre, and the centre: a short binary number.

    Example:
        >>> from sparseq.sql.plan import Cell
        >>> sum_ = Measure(Kind.SUM, Cell("x"), "sum of x", False, 8.0, bounds=(0.0, 8.0))
        >>> shifted, centre = centred_total(sum_, 2.7, 0.5)
        >>> centre, shifted.bounds, shifted.scale
        (2.6875, (-2.6875, 5.3125), 5.3125)
    """
    step = math.ldexp(1.0, math.floor(math.log2(spread)) - 4)
    centre = round(centre / step) * step
    assert total.value is not None
    assert total.bounds is not None
    bounds = total.bounds[0] - centre, total.bounds[1] - centre
    value = less(total.value, centre)
    scale = max(map(abs, bounds))
    return replace(total, value=value, bounds=bounds, scale=scale, integral=False), centre


def factors(measure: Measure) -> int:
    """Return of how many values about a centre a sum is: 1, 2 of products, 0 of anything else.

    Example:
        >>> from sparseq.sql.plan import Cell
        >>> from sparseq.language.expression_tree import Term
        >>> from sparseq.language.types import DOUBLE
        >>> x = Measure(Kind.SUM, Cell.of(Term(DOUBLE, "x", column="x")), "sum of x", bounds=(0, 8))
        >>> about, _ = centred_total(x, 2.5, 0.5)
        >>> factors(x), factors(about), factors(product_of(about, about, about, 0.3))
        (0, 1, 2)
    """
    term = None if measure.value is None else measure.value.term
    if (not measure.role and measure.kind is not Kind.SUM) or term is None:
        return 0
    if term.function == "*":
        return 2 * all(one.function == "-" for one in term.arguments)
    return int(term.function == "-")


def product_of(x: Measure, y: Measure, products: Measure, size: float) -> Measure:
    """Return the sum of products of two values about their centres, or of squares of one.

    Its lattice has 2**17 steps to the greatest product, or up to 2**8 as many where values lie in a
    small part of their bounds: then a person may have 64 rows of the greatest product in a cell.

    Args:
        x, y: Sums of the values about their centres; the same: squares.
        products: What is asked for.
        size: Of a product, about.

    Example:
        >>> from sparseq.sql.plan import Cell
        >>> about = Measure(Kind.SUM, Cell("x"), "sum", False, 8.0, bounds=(-4.0, 8.0))
        >>> one = product_of(about, about, about, 0.01)
        >>> one.bounds, one.scale
        ((0.0, 64.0), 1.0)
    """
    assert x.value is not None
    assert y.value is not None
    assert x.bounds is not None
    assert y.bounds is not None
    ends = [a * b for a in x.bounds for b in y.bounds]
    most = max(map(abs, ends))
    finer = min(max(math.floor(math.log2(most / size)) - 6, 0), 8)
    return replace(
        products,
        value=times(x.value, y.value),
        bounds=(0.0 if x is y else min(ends), max(ends)),
        scale=math.ldexp(most, -finer),
        integral=False,
    )


def _parent(query: Query, measure: Measure) -> Query:
    return Query(f"pilot: {measure.label}", all_rows(query), (), (measure,), None)


def _column(measure: Measure) -> str:
    """Return the column that a sum is of, where it is never negative; "" for anything else."""
    term = None if measure.value is None else without_casts(measure.value.term)
    if term is None or measure.bounds is None or measure.bounds[0] < 0:
        return ""
    return measure.cut or term.column


def without_casts(term: Term | None) -> Term | None:
    """Return what a term is a cast of."""
    while term is not None and term.function.startswith("cast") and len(term.arguments) == 1:
        term = term.arguments[0]
    return term


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
        once
        and scale is None
        and not declared
        and options.precision is None
        and any(
            course.fading(key, budget.sigma_0).samples is not None for key in people_of(asked.query)
        )
    )
    if scale is None and once and 1 / a_min <= (MOST_EXACT_MEASURED if as_all else MOST_EXACT):
        scale = 1 / a_min  # nobody can be above it: no pilots, and noise alone
        as_all = False
    return Question(
        coordinates=asked.query.coordinates,
        cells=asked.cells,
        signed=asked.signed,
        sigma_0=budget.sigma_0,
        beta=beta,
        price=base * part,
        least_allowance=a_min,
        pilots=not as_all and needs_pilots(asked.most, scale, a_min),
        declared=declared,
        scale=scale,
        most_scale=asked.most_scale,
        reach=asked.reach,
        people=asked.by_type,
        faded_as_all=as_all,
    )


def price_in(options: Options) -> float:
    """Return the price that is asked for, or 1."""
    return PRICE if options.price is None else options.price


def price_choice(choice: Choice, options: Options, asked: Joint, most: float) -> Choice:
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
        """Most answers that it is, in price, and the number of its pilots."""
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
        interval = self.interval
        value, low, high = (
            self.joint.in_units(some)[0][:, 0]
            for some in (interval.value, interval.low, interval.high)
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
        """The ground of the least sure of the intervals."""
        kinds = [part.interval.kind for part in self.measured]
        kinds += [IntervalKind.ASSUMED] * bool(self.statistics)
        return max(kinds, key=list(IntervalKind).index)

    @property
    def price(self) -> float:
        """The highest of the prices."""
        return max(part.choice.of.price for part in self.measured)

    @property
    def faint(self) -> Index:
        """The people whose weight is below one half in some measure: private."""
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
