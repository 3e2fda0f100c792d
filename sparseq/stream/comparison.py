"""A sparse-vector comparison as the mechanism of a step: it tells whether a count reached a limit.

Users enter the count once and stay, so a run with Laplace noise of scale b costs a user 1/(2b²) of
zCDP, in the step in which the user enters: docs/theorems/watch.md. A plan with sigma b charges the
same for a contribution of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.ledger.accounts import Ints
from sparseq.mechanisms import AboveThreshold, Entropy, LaplaceSparseVector
from sparseq.question.plan import Plan


@dataclass
class Comparison:
    """A `Mechanism` that tells whether `limit` users have entered; it is called once.

    Attributes:
        limit: The number of users.
        noise: z of the run; None if it is still to be drawn. Secret.
        counted: The count of entered users, in lattice steps. Private.
        fired: Whether the count reached the limit: released.
    """

    limit: int
    noise: int | None = None
    counted: int = 0
    fired: bool = False

    def __call__(self, plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> list[Ints]:
        """Add the users who enter now, draw z in the run's first call, and compare."""
        (noise,) = plan.noise
        one, scale = round(1 / noise.granularity), noise.lattice_sigma
        design = LaplaceSparseVector(one, scale, scale, entering=True)
        vector = AboveThreshold(design, self.limit * one, entropy, self.noise)
        self.counted += int(sums[0][0])
        self.fired = vector.above(self.counted)
        self.noise = vector.noise
        return [np.array([one if self.fired else 0])]
