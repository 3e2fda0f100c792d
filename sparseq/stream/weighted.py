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
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting import Budget, Price, sigma_for_scale
from sparseq.accounting.cut import (
    CELLS,
    NO_PARENT,
    RULES,
    Ladder,
    Parent,
    Reading,
    ladder,
    visible_top,
)
from sparseq.accounting.cut.average import (
    AverageScale,
    Ends,
    apart,
    average_about_centre,
    average_of_sums,
    average_risk,
    variance,
)
from sparseq.accounting.cut.choice import C_STEPS, Risk, choose, upper
from sparseq.accounting.cut.column import ColumnValues, column_of
from sparseq.accounting.cut.interval import interval
from sparseq.accounting.cut.quantile import quantile, quantile_edges, quantile_risk
from sparseq.accounting.cut.reading import nothing_read
from sparseq.engine.contributions import Contributions
from sparseq.engine.reduce import Index, Ints
from sparseq.engine.weighing import Weights
from sparseq.ledger.accounts import Accounts
from sparseq.mechanisms import Entropy, rounded_gaussian
from sparseq.query.outputs import StatisticKey
from sparseq.query.plan import (
    AVERAGE,
    QUANTILE,
    VARIANCE,
    Kind,
    Noise,
    Options,
    Plan,
    Query,
    Statistic,
)
from sparseq.stream.bill import Bill
from sparseq.stream.contributors import Contributors, contributors, together
from sparseq.stream.course import Course
from sparseq.stream.joint import Joint, joint
from sparseq.stream.parents import (
    ColumnPilot,
    binned_anew,
    centred_total,
    column_pilot,
    parent_in,
    parents_of,
    quantile_pilot,
    squares_of,
)
from sparseq.stream.parts import (
    ReleasedSums,
    WeightedAnswer,
    WeightedPart,
    WeightGroup,
    parts_of,
)
from sparseq.stream.question import priced, question_of
from sparseq.stream.weights import PILOT_BITS

Floats = NDArray[np.float64]
_ALL_PARTS = 1.5


