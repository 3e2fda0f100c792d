"""Averages: c + sum (v - c) / rows about a released centre c, or the quotient of two sums.

Near the centre a value adds little to a user's norm, so the noise is proportional to the spread and
not to the size of values. The cut of a user applies to both sums. Assumption `alike`: the values of
cut rows are distributed like the others, up to a part of the spread; and where users have few rows,
a user is cut because of values far from the centre (`value_part`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.choice import Choice, Cut, Question, Risk, upper
from sparseq.accounting.pilots.column_values import ColumnValues
from sparseq.accounting.pilots.ladder import CELLS, Floats
from sparseq.accounting.pilots.parent import Parent
from sparseq.accounting.pilots.pilot_interval import INTERVALS
from sparseq.accounting.pilots.sample_quantiles import SampleColumns, sample_quantile


@dataclass(frozen=True)
class AverageRules:
    """Constants of averages (docs/theorems/pilots.md, "Averages").

    Attributes:
        ratio: Sum and rows are measured separately if the spread exceeds this part of the size.
        values: Standard deviation of the mean of cut rows about that of the others, in spreads.
        once: The same if a person has one value.
        few: For a small share f of cut rows this distance grows by sqrt(1 + few / f).
        wide: Prior distance, in spreads, when an average is shrunk to that of its column.
    """

    ratio: float = 0.8
    values: float = 0.3
    once: float = 0.6
    few: float = 0.05
    wide: float = 2.5


AVERAGES = AverageRules()

Ends = tuple[Floats, Floats, Floats]
"""Value, low and high, by group."""
_FEARED = 0.8
"""Quantile of the cut mass for which C is chosen: the interval allows for a larger one."""


@dataclass(frozen=True)
class AverageScale:
    """Centre, spread and unit of an average, in the unit of its values: public.

    Attributes:
        centre: The number subtracted from each value.
        spread: The standard deviation of the column's values.
        unit: The distance from the centre at which a value counts as much as its row.
        once: True if a person has one value.
        bounds: The bounds of values.
        grain: The largest change of a value by rounding to its lattice.
    """

    centre: float
    spread: float
    unit: float
    once: bool
    bounds: tuple[float, float]
    grain: float = 0.0

    def off(self) -> float:
        """Return the standard deviation of the mean of many cut rows about that of the others."""
        return (AVERAGES.once if self.once else AVERAGES.values) * self.spread


def shift_of_mean(share: Floats) -> Floats:
    """Return the shift of a mean that lacks a share of its rows, in units of `off`.

    Fewer rows may lie further from the others.

    Example:
        >>> shift_of_mean(np.array([0.05, 0.5])).round(3).tolist()
        [0.071, 0.524]
    """
    return np.sqrt(share * share + AVERAGES.few * share)


def value_part(rows: Parent, levels: Floats) -> Floats:
    """Return the part of the mass cut from norms that may be missing from the sum, by level.

    A user's norm is the length of (n, Σ (v - c)). If n alone made the user exceed the scale, values
    that are alike add up to about sqrt(n), a part n**-1/2 of the norm; a user with one row exceeds
    it because of the value. The part is the mean over the users whose rows alone may exceed the
    scale, weighted by their excess; it is 1 if there are none.

    Args:
        rows: The parent pilot of the number of rows.
        levels: Scales in rows, for users who have faded as much as anybody: C · a_min.

    Example:
        >>> one = Parent(np.full((4, CELLS), 900.0) * (np.arange(CELLS) == 0))
        >>> value_part(one, np.array([0.25, 8.0])).tolist()
        [1.0, 1.0]
        >>> value_part(one.shift(6), np.array([0.25, 8.0, 80.0])).tolist()
        [0.125, 0.125, 1.0]
    """
    if rows.samples is None:
        return np.ones(len(levels))
    edges = np.ldexp(1.0, np.arange(CELLS))
    excess = np.maximum(edges - levels[:, None], 0.0) * rows.samples[:, :CELLS].mean(axis=0)
    total = excess.sum(axis=1)
    return np.where(total > 0, excess @ edges**-0.5 / np.maximum(total, 1e-9), 1.0)


def average_risk(about: AverageScale, counted: Parent) -> Risk:
    """Return the expected squared error of an average under scales, in the form for `choose`.

    Args:
        about: The scale of the average.
        counted: The parent pilot of the number of rows; without samples, each user may have one.
    """

    def risk(q: Question, cut: Cut, scales: Floats, total: float) -> Floats:
        groups = q.coordinates / 2
        share = np.minimum(cut.share, 0.9)
        rows = max(total / 1.5 / groups, 1e-9) * (1 - SampleColumns(share).medians())
        noise = 1.15 * about.unit * scales * q.sigma_0 / math.sqrt(q.price) / rows
        apart = 1 + np.minimum(groups / cut.heavy, 4.0)
        off = (shift_of_mean(share) ** 2).mean(axis=0) * about.off() ** 2
        part = value_part(counted, scales * q.least_allowance)
        shifted = part * about.unit * np.quantile(cut.lost, _FEARED, axis=0) / groups / rows
        return np.asarray(noise**2 + np.maximum(off, shifted**2) * apart)

    return risk


def average_about_centre(
    choice: Choice,
    rows: Floats,
    total: Floats,
    about: AverageScale,
    counted: Parent,
) -> Ends:
    """Return averages by group, from noised rows and sums of (v - centre).

    The mass cut from norms is at least the length of what is missing from rows and from the sum
    (triangle inequality), so a mean shifts by at most unit · lost / rows, and by about a
    `value_part` of this.

    Args:
        choice: The scale of both measurements.
        rows: Noised rows by group.
        total: The sums in the values' unit, by group.
        about: The scale of the average.
        counted: The parent pilot of the number of rows.

    Source: Fieller (1954), for the noise; the cut moves the mean by `AverageScale.off`.

    Example: `tests/accounting/test_statistics.py`.
    """
    m, noise, groups = choice.missing, choice.missing.noise, len(rows)
    z = upper(choice.of.beta / 2 / groups) * INTERVALS.widen
    there = np.maximum(rows, 0.5 * noise)
    share = min(sample_quantile(m.share, 0.9), 0.9)
    heavy = m.heavy * there / max(float(there.sum()), 1e-9)
    bias = shift_of_mean(np.array(share)) * about.off()
    part = float(value_part(counted, np.array([m.scale * choice.of.least_allowance]))[0])
    lost = float(np.quantile(m.lost, 1 - choice.of.beta / 2))
    shifted = part * about.unit * INTERVALS.widen * lost / max(float(there.sum()), 1e-9)
    bias = np.maximum(z * bias, shifted) * np.sqrt(1 + np.minimum(1 / heavy, 9.0))
    spreads = np.full(groups, about.unit * noise), np.full(groups, noise)
    low, high = (quotient_end(total, rows, spreads, z * side) for side in (-1, 1))
    off = total / there
    low = off - np.hypot(off - low, bias) - about.grain
    high = off + np.hypot(high - off, bias) + about.grain
    variance = (spreads[0] ** 2 + (off * noise) ** 2) / there**2
    return _within_bounds(about.centre, off, variance, (low, high), there, about)


def average_of_sums(total: Ends, rows: Ends, about: AverageScale, z: float, q: Question) -> Ends:
    """Return averages from two separately measured sums, by group.

    Args:
        total, rows: Their intervals, in the values' unit and in rows.
        about: Its centre was not subtracted from values; it is their location.
        z: The width of these intervals in standard deviations; they are widened already.
        q: The question.

    Source: Fieller (1954), each side with its own standard deviations.
    """
    n, n_low, n_high = total
    m, m_low, m_high = rows
    up, down = np.maximum(n_high - n, 1e-12) / z, np.maximum(n - n_low, 1e-12) / z
    more, less = np.maximum(m_high - m, 1e-9) / z, np.maximum(m - m_low, 1e-9) / z
    mine = upper(q.beta / 2 / len(n))
    low = quotient_end(n, m, (down, more), -mine)
    if about.bounds[0] >= 0:  # an end that was cut at 0 does not show its distance
        low = np.where(n_low <= 0, 0.0, low)
    high = quotient_end(n, m, (up, less), mine)
    there = np.maximum(m, (more + less) / 2)
    centre = about.centre
    if len(n) > 1:
        centre = float(np.clip(n.sum() / max(float(m.sum()), 1.0), *about.bounds))
    variance = ((up**2 + down**2) / 2 + (n / there * more) ** 2) / there**2
    ends = low - centre, high - centre
    return _within_bounds(centre, n / there - centre, variance, ends, there, about)


def quotient_end(n: Floats, d: Floats, spreads: tuple[Floats, Floats], z: float) -> Floats:
    """Return an end of all theta with (n - theta d)² <= z² (s_n² + theta² s_d²); z < 0: the lower.

    It is infinite where d may be 0.

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

    Errors of the two sums are assumed to be independent, as in `quotient`.

    Args:
        squares: Sums of (v - c)², in the values' unit squared, with their intervals.
        rows, mean: The number of rows, and the average of the values.
        about: The scale, with c, the bounds of values, and the grain of their squares.
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
) -> Ends:
    """Return centre + off by group, and the interval, within the bounds of values.

    Values are shrunk towards the centre according to the groups' observed distance from it
    (empirical Bayes; Morris 1983). Intervals are not: no position of a group is assumed.
    """
    prior = (AVERAGES.wide * about.spread) ** 2
    if len(off) > 2:
        seen = float((rows**2 * (off**2 - variance)).sum() / (rows**2).sum())
        prior = min(max(seen, (0.15 * about.spread) ** 2), max(prior, seen))
    low, high = (np.clip(centre + end, *about.bounds) for end in ends)
    value = centre + off * prior / (prior + variance)
    return np.clip(value, low, high), low, high


def apart(column: ColumnValues) -> bool:
    """Tell whether values are so heavy that sum and rows are measured separately.

    With a common weight, the cut users would have the high values.
    """
    signed = column.edges[0] < 0 < column.edges[-1]
    return column.spread > (1.7 if signed else 1.0) * AVERAGES.ratio * column.size
