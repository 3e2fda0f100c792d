"""The filter of Rogers et al., a baseline for Rényi filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparseq.accounting._numbers import probability, spendable
from sparseq.accounting.filters._fixed_point import FixedPoint, square_up
from sparseq.accounting.filters._rule import Floats, Rule, Units, rootable


@dataclass(frozen=True, slots=True)
class RogersRule(Rule):
    """The baseline for pure-DP steps epsilon_t: halts, with S the sum of epsilon_t², when

    See docs/theorems/rogers-filter.md.

        sum of epsilon_t (e^epsilon_t - 1) / 2
            + sqrt(2 (S + C) (1 + log(1 + S/C) / 2) log(1/delta))  >  epsilon,

    where C = epsilon² / (28.04 log(1/delta)).

    Args:
        epsilon_budget: The target's epsilon (nats).
        delta_budget: The target's delta, in [2**-500, 1).

    Source: Rogers, Roth, Ullman & Vadhan (2016), Theorem 5.1, as Feldman & Zrnic (2021), section
    4.3, quote it for epsilon_t = epsilon; here with their sums over t. Theorem 4.8 is tighter: use
    this rule to compare only. Only this rule decides by floating point, from exact sums, rounded
    up.

    Example:
        >>> from sparseq.accounting.filters import capacity
        >>> capacity(RogersRule(1.0, 1e-6), 0.01)
        154
    """

    epsilon_budget: float
    delta_budget: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_budget", rootable("epsilon", self.epsilon_budget))
        object.__setattr__(self, "delta_budget", probability("delta", self.delta_budget))

    @property
    def limits(self) -> tuple[Fraction, ...]:
        """Necessary for the rule: epsilon_t² <= epsilon_t (e^epsilon_t - 1)."""
        return 2 * Fraction(self.epsilon_budget), Fraction(self.epsilon_budget)

    def read(self, epsilon: ArrayLike) -> tuple[Floats, ...]:
        return (spendable("epsilon", epsilon),)

    def charges(self, epsilon: Floats) -> tuple[Floats, ...]:
        with np.errstate(over="ignore"):
            drift = epsilon / 2 * np.expm1(epsilon) * (1 + 2.0**-49)
        squares = square_up(epsilon)
        return squares, np.maximum(drift, squares / 2)

    def fits(
        self, totals: Sequence[Units], limits: Sequence[Any], columns: Sequence[FixedPoint]
    ) -> NDArray[np.bool_]:
        """Return a mask: the formula, rounded up, is at most a user's epsilon, or all is free."""
        squares, drift = (
            column.in_budget_units(total) for column, total in zip(columns, totals, strict=True)
        )
        loss = np.minimum(self._loss(squares, drift) * (1 + 2.0**-45), 2 * self.epsilon_budget)
        return np.asarray((columns[1].units(loss) <= limits[1]) | (totals[1] == 0))

    def epsilon(self, delta: float) -> float:
        """Return the target's epsilon; the rule gives none for a smaller delta.

        Raises:
            ParameterError: delta is below the target's.
        """
        probability("delta", delta, self.delta_budget)
        return self.epsilon_budget

    def _loss(self, squares: Any, drift: Any) -> Any:
        log = -math.log(self.delta_budget)
        c = self.epsilon_budget**2 / (28.04 * log)
        return drift + np.sqrt(2 * (squares + c) * (1 + np.log1p(squares / c) / 2) * log)
