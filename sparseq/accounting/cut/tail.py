"""The named model of people whom no pilot sees: a tail beyond the last visible cell."""

from __future__ import annotations

import math

import numpy as np

from sparseq.accounting.cut.ladder import CELLS, Floats
from sparseq.accounting.cut.reading import Reading
from sparseq.accounting.cut.rules import Rules


def tail(
    seen: Reading, limit: Floats | None, rules: Rules, upper: bool, faded: int = 0
) -> tuple[Floats, Floats]:
    """Return people per cell beyond the last visible one, and the model's standard deviation.

    The tail starts at the last visible cell and falls by what was seen, at least by a stated
    factor a cell; its height, known to 70 %, is then updated by what was measured there.

    Args:
        seen: What the pilots showed.
        limit: People at or above each edge, of a parent pilot: there are no more.
        rules: Constants.
        upper: Of the interval; else of the estimate, which falls faster.
        faded: Cells by which fading may have moved people up.
    """
    n, v, top = np.zeros(CELLS), np.zeros(CELLS), seen.top
    limit = None if limit is None or limit.sum() < 1 else limit
    t = _shape(seen, limit, rules, upper, faded)
    if limit is not None:
        t = np.minimum(t, limit[top + 1 :])
    beyond = slice(top + 1, CELLS)
    variance = seen.sd[beyond] ** 2
    known = 1 / 0.7**2  # a matched filter: the model's height meets what was measured
    told = float((t**2 / variance).sum())
    height = (known + float((t * seen.people[beyond] / variance).sum())) / (known + told)
    n[beyond], v[beyond] = t * max(height, 0.0), t / math.sqrt(known + told)
    n[seen.ladder.cap + 1 :] = v[seen.ladder.cap + 1 :] = 0.0
    return n, v


def _shape(seen: Reading, limit: Floats | None, rules: Rules, upper: bool, faded: int) -> Floats:
    """Return the model before it meets the measurements."""
    h, sd, top = seen.people, seen.sd, seen.top
    cells = np.arange(1, CELLS - top)
    if top >= 0:
        last = max(float(h[top]), 0.6 * rules.seen * float(sd[top]))
        fall = _fall(seen, last, rules, upper)
        t = last * 2.0 ** (-fall * cells)
        return np.where(t >= 0.5, t, 0.0)
    if limit is None:
        shape = 2.0 ** (-rules.least * np.maximum(cells - 1 - faded, 0))
    else:
        shape = 3 * limit / limit.sum()
    return np.asarray((1.5 if upper else 0.25) * sd[0] * shape)


def _fall(seen: Reading, last: float, rules: Rules, upper: bool) -> float:
    """Return by how much the tail falls a cell, in log2 of people."""
    h, sd, top = seen.people, seen.sd, seen.top
    least = rules.least if upper else rules.mean
    before, error = float(h[top - 1]) if top else 0.0, 0.0
    if top == 0:
        fall = 4.0 if h[0] > 6 * rules.seen * sd[0] else 2.0
    elif before > last:
        fall = math.log2(before / last)
        error = math.hypot(sd[top] / last, sd[top - 1] / before) / math.log(2)
    else:
        fall = least
    if not upper:
        return min(max(fall, least), 4.0)
    fall = min(fall, rules.low) if top <= 1 else fall
    return min(max(fall - rules.less - rules.doubt * error, least), 4.0)
