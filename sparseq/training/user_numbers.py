"""One number per user as a dense query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseq.question.plan import DENSE_NORM_STEPS
from sparseq.training.protocol import GradientEngine, Pull, WeightedSum, saturate

Floats = NDArray[np.float64]


_UPWARDS = 1 + 2.0**-48


@dataclass(frozen=True)
class Numbers:
    """An engine whose vectors have one coordinate, in [0, 1].

    Attributes:
        engine: Engine whose batches it takes.
        value: Each user's number at the parameters, from that user's data alone.
    """

    engine: GradientEngine
    value: Callable[[Floats, Any], Floats]

    @property
    def failed_users(self) -> set[int]:
        """Return the failed users of the other engine."""
        return getattr(self.engine, "failed_users", set())

    @property
    def coordinates(self) -> int:
        """The number of coordinates, 1."""
        return 1

    def batches(self) -> Iterable[Any]:
        """Return the other engine's batches."""
        return self.engine.batches()

    def query(self, params: Floats, batch: Any) -> tuple[Floats, Pull]:
        """Return the numbers, which are their own norms, and the pull: see the protocol.

        A number times its weight is rounded towards 0 to an integer in lattice steps, and charged
        as that integer: its square in float64 is within 2**-53, and so is the scaling by a power
        of two.
        """
        with np.errstate(invalid="ignore"):
            values = np.clip(np.nan_to_num(self.value(params, batch), nan=0.0), 0.0, 1.0)

        def pull(weights: Floats, step: float) -> WeightedSum:
            integers = np.trunc(values * weights / step)
            units = integers / DENSE_NORM_STEPS
            return WeightedSum(
                saturate(units * units * _UPWARDS),
                np.array([int(integers.astype(np.int64).sum())], np.int64),
            )

        return values, pull


def everybody(engine: GradientEngine) -> Numbers:
    """Return the engine that counts users."""
    return Numbers(engine, lambda _, batch: np.ones(len(batch.users)))
