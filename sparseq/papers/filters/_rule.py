"""The interface of all rules of filters, and checks that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparseq.accounting._numbers import in_range
from sparseq.base.errors import ParameterError
from sparseq.papers.filters._fixed import LARGEST_BUDGET, SMALLEST_BUDGET, FixedPoint

Floats = NDArray[np.float64]
Units = NDArray[np.int64]


class Rule(ABC):
    """A theorem as a filter applies it: what is summed, and up to where.

    A rule has one column, or several, of numbers >= 0 that add up from step to step. A rule is
    an immutable description; `Filter` and `IndividualFilter` hold what was spent under it.
    """

    overdraws: ClassVar[bool] = False
    """Whether a step can be admitted although one of its columns passes its limit."""

    known: ClassVar[dict[str, type[Rule]]] = {}

    def __init_subclass__(cls) -> None:
        Rule.known[cls.__name__] = cls

    @property
    @abstractmethod
    def limits(self) -> tuple[Fraction, ...]:
        """The budget of each column, exactly."""

    @abstractmethod
    def read(self, *step: Any) -> tuple[Floats, ...]:
        """Return what `charges` takes from one step's description, checked; mutates nothing."""

    @abstractmethod
    def charges(self, *read: Any) -> tuple[Floats, ...]:
        """Return what each column is charged, rounded up; element by element."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return epsilon at `delta` of everything that a filter under this rule admits."""

    def fits(
        self, totals: Sequence[Units], limits: Sequence[Any], columns: Sequence[FixedPoint]
    ) -> NDArray[np.bool_]:
        """Return where the totals are allowed: by default, where no column passes its limit."""
        fit = totals[0] <= limits[0]
        for total, limit in zip(totals[1:], limits[1:], strict=True):
            fit &= total <= limit
        return np.asarray(fit)

    def nothing(self) -> tuple[Any, ...]:
        """Return a step that costs nothing."""
        return (0.0,)

    def state(self) -> dict[str, Any]:
        """Return the rule as plain values: floats, tuples of them, and the rule's name."""
        return {"rule": type(self).__name__, **asdict(self)}  # type: ignore[call-overload]

    @staticmethod
    def from_state(state: dict[str, Any]) -> Rule:
        """Return the rule that `state` came from.

        Raises:
            ParameterError: It names no rule, or values that the rule refuses.
        """
        fields = dict(state)
        name = fields.pop("rule", None)
        if name not in Rule.known:
            raise ParameterError(f"rule is {name!r}; it must be one of {', '.join(Rule.known)}")
        try:
            return Rule.known[name](**fields)
        except TypeError:
            raise ParameterError(f"the saved {name} has fields {sorted(fields)}") from None


def positive(name: str, value: float) -> float:
    """Return a budget in [2**-500, 2**60], or refuse it by name."""
    return in_range(name, value, SMALLEST_BUDGET, LARGEST_BUDGET)


def rootable(name: str, value: float) -> float:
    """Return a budget whose square is one, in [2**-240, 2**29], or refuse it by name."""
    return in_range(name, value, 2.0**-240, 2.0**29)
