"""A chain of parent pilots: upper bounds on the cut of a table's rows at any later time.

With C = g/a_min, Σ (r_i − C a_i)+ = Σ (r_i − g/u_i)+ falls as u_i falls, and it is smaller for
fewer rows. So the cut of a table under g at one time bounds the cut of any of its rows under g at
all later times (docs/theorems/pilots.md). The first pilot gives the bound by the model of its tail;
later pilots give it by linear statistics of their cells, and by earlier bounds above these cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparseq.accounting.pilots.ladder import CELLS, Floats
from sparseq.accounting.pilots.matrix_product import product
from sparseq.accounting.pilots.sample_quantiles import SampleColumns

_BELOW = 8
LEVELS = 2.0 ** np.arange(-_BELOW, CELLS)
"""g, in norms of the first pilot."""
_SELECT = 2.0
_UPPER = 1.96
_REACH = 14  # cells in a linear statistic: with more cells its noise dominates

Bounds = tuple[tuple[float, float], ...]
"""A bound on the cut mass and its standard deviation, by level."""


def chain_edges(factor: float) -> Floats:
    """Return the edges of r/a of a pilot at a time when 1/a_min is `factor` times as large.

    Example:
        >>> chain_edges(5.0)[:4].tolist()
        [1.25, 2.5, 5.0, 10.0]
    """
    first = -max(math.floor(math.log2(factor) + 1e-9), 0)
    return np.asarray(factor * 2.0 ** np.arange(first, first + CELLS))


def first_bounds(samples: Floats) -> Bounds:
    """Return the cut by level of the first pilot's samples: the median, and the 97.5 % quantile.

    Example:
        >>> found = first_bounds(np.full((4, CELLS), 2.0) * (np.arange(CELLS) == 3))
        >>> [round(x, 6) for x in found[_BELOW + 2]]
        [8.0, 0.0]
    """
    edges = np.ldexp(1.0, np.arange(CELLS))
    cut = product(samples[:, :CELLS], np.maximum(edges[:, None] - LEVELS[None, :], 0.0))
    middle, high = SampleColumns(cut).quantiles((0.5, 0.975))
    return tuple(zip(middle.tolist(), ((high - middle) / _UPPER).tolist(), strict=True))


def later_bounds(before: Bounds, factor: float, people: Sequence[float], sd: float) -> Bounds:
    """Return the bounds after another pilot of the same rows.

    For a level g and a level M above it, the cut is at most Σ h_k (e_k − C) over cells up to M,
    plus (2 − g/M) times the cut under M. The bound with the least estimate and two standard
    deviations is kept.

    Args:
        before: The bounds so far.
        factor: 1/a_min as a multiple of its value at the first pilot.
        people: Noised people on `chain_edges(factor)`.
        sd: The standard deviation of each.
    """
    edges, seen = chain_edges(factor), np.array(people)
    places, found = edges / factor, list[tuple[float, float]]()
    for i, level in enumerate(LEVELS.tolist()):
        some = [before[i]]
        for m in range(i + 1, min(i + _REACH, len(LEVELS))):
            if LEVELS[m] < places[0] * (1 - 1e-9):
                continue
            inside = (places > level) & (places <= LEVELS[m] * (1 + 1e-9))
            above = np.where(inside, edges - factor * level, 0.0)
            rest = 2 - level / float(LEVELS[m])
            most = float(seen @ above) + rest * before[m][0]
            spread = math.hypot(float(np.linalg.norm(above)) * sd, rest * before[m][1])
            some.append((max(most, 0.0), spread))
        found.append(min(some, key=lambda one: one[0] + _SELECT * one[1]))
    return tuple(found)


def upper_of(bounds: Bounds) -> Floats:
    """Return the upper bound on the cut by level, with two standard deviations."""
    most = np.array([one + _SELECT * sd for one, sd in bounds])
    return np.minimum.accumulate(most)


def at_level(values: Floats, level: float) -> Floats:
    """Return values by level (the last axis) at a level in between; the cut is convex in the level.

    Example:
        >>> float(at_level(LEVELS, 3.0)), float(at_level(np.full(len(LEVELS), np.inf), 2.0))
        (3.0, inf)
    """
    place = min(max(math.log2(max(level, LEVELS[0])) + _BELOW, 0.0), len(LEVELS) - 1.001)
    k = int(place)
    into = (level - LEVELS[k]) / (LEVELS[k + 1] - LEVELS[k])
    into = min(max(into, 0.0), 1.0)
    below, above = values[..., k], values[..., k + 1]
    if into in (0.0, 1.0):  # a bound may be infinite, and 0 · infinity is no number
        return np.asarray(above if into else below)
    return np.asarray((1 - into) * below + into * above)
