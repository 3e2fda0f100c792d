"""Quantiles: the points at which noised ranks cross zero, on edges close around them.

A rank G(e), the rows below e minus q times all rows, is one number with one noise, and the cut
changes it little, as cut rows are distributed over the values like the others (`alike`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.averages import Ends
from sparseq.accounting.pilots.choice import Choice, Cut, Question, Risk, upper
from sparseq.accounting.pilots.column_values import ColumnValues
from sparseq.accounting.pilots.ladder import Floats
from sparseq.accounting.pilots.sample_quantiles import SampleColumns, sample_quantile


@dataclass(frozen=True)
class QuantileRules:
    """Constants of quantiles (docs/theorems/pilots.md, "Quantiles").

    Attributes:
        ranks: Distance of the share of cut rows below a value from q, in units of sqrt(q (1 - q)).
        opened: Factor of the interval, because it is extended to whole bins afterwards.
    """

    ranks: float = 0.25
    opened: float = 0.87


QUANTILES = QuantileRules()

_AWAY = (0.0, 0.008, 0.02, 0.04, 0.07, 0.11, 0.17, 0.25, 0.36)
_LEAST = 5e-4


def quantile_edges(column: ColumnValues, levels: Sequence[float]) -> tuple[float, ...]:
    """Return edges that are close together around a column's quantiles.

    Example:
        >>> from sparseq.accounting.pilots.column_values import column_of, value_edges
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
    """Return the expected squared error of a rank under scales, in the form for `choose`."""

    def risk(q: Question, cut: Cut, scales: Floats, total: float) -> Floats:
        share = np.minimum(cut.share, 0.9)
        rows = max(total, 1e-9) * (1 - SampleColumns(share).medians())
        noise = scales * q.sigma_0 / math.sqrt(q.price) * math.sqrt(cells) / 2 / rows
        off = (share**2).mean(axis=0) * QUANTILES.ranks**2 / 4
        return np.asarray(noise**2 + off * (1 + np.minimum(4 / cut.heavy, 4.0)))

    return risk


def quantile(choice: Choice, counts: Floats, level: float, edges: Floats) -> Ends:
    """Return a quantile by group, from noised rows by bin.

    The interval has every edge at which G may be 0, extended to whole bins, as values may be equal.

    Args:
        choice: The scale of the measurement.
        counts: (groups, bins).
        level: q, between 0 and 1.
        edges: The edges of the bins.
    """
    m, noise, groups = choice.missing, choice.missing.noise, len(counts)
    cells = counts.shape[1]
    total = np.maximum(counts.sum(axis=1), noise * math.sqrt(cells))
    below = np.arange(1, cells + 1)
    ranks = np.cumsum(counts, axis=1) - level * counts.sum(axis=1, keepdims=True)
    spread = noise * np.sqrt((1 - level) ** 2 * below + level**2 * (cells - below))
    share = min(sample_quantile(m.share, 0.9), 0.9)
    heavy = m.heavy * total / max(float(total.sum()), 1e-9)
    off = QUANTILES.ranks * math.sqrt(level * (1 - level)) * np.sqrt(1 + np.minimum(1 / heavy, 4.0))
    z = QUANTILES.opened * upper(choice.of.beta / 2 / groups)
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
