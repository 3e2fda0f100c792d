"""Covariances of two values; correlations and slopes of lines, which follow from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparseq.accounting.pilots.averages import AverageScale, Ends


def covariance(
    products: Ends, rows: Ends, means: Sequence[Ends], abouts: Sequence[AverageScale], grain: float
) -> Ends:
    """Return covariances by group: the mean of (x - a)(y - b) less (mean x - a)(mean y - b).

    Errors of the sums are assumed to be independent, as in `quotient_end`.

    Args:
        products: Sums of (x - a)(y - b), with their intervals.
        rows: The numbers of rows.
        means: The means of x and of y.
        abouts: The scales, with a and b and the bounds of values.
        grain: The largest change of a product by rounding.
    """
    p, p_low, p_high = products
    n, n_low, n_high = rows
    least = np.maximum(n, np.maximum((n_high - n_low) / 2, 1e-9))
    per_row = p / least
    by_rows = np.abs(per_row) * np.maximum(n_high - n, n - n_low) / least
    off = [value - about.centre for (value, _, _), about in zip(means, abouts, strict=True)]
    ends = [np.maximum(high - value, value - low) for value, low, high in means]
    by_means = np.hypot(off[0] * ends[1], off[1] * ends[0]) + ends[0] * ends[1]
    most = np.prod([(about.bounds[1] - about.bounds[0]) / 2 for about in abouts])
    value = np.clip(per_row - off[0] * off[1], -most, most)
    rest = np.hypot(by_rows, by_means)
    up = np.hypot((p_high - p) / least, rest) + grain
    down = np.hypot((p - p_low) / least, rest) + grain
    unsure = n_low <= 0
    low = np.where(unsure, -most, np.maximum(value - down, -most))
    return value, low, np.where(unsure, most, np.minimum(value + up, most))


def over(dividend: Ends, variances: Sequence[Ends], power: float, most: float = np.inf) -> Ends:
    """Return covariances over a power of each variance, by group: no larger than `most`.

    Errors are assumed to be independent, as in `quotient_end`. If a variance may be 0, any value is
    possible.

    Example:
        >>> def ends(*some): return tuple(np.array([x]) for x in some)
        >>> value, low, high = over(ends(3.0, 3.0, 3.0), [ends(4.0, 4.0, 9.0)], 0.5)
        >>> value.tolist(), low.tolist(), high.tolist()
        ([1.5], [1.0], [1.5])
        >>> [x.tolist() for x in over(ends(3.0, 2.0, 4.0), [ends(1.0, 0.0, 9.0)], 0.5, 1.0)]
        [[1.0], [-1.0], [1.0]]
    """
    middle, low, high = dividend
    with np.errstate(all="ignore"):
        size = np.prod([v**power for v, _, _ in variances], axis=0)
        value = middle / size
        further = np.sqrt(
            sum((np.abs(value) * ((v / a) ** power - 1)) ** 2 for v, a, _ in variances)
        )
        nearer = np.sqrt(
            sum((np.abs(value) * (1 - (v / b) ** power)) ** 2 for v, _, b in variances)
        )
        up = np.hypot((high - middle) / size, np.where(value > 0, further, nearer))
        down = np.hypot((middle - low) / size, np.where(value > 0, nearer, further))
    sure = np.all([a > 0 for _, a, _ in variances], axis=0)
    value = np.clip(np.where(sure | np.isfinite(value), value, 0.0), -most, most)
    least = np.where(sure, np.maximum(value - down, -most), -most)
    return value, np.minimum(least, value), np.where(sure, np.minimum(value + up, most), most)
