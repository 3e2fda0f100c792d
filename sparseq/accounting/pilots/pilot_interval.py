"""The interval about everybody: noise, what was cut, and what no pilot can see.

Averages: c + sum (v - c) / rows about a released centre c, or the quotient of two sums.

Near the centre a value adds little to a person's norm, so that the noise is that of the spread and
not of the size of values; and who is cut is cut in both sums. `alike`: the values of rows that were
cut lie as the others do, but for a part of the spread.

Quantiles: where the noised ranks cross, on edges that lie close around it.

Rank, not counts: G(e) = rows below e less q times all rows is one number with one noise, and what
was cut moves it by little, as cut rows lie over the values as others do (`alike`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.pilots.choice import (
    Choice,
    ColumnValues,
    Cut,
    Question,
    Risk,
    growth,
    upper,
)
from sparseq.accounting.pilots.posterior import RULES, Floats, Rules

# -- the interval about everybody: noise, what was cut, and what no pilot can see ------------------


class IntervalKind(enum.StrEnum):
    """The ground that an interval rests on."""

    EXACT = "exact"
    """Nobody can be above the scale: noise alone."""
    BOUNDED = "bounded"
    """Declared maxima: proved."""
    ASSUMED = "assumed"
    """`alike`: a stated model of the people whom no pilot sees, and of where they lie."""


@dataclass(frozen=True)
class Interval:
    """About the truth over everybody, in the joint unit, by coordinate: released.

    Attributes:
        value, low, high: The estimate, and its interval, all coordinates at once.
        few: The half-width exceeds the value: too few people to say.
        missing: From above, what the answer lacks, by coordinate.
        kind: What the interval rests on.
    """

    value: Floats
    low: Floats
    high: Floats
    few: NDArray[np.bool_]
    missing: Floats
    kind: IntervalKind


@dataclass(frozen=True)
class _Ends:
    value: Floats
    low: Floats
    high: Floats


def interval(choice: Choice, answer: Floats, rules: Rules = RULES) -> Interval:
    """Return the interval of a noised answer.

    Args:
        choice: Its scale.
        answer: Noised weighted sums, in the joint unit.
        rules: Constants.

    Example:
        >>> from sparseq.accounting.pilots import CELLS, Reading, ladder
        >>> from sparseq.accounting.pilots.choice import Question, choose
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> seen = Reading(ladder(np.inf, 1.0), people, np.full(CELLS, 20.0), 2)
        >>> found = interval(
        ...     choose(Question(1, 1, np.zeros(1, bool), 7.0, 0.05), seen), np.array([9000.0]))
        >>> bool(found.low[0] <= found.value[0] <= found.high[0]), str(found.kind)
        (True, 'assumed')
    """
    q, noise = choice.of, choice.of.z() * choice.missing.noise
    if q.faded_as_all:
        return _shown(choice, answer, _of_all(choice, answer, rules), IntervalKind.ASSUMED)
    if not q.pilots:
        exact = _Ends(answer, answer - noise, answer + noise)
        return _shown(choice, answer, exact, IntervalKind.EXACT)
    if q.signed.any():
        assumed = _signed_ends(choice, answer)
    else:
        assumed = (_one_number if q.one else _groups)(choice, answer, rules)
    if q.declared:
        return _shown(choice, answer, _proved_ends(choice, answer, assumed), IntervalKind.BOUNDED)
    return _shown(choice, answer, assumed, IntervalKind.ASSUMED)


def _one_number(choice: Choice, answer: Floats, rules: Rules) -> _Ends:
    """Return the interval of one number that is never negative.

    What was cut is added back: the median of its samples, and a little more as their mean is
    larger. The ends are quantiles of the answer, its noise and the samples, each of which may be
    wrong by `unsure`; what is cut is never negative, which bounds the lower end. The tail is least
    known, so the upper end leaves out a quarter of beta, and the lower one a half.
    """
    m, half_beta = choice.missing, choice.of.beta / 2
    # the middle of each of 150 equal parts of the samples
    lost = np.quantile(m.lost, (np.arange(150) + 0.5) / 150)
    spread = np.hypot(m.noise, rules.unsure * lost)
    low, high = (_mixed_quantile(lost, spread, p) for p in (half_beta, 1 - half_beta / 2))
    value = (1 + rules.skew) * float(np.median(m.lost))
    low = max(value - (value - low) * rules.widen, -upper(half_beta) * m.noise * rules.widen)
    high = value + (high - value) * rules.widen
    return _Ends(answer + value, answer + min(low, value), answer + max(high, value))


def _mixed_quantile(means: Floats, spreads: Floats, probability: float) -> float:
    """Return a quantile of an equal mixture of normal distributions, by bisection."""
    low, high = float((means - 10 * spreads).min()), float((means + 10 * spreads).max())
    for _ in range(48):
        middle = (low + high) / 2
        below = sum(map(math.erfc, ((means - middle) / (math.sqrt(2) * spreads)).tolist()))
        if below / 2 < probability * len(means):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _groups(choice: Choice, answer: Floats, rules: Rules) -> _Ends:
    """Return the intervals of several numbers that are never negative.

    Each grows by g, the same for all. `alike`: a group's share of what was cut is its share of the
    answer, but for a factor that varies by `alike`, and by chance as only so many people were cut.
    """
    q, m = choice.of, choice.missing
    z, each = upper(q.beta / 2 / q.coordinates), upper(q.beta / 2)
    grown = growth(m.share, rules)
    g_low, g, g_high = np.quantile(grown, (q.beta / 2, 0.5, 1 - q.beta / 2))
    there = np.maximum(answer, 0.0)
    total = max(float(there.sum()), q.coordinates * m.noise)
    at = np.maximum(there, m.noise)
    g_high = max(g_high, float(np.quantile(m.lost, 1 - q.beta / 2)) * 1.3 / total)
    chance = total / (m.heavy * at)
    alike = (2 if q.people else 1) * rules.alike
    unlike = np.minimum(np.sqrt(alike**2 + rules.unlike**2 + chance), 2.5)
    up = np.hypot((g_high - g) / each, g * unlike)
    down = np.hypot((g - g_low) / each, g * unlike)
    noise = m.noise * (1 + g)
    value = answer * (1 + g)
    high = value + z * rules.widen * np.hypot(noise, at * up)
    low = value - z * rules.widen * np.hypot(noise, at * down)
    low = np.maximum(low, answer - z * rules.widen * m.noise)
    return _Ends(value, np.minimum(low, value), np.maximum(high, value))


def _of_all(choice: Choice, answer: Floats, rules: Rules) -> _Ends:
    """Return the interval of people who are taken to have faded as all have: a part of these."""
    m = choice.missing
    part = min(max(float(answer.sum()), m.noise) / max(choice.total, 1e-9), 1.0)
    mine = replace(m, lost=m.lost * part, heavy=max(m.heavy * part, 1e-3))
    return _groups(replace(choice, missing=mine), answer, rules)


def _signed_ends(choice: Choice, answer: Floats) -> _Ends:
    """Return the intervals of numbers that may be negative: what was cut may be of either sign."""
    q, m = choice.of, choice.missing
    lost = float(np.quantile(m.lost, 1 - q.beta / 2))
    half = q.z() * m.noise + lost
    return _Ends(answer, answer - half, answer + half)


def _proved_ends(choice: Choice, answer: Floats, around: _Ends) -> _Ends:
    """Return the proved interval: all cells to the cap, without clipping, slope or visibility.

    Half of beta is for the answer's noise, the other half for the pilots', over every C and start.
    """
    q, m = choice.of, choice.missing
    noise = upper(q.beta / 4 / q.coordinates) * m.noise
    if q.one:
        half = float(np.hypot(noise, choice.union * m.exact))
        low = np.maximum(answer + m.below - half, answer - noise)
        high = answer + m.proved - choice.union * m.exact + half
    else:
        low = answer - noise - np.where(q.signed, m.proved, 0.0)
        high = answer + noise + m.proved
    return _Ends(np.clip(around.value, low, np.maximum(low, high)), low, high)


def _shown(choice: Choice, answer: Floats, found: _Ends, kind: IntervalKind) -> Interval:
    """End intervals at 0 where nothing is negative; mark cells of which almost nothing is known.

    None is narrower than a standard deviation of the noise: noise far below 0 says nothing.

    The values of those go towards 0, all together (James & Stein 1961, the positive part): most
    of them are noise.
    """
    q, noise = choice.of, choice.missing.noise
    low = np.where(q.signed, found.low, np.maximum(found.low, 0.0))
    high = np.maximum(low, np.where(q.signed, found.high, np.maximum(found.high, noise)))
    few = (high - low) / 2 > np.abs(found.value)
    faint = few & ~q.signed
    square = float((answer[faint] ** 2).sum())
    freedom = max(int(faint.sum()) - 2, 0)
    left = max(1 - freedom * noise**2 / square, 0.0) if square else 1.0
    value = np.clip(np.where(faint, left * found.value, found.value), low, high)
    missing = np.maximum(high - answer - q.z() * noise, 0.0)
    return Interval(value, low, high, few, missing, kind)


# -- averages: c + sum (v - c) / rows about a released centre c, or the quotient of two sums -------

Ends = tuple[Floats, Floats, Floats]
"""Value, low and high, by group."""


@dataclass(frozen=True)
class AverageScale:
    """Centre, spread and unit of an average, in the unit of its values: public.

    Attributes:
        centre: What was taken from each value.
        spread: Of the column's values.
        unit: So far from the centre a value counts as much as its row.
        once: A person has one value.
        bounds: Of values.
        grain: What the rounding of a value to its lattice may change, at most.
    """

    centre: float
    spread: float
    unit: float
    once: bool
    bounds: tuple[float, float]
    grain: float = 0.0

    def off(self, rules: Rules = RULES) -> float:
        """Return how far the mean of many cut rows lies from the others' (standard deviation)."""
        return (rules.once if self.once else rules.values) * self.spread


