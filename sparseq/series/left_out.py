"""An allowance in intervals for what a series lacks whose people are in or out.

Whoever has used up the norm_budget is missing in what is measured, and how many are is private. The
planner knows it of the data that it plans on (`sparseq.series.planning.plan_strategies`), and says
how fast it grows; that it grows no faster is assumed, and is all that is: of tick t (0, 1, …) at
most the share s_t = left_out (t + 1)/365 is missing, and never more than half. With y_t taken in,
of values that are not negative, at most y_t s_t/(1 − s_t) is then missing of the tick, and of a sum
over ticks the sum of these.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparseq.series.planning.simulate import window_sums

Floats = NDArray[np.float64]
TICKS = 365
_WINDOW, _MOST = 28, 0.5


def allowance(value: float, tick: int, left_out: float) -> float:
    """Return what may be missing of a tick.

    Args:
        value: Of the series at the tick.
        tick: Its number, from 0.
        left_out: Share that is missing after 365 ticks.

    Example:
        >>> round(allowance(1000.0, 364, 0.02), 2)  # 2 % of 1,020.41
        20.41
    """
    share = min(left_out * (tick + 1) / TICKS, _MOST)
    return share / (1 - share) * max(value, 0.0)


def rate_of(missing: Floats, truth: Floats, width: int) -> float:
    """Return the least `left_out` with which all sums over ticks have room for what is missing.

    Args:
        missing, truth: Of known data, (ticks, d).
        width: Over how many ticks the sums go; of shorter ones, those over 28 are looked at.

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
