"""Averages: the hull of Fieller sets over all that the two sums may lack."""

from __future__ import annotations

import numpy as np

from sparseq.accounting.cut.ladder import Floats

_POINTS = 2000


def ratio_hull(
    numerator: tuple[Floats, float],
    denominator: tuple[Floats, float],
    missing: tuple[Floats, Floats],
    z: float,
    bounds: tuple[float, float],
) -> tuple[Floats, Floats]:
    """Return the ends of (N + s) / (D + c) that noise and missing rows allow, by group.

    Missing are c rows, from 0 to the most, whose sum s lies between c times the bounds, and within
    the most that the sum lacks. Kept is every theta with |N + s - theta (D + c)| <=
    z sqrt(s_N² + theta² s_D²) for some such c and s: on a grid of 1/2000 of the bounds, opened by a
    step. At each theta the left side is extreme at corners, so that none is missed.

    Args:
        numerator, denominator: (noised sums, standard deviation).
        missing: The most that each of the two lacks.
        z: Quantile.
        bounds: Of every value that is averaged.

    Source: Fieller (1954), for a fixed c and s.

    Example:
        >>> none = np.array([0.0])
        >>> low, high = ratio_hull((np.array([500.0]), 5.0), (np.array([100.0]), 2.0),
        ...                        (none, none), 1.96, (0.0, 10.0))
        >>> round(float(low[0]), 2), round(float(high[0]), 2)
        (4.79, 5.23)
    """
    least, most = bounds
    theta = np.linspace(least, most, _POINTS + 1)[:, None]
    n, d = numerator[0][None, :], denominator[0][None, :]
    middle = n - theta * d
    band = z * np.hypot(numerator[1], theta * denominator[1])
    moves = [s - theta * c for c, s in _corners(missing, bounds)]
    possible = (middle + np.minimum.reduce(moves) <= band) & (
        middle + np.maximum.reduce(moves) >= -band
    )
    step = (most - least) / _POINTS
    some = possible.any(axis=0)
    first = theta[:, 0][possible.argmax(axis=0)] - step
    last = theta[:, 0][_POINTS - possible[::-1].argmax(axis=0)] + step
    low = np.where(some, np.maximum(first, least), least)
    high = np.where(some, np.minimum(last, most), most)
    return low, high


def _corners(
    missing: tuple[Floats, Floats], bounds: tuple[float, float]
) -> list[tuple[Floats, Floats]]:
    """Return the corners of what can be missing: rows, and their sum."""
    total, rows = missing
    corners = [(np.zeros_like(rows), np.zeros_like(total))]
    for end in bounds:
        reached = np.minimum(rows, total / abs(end)) if end else rows
        corners.append((reached, end * reached))
        corners.append((rows, np.clip(end * rows, -total, total)))
    return corners