def shift_of_mean(share: Floats, rules: Rules = RULES) -> Floats:
    """Return by how much a mean moves that lacks a share of its rows, in units of `off`.

    The fewer they are, the further may they lie from the others.

    Example:
        >>> shift_of_mean(np.array([0.05, 0.5])).round(3).tolist()
        [0.071, 0.524]
    """
    return np.sqrt(share * share + rules.few * share)


def average_risk(about: AverageScale) -> Risk:
    """Return the expected squared error of an average under scales, as `choose` takes it."""

    def risk(q: Question, cut: Cut, scales: Floats, total: float, rules: Rules) -> Floats:
        groups = q.coordinates / 2
        share = np.minimum(cut.share, 0.9)
        rows = max(total / 1.5 / groups, 1e-9) * (1 - np.median(share, axis=0))
        noise = 1.15 * about.unit * scales * q.sigma_0 / math.sqrt(q.price) / rows
        apart = 1 + np.minimum(groups / cut.heavy, 4.0)
        off = (shift_of_mean(share, rules) ** 2).mean(axis=0) * about.off(rules) ** 2
        return np.asarray(noise**2 + off * apart)

    return risk


def average_about_centre(
    choice: Choice, rows: Floats, total: Floats, about: AverageScale, rules: Rules = RULES
) -> Ends:
    """Return averages by group, from noised rows and sums of (v - centre).

    Args:
        choice: The scale that both were measured with.
        rows: By group.
        total: In the values' unit.
        about: Its scale.
        rules: Constants.

    Source: Fieller (1954), for the noise; what was cut moves the mean by `AverageScale.off`.

    Example: `tests/accounting/test_statistics.py`.
    """
    m, noise, groups = choice.missing, choice.missing.noise, len(rows)
    z = upper(choice.of.beta / 2 / groups) * rules.widen
    there = np.maximum(rows, 0.5 * noise)
    share = min(float(np.quantile(m.share, 0.9)), 0.9)
    heavy = m.heavy * there / max(float(there.sum()), 1e-9)
    bias = shift_of_mean(np.array(share), rules) * about.off(rules)
    bias = bias * np.sqrt(1 + np.minimum(1 / heavy, 9.0))
    spreads = np.full(groups, about.unit * noise), np.full(groups, noise)
    low, high = (quotient_end(total, rows, spreads, z * side) for side in (-1, 1))
    off = total / there
    low = off - np.hypot(off - low, z * bias) - about.grain
    high = off + np.hypot(high - off, z * bias) + about.grain
    variance = (spreads[0] ** 2 + (off * noise) ** 2) / there**2
    return _within_bounds(about.centre, off, variance, (low, high), there, about, rules)


