"""The choice of C from released numbers alone: the scale of least expected squared error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sparseq.accounting.pilots.chain import at_level
from sparseq.accounting.pilots.ladder import CELLS, Floats, Ladder
from sparseq.accounting.pilots.matrix_product import product
from sparseq.accounting.pilots.noised_pilot import PILOTS, Reading
from sparseq.accounting.pilots.parent import NO_PARENT, Parent
from sparseq.accounting.pilots.posterior import SAMPLES, posterior
from sparseq.accounting.pilots.sample_quantiles import SampleColumns, median
from sparseq.accounting.pilots.tails import NOTHING_CUT, CutBound
from sparseq.base.defaults import PRICE


@dataclass(frozen=True)
class ScaleRules:
    """Constants of the choice of C (docs/theorems/pilots.md, "The choice of C" and "What was cut").

    Attributes:
        floor: The noise of an answer is never finer than 0.75 of this part of it: it saves budgets.
        alike: Standard deviation of a group's share of the cut, divided by its share of the answer.
        unlike: The same for all groups together, as norms differ from sums.
        norms: The mass missing from sums as a part of the mass missing from norms.
        unsure: Relative standard deviation of the cut as computed from the cells.
    """

    floor: float = 0.003
    alike: float = 0.5
    unlike: float = 0.25
    norms: float = 1.1
    unsure: float = 0.25


SCALES = ScaleRules()

_NORMAL = statistics.NormalDist()
C_STEPS = 256
"""C is a whole number of 1/256 joint units."""
_PLACES = (np.arange(SAMPLES) * 233 % SAMPLES + 0.5) / SAMPLES  # evenly spread, in a mixed order
_FADED_PART = (np.arange(SAMPLES) * 377 % SAMPLES + 0.5) / SAMPLES
_TURN = np.arange(SAMPLES) * 149 % SAMPLES
MOST_SHARE = 0.97
"""The largest share of mass that may be cut: a larger share can't be distinguished from all."""


@dataclass(frozen=True)
class Question:
    """The public facts of a question, in its joint unit.

    Attributes:
        coordinates: d.
        cells: Coordinates of one measure; the other coordinates are of the same people's other
            measures.
        signed: By coordinate: True if it may have negative values.
        sigma_0: The noise of a scale-1 query in the store.
        beta: The failure probability of the interval.
        price: The price of the answer: its noise is C · sigma_0 / sqrt(price).
        pilot_prices: The prices of the two pilots: the noise of their cells is sigma_0 /
            sqrt(price).
        floor: No scale makes the noise finer than a part of the answer: it saves budget where no
            precision was requested.
        least_allowance: a_min: a lower bound of all allowances.
        pilots: It has pilots; else nobody can be above C, except for `cut`.
        declared: Norms are bounded by declared maxima: the interval is the proved one.
        scale: C, if it is given.
        most_scale: The greatest C that the noise allows.
        reach: The cell of a person with one row.
        people: The question counts users. Users of several groups are cut, perhaps in only a few.
        rows: The question counts rows, and nothing else.
        most: The largest norm of any user.
        cut: Without pilots, a bound on the mass that C cuts from a number:
            `sparseq.accounting.pilots.tails`.
    """

    coordinates: int
    cells: int
    signed: np.typing.NDArray[np.bool_]
    sigma_0: float
    beta: float
    price: float = PRICE
    pilot_prices: tuple[float, float] = (1 / PILOTS.first, 1 / PILOTS.second)
    floor: bool = True
    least_allowance: float = 1.0
    pilots: bool = True
    declared: bool = False
    scale: float | None = None
    most_scale: float = math.inf
    reach: int = 0
    people: bool = False
    rows: bool = False
    most: float = math.inf
    cut: CutBound = NOTHING_CUT

    @property
    def one(self) -> bool:
        """True if the answer is one number that is never negative."""
        return self.coordinates == 1 and not bool(self.signed[0])

    @property
    def whole(self) -> bool:
        """True if nobody can be above C."""
        scale = 0.0 if self.scale is None else self.scale
        return scale * self.least_allowance * (1 + 1e-12) >= self.most

    def z(self) -> float:
        """Quantile for the answer's noise, all coordinates at once."""
        return upper(self.beta / 2 / self.coordinates)


