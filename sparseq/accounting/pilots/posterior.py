"""Samples of the number of people in each cell of a pilot, given the measurements.

The stated model may be wrong: log2 of the people in a cell is a smooth curve whose slope changes by
a normal step from cell to cell and tends to fall; beyond the last visible cell people thin out; a
population may end, or another begin where the parent pilot saw one. Samples go up the ladder cell
by cell and are weighted by the measurement of each cell (a particle filter: Gordon, Salmond and
Smith 1993). The draws have a fixed public seed: it is post-processing, and the same reading has the
same samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting.pilots.ladder import CELLS, Floats
from sparseq.accounting.pilots.noised_pilot import PILOTS, Reading


@dataclass(frozen=True)
class LadderModel:
    """Constants of the model of the ladder (docs/theorems/pilots.md, which has the values).

    Attributes:
        slope: Standard deviation of the change of the slope of log2 people from cell to cell.
        bend: The largest average fall of the slope per cell: 0 is a Pareto tail.
        ends: Mean of the exponential fall of the slope per cell, in addition to the bend.
        stop: Chance that a population ends in a cell beyond the last visible one.
        jump: Floor of the density of a change of slope: a separate population may begin.
        fall: The least fall of log2 people per cell beyond the last visible cell.
        hide: Chance that people whom the parent saw above a gap begin in a cell.
        hide_usual: The same where the parent has no second population above a gap.
        whole: Chance that invisible people are all the people of the parent.
    """

    slope: float = 0.8
    bend: float = 0.6
    ends: float = 0.1
    stop: float = 0.08
    jump: float = 0.02
    fall: float = 0.7
    hide: float = 0.15
    hide_usual: float = 0.03
    whole: float = 0.15


MODEL = LadderModel()

SAMPLES = 600
_NOBODY = -12.0  # log2 of people in an empty cell
_UNLIKE = 10  # one in this many samples is not like the parent, where nothing stands out
_ROWS = 5  # cells between persons with many rows and with one row, where nothing is known
_FAINT = 10  # cells above the lowest that may have people unseen by a parent pilot
_AT_ONCE = 0.5  # chance that nobody is in the cell in which a population ends
_LEAST = -0.5  # log2 of the fewest people that count as present


@dataclass
class _Filter:
    """Samples on their way up the ladder: log2 people in the last cell, its slope and its bend.

    `people` looks up the people of earlier cells at the end: a kept sample has the earlier cells of
    its ancestor.
    """

    draw: np.random.Generator
    height: Floats
    slope: Floats
    bend: Floats
    _cells: list[tuple[int, Floats, NDArray[np.intp]]] = field(default_factory=list)

    def weigh(self, cell: int, people: Floats, log_weight: Floats) -> None:
        """Keep samples in proportion to their likelihood (systematic resampling).

        Args:
            cell: The reached cell.
            people: The samples' people in it.
            log_weight: Log-likelihoods of the samples, up to a constant.
        """
        weight = np.exp(log_weight - log_weight.max())
        places = (np.arange(SAMPLES) + self.draw.random()) / SAMPLES
        kept = np.searchsorted(np.cumsum(weight) / weight.sum(), places)
        kept = np.minimum(kept, SAMPLES - 1)
        self._cells.append((cell, people, kept))
        self.height, self.slope, self.bend = self.height[kept], self.slope[kept], self.bend[kept]

    def people(self) -> Floats:
        """Return the people of all cells: (SAMPLES, CELLS)."""
        found, came_from = np.zeros((SAMPLES, CELLS)), np.arange(SAMPLES)
        for cell, people, kept in reversed(self._cells):
            came_from = kept[came_from]
            found[:, cell] = people[came_from]
        return found


def posterior(seen: Reading, parent: Floats | None, reach: int = 0, noise: float = 0.0) -> Floats:
    """Return samples of people per cell, weighted by their allowances: (SAMPLES, CELLS).

    Args:
        seen: The reading of the pilots.
        parent: Samples of a parent pilot, in the same cells: they bound the people at or above each
            edge.
        reach: The cell of a person with one row: if nothing is known of people, they are few, and
            lie anywhere up to a few cells above it.
        noise: The standard deviation of the noise of the parent pilot's cells.

    Example:
        >>> from sparseq.accounting.pilots import ladder
        >>> people = np.zeros(CELLS); people[:3] = 4000, 2000, 500
        >>> found = posterior(Reading(ladder(math.inf, 1.0), people, np.full(CELLS, 20.0), 2),
        ...                   None)
        >>> abs(float(np.median(found[:, 1])) - 2000) < 50
        True
    """
    draw = np.random.Generator(np.random.PCG64(1))
    loud = np.flatnonzero(seen.people > PILOTS.loud * seen.sd)
    if len(loud) == 0 and (seen.top < 0 or parent is not None):
        found = _anywhere(seen, reach, draw)
        if parent is not None:  # few of those samples: they widen the interval, and not C
            likely = _like_the_parent(seen, parent, draw, noise)
            found = np.where(np.arange(SAMPLES)[:, None] % _UNLIKE == 0, found, likely)
    else:
        found = _up_the_ladder(seen, parent, draw, loud, noise)
    found[:, seen.ladder.cap + 1 :] = 0.0
    return found


def _up_the_ladder(
    seen: Reading,
    parent: Floats | None,
    draw: np.random.Generator,
    loud: NDArray[np.intp],
    noise: float,
) -> Floats:
    h, sd, top = seen.people, seen.sd, seen.top
    first = int(loud[0]) if len(loud) else seen.top
    at = _Filter(
        draw,
        np.zeros(SAMPLES),
        -1.0 + draw.standard_normal(SAMPLES),
        MODEL.bend * draw.random(SAMPLES) ** 1.5,
    )
    if len(loud):
        at.height = np.log2(h[first]) + _relative(h, sd, first) * draw.standard_normal(SAMPLES)
        weight = np.zeros(SAMPLES)
    else:
        at.height = _few(draw, 3 * float(sd[first]))
        weight = -0.5 * ((h[first] - 2.0**at.height) / sd[first]) ** 2
    at.weigh(first, 2.0**at.height, weight)
    most = None if parent is None else parent.mean(axis=0)
    hide = _chance_of_hidden(most, noise)
    if most is None and seen.ladder.bounded:  # few cells: this many may be in each unnoticed
        most, hide = 3 * sd, MODEL.hide
    for k in range(first + 1, CELLS):
        if h[k] > PILOTS.loud * sd[k]:
            weight = _to_loud_cell(at, seen, k, fresh=len(loud) > 0 and k == first + 1)
        else:
            weight = _to_quiet_cell(at, seen, k, most, hide)
        at.height = np.maximum(at.height, _NOBODY)
        at.weigh(k, np.where(at.height > _LEAST, 2.0**at.height, 0.0), weight)
    people = at.people()
    if parent is not None:
        _within(people, parent, top)
    return people


def _to_loud_cell(at: _Filter, seen: Reading, k: int, fresh: bool) -> Floats:
    """Go to a loud cell: its people as measured, weighted by the density of the change of slope."""
    error = max(_relative(seen.people, seen.sd, k), 1e-6)
    height = math.log2(seen.people[k]) + error * at.draw.standard_normal(SAMPLES)
    change = height - at.height - at.slope
    spread = math.hypot(MODEL.slope, 0.5 * error)
    likely = np.logaddexp(-0.5 * ((change + at.bend) / spread) ** 2, math.log(MODEL.jump))
    at.slope, at.height = np.clip(height - at.height, -4, 4), height
    return np.zeros(SAMPLES) if fresh else np.asarray(likely)


def _to_quiet_cell(at: _Filter, seen: Reading, k: int, most: Floats | None, hide: float) -> Floats:
    """Go to a quiet cell: its people by the model, weighted by the likelihood of the reading."""
    draw = at.draw
    slope = at.slope - at.bend + MODEL.slope * draw.standard_normal(SAMPLES)
    slope = slope - MODEL.ends * draw.exponential(size=SAMPLES)
    unseen = k > seen.top
    at.slope = np.clip(np.minimum(slope, -MODEL.fall) if unseen else slope, -6, 4)
    height = at.height + at.slope
    if unseen:
        height = _some_end(at, height, near=k == seen.top + 1)
        if most is not None and most[k] > 0.5:
            there = _few(draw, float(most[k]) + 2)
            height = np.where(draw.random(SAMPLES) < hide, there, height)
    else:  # a separate population may begin above a gap
        there = _few(draw, 4 * float(seen.sd[k]))
        height = np.where(draw.random(SAMPLES) < 0.3, there, height)
    at.height = height
    there = np.where(height > _LEAST, 2.0**height, 0.0)
    return np.asarray(-0.5 * ((seen.people[k] - there) / seen.sd[k]) ** 2)


def _some_end(at: _Filter, height: Floats, near: bool) -> Floats:
    """Return heights where some populations end.

    The cell is then empty; but just above the last visible cell, in half of those samples, it has
    few people (evenly over 0 to 9, a ninth lies above 8).
    """
    ends = at.draw.random(SAMPLES) < MODEL.stop
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
    """Return log2 of people, uniform from a half to `most`."""
    return draw.uniform(-1.0, math.log2(max(most, 1.0)), SAMPLES)


def _chance_of_hidden(most: Floats | None, noise: float) -> float:
    """Return the chance that people of the parent begin in a cell."""
    if most is None:
        return MODEL.hide_usual
    return MODEL.hide if _second(most, noise) < CELLS else MODEL.hide_usual


def _second(most: Floats, noise: float) -> int:
    """Return the cell where a second population of the parent begins, above a gap; CELLS: none."""
    mode, cells = int(np.argmax(most)), np.arange(CELLS)
    low = np.minimum.accumulate(np.where(cells >= mode, most, np.inf))
    pair = most + np.append(most[1:], 0.0)  # it may lie around an edge
    there = (most > 3 * noise) | (pair > 3 * math.sqrt(2) * noise)
    second = np.flatnonzero((most > 2.5 * low) & there & (cells > mode))
    if len(second) == 0:
        return CELLS
    return mode + int(np.argmin(most[mode : second[0]])) + 1


def _within(people: Floats, parent: Floats, top: int) -> None:
    """Reduce samples beyond the last visible cell to the parent's people at or above each edge.

    The heavier the tail of a sample, the heavier that of the parent's sample that it is cut to: the
    smaller of two independent draws would be too small on average.
    """
    heavy = np.where(np.arange(CELLS) > top, np.ldexp(1.0, np.arange(CELLS)), 0.0)
    order = np.empty(SAMPLES, np.intp)
    order[np.argsort(people @ heavy, kind="stable")] = np.argsort(parent @ heavy, kind="stable")
    above = np.minimum(_at_or_above(people), _at_or_above(parent[order]))
    cells = np.maximum(above - np.append(above[:, 1:], np.zeros((len(above), 1)), axis=1), 0.0)
    people[:, top + 1 :] = cells[:, top + 1 :]


def _at_or_above(people: Floats) -> Floats:
    return np.asarray(np.cumsum(people[:, ::-1], axis=1)[:, ::-1])


def _anywhere(seen: Reading, reach: int, draw: np.random.Generator) -> Floats:
    """Return samples where nothing stands out and nothing is known: N people in one cell.

    They follow the likelihood of the measurements, under a prior that is flat in log N and over
    cells.
    """
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
    """Return samples where nothing stands out: N people of one norm, (SAMPLES, CELLS).

    They follow the likelihood of the measurements, under a prior that is flat in log N and over log
    norms. Forty people of 100 rows each lie in two cells at three standard deviations.

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
    """Return indices drawn in proportion to their likelihood, in any order."""
    weight = np.exp(log_weight - log_weight.max())
    places = (np.arange(SAMPLES) + draw.random()) / SAMPLES
    kept = np.searchsorted(np.cumsum(weight) / weight.sum(), places)
    return draw.permutation(np.minimum(kept, len(weight) - 1))