def average_of_sums(
    total: Ends, rows: Ends, about: AverageScale, z: float, q: Question, rules: Rules = RULES
) -> Ends:
    """Return averages of two sums that were measured apart, by group.

    Args:
        total, rows: Their intervals, in the values' unit and in rows.
        about: Its centre was not taken from values; it is where they lie.
        z: How many standard deviations wide these are; they are widened already.
        q: What was asked.
        rules: Constants.

    Source: Fieller (1954), each side with its own standard deviations.
    """
    n, n_low, n_high = total
    m, m_low, m_high = rows
    up, down = np.maximum(n_high - n, 1e-12) / z, np.maximum(n - n_low, 1e-12) / z
    more, less = np.maximum(m_high - m, 1e-9) / z, np.maximum(m - m_low, 1e-9) / z
    mine = upper(q.beta / 2 / len(n))
    low = quotient_end(n, m, (down, more), -mine)
    if about.bounds[0] >= 0:  # an end that was cut at 0 says nothing of how far it lay
        low = np.where(n_low <= 0, 0.0, low)
    high = quotient_end(n, m, (up, less), mine)
    there = np.maximum(m, (more + less) / 2)
    centre = about.centre
    if len(n) > 1:
        centre = float(np.clip(n.sum() / max(float(m.sum()), 1.0), *about.bounds))
    variance = ((up**2 + down**2) / 2 + (n / there * more) ** 2) / there**2
    ends = low - centre, high - centre
    return _within_bounds(centre, n / there - centre, variance, ends, there, about, rules)


