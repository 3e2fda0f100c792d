"""A column pilot: where a column's values lie, once for many questions.

It counts rows by value, each person's scaled to a norm of one; its centre and spread are the units
that sums, averages and quantiles of the column are measured in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.ladder import Floats

_LINEAR = 24
_OCTAVES = 12
_FEW = 0.03  # least spread, as a part of the centre


@dataclass(frozen=True)
class ColumnValues:
    """Public: released.

    Attributes:
        centre, spread: About the values' mean and standard deviation.
        size: About the mean of their absolute values.
        edges: Of the cells, ascending.
        below: Share of the values below each edge.
    """

    centre: float
    spread: float
    size: float
    edges: Floats
    below: Floats


def value_edges(low: float, high: float) -> Floats:
    """Return edges of the cells that values within bounds are counted in.

    From 0 by factors of sqrt 2 up to the bounds, on both sides where values may be negative; in
    equal steps where they are far from 0.

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
    """Return what a released histogram says of a column.

    Cells that hardly stand out of the noise count as empty. Where all do, nothing is known: values
    are taken to lie anywhere.

    Args:
        edges: See `value_edges`.
        rows: Noised, by cell.
        noise: Standard deviation.

    Example:
        >>> edges = value_edges(0, 8)
        >>> found = column_of(edges, np.where(edges[1:] == 8, 1000.0, 0.0), 7.0)
        >>> round(found.centre, 1), round(found.spread, 2)
        (6.8, 0.2)
    """
    loud, near = rows > 2 * noise, rows > 0.5 * noise
    keep = loud | (near & (np.append(loud[1:], False) | np.append(False, loud[:-1])))
    there = np.where(keep, rows, 0.0)
    if there.sum() <= 0:
        there = np.diff(edges)
    share = there / there.sum()
    middle = (edges[1:] + edges[:-1]) / 2
    centre = float(share @ middle)
    spread = math.sqrt(max(float(share @ middle**2) - centre**2, 0.0))
    least = max(_FEW * abs(centre), 1e-3 * float(edges[-1] - edges[0]))
    below = np.append(0.0, np.cumsum(share))
    size = max(float(share @ np.abs(middle)), least)
    return ColumnValues(centre, max(spread, least), size, edges, below)