@dataclass(frozen=True)
class Kept:
    """The mass of one number that a scale C keeps, by the pilots: released.

    Attributes:
        quiet: Samples of the mass in cells that do not stand out of the noise.
        loud, sd: The mass in the other cells, linear in the measurements, and its standard
            deviation.
        capped: The tail of the samples was cut to that of a parent.
    """

    quiet: Floats
    loud: float
    sd: float
    capped: bool = False


@dataclass(frozen=True)
class Missing:
    """The part that a scale C leaves out, in the joint unit: released.

    Attributes:
        scale, noise: C, and the standard deviation of the answer's noise.
        lost: Samples of the mass that norms lack, sum (r - C a)+.
        share: Samples of that mass as a part of all norms.
        people: Samples of the question's users per cell.
        heavy: The approximate number of people with that mass (equal people with the same
            variance).
        proved: An upper bound over all cells to the cap, for any choice.
        below: A lower bound of the same, except for its noise.
        exact: The standard deviation of that noise.
        faded: The samples allow for people who have faded: the missing mass may be zero.
        kept: The kept mass of one number; None: there are several numbers, or people have faded.
    """

    scale: float
    noise: float
    lost: Floats
    share: Floats
    people: Floats
    heavy: float
    proved: float
    below: float
    exact: float
    faded: bool = False
    kept: Kept | None = None


