"""Sums of a release's cells: values, intervals and noise of an answer that follows from it.

The noise of a sum of m cells has standard deviation sqrt(m) · sigma: the cells' noise is
independent. For a weighted answer the interval is the intersection of two intervals: the sums of
the cells' ends, and the noise of the sum plus a bound on its cut, which is sqrt(m) times the sum of
the cells' bounds. The reason is that users are weighted by their norm over all cells, and the
weight of a user in m cells cuts up to sqrt(m) times as much from their sum (Cauchy and Schwarz);
the bound on a cell's cut is a share of the norm. The sum's own noise is an additional event, so if
cells are added it takes `EXTRA` of beta, and the answer's confidence is lower by that amount. A
single cell keeps its interval. In an in-or-out answer the ± covers only noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.accounting import simultaneous_bound
from sparseq.accounting.pilots.sample_quantiles import median
from sparseq.language.interval_arithmetic import Floats
from sparseq.question.plan import Kind, Noise, Query
from sparseq.released.outputs import Intervals, Measurements
from sparseq.released.render import key_columns
from sparseq.reuse.grids import Sums
from sparseq.reuse.recorded_cells import RecordedCells

EXTRA = 1 / 50
_NORMAL = statistics.NormalDist()


@dataclass(frozen=True)
class DerivedAnswer:
    """An answer that follows from a release: noised, with its intervals.

    Attributes:
        noised: Like an answer's own.
        beta: The joint failure probability of its intervals.
        noise: The ± of the noise of each measure.
        sigmas: The largest sigma of the noise of each measure.
        widths: The mean half-width of each measure's intervals.
    """

    noised: Measurements
    beta: float
    noise: tuple[float, ...]
    sigmas: tuple[float, ...]
    widths: tuple[float, ...]

    def within(self, part: float) -> bool:
        """Tell whether the noise of each measure is within a given part of its values' mean."""
        means = [float(np.abs(values).mean()) for values in self.noised.measures]
        return all(n <= part * mean for n, mean in zip(self.noise, means, strict=True))


def derive_answer(
    query: Query, cells: RecordedCells, sums: Sequence[Sums], beta: float, noise: Sequence[Noise]
) -> DerivedAnswer:
    """Return the answer to a question as sums of a release's cells.

    Args:
        query: The question.
        cells: The cells of the release.
        sums: The parts of each measure of the question.
        beta: The beta of the release.
        noise: The noise of the measures of the release.
    """
    most = [max(map(len, one.groups)) for one in sums]
    if cells.noised.weighted is None:
        noised = _in_or_out(query, cells.noised, sums, most, beta, noise)
    else:
        whole = all(m == 1 for m in most)
        extra = 0.0 if whole else beta * EXTRA
        noised = _weight(query, cells.noised, cells.noised.weighted, sums, most, extra)
        beta += extra
    ends = [noised.ends(i) for i in range(len(sums))]
    return DerivedAnswer(
        noised,
        beta,
        tuple(map(float, noised.bounds)),
        tuple(noise[one.measure].sigma * math.sqrt(m) for one, m in zip(sums, most, strict=True)),
        tuple(float((high - low).mean()) / 2 for low, high in ends),
    )


def _in_or_out(
    query: Query,
    released: Measurements,
    sums: Sequence[Sums],
    most: Sequence[int],
    beta: float,
    noise: Sequence[Noise],
) -> Measurements:
    cells = sum(len(s.groups) * m.bins for s, m in zip(sums, query.measures, strict=True))
    bounds = [
        float(
            simultaneous_bound(
                noise[one.measure].sigma * math.sqrt(m),
                cells,
                beta,
                lattice_step=noise[one.measure].granularity * m,
            )
        )
        for one, m in zip(sums, most, strict=True)
    ]
    values = [_add(released.measures[one.measure], one) for one in sums]
    return Measurements(values, bounds, key_columns(query.domains), query.groups)


def _weight(
    query: Query,
    released: Measurements,
    intervals: Intervals,
    sums: Sequence[Sums],
    most: Sequence[int],
    extra: float,
) -> Measurements:
    z_sum = -_NORMAL.inv_cdf(extra / (2 * query.coordinates)) if extra else 0.0
    values, lows, highs, noised, sigmas, missing, z = ([] for _ in range(7))
    for measure, one, m in zip(query.measures, sums, most, strict=True):
        i = one.measure
        signed = measure.kind is Kind.SUM and (measure.bounds is None or measure.bounds[0] < 0)
        summed = _add(intervals.noised[i], one)
        low, high = _add(intervals.lows[i], one), _add(intervals.highs[i], one)
        size = np.array([len(places) for places in one.groups], np.float64)[:, None]
        noise = z_sum * intervals.sigmas[i] * np.sqrt(size)
        lacks = _add(intervals.missing[i], one) * np.sqrt(size)
        several = size > 1
        low = np.where(several, np.maximum(low, summed - noise - lacks * signed), low)
        high = np.where(several, np.minimum(high, summed + noise + lacks), high)
        high = np.maximum(low, high)
        again = _add(released.measures[i], one)
        if not signed:
            again = np.where(several, summed * _added_back(released, intervals, i), again)
        values.append(np.clip(np.where(several & signed, summed, again), low, high))
        lows.append(low)
        highs.append(high)
        noised.append(summed)
        missing.append(lacks)
        sigmas.append(intervals.sigmas[i] * math.sqrt(m))
        z.append(max(z_sum, intervals.z[i]) if m == 1 else z_sum)
    return Measurements(
        values,
        [a * b for a, b in zip(z, sigmas, strict=True)],
        key_columns(query.domains),
        query.groups,
        Intervals(lows, highs, noised, sigmas, missing, z),
    )


def _added_back(released: Measurements, intervals: Intervals, i: int) -> float:
    """Return the factor, common to all cells of a release, that corrected weights below 1.

    Cells that are mostly noise were shrunk towards 0, which is right for each cell and wrong for
    their sum, so the factor is estimated from the other cells, if there are any.
    """
    value, noised = released.measures[i], intervals.noised[i]
    there = noised > 0
    sure = there & ((intervals.highs[i] - intervals.lows[i]) / 2 <= value)
    of = sure if sure.any() else there
    return max(median(value[of] / noised[of]), 1.0) if of.any() else 1.0


def _add(cells: Floats, one: Sums) -> Floats:
    """Return sums of a release's groups, with shape (groups of the question, bins)."""
    added: Floats = np.stack([cells[list(places)].sum(axis=0) for places in one.groups])
    return added
