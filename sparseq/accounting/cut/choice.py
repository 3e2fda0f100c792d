"""The choice of C from released numbers alone: least half-width² + error²."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np

from sparseq.accounting.cut.ladder import CELLS, Floats
from sparseq.accounting.cut.parent import NO_PARENT, Parent
from sparseq.accounting.cut.reading import Reading, population_above_a_gap
from sparseq.accounting.cut.rules import RULES, Rules
from sparseq.accounting.cut.tail import tail

_NORMAL = statistics.NormalDist()
C_STEPS = 256
"""C is a whole number of 1/256 joint units."""


@dataclass(frozen=True)
class Question:
    """What is public about a question, in its joint unit.

    Attributes:
        coordinates: d.
        cells: Coordinates of one measure; the others are of the same people's other measures.
        signed: By coordinate: it may have negative values.
        sigma_0: Of the store.
        beta: Of the interval.
        price: p: the noise is C · sigma_0 / sqrt(p).
        least_allowance: a_min: nobody's is smaller.
        pilots: It has pilots; else nobody can be above C.
        by_type: The norm is bounded by the type of the question.
        declared: It is bounded by declared maxima: the interval is to be the proved one.
        scale: C, where it is given.
        most_scale: The greatest C that there is noise for.
    """

    coordinates: int
    cells: int
    signed: np.typing.NDArray[np.bool_]
    sigma_0: float
    beta: float
    price: float = 1.0
    least_allowance: float = 1.0
    pilots: bool = True
    by_type: bool = False
    declared: bool = False
    scale: float | None = None
    most_scale: float = math.inf

    @property
    def one(self) -> bool:
        """It is one number that is never negative."""
        return self.coordinates == 1 and not bool(self.signed[0])

    @property
    def faded(self) -> int:
        """Cells that fading may have moved people up by."""
        return max(math.ceil(math.log2(1 / self.least_allowance) - 1e-9), 0)

    def z(self) -> float:
        """Quantile for the answer's noise, all coordinates at once, half of beta."""
        part = 4 if self.pilots else 2
        return _upper(self.beta / part / self.coordinates)

    def z_pilots(self) -> float:
        """Quantile for the pilots' noise, one-sided, half of beta."""
        return _upper(self.beta / 2)


