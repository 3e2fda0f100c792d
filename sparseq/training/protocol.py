"""The protocol of dense queries: norms first, then the weighted sum.

A gradient has too many coordinates to travel as triplets (user, coordinate, value). An engine
gives it in two halves,

    norms, pull = engine.query(params, batch)

and the accountant works in between: from the norms it decides how much of each user's gradient
counts, min(norm, C, sqrt(left)) / norm (Feldman & Zrnic 2021, Algorithm 3), a number in [0, 1].
`pull(weights, step)` gives the weighted sum and, for every user, the squared norm of the user's
part of the sum.

**What an engine promises** (the theorem is in docs/theorems/dense-queries.md):

1. *A function of one user's data.* A user's part of the sum, an integer vector v_i in lattice
   steps, and the user's squared norm depend on that user's records, on `params` and on public
   facts: not by one bit on the other users in the batch, nor on the user's place in it.
2. *An exact sum.* `sums` is the sum of all v_i in integers.
3. *Never too low.* `squares` is at least ||v_i||², in units of `DENSE_NORM_STEPS`² steps².
4. *Nothing from nothing.* A gradient that is not finite is left out before it is weighted (0 times
   NaN is NaN), and a weight of 0 gives v_i = 0 and a square of 0.

With these, a step is an integer query like any other, and `Store.step` prices, gates, sums, noises
and commits it. The norms decide weights only: an error in them costs accuracy, never privacy.

An engine whose arithmetic can't keep 1 and 2 must bound the change that rounding lets one user make
to `sums`, and add that bound to the norm that it squares; `charged_squares` takes it as `slack`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparseq.engine.reduction import NORM_LIMIT, Index, Ints
from sparseq.question.plan import DENSE_NORM_STEPS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedSum:
    """The weighted sum of one batch.

    Attributes:
        squares: int64, one per user of the batch: squared norms in units of (DENSE_NORM_STEPS
            lattice steps)², rounded up; saturated at NORM_LIMIT.
        sums: int64 (d,), in lattice steps.
    """

    squares: Ints
    sums: Ints


Pull = Callable[[Floats, float], WeightedSum]
"""From weights, one per user of the batch, and the lattice step (a power of two), to the sum."""


class Batch(Protocol):
    """Some of the users, with all their records."""

    @property
    def users(self) -> Index:
        """The store's indices, ascending."""
        ...


class GradientEngine(Protocol):
    """The gradients of a model's loss, one vector per user."""

    @property
    def coordinates(self) -> int:
        """d, the number of parameters."""
        ...

    def batches(self) -> Iterable[Any]:
        """Return all users' records in batches; no user is in two batches."""
        ...

    def query(self, params: Floats, batch: Any) -> tuple[Floats, Pull]:
        """Return the users' gradient norms (0 for one that is not finite), and the pull.

        Args:
            params: float64 (d,), public.
            batch: One of `batches`.
        """
        ...


Clipped = Callable[[Floats, Any, Floats | float, float], WeightedSum | None]
"""A function of some engines, `clipped(params, batch, limits, step)`: query and pull in one pass
over the records. Limits, one per user or one for all, are known before norms are. It returns the
same bits as the two, at the weights that `accountant.weights` computes from limits and norms; or
None: then the caller uses the two."""


class Sampling(GradientEngine, Protocol):
    """An engine that can be asked about some of its users only, as private SGD does.

    If rounding lets a user with a weight of 0 change `sums`, a user who is not drawn must be
    absent: such an engine needs this, and a `slack` for the largest batch.
    """

    def of(self, users: Index) -> Iterable[Any]:
        """Return batches of these users (ascending) and no others."""
        ...


def upper_norms(squares: NDArray[Any], terms: int) -> Floats:
    """Return norms that are not below the truth, from sums of squares in floating point.

    Args:
        squares: float32 or float64: sums of `terms` squares a user, each square and each addition
            rounded to nearest in the array's type, in any order.
        terms: Number of squares in a sum: at most 2**20 for float32, 2**48 for float64.

    Proof. Let u be the unit roundoff, 2**-24 or 2**-53, and t the smallest subnormal. A square is
    computed as x² (1 + e) - f with |e| <= u and 0 <= |f| <= t/2 (underflow), and a sum of floats
    has no underflow error. In any order each square goes through at most `terms` - 1 additions,
    so that computed >= (1 - u)^terms · sum x² - terms · t, whose factor is at least
    1 - terms · u =: 1 - a with a <= 2**-4. So sum x² <= (computed + terms · t) (1 + 2a), since
    1/(1 - a) <= 1 + 2a for a <= 1/2. Doing this in float64 rounds four times (sum, factor,
    product, root), each within 2**-53, which the factor 1 + 2**-50 outweighs; where the product
    underflows it is off by t at most, and a second terms · t is there for that. Overflow gives
    infinity, which is above the truth.

    Example:
        >>> bool(upper_norms(np.array([25.0]), 2)[0] >= 5.0)
        True
    """
    info = np.finfo(squares.dtype)
    unit, tiny = float(info.eps) / 2, float(info.smallest_subnormal)
    if terms * unit > 2.0**-4:
        raise ValueError(f"{terms} terms are too many for {squares.dtype}")
    exact = squares.astype(np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(
            np.sqrt((exact + 2 * terms * tiny) * (1 + 2 * terms * unit)) * (1 + 2.0**-50),
            np.float64,
        )


def charged_squares(norms: Floats, step: float, slack: float = 0.0) -> Ints:
    """Return the squares of a `WeightedSum`, from norms that are not below the truth.

    Args:
        norms: Norm of each user's part of the sum, in the gradient's unit.
        step: The lattice step.
        slack: The most that rounding adds to a user's influence, in the gradient's unit; also for
            users whose norm is 0.

    Proof. Division by a power of two is exact (or overflows to infinity, and saturates). The sum
    and the square are within a relative 4 · 2**-53, which 1 + 2**-50 outweighs; ceil only adds,
    and if the square underflows it is 1, the least possible charge.

    Example:
        >>> charged_squares(np.array([0.0, 3.0]), 2.0**-16).tolist()
        [0, 10]
    """
    with np.errstate(over="ignore"):
        longest = norms + slack
        units = longest / (step * DENSE_NORM_STEPS)
        squares = saturate(units * units * (1 + 2.0**-50))
    return np.maximum(squares, longest > 0)


def saturate(squares: Floats) -> Ints:
    """Return ceil, as int64; infinity, NaN and numbers that are too large become NORM_LIMIT."""
    if squares.max(initial=0.0) < NORM_LIMIT:
        return np.ceil(squares).astype(np.int64)
    fits = squares < NORM_LIMIT
    return np.where(fits, np.ceil(np.where(fits, squares, 0.0)), float(NORM_LIMIT)).astype(np.int64)
