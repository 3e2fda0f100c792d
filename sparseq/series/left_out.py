"""An allowance in intervals for users who have used up their budgets.

The measured values lack the users who have used up their norm_budget, and their number is private.
The planner knows it for the data that it plans on (`sparseq.series.planning.plan_strategies`), and
reports how fast it grows. The one assumption is that it grows no faster: at most the share
s_t = left_out (t + 1)/365 of tick t (0, 1, …) is missing, and never more than half. Let y_t be the
measured value. If values are not negative, at most y_t s_t/(1 − s_t) is then missing from the tick,
and from a sum over ticks the sum of these.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparseq.series.planning.simulate_strategy import window_sums

Floats = NDArray[np.float64]
TICKS = 365
_WINDOW, _MOST = 28, 0.5


def allowance(value: float, tick: int, left_out: float) -> float:
    """Return the most that may be missing from a tick.

    Args:
        value: Value of the series at the tick.
        tick: Number of the tick, from 0.
        left_out: Share that is missing after 365 ticks.

    Example:
        >>> round(allowance(1000.0, 364, 0.02), 2)  # 2 % of 1,020.41
        20.41
    """
    share = min(left_out * (tick + 1) / TICKS, _MOST)
    return share / (1 - share) * max(value, 0.0)


def rate_of(missing: Floats, truth: Floats, width: int) -> float:
    """Return the least `left_out` for which the allowance covers the missing part of all sums.

    Args:
        missing, truth: Known data, (ticks, d).
        width: Number of ticks in a sum; for fewer than 28, sums over 28 are used.

    Example:
        >>> truth = np.full((730, 1), 100.0)
        >>> late = np.arange(1, 731)[:, None] / 365
        >>> round(rate_of(0.01 * late * truth, truth, 1), 4)
        0.01
    """
    grown = truth * (np.arange(1, len(truth) + 1)[:, None] / TICKS)
    lacks, room = (window_sums(values, max(width, _WINDOW)) for values in (missing, grown))
    some = lacks > 0
    return float((lacks[some] / np.maximum(room[some], 1e-300)).max(initial=0.0))


def rounded_up(left_out: float) -> float:
    """Return a share with two digits, rounded up.

    >>> rounded_up(0.014123), rounded_up(0.0)
    (0.015, 0.0)
    """
    if left_out <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(left_out)) - 1)
    return round(math.ceil(left_out / step - 1e-9) * step, 12)
