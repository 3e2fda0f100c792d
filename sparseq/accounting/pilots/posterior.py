"""Samples of how many people each cell of a pilot holds, given what was measured.

The model, which is named and may be wrong: log2 of the people in a cell is a smooth curve whose
slope changes by a normal step from cell to cell and tends to fall; beyond the last visible cell
people thin out; a population may end, or another begin where the parent pilot saw one. Samples go
up the ladder cell by cell and are weighed by what was measured there (a particle filter: Gordon,
Salmond and Smith 1993). The draws have a fixed public seed: it is post-processing, and the same
reading has the same samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# -- the constants of pilots and intervals: public, the same for every store -----------------------


@dataclass(frozen=True)
class Rules:
    """Constants; where they were measured: docs/theorems/pilots.md.

    Attributes:
        first, second, parent, weights: Variances of the pilots' cells, in units of sigma_0²: the
            first over all cells, the second over the upper ones, the parent's, over all, and that
            of people by how they have faded. Each costs a person a²/variance.
        floor: An answer is never finer than this part of itself.
        seen: Standard deviations over which a cell is visible next to one that is.
        gap: What each empty cell between adds to `seen`.
        sure: What is always enough.
        loud: Standard deviations from which a cell's people are taken from what was measured.
        slope: Of log2 people a cell: how much it changes from cell to cell (standard deviation).
        bend: The most by which it falls a cell, on average.
        ends: Mean of what it falls more, a cell.
        stop: Chance that a population ends in a cell, beyond the last visible one.
        jump: Floor of the density of a change of slope: there may be a population of its own.
        fall: Beyond the last visible cell, log2 people fall by so much a cell at least.
        hide, hide_usual: Chance that people whom the parent saw begin in a cell: where the parent
            has a second population above a gap, and elsewhere.
        whole: Chance that people of whom nothing shows are all that the parent has.
        alike: Of a group's share of what was cut by its share of the answer, standard deviation.
        unlike: The same of all groups together, as norms and sums are not the same.
        norms: What sums lack, as a part of what norms lack.
        unsure: Of what was cut, as the cells have it, relative standard deviation.
        skew: What is added to the median of what was cut, as a part of it.
        widen: Of every interval of the model.
        ratio: An average's sum and rows are measured apart where the spread of values exceeds this
            part of their size.
        values, once: The mean of cut rows lies so many spreads from the others' (standard
            deviation), and where a person has one value.
        few: Where the share f of cut rows is small, sqrt(1 + few / f) times as far.
        wide: An average's value is drawn towards the column's as if it lay so many spreads from it.
        ranks: The share of cut rows below a value lies so many sqrt(F (1 - F)) from F.
        little: The share of all people that a question without pilots may cut.
        opened: Of a quantile's interval, as it is opened to whole bins.
    """

    first: int = 16
    second: int = 4
    parent: int = 1
    weights: int = 4
    floor: float = 0.003
    seen: float = 2.5
    gap: float = 0.5
    sure: float = 4.5
    loud: float = 4.0
    slope: float = 0.8
    bend: float = 0.6
    ends: float = 0.1
    stop: float = 0.08
    jump: float = 0.02
    fall: float = 0.7
    hide: float = 0.15
    hide_usual: float = 0.03
    whole: float = 0.15
    alike: float = 0.5
    unlike: float = 0.25
    norms: float = 1.1
    unsure: float = 0.25
    skew: float = 0.05
    widen: float = 1.2
    ratio: float = 0.8
    values: float = 0.3
    once: float = 0.6
    few: float = 0.05
    wide: float = 2.5
    ranks: float = 0.25
    little: float = 0.03
    opened: float = 0.87


RULES = Rules()


# -- the ladder of norms that pilots count people on -----------------------------------------------

Floats = NDArray[np.float64]

CELLS = 32
"""Edges 1, 2, 4, … in the joint unit of a question."""


@dataclass(frozen=True)
class Ladder:
    """Public.

    Attributes:
        edges: e_k, ascending; cell k reaches from e_(k-1) to e_k.
        cap: The last cell that anybody can be in.
        bounded: Because of a declared maximum or by the type of the question, not by the ladder.
    """

    edges: Floats
    cap: int
    bounded: bool


def ladder(most: float, least_allowance: float) -> Ladder:
    """Return the ladder of r/a for norms up to `most` (infinite: nothing is known).

    Whoever has faded lies up to 1/a_min higher. The last edge is cut down to the greatest value of
    r/a that anybody can have: the same number where people are put into cells and in the cut.

    Example:
        >>> found = ladder(most=5.0, least_allowance=1.0)
        >>> found.cap, found.edges[:5].tolist()
        (3, [1.0, 2.0, 4.0, 5.0, 16.0])
    """
    edges = np.ldexp(1.0, np.arange(CELLS)).astype(np.float64)
    if math.isinf(most):
        return Ladder(edges, CELLS - 1, False)
    greatest = most / least_allowance
    cap = min(CELLS - 1, max(0, math.ceil(math.log2(greatest) - 1e-9)))
    edges[cap] = min(edges[cap], greatest)
    return Ladder(edges, cap, cap < CELLS - 1 or greatest <= 2.0 ** (CELLS - 1))


# -- a reading of pilots: noised people per cell of a question -------------------------------------


@dataclass(frozen=True)
class Reading:
    """Released.

    Attributes:
        ladder: The cells.
        people: Noised people per cell, weighted by their allowances.
        sd: Of the noise, per cell.
        top: The last cell that stands out of the noise, -1 for none.
    """

    ladder: Ladder
    people: Floats
    sd: Floats
    top: int


def visible_top(people: Floats, sd: Floats, rules: Rules) -> int:
    """Return the last cell that stands out of the noise, alone or with its neighbour; -1: none.

    From `seen` standard deviations next to a visible cell (or to nothing below), `gap` more for
    every empty cell between, never more than `sure`, whatever the gap.

    Example:
        >>> h = np.array([100.0, 50, 3, 0, 0, 60, 0, 0])
        >>> visible_top(h, np.full(8, 10.0), Rules())
        5
    """
    pairs = np.append(people[:-1] + people[1:], 0.0)
    pair_sd = np.append(np.hypot(sd[:-1], sd[1:]), 1.0)
    top = -1
    for k in range(len(people)):
        need = min(rules.seen + rules.gap * max(k - top - 1, 0), rules.sure)
        alone = people[k] > need * sd[k]
        if alone or pairs[k] > min(need + rules.gap, rules.sure) * pair_sd[k]:
            top = k
    return top


def nothing_read(of: Ladder) -> Reading:
    """Return the reading of a question that needs no pilot: nobody is above cell 0."""
    return Reading(of, np.zeros(CELLS), np.full(CELLS, 1e-9), 0)


# -- samples of how many people each cell of a pilot holds, given what was measured ----------------

SAMPLES = 600
_NOBODY = -12.0  # log2 of people where there are none
_UNLIKE = 10  # one in so many samples is not like the parent, where nothing stands out
_ROWS = 5  # cells that a person with many rows is above one with one row, where nothing is known
_FAINT = 10  # cells above the lowest in which people may be of whom a parent pilot shows nothing
_AT_ONCE = 0.5  # chance that nobody is in the cell in which a population ends
_LEAST = -0.5  # log2 of the fewest people that count as some


@dataclass
class _Filter:
    """Samples on their way up the ladder: log2 people in the last cell, its slope, how it bends."""

    draw: np.random.Generator
    people: Floats
    height: Floats
    slope: Floats
    bend: Floats

    def weigh(self, log_weight: Floats) -> None:
        """Keep samples as often as they are likely (systematic resampling)."""
        weight = np.exp(log_weight - log_weight.max())
        places = (np.arange(SAMPLES) + self.draw.random()) / SAMPLES
        kept = np.searchsorted(np.cumsum(weight) / weight.sum(), places)
        kept = np.minimum(kept, SAMPLES - 1)
        self.people, self.height = self.people[kept], self.height[kept]
        self.slope, self.bend = self.slope[kept], self.bend[kept]


def posterior(seen: Reading, parent: Floats | None, rules: Rules, reach: int = 0) -> Floats:
    """Return samples of people per cell, weighted by their allowances: (SAMPLES, CELLS).

    Args:
        seen: What the pilots showed.
        parent: Samples of a parent pilot, in the same cells: no more people lie at or above an edge
            than there.
        rules: Constants.
        reach: The cell that a person with one row can be in: where nothing is known of people, they
            are few, and anywhere up to a bit above it.

    Example:
        >>> from sparseq.accounting.pilots import RULES, ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> found = posterior(Reading(ladder(math.inf, 1.0), people, np.full(CELLS, 20.0), 2),
        ...                   None, RULES)
        >>> abs(float(np.median(found[:, 1])) - 2000) < 50
        True
    """
    draw = np.random.Generator(np.random.PCG64(1))
    loud = np.flatnonzero(seen.people > rules.loud * seen.sd)
    if len(loud) == 0 and (seen.top < 0 or parent is not None):
        found = _anywhere(seen, reach, draw)
        if parent is not None:  # few of those samples: they widen the interval, and not C
            likely = _like_the_parent(seen, parent, rules, draw)
            found = np.where(np.arange(SAMPLES)[:, None] % _UNLIKE == 0, found, likely)
    else:
        found = _up_the_ladder(seen, parent, rules, draw, loud)
    found[:, seen.ladder.cap + 1 :] = 0.0
    return found


def _up_the_ladder(
    seen: Reading,
    parent: Floats | None,
    rules: Rules,
    draw: np.random.Generator,
    loud: NDArray[np.intp],
) -> Floats:
    h, sd, top = seen.people, seen.sd, seen.top
    first = int(loud[0]) if len(loud) else seen.top
    at = _Filter(
        draw,
        np.zeros((SAMPLES, CELLS)),
        np.zeros(SAMPLES),
        -1.0 + draw.standard_normal(SAMPLES),
        rules.bend * draw.random(SAMPLES) ** 1.5,
    )
    if len(loud):
        at.height = np.log2(h[first]) + _relative(h, sd, first) * draw.standard_normal(SAMPLES)
        weight = np.zeros(SAMPLES)
    else:
        at.height = _few(draw, 3 * float(sd[first]))
        weight = -0.5 * ((h[first] - 2.0**at.height) / sd[first]) ** 2
    at.people[:, first] = 2.0**at.height
    at.weigh(weight)
    most = None if parent is None else parent.mean(axis=0)
    hide = _chance_of_hidden(most, seen, rules)
    if most is None and seen.ladder.bounded:  # few cells: so many may be in each without notice
        most, hide = 3 * sd, rules.hide
    for k in range(first + 1, CELLS):
        if h[k] > rules.loud * sd[k]:
            weight = _to_loud_cell(at, seen, rules, k, fresh=len(loud) > 0 and k == first + 1)
        else:
            weight = _to_quiet_cell(at, seen, rules, k, most, hide)
        at.height = np.maximum(at.height, _NOBODY)
        at.people[:, k] = np.where(at.height > _LEAST, 2.0**at.height, 0.0)
        at.weigh(weight)
    if parent is not None:
        _within(at.people, parent[draw.permutation(SAMPLES)], top)
    return at.people


def _to_loud_cell(at: _Filter, seen: Reading, rules: Rules, k: int, fresh: bool) -> Floats:
    """Go to a loud cell: as it was measured, weighed by how likely that change of slope is."""
    error = max(_relative(seen.people, seen.sd, k), 1e-6)
    height = math.log2(seen.people[k]) + error * at.draw.standard_normal(SAMPLES)
    change = height - at.height - at.slope
    spread = math.hypot(rules.slope, 0.5 * error)
    likely = np.logaddexp(-0.5 * ((change + at.bend) / spread) ** 2, math.log(rules.jump))
    at.slope, at.height = np.clip(height - at.height, -4, 4), height
    return np.zeros(SAMPLES) if fresh else np.asarray(likely)


def _to_quiet_cell(
    at: _Filter, seen: Reading, rules: Rules, k: int, most: Floats | None, hide: float
) -> Floats:
    """Go to a cell that hardly stands out: as the model has it, weighed by what was measured."""
    draw = at.draw
    slope = at.slope - at.bend + rules.slope * draw.standard_normal(SAMPLES)
    slope = slope - rules.ends * draw.exponential(size=SAMPLES)
    unseen = k > seen.top
    at.slope = np.clip(np.minimum(slope, -rules.fall) if unseen else slope, -6, 4)
    height = at.height + at.slope
    if unseen:
        height = _some_end(at, height, rules, near=k == seen.top + 1)
        if most is not None and most[k] > 0.5:
            there = _few(draw, float(most[k]) + 2)
            height = np.where(draw.random(SAMPLES) < hide, there, height)
    else:  # a population of its own may begin above a gap
        there = _few(draw, 4 * float(seen.sd[k]))
        height = np.where(draw.random(SAMPLES) < 0.3, there, height)
    at.height = height
    there = np.where(height > _LEAST, 2.0**height, 0.0)
    return np.asarray(-0.5 * ((seen.people[k] - there) / seen.sd[k]) ** 2)


def _some_end(at: _Filter, height: Floats, rules: Rules, near: bool) -> Floats:
    """Return heights where some populations end: nobody is in the cell; but just above the last
    visible one, in half of those samples, few are (evenly over 0 to 9, a ninth lies above 8)."""
    ends = at.draw.random(SAMPLES) < rules.stop
    height = np.where(ends, _NOBODY, height)
    if not near:
        return height
    few = at.draw.uniform(-1.0, np.maximum(at.height + 1, -1.0))
    within = ends & (at.draw.random(SAMPLES) >= _AT_ONCE)
    at.slope = np.where(within, -6.0, at.slope)
    return np.where(within, few, height)


def _relative(h: Floats, sd: Floats, k: int) -> float:
    """Return the standard deviation of log2 of a cell's people."""
    return float(sd[k] / h[k] / math.log(2))


