"""Averages: c + sum (v - c) / rows about a released centre c, or the quotient of two sums.

Near the centre a value adds little to a person's norm, so that the noise is that of the spread and
not of the size of values; and who is cut is cut in both sums. `alike`: the values of rows that were
cut lie as the others do, but for a part of the spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sparseq.accounting.cut.choice import Choice, Cut, Question, Risk, upper
from sparseq.accounting.cut.column import ColumnValues
from sparseq.accounting.cut.ladder import Floats
from sparseq.accounting.cut.rules import RULES, Rules

Ends = tuple[Floats, Floats, Floats]
"""Value, low and high, by group."""


@dataclass(frozen=True)
class About:
    """What an average is about, in the values' unit: public.

    Attributes:
        centre: What values are taken from.
        spread: Of the column.
        unit: Of the sum, in rows: a value that is one unit off the centre counts as a row.
        once: A person has one value.
        bounds: Of values.
    """

    centre: float
    spread: float
    unit: float
    once: bool
    bounds: tuple[float, float]

    def off(self, rules: Rules = RULES) -> float:
        """Return how far the mean of cut rows lies from the others' (standard deviation)."""
        return (rules.once if self.once else rules.values) * self.spread


def average_risk(about: About) -> Risk:
    """Return the expected squared error of an average under scales, as `choose` takes it."""

    def risk(q: Question, cut: Cut, scales: Floats, total: float, rules: Rules) -> Floats:
        groups = q.coordinates / 2
        share = np.minimum(cut.share, 0.9)
        rows = max(total / 1.5 / groups, 1e-9) * (1 - np.median(share, axis=0))
        noise = 1.15 * about.unit * scales * q.sigma_0 / math.sqrt(q.price) / rows
        apart = 1 + np.minimum(groups / cut.heavy, 4.0)
        off = (share**2).mean(axis=0) * about.off(rules) ** 2
        return np.asarray(noise**2 + off * apart)

    return risk


def centred(
    choice: Choice, rows: Floats, total: Floats, about: About, rules: Rules = RULES
) -> Ends:
    """Return averages by group, from noised rows and sums of (v - centre).

    Args:
        choice: The scale that both were measured with.
        rows: By group.
        total: In the values' unit.
        about: What it is about.
        rules: Constants.

    Example: see `sparseq.stream.averages`.
    """
    m, noise = choice.missing, choice.missing.noise
    least = np.maximum(rows, 0.5 * noise)
    off = total / least
    reach = np.minimum(np.abs(off), 3 * about.spread)
    variance = ((about.unit * noise) ** 2 + (reach * noise) ** 2) / least**2
    share = min(float(np.quantile(m.share, 0.9)), 0.9)
    heavy = m.heavy * least / max(float(least.sum()), 1e-9)
    bias = share * about.off(rules) * np.sqrt(1 + np.minimum(1 / heavy, 9.0))
    return _shrunk(about.centre, off, (variance, variance), bias, least, about, choice.of, rules)


def quotient(total: Ends, rows: Ends, about: About, z: float, q: Question) -> Ends:
    """Return averages of two sums that were measured apart, by group.

    Args:
        total, rows: Their intervals, in the values' unit and in rows.
        about: Its centre is not what values were taken from, only where they lie.
        z: How many standard deviations wide these are.
        q: What was asked.
    """
    n, n_low, n_high = total
    m, m_low, m_high = rows
    up, down = np.maximum(n_high - n, 1e-12) / z, np.maximum(n - n_low, 1e-12) / z
    more, less = np.maximum(m_high - m, 1e-9) / z, np.maximum(m - m_low, 1e-9) / z
    least = np.maximum(m, (more + less) / 2)
    centre = float(n.sum() / max(m.sum(), 1.0)) if len(n) > 1 else about.centre
    centre = min(max(centre, about.bounds[0]), about.bounds[1])
    off = n / least - centre
    size = np.minimum(np.abs(off + centre), max(map(abs, about.bounds)))
    variances = (
        (down**2 + (size * more) ** 2) / least**2, (up**2 + (size * less) ** 2) / least**2,
    )  # fmt: skip
    none = np.zeros(len(n))
    # their intervals are widened already
    return _shrunk(centre, off, variances, none, least, about, q, replace(RULES, widen=1.0))


def variance(squares: Ends, rows: Ends, mean: Ends, about: About) -> Ends:
    """Return variances by group: the mean of (v - c)² less (mean - c)².

    Errors of the two sums are taken to be independent, as in `quotient`.

    Args:
        squares: Sums of (v - c)², in the values' unit squared, with their intervals.
        rows, mean: How many there are, and their average.
        about: Has c, and the bounds of values.
    """
    q, q_low, q_high = squares
    n, n_low, n_high = rows
    least = np.maximum(n, np.maximum((n_high - n_low) / 2, 1e-9))
    per_row = q / least
    up = np.hypot(q_high - q, per_row * (n - n_low)) / least
    down = np.hypot(q - q_low, per_row * (n_high - n)) / least
    offs = np.stack([(some - about.centre) ** 2 for some in mean])
    inside = (mean[1] <= about.centre) & (about.centre <= mean[2])
    smallest = np.where(inside, 0.0, offs.min(axis=0))
    most = ((about.bounds[1] - about.bounds[0]) / 2) ** 2
    low = np.clip(per_row - down - offs.max(axis=0), 0.0, most)
    high = np.clip(np.where(n_low > 0, per_row + up - smallest, most), low, most)
    return np.clip(per_row - offs[0], low, high), low, high


def _shrunk(
    centre: float,
    off: Floats,
    variances: tuple[Floats, Floats],
    bias: Floats,
    rows: Floats,
    about: About,
    q: Question,
    rules: Rules,
) -> Ends:
    """Return centre + off by group, and intervals, where groups lie about the centre.

    Intervals are of a group that lies `wide` spreads about it; values go towards the centre by how
    far the groups are seen to lie from it (empirical Bayes; Morris 1983).
    """
    groups, wide = len(off), (rules.wide * about.spread) ** 2
    low, high = variances
    variance, prior = (low + high) / 2, wide
    if groups > 2:
        seen = float((rows**2 * (off**2 - variance)).sum() / (rows**2).sum())
        prior = min(max(seen, (0.15 * about.spread) ** 2), wide)
    value = centre + off * prior / (prior + variance)
    middle = centre + off * wide / (wide + variance)
    z = upper(q.beta / 2 / groups) * rules.widen
    down, up = (np.hypot(np.sqrt(v * wide / (wide + v)), bias) * z for v in (low, high))
    least, most = about.bounds
    low_end = np.clip(np.minimum(middle - down, value), least, most)
    high_end = np.clip(np.maximum(middle + up, value), least, most)
    return np.clip(value, low_end, high_end), low_end, high_end


def apart(column: ColumnValues, rules: Rules = RULES) -> bool:
    """Tell whether values are so heavy that sum and rows are measured apart: with one weight, those
    who are cut would have the high values."""
    signed = column.edges[0] < 0 < column.edges[-1]
    return column.spread > (2.5 if signed else 1.0) * rules.ratio * column.size
