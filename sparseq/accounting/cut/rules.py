"""The constants of pilots and intervals: public, the same for every store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """Constants; where they were measured: docs/theorems/pilots.md.

    Attributes:
        first, second, parent: Variances of the pilots' cells, in units of sigma_0²: the first over
            all cells, the second over the upper ones, the parent's, over all. Each costs a person
            a²/variance.
        floor: An answer is never finer than this part of itself.
        seen: Standard deviations over which a cell is visible next to one that is.
        gap: What each empty cell between adds to `seen`.
        sure: What is always enough.
        less: The assumed tail falls at least as fast as what was seen less this, in log2 of people
            a cell.
        doubt: And by so many standard errors of what was seen less.
        least: And never slower than this.
        low: And never faster than this, where the fall was seen in the lowest cells only.
        mean: `least` of the estimate.
        spread: What no pilot sees is at most so many times as dense in a group as the answer.
        tail: Standard deviations of the assumed tail that count as missing.
        beyond: A population of its own above a gap: people of it that a question's cells must show
            before it counts as seen, as a part of what the parent saw.
    """

    first: int = 16
    second: int = 4
    parent: int = 1
    floor: float = 0.01
    seen: float = 2.5
    gap: float = 0.5
    sure: float = 4.5
    less: float = 0.4
    doubt: float = 1.5
    least: float = 1.0
    low: float = 1.5
    mean: float = 2.0
    spread: float = 2.0
    tail: float = 1.96
    beyond: float = 0.5


RULES = Rules()
