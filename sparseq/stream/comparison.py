"""One comparison of a sparse vector as the mechanism of a step: has a count reached a limit?

Users enter the count once and stay, so a run with Laplace noise of scale b costs a user 1/(2b²) of
zCDP, in the step that it enters in: docs/theorems/watch.md. That is what a plan of sigma b charges
for a contribution of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseq.ledger.accounts import Ints
from sparseq.mechanisms import AboveThreshold, Entropy, LaplaceSparseVector
from sparseq.sql.plan import Plan


@dataclass
class Comparison:
    """A `Mechanism` that tells whether so many have entered; it is called once.

    Attributes:
        limit: In users.
        noise: z of the run, None if it is still to be drawn. Secret.
        counted: Who has entered, in lattice steps. Private.
        fired: What is released.
    """

    limit: int
    noise: int | None = None
    counted: int = 0
    fired: bool = False

    def __call__(self, plan: Plan, sums: Sequence[Ints], entropy: Entropy) -> list[Ints]:
        """Add those who enter now, draw z if it is the run's first, compare."""
        (noise,) = plan.noise
        one, scale = round(1 / noise.granularity), noise.lattice_sigma
        design = LaplaceSparseVector(one, scale, scale, entering=True)
        vector = AboveThreshold(design, self.limit * one, entropy, self.noise)
        self.counted += int(sums[0][0])
        self.fired = vector.above(self.counted)
        self.noise = vector.noise
        return [np.array([one if self.fired else 0])]
