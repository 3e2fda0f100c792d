"""The choice of C from released numbers alone: least expected squared error.

A column pilot: where a column's values lie, once for many questions.

It counts rows by value, each person's scaled to a norm of one; its centre and spread are the units
that sums, averages and quantiles of the column are measured in.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.pilots.posterior import (
    CELLS,
    NO_PARENT,
    RULES,
    SAMPLES,
    Floats,
    Ladder,
    Parent,
    Reading,
    Rules,
    posterior,
)
from sparseq.base.defaults import PRICE

# -- the choice of C from released numbers alone: least expected squared error ---------------------

_NORMAL = statistics.NormalDist()
C_STEPS = 256
"""C is a whole number of 1/256 joint units."""
_PLACES = (np.arange(SAMPLES) * 233 % SAMPLES + 0.5) / SAMPLES  # evenly spread, in a mixed order
MOST_SHARE = 0.97
"""Of what there is, that is cut: more can't be told from all."""


@dataclass(frozen=True)
class Question:
    """The public facts of a question, in its joint unit.

    Attributes:
        coordinates: d.
        cells: Coordinates of one measure; the others are of the same people's other measures.
        signed: By coordinate: it may have negative values.
        sigma_0: Of the store.
        beta: Of the interval.
        price: p: the noise is C · sigma_0 / sqrt(p).
        least_allowance: a_min: nobody's is smaller.
        pilots: It has pilots; else nobody can be above C.
        declared: Norms are bounded by declared maxima: the interval is to be the proved one.
        scale: C, where it is given.
        most_scale: The greatest C that there is noise for.
        reach: The cell that a person with one row can be in.
        people: It counts people: who is in several groups is cut, and may lie in few of them.
        faded_as_all: It has no pilots of its own: its people are taken to have faded as all have.
    """

    coordinates: int
    cells: int
    signed: np.typing.NDArray[np.bool_]
    sigma_0: float
    beta: float
    price: float = PRICE
    least_allowance: float = 1.0
    pilots: bool = True
    declared: bool = False
    scale: float | None = None
    most_scale: float = math.inf
    reach: int = 0
    people: bool = False
    faded_as_all: bool = False

    @property
    def one(self) -> bool:
        """It is one number that is never negative."""
        return self.coordinates == 1 and not bool(self.signed[0])

    def z(self) -> float:
        """Quantile for the answer's noise, all coordinates at once."""
        return upper(self.beta / 2 / self.coordinates)


@dataclass(frozen=True)
class Missing:
    """The part that a scale C leaves out, in the joint unit: released.

    Attributes:
        scale, noise: C, and the standard deviation of the answer's noise.
        lost: Samples of what norms lack, sum (r - C a)+.
        share: Samples of that as a part of all norms.
        heavy: About how many people it is of (as many equal ones would vary as much).
        proved: From above, all cells to the cap, whatever was chosen.
        below: From below the same, but for its noise.
        exact: The standard deviation of that.
    """

    scale: float
    noise: float
    lost: Floats
    share: Floats
    heavy: float
    proved: float
    below: float
    exact: float


@dataclass(frozen=True)
class Choice:
    """C, and all that the interval needs to know of what it was chosen from: released.

    Attributes:
        of: The question.
        reading: What the pilots showed.
        steps: C in units of 1/C_STEPS.
        missing: What C leaves out.
        total: About what the norms add up to.
        union: Quantile of the bounded interval, over every C and start of the second pilot.
    """

    of: Question
    reading: Reading
    steps: int
    missing: Missing
    total: float
    union: float


def choose(
    question: Question,
    reading: Reading,
    parent: Parent = NO_PARENT,
    rules: Rules = RULES,
    risk: Risk | None = None,
) -> Choice:
    """Return the scale of least expected squared error, and what it leaves out.

    Args:
        question: What is asked.
        reading: What its pilots showed.
        parent: What is known of the table.
        rules: Constants.
        risk: The expected squared error; by default that of sums.

    Example:
        >>> from sparseq.accounting.pilots.posterior import ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> seen = Reading(ladder(math.inf, 1.0), people, np.full(CELLS, 20.0), 2)
        >>> choose(Question(1, 1, np.zeros(1, bool), 7.0, 0.05), seen).missing.scale
        5.66015625
    """
    q, of = question, reading.ladder
    people = np.zeros((SAMPLES, CELLS))
    if q.faded_as_all and parent.samples is not None:
        people = parent.samples[:, :CELLS]
    elif q.pilots:
        people = posterior(reading, parent.samples, rules, q.reach)
    total = float(np.median(people @ of.edges))
    grid = _candidates(q, of, total, rules)
    best = float(grid[0])
    if len(grid) > 1:
        own = _finest_risk if q.faded_as_all else _risk
        risks = (risk or own)(q, _cut_at(of, people, grid), grid, total, rules)
        best = float(grid[int(np.argmin(risks))])
    steps = max(1, math.ceil(C_STEPS * min(best, q.most_scale)))
    union = upper(q.beta / 4 / (2 * CELLS) / (of.cap + 1))
    missing = _estimate_missing(q, reading, people, steps / C_STEPS, union)
    return Choice(q, reading, steps, missing, total, union)


