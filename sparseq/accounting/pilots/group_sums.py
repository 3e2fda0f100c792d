"""The cut of sums over groups, from the cut of norms.

A user's vector over the groups has a norm r and a sum s, and counts with weight w = min(1, C a /
r). Pilots measure norms, so they give the cut share of *norms*. The answer lacks a share of *sums*.
For counts of rows, every entry is 0 or at least 1, so r <= s <= r²: s is r if all rows are in one
group, and r² if each row is in a separate group. For users by group, s = r² exactly.

The released total T = sum w s determines the exponent: with s = r^gamma, the samples n_k of the
users per cell (edge e_k) give gamma from T = sum n_k w_k e_k^gamma, and then the cut sum n_k (1 -
w_k) e_k^gamma. On real data sets (CDNOW by month, week, day and quantity) and on heavy tails the
true cut lies between the cut of norms and the cut of this power law, 0.1 to 0.7 of the way: users
with many rows have them in fewer groups than in the power law. `PLACE` and `SPREAD` come from these
data. Everything is post-processing of released numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseq.accounting.pilots.ladder import Floats
from sparseq.accounting.pilots.sample_quantiles import median

if TYPE_CHECKING:
    from sparseq.accounting.pilots.choice import Choice

PLACE = 0.35
"""The place of the true cut between the cuts of norms (0) and of the power law (1)."""
SPREAD = 0.3
"""The standard deviation of that place."""
_STEPS = 30


def group_growth(choice: Choice, answer: Floats, grown: Floats) -> tuple[Floats, float]:
    """Return samples of the growth of a family of group sums, and an additional spread.

    Args:
        choice: The scale and its cut.
        answer: The noised weighted sums.
        grown: Samples of the growth computed from norms.

    Returns:
        Samples of the growth, and the relative standard deviation that is not in the samples.
    """
    q, m = choice.of, choice.missing
    edges = choice.reading.ladder.edges
    weights = np.minimum(1.0, m.scale / edges)
    most = np.full(len(m.people), 2.0)
    powers = most if q.people else _powers(m.people * weights, edges, float(answer.sum()))
    raised = edges ** powers[:, None]
    cut = m.people * (1 - weights)
    lost = m.lost * (cut * raised).sum(axis=1) / np.maximum((cut * edges).sum(axis=1), 1e-12)
    kept = np.maximum((m.people * weights * raised).sum(axis=1), 1e-12)
    by_power = lost / kept
    if q.people:
        return by_power, 0.0
    ratio = median(by_power) / max(median(grown), 1e-12)
    more = PLACE * max(ratio - 1, 0.0)
    return grown * (1 + more), SPREAD / PLACE * more / (1 + more)


def _powers(kept: Floats, edges: Floats, total: float) -> Floats:
    """Return gamma in [1, 2] by sample, with sum kept_k e_k^gamma = total, by bisection.

    >>> edges = 2.0 ** np.arange(4)
    >>> _powers(np.array([[10.0, 10, 10, 10]]), edges, float(10 * (edges**1.5).sum())).round(6)
    array([1.5])
    """
    used = np.flatnonzero(kept.any(axis=0))
    # NumPy adds up eight columns at a time: empty ones at the end change no bit
    cells = min(8 * (int(used[-1]) // 8 + 1), len(edges)) if len(used) else 1
    kept, edges = np.ascontiguousarray(kept[:, :cells]), edges[:cells]
    place = np.zeros(len(kept), np.int64)  # of the interval, among those of its width
    for step in range(_STEPS):
        first, half = int(place.min()), 0.5 ** (step + 1)
        many = int(place.max()) - first + 1
        if many < len(place):  # samples in one interval share its powers
            middle = 1 + (2 * (first + np.arange(many)) + 1) * half
            raised = (edges ** middle[:, None])[place - first]
        else:
            raised = edges ** (1 + (2 * place + 1) * half)[:, None]
        place = 2 * place + ((kept * raised).sum(axis=1) < total)
    return np.asarray(1 + (2 * place + 1) * 0.5 ** (_STEPS + 1), np.float64)