def quotient_end(n: Floats, d: Floats, spreads: tuple[Floats, Floats], z: float) -> Floats:
    """Return an end of all theta with (n - theta d)² <= z² (s_n² + theta² s_d²); z < 0: the lower.

    Infinite where d may be 0: then nothing is known.

    Example:
        >>> one = np.ones(1)
        >>> quotient_end(100 * one, 10 * one, (one, 0 * one), 2.0).tolist()
        [10.2]
        >>> quotient_end(100 * one, 10 * one, (one, 6 * one), 2.0).tolist()
        [inf]
    """
    s_n, s_d = spreads
    a = d * d - z * z * s_d * s_d
    sure = (d > 0) & (a > 0)
    inside = np.maximum(n * n * s_d * s_d + a * s_n * s_n, 0.0)
    with np.errstate(all="ignore"):
        end = (n * d + z * np.sqrt(inside)) / a
    return np.where(sure, end, math.copysign(math.inf, z))


def variance(squares: Ends, rows: Ends, mean: Ends, about: AverageScale) -> Ends:
    """Return variances by group: the mean of (v - c)² less (mean - c)².

    Errors of the two sums are taken to be independent, as in `quotient`.

    Args:
        squares: Sums of (v - c)², in the values' unit squared, with their intervals.
        rows, mean: How many there are, and their average.
        about: Has c, the bounds of values, and the grain of their squares.
    """
    q, q_low, q_high = squares
    n, n_low, n_high = rows
    least = np.maximum(n, np.maximum((n_high - n_low) / 2, 1e-9))
    per_row = q / least
    up = np.hypot(q_high - q, per_row * (n - n_low)) / least + about.grain
    down = np.hypot(q - q_low, per_row * (n_high - n)) / least + about.grain
    offs = np.stack([(some - about.centre) ** 2 for some in mean])
    inside = (mean[1] <= about.centre) & (about.centre <= mean[2])
    smallest = np.where(inside, 0.0, offs.min(axis=0))
    most = ((about.bounds[1] - about.bounds[0]) / 2) ** 2
    low = np.clip(per_row - down - offs.max(axis=0), 0.0, most)
    high = np.clip(np.where(n_low > 0, per_row + up - smallest, most), low, most)
    return np.clip(per_row - offs[0], low, high), low, high


def _within_bounds(
    centre: float,
    off: Floats,
    variance: Floats,
    ends: tuple[Floats, Floats],
    rows: Floats,
    about: AverageScale,
    rules: Rules,
) -> Ends:
    """Return centre + off by group, and the interval, within the bounds of values.

    Values go towards the centre by how far the groups are seen to lie from it (empirical Bayes;
    Morris 1983). Intervals do not: where a group lies is not assumed.
    """
    prior = (rules.wide * about.spread) ** 2
    if len(off) > 2:
        seen = float((rows**2 * (off**2 - variance)).sum() / (rows**2).sum())
        prior = min(max(seen, (0.15 * about.spread) ** 2), max(prior, seen))
    low, high = (np.clip(centre + end, *about.bounds) for end in ends)
    value = centre + off * prior / (prior + variance)
    return np.clip(value, low, high), low, high