@dataclass(frozen=True)
class Choice:
    """C, and the facts of the choice that the interval needs: released.

    Attributes:
        of: The question.
        reading: The reading of the pilots.
        steps: C in units of 1/C_STEPS.
        missing: The mass that C leaves out.
        total: The approximate sum of the norms.
        union: Quantile of the bounded interval, over every C and every start of the second pilot.
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
    rules: ScaleRules = SCALES,
    risk: Risk | None = None,
) -> Choice:
    """Return the scale of least expected squared error, and the mass that it leaves out.

    Args:
        question: The question.
        reading: The reading of its pilots.
        parent: The parent pilot of the table.
        rules: Constants of the error of sums.
        risk: The expected squared error; by default the error of sums.

    Example:
        >>> from sparseq.accounting.pilots.ladder import ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> seen = Reading(ladder(math.inf, 1.0), people, np.full(CELLS, 20.0), 2)
        >>> choose(Question(1, 1, np.zeros(1, bool), 7.0, 0.05), seen).missing.scale
        5.66015625
    """
    q, of = question, reading.ladder
    people = np.zeros((SAMPLES, CELLS))
    if q.pilots:
        noise = math.sqrt(PILOTS.parent) * q.sigma_0
        people = posterior(reading, parent.samples, q.reach, noise)
    total = median(people @ of.edges)
    faded = _FadedCut(parent, people, floor=q.pilots and risk is None)
    grid = _candidates(q, of, total)
    best = float(grid[0])
    if len(grid) > 1:
        cut = faded.of(_cut_at(of, people, grid), grid)
        risks = (risk or partial(_risk, rules=rules))(q, cut, grid, total)
        best = float(grid[int(np.argmin(risks))])
    steps = max(1, math.ceil(C_STEPS * min(best, q.most_scale)))
    union = upper(q.beta / 4 / (2 * CELLS) / (of.cap + 1))
    missing = _estimate_missing(q, reading, people, steps / C_STEPS, union, faded)
    return Choice(q, reading, steps, missing, total, union)


def _candidates(q: Question, of: Ladder, total: float) -> Floats:
    """Return the scales to choose from: by default none finer than a part of the answer."""
    if q.scale is not None:
        return np.array([q.scale])
    if not q.pilots:
        return of.edges[:1]
    grid = 2.0 ** (np.arange(-8 if q.coordinates > q.cells else 0, 2 * CELLS - 1) / 2)
    grid = grid[grid < of.edges[of.cap]]
    grid = np.append(grid, of.edges[of.cap])
    if not q.floor:
        return grid
    fine = SCALES.floor * 0.75 * total / (math.sqrt(q.cells) * q.sigma_0)
    return grid[grid >= fine] if fine <= grid[-1] else grid[-1:]


@dataclass(frozen=True)
class Cut:
    """Mass that scales cut off: one column a scale, one row a sample.

    Attributes:
        lost: The mass.
        share: Its share of all norms.
        heavy: The approximate number of cut people, by scale.
        norms: The sum of all norms, by sample.
    """

    lost: Floats
    share: Floats
    heavy: Floats
    norms: Floats


Risk = Callable[[Question, Cut, Floats, float], Floats]
"""Expected squared errors of a question, given the cut of the scales, the scales and all norms."""


def _cut_at(of: Ladder, people: Floats, scales: Floats) -> Cut:
    """Return the mass that scales cut.

    Samples differ in the position of a cell's users: from thinning out smoothly to all at the
    cell's end. Counting them at both edges, as pilots do, overstates the mass between C and the
    next edge.
    """
    above = np.maximum(of.edges - scales[:, None], 0.0)
    above[:, of.cap + 1 :] = 0.0
    first = np.searchsorted(of.edges, scales, side="right")
    inside = np.flatnonzero((first > 0) & (first < CELLS))
    into = scales[inside] / of.edges[first[inside] - 1]
    lost, norms = product(people, above.T), np.maximum(people @ of.edges, 1e-9)
    squares = np.maximum(SampleColumns(product(people, (above**2).T)).medians(), 1e-9)
    next_edge = people[:, first[inside]] * above[inside, first[inside]]
    lost[:, inside] -= next_edge * _into_cell(into) * _PLACES[:, None]
    heavy = np.maximum(SampleColumns(lost).medians() ** 2 / squares, 1e-3)
    return Cut(lost, lost / norms[:, None], heavy, norms)


def _into_cell(into: Any) -> Any:
    """Return the part of a cell's mass that a scale in it cuts less than one at its lower edge.

    Args:
        into: C over the lower edge.
    """
    return np.minimum(1.2 * (into - 1), 0.9)


@dataclass(frozen=True)
class _FadedCut:
    """Samples of the cut if users of the parent's rows have faded since it was measured.

    Users with many rows are charged most and fade most, so r/a has a heavier tail than r, and
    pilots see less of that tail the more users have faded. Assumption `alike`: a question's users
    have the parent's norms, or the same part of each, and their numbers of users and rows are as
    measured. The part of the parent's users with the largest possible fading is unknown: each
    sample has another part, between none and all. The cut never exceeds the measured bound on the
    cut of all the parent's rows.

    Attributes:
        parent: The parent pilot's people, and their possible fading.
        people: Samples of the question's people.
        floor: True: samples are raised to this cut; else they are only cut down.
    """

    parent: Parent
    people: Floats
    floor: bool

    @cached_property
    def _alike(self) -> tuple[float, float, Floats]:
        """The question's part of the parent's norms, the size of its norms, and seen people."""
        edges = np.ldexp(1.0, np.arange(CELLS))
        assert self.parent.whole is not None
        whole, mine = self.parent.whole[:, :CELLS], self.people
        norms, number = (median(whole @ by) for by in (edges, np.ones(CELLS)))
        my_norms, my_number = (median(mine @ by) for by in (edges, np.ones(CELLS)))
        part = min(my_norms / max(norms, 1e-9), 1.0)
        smaller = my_norms * number / max(my_number * norms, 1e-9)  # than the parent's norms
        return part, smaller, whole * (np.arange(CELLS) <= self.parent.top)

    def _floor(self, level: float) -> Floats:
        """Return the cut if all the parent's users had the largest possible fading."""
        part, smaller, seen = self._alike
        edges = np.ldexp(1.0, np.arange(CELLS))
        return np.asarray(
            part * (seen @ np.maximum(edges - level / min(max(smaller, 1e-9), 1.0), 0.0))
        )

    def of(self, cut: Cut, scales: Floats) -> Cut:
        """Return the cut of each scale, given the cut by the pilots alone."""
        p = self.parent
        if p.whole is None:
            return cut
        lost = cut.lost.copy()
        some = min(math.log2(p.factor), 1.0) * SAMPLES
        for i, scale in enumerate(scales.tolist()):
            level = scale / p.factor
            most = math.inf if p.most is None else float(at_level(p.most, level))
            if self.floor:
                least = np.minimum(self._floor(level), most) * _FADED_PART
                lost[:, i] = np.where(some > _TURN, np.maximum(lost[:, i], least), lost[:, i])
            lost[:, i] = np.minimum(lost[:, i], most)
        norms = np.maximum(cut.norms[:, None] + lost - cut.lost, 1e-9)
        return replace(cut, lost=lost, share=np.minimum(lost / norms, 1.0))