def _candidates(q: Question, of: Ladder, total: float, rules: Rules) -> Floats:
    """Return the scales to choose from: none finer than a part of what the answer may be."""
    if q.scale is not None:
        return np.array([q.scale])
    if q.faded_as_all:
        return np.asarray(2.0 ** (np.arange(4 * CELLS) / 4))
    if not q.pilots:
        return of.edges[:1]
    grid = 2.0 ** (np.arange(-8 if q.coordinates > q.cells else 0, 2 * CELLS - 1) / 2)
    grid = grid[grid < of.edges[of.cap]]
    grid = np.append(grid, of.edges[of.cap])
    fine = rules.floor * 0.75 * total * math.sqrt(q.price) / (math.sqrt(q.cells) * q.sigma_0)
    return grid[grid >= fine] if fine <= grid[-1] else grid[-1:]


@dataclass(frozen=True)
class Cut:
    """Mass that scales cut off: one column a scale, one row a sample.

    Attributes:
        lost: The mass.
        share: Its share of all norms.
        heavy: Of how many people about, by scale.
    """

    lost: Floats
    share: Floats
    heavy: Floats


Risk = Callable[[Question, Cut, Floats, float, Rules], Floats]
"""Expected squared errors of a question, by what scales cut, the scales, and all norms."""


def _cut_at(of: Ladder, people: Floats, scales: Floats) -> Cut:
    """Return what scales cut. Inside a cell people lie anywhere, from thinned out smoothly to all
    at its end, another way in each sample: counting them at both edges, as pilots do, overstates
    what lies between C and the next edge."""
    above = np.maximum(of.edges - scales[:, None], 0.0)
    above[:, of.cap + 1 :] = 0.0
    first = np.searchsorted(of.edges, scales, side="right")
    inside = np.flatnonzero((first > 0) & (first < CELLS))
    into = scales[inside] / of.edges[first[inside] - 1]
    lost, norms = people @ above.T, np.maximum(people @ of.edges, 1e-9)
    squares = np.maximum(np.median(people @ (above**2).T, axis=0), 1e-9)
    next_edge = people[:, first[inside]] * above[inside, first[inside]]
    lost[:, inside] -= next_edge * np.minimum(1.2 * (into - 1), 0.9) * _PLACES[:, None]
    heavy = np.maximum(np.median(lost, axis=0) ** 2 / squares, 1e-3)
    return Cut(lost, lost / norms[:, None], heavy)


def _risk(q: Question, cut: Cut, scales: Floats, total: float, rules: Rules) -> Floats:
    """Return the expected squared error of an answer under each scale: see `interval`."""
    d, noise = q.coordinates, scales * q.sigma_0 / math.sqrt(q.price)
    lost = np.median(cut.lost, axis=0)
    if q.signed.any():
        return np.asarray(d * noise**2 + _spread(cut.lost) ** 2 + lost**2 / 4)
    if d == 1:
        return np.asarray(noise**2 + _spread(cut.lost) ** 2 + (rules.unsure / 2 * lost) ** 2)
    grown = growth(cut.share, rules)
    g = np.median(grown, axis=0)
    alike = (2 if q.people else 1) * rules.alike
    apart = g * g * (rules.unlike**2 + alike**2 + np.minimum(d / cut.heavy, 4.0))
    size = total**2 / math.sqrt(d)
    return np.asarray(d * (noise * (1 + g)) ** 2 + size * (_spread(grown) ** 2 + apart))


def _finest_risk(q: Question, cut: Cut, scales: Floats, total: float, rules: Rules) -> Floats:
    """Return the finest scale's of those that cut `little` of all: how many people are in a
    question that has no pilots is not known before it is answered."""
    share = np.median(cut.share, axis=0)
    return np.where(share > rules.little, math.inf, scales)


def growth(share: Floats, rules: Rules) -> Floats:
    """Return by how much sums must grow that lack a share of norms."""
    lacking = np.minimum(share * rules.norms, MOST_SHARE)
    return np.asarray(lacking / (1 - lacking))


def _spread(samples: Floats) -> Floats:
    """Return the standard deviation that the 10 % and 90 % quantiles of samples tell: a few samples
    far out widen intervals, and not C."""
    low, high = np.quantile(samples, (0.1, 0.9), axis=0)
    return np.asarray((high - low) / 2.563)


def _estimate_missing(
    q: Question, seen: Reading, people: Floats, scale: float, union: float
) -> Missing:
    of, there = seen.ladder, np.arange(CELLS) <= seen.ladder.cap
    cut = _cut_at(of, people, np.array([scale]))
    above = np.maximum(of.edges - scale, 0.0) * there
    edge = of.edges[min(int(np.searchsorted(of.edges, scale)), CELLS - 1)]
    below = np.maximum(of.edges - edge, 0.0) * there
    exact = float(np.linalg.norm(seen.sd * above))
    return Missing(
        scale=scale,
        noise=scale * q.sigma_0 / math.sqrt(q.price),
        lost=cut.lost[:, 0],
        share=cut.share[:, 0],
        heavy=float(cut.heavy[0]),
        proved=max(float(seen.people @ above), 0.0) + union * exact,
        below=float(seen.people @ below),
        exact=exact,
    )


def upper(probability: float) -> float:
    """Return z with P(Z > z) = probability.

    Example:
        >>> round(upper(0.025), 2)
        1.96
    """
    return -_NORMAL.inv_cdf(probability)


# -- a column pilot: where a column's values lie, once for many questions --------------------------

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
