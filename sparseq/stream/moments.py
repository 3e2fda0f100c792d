"""Statistics with their own mechanisms: averages, variances, pairs of values, quantiles.

Each releases its sums about a released centre (`WeightedSums`), and computes its estimate and its
interval from these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from sparseq.accounting.pilots import CELLS, NO_PARENT, Parent
from sparseq.accounting.pilots.averages import (
    AverageScale,
    Ends,
    apart,
    average_about_centre,
    average_of_sums,
    average_risk,
    variance,
)
from sparseq.accounting.pilots.choice import upper
from sparseq.accounting.pilots.column_values import ColumnValues
from sparseq.accounting.pilots.covariances import covariance, over
from sparseq.accounting.pilots.parent import parent_of_squares
from sparseq.accounting.pilots.pilot_interval import interval
from sparseq.accounting.pilots.quantiles import quantile, quantile_edges, quantile_risk
from sparseq.question.plan import (
    AVERAGE,
    CORRELATION,
    COVARIANCE,
    PAIR,
    QUANTILE,
    SLOPE,
    VARIANCE,
    Measure,
    Options,
    Query,
    Statistic,
)
from sparseq.released.outputs import StatisticKey
from sparseq.stream.joint_unit import joint
from sparseq.stream.shared_pilots import (
    binned_anew,
    centred_total,
    column_pilot,
    product_of,
    quantile_pilot,
)
from sparseq.stream.weighted_parts import WeightGroup
from sparseq.stream.weighted_sums import WeightedSums

Found = tuple[list[WeightGroup], dict[StatisticKey, Ends]]
APART: Mapping[str, tuple[tuple[int, float], ...]] = {
    AVERAGE: ((0, 1 / 2), (1, 1 / 2)),
    VARIANCE: ((0, 1 / 4), (1, 1 / 4)),
    PAIR: ((0, 1 / 12), (1, 1 / 12), (2, 1 / 12)),
}
"""For joins: the measures that are released without a centre, and the fraction of beta of each."""
MOST_OF_A_PAIR = 0.5
"""The fraction of the price for averages and squares that serve a pair of values."""


def average(
    sums: WeightedSums,
    query: Query,
    asked_for: Statistic,
    options: Options,
    beta: float,
    part: float = 1.0,
) -> Found:
    """Release the rows and the sum of an average: together about a centre, or separately.

    Args:
        sums: Releases the sums.
        query: The question with the average's number and total.
        asked_for: The statistic.
        options: The question's options.
        beta: The chance that its interval misses.
        part: The fraction of the price.
    """
    which, key = asked_for.places, (AVERAGE, asked_for.places, 0.0)
    number, total = query.measures
    column = _column(sums, query, total)
    assert total.bounds is not None
    once = not query.relation.stored
    if apart(column) or query.relation.caps:
        groups = [
            sums.measured(
                replace(query, measures=(measure,)), (place,), options, beta / 2, part / 2
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
    counted = joint(replace(query, measures=(number,)), Options(), sums.budget)
    counts = sums.parents(counted.query)(counted)
    whole = joint(asked, options, sums.budget, sums.rows, {1: half})
    unit, grain = whole.parts[1].unit, whole.parts[1].step / 2
    about = AverageScale(centre, column.spread, unit, once, total.bounds, grain)
    parent = counts.shift(2)  # values are about two units off
    released = sums.chosen(whole, parent, options, beta, part, average_risk(about, counts))
    rows, off = np.split(released.answer, 2)
    found = average_about_centre(released.choice, rows, off * unit, about, counts)
    return [released.about_a_centre(which, about)], {key: found}


def moments(
    sums: WeightedSums,
    query: Query,
    asked_for: Statistic,
    options: Options,
    beta: float,
    part: float = 1.0,
) -> Found:
    """Release an average and, separately, the sum of squares about the column's centre.

    Args:
        sums, options, beta, part: See `average`.
        query: The question with a number, a total and squares.
        asked_for: The statistic.
    """
    number, total, squares = query.measures
    *which, last = asked_for.places
    whose = replace(query, measures=(number, total))
    groups, means = average(sums, whose, Statistic(AVERAGE, tuple(which)), options, beta / 2, part)
    column = _column(sums, query, total)
    about, centre = centred_total(total, column.centre, column.spread)
    squared = product_of(about, about, squares, column.spread**2)
    parent = _squares_parent(sums, query, centre, column.spread**2)
    group, grain = _product(sums, query, squared, last, column.spread**2, options, beta / 2, parent)
    assert total.bounds is not None
    scale = AverageScale(centre, column.spread, 1.0, False, total.bounds, grain)
    (mean,) = means.values()
    found = variance(group.ends(), groups[0].ends(), mean, scale)
    return [*groups, group], means | {(VARIANCE, asked_for.places, 0.0): found}


def pair(
    sums: WeightedSums, query: Query, asked_for: Statistic, options: Options, beta: float
) -> Found:
    """Release averages and squares of two values, and the sum of their products.

    Args:
        sums, options, beta: See `average`.
        query: The question with a number, two totals, the squares of each, and products.
        asked_for: The statistic.
    """
    places, (_, *totals, _, _, products) = asked_for.places, query.measures
    groups, told, variances = list[WeightGroup](), dict[StatisticKey, Ends](), list[Ends]()
    centres, scales, spread = list[Measure](), list[AverageScale](), 1.0
    for i, total in enumerate(totals, 1):
        of_value = 0, i, i + 2
        whose = replace(query, measures=tuple(query.measures[j] for j in of_value))
        at = tuple(places[j] for j in of_value)
        more, found = moments(
            sums, whose, Statistic(VARIANCE, at), options, beta / 3, MOST_OF_A_PAIR
        )
        groups, told = groups + more, told | found
        variances.append(found[VARIANCE, at, 0.0])
        column = _column(sums, query, total)
        about, centre = centred_total(total, column.centre, column.spread)
        assert total.bounds is not None
        centres.append(about)
        scales.append(AverageScale(centre, column.spread, 1.0, False, total.bounds))
        spread *= column.spread
    product = product_of(centres[0], centres[1], products, spread)
    group, grain = _product(sums, query, product, places[5], spread, options, beta / 3)
    means = [told[AVERAGE, (places[0], places[i]), 0.0] for i in (1, 2)]
    x, y = variances
    together = covariance(group.ends(), groups[0].ends(), means, scales, grain)
    told |= {
        (COVARIANCE, places, 0.0): together,
        (CORRELATION, places, 0.0): over(together, (x, y), 0.5, 1.0),
        (SLOPE, places, 0.0): over(together, (x,), 1.0),
    }
    return [*groups, group], told


def _product(
    sums: WeightedSums,
    query: Query,
    product: Measure,
    place: int,
    size: float,
    options: Options,
    beta: float,
    parent: Parent = NO_PARENT,
) -> tuple[WeightGroup, float]:
    """Release a sum of centred products; return it and the rounding error of one product."""
    asked = replace(query, measures=(product,))
    unit = _unit_of(size)
    whole = joint(asked, options, sums.budget, units={0: unit})
    released = sums.chosen(whole, parent, options, beta, 0.5)
    group = released.group((place,), interval(released.choice, released.answer))
    return group, whole.parts[0].step / 2


def _unit_of(size: float) -> int:
    """Return log2 of the unit of products of a size, with cells for products far below it."""
    return math.floor(math.log2(size)) - 3


def _squares_parent(sums: WeightedSums, query: Query, centre: float, size: float) -> Parent:
    """Return the parent of users by their squares about a centre, from two releases: the column's
    rows by value and the users by rows; NO_PARENT if one is missing or rows arrived since.

    A user with many rows has about as many mean squares; a user with one outlier has its square.
    """
    number, total, _ = query.measures
    pilot = column_pilot(query, total)
    known = sums.course.parents.get(pilot.key) if pilot is not None and pilot.key else None
    if pilot is None or known is None or known.epoch != sums.course.epoch:
        return NO_PARENT
    counted = joint(replace(query, measures=(number,)), Options(), sums.budget)
    people = sums.parents(counted.query)(counted)
    if people.samples is None:
        return NO_PARENT
    rows, unit = np.array(known.people), 2.0 ** _unit_of(size)
    all_rows = 0.75 * float(people.samples.mean(axis=0) @ np.ldexp(1.0, np.arange(CELLS)))
    times = max(all_rows / max(float(rows.sum()), 1.0), 1.0)
    noise = sums.budget.sigma_0 / math.sqrt(pilot.price)
    single = parent_of_squares(pilot.edges, rows, noise, centre, unit, times)
    if single.samples is None:
        return NO_PARENT
    return single.concentrate().add(people.shift(math.ceil(math.log2(size / unit)) + 2))


def quantiles(
    sums: WeightedSums, query: Query, asked_for: Statistic, options: Options, beta: float
) -> Found:
    """Release ranks near the column's expected quantiles, or on given edges.

    Args:
        sums, options, beta: See `average`.
        query: The question with rows by bin.
        asked_for: The statistic.
    """
    (measure,) = query.measures
    pilot = quantile_pilot(query, measure)
    if pilot is not None and not query.relation.caps:
        column = sums.column(query, pilot)
        measure = binned_anew(measure, quantile_edges(column, asked_for.levels))
        query = replace(query, measures=(measure,))
    whole = joint(query, options, sums.budget, sums.rows)
    parent = sums.parents(query)(whole)
    released = sums.chosen(whole, parent, options, beta, risk=quantile_risk(measure.bins))
    counts = released.answer.reshape(query.groups, measure.bins)
    edges, each = np.array(measure.edges), len(asked_for.levels)
    choice = replace(released.choice, of=replace(released.choice.of, beta=beta / each))
    found = {
        (QUANTILE, asked_for.places, level): quantile(choice, counts, level, edges)
        for level in asked_for.levels
    }
    between = interval(released.choice, released.answer)
    return [released.group(asked_for.places, between)], found


def _column(sums: WeightedSums, query: Query, total: Measure) -> ColumnValues:
    """Return the released distribution of the values of a sum that has bounds."""
    pilot = column_pilot(query, total)
    assert pilot is not None
    return sums.column(query, pilot)


MEASURED: Mapping[str, Callable[[WeightedSums, Query, Statistic, Options, float], Found]] = {
    AVERAGE: average,
    VARIANCE: moments,
    PAIR: pair,
    QUANTILE: quantiles,
}
"""The measurement of each statistic, by its role."""
