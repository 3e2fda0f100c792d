"""A column pilot: the distribution of a column's values, measured once for many questions.

It counts rows by value, with each user's vector scaled to a norm of one. Its centre and spread are
the units in which sums, averages and quantiles of the column are measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.ladder import Floats

_LINEAR = 24
_OCTAVES = 12
_FEW = 1e-3  # least spread, as a part of the distance of the bounds


@dataclass(frozen=True)
class ColumnValues:
    """The distribution of a column's values: public, as released.

    Attributes:
        centre, spread: The values' approximate mean and standard deviation.
        size: The approximate mean of their absolute values.
        edges: The edges of the cells, ascending.
        below: Share of the values below each edge.
    """

    centre: float
    spread: float
    size: float
    edges: Floats
    below: Floats


def value_edges(low: float, high: float) -> Floats:
    """Return the edges of cells that count values within bounds.

    They go from 0 by factors of sqrt 2 up to the bounds, on both sides where values may be
    negative, and in equal steps where the bounds are far from 0.

    Example:
        >>> len(value_edges(0, 500)), value_edges(0, 500)[-3:].round().tolist()
        (26, [250.0, 354.0, 500.0])
        >>> value_edges(-8, 8)[[0, 12, 13, 25]].tolist()
        [-8.0, -0.125, 0.125, 8.0]
    """
    if low > 0 or high < 0:
        return np.linspace(low, high, _LINEAR + 1)
    if low == 0 or high == 0:
        up = 2.0 ** (np.arange(-2 * _OCTAVES, 1) / 2)
        edges = np.append(0.0, up) * (high if low == 0 else -low)
        return edges if low == 0 else -edges[::-1]
    up = 2.0 ** (np.arange(-_OCTAVES, 1) / 2)
    return np.concatenate([low * up[::-1], high * up])


def column_of(edges: Floats, rows: Floats, noise: float) -> ColumnValues:
    """Return the distribution of a column's values from a released histogram.

    Cells that hardly stand out of the noise count as empty. If all do, values may lie anywhere. The
    spread assumes uniform values within each cell: it has the variance between the middles of
    cells, and the variance width²/12 within them. How far values are from 0 does not matter.

    Args:
        edges: See `value_edges`.
        rows: Noised rows, by cell.
        noise: The standard deviation of the noise.

    Example:
        >>> edges = value_edges(0, 8)
        >>> found = column_of(edges, np.where(edges[1:] == 8, 1000.0, 0.0), 7.0)
        >>> round(found.centre, 1), round(found.spread, 2)
        (6.8, 0.68)
        >>> years = value_edges(2019, 2025)
        >>> column_of(years, np.where(years[1:] == 2022, 1000.0, 0.0), 7.0).spread.__round__(3)
        0.072
    """
    loud, near = rows > 2 * noise, rows > 0.5 * noise
    keep = loud | (near & (np.append(loud[1:], False) | np.append(False, loud[:-1])))
    there = np.where(keep, rows, 0.0)
    if there.sum() <= 0:
        there = np.diff(edges)
    share = there / there.sum()
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    centre = float(share @ middle)
    spread = math.sqrt(float(share @ ((middle - centre) ** 2 + width**2 / 12)))
    least = _FEW * float(edges[-1] - edges[0])
    below = np.append(0.0, np.cumsum(share))
    size = max(float(share @ np.abs(middle)), least)
    return ColumnValues(centre, max(spread, least), size, edges, below)