def apart(column: ColumnValues, rules: Rules = RULES) -> bool:
    """Tell whether values are so heavy that sum and rows are measured apart: with one weight, those
    who are cut would have the high values."""
    signed = column.edges[0] < 0 < column.edges[-1]
    return column.spread > (1.7 if signed else 1.0) * rules.ratio * column.size


# -- covariances of two values, and what is made of them: correlations and slopes of lines ---------


def covariance(
    products: Ends, rows: Ends, means: Sequence[Ends], abouts: Sequence[AverageScale], grain: float
) -> Ends:
    """Return covariances by group: the mean of (x - a)(y - b) less (mean x - a)(mean y - b).

    Errors of the sums are taken to be independent, as in `quotient_end`.

    Args:
        products: Sums of (x - a)(y - b), with their intervals.
        rows: How many there are.
        means: Of x and of y.
        abouts: Have a and b, and the bounds of values.
        grain: What rounding may change of a product.
    """
    p, p_low, p_high = products
    n, n_low, n_high = rows
    least = np.maximum(n, np.maximum((n_high - n_low) / 2, 1e-9))
    per_row = p / least
    by_rows = np.abs(per_row) * np.maximum(n_high - n, n - n_low) / least
    off = [value - about.centre for (value, _, _), about in zip(means, abouts, strict=True)]
    ends = [np.maximum(high - value, value - low) for value, low, high in means]
    by_means = np.hypot(off[0] * ends[1], off[1] * ends[0]) + ends[0] * ends[1]
    most = np.prod([(about.bounds[1] - about.bounds[0]) / 2 for about in abouts])
    value = np.clip(per_row - off[0] * off[1], -most, most)
    rest = np.hypot(by_rows, by_means)
    up = np.hypot((p_high - p) / least, rest) + grain
    down = np.hypot((p - p_low) / least, rest) + grain
    unsure = n_low <= 0
    low = np.where(unsure, -most, np.maximum(value - down, -most))
    return value, low, np.where(unsure, most, np.minimum(value + up, most))


def over(dividend: Ends, variances: Sequence[Ends], power: float, most: float = np.inf) -> Ends:
    """Return covariances over a power of each variance, by group: no larger than `most`.

    Errors are taken to be independent, as in `quotient_end`. Where a variance may be 0 all is
    possible.

    Example:
        >>> def ends(*some): return tuple(np.array([x]) for x in some)
        >>> value, low, high = over(ends(3.0, 3.0, 3.0), [ends(4.0, 4.0, 9.0)], 0.5)
        >>> value.tolist(), low.tolist(), high.tolist()
        ([1.5], [1.0], [1.5])
        >>> [x.tolist() for x in over(ends(3.0, 2.0, 4.0), [ends(1.0, 0.0, 9.0)], 0.5, 1.0)]
        [[1.0], [-1.0], [1.0]]
    """
    middle, low, high = dividend
    with np.errstate(all="ignore"):
        size = np.prod([v**power for v, _, _ in variances], axis=0)
        value = middle / size
        further = np.sqrt(
            sum((np.abs(value) * ((v / a) ** power - 1)) ** 2 for v, a, _ in variances)
        )
        nearer = np.sqrt(
            sum((np.abs(value) * (1 - (v / b) ** power)) ** 2 for v, _, b in variances)
        )
        up = np.hypot((high - middle) / size, np.where(value > 0, further, nearer))
        down = np.hypot((middle - low) / size, np.where(value > 0, nearer, further))
    sure = np.all([a > 0 for _, a, _ in variances], axis=0)
    value = np.clip(np.where(sure | np.isfinite(value), value, 0.0), -most, most)
    least = np.where(sure, np.maximum(value - down, -most), -most)
    return value, np.minimum(least, value), np.where(sure, np.minimum(value + up, most), most)


# -- quantiles: where the noised ranks cross, on edges that lie close around it --------------------

_AWAY = (0.0, 0.008, 0.02, 0.04, 0.07, 0.11, 0.17, 0.25, 0.36)
_LEAST = 5e-4