def _risk(q: Question, cut: Cut, scales: Floats, total: float, rules: ScaleRules) -> Floats:
    """Return the expected squared error of an answer under each scale: see `interval`."""
    d, noise = q.coordinates, scales * q.sigma_0 / math.sqrt(q.price)
    if d == 1 or q.signed.any():
        samples = SampleColumns(cut.lost)
        lost, spread = samples.medians(), _spread(samples)
        if q.signed.any():
            return np.asarray(d * noise**2 + spread**2 + lost**2 / 4)
        return np.asarray(noise**2 + spread**2 + (rules.unsure / 2 * lost) ** 2)
    grown = SampleColumns(growth(cut.share))
    g = grown.medians()
    alike = (2 if q.people else 1) * rules.alike
    apart = g * g * (rules.unlike**2 + alike**2 + np.minimum(d / cut.heavy, 4.0))
    size = total**2 / math.sqrt(d)
    return np.asarray(d * (noise * (1 + g)) ** 2 + size * (_spread(grown) ** 2 + apart))


def growth(share: Floats) -> Floats:
    """Return the growth of sums that makes up for a missing share of norms."""
    lacking = np.minimum(share * SCALES.norms, MOST_SHARE)
    return np.asarray(lacking / (1 - lacking))


def _spread(samples: SampleColumns) -> Floats:
    """Return the standard deviation from the 10 % and 90 % quantiles of samples.

    So a few outlying samples widen intervals, but do not change C.
    """
    low, high = samples.quantiles((0.1, 0.9))
    return np.asarray((high - low) / 2.563)


def _estimate_missing(
    q: Question, seen: Reading, people: Floats, scale: float, union: float, faded: _FadedCut
) -> Missing:
    of, there = seen.ladder, np.arange(CELLS) <= seen.ladder.cap
    cut = faded.of(_cut_at(of, people, np.array([scale])), np.array([scale]))
    above = np.maximum(of.edges - scale, 0.0) * there
    edge = of.edges[min(int(np.searchsorted(of.edges, scale)), CELLS - 1)]
    below = np.maximum(of.edges - edge, 0.0) * there
    exact = float(np.linalg.norm(seen.sd * above))
    fades = faded.floor and faded.parent.whole is not None
    return Missing(
        scale=scale,
        noise=scale * q.sigma_0 / math.sqrt(q.price),
        lost=cut.lost[:, 0],
        share=cut.share[:, 0],
        people=people,
        heavy=float(cut.heavy[0]),
        proved=max(float(seen.people @ above), 0.0) + union * exact,
        below=float(seen.people @ below),
        exact=exact,
        faded=fades,
        kept=_kept(seen, people, scale, faded) if q.one and q.pilots and not fades else None,
    )


def _kept(seen: Reading, people: Floats, scale: float, faded: _FadedCut) -> Kept:
    """Return the mass that a scale keeps.

    It comes from the measurements for cells that stand out, and from the samples for the others.
    """
    of, there = seen.ladder, np.arange(CELLS) <= seen.ladder.cap
    loud = there & (seen.people > PILOTS.loud * seen.sd)
    quiet, edges = np.where(loud, 0.0, people), np.where(there, of.edges, 0.0)
    above = np.maximum(edges - scale, 0.0)
    first = int(np.searchsorted(of.edges, scale, side="right"))
    if 0 < first < CELLS:
        above[first] *= 1 - float(_PLACES.mean()) * _into_cell(scale / of.edges[first - 1])
    keeps = np.where(loud, edges - above, 0.0)
    left = quiet @ edges - _cut_at(of, quiet, np.array([scale])).lost[:, 0]
    loud_sd = float(np.linalg.norm(seen.sd * keeps))
    return Kept(left, float(seen.people @ keeps), loud_sd, faded.parent.samples is not None)


def upper(probability: float) -> float:
    """Return z with P(Z > z) = probability.

    Example:
        >>> round(upper(0.025), 2)
        1.96
    """
    return -_NORMAL.inv_cdf(probability)
