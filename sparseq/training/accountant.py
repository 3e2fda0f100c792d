"""The counted share of each user's gradient: min(norm, C, sqrt(left)) / norm.

Algorithm 3 of Feldman & Zrnic (2021) scales the gradient of a user whose remaining budget is too
small down to that budget, where Algorithm 2 would leave the user out. Here only the weights change.
The charge is computed from the vector that was summed, and the store's gate decides last: if a
weight is too large, by rounding or by mistake, the user is left out of the step, and no budget is
exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparseq.accounting.charge import MAX_CHARGE, SIGNIFICANT_BITS, Price
from sparseq.base.errors import ParameterError
from sparseq.engine.reduction import Index, Ints
from sparseq.question.plan import Noise
from sparseq.training.protocol import Clipped, Floats, GradientEngine, WeightedSum

_MARGIN = 1 - 2.0**-40
"""Factor below the remaining budget, so that roundings of weights do not drop a user."""


@dataclass(frozen=True)
class Accountant:
    """Decides the counted share of each user's gradient.

    Attributes:
        clip: C: no gradient counts for more.
        noise: Noise of the step, with the price of a norm.
        left: Remaining budgets of users, in ledger units. Private.
    """

    clip: float
    noise: Noise
    left: Callable[[Index], Ints]

    def limits(self, users: Index) -> Floats | float:
        """Return min(C, sqrt(left)) as norms; sqrt(left) is the norm that `left` can pay.

        Example:
            >>> from sparseq.accounting import Budget, Price
            >>> price = Price.of(10.0, 2.0**-16, Budget(0.5, 100))
            >>> noise = Noise(10.0, 2.0**-32, 1.0, 2.0**-16, price)
            >>> left = lambda users: np.array([2**24, 2**24, 2**22, 0])
            >>> limits = Accountant(1.0, noise, left).limits(np.arange(4, dtype=np.int32))
            >>> limits.round(9).tolist()
            [1.0, 1.0, 0.5, 0.0]
        """
        left = self.left(users)
        full = (self.clip / self.noise.norm_step) ** 2
        most = self.noise.price.charge_one(math.ceil(full)) if math.isfinite(full) else MAX_CHARGE
        most += (most >> (SIGNIFICANT_BITS - 1)) + 1  # the charge is rounded up to these bits
        if not left.min(initial=most) < most:
            return self.clip * _MARGIN
        limits = np.full(len(left), self.clip * _MARGIN)
        short = np.flatnonzero(left < most)
        units = norm_for(left[short], self.noise.price) * (self.noise.norm_step * _MARGIN)
        limits[short] = np.minimum(limits[short], units)
        return limits


def weights(limits: Floats | float, norms: Floats) -> Floats:
    """Return each user's weight, in [0, 1]: 0 for a user without budget.

    Example:
        >>> weights(np.array([1.0, 1.0, 0.5, 0.0]), np.array([0.5, 2.0, 2.0, 2.0])).tolist()
        [1.0, 0.5, 0.25, 0.0]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = limits / norms
    np.minimum(shares, 1.0, out=shares)
    if not norms.min(initial=1.0) > 0:
        shares[~(norms > 0)] = 0.0
    return np.asarray(shares)


def clipped(
    engine: GradientEngine, params: Floats, batch: Any, limits: Floats | float, step: float
) -> WeightedSum:
    """Return a batch's sum of gradients, each clipped to its user's limit."""
    at_once: Clipped | None = getattr(engine, "clipped", None)
    if at_once is not None and (pulled := at_once(params, batch, limits, step)) is not None:
        return pulled
    norms, pull = engine.query(params, batch)
    return pull(weights(limits, norms), step)


def norm_for(charges: Ints, price: Price) -> Floats:
    """Return approximately the largest norm, in norm steps, that a charge can pay.

    A charge is rounded up to `SIGNIFICANT_BITS`, so the amount is first rounded down to them. The
    square is rounded up to a whole number, so it is rounded down here.
    """
    spare = np.maximum(np.frexp(charges.astype(np.float64))[1] - SIGNIFICANT_BITS, 0)
    payable = (charges >> spare) << spare
    squares = np.floor(payable.astype(np.float64) * (2.0**price.shift / price.multiplier) * _MARGIN)
    return np.asarray(np.sqrt(squares))


def checked_clip(clip: float) -> float:
    """Return C as a float.

    Raises:
        ParameterError: C is not in [2**-100, 2**100].
    """
    if not 2.0**-100 <= clip <= 2.0**100:
        raise ParameterError(
            f"clip is {clip!r}; it must be positive", "a gradient that is longer is scaled down"
        )
    return float(clip)
