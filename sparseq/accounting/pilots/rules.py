"""The constants of pilots and intervals: public, the same for every store."""

from __future__ import annotations

from dataclasses import dataclass


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
