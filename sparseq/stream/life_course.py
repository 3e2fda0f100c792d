"""The course of a budget for all windows of a person together: public."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sparseq.accounting.charge import UNITS_PER_NORM
from sparseq.stream.full_weight import (
    GROWTH,
    ROUNDED,
    UNITS,
    UNKNOWN,
    left_for_full_weight,
)

_ROOTS = 4 / math.sqrt(UNITS_PER_NORM)
_LEAST_SHARE = 8192 / UNITS_PER_NORM


@dataclass(frozen=True)
class LifeCourse:
    """The course of the users' budget for all windows together: public.

    A user with n windows in a question pays at most n² times the cost of one window, and each
    window's allowance is computed for that case (`sparseq.ledger.lifetimes`).

    Attributes:
        tau: A window has full weight until less than this is left for it.
        least: Squared norm that every user has left at least; below 0: unknown.
        clock: The sum of the highest possible costs of all answers so far.

    Example:
        >>> life = LifeCourse(tau=100.0, least=400.0)
        >>> life.allowance(1.0, 1), life.allowance(1.0, 4), life.holds(4)
        (1.0, 0.5, True)
        >>> for _ in range(200):
        ...     life = life.after(1.5, 1.0, 1)
        >>> round(life.allowance(1.0, 1), 2)
        0.73
    """

    tau: float
    least: float
    clock: float = 0.0

    def cautious(self, price: float) -> float:
        """Return the remainder that gives one window full weight."""
        return left_for_full_weight(self.tau + GROWTH * self.clock, price)

    def allowance(self, price: float, windows: int) -> float:
        """Return the least allowance of a window of a user with `windows` windows in a question."""
        whole = max(windows, 1) ** 2 * self.cautious(price)
        return math.sqrt(min(1.0, max(self.least, UNKNOWN) / whole))

    def holds(self, windows: int) -> bool:
        """Tell whether every user has something left for each of `windows` windows."""
        return self.least > max(windows, 1) ** 2 * _LEAST_SHARE

    def after(self, worst: float, price: float, windows: int) -> LifeCourse:
        """Return the course after a release that costs no window more than `worst` · a².

        A user with n of the windows pays at most (n a)² worst, and (n a)² <= left / cautious. Roots
        are rounded up, n in each of four parts: docs/theorems/windows.md.
        """
        n = max(windows, 1)
        most = worst * min(n**2, max(self.least, 0.0) / self.cautious(price))
        rounded = _ROOTS * (4 * n * math.sqrt(most) + n**2 * _ROOTS)
        left = self.least - most * ROUNDED - rounded - n**2 * UNITS
        return replace(self, least=left, clock=self.clock + most)
