"""Sums of cells that a release has: values, intervals and noise of an answer that follows from it.

The noise of a sum of m cells has standard deviation sqrt(m) · sigma: the cells' noise is
independent. Of a weighted answer the interval lies within the sums of the cells' ends, and within
the noise of the sum and all that it may lack: sqrt(m) times what its cells may lack, added up. For
people are cut by their norm over all cells, and who is in m of them lacks up to sqrt(m) times as
much in their sum (Cauchy and Schwarz); that of a cell is a share of the norm. The sum's own noise
is one event more than the release's, so where cells are added it takes `EXTRA` of beta, and the
answer's confidence is that much less. A cell on its own keeps its interval. In or out, the ± is
noise alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.accounting import simultaneous_bound
from sparseq.released.outputs import Floats, Intervals, Measurements
from sparseq.released.render import key_columns
from sparseq.reuse.answer_views import Sums
from sparseq.reuse.measured_cells import RecordedCells
from sparseq.sql.plan import Kind, Noise, Query

EXTRA = 1 / 50
_NORMAL = statistics.NormalDist()


@dataclass(frozen=True)
class DerivedAnswer:
    """An answer that follows from a release: noised, with its intervals.

    Attributes:
        noised: As an answer's own.
        beta: Of its intervals, all at once.
        noise: ± of the noise of each measure.
        sigmas: Of the noise of each measure, where it is largest.
        widths: Mean half-width of each measure's intervals.
    """

    noised: Measurements
    beta: float
    noise: tuple[float, ...]
    sigmas: tuple[float, ...]
    widths: tuple[float, ...]

    def within(self, part: float) -> bool:
        """Tell whether the noise of each measure is within a part of its values' mean."""
        means = [float(np.abs(values).mean()) for values in self.noised.measures]
        return all(n <= part * mean for n, mean in zip(self.noise, means, strict=True))


def derived(
    query: Query, cells: RecordedCells, sums: Sequence[Sums], beta: float, noise: Sequence[Noise]
) -> DerivedAnswer:
    """Return the answer to a question as sums of a release's cells.

    Args:
        query: The question.
        cells: Of the release.
        sums: What each measure of the question is made of.
        beta: Of the release.
        noise: Of the measures of the release.
    """
    most = [max(map(len, one.groups)) for one in sums]
    if cells.noised.weighted is None:
        noised = _in_or_out(query, cells.noised, sums, most, beta, noise)
    else:
        whole = all(m == 1 for m in most)
        extra = 0.0 if whole else beta * EXTRA
        noised = _weighted(query, cells.noised, cells.noised.weighted, sums, most, extra)
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
    known: Measurements,
    sums: Sequence[Sums],
    most: Sequence[int],
    beta: float,
    noise: Sequence[Noise],
) -> Measurements:
    cells = sum(len(s.groups) * m.bins for s, m in zip(sums, query.measures, strict=True))
    bounds = [
        float(
            simultaneous_bound(
                noise[one.measure].sigma * math.sqrt(m), cells, beta,
                lattice_step=noise[one.measure].granularity * m,
            )
        )
        for one, m in zip(sums, most, strict=True)
    ]  # fmt: skip
    values = [_added(known.measures[one.measure], one) for one in sums]
    return Measurements(values, bounds, key_columns(query.domains), query.groups)


def _weighted(
    query: Query,
    known: Measurements,
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
        summed = _added(intervals.noised[i], one)
        low, high = _added(intervals.lows[i], one), _added(intervals.highs[i], one)
        size = np.array([len(places) for places in one.groups], np.float64)[:, None]
        noise = z_sum * intervals.sigmas[i] * np.sqrt(size)
        lacks = _added(intervals.missing[i], one) * np.sqrt(size)
        several = size > 1
        low = np.where(several, np.maximum(low, summed - noise - lacks * signed), low)
        high = np.where(several, np.minimum(high, summed + noise + lacks), high)
        high = np.maximum(low, high)
        again = _added(known.measures[i], one)
        if not signed:
            again = np.where(several, summed * _added_back(known, intervals, i), again)
        values.append(np.clip(np.where(several & signed, summed, again), low, high))
        lows.append(low)
        highs.append(high)
        noised.append(summed)
        missing.append(lacks)
        sigmas.append(intervals.sigmas[i] * math.sqrt(m))
        z.append(max(z_sum, intervals.z[i]) if m == 1 else z_sum)
    return Measurements(
        values, [a * b for a, b in zip(z, sigmas, strict=True)], key_columns(query.domains),
        query.groups, Intervals(lows, highs, noised, sigmas, missing, z),
    )  # fmt: skip


def _added_back(known: Measurements, intervals: Intervals, i: int) -> float:
    """Return by what the cells of a release were raised for what was cut: the same for all.

    Cells that are mostly noise went towards 0, which is right for each and wrong for their sum: it
    is read off the others, where there are any.
    """
    value, noised = known.measures[i], intervals.noised[i]
    there = noised > 0
    sure = there & ((intervals.highs[i] - intervals.lows[i]) / 2 <= value)
    of = sure if sure.any() else there
    return max(float(np.median(value[of] / noised[of])), 1.0) if of.any() else 1.0


def _added(cells: Floats, one: Sums) -> Floats:
    """Return sums of a release's groups, (groups of the question, bins)."""
    added: Floats = np.stack([cells[list(places)].sum(axis=0) for places in one.groups])
    return added