def _like_the_parent(
    seen: Reading, parent: Floats, draw: np.random.Generator, noise: float
) -> Floats:
    """Return samples where nothing stands out: N people of the parent's shape, some cells lower.

    Some samples have the parent's second population alone, if it has one.

    They follow the likelihood of the measurements, under a prior that is flat in log N, except for
    the chance that they are all the parent's people.
    """
    mean = parent.mean(axis=0)
    shape = mean / max(float(mean.sum()), 1e-9)
    last = int(np.flatnonzero(mean > 0)[-1]) if (mean > 0).any() else 0
    sizes = 2.0 ** np.arange(-1, math.log2(max(float(mean.sum()), 2)) + 0.25, 0.25)
    rows = np.array([np.append(shape[m:], np.zeros(m)) for m in range(last + 1)])
    rows[:, 0] += [shape[:m].sum() for m in range(last + 1)]
    prior = np.full(len(rows), 1 / len(rows))
    begins = _second(mean, noise)
    if begins < CELLS:
        above = np.where(np.arange(CELLS) >= begins, mean, 0.0)
        rows = np.vstack([rows, above / above.sum()])
        prior = np.append((1 - MODEL.hide) * prior, MODEL.hide)
    off = (seen.people - sizes[None, :, None] * rows[:, None, :]) / seen.sd
    chance = prior[:, None] * np.full(len(sizes), (1 - MODEL.whole) / len(sizes))
    chance[0, -1] += MODEL.whole
    kept = _drawn((np.log(chance) - 0.5 * (off**2).sum(axis=2)).ravel(), draw)
    likely = rows[kept // len(sizes)] * sizes[kept % len(sizes)][:, None]
    few = draw.poisson(np.minimum(likely, 30.0))
    return np.where(likely < 30, few, likely).astype(np.float64)