def _few(draw: np.random.Generator, most: float) -> Floats:
    """Return log2 of people, from a half to `most`: all as likely."""
    return draw.uniform(-1.0, math.log2(max(most, 1.0)), SAMPLES)


def _chance_of_hidden(most: Floats | None, seen: Reading, rules: Rules) -> float:
    """Return the chance that people of the parent begin in a cell."""
    if most is None:
        return rules.hide_usual
    return rules.hide if _second(most, seen, rules) < CELLS else rules.hide_usual


def _second(most: Floats, seen: Reading, rules: Rules) -> int:
    """Return the cell where a second population of the parent begins, above a gap; CELLS: none."""
    mode, cells = int(np.argmax(most)), np.arange(CELLS)
    low = np.minimum.accumulate(np.where(cells >= mode, most, np.inf))
    noise = float(seen.sd[0]) * math.sqrt(rules.parent / rules.first)
    pair = most + np.append(most[1:], 0.0)  # it may lie about an edge
    there = (most > 3 * noise) | (pair > 3 * math.sqrt(2) * noise)
    second = np.flatnonzero((most > 2.5 * low) & there & (cells > mode))
    if len(second) == 0:
        return CELLS
    return mode + int(np.argmin(most[mode : second[0]])) + 1


def _within(people: Floats, parent: Floats, top: int) -> None:
    """Cut samples, beyond the last visible cell, to the parent's people at or above each edge."""
    above = np.minimum(_at_or_above(people), _at_or_above(parent))
    cells = np.maximum(above - np.append(above[:, 1:], np.zeros((len(above), 1)), axis=1), 0.0)
    people[:, top + 1 :] = cells[:, top + 1 :]


