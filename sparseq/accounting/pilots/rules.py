"""The constants of pilots and intervals: public, the same for every store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """Constants; docs/theorems/pilots.md describes their measurement.

    Attributes:
        first, second, parent: Variances of the pilots' cells, in units of sigma_0²: the first over
            all cells, the second over the upper cells, the parent's over all cells; also the
            variance of people by fading. Each costs a person a²/variance.
        floor: The noise of an answer is never finer than this part of the answer.
        seen: Standard deviations from which a cell is visible next to a visible cell.
        gap: The addition to `seen` for each empty cell in between.
        sure: Standard deviations from which a cell is always visible.
        loud: Standard deviations from which a cell's people are taken from the measurement.
        slope: Standard deviation of the change of the slope of log2 people from cell to cell.
        bend: The largest average fall of the slope per cell.
        ends: Mean additional fall of the slope per cell.
        stop: Chance that a population ends in a cell, beyond the last visible one.
        jump: Floor of the density of a change of slope, as there may be a separate population.
        fall: The least fall of log2 people per cell beyond the last visible cell.
        hide, hide_usual: Chance that people whom the parent saw begin in a cell: where the parent
            has a second population above a gap, and elsewhere.
        whole: Chance that invisible people are all the people of the parent.
        alike: Standard deviation of the ratio of a group's shares of the cut and of the answer.
        unlike: The same for all groups together, as norms differ from sums.
        norms: The mass missing from sums as a part of the mass missing from norms.
        unsure: Relative standard deviation of the cut as computed from the cells.
        skew: The addition to the median of the cut, as a part of it.
        widen: Factor that widens every interval of the model.
        widen_up: Factor for the upper end of one number whose samples were cut to a parent's tail:
            what is cut off is the smaller of two estimates, and often too small.
        ratio: An average's sum and rows are measured separately if the spread of values exceeds
            this part of their size.
        values, once: Standard deviation of the distance between the means of cut and other rows, in
            spreads; `once` if a person has one value.
        few: For a small share f of cut rows this distance grows by sqrt(1 + few / f).
        wide: Prior distance, in spreads, for shrinking an average towards the column's average.
        ranks: Distance of the share of cut rows below a value from F, in units of sqrt(F (1 - F)).
        opened: Factor for a quantile's interval, as it is extended to whole bins.
    """

    first: int = 16
    second: int = 4
    parent: int = 1
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
    widen_up: float = 1.6
    ratio: float = 0.8
    values: float = 0.3
    once: float = 0.6
    few: float = 0.05
    wide: float = 2.5
    ranks: float = 0.25
    opened: float = 0.87


RULES = Rules()
