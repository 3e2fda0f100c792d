"""Medians and quantiles of samples, from one sort of each column.

They have the bits of `numpy.median` and `numpy.quantile`, which take four to six times as long, and
import `numpy.ma`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def median(samples: Floats) -> float:
    """Return the median of samples; NaN if one of them is NaN.

    Example:
        >>> median(np.array([3.0, 1.0, 2.0, 8.0]))
        2.5
    """
    ordered = np.sort(samples, axis=None)
    size = len(ordered)
    if math.isnan(ordered[-1]):
        return math.nan
    if size % 2:
        return float(ordered[size // 2])
    return float((ordered[size // 2 - 1] + ordered[size // 2]) / 2)


def sample_quantile(samples: Floats, probability: float) -> float:
    """Return a quantile of samples, between the samples around it."""
    return float(quantiles(samples, np.array([probability]))[0])


def quantiles(samples: Floats, probabilities: Floats) -> Floats:
    """Return quantiles of samples, each between the samples around it.

    Example:
        >>> quantiles(np.array([3.0, 1.0, 2.0]), np.array([0.0, 0.25, 1.0])).tolist()
        [1.0, 1.5, 3.0]
    """
    ordered = np.sort(samples)
    place = (len(ordered) - 1) * probabilities
    below = np.floor(place).astype(np.int64)
    part = place - below
    low, high = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)]
    step = high - low
    return np.where(part >= 0.5, high - step * (1 - part), low + step * part)


class SampleColumns:
    """Columns of samples, each in ascending order.

    Args:
        samples: (samples, columns), finite; at least two samples.

    Example:
        >>> columns = SampleColumns(np.array([[3.0, 0.0], [1.0, 4.0], [2.0, 8.0]]))
        >>> columns.medians().tolist(), [one.tolist() for one in columns.quantiles([0.25])]
        ([2.0, 4.0], [[1.5, 2.0]])
    """

    def __init__(self, samples: Floats) -> None:
        self._sorted = np.array(samples.T, order="C")
        self._sorted.sort(axis=1)

    def medians(self) -> Floats:
        """Return each column's median."""
        size = self._sorted.shape[1]
        if size % 2:
            return np.array(self._sorted[:, size // 2])
        return np.asarray((self._sorted[:, size // 2 - 1] + self._sorted[:, size // 2]) / 2)

    def quantiles(self, probabilities: Sequence[float]) -> list[Floats]:
        """Return each column's quantiles, for probabilities below 1, between the samples around."""
        found = []
        for probability in probabilities:
            place = (self._sorted.shape[1] - 1) * probability
            below = math.floor(place)
            part = place - below
            low, high = self._sorted[:, below], self._sorted[:, below + 1]
            step = high - low
            found.append(high - step * (1 - part) if part >= 0.5 else low + step * part)
        return found