@dataclass(frozen=True)
class Missing:
    """What a scale C leaves out, in the joint unit: released.

    Attributes:
        scale, noise: C, and the standard deviation of the answer's noise.
        above, below: (e_k - C)+ by cell, and from below: with C's next edge in place of C.
        cut, unsure: What the visible cells say is cut, and its standard deviation.
        mean, tail: What lies beyond the visible cells: the estimate, and from above.
        proved: From above, all cells to the cap, whatever was chosen.
        exact: The standard deviation of that.
    """

    scale: float
    noise: float
    above: Floats
    below: Floats
    cut: float
    unsure: float
    mean: float
    tail: float
    proved: float
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
        hidden: A population that the parent saw may hide in some cells.
        prove: The interval is to be the bounded one.
        union: Quantile of the bounded interval, over every C and start of the second pilot.
    """

    of: Question
    reading: Reading
    steps: int
    missing: Missing
    total: float
    hidden: bool
    prove: bool
    union: float


@dataclass(frozen=True)
class _Scene:
    """What the risk of a C is computed from."""

    question: Question
    reading: Reading
    rules: Rules
    visible: Floats
    likely: Floats
    upper: Floats
    unsure: Floats
    hidden: Floats
    total: float
    prove: bool
    union: float


def choose(
    question: Question, reading: Reading, parent: Parent = NO_PARENT, rules: Rules = RULES
) -> Choice:
    """Return the scale of least risk, and what it leaves out.

    Example:
        >>> from sparseq.accounting.cut.ladder import ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> seen = Reading(ladder(math.inf, 1.0), people, np.full(CELLS, 20.0), 2)
        >>> choose(Question(1, 1, np.zeros(1, bool), 7.0, 0.05), seen).missing.scale
        10.80859375
    """
    scene, grid = _scene(question, reading, parent, rules)
    best = float(grid[int(np.argmin(_risks(scene, grid)))]) if len(grid) > 1 else float(grid[0])
    steps = max(1, math.ceil(C_STEPS * min(best, question.most_scale)))
    return Choice(
        question, reading, steps, _missing(scene, steps / C_STEPS), scene.total,
        bool(scene.hidden.any()), scene.prove, scene.union,
    )  # fmt: skip


def _scene(q: Question, seen: Reading, parent: Parent, rules: Rules) -> tuple[_Scene, Floats]:
    of, cells = seen.ladder, np.arange(CELLS)
    visible = np.where(cells <= seen.top, seen.people, 0.0)
    none = np.zeros(CELLS)
    likely, (upper, unsure) = none, (none, none)
    if q.pilots:
        likely, _ = tail(seen, parent.likely, rules, upper=False, faded=q.faded)
        upper, unsure = tail(seen, parent.most, rules, upper=True, faded=q.faded)
    total = float(np.maximum(visible, 0.0) @ of.edges + likely @ of.edges)
    faint = seen.top < 0 or q.least_allowance < 0.5
    prove = q.pilots and (q.declared or (q.by_type and faint))
    grid = 2.0 ** (np.arange(-8 if q.coordinates > q.cells else 0, 2 * CELLS - 1) / 2)
    grid = grid[grid <= of.edges[of.cap] * 1.001]
    union = _upper(q.beta / 4 / max(len(grid), 1) / (of.cap + 1))
    hidden = _hidden(q, seen, parent, rules) if q.pilots else none
    scene = _Scene(q, seen, rules, visible, likely, upper, unsure, hidden, total, prove, union)
    return scene, _candidates(scene, grid)


def _candidates(scene: _Scene, grid: Floats) -> Floats:
    """Return the scales to choose from: none finer than a part of what the answer may be."""
    q = scene.question
    if q.scale is not None:
        return np.array([q.scale])
    share = scene.rules.floor * 0.75 * scene.total
    fine = share * math.sqrt(q.price) / (math.sqrt(q.cells) * q.sigma_0)
    if len(grid) == 0 or fine <= grid[0]:
        return grid if len(grid) else scene.reading.ladder.edges[:1]
    if scene.prove and fine <= grid[-1]:
        return grid[grid >= fine]
    return np.append(fine, grid[grid > fine])


def _hidden(q: Question, seen: Reading, parent: Parent, rules: Rules) -> Floats:
    """Return people of the parent's second population that may hide here, as many as each pair of
    cells could hold."""
    top, cells = seen.top, np.arange(CELLS)
    found, _ = population_above_a_gap(seen.people, seen.sd, rules)
    expected = rules.beyond * parent.others * q.least_allowance
    if parent.reach <= top or found >= expected:
        return np.zeros(CELLS)
    pairs = seen.people + np.append(0.0, seen.people[:-1])
    sd = np.hypot(seen.sd, np.append(0.0, seen.sd[:-1]))
    room = np.minimum(parent.others, np.maximum(pairs, 0.0) + rules.tail * sd)
    return np.where((cells > top) & (cells <= parent.reach), room, 0.0)


def _missing(s: _Scene, scale: float) -> Missing:
    of, seen = s.reading.ladder, s.reading
    there = np.arange(CELLS) <= of.cap
    above = np.maximum(of.edges - scale, 0.0) * there
    edge = of.edges[min(int(np.searchsorted(of.edges, scale)), CELLS - 1)]
    exact = float(np.linalg.norm(seen.sd * above))
    beyond = float(s.upper @ above + s.rules.tail * (s.unsure @ above))
    return Missing(
        scale=scale,
        noise=scale * s.question.sigma_0 / math.sqrt(s.question.price),
        above=above,
        below=np.maximum(of.edges - edge, 0.0) * there,
        cut=max(float(s.visible @ above), 0.0),
        unsure=float(np.linalg.norm((seen.sd * above)[: seen.top + 1])),
        mean=float(s.likely @ above),
        tail=max(beyond, float((s.hidden * above).max())),
        proved=max(float(seen.people @ above), 0.0) + s.union * exact,
        exact=exact,
    )


def _risks(s: _Scene, scales: Floats) -> Floats:
    """Return half-width² + expected error² of some scales, all at once; see `Missing`."""
    q, seen, rules, of, d = s.question, s.reading, s.rules, s.reading.ladder, s.question.coordinates
    there = np.arange(CELLS) <= of.cap
    above = np.maximum(of.edges - scales[:, None], 0.0) * there
    spread = (seen.sd * above) ** 2
    exact = np.sqrt(spread.sum(axis=1))
    unsure = np.sqrt(spread[:, : seen.top + 1].sum(axis=1))
    noise = scales * q.sigma_0 / math.sqrt(q.price)
    z, zs, sides = q.z(), q.z_pilots(), 1 if bool(q.signed.any()) else 2
    noise2 = d * noise**2 + unsure**2
    if s.prove:
        proved = np.maximum(above @ seen.people, 0.0) + s.union * exact
        half = np.hypot(z * noise, s.union * exact) if q.one else z * noise + proved / sides
        return np.asarray(half**2 + noise2)
    cut, mean = np.maximum(above @ s.visible, 0.0), above @ s.likely
    beyond = above @ s.upper + rules.tail * (above @ s.unsure)
    tail = np.maximum(beyond, (s.hidden * above).max(axis=1))
    if q.one:
        added = np.hypot(z * noise, zs * unsure) + tail / 2
        plain = z * noise + (cut + zs * unsure + tail) / 2
        return np.asarray(np.minimum(added, plain) ** 2 + noise2 + (0.7 * mean) ** 2)
    missing = cut + zs * unsure + tail
    if d > 1:  # as `missing_by_coordinate` has it, of coordinates that are all alike
        like = 0.8 * s.total / q.cells
        upper = np.maximum(like + z * noise, 0.0)
        visible, unseen = cut + zs * unsure, tail
        if seen.top >= 0:
            factor = np.maximum(of.edges[seen.top] / scales - 1, 0.0)
            visible = np.minimum(visible, factor * upper)
        if q.cells > 1 and not s.hidden.any():
            dense = upper / np.maximum(d * like, q.cells * noise)
            unseen = unseen * np.minimum(1.0, _spread(rules, q) * np.maximum(dense, 1 / q.cells))
        signed = float(q.signed.mean())
        missing = signed * missing + (1 - signed) * (visible + unseen)
    half = z * noise + missing / sides
    return np.asarray(half**2 + noise2 + (0.3 * cut) ** 2 + (0.7 * mean) ** 2)


def missing_by_coordinate(
    rules: Rules,
    q: Question,
    seen: Reading,
    m: Missing,
    hidden: bool,
    answer: Floats,
    total: float,
) -> tuple[Floats, Floats]:
    """Return (visible, unseen): upper ends of what is missing, by coordinate.

    Of the visible, w >= C / e_top, so that at most (e_top/C - 1) times what is there is missing
    where nothing is negative: proved. What is missing of the unseen is, over all k groups together,
    at most sqrt(k) times what is missing of their norms: whoever adds x_j to each lacks (1 - w) of
    each, and sum |x_j| <= sqrt(k) ||x|| (Cauchy-Schwarz). That it lies in the groups as the answer
    does, or up to `spread` times as densely where sqrt(k) leaves room, is assumed.
    """
    visible = np.full(q.coordinates, m.cut + q.z_pilots() * m.unsure)
    unseen = np.full(q.coordinates, m.tail)
    if q.coordinates == 1:
        return visible, unseen
    upper = np.maximum(answer + q.z() * m.noise, 0.0)
    if seen.top >= 0:
        factor = max(float(seen.ladder.edges[seen.top]) / m.scale - 1, 0.0)
        visible = np.where(q.signed, visible, np.minimum(visible, factor * upper))
    if q.cells > 1 and not hidden:
        dense = upper / max(total, q.cells * m.noise)
        share = np.minimum(1.0, _spread(rules, q) * np.maximum(dense, 1 / q.cells))
        unseen = np.where(q.signed, unseen, unseen * share)
    return visible, unseen


def _spread(rules: Rules, q: Question) -> float:
    """Return how many times its part of the answer a group may have of what no pilot sees."""
    return max(rules.spread, math.sqrt(q.cells))


def _upper(probability: float) -> float:
    """Return z with P(Z > z) = probability."""
    return -_NORMAL.inv_cdf(probability)