class WeightedStep:
    """One question on its way: what is the same for all of its parts.

    Args:
        budget: The store's.
        accounts: Of all people.
        course: How far the stream has come.
        contributions: Says what everybody contributes to a plan.
        foresee: Told, before any noise is drawn, which plans are going to be asked for.
        entropy: Of a part of this release, by its name.
        rows: The most that a person has in a table, if that was declared.
    """

    def __init__(
        self,
        budget: Budget,
        accounts: Accounts,
        course: Course,
        contributions: Callable[[Plan], Contributions],
        foresee: Callable[[Sequence[Plan]], None],
        entropy: Callable[[str], Entropy],
        rows: int | None,
    ) -> None:
        self._rows, self._foresee = rows, foresee
        self._budget, self._accounts, self._course = budget, accounts, course
        self._contributions, self._entropy = contributions, entropy
        self._bill = Bill(accounts)
        self._worst = 0.0  # price of the pilots
        self._base = 1.0  # price that allowances were made for
        self._turn = 0  # which of its parts it is about

    def answer(self, query: Query, options: Options) -> WeightedAnswer:
        """Answer a question; see `sparseq.stream.weighted`."""
        options = options.over(query.options)
        beta = 1 - (options.confidence if options.confidence is not None else 0.95)
        self._base = options.price if options.price is not None else 1.0
        parts = parts_of(query)
        beta_each = beta / len(parts)
        # a given C is of rows and sums; people who are counted beside them have their own
        own = [replace(options, scale=None) if i else options for i in range(len(parts))]
        asked = [part.of(query) for part in parts]
        for some, one in zip(asked, own, strict=True):
            self._refuse_what_has_no_scale(some, one)
        self._foresee([
            plan
            for some, part, one in zip(asked, parts, own, strict=True)
            for plan in self._plans(some, part, one, beta_each)
        ])  # fmt: skip
        methods = {
            AVERAGE: self._average, QUANTILE: self._quantiles, VARIANCE: self._variance,
        }  # fmt: skip
        measured, told = list[WeightGroup](), dict[StatisticKey, Ends]()
        for some, part, one in zip(asked, parts, own, strict=True):
            if part.statistic is None:
                measured.append(self._measured(some, part.which, one, beta_each))
                continue
            method = methods[part.statistic.role]
            groups, found = method(some, part.statistic, one, beta_each)
            measured += groups
            told |= found
        course = replace(self._course, answers=self._course.answers + 1)
        users, charges = self._bill.users, self._bill.charges
        return WeightedAnswer(query, beta, tuple(measured), course, users, charges, told)

    def _refuse_what_has_no_scale(self, query: Query, options: Options) -> None:
        """Refuse, before any noise, what the later parts of a question could be refused for: sums
        without a scale, and values about a centre, and their squares, that are too far apart."""
        joint(query, options, self._budget)
        for measure in query.measures:
            if measure.role and measure.kind is Kind.SUM and measure.bounds is not None:
                wide = measure.bounds[1] - measure.bounds[0]
                for factor in (2.0**-12, 4.0):  # squares about any centre, on any lattice of theirs
                    far = replace(measure, scale=factor * max(wide, measure.scale or 0.0))
                    joint(replace(query, measures=(far,)), options, self._budget)

    def _measured(
        self,
        query: Query,
        which: tuple[int, ...],
        options: Options,
        beta: float,
        part: float = 1.0,
    ) -> WeightGroup:
        """Release the pilots and the sums of measures with one weight, at a part of the price."""
        parent = self._parents(query)
        units = self._units(query)
        asked = joint(query, options, self._budget, self._rows, units)
        released = self._chosen(asked, parent(asked), options, beta, part)
        between = interval(released.choice, released.answer)
        return released.group(which, between)

    def _chosen(
        self,
        asked: Joint,
        parent: Parent,
        options: Options,
        beta: float,
        part: float = 1.0,
        risk: Risk | None = None,
    ) -> ReleasedSums:
        """Release pilots, choose C, and release the sums under weights."""
        self._turn += 1
        price = self._base * part
        made = self._contributions(asked.before(beta))
        users, norms = together([(m.users, m.norms) for m in made.measures])
        people = self._people(users, norms, asked, self._base)
        least = self._course.least_allowance(self._base)
        question = question_of(asked, least, self._budget, beta, price)
        of = ladder(asked.most, question.least_allowance)
        reading = self._pilots(people, of) if question.pilots else nothing_read(of)
        choice = choose(question, reading, parent.shift(question.faded), risk=risk)
        choice = priced(choice, options, asked, self._course.tau / _ALL_PARTS)
        scale, price = choice.steps / C_STEPS, choice.of.price
        plan, answer, faint = self._weigh(asked, made, people, scale, price, beta)
        most = asked.most / scale / question.least_allowance
        worst = self._worst + price * min(1.0, most * most)
        self._course, self._worst = self._course.after(worst, self._base), 0.0
        return ReleasedSums(plan, asked, choice, answer, faint)

    def _weigh(
        self,
        asked: Joint,
        made: Contributions,
        people: Contributors,
        scale: float,
        price: float,
        beta: float,
        name: str = "sums",
    ) -> tuple[Plan, Floats, Index]:
        """Release sums under weights: the plan, they in joint units, and who counts for little."""
        plan = asked.after(scale, price, self._budget, beta)
        found = people.weigh(scale, asked.prices(plan))
        self._bill.put(people.dues)
        sums = made.weighted(
            Weights(found.users, found.mantissa, found.exponent, asked.shifts(plan))
        )
        entropy = self._noise_of(name)
        noised = [
            total + rounded_gaussian(noise.lattice_sigma, len(total), entropy)
            for total, noise in zip(sums, plan.noise, strict=True)
        ]
        return plan, asked.answer(plan, noised), found.faint

    # -- statistics ------------------------------------------------------------------------------

    def _average(
        self, query: Query, asked_for: Statistic, options: Options, beta: float
    ) -> tuple[list[WeightGroup], dict[StatisticKey, Ends]]:
        """Release the rows and the sum of an average: about a centre, or apart."""
        which, key = asked_for.places, (AVERAGE, asked_for.places, 0.0)
        number, total = query.measures
        pilot = column_pilot(query, total)
        assert pilot is not None
        assert total.bounds is not None
        column = self._column(query, pilot)
        once = not query.relation.stored
        if apart(column) or query.relation.caps:
            groups = [
                self._measured(
                    replace(query, measures=(measure,)), (place,), options, beta / 2, 0.5
                )
                for measure, place in zip(query.measures, which, strict=True)
            ]
            about = AverageScale(column.centre, column.spread, 1.0, once, total.bounds)
            number_of, total_of = (group.ends() for group in groups)
            of = replace(groups[0].choice.of, beta=beta)
            z = upper(beta / 4 / query.groups)
            return groups, {key: average_of_sums(total_of, number_of, about, z, of)}
        shifted, centre = centred_total(total, column.centre, column.spread)
        asked = replace(query, measures=(number, shifted))
        half = round(math.log2(column.spread / 2))
        counted = joint(replace(query, measures=(number,)), Options(), self._budget)
        parent = self._parents(counted.query)(counted).shift(2)  # values are about two units off
        whole = joint(asked, options, self._budget, self._rows, {1: half})
        unit, grain = whole.parts[1].unit, whole.parts[1].step / 2
        about = AverageScale(centre, column.spread, unit, once, total.bounds, grain)
        released = self._chosen(whole, parent, options, beta, risk=average_risk(about))
        rows, sums = np.split(released.answer, 2)
        found = average_about_centre(released.choice, rows, sums * unit, about)
        return [released.about_a_centre(which, about)], {key: found}

    def _variance(
        self, query: Query, asked_for: Statistic, options: Options, beta: float
    ) -> tuple[list[WeightGroup], dict[StatisticKey, Ends]]:
        """Release an average, and apart from it the sum of squares about the column's centre."""
        number, total, squares = query.measures
        *which, last = asked_for.places
        whose = replace(query, measures=(number, total))
        groups, means = self._average(whose, Statistic(AVERAGE, tuple(which)), options, beta / 2)
        pilot = column_pilot(query, total)
        assert pilot is not None
        assert total.bounds is not None
        column = self._column(query, pilot)
        about_centre, centre = centred_total(total, column.centre, column.spread)
        squared_values = squares_of(about_centre, squares, column.spread)
        asked = replace(query, measures=(squared_values,))
        unit = math.floor(2 * math.log2(column.spread)) - 3  # cells for what is far below it, too
        whole = joint(asked, options, self._budget, units={0: unit})
        released = self._chosen(whole, NO_PARENT, options, beta / 2, 0.5)
        group = released.group((last,), interval(released.choice, released.answer))
        grain = whole.parts[0].step / 2
        about = AverageScale(centre, column.spread, 1.0, False, total.bounds, grain)
        (mean,) = means.values()
        found = variance(group.ends(), groups[0].ends(), mean, about)
        return [*groups, group], means | {(VARIANCE, asked_for.places, 0.0): found}

    def _quantiles(
        self, query: Query, asked_for: Statistic, options: Options, beta: float
    ) -> tuple[list[WeightGroup], dict[StatisticKey, Ends]]:
        """Release ranks around where the column has its quantiles, or on given edges."""
        (measure,) = query.measures
        pilot = quantile_pilot(query, measure)
        if pilot is not None and not query.relation.caps:
            column = self._column(query, pilot)
            measure = binned_anew(measure, quantile_edges(column, asked_for.levels))
            query = replace(query, measures=(measure,))
        whole = joint(query, options, self._budget, self._rows)
        parent = self._parents(query)(whole)
        released = self._chosen(whole, parent, options, beta, risk=quantile_risk(measure.bins))
        counts = released.answer.reshape(query.groups, measure.bins)
        edges, each = np.array(measure.edges), len(asked_for.levels)
        choice = replace(released.choice, of=replace(released.choice.of, beta=beta / each))
        found = {
            (QUANTILE, asked_for.places, level): quantile(choice, counts, level, edges)
            for level in asked_for.levels
        }
        between = interval(released.choice, released.answer)
        return [released.group(asked_for.places, between)], found

    def _column(self, query: Query, pilot: ColumnPilot) -> ColumnValues:
        """Return what is known of a column's values; release its pilot if there is none.

        Of a join nothing is: what it is about is read beside the stream, before any noise.
        """
        if query.relation.caps:
            return column_of(pilot.edges, np.zeros(len(pilot.edges) - 1), 1.0)
        known = self._course.parents.get(pilot.key)
        if known is None or self._course.wants(pilot.key):
            rows = self._values(pilot)
            if pilot.key:
                self._course = self._course.with_parent(pilot.key, rows)
        else:
            rows = np.array(known.people)
        return column_of(pilot.edges, rows, self._budget.sigma_0 / math.sqrt(pilot.price))

    def _values(self, pilot: ColumnPilot) -> Floats:
        """Release rows by value: everybody's have a norm of 1 at most, for C is 1."""
        self._turn += 1
        asked = joint(pilot.query, Options(), self._budget)
        made = self._contributions(asked.before(0.5))
        (rows,) = made.measures
        people = self._people(rows.users, [rows.norms], asked, 1.0)
        _, counts, _ = self._weigh(asked, made, people, 1.0, pilot.price, 0.5, "values")
        self._course = self._course.after(pilot.price, 1.0)
        return counts

    # -- parents ---------------------------------------------------------------------------------

    def _plans(self, query: Query, part: WeightedPart, options: Options, beta: float) -> list[Plan]:
        """Return the plans that a part is going to need, if no noise comes before them."""

        def plan(some: Query, beta: float) -> Plan:
            return joint(some, options, self._budget, self._rows).before(beta)

        if part.statistic is None:
            return [] if parents_of(query) or self._beside(query) else [plan(query, beta)]
        if not query.relation.caps:
            return []
        if part.statistic.role == QUANTILE:
            return [plan(query, beta)]
        half = beta / 2 if part.statistic.role == AVERAGE else beta / 4
        return [plan(replace(query, measures=(m,)), half) for m in query.measures[:2]]

    @staticmethod
    def _beside(query: Query) -> bool:
        """Tell whether sums need units, as they share a weight with others."""
        several = len(query.measures) > 1 and any(m.kind is Kind.SUM for m in query.measures)
        return several and not query.relation.caps

    def _units(self, query: Query) -> dict[int, int]:
        """Return the units of sums that share a weight: about the size of a value."""
        if not self._beside(query):
            return {}
        pilots = {i: column_pilot(query, m) for i, m in enumerate(query.measures)}
        return {
            i: round(math.log2(self._column(query, pilot).size))
            for i, pilot in pilots.items()
            if pilot is not None
        }

    def _parents(self, query: Query) -> Callable[[Joint], Parent]:
        """Ask for parent pilots where there are none; return what they say of a question."""
        kin = parents_of(query)
        for key, parent in kin.items():
            if self._course.wants(key):
                self._ask_parent(key, parent)
        known = {key: self._course.parent(key, self._budget.sigma_0) for key in kin}
        return partial(parent_in, known)

    def _ask_parent(self, key: str, query: Query) -> None:
        """Release a parent pilot."""
        asked = joint(query, Options(), self._budget)
        made = self._contributions(asked.before(0.5))
        (rows,) = made.measures
        people = self._people(rows.users, [rows.norms], asked, 1.0)
        counts = self._histogram(people, ladder(math.inf, 1.0), RULES.parent, 0, key)
        course, self._worst = self._course.after(self._worst, 1.0), 0.0
        self._course = course.with_parent(key, counts)

    # -- pilots ----------------------------------------------------------------------------------

    def _people(self, users: Index, norms: list[Ints], asked: Joint, price: float) -> Contributors:
        """Return who takes part, with allowances from the accounts as they are now."""
        dues = self._bill.of(users)
        return contributors(dues, norms, asked.exponents, self._course.cautious(price))

    def _pilots(self, people: Contributors, of: Ladder) -> Reading:
        """Release the two pilots, and return them as one reading."""
        sigma_0, cells = self._budget.sigma_0, np.arange(CELLS)
        first = self._histogram(people, of, RULES.first, 0, "first pilot")
        sd = np.full(CELLS, math.sqrt(RULES.first) * sigma_0)
        start = max(min(visible_top(first, sd, RULES), of.cap), 0)
        second = self._histogram(people, of, RULES.second, start, "second pilot")
        one, two = 1 / RULES.first, 1 / RULES.second
        above = cells > start
        counts = np.where(above, (one * first + two * second) / (one + two), first)
        sd = np.where(above, sigma_0 / math.sqrt(one + two), sd)
        return Reading(of, counts, sd, min(visible_top(counts, sd, RULES), of.cap))

    def _histogram(
        self, people: Contributors, of: Ladder, variance: int, start: int, part: str
    ) -> Floats:
        """Release people per cell of the ladder, from a cell on; 0 below."""
        noise = pilot_noise(variance, self._budget)
        counts = people.tally(of.edges, start, noise.price)
        self._bill.put(people.dues)
        drawn = rounded_gaussian(noise.lattice_sigma, CELLS, self._noise_of(part))
        self._worst += 1 / variance
        released = (counts + drawn) * noise.granularity
        return np.where(np.arange(CELLS) >= start, released, 0.0)

    def _noise_of(self, part: str) -> Entropy:
        return self._entropy(f"{self._turn}/{part}")


@lru_cache(maxsize=64)
def pilot_noise(variance: int, budget: Budget) -> Noise:
    """Return the noise of a pilot whose cells have `variance` · sigma_0²: a person pays 1/variance.

    Example:
        >>> noise = pilot_noise(4, Budget(0.5, 48.0))
        >>> int(noise.price.charge(np.array([2**32]))[0]) / 2**24
        0.25
    """
    scale, step = math.sqrt(variance), math.ldexp(1.0, -PILOT_BITS)
    sigma = sigma_for_scale(scale, budget)
    return Noise(sigma, step, scale, step, Price.of(sigma, step, budget))