def _at_or_above(people: Floats) -> Floats:
    return np.asarray(np.cumsum(people[:, ::-1], axis=1)[:, ::-1])


def _anywhere(seen: Reading, reach: int, draw: np.random.Generator) -> Floats:
    """Return samples where nothing stands out, and nothing is known: N people in one cell, as
    likely as what was measured makes them, under a prior that is flat in log N and over cells."""
    people = 2.0 ** _few(draw, 3 * float(seen.sd[0]))
    cell = draw.integers(0, min(reach + _ROWS, seen.ladder.cap) + 1, SAMPLES)
    found = np.zeros((SAMPLES, CELLS))
    found[np.arange(SAMPLES), cell] = people
    log_weight = -0.5 * (((seen.people - found) / seen.sd) ** 2).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    places = (np.arange(SAMPLES) + draw.random()) / SAMPLES
    kept = np.searchsorted(np.cumsum(weight) / weight.sum(), places)
    return np.asarray(found[draw.permutation(np.minimum(kept, SAMPLES - 1))])


def faint(seen: Reading) -> Floats:
    """Return samples of all people where none stands out: N people of one norm, (SAMPLES, CELLS).

    They are as likely as what was measured makes them, under a prior that is flat in log N and over
    log norms. Forty people of 100 rows each lie in two cells at three standard deviations.

    Example:
        >>> from sparseq.accounting.pilots import ladder
        >>> people = np.zeros(CELLS); people[6:8] = 17, 23
        >>> found = faint(Reading(ladder(math.inf, 1.0), people, np.full(CELLS, 7.0), -1))
        >>> bool(np.quantile(found @ np.ldexp(1.0, np.arange(CELLS)), 0.9) > 4000)
        True
    """
    draw = np.random.Generator(np.random.PCG64(2))
    sizes = 2.0 ** np.arange(-1, math.log2(max(6 * float(seen.sd[0]), 1.0)), 0.25)
    places = np.arange(0, min(_FAINT, seen.ladder.cap) + 0.1, 0.25)
    cell = np.floor(places).astype(np.int64)
    high = 2.0 ** (places - cell) - 1
    shapes = np.zeros((len(places), CELLS))
    shapes[np.arange(len(places)), cell] = 1 - high
    shapes[np.arange(len(places)), np.minimum(cell + 1, CELLS - 1)] += high
    off = (seen.people - sizes[None, :, None] * shapes[:, None, :]) / seen.sd
    kept = _drawn(-0.5 * (off**2).sum(axis=2).ravel(), draw)
    return shapes[kept // len(sizes)] * sizes[kept % len(sizes)][:, None]


def _drawn(log_weight: Floats, draw: np.random.Generator) -> NDArray[np.intp]:
    """Return what is kept of some, as often as they are likely, in any order."""
    weight = np.exp(log_weight - log_weight.max())
    places = (np.arange(SAMPLES) + draw.random()) / SAMPLES
    kept = np.searchsorted(np.cumsum(weight) / weight.sum(), places)
    return draw.permutation(np.minimum(kept, len(weight) - 1))


def _like_the_parent(
    seen: Reading, parent: Floats, rules: Rules, draw: np.random.Generator
) -> Floats:
    """Return samples where nothing stands out: N people of the parent's shape, some cells lower, or
    of its second population alone, where it has one.

    They are as likely as what was measured makes them, under a prior that is flat in log N, but for
    the chance that they are all of the parent's people.
    """
    mean = parent.mean(axis=0)
    shape = mean / max(float(mean.sum()), 1e-9)
    last = int(np.flatnonzero(mean > 0)[-1]) if (mean > 0).any() else 0
    sizes = 2.0 ** np.arange(-1, math.log2(max(float(mean.sum()), 2)) + 0.25, 0.25)
    rows = np.array([np.append(shape[m:], np.zeros(m)) for m in range(last + 1)])
    rows[:, 0] += [shape[:m].sum() for m in range(last + 1)]
    prior = np.full(len(rows), 1 / len(rows))
    begins = _second(mean, seen, rules)
    if begins < CELLS:
        above = np.where(np.arange(CELLS) >= begins, mean, 0.0)
        rows = np.vstack([rows, above / above.sum()])
        prior = np.append((1 - rules.hide) * prior, rules.hide)
    off = (seen.people - sizes[None, :, None] * rows[:, None, :]) / seen.sd
    chance = prior[:, None] * np.full(len(sizes), (1 - rules.whole) / len(sizes))
    chance[0, -1] += rules.whole
    kept = _drawn((np.log(chance) - 0.5 * (off**2).sum(axis=2)).ravel(), draw)
    likely = rows[kept // len(sizes)] * sizes[kept % len(sizes)][:, None]
    few = draw.poisson(np.minimum(likely, 30.0))
    return np.where(likely < 30, few, likely).astype(np.float64)


# -- a parent pilot: a table's rows (or a column's total) per person, once for many questions ------

_GATHERED = 3


@dataclass(frozen=True)
class Parent:
    """A parent pilot's samples, for every question about some of its rows, in cells of r/a.

    Attributes:
        samples: Of people per cell; None: no parent, or nothing stood out of its noise.
    """

    samples: Floats | None = None

    def shift(self, cells: int) -> Parent:
        """Return the same where norms are 2**cells as large, or people have faded that much."""
        if self.samples is None or cells == 0:
            return self
        none = np.zeros((len(self.samples), abs(cells)))
        if cells > 0:
            return Parent(np.hstack([none, self.samples])[:, :CELLS])
        lowest = self.samples[:, : 1 - cells].sum(axis=1, keepdims=True)
        return Parent(np.hstack([lowest, self.samples[:, 1 - cells :], none]))

    def stretch(self, factor: float) -> Parent:
        """Return the same people where all allowances have become smaller by a factor.

        Who adds a to the cells about r/a adds a / factor to those about factor · r/a.

        Example:
            >>> one = Parent(np.eye(1, CELLS))
            >>> one.stretch(1.5).samples[0, :3].round(3).tolist()
            [0.333, 0.333, 0.0]
            >>> one.stretch(4.0).samples[0, :4].tolist()
            [0.0, 0.0, 0.25, 0.0]
        """
        if self.samples is None:
            return self
        cells = math.floor(math.log2(factor))
        into = factor / 2.0**cells - 1
        near = self.shift(cells).samples
        far = self.shift(cells + 1).samples
        assert near is not None
        assert far is not None
        return Parent(((1 - into) * near + into * far) / factor)

    def concentrate(self) -> Parent:
        """Return the same rows where some of them are one person's: fewer people, further up.

        In a third of the samples each, every 1, 2 and 4 rows are; each cell is taken for twice as
        far, as rows of a person may lie about an edge.

        Example:
            >>> found = Parent(np.full((3, CELLS), 8.0) * (np.arange(CELLS) == 0)).concentrate()
            >>> [float(found.samples[k, k + 1]) for k in range(3)]
            [8.0, 4.0, 2.0]
        """
        if self.samples is None:
            return self
        found = np.zeros_like(self.samples)
        for k in range(_GATHERED):
            further = self.shift(k + 1).samples
            assert further is not None
            found[k::_GATHERED] = further[k::_GATHERED] / 2.0**k
        return Parent(found)

    def add(self, other: Parent) -> Parent:
        """Return people of both; of one where nothing is known of the other."""
        if self.samples is None or other.samples is None:
            return other if self.samples is None else self
        return Parent(self.samples + other.samples)


NO_PARENT = Parent()


def parent_of(people: Floats, sigma_0: float, of: Ladder, rules: Rules) -> Parent:
    """Return what the released histogram of a parent pilot says.

    Example:
        >>> from sparseq.accounting.pilots import RULES, ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> found = parent_of(people, 7.0, ladder(math.inf, 1.0), RULES)
        >>> found.samples.shape, abs(float(np.median(found.samples[:, 1])) - 2000) < 30
        ((600, 32), True)
    """
    sd = np.full(CELLS, math.sqrt(rules.parent) * sigma_0)
    seen = Reading(of, people, sd, visible_top(people, sd, rules))
    if seen.top < 0:
        return NO_PARENT
    samples = posterior(seen, None, rules)
    return Parent(samples)


def few_people(people: Floats, sigma_0: float, of: Ladder, rules: Rules) -> Parent:
    """Return what a parent pilot says of which nothing stands out: a table of a few dozen people.

    Example:
        >>> from sparseq.accounting.pilots import RULES, ladder
        >>> few_people(np.zeros(CELLS), 7.0, ladder(math.inf, 1.0), RULES).samples.shape
        (600, 32)
    """
    sd = np.full(CELLS, math.sqrt(rules.parent) * sigma_0)
    return Parent(faint(Reading(of, people, sd, -1)))


def parent_of_squares(
    edges: Floats, rows: Floats, noise: float, centre: float, unit: float, times: float
) -> Parent:
    """Return the people that single rows put into cells of squared distance from a centre.

    Each row is taken for a person of its own, at the far end of its cell of values: so no more
    people have a row with so large a square.

    Args:
        edges, rows, noise: Of a released column pilot: cells of values, noised rows in each, and
            the standard deviation of their noise.
        centre: Of the squares.
        unit: Of the cells.
        times: How many rows a counted one stands for.

    Example:
        >>> edges = np.array([0.0, 1.0, 4.0, 16.0, 64.0])
        >>> found = parent_of_squares(edges, np.array([900.0, 400, 50, 0]), 5.0, 0.0, 1.0, 1.0)
        >>> found.samples.mean(axis=0)[[0, 4, 8, 12]].round(-1).tolist()
        [900.0, 400.0, 50.0, 0.0]
    """
    far = np.maximum(np.abs(edges[:-1] - centre), np.abs(edges[1:] - centre)) ** 2 / unit
    cell = np.clip(np.ceil(np.log2(np.maximum(far, 1.0))), 0, CELLS - 1).astype(np.int64)
    people = np.bincount(cell, rows * times, minlength=CELLS).astype(np.float64)
    cells = np.maximum(np.bincount(cell, minlength=CELLS), 1)
    sd = np.sqrt(cells) * noise * times
    seen = Reading(ladder(math.inf, 1.0), people, sd, visible_top(people, sd, RULES))
    if seen.top < 0:
        return NO_PARENT
    samples = posterior(seen, None, RULES)
    samples[:, int(cell.max()) + 1 :] = 0.0
    return Parent(samples)