def quantile_edges(column: ColumnValues, levels: Sequence[float]) -> tuple[float, ...]:
    """Return edges that are close around where a column has its quantiles.

    Example:
        >>> from sparseq.accounting.pilots.choice import column_of, value_edges
        >>> column = column_of(value_edges(0, 8), np.full(25, 100.0), 1.0)
        >>> len(quantile_edges(column, [0.5]))
        21
    """
    away = np.array(_AWAY)
    ranks = [0.001, 0.999]
    for level in levels:
        ranks += [*(level - 2 * level * away), *(level + 2 * (1 - level) * away)]
    rank = np.unique(np.clip(ranks, _LEAST, 1 - _LEAST))
    rising = column.below + np.arange(len(column.below)) * 1e-9
    inner = np.interp(rank, rising, column.edges)
    return tuple(np.unique(np.concatenate([column.edges[[0, -1]], inner])).tolist())


def quantile_risk(cells: int) -> Risk:
    """Return the expected squared error of a rank under scales, as `choose` takes it."""

    def risk(q: Question, cut: Cut, scales: Floats, total: float, rules: Rules) -> Floats:
        share = np.minimum(cut.share, 0.9)
        rows = max(total, 1e-9) * (1 - np.median(share, axis=0))
        noise = scales * q.sigma_0 / math.sqrt(q.price) * math.sqrt(cells) / 2 / rows
        off = (share**2).mean(axis=0) * rules.ranks**2 / 4
        return np.asarray(noise**2 + off * (1 + np.minimum(4 / cut.heavy, 4.0)))

    return risk


def quantile(
    choice: Choice, counts: Floats, level: float, edges: Floats, rules: Rules = RULES
) -> Ends:
    """Return a quantile by group, from noised rows by bin.

    The interval holds every edge at which G may be 0, opened to whole bins: values may be equal.

    Args:
        choice: The scale that they were measured with.
        counts: (groups, bins).
        level: q, between 0 and 1.
        edges: Of the bins.
        rules: Constants.
    """
    m, noise, groups = choice.missing, choice.missing.noise, len(counts)
    cells = counts.shape[1]
    total = np.maximum(counts.sum(axis=1), noise * math.sqrt(cells))
    below = np.arange(1, cells + 1)
    ranks = np.cumsum(counts, axis=1) - level * counts.sum(axis=1, keepdims=True)
    spread = noise * np.sqrt((1 - level) ** 2 * below + level**2 * (cells - below))
    share = min(float(np.quantile(m.share, 0.9)), 0.9)
    heavy = m.heavy * total / max(float(total.sum()), 1e-9)
    off = rules.ranks * math.sqrt(level * (1 - level)) * np.sqrt(1 + np.minimum(1 / heavy, 4.0))
    z = rules.opened * upper(choice.of.beta / 2 / groups)
    band = z * np.hypot(spread, (share * total * off)[:, None])
    first = -level * total[:, None]
    rising = np.maximum.accumulate(np.hstack([first, ranks]), axis=1)
    value = np.array([_find_crossing(one, edges) for one in rising])
    low = np.array([_at(ranks_of >= -b, edges) for ranks_of, b in zip(ranks, band, strict=True)])
    high = np.array([_last(ranks_of < b, edges) for ranks_of, b in zip(ranks, band, strict=True)])
    high = np.maximum(low, high)
    return np.clip(value, low, high), low, high


def _find_crossing(rising: Floats, edges: Floats) -> float:
    k = int(np.argmax(rising >= 0)) if (rising >= 0).any() else len(rising) - 1
    if k == 0:
        return float(edges[0])
    into = -rising[k - 1] / max(rising[k] - rising[k - 1], 1e-12)
    return float(edges[k - 1] + min(max(into, 0.0), 1.0) * (edges[k] - edges[k - 1]))


def _at(reached: np.typing.NDArray[np.bool_], edges: Floats) -> float:
    """Return the lower edge of the first bin at whose end the rank may be reached."""
    return float(edges[int(np.argmax(reached))] if reached.any() else edges[-2])


def _last(waiting: np.typing.NDArray[np.bool_], edges: Floats) -> float:
    """Return the upper edge of the bin behind the last at whose end it may not be reached."""
    if not waiting.any():
        return float(edges[1])
    return float(edges[min(int(np.flatnonzero(waiting)[-1]) + 2, len(edges) - 1)])
